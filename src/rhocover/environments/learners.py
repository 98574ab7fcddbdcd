"""An environment as learners want it: observations are vectors, actions are numbers.

`LearnerEnv` shows the numbers of an observation as one vector, finite parts one-hot; texts are left out. Its
actions are those of an action code. `coverage_bonus` is the reward of `CoverageReward` for whole rollouts of
several copies that share their counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rhocover.baselines.deep.networks import Rollout
from rhocover.baselines.deep.ppo import FLAT
from rhocover.checks import FloatArray
from rhocover.environments.counts import VisitCounter, read_weights
from rhocover.environments.encoding.base import ActionCode
from rhocover.environments.encoding.functions import FunctionCode
from rhocover.environments.wrappers import VisitReward
from rhocover.errors import InvalidArgumentError

FINITE = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def flat_parts(space: Any) -> list[Callable[[Any], Any]]:
    """Returns functions from an observation to the vectors of its parts."""
    if isinstance(space, spaces.Box):
        return [lambda observation: np.ravel(observation)]
    if isinstance(space, FINITE):
        return [lambda observation: spaces.flatten(space, observation)]
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [
            lambda observation, key=key, read=read: read(observation[key])
            for key, part in parts
            for read in flat_parts(part)
        ]
    return []


class LearnerEnv(gym.Wrapper):
    """Shows vectors and takes numbers; `info["flat"]` holds the vector, too."""

    def __init__(self, env: gym.Env, actions: ActionCode) -> None:
        super().__init__(env)
        self._parts, self._values = flat_parts(env.observation_space), actions.values
        if not self._parts:
            raise InvalidArgumentError.of(
                "envs", "must show numbers to a learner", f"the space {env.observation_space}"
            )
        size = self._vector(env.observation_space.sample()).size
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = spaces.Discrete(len(self._values))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        observation, info = self.env.reset(seed=seed, options=options)
        vector = self._vector(observation)
        return vector, {**info, FLAT: vector}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes the action of that number."""
        observation, reward, terminated, truncated, info = self.env.step(self._values[int(action)])
        vector = self._vector(observation)
        return vector, reward, terminated, truncated, {**info, FLAT: vector}

    def _vector(self, observation: Any) -> Any:
        return np.concatenate([read(observation) for read in self._parts]).astype(np.float32)


class CoverageBonus:
    """The reward of `CoverageReward`, uniform weights, for the pairs of codes and actions of a rollout."""

    is_episodic, is_scaled = False, False
    CAP = 10.0  # the default of `CoverageReward`

    def __init__(self, rho: float, actions: ActionCode) -> None:
        code = FunctionCode(hash)  # the counter is given keys, so its code is never asked
        self._counter = VisitCounter(code, actions, "rollouts")
        weights = read_weights(None, code, actions.num_actions)
        self._reward = VisitReward(rho, weights, self.CAP, self._counter)

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the reward of each step at the counts before it."""
        rewards, counter = np.zeros(rollout.starts.shape), self._counter
        before, after = rollout.codes.tolist(), rollout.following_codes.tolist()
        for t, n in np.ndindex(*rewards.shape):
            pair = counter.state(before[t][n]) * counter.num_actions + int(rollout.actions[t, n])
            rewards[t, n] = self._reward.of(pair)
            counter.visit(pair, counter.state(after[t][n]))
        return rewards
