"""Stopping rules: when a run may stop before its budget is used up.

A rule is evaluated each time t has grown by a factor, always at the same steps, so that an interrupted run
stops where it would have stopped anyway.

- `EveryPair(visits)`: each pair with a weight was visited at least this often.
- `CertifiedGap(gap, delta)`: the divergence is at most `gap` above the best possible; certain with a known
  model, with probability 1 - delta at all times at once with a learned one.
- `SmallModelError(error, delta)`: the mean over pairs of |P_hat - P|_1 is at most `error` with probability
  1 - delta, by the radii of confidence sets that hold at all times at once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, IntArray
from rhocover.documents import Family
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief.certificates import certify_visits, known_from
from rhocover.exploring.belief.discovery import is_discovering
from rhocover.exploring.belief.learned import LearnedModel
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import Visits, counts_of_moves
from rhocover.learning.confidence import make_confidence


@dataclass(frozen=True, eq=False)
class RunSoFar:
    """What a rule can use: the run so far, and what its explorer knew beforehand."""

    problem: Problem | None  # the true one; None if it is not known
    belief: Any
    seen: Visits
    num_steps: int

    @property
    def moves(self) -> IntArray:
        """Counts of the transitions so far."""
        return self.seen.moves

    @cached_property
    def counts(self) -> IntArray:
        """Visits of each pair of the world."""
        return self.seen.total

    @property
    def now(self) -> Any:
        """The learned belief at this step."""
        return self.belief.at(self.seen, self.num_steps)

    @cached_property
    def needed(self) -> BoolArray:
        """Which pairs of the world are known and have a weight."""
        if not isinstance(self.belief, LearnedModel):
            assert self.problem is not None
            return self.problem.coverage.support
        known, mu = known_from(self.now, self.moves), self.now.frame.mu
        result = np.zeros(self.counts.size, bool)
        result[known.pairs] = True if mu is None else mu[known.pairs] > 0
        return result

    @property
    def is_ready(self) -> bool:
        """Whether a rule can be evaluated: some pair has a weight, and discovery is not under way."""
        if isinstance(self.belief, LearnedModel) and not self.belief.settings.know_states:
            return not is_discovering(self.now) and bool(self.needed.any())
        return bool(self.needed.any())

    def gap(self, delta: float) -> float:
        """Returns the certified gap in nats; infinite while a pair with a weight is unvisited."""
        if (self.counts[self.needed] == 0).any():
            return math.inf
        if isinstance(self.belief, LearnedModel):
            return certify_visits(self.belief, self.moves, delta).gap
        assert self.problem is not None
        divergence = self.problem.coverage.divergence_unchecked(self.counts / self.num_steps)
        return divergence - self.problem.best.lower_bound

    def model_error(self, delta: float) -> float:
        """Returns a bound on the mean L1 error of estimated rows that holds with probability 1 - delta."""
        counts = counts_of_moves(self.seen.index, self.moves)
        return float(make_confidence(counts, delta).l1_radius[self.needed].mean())


class Stop(Protocol):
    """Decides when a run may stop; evaluated each time t has grown by `growth`."""

    growth: ClassVar[float]

    def is_met(self, so_far: RunSoFar) -> bool:
        """Whether the run may stop."""
        ...


@dataclass(frozen=True)
class EveryPair:
    """Stops when every pair with a weight was visited this often."""

    visits: int
    growth: ClassVar[float] = 1.02

    def __post_init__(self) -> None:
        object.__setattr__(self, "visits", checks.integer(self.visits, "visits", least=1))

    def is_met(self, so_far: RunSoFar) -> bool:
        """Whether the least visited pair has enough visits."""
        return int(so_far.counts[so_far.needed].min()) >= self.visits


@dataclass(frozen=True)
class CertifiedGap:
    """Stops when the certified gap, in nats, is at most this."""

    gap: float
    delta: float = 0.05
    growth: ClassVar[float] = 1.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", checks.positive(self.gap, "gap"))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))

    def is_met(self, so_far: RunSoFar) -> bool:
        """Whether the gap is small enough."""
        return so_far.gap(self.delta) <= self.gap


@dataclass(frozen=True)
class SmallModelError:
    """Stops when the mean L1 error of the estimated rows is at most this, with probability 1 - delta."""

    error: float
    delta: float = 0.05
    growth: ClassVar[float] = 1.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", checks.positive(self.error, "error"))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))

    def is_met(self, so_far: RunSoFar) -> bool:
        """Whether the error is small enough."""
        return so_far.model_error(self.delta) <= self.error


STOPS: dict[str, type] = {
    "every_pair": EveryPair, "certified_gap": CertifiedGap, "small_model_error": SmallModelError,
}  # fmt: skip
STOP = Family("a stopping rule", STOPS)


def check_stop(until: Any) -> Stop | None:
    """Returns the rule; refuses anything else."""
    if until is None or type(until) in STOPS.values():
        return until
    names = ", ".join(f"{kind.__name__}({dataclasses.fields(kind)[0].name})" for kind in STOPS.values())
    raise InvalidArgumentError.of("until", f"must be one of {names}", repr(until))


def next_look(until: Stop, num_steps: int, num_chains: int) -> int:
    """Returns the next step after `num_steps` at which to evaluate a rule, from a fixed sequence."""
    step = 0
    while step <= num_steps:
        step = max(step + 1, math.ceil(until.growth * step))
        step = -(-step // num_chains) * num_chains
    return step
