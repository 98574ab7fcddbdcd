"""Deep exploration methods as baselines: PPO that is paid an intrinsic reward, and nothing else.

| name | reward of a step | paper |
|---|---|---|
| `ppo` | that of the task | Schulman et al. (2017), arXiv:1707.06347 |
| `ppo_rnd` | error of predicting a random network | Burda et al. (2018), arXiv:1810.12894 |
| `ppo_icm` | error of predicting the next features | Pathak et al. (2017), arXiv:1705.05363 |
| `ppo_apt` | distance to neighbours, random features | Liu and Abbeel (2021), 2103.04551; RE3, 2102.09430 |
| `ppo_e3b` | elliptical novelty within the episode | Henaff et al. (2022), arXiv:2210.05805 |
| `ppo_ngu` | kernel counts within the episode times RND | Badia et al. (2020), arXiv:2002.06038 |
| `ppo_counts` | 1/sqrt(visits of the code) | Bellemare et al. (2016), arXiv:1606.01868; Tang et al. (2017) |
| `ppo_coverage` | `CoverageReward` of this library, counts shared by all copies | |

PPO is that of Stable-Baselines3 (extra `sb3`), with a network of two layers over the numbers of an
observation. Each reward is computed for a whole rollout before PPO computes its advantages; then the reward
learns from the same rollout. torch is imported when training begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rhocover import checks

TASK, COVERAGE = "task", "coverage"
REWARDS = (TASK, "rnd", "icm", "apt", "e3b", "ngu", "counts", COVERAGE)


@dataclass(frozen=True)
class PPOExplorer:
    """PPO with an intrinsic reward: the settings of Stable-Baselines3's learner.

    `num_steps` is the length of a rollout in each of the `num_envs` copies of the environment.
    """

    reward: str = "rnd"
    num_envs: int = 8
    num_steps: int = 128
    learning_rate: float = 3e-4
    num_epochs: int = 4
    batch_size: int = 256
    entropy: float = 0.01
    discount: float = 0.99

    def __post_init__(self) -> None:
        checks.choice(self.reward, "reward", REWARDS)
        for name, least in (("num_envs", 1), ("num_steps", 2), ("num_epochs", 1), ("batch_size", 2)):
            object.__setattr__(self, name, checks.integer(getattr(self, name), name, least=least))
        for name in ("learning_rate", "entropy"):
            object.__setattr__(self, name, checks.positive(getattr(self, name), name))
        object.__setattr__(self, "discount", checks.probability(self.discount, "discount"))

    @property
    def name(self) -> str:
        """The name of the method."""
        return "ppo" if self.reward == TASK else f"ppo_{self.reward}"

    def train(
        self, make: Callable[[], Any], code: str, is_done: Callable[[], bool], seed: int, own: Any = None
    ) -> None:
        """Trains in copies made by `make` until `is_done()`; `own` is a reward made by the caller.

        The copies have vectors as observations and numbered actions. `info["flat"]` holds the observation as
        it is, and `info[code]` its code.
        """
        from rhocover.baselines.deep.ppo import train

        train(self, make, code, is_done, seed, own)


PPO_EXPLORERS = {explorer.name: explorer for explorer in map(PPOExplorer, REWARDS)}
