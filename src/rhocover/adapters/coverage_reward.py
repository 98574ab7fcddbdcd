"""A reward for other learners: visit what your data lack.

    env = rc.CoverageReward(gym.make("FrozenLake-v1"), rho=2.0)

replaces the reward by what the visit is worth for the coverage of everything visited so far: the gradient of
U_rho at the current counts, relative to its average over all visits so far (`gradients`), brought to a range
that a learner can use (`worth`). With `task_share` w the learner gets

    (1 - w) coverage reward + w task reward,

and `info` holds both parts. A learner that maximises it chases the coverage: what it visits becomes worth
less. Were there no cap, a policy that earns more than 0 on average would exist exactly as long as the
coverage of the pairs visited so far can be improved.

The reward depends on the whole past, not on the state alone, so the environment's spec says
`nondeterministic`: the same seed and actions give other rewards the second time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs

from rhocover import checks
from rhocover.adapters.counting import CountVisits, StepResult
from rhocover.adapters.pair_weights import plain, read_weights
from rhocover.adapters.worth import VisitWorth
from rhocover.checks import FloatArray


class CoverageReward(CountVisits):
    """An environment that pays for coverage; the task's own reward is kept in `info["task_reward"]`.

    `rho` in [0, inf] says how much the worst pair counts, `mu` which pairs matter: None (all pairs alike; new
    ones join as they are met), an array `[num_keys, A]`, or a function of (key, action). A visit that is
    worth `cap` times the average visit so far, or more, is paid 1. `states` and `actions` are those of
    `CountVisits`.

    >>> import gymnasium as gym, rhocover as rc
    >>> env = rc.CoverageReward(gym.make("CliffWalking-v1"))
    >>> _ = env.reset(seed=0)
    >>> [round(env.step(action)[1], 3) for action in (3, 3, 3, 3, 0)]
    [1.0, 0.0, 0.0, 0.0, 1.0]
    """

    def __init__(
        self,
        env: gym.Env,
        rho: float = 2.0,
        mu: Any = None,
        states: Any = None,
        actions: Any = None,
        *,
        cap: float = 10.0,
        task_share: float = 0.0,
    ) -> None:
        settings = {"states": plain(states), "actions": plain(actions), "cap": cap, "task_share": task_share}
        RecordConstructorArgs.__init__(self, rho=rho, mu=plain(mu), **settings)
        CountVisits.__init__(self, env, states, actions)
        self._weights = read_weights(mu, self._code, self._counter.num_actions)
        self._worth = VisitWorth(rho, self._weights, cap, self._counter)
        self._task_share = checks.probability(task_share, "task_share")

    @property
    def coverage_rho(self) -> float:
        """The order of the objective whose gradient is paid."""
        return self._worth.rho

    def weights_of(self, keys: Sequence[Hashable]) -> FloatArray:
        """Returns the weights mu of the pairs of these states, shape `[len(keys), A]`."""
        return np.array([self._weights(key) for key in keys]).reshape(len(keys), self._counter.num_actions)

    @property
    def spec(self) -> EnvSpec | None:
        """The environment's spec with this wrapper, marked as nondeterministic."""
        spec = super().spec
        if spec is not None:
            spec.nondeterministic = True
        return spec

    def step(self, action: Any) -> StepResult:
        """Steps the environment; the reward is the mix of coverage and task."""
        pair = self._trajectory.pair(self._actions.number(action))
        bonus = self._worth.reward(pair)  # before the step: a weight that is refused leaves all as it was
        observation, task, terminated, truncated, info = result = self.env.step(action)
        self._count(pair, result)
        parts = {"task_reward": float(task), "coverage_reward": bonus}
        mixed = (1 - self._task_share) * bonus + self._task_share * float(task)
        return observation, mixed, terminated, truncated, {**info, **parts}
