"""What an explorer knows of the dynamics: the whole model (`KnownModel`), or an estimate (`learned`).

A belief turns the observed transitions into the problem that an explorer plans on. It may know fewer pairs
than the world has, so it also converts: visits of the world's pairs into visits of its own pairs, and
behaviours over its own pairs into behaviours over the world's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import Behaviour, Visits

NEVER = 1 << 62


class Belief(Protocol):
    """The dynamics that an explorer plans with."""

    @property
    def problem(self) -> Problem:
        """The problem to plan on."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether a new problem should be made."""
        ...

    def renewed(self) -> Belief:
        """Returns the belief with a problem made from all observations so far."""
        ...

    @property
    def counts(self) -> IntArray:
        """How often each of its pairs had been visited when the problem was made."""
        ...

    @property
    def patience(self) -> int:
        """The most steps that a block may take before the belief is updated."""
        ...

    def observe(self, visits: Visits) -> Belief:
        """Returns the belief after the visits of a block."""
        ...

    def own(self, visits: Visits) -> Visits:
        """Returns the world's visits as those of the belief's own pairs."""
        ...

    def place(self, behaviour: Behaviour) -> Behaviour:
        """Returns a behaviour over the belief's pairs as one over the world's."""
        ...

    def spread(self, values: FloatArray) -> FloatArray:
        """Returns values of the belief's pairs as those of the world's."""
        ...

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns the arrays from which a checkpoint restores the belief."""
        ...

    def restored(self, tensors: dict[str, np.ndarray]) -> Belief:
        """Returns the belief that `tensors` were taken from."""
        ...


@dataclass(frozen=True, eq=False)
class KnownModel:
    """The true model: observations do not change it, and its pairs are the world's pairs."""

    problem: Problem
    is_due: bool = False
    patience: int = NEVER

    def renewed(self) -> KnownModel:
        """Returns the belief unchanged."""
        return self

    @property
    def counts(self) -> IntArray:
        """Zeros: the problem was made before the first step."""
        return np.zeros(self.problem.mdp.num_pairs, np.int64)

    def observe(self, visits: Visits) -> KnownModel:
        """Returns the belief unchanged."""
        return self

    def own(self, visits: Visits) -> Visits:
        """Returns the visits."""
        return visits

    def place(self, behaviour: Behaviour) -> Behaviour:
        """Returns the behaviour."""
        return behaviour

    def spread(self, values: FloatArray) -> FloatArray:
        """Returns the values."""
        return values

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns nothing."""
        return {}

    def restored(self, tensors: dict[str, np.ndarray]) -> KnownModel:
        """Returns the belief unchanged."""
        return self
