"""The uniformly random policy: each action of a state with the same probability.

The yardstick that costs nothing. It has no objective, so it stands nowhere on the rho axis; it needs no
model, so it is the same with a known and with a learned one. What it covers is the stationary
distribution of one chain: near the best on models that mix by themselves, and exponentially bad on those
that must be swum against (RiverSwim).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.explorers.tracking import LONG
from rhocover.exploring.worlds import SamplePolicy, Visits


@dataclass(frozen=True)
class UniformRandom:
    """Plays every action of a state equally often."""

    self_reliant: ClassVar[bool] = True
    keep_memory: ClassVar[bool] = True
    in_environments: ClassVar[bool] = True

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns the same block at any time; weights of one are normalised in each state."""
        return Block(SamplePolicy(np.ones(state.counts.size)), LONG, whole=True)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)
