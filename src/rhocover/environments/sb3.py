"""Coverage in Stable-Baselines3: a callback for its logs, a vector wrapper, and a replay buffer.

    model = PPO("MlpPolicy", rc.CoverageReward(env))
    model.learn(100_000, callback=rc.CoverageCallback())

The sub-environments of the training environment must be wrapped in `CountVisits` or `CoverageReward`; each
keeps its own counts, and the callback adds them up. `CoverageVecEnv` pays all sub-environments by one
density.

    env = rc.CoverageReward(env, density=rc.Neighbours())
    model = DQN("MlpPolicy", env, replay_buffer_class=rc.CoverageReplayBuffer(env))

computes the rewards of a batch when it is sampled, by the visits until then: stored rewards would be those of
the past. Stable-Baselines3 (with torch) is only imported when one of these functions is called.
"""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.datasets.tally import Tally
from rhocover.environments.counts import coverage_numbers
from rhocover.environments.densities import DensityReward, rows_of
from rhocover.environments.wrappers import read_density
from rhocover.errors import InvalidArgumentError, missing_extra

REWARDS = ("task_reward", "coverage_reward")  # the parts of the reward that CoverageReward puts in `info`
PLACE = "rhocover/"  # of the numbers in a learner's log


def CoverageCallback(rho: float | None = None, *, log_every: int = 2_048, verbose: int = 0) -> Any:
    """Returns a Stable-Baselines3 callback that logs coverage at least every `log_every` steps.

    It records, under `rhocover/`:

    - `pairs_visited`, `states_met`: how many so far;
    - `divergence`, `worst_ratio`: D_rho and max mubar/d_hat over the pairs visited so far, with the weights
      of `CoverageReward` (uniform for `CountVisits`); both may rise when new pairs are added;
    - `task_reward`, `coverage_reward`: means per step since the last record, for `CoverageReward`.

    With a density it records the density's own numbers: `visits`, and `dimension`, `worst_ratio` or those
    above; with separate densities in several sub-environments their means. With `states` beside a density,
    those above are recorded too. If `rho` is None, that of `CoverageReward` is used, and 2 for `CountVisits`.
    `callback.history` holds the same numbers, one dictionary with `steps` per record; `callback.visits` holds
    the visits at the last one. The learner decides when its log is written (PPO after a rollout, DQN after
    some episodes) and keeps the last record until then; what is left when training ends is written then.
    """
    rho = None if rho is None else checks.number(rho, "rho")
    log_every = checks.integer(log_every, "log_every", least=1)
    return _callback_class()(rho, log_every, verbose)


def CoverageVecEnv(
    venv: Any, rho: float = 2.0, mu: Any = None, *, density: Any, cap: float = 10.0, task_share: float = 0.0
) -> Any:
    """Returns a Stable-Baselines3 vector environment whose sub-environments are paid by one `density`.

    The other arguments are those of `CoverageReward`. `infos` hold both parts of the reward, `reward_of`
    relabels observations, and `coverage_numbers` returns what `CoverageCallback` logs.
    """
    kind = _vec_env_class()
    check_vec_env(venv)
    reward = DensityReward(read_density(density, venv.observation_space), rho, mu, cap=cap)
    return kind(venv, reward, checks.probability(task_share, "task_share"))


def CoverageReplayBuffer(reward: Any) -> type:
    """Returns a replay buffer class for Stable-Baselines3 whose coverage rewards are never out of date.

    `reward` is the `CoverageReward` or `CoverageVecEnv` of the learner, or a `DensityReward`. The buffer
    stores the task's rewards; when a batch is sampled, it is paid by the visits until then.
    """
    if not callable(getattr(reward, "reward_of", None)):
        expected = "must be a CoverageReward, a CoverageVecEnv or a DensityReward"
        raise InvalidArgumentError.of("reward", expected, type(reward).__name__)
    space = getattr(reward, "observation_space", None)
    buffers = _import("buffers")
    is_dict = type(space).__name__ == "Dict"
    base = buffers.DictReplayBuffer if is_dict else buffers.ReplayBuffer
    return _buffer_class(base, reward)


def _import(module: str) -> Any:
    try:
        return importlib.import_module(f"stable_baselines3.common.{module}")
    except ModuleNotFoundError as error:
        raise missing_extra("stable_baselines3", "sb3") from error


def check_vec_env(venv: Any) -> None:
    """Refuses what is not a vector environment of Stable-Baselines3."""
    remedy = "Make one with stable_baselines3.common.env_util.make_vec_env(...)."
    expected = "must be a vector environment of Stable-Baselines3"
    checks.check_instance(venv, _import("vec_env").VecEnv, "venv", expected, remedy)


@functools.cache
def _vec_env_class() -> type:
    VecEnvWrapper: Any = _import("vec_env").VecEnvWrapper

    class CoverageVecEnv(VecEnvWrapper):
        """Pays all sub-environments by one density."""

        def __init__(self, venv: Any, reward: DensityReward, task_share: float) -> None:
            super().__init__(venv)
            self._reward, self._task_share = reward, task_share

        @property
        def coverage_rho(self) -> float:
            return self._reward.rho

        def reset(self) -> Any:
            return self.venv.reset()

        def step_wait(self) -> Any:
            observations, task, dones, infos = self.venv.step_wait()
            rows = list(rows_of(observations))
            for k in np.flatnonzero(dones):  # there the observation is that of the next episode
                rows[k] = infos[k]["terminal_observation"]
            bonus = self._reward.visit(rows)
            for k, info in enumerate(infos):
                info.update(dict(zip(REWARDS, (float(task[k]), float(bonus[k])), strict=True)))
            mixed = (1 - self._task_share) * bonus + self._task_share * np.asarray(task, float)
            return observations, mixed.astype(np.float32), dones, infos

        def reward_of(self, observations: Any) -> Any:
            return self._reward.reward_of(observations)

        def coverage_numbers(self) -> dict[str, float]:
            return self._reward.numbers()

    return CoverageVecEnv


