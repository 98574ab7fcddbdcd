"""The result of an audit: one frozen value with the counts, the figures, the best, and a verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.datasets.best import Mixing
from rhocover.datasets.tally import Tally
from rhocover.documents import plain
from rhocover.errors import Text, parse_text, short_name, short_names
from rhocover.exploring.belief.certificates import Certificate
from rhocover.files import save_tensors
from rhocover.layout import Layout
from rhocover.learning.codes import CodeDiagnosis
from rhocover.planning import Plan
from rhocover.printing import count_of, printed
from rhocover.showing import Shown

# The verdict: one sentence about a data set, for readers who know no paper.

NEAR = 1.1  # a worst ratio within this factor of the best policy's counts as equally good
NAMED = 3  # pairs named in a sentence
TOO_GOOD = -0.1  # nats: no policy is better than the best in the long run, and episode ends matter less


@dataclass(frozen=True)
class ThinPair:
    """A pair with few of the visits that it should have; a share of 1 is its target."""

    name: str
    count: int
    share: float
    best_share: float  # nan if no best policy is known

    def __str__(self) -> str:
        best = "" if math.isnan(self.best_share) else f" (the best policy: {self.best_share:.2f})"
        visits = "1 visit" if self.count == 1 else f"{self.count} visits"
        return f"{short_name(self.name)}: {visits}, {self.share:.2g} of its target{best}"


@dataclass(frozen=True)
class Met:
    """How many of the declared states were met."""

    number: int
    total: int
    noun: str = "states"

    def __str__(self) -> str:
        return f"{self.number:,} of {self.total:,} {self.noun}"


@dataclass(frozen=True)
class Extent:
    """How many pairs there are to cover, and how many of them are missing.

    `met` is None if every declared state was met, or if none were declared; in the latter case `num_known` is
    how many states are in the data.
    """

    num_pairs: int
    num_missing: int = 0
    met: Met | None = None
    num_known: int | None = None

    def __str__(self) -> str:
        text = f"all {self.num_pairs:,} pairs" if self.num_pairs > 1 else "the only pair"
        text += f" of the {self.met} that were met" if self.met else ""
        if self.num_known is None:
            return text
        known = "one state" if self.num_known == 1 else f"{self.num_known:,} states"
        return f"{text} of the {known} in the data"


def sentence(
    extent: Extent, thin: Sequence[ThinPair], worst_ratio: float, best_ratio: float, rho: float = math.inf
) -> str:
    """Returns the verdict: what is covered, the thinnest pair, what is possible, where to collect first."""
    if extent.num_missing:
        return _incomplete(extent, [pair.name for pair in thin if pair.count == 0])
    head = f"Covers {extent}"
    worst, first = thin[0], first_to_collect(thin)
    least = f"the thinnest, {short_name(worst.name)}, got {_share(worst.share)} of the visits it should have"
    said = f"{head}; {least}"
    if math.isnan(best_ratio):
        return f"{said} (worst ratio {_ratio(worst_ratio)}): collect more at {_list(first)} first."
    if worst_ratio <= NEAR * best_ratio:
        possible = f"worst ratio {_ratios(worst_ratio, best_ratio, rho)}"
        return f"{said}, about as much as the best policy would give ({possible})."
    possible = f" where the best policy would give {_share(worst.best_share)}" if worst.best_share > 0 else ""
    where = f": collect more at {_list(first)} first" if first else ""
    return f"{said}{possible} (worst ratio {_ratios(worst_ratio, best_ratio, rho)}){where}."


def unmet_words(met: Met | None) -> Text:
    """Returns a note on states that were never met and how to leave them out; "" if there are none."""
    if met is None:
        return ""
    return parse_text(
        f"{met.total - met.number:,} {met.noun} were never met. If they cannot be reached, `met_only=True` "
        "evaluates the data on those that were met, and `mu` on those with a weight."
    )


def suspicion(gap: float) -> str:
    """Returns a warning if the data are better than any policy could make them; otherwise ""."""
    if not gap < TOO_GOOD:
        return ""
    return (
        f" The data are {-gap:.2g} nats better than the best policy could be in the long run: either they "
        "are short, or rows were left out depending on their outcome, and then these results cannot be "
        "trusted."
    )


def first_to_collect(thin: Sequence[ThinPair]) -> list[str]:
    """Returns the thinnest pairs, up to the first that has as many visits as the best policy would give."""
    return [pair.name for pair in takewhile(lambda pair: not pair.share >= pair.best_share, thin)]


def _incomplete(extent: Extent, names: Sequence[str]) -> str:
    missing, total = extent.num_missing, extent.num_pairs
    verb, seen = "was" if missing == 1 else "were", f" ({extent.met} were met)" if extent.met else ""
    covered = f"Covers {total - missing:,} of {count_of(total, 'pair', ',')}{seen}"
    return f"{covered}; {missing:,} {verb} never tried: collect {_list(names, missing)} first."


def _list(names: Sequence[str], number: int | None = None) -> str:
    shown = short_names(names[:NAMED])
    rest = (len(names) if number is None else number) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if number is not None and rest > 0 else "")


def _share(share: float) -> str:
    return f"{share:.2g}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3g}"


def _ratios(worst: float, best: float, rho: float) -> str:
    what = "best achievable" if rho == math.inf else f"the best plan at rho = {rho:g}:"
    return f"{_ratio(worst)}, {what} {_ratio(best)}"


# The audit.


@dataclass(frozen=True, eq=False)
class Audit(Shown):
    """The coverage of a data set; tables are `[S, A]` over `tally.keys`.

    While a weighted pair has no visit, `worst_ratio` is infinite and so is `divergence` for rho >= 1;
    `visited_divergence` and `visited_worst_ratio` are then the figures over the visited pairs. `best` is the
    plan on the given model, or on the model observed in the data (`observed_note` describes what was left
    out of it); None without planning.
    """

    tally: Tally
    rho: float
    weights: FloatArray
    counts: IntArray
    occupancy: FloatArray  # d_hat: the counts divided by their sum
    divergence: float
    worst_ratio: float
    visited_divergence: float
    visited_worst_ratio: float
    best: Plan | None
    best_occupancy: FloatArray | None
    gap: float  # divergence minus that of the best, over its pairs: may be negative by chance; nan without
    certified: Certificate | Callable[[], Certificate | None] | None  # or how to compute `certificate`
    met: Met | None  # how many of the declared states were met; None if all were, or none declared
    mixing: Mixing
    thin: tuple[ThinPair, ...]  # the least covered pairs, thinnest first
    num_pairs: int  # weighted pairs
    num_missing: int  # those of them without a visit
    is_exact: bool  # whether the model was given
    layout: Layout | None
    observed_note: str
    verdict: str
    codes: CodeDiagnosis | None = None  # how far the codes of the states may be trusted; None without codes

    @cached_property
    def certificate(self) -> Certificate | None:
        """How far the data are from the best, with probability 1 - delta; None without a best.

        It takes longer than the rest of an audit, so it is computed when it is first asked for.
        """
        return self.certified() if callable(self.certified) else self.certified

    @property
    def is_complete(self) -> bool:
        """Whether every weighted pair was visited."""
        return self.num_missing == 0

    @property
    def coverage_text(self) -> str:
        """How many pairs are covered, such as `212 of 212 pairs`."""
        return f"{self.num_pairs - self.num_missing:,} of {count_of(self.num_pairs, 'pair', ',')}"

    @property
    def best_worst_ratio(self) -> float:
        """The worst ratio of the best plan at this rho; nan if there is none."""
        return math.nan if self.best is None else self.best.worst_ratio

    @property
    def error(self) -> FloatArray:
        """The standard error of `occupancy` as an estimate of the behaviour's long-run occupancy."""
        return self.mixing.error

    @property
    def num_steps(self) -> int:
        """How many transitions were counted."""
        return self.tally.num_steps

    def meets(self, *, worst_ratio: float) -> bool:
        """Returns whether no pair falls short by more than this factor."""
        return self.worst_ratio <= checks.positive(worst_ratio, "worst_ratio")

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the audit, ready for JSON: infinities as text, nan as None."""
        tally, mixing = self.tally, self.mixing
        numbers = {
            "source": tally.source,
            "verdict": self.verdict,
            "rho": self.rho,
            "num_steps": tally.num_steps,
            "num_episodes": tally.num_episodes,
            "num_truncated": tally.num_truncated,
            "num_jumps": tally.num_jumps,
            "num_states": tally.num_states if self.met is None else self.met.total,
            "num_states_met": len(tally.met_keys),
            "num_actions": tally.num_actions,
            "num_end_states": len(tally.end_keys),
            "num_pairs": self.num_pairs,
            "num_missing": self.num_missing,
            "divergence": self.divergence,
            "worst_ratio": self.worst_ratio,
            "visited_divergence": self.visited_divergence,
            "visited_worst_ratio": self.visited_worst_ratio,
            "best_divergence": math.nan if self.best is None else self.best.divergence,
            "best_worst_ratio": self.best_worst_ratio,
            "best_num_pairs": None if self.best is None else int(np.count_nonzero(self.best.weights)),
            "best_is_exact": self.is_exact,
            "gap": self.gap,
            "certificate": self._certificate_document,
            "certified": self.certificate and str(self.certificate),
            "autocorrelation_time": mixing.autocorrelation_time,
            "effective_steps": mixing.effective_steps,
            "is_settled": mixing.is_settled,
            "mixing": mixing.statement,
            "thin": [dataclasses.asdict(pair) for pair in self.thin],
            "observed_note": self.observed_note,
            "codes": self.codes and self.codes.document(),
            "remarks": list(tally.remarks),
        }
        return plain(numbers)

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes tables and numbers to one file (see `rhocover.files`)."""
        tensors = {
            "counts": self.counts,
            "occupancy": self.occupancy,
            "error": self.error,
            "weights": self.weights,
        }
        if self.best_occupancy is not None:
            tensors["best_occupancy"] = self.best_occupancy
        keys = [_plain_key(key) for key in self.tally.keys]
        save_tensors(path, "audit", tensors, self.summary() | {"keys": keys}, overwrite=overwrite)

    @printed
    def __str__(self) -> str:
        tally = self.tally
        episodes = "1 episode" if tally.num_episodes == 1 else f"{tally.num_episodes} episodes"
        ended = f"{episodes} ({tally.num_truncated} cut)"
        lines = [
            f"Audit of {tally.source} at rho = {self.rho:g}: {count_of(tally.num_steps, 'step')}, {ended}.",
            f"  {self.verdict}",
            f"  divergence  {self._beside(self.divergence, self._best_divergence, 'best achievable')}",
            f"  worst ratio {self._beside(self.worst_ratio, self.best_worst_ratio, self._best_words)}",
            *self._visited_lines,
            f"  certificate {self.certificate or self.no_certificate}",
            f"  error bars  {self.mixing.statement}",
        ]
        if self.observed_note:
            lines.append(f"  {self.observed_note}")
        if self.codes is not None:
            lines += [f"  {note}" for note in self.codes.lines]
        lines += [f"  {remark}" for remark in tally.remarks]
        return "\n".join([*lines, *(f"  thin        {pair}" for pair in self.thin[:3])])

    __repr__ = __str__

    @property
    def is_best_of_all(self) -> bool:
        """Whether the best refers to all pairs: an observed model lacks those that were never tried."""
        return self.best is not None and (self.is_exact or self.is_complete)

    @property
    def _certificate_document(self) -> dict[str, Any] | None:
        if self.certificate is None:
            return None
        return dataclasses.asdict(self.certificate) | {"proves_nothing": self.certificate.proves_nothing}

    @property
    def no_certificate(self) -> str:
        """Why there is no certificate, as text."""
        why = "no best was planned" if self.best is None else "no certificate was requested"
        return f"none, because {why}"

    @property
    def _visited_lines(self) -> list[str]:
        """The figures over the visited pairs, if some were not visited."""
        if self.is_complete:
            return []
        best = f"  (the best in the observed model: {self.best_worst_ratio:.6g})"
        best = "" if self.is_best_of_all else best
        best = "" if self.best is None else best
        return [f"  visited     worst ratio {self.visited_worst_ratio:.6g} over the visited pairs{best}"]

    @property
    def _best_divergence(self) -> float:
        return math.nan if self.best is None else self.best.divergence

    @property
    def _best_words(self) -> str:
        return "best achievable" if self.rho == math.inf else "that of the best plan at this rho:"

    def _beside(self, value: float, best: float, words: str) -> str:
        of = "" if math.isnan(best) or not self.is_best_of_all else f"  ({words} {best:.6g})"
        return f"{value:.6g}{of}"


def _plain_key(key: Any) -> int | str:
    """Returns a key as JSON can store it; an integer beyond 64 bits as hexadecimal text."""
    if isinstance(key, str):
        return key
    if isinstance(key, int):
        return key if key.bit_length() < 64 else hex(key)
    return str(key)
