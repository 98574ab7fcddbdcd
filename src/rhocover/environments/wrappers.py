"""Wrappers that count the visits of an environment, or also replace its reward by one for coverage.

    env = rc.CountVisits(gym.make("FrozenLake-v1"))

counts and changes nothing. A pair is the observation last returned and the action taken then, as the agent
sees them. Steps that raise, and steps between the end of an episode and the next reset, are not visits.
Counts continue across episodes and seeds; a new wrapper starts at zero.

    env = rc.CoverageReward(gym.make("FrozenLake-v1"), rho=2.0)

rewards a learner for visiting the pairs that its data lack: the reward measures the effect of the visit on
the coverage of everything visited so far. With r the gradient of U_rho at the counts before the visit,
relative to its average over all visits so far (see `reward`), it is

    (min(r, cap) - 1) / (cap - 1),    between -1/(cap - 1) and 1.

- A reward of 0 means "as useful as the average visit so far": up to the cap, the rewards of a learner that
  keeps its behaviour have mean 0, so there is no incentive to end or to prolong episodes, and a value
  function can start at 0.
- It is linear in the gradient up to `cap` times the average. Above that, a single reward would outweigh
  thousands of others, so all such visits get 1; so does a weighted pair that was never visited.
- Its range does not depend on rho, mu, or how long the counts have been running.

A step that is not a visit gets 0. With `task_share` w the reward is

    (1 - w) coverage reward + w task reward,

and `info` holds both parts. A learner that maximises it follows a moving target: the pairs that it visits get
less reward the next time. Without the cap, a policy that earns more than 0 on average would exist exactly as
long as the coverage of the pairs visited so far can be improved.

The reward depends on the whole past, not on the state alone, so the environment's spec is marked
`nondeterministic`: the same seed and actions give different rewards the second time.

    envs = rc.CoverageRewardVector(gym.make_vec("FrozenLake-v1", num_envs=8), rho=2.0)

does the same for vector environments (`CountVisitsVector` only counts); the sub-environments share the
counts. `autoreset` defines which steps are visits in which mode. A step that only resets gets 0. All rewards
of one step use the counts before it, so they do not depend on the order of the sub-environments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import iterate

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray
from rhocover.datasets.tally import Tally
from rhocover.environments.autoreset import NOT_SHOWN, SubStep, autoreset_mode, reset_mask, sub_steps
from rhocover.environments.counts import (
    Trajectory,
    VisitCounter,
    coverage_numbers,
    plain,
    read_weights,
)
from rhocover.environments.densities import ONE_ACTION, DensityReward, rows_of
from rhocover.environments.densities.ellipse import Ellipse
from rhocover.environments.densities.neighbours import Neighbours
from rhocover.environments.encoding import fitted_to_copy, read_action_code, read_state_code
from rhocover.environments.encoding.base import ActionCode
from rhocover.environments.reward import VisitReward
from rhocover.errors import InvalidArgumentError, calling, inside

StepResult = tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]


class CountingWrapper(RecordConstructorArgs):
    """Base class of the wrappers of single and vector environments: a counter and its counts."""

    _counter: VisitCounter

    @property
    def visits(self) -> Tally:
        """The visits so far, as a value that later steps do not change; `audit` accepts it."""
        return self._counter.tally()

    @property
    def coverage_rho(self) -> float:
        """The order of the divergence to log, 2."""
        return 2.0

    def weights_of(self, keys: Sequence[Hashable]) -> FloatArray:
        """Returns the weights mu of the pairs of these states, shape `[len(keys), A]`: all 1."""
        return np.ones((len(keys), self._counter.num_actions))

    def coverage_numbers(self) -> dict[str, float]:
        """Returns the numbers to log, those of `CoverageCallback`: how much was visited, and how evenly."""
        visits = self.visits
        return coverage_numbers(visits, self.coverage_rho, self.weights_of(visits.keys))


class CountVisits(CountingWrapper, gym.Wrapper):
    """Counts the visits of an environment: `.visits` is a `Tally` of counts, transitions, ends and starts.

    `states` defines which observations are the same state (None for Discrete and MultiDiscrete spaces,
    `Bins(...)`, `Net(...)`, or a function; codes that are not fitted yet are fitted to a random rollout in a
    copy of the environment), `actions` which actions there are (None for all of a Discrete space, a list
    of some of them, or the levels of a Box).

    >>> import gymnasium as gym, rhocover as rc
    >>> env = rc.CountVisits(gym.make("CliffWalking-v1"))
    >>> _ = env.reset(seed=0), env.step(0), env.step(0), env.step(2)
    >>> env.visits.as_dict()
    {(12, 2): 1, (24, 0): 1, (36, 0): 1}
    """

    def __init__(self, env: gym.Env, states: Any = None, actions: Any = None) -> None:
        RecordConstructorArgs.__init__(self, states=plain(states), actions=plain(actions))
        gym.Wrapper.__init__(self, checked_environment(env))
        self._counter = make_counter(env, states, actions, (env.observation_space, env.action_space))
        self._trajectory = Trajectory(self._counter)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment; the returned observation counts as a start."""
        self._trajectory.state = None  # so that a reset that raises leaves no state behind
        observation, info = self.env.reset(seed=seed, options=options)
        self._trajectory.start(self._counter.code.key(observation))
        return observation, info

    def step(self, action: Any) -> StepResult:
        """Steps the environment and counts the visit."""
        pair = self._pairs(action)
        result = self.env.step(action)
        self._count(pair, result)
        return result

    def _pairs(self, action: Any) -> int | None:
        return self._trajectory.pair(self._counter.actions.number(action))

    def _count(self, pair: int | None, result: StepResult) -> Any:
        """Counts the visit of a step, and returns the observation that it led to; `NOT_SHOWN` if no visit."""
        observation, _, terminated, truncated, _ = result
        if pair is None:
            return NOT_SHOWN
        if terminated:
            self._trajectory.end(pair)
            self._counter.end_at(observation)
            return observation
        self._trajectory.state = None  # if this observation cannot be read, the state is unknown
        self._trajectory.move(pair, self._counter.code.key(observation), is_cut=bool(truncated))
        return observation


