"""The counting and the rewarding wrapper for vector environments; their sub-environments share the counts.

    envs = rc.CoverageRewardVector(gym.make_vec("FrozenLake-v1", num_envs=8), rho=2.0)

Which steps are visits in which autoreset mode is told in `lanes`. A step that only resets is paid nothing.
All rewards of one step are those of the counts before it, so they do not depend on the order of the
sub-environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from rhocover import checks
from rhocover.adapters.lanes import Lanes, reset_mask
from rhocover.adapters.pair_weights import plain, read_weights
from rhocover.adapters.visits import Visits
from rhocover.adapters.worth import VisitWorth

VectorResult = tuple[Any, Any, Any, Any, dict[str, Any]]


class CountVisitsVector(VectorWrapper, RecordConstructorArgs):
    """A vector environment whose visits are counted; arguments are those of `CountVisits`."""

    def __init__(self, env: VectorEnv, states: Any = None, actions: Any = None) -> None:
        RecordConstructorArgs.__init__(self, states=plain(states), actions=plain(actions))
        self._lanes = Lanes(env, states, actions)
        VectorWrapper.__init__(self, env)

    @property
    def visits(self) -> Visits:
        """What all sub-environments visited so far, as a value that later steps do not change."""
        return self._lanes.counter.visits()

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the sub-environments, or those in `options["reset_mask"]`; each begins an episode."""
        mask = reset_mask(options, self.num_envs)
        self._lanes.forget(mask)
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        self._lanes.start(observations, mask)
        return observations, infos

    def step(self, actions: Any) -> VectorResult:
        """Steps the sub-environments, and counts the steps that are visits."""
        pairs = self._lanes.pairs(actions)
        result = self.env.step(actions)
        self._lanes.step(pairs, result)
        return result


class CoverageRewardVector(CountVisitsVector):
    """A vector environment that pays for coverage; arguments are those of `CoverageReward`.

    `infos["task_reward"]` and `infos["coverage_reward"]` hold both parts, an entry for each sub-environment.
    """

    def __init__(
        self,
        env: VectorEnv,
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
        CountVisitsVector.__init__(self, env, states, actions)
        weights = read_weights(mu, self._lanes.code, self._lanes.counter.num_actions)
        self._worth = VisitWorth(rho, weights, cap, self._lanes.counter)
        self._task_share = checks.probability(task_share, "task_share")

    def step(self, actions: Any) -> VectorResult:
        """Steps the sub-environments; the rewards are the mix of coverage and task."""
        pairs = self._lanes.pairs(actions)
        bonus = np.array([self._worth.reward(pair) for pair in pairs])
        observations, tasks, terminated, truncated, infos = result = self.env.step(actions)
        self._lanes.step(pairs, result)
        task = np.array(tasks, float)
        everyone = np.ones(self.num_envs, bool)
        parts = {"task_reward": task, "_task_reward": everyone}
        parts |= {"coverage_reward": bonus, "_coverage_reward": everyone.copy()}
        mixed = (1 - self._task_share) * bonus + self._task_share * task
        return observations, mixed, terminated, truncated, {**infos, **parts}
