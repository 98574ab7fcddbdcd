"""The scope of a run in an environment: which states its coverage refers to, and which of them were met.

| states | what is known of them |
|---|---|
| bins, or weights given as an array | all of them: those that were not met count as not visited |
| numbers of a Discrete space | an upper bound on how many there are: a number need not be a state |
| from a function, or weights by a rule | nothing: there may always be more |
| bins, more than 2^62 of them | that a run can never meet all of them |

In the first case coverage is either complete or incomplete. In the others it is the coverage of the states
met so far, unless every number was met; no action is taken in a number that was met only as an end.
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
from rhocover.printing import count_of

NAMED = 20  # pairs not met that are listed by name


@dataclass(frozen=True, eq=False)
class Scope:
    """The states met with the weights of their pairs, and what is known of the others."""

    is_binned: bool
    num_met: int
    num_possible: int | None  # None: unknown
    num_ends: int  # numbers that were met only as ends of episodes
    is_declared: bool  # whether the weights of states that were not met are known
    weights: FloatArray  # of the pairs of the states met, [met * A]
    visits: IntArray  # of the same pairs
    num_beyond: int  # weighted pairs of states that were not met
    weight_beyond: float  # their total weight
    beyond_names: tuple[str, ...]  # names of the first of these pairs

    @property
    def noun(self) -> str:
        """The word for states in texts."""
        return "bins" if self.is_binned else "states"

    @property
    def is_open(self) -> bool:
        """Whether there may be unknown states that matter."""
        return not self.is_declared and self.num_met + self.num_ends != self.num_possible

    @property
    def num_weighted(self) -> int:
        """How many weighted pairs are known."""
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
        """Returns divergence and worst ratio over all weighted pairs; infinite if one has no visit."""
        weights = np.append(self.weights, self.weight_beyond)  # all pairs not met, as one without a visit
        return _figures(rho, weights, np.append(self.visits, 0))

    def visited_figures(self, rho: float) -> tuple[float, float]:
        """Returns the same over the visited pairs only; infinite if none of them has a weight."""
        return _figures(rho, np.where(self.visits > 0, self.weights, 0.0), self.visits)

    @property
    def text(self) -> str:
        """How much is covered: complete, incomplete, or so many pairs of the states met so far."""
        pairs = f"{self.num_visited} of {count_of(self.num_weighted, 'pair')}"
        if self.is_open:
            return f"{pairs} of the {self.met_text}"
        word = "incomplete" if self.num_missing else "complete"
        return f"{word} ({pairs}; {self.met_text})"

    @property
    def met_text(self) -> str:
        """How many states were met, out of how many: `25 of 30 bins met`, `37 states met so far (...)`."""
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
        return f"{count_of(self.num_met, self.noun.removesuffix('s'))} met so far ({others})"

    def document(self) -> dict[str, Any]:
        """Returns the scope, ready for JSON."""
        return {
            "states": self.noun, "num_met": self.num_met, "num_possible": self.num_possible,
            "num_ends": self.num_ends, "is_open": self.is_open, "num_weighted": self.num_weighted,
            "num_visited": self.num_visited, "num_missing": self.num_missing, "text": self.text,
        }  # fmt: skip


def make_scope(
    asked: EnvRun, met: Iterable[Hashable], ends: Iterable[Hashable], weights: FloatArray, visits: IntArray
) -> Scope:
    """Returns the scope of a run, given the keys met, those met as ends, and the pairs of the former."""
    met, possible, is_binned = list(met), asked.states.num_keys, isinstance(asked.states, BinCode)
    num_beyond, beyond = _beyond(asked, met, is_binned)
    only_ends = 0 if possible is None or is_binned else len(set(ends) - set(met))
    is_declared = possible is not None and (asked.weights is not None or (is_binned and asked.rule is None))
    names = _names_beyond(asked, set(met)) if num_beyond else ()
    return Scope(
        is_binned, len(met), possible, only_ends, is_declared, weights, visits, num_beyond, beyond, names
    )


def _names_beyond(asked: EnvRun, met: set[Hashable]) -> tuple[str, ...]:
    """Returns the names of the first weighted pairs of states that were not met."""
    weights, names = asked.weights, asked.actions.names or range(asked.actions.num_actions)
    found = (
        f"({asked.states.name(key)}, {name})"
        for row, key in enumerate(asked.states.every_key or ()) if key not in met
        for action, name in enumerate(names) if weights is None or weights[row, action] > 0
    )  # fmt: skip
    return tuple(islice(found, NAMED))


def _beyond(asked: EnvRun, met: list[Hashable], is_binned: bool) -> tuple[int, float]:
    """Returns the number and the total weight of the weighted pairs of states that were not met."""
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
