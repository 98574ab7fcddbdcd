"""Discoveries: at which step each code and each held-out cell was first seen.

Several explorers are compared by what they find in the same number of steps. What is found is counted in two
codes: that of the states (`states`), over which some of the explorers plan, and a *held-out* code, which none
of them knows. A fine grid over the part of an observation that matters is a good one.

A `Discoveries` is shared by all copies of an environment that one explorer acts in. Steps are counted over
all copies, first observations of episodes are seen at the step before them, and what is seen beyond the
budget does not count.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from rhocover.checks import IntArray
from rhocover.environments.encoding.base import StateCode
from rhocover.environments.encoding.watching import held_out_key

CODE = "rhocover_code"  # the entry of `info` with the code of the observation beside it


class Discoveries:
    """The first step of each code and of each held-out cell, within `num_steps` steps."""

    def __init__(self, num_steps: int, held_out: StateCode | None) -> None:
        self.left = num_steps
        self.states: StateCode | None = None  # set once it is fitted; what was seen before is in `waiting`
        self.waiting: list[tuple[int, Any]] = []
        self._num_steps, self._held_out = num_steps, held_out
        self._codes: dict[Hashable, int] = {}
        self._cells: dict[Hashable, int] = {}

    @property
    def codes(self) -> IntArray:
        """The steps at which a new code was seen, in increasing order."""
        return np.array(list(self._codes.values()), np.int64)

    @property
    def cells(self) -> IntArray:
        """The steps at which a new held-out cell was seen, in increasing order."""
        return np.array(list(self._cells.values()), np.int64)

    def set_states(self, states: StateCode) -> None:
        """Counts codes from now on, those of earlier observations included."""
        self.states = states
        for step, observation in self.waiting:
            self._codes.setdefault(states.key(observation), step)
        self.waiting.clear()

    def see(self, observation: Any) -> Hashable:
        """Notes an observation after the steps so far, and returns its code, None before there are codes."""
        step = self._num_steps - self.left
        if self._held_out is not None and self.left >= 0:
            self._cells.setdefault(held_out_key(self._held_out, observation), step)
        if self.states is None:
            self.waiting.append((step, copy.deepcopy(observation)))  # which an environment may overwrite
            return None
        code = self.states.key(observation)
        if self.left >= 0:
            self._codes.setdefault(code, step)
        return code


class RecordDiscoveries(gym.Wrapper):
    """Notes every observation of an environment in its `Discoveries`; nothing else is changed."""

    def __init__(self, env: gym.Env, discoveries: Discoveries) -> None:
        super().__init__(env)
        self._discoveries = discoveries

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment; the code of the first observation is in `info`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, CODE: self._discoveries.see(observation)}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment; the code of the observation is in `info`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._discoveries.left -= 1
        return observation, reward, terminated, truncated, {**info, CODE: self._discoveries.see(observation)}