def make_counter(env: Any, states: Any, actions: Any, spaces: tuple[Any, Any]) -> VisitCounter:
    """Returns an empty counter of the visits of `env`, whose single environments have these spaces."""
    spec = getattr(env.unwrapped, "spec", None)
    name = type(env.unwrapped).__name__ if spec is None else spec.id
    states = fitted_to_copy(states, env)
    numbers = actions if isinstance(actions, ActionCode) else read_action_code(actions, spaces[1])
    return VisitCounter(read_state_code(states, spaces[0]), numbers, name)


def checked_environment(env: Any) -> gym.Env:
    """Returns `env` if it is a single environment."""
    if not isinstance(env, gym.Env):
        is_vector = isinstance(env, gym.vector.VectorEnv)
        remedy = "Use the wrapper whose name ends in `Vector`." if is_vector else ""
        raise InvalidArgumentError.of("env", "must be a gymnasium.Env", type(env).__name__, remedy)
    return env


# The coverage reward.


class RewardingWrapper(CountingWrapper):
    """Adds the coverage reward to a counting wrapper; must come before that wrapper in the base classes."""

    def __init__(
        self,
        env: Any,
        rho: float = 2.0,
        mu: Any = None,
        states: Any = None,
        actions: Any = None,
        *,
        density: Any = None,
        cap: float = 10.0,
        task_share: float = 0.0,
    ) -> None:
        settings = {"states": plain(states), "actions": plain(actions), "density": density}
        RecordConstructorArgs.__init__(
            self, rho=rho, mu=plain(mu), **settings, cap=cap, task_share=task_share
        )
        self._is_counting = density is None or states is not None
        counted = (states, actions) if self._is_counting else (one_state, ONE_ACTION)
        super().__init__(env, *counted)  # type: ignore[call-arg]  # of the counting wrapper
        self._task_share = checks.probability(task_share, "task_share")
        self._density: DensityReward | None = None
        if density is not None:
            density = read_density(density, self._single_space)
            self._density, mu = DensityReward(density, rho, mu, cap=cap), None
        weights = read_weights(mu, self._counter.code, self._counter.num_actions)
        self._reward = VisitReward(rho, weights, cap, self._counter)
        if self._density is not None:
            self._counter.listener = None  # nothing is paid by the counts

    @property
    def _single_space(self) -> Any:
        env: Any = self
        return getattr(env, "single_observation_space", env.observation_space)

    @property
    def visits(self) -> Tally:
        """The visits so far, as a value that later steps do not change; `audit` accepts it."""
        if self._is_counting:
            return super().visits
        raise NoVisitsError(
            "a density does not count visits of states.",
            argument="density",
            remedy="Pass `states` as well to count them, for example rhocover.Bins(8).",
        )

    @property
    def coverage_rho(self) -> float:
        """The order rho of the objective whose gradient is the reward."""
        return self._reward.rho

    def weights_of(self, keys: Sequence[Hashable]) -> FloatArray:
        """Returns the weights mu of the pairs of these states, shape `[len(keys), A]`."""
        return self._reward.weights_of(keys)

    def reward_of(self, observations: Any, actions: Any = None) -> FloatArray:
        """Returns the coverage rewards of visits by the visits so far, `[m]`; counts nothing.

        With a `density`, `observations` are those that steps led to. Otherwise `observations` are those in
        which `actions` were taken. Rewards that were stored earlier can so be replaced by current ones.
        """
        if self._density is not None:
            return self._density.reward_of(observations)
        if actions is None:
            remedy = "Without a `density` the reward is one of pairs."
            raise InvalidArgumentError.of("actions", "must be the actions taken there", "None", remedy=remedy)
        with inside("actions"):
            numbers = self._counter.actions.numbers(rows_of(actions, "actions")).tolist()
        with inside("observations"):
            keys = [self._counter.code.key(row) for row in rows_of(observations)]
        if len(keys) != len(numbers):
            expected = f"must be as many as `actions`, {len(numbers)}"
            raise InvalidArgumentError.of("observations", expected, f"{len(keys)}")
        return np.array([self._reward.of_key(*pair) for pair in zip(keys, numbers, strict=True)], float)

    def coverage_numbers(self) -> dict[str, float]:
        """Returns the numbers to log, those of `CoverageCallback`: how much was visited, and how evenly."""
        numbers = {} if self._density is None else self._density.numbers()
        return numbers | (super().coverage_numbers() if self._is_counting else {})

    def _rewarded_step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps the environment, counts the visit, and returns the mix of coverage and task reward."""
        wrapper: Any = self
        pairs = wrapper._pairs(action)
        # Before the step: if a weight is invalid, nothing has changed yet.
        bonus: Any = None if self._density is not None else self._bonus(pairs)
        observation, task, terminated, truncated, info = result = wrapper.env.step(action)
        led_to = wrapper._count(pairs, result)
        if self._density is not None:
            bonus = self._visit(self._density, led_to)
        parts = self._parts(task, bonus)
        mixed = (1 - self._task_share) * bonus + self._task_share * parts["task_reward"]
        return observation, mixed, terminated, truncated, {**info, **parts}

    def _bonus(self, pairs: Any) -> Any:
        """Returns the coverage reward of pairs, for a vector environment one per sub-environment."""
        return self._reward.of(pairs)

    def _visit(self, density: DensityReward, led_to: Any) -> Any:
        """Returns the coverage reward of the observation that a step led to, and counts it."""
        return 0.0 if led_to is NOT_SHOWN else float(density.visit([led_to])[0])

    def _parts(self, task: Any, bonus: Any) -> dict[str, Any]:
        """Returns both parts of the reward, as entries of `info`."""
        return {"task_reward": float(task), "coverage_reward": bonus}


class NoVisitsError(InvalidArgumentError, AttributeError):
    """The wrapper does not count visits; an AttributeError, so that `hasattr` says so."""


def one_state(_: Any) -> int:
    """Returns 0: the state code of a wrapper whose density counts instead."""
    return 0


def read_density(density: Any, space: Any) -> Any:
    """Returns `density`, a state code for the observation space if it is one."""
    if isinstance(density, Neighbours | Ellipse):
        return density
    with calling(states="density"):
        return read_state_code(density, space)


class CoverageReward(RewardingWrapper, CountVisits):
    """Replaces the reward by one for coverage; the task's own reward is in `info["task_reward"]`.

    `rho` in [0, inf] sets how much the worst pair counts, `mu` which pairs matter: None (all pairs equally;
    new ones are added as they are met), an array `[num_keys, A]`, or a function of (key, action). A visit
    whose gradient is at least `cap` times the average over the visits so far gets reward 1. `states` and
    `actions` are those of `CountVisits`.

    With a `density` the reward is for the observation that a step leads to instead, whatever the action:
    `Neighbours(...)`, `Ellipse(...)` or a state code; `mu` is that of `DensityReward`. Visits are then only
    counted if `states` is given.

    >>> import gymnasium as gym, rhocover as rc
    >>> env = rc.CoverageReward(gym.make("CliffWalking-v1"))
    >>> _ = env.reset(seed=0)
    >>> [round(env.step(action)[1], 3) for action in (3, 3, 3, 3, 0)]
    [1.0, 0.0, 0.0, 0.0, 1.0]
    """

    def step(self, action: Any) -> StepResult:
        """Steps the environment; the reward is the mix of coverage and task reward."""
        return self._rewarded_step(action)

    @property
    def spec(self) -> EnvSpec | None:
        """The environment's spec with this wrapper, marked as nondeterministic."""
        spec = super().spec
        if spec is not None:
            spec.nondeterministic = True
        return spec