def _buffer_class(base: Any, reward: Any) -> type:
    share = getattr(reward, "_task_share", 0.0)
    is_of_pairs = getattr(reward, "_density", reward) is None

    class CoverageReplayBuffer(base):
        """Pays a batch when it is sampled; `rewards` holds the rewards of the task."""

        def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
            task = [info.get(REWARDS[0], paid) for info, paid in zip(infos, reward, strict=True)]
            super().add(obs, next_obs, action, np.array(task), done, infos)

        def _get_samples(self, batch_inds: Any, env: Any = None) -> Any:
            batch = super()._get_samples(batch_inds, None)
            bonus = self._paid(batch)
            mixed = (1 - share) * bonus[:, None] + share * batch.rewards.cpu().numpy()
            normal = {name: getattr(batch, name) for name in ("observations", "next_observations")}
            if env is not None:
                normal = {name: self._normal(part, env) for name, part in normal.items()}
            rewards = self.to_torch(self._normalize_reward(mixed.astype(np.float32), env))
            return batch._replace(rewards=rewards, **normal)

        def _paid(self, batch: Any) -> Any:
            if not is_of_pairs:
                return reward.reward_of(self._rows(batch.next_observations, self.observation_space))
            actions = self._rows(batch.actions, self.action_space)
            return reward.reward_of(self._rows(batch.observations, self.observation_space), actions)

        @staticmethod
        def _rows(tensors: Any, space: Any) -> Any:
            """Returns values of a space, which the buffer keeps with one more axis if they are numbers."""
            if isinstance(tensors, dict):
                return {name: part.cpu().numpy() for name, part in tensors.items()}
            array = tensors.cpu().numpy()
            return array.reshape(len(array), *space.shape)

        def _normal(self, tensors: Any, env: Any) -> Any:
            if isinstance(tensors, dict):
                arrays = {name: part.cpu().numpy() for name, part in tensors.items()}
                return {name: self.to_torch(part) for name, part in self._normalize_obs(arrays, env).items()}
            return self.to_torch(self._normalize_obs(tensors.cpu().numpy(), env))

    return CoverageReplayBuffer


@functools.cache
def _callback_class() -> type:
    BaseCallback: Any = _import("callbacks").BaseCallback

    class CoverageCallback(BaseCallback):
        """Logs the coverage of the training environment's visits."""

        def __init__(self, rho: float | None, log_every: int, verbose: int) -> None:
            super().__init__(verbose)
            self.history: list[dict[str, float]] = []
            self.visits: Tally | None = None
            self._rho, self._log_every, self._last = rho, log_every, 0
            self._sums, self._num = np.zeros(len(REWARDS)), 0

        def _on_training_start(self) -> None:
            self._last, env = self.num_timesteps, self.training_env
            self._counts = env.has_attr("visits")
            self._shared = getattr(env, "coverage_numbers", None)  # of a CoverageVecEnv
            if not (self._counts or self._shared or env.has_attr("coverage_numbers")):
                raise InvalidArgumentError(
                    "the training environment does not count its visits.",
                    argument="env",
                    remedy="Wrap each sub-environment in rhocover.CountVisits or rhocover.CoverageReward.",
                )
            if self._rho is None and self._counts:
                self._rho = env.get_attr("coverage_rho")[0]

        def _on_step(self) -> bool:
            paid = [[info[name] for name in REWARDS] for info in self.locals["infos"] if REWARDS[1] in info]
            self._sums += np.sum(paid, axis=0) if paid else 0.0
            self._num += len(paid)
            if self.num_timesteps - self._last >= self._log_every:
                self._record()
            return True

        def _on_training_end(self) -> None:
            if self.num_timesteps > self._last:
                self._record()
            if any(name.startswith(PLACE) for name in self.logger.name_to_value):
                self.logger.dump(self.num_timesteps)  # the learner writes its log no more

        def _record(self) -> None:
            numbers = self._numbers()
            if self._num:
                numbers |= dict(zip(REWARDS, (self._sums / self._num).tolist(), strict=True))
            for name, value in numbers.items():
                self.logger.record(f"{PLACE}{name}", value)
            self.history.append({"steps": self.num_timesteps, **numbers})
            self._last, self._num, self._sums = self.num_timesteps, 0, np.zeros(len(REWARDS))

        def _numbers(self) -> dict[str, float]:
            env = self.training_env
            each = [self._shared()] if self._shared else env.env_method("coverage_numbers")
            means = {name: float(np.mean([one[name] for one in each if name in one])) for name in each[0]}
            if not self._counts:
                return means
            assert self._rho is not None  # set when the training started
            self.visits = visits = functools.reduce(operator.add, env.get_attr("visits"))
            weights = env.env_method("weights_of", visits.keys, indices=[0])[0]
            return means | coverage_numbers(visits, self._rho, weights)

    return CoverageCallback
