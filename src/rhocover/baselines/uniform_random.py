"""The uniformly random policy: each action of a state with the same probability.

The simplest baseline, which needs no computation. It has no objective, so it has no place on the rho axis; it
needs no model, so it is the same with a known and with a learned one. It covers the stationary distribution
of one chain: near the best on models that mix by themselves, and exponentially bad on models with a drift to
overcome (RiverSwim).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover.exploring.explorers import Block, CountsOnly, State
from rhocover.exploring.explorers.tracking import LONG
from rhocover.exploring.worlds import SamplePolicy


@dataclass(frozen=True)
class UniformRandom(CountsOnly):
    """Plays every action of a state with the same probability."""

    self_reliant: ClassVar[bool] = True
    keep_memory: ClassVar[bool] = True
    in_environments: ClassVar[bool] = True

    def policy(self, state: State) -> Block:
        """Returns the same block at any time; the weights, all 1, are normalised in each state."""
        return Block(SamplePolicy(np.ones(state.counts.size)), LONG, whole=True)
