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
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.autoreset import Lanes, reset_mask
from rhocover.environments.counts import Trajectory, VisitCounter, Visits, plain, read_weights
from rhocover.environments.encoding import read_action_code, read_state_code
from rhocover.environments.reward import VisitWorth
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
            "Use the wrapper of the same name with `Vector`." if isinstance(env, gym.vector.VectorEnv) else ""
        )
        raise InvalidArgumentError.of("env", "must be a gymnasium.Env", type(env).__name__, way_out)
    return env


# A reward for other learners: visit what your data lack.
#
#     env = rc.CoverageReward(gym.make("FrozenLake-v1"), rho=2.0)
#
# replaces the reward by what the visit is worth for the coverage of everything visited so far: the gradient
# of U_rho at the current counts, relative to its average over all visits so far (`gradients`), brought to a
# range that a learner can use (`worth`). With `task_share` w the learner gets
#
#     (1 - w) coverage reward + w task reward,
#
# and `info` holds both parts. A learner that maximises it chases the coverage: what it visits becomes worth
# less. Were there no cap, a policy that earns more than 0 on average would exist exactly as long as the
# coverage of the pairs visited so far can be improved.
#
# The reward depends on the whole past, not on the state alone, so the environment's spec says
# `nondeterministic`: the same seed and actions give other rewards the second time.


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


# The counting and the rewarding wrapper for vector environments; their sub-environments share the counts.
#
#     envs = rc.CoverageRewardVector(gym.make_vec("FrozenLake-v1", num_envs=8), rho=2.0)
#
# Which steps are visits in which autoreset mode is told in `lanes`. A step that only resets is paid
# nothing. All rewards of one step are those of the counts before it, so they do not depend on the order of
# the sub-environments.

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
