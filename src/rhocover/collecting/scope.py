"""What the coverage of a run in an environment is about: which states there are, and which were met.

| states | what is known of them |
|---|---|
| bins, or weights given as an array | all of them: those that were not met count as not visited |
| numbers of a Discrete space | how many there can be at most: a number need not be a state |
| what a function says, weights by a rule | nothing: there may always be others |
| bins, more than 2^62 of them | that nobody will ever meet them all |

In the first case coverage is complete or it is not. In the others it is coverage of the states met so far,
unless every number was met; a number that was only met where episodes end is no state to act in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.collecting.env_run import EnvRun
from rhocover.coverage import Coverage
from rhocover.environments.encoding import BinCode

NAMED = 20  # pairs that were not met


@dataclass(frozen=True, eq=False)
class Scope:
    """The states met with the weights of their pairs, and what is known of the others."""

    is_binned: bool
    num_met: int
    num_possible: int | None  # None: nobody knows
    num_ends: int  # numbers that were met as ends of episodes alone
    is_declared: bool  # whether the weights of states that were not met are known
    weights: FloatArray  # of the pairs of the states met, [met * A]
    visits: IntArray  # the same
    num_beyond: int  # pairs with a weight of states that were not met
    weight_beyond: float  # in all
    beyond_names: tuple[str, ...]  # of the first of these pairs

    @property
    def noun(self) -> str:
        """What states are called."""
        return "bins" if self.is_binned else "states"

    @property
    def is_open(self) -> bool:
        """Whether there may be states that matter and of which nothing is known."""
        return not self.is_declared and self.num_met + self.num_ends != self.num_possible

    @property
    def num_weighted(self) -> int:
        """How many pairs with a weight are known of."""
        return int(np.count_nonzero(self.weights)) + self.num_beyond

    @property
    def num_visited(self) -> int:
        """How many of them were visited."""
        return int(np.count_nonzero(self.visits[self.weights > 0]))

    @property
    def num_missing(self) -> int:
        """How many of them were not."""
        return self.num_weighted - self.num_visited

    def figures(self, rho: float) -> tuple[float, float]:
        """Returns divergence and worst ratio over all pairs with a weight; infinite where one is missing."""
        weights = np.append(self.weights, self.weight_beyond)  # what was not met is one pair without a visit
        return _figures(rho, weights, np.append(self.visits, 0))

    def visited_figures(self, rho: float) -> tuple[float, float]:
        """Returns the same over the visited pairs alone; infinite if none of them has a weight."""
        return _figures(rho, np.where(self.visits > 0, self.weights, 0.0), self.visits)

    @property
    def text(self) -> str:
        """How much is covered, of what: complete, incomplete, or of the states met so far."""
        pairs = f"{self.num_visited} of {self.num_weighted} pairs"
        if self.is_open:
            return f"{pairs} of the {self.met_text}"
        word = "incomplete" if self.num_missing else "complete"
        return f"{word} ({pairs}; {self.met_text})"

    @property
    def met_text(self) -> str:
        """How many states were met, and of how many: `25 of 30 bins met`, `37 states met so far (...)`."""
        ends = f", {self.num_ends} of them met only as ends of episodes" if self.num_ends else ""
        if not self.is_open and self.num_possible is not None:
            return f"{self.num_met + self.num_ends} of {self.num_possible} {self.noun} met{ends}"
        others = (
            "there are more than can be numbered"
            if self.is_binned
            else "whether there are others is not known"
        )
        if self.num_possible is not None:
            whose = "are" if self.is_binned else "may be"
            others = f"there {whose} {self.num_possible}{ends}"
        return f"{self.num_met} {self.noun} met so far ({others})"

    def document(self) -> dict[str, Any]:
        """Returns it ready for JSON."""
        return {
            "states": self.noun, "num_met": self.num_met, "num_possible": self.num_possible,
            "num_ends": self.num_ends, "is_open": self.is_open, "num_weighted": self.num_weighted,
            "num_visited": self.num_visited, "num_missing": self.num_missing, "text": self.text,
        }  # fmt: skip


def make_scope(
    asked: EnvRun, met: Iterable[Hashable], ends: Iterable[Hashable], weights: FloatArray, visits: IntArray
) -> Scope:
    """Returns the scope of a run: the keys met, those met as ends, and the pairs of those met `[met * A]`."""
    met, possible, is_binned = list(met), asked.states.num_keys, isinstance(asked.states, BinCode)
    num_beyond, beyond = _beyond(asked, met, is_binned)
    only_ends = 0 if possible is None or is_binned else len(set(ends) - set(met))
    is_declared = possible is not None and (asked.weights is not None or (is_binned and asked.rule is None))
    names = _names_beyond(asked, set(met)) if num_beyond else ()
    return Scope(
        is_binned, len(met), possible, only_ends, is_declared, weights, visits, num_beyond, beyond, names
    )


def _names_beyond(asked: EnvRun, met: set[Hashable]) -> tuple[str, ...]:
    """Returns the names of the first pairs with a weight of states that were not met."""
    weights, names = asked.weights, asked.actions.names or range(asked.actions.num_actions)
    found = (
        f"({asked.states.name(key)}, {name})"
        for row, key in enumerate(asked.states.every_key or ()) if key not in met
        for action, name in enumerate(names) if weights is None or weights[row, action] > 0
    )  # fmt: skip
    return tuple(islice(found, NAMED))


def _beyond(asked: EnvRun, met: list[Hashable], is_binned: bool) -> tuple[int, float]:
    """Returns how many pairs with a weight belong to states that were not met, and how much they weigh."""
    keys = asked.states.every_key
    if asked.rule is not None or keys is None:
        return 0, 0.0
    if asked.weights is None:
        num = (len(keys) - len(met)) * asked.actions.num_actions if is_binned else 0
        return num, float(num)
    left = asked.weights.copy()
    left[[keys.index(key) for key in met]] = 0.0  # type: ignore[arg-type]
    return int(np.count_nonzero(left)), float(left.sum())


def _figures(rho: float, weights: FloatArray, visits: IntArray) -> tuple[float, float]:
    if not weights.any():
        return np.inf, np.inf
    coverage, d_hat = Coverage(rho, weights), visits / max(int(visits.sum()), 1)
    return coverage.divergence(d_hat), coverage.worst_ratio(d_hat)