# Vector environments.

VectorResult = tuple[Any, Any, Any, Any, dict[str, Any]]


class CountVisitsVector(CountingWrapper, VectorWrapper):
    """Counts the visits of a vector environment; the arguments are those of `CountVisits`."""

    def __init__(self, env: VectorEnv, states: Any = None, actions: Any = None) -> None:
        RecordConstructorArgs.__init__(self, states=plain(states), actions=plain(actions))
        self._mode = autoreset_mode(checked_vector(env))
        VectorWrapper.__init__(self, env)
        spaces = env.single_observation_space, env.single_action_space
        self._counter = make_counter(env, states, actions, spaces)
        self._trajectories = [Trajectory(self._counter) for _ in range(env.num_envs)]
        self._was_over = np.zeros(env.num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets all sub-environments, or those in `options["reset_mask"]`; each begins an episode."""
        mask = reset_mask(options, self.num_envs)
        self._forget(mask)
        observations, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        each = zip(self._trajectories, iterate(self.env.observation_space, observations), mask, strict=True)
        begun = [
            (trajectory, self._counter.code.key(shown)) for trajectory, shown, is_reset in each if is_reset
        ]
        for trajectory, key in begun:
            trajectory.start(key)
        return observations, infos

    def step(self, actions: Any) -> VectorResult:
        """Steps the sub-environments and counts the steps that are visits."""
        pairs = self._pairs(actions)
        result = self.env.step(actions)
        self._count(pairs, result)
        return result

    def _pairs(self, actions: Any) -> list[int | None]:
        """Returns the pair that each action would visit; None for sub-environments that would visit none."""
        each = zip(self._trajectories, iterate(self.env.action_space, actions), strict=True)
        number = self._counter.actions.number
        return [None if one.state is None else one.pair(number(action)) for one, action in each]

    def _count(self, pairs: Sequence[int | None], result: VectorResult) -> list[SubStep | None]:
        """Counts the visits of a step, and the starts of the episodes that it began; returns the visits."""
        observations, _, terminated, truncated, infos = result
        over, was_over = np.logical_or(terminated, truncated), self._was_over
        self._forget(np.ones_like(over))  # if an observation cannot be read, the states are unknown
        shown = list(iterate(self.env.observation_space, observations))
        steps = sub_steps(self._mode, was_over, shown, over, infos)
        keys = [self._keys(*each) for each in zip(pairs, steps, terminated, strict=True)]
        for k, (trajectory, pair) in enumerate(zip(self._trajectories, pairs, strict=True)):
            last, first = keys[k]
            if pair is not None and terminated[k]:
                trajectory.end(pair)
                self._counter.end_at(steps[k].led_to)
            elif pair is not None:
                trajectory.move(pair, last, is_cut=bool(truncated[k]))
            if first is not NOT_SHOWN:
                trajectory.start(first)
        self._was_over = over
        return [None if pair is None else step for pair, step in zip(pairs, steps, strict=True)]

    def _keys(self, pair: int | None, step: SubStep, terminated: bool) -> tuple[Hashable, Hashable]:
        """Returns the keys of the state that a step led to and of the episode start, `NOT_SHOWN` if none."""
        key = self._counter.code.key
        last = NOT_SHOWN if pair is None or terminated else key(step.last)
        return last, NOT_SHOWN if step.begins is NOT_SHOWN else key(step.begins)

    def _forget(self, mask: BoolArray) -> None:
        """Sets the state of the masked sub-environments to None until their next start."""
        for k in np.flatnonzero(mask):
            self._trajectories[k].state = None
        self._was_over = self._was_over & ~mask


class CoverageRewardVector(RewardingWrapper, CountVisitsVector):
    """Replaces the rewards of a vector environment by ones for coverage; arguments as in `CoverageReward`.

    `infos["task_reward"]` and `infos["coverage_reward"]` hold both parts, one entry per sub-environment.
    """

    def step(self, actions: Any) -> VectorResult:
        """Steps the sub-environments; the rewards are the mix of coverage and task reward."""
        return self._rewarded_step(actions)

    def _bonus(self, pairs: Sequence[int | None]) -> FloatArray:
        return np.array([self._reward.of(pair) for pair in pairs])

    def _visit(self, density: DensityReward, led_to: Sequence[SubStep | None]) -> FloatArray:
        visited = [k for k, step in enumerate(led_to) if step is not None]
        bonus = np.zeros(len(led_to))
        bonus[visited] = density.visit([step.last for step in led_to if step is not None])
        return bonus

    def _parts(self, task: Any, bonus: FloatArray) -> dict[str, Any]:
        everyone = np.ones(self.num_envs, bool)
        parts = {"task_reward": np.array(task, float), "_task_reward": everyone}
        return parts | {"coverage_reward": bonus, "_coverage_reward": everyone.copy()}


def checked_vector(env: Any) -> VectorEnv:
    """Returns `env` if it is a vector environment."""
    single = "For a single environment, use the wrapper of the same name without `Vector`."
    checks.check_instance(env, VectorEnv, "env", "must be a gymnasium.vector.VectorEnv", single)
    return env
