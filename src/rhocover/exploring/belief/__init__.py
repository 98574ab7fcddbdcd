"""What is known of the dynamics: everything (`KnownModel`), or what was seen so far (`learned`).

A belief turns what was observed into the problem that an explorer plans on. It may know fewer pairs than
the world has, so it also translates: visits of the world into visits of its own pairs, and behaviours back.
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
    """What an explorer takes the dynamics to be."""

    @property
    def problem(self) -> Problem:
        """The problem to plan on now."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether it is time for a new problem."""
        ...

    def renewed(self) -> Belief:
        """Returns the belief with the problem of now."""
        ...

    @property
    def counts(self) -> IntArray:
        """Visits of its pairs when the problem was made."""
        ...

    @property
    def patience(self) -> int:
        """How many steps a block may take before the belief wants to look again."""
        ...

    def observe(self, visits: Visits) -> Belief:
        """Returns the belief after these visits of a block."""
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
        """Returns what a checkpoint must hold to make the belief again."""
        ...

    def restored(self, tensors: dict[str, np.ndarray]) -> Belief:
        """Returns the belief that `tensors` came from."""
        ...


@dataclass(frozen=True, eq=False)
class KnownModel:
    """The model itself: observations change nothing, and its pairs are the world's."""

    problem: Problem
    is_due: bool = False
    patience: int = NEVER

    def renewed(self) -> KnownModel:
        """Returns the belief unchanged."""
        return self

    @property
    def counts(self) -> IntArray:
        """None: the problem was made before the first step."""
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
