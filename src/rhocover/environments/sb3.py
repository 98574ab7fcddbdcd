"""A callback that records coverage in the logs of Stable-Baselines3.

    model = PPO("MlpPolicy", rc.CoverageReward(env))
    model.learn(100_000, callback=rc.CoverageCallback())

The sub-environments of the training environment must be wrapped in `CountVisits` or `CoverageReward`; each
keeps its own counts, and the callback adds them up. Stable-Baselines3 (with torch) is only imported when a
callback is created.
"""

from __future__ import annotations

import functools
import importlib
import operator
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidArgumentError, missing_extra

REWARDS = ("task_reward", "coverage_reward")  # the parts of the reward that CoverageReward puts in `info`


def CoverageCallback(rho: float | None = None, *, log_every: int = 2_048, verbose: int = 0) -> Any:
    """Returns a Stable-Baselines3 callback that logs coverage at least every `log_every` steps.

    It records, under `rhocover/`:

    - `pairs_visited`, `states_met`: how many so far;
    - `divergence`, `worst_ratio`: D_rho and max mubar/d_hat over the pairs visited so far, with the weights
      of `CoverageReward` (uniform for `CountVisits`); both may rise when new pairs are added;
    - `task_reward`, `coverage_reward`: means per step since the last record, for `CoverageReward`.

    If `rho` is None, that of `CoverageReward` is used, and 2 for `CountVisits`. `callback.history` holds the
    same numbers, one dictionary with `steps` per record; `callback.visits` holds the visits at the last one.
    """
    rho = None if rho is None else checks.number(rho, "rho")
    log_every = checks.integer(log_every, "log_every", least=1)
    return _callback_class()(rho, log_every, verbose)


def coverage_numbers(visits: Tally, rho: float, weights: Any) -> dict[str, float]:
    """Returns the numbers that are logged; `weights` is `[S, A]` for the keys of the visits."""
    numbers: dict[str, float] = {"pairs_visited": visits.num_pairs, "states_met": len(visits.keys)}
    if weights[visits.counts > 0].any():  # coverage is undefined as long as no weighted pair was visited
        numbers["divergence"] = visits.divergence(rho, weights)
        numbers["worst_ratio"] = visits.worst_ratio(weights)
    return numbers


@functools.cache
def _callback_class() -> type:
    try:
        BaseCallback: Any = importlib.import_module("stable_baselines3.common.callbacks").BaseCallback
    except ModuleNotFoundError as error:
        raise missing_extra("stable_baselines3", "sb3") from error

    class CoverageCallback(BaseCallback):
        """Logs the coverage of the training environment's visits."""

        def __init__(self, rho: float | None, log_every: int, verbose: int) -> None:
            super().__init__(verbose)
            self.history: list[dict[str, float]] = []
            self.visits: Tally | None = None
            self._rho, self._log_every, self._last = rho, log_every, 0
            self._sums, self._num = np.zeros(len(REWARDS)), 0

        def _on_training_start(self) -> None:
            self._last = self.num_timesteps
            if not self.training_env.has_attr("visits"):
                raise InvalidArgumentError(
                    "the training environment does not count its visits.",
                    argument="env",
                    remedy="Wrap each sub-environment in rhocover.CountVisits or rhocover.CoverageReward.",
                )
            if self._rho is None:
                has_rho = self.training_env.has_attr("coverage_rho")
                self._rho = self.training_env.get_attr("coverage_rho")[0] if has_rho else 2.0

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

        def _record(self) -> None:
            assert self._rho is not None  # set when the training started
            env = self.training_env
            self.visits = visits = functools.reduce(operator.add, env.get_attr("visits"))
            weights = env.env_method("weights_of", visits.keys, indices=[0])[0]
            numbers = coverage_numbers(visits, self._rho, weights)
            if self._num:
                numbers |= dict(zip(REWARDS, (self._sums / self._num).tolist(), strict=True))
            for name, value in numbers.items():
                self.logger.record(f"rhocover/{name}", value)
            self.history.append({"steps": self.num_timesteps, **numbers})
            self._last, self._num, self._sums = self.num_timesteps, 0, np.zeros(len(REWARDS))

    return CoverageCallback
