"""One plain sentence about a data set, for someone who has read no paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

NEAR = 1.1  # a worst ratio within this factor of the best policy's is as good as it gets
NAMED = 3  # pairs in a sentence
TOO_GOOD = -0.1  # nats: no policy is better than the best in the long run, and ends of episodes weigh less


@dataclass(frozen=True)
class ThinPair:
    """A pair that got few of the visits it should have; a share of 1 is its due."""

    name: str
    count: int
    share: float
    best_share: float  # nan where no best policy is known

    def __str__(self) -> str:
        best = "" if math.isnan(self.best_share) else f" (the best policy: {self.best_share:.2f})"
        visits = "1 visit" if self.count == 1 else f"{self.count} visits"
        return f"{self.name}: {visits}, {self.share:.2g} of its due{best}"


@dataclass(frozen=True)
class Met:
    """How many of the states that there are were met, where somebody said how many there are."""

    number: int
    total: int
    noun: str = "states"

    def __str__(self) -> str:
        return f"{self.number:,} of {self.total:,} {self.noun}"


def sentence(
    num_pairs: int, num_missing: int, thin: Sequence[ThinPair], worst_ratio: float, best_ratio: float,
    rho: float = math.inf, met: Met | None = None, num_known: int | None = None,
) -> str:  # fmt: skip
    """Returns what is covered, what is thinnest, what would be possible, and where to collect first.

    `met` is None where every state was met that there is, or nobody knows which there are; then `num_known`
    is how many states the data shows.
    """
    if num_missing:
        return _incomplete(num_pairs, num_missing, [pair.name for pair in thin if pair.count == 0], met)
    head = f"Covers all {num_pairs:,} pairs" if num_pairs > 1 else "Covers the one pair there is"
    head += f" of the {met} that were met" if met else ""
    if num_known is not None:
        head += (
            " of the one state in the data" if num_known == 1 else f" of the {num_known:,} states in the data"
        )
    worst, first = thin[0], first_to_collect(thin)
    said = f"{head}; the thinnest, {worst.name}, got {_share(worst.share)} of the visits it should have"
    if math.isnan(best_ratio):
        return f"{said} (worst ratio {_ratio(worst_ratio)}): collect more at {_list(first)} first."
    if worst_ratio <= NEAR * best_ratio:
        possible = f"worst ratio {_ratios(worst_ratio, best_ratio, rho)}"
        return f"{said}, about as much as the best policy would give ({possible})."
    possible = f" where the best policy would give {_share(worst.best_share)}" if worst.best_share > 0 else ""
    where = f": collect more at {_list(first)} first" if first else ""
    return f"{said}{possible} (worst ratio {_ratios(worst_ratio, best_ratio, rho)}){where}."


def unmet_words(met: Met | None) -> str:
    """Returns how to judge data by what it met; "" where it met everything."""
    if met is None:
        return ""
    return (
        f"{met.total - met.number:,} {met.noun} were never met. If nothing leads there, met_only=True judges "
        "the data by those that were, and `mu` by those with a weight."
    )


def suspicion(gap: float) -> str:
    """Returns a sentence where the data is better than any policy could make it; "" where it is not."""
    if not gap < TOO_GOOD:
        return ""
    return (
        f" It is {-gap:.2g} nats better than the best policy could be in the long run: it is short, or "
        "rows were left out by what happened in them, and then nothing here can be trusted."
    )


def first_to_collect(thin: Sequence[ThinPair]) -> list[str]:
    """Returns the thinnest pairs, up to the first that has what the best policy would give it."""
    return [pair.name for pair in takewhile(lambda pair: not pair.share >= pair.best_share, thin)]


def _incomplete(num_pairs: int, num_missing: int, names: Sequence[str], met: Met | None) -> str:
    verb, seen = "was" if num_missing == 1 else "were", f" ({met} were met)" if met else ""
    covered = f"Covers {num_pairs - num_missing:,} of {num_pairs:,} pairs{seen}"
    return f"{covered}; {num_missing:,} {verb} never tried: collect {_list(names, num_missing)} first."


def _list(names: Sequence[str], number: int | None = None) -> str:
    shown = list(names[:NAMED])
    rest = (len(names) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if number is not None and rest > 0 else "")


def _share(share: float) -> str:
    return f"{share:.2g}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3g}"


def _ratios(worst: float, best: float, rho: float) -> str:
    what = "best achievable" if rho == math.inf else f"the best plan at rho = {rho:g}:"
    return f"{_ratio(worst)}, {what} {_ratio(best)}"
