"""A wrapper that counts and changes nothing.

    env = rc.CountVisits(gym.make("FrozenLake-v1"))

It sees what the agent sees: a pair is the observation last returned and the action then taken. Steps that
raise, and steps between an end and the next reset, are no visits. Counts outlive episodes and seeds; a new
wrapper starts from nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from rhocover.adapters.codes import read_action_code, read_state_code
from rhocover.adapters.counter import Trajectory, VisitCounter
from rhocover.adapters.pair_weights import plain
from rhocover.adapters.visits import Visits
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError

StepResult = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class CountVisits(gym.Wrapper, RecordConstructorArgs):
    """An environment whose visits are counted: `.visits` holds counts, moves, ends and starts.

    `states` says which observations are the same state (None for Discrete and MultiDiscrete spaces,
    `Bins(...)`, or a function), `actions` which actions there are (None for Discrete ones, otherwise the
    levels of a Box).

    >>> import gymnasium as gym, rhocover as rc
    >>> env = rc.CountVisits(gym.make("CliffWalking-v1"))
    >>> _ = env.reset(seed=0), env.step(0), env.step(0), env.step(2)
    >>> env.visits.as_dict()
    {(12, 2): 1, (24, 0): 1, (36, 0): 1}
    """

    def __init__(self, env: gym.Env, states: Any = None, actions: Any = None) -> None:
        RecordConstructorArgs.__init__(self, states=plain(states), actions=plain(actions))
        gym.Wrapper.__init__(self, checked_environment(env))
        self._code = read_state_code(states, env.observation_space)
        self._actions = read_action_code(actions, env.action_space)
        self._counter = VisitCounter(len(self._actions.values))
        self._trajectory = Trajectory(self._counter)

    @property
    def visits(self) -> Visits:
        """What was visited so far, as a value that later steps do not change."""
        return self._counter.visits()

    def weights_of(self, keys: Sequence[Hashable]) -> FloatArray:
        """Returns the weights mu of the pairs of these states, shape `[len(keys), A]`: all 1."""
        return np.ones((len(keys), self._counter.num_actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment; its observation is a start."""
        self._trajectory.state = None  # so that a reset that raises leaves no state behind
        observation, info = self.env.reset(seed=seed, options=options)
        self._trajectory.start(self._code.key(observation))
        return observation, info

    def step(self, action: Any) -> StepResult:
        """Steps the environment, and counts it."""
        pair = self._trajectory.pair(self._actions.number(action))
        result = self.env.step(action)
        self._count(pair, result)
        return result

    def _count(self, pair: int | None, result: StepResult) -> None:
        observation, _, terminated, truncated, _ = result
        if pair is None:
            return
        if terminated:
            self._trajectory.end(pair)
            return
        self._trajectory.state = None  # if this observation cannot be read, nobody knows where we are
        self._trajectory.move(pair, self._code.key(observation), is_cut=bool(truncated))


def checked_environment(env: Any) -> gym.Env:
    """Returns `env` if it is a single environment."""
    if not isinstance(env, gym.Env):
        way_out = (
            " Use the wrapper of the same name with `Vector`."
            if isinstance(env, gym.vector.VectorEnv)
            else ""
        )
        raise InvalidArgumentError(f"`env` must be a gymnasium.Env, got {type(env).__name__}.{way_out}")
    return env
