"""Reward-free planning: what a data set is worth to someone who is told the reward afterwards.

The data are collected first; only then a reward r in [0, 1]^n is named (Jin et al. 2020), planned for on the
model estimated from the data, and the policy is played in the true model (`trials`). Which rewards?

- Two kinds at random: uniform on [0, 1]^n, where most mistakes average out, and sparse ones, 1 at one to
  three pairs and 0 elsewhere, where a few rows decide. They depend on the seed and the number of pairs
  alone, so two data sets are judged by the same rewards.
- The worst that search finds (`worst_reward`): a lower bound on the supremum over rewards.

No reward loses more than `upper_bound` (`regret_bound`): proven, and often several times the worst found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.learning.regret_bound import regret_bound
from rhocover.learning.trials import Trial, make_trials
from rhocover.learning.worst_reward import worst_reward
from rhocover.mdp import MDP, check_mdp

LEAST_SMOOTHING = 1e-12  # below it the estimate falls apart in float64, too
MOST_REWARDED = 3  # pairs that a sparse reward pays for


@dataclass(frozen=True, eq=False)
class PlanningRegret:
    """Average reward a step that is lost by planning on the estimate, for rewards in [0, 1]^n.

    `worst` and `sparse_worst` are the largest among the random rewards; `adversarial` is the largest found
    by search, so at least as large as both. The supremum is between `adversarial` and `upper_bound`.
    """

    mean: float  # over uniform rewards
    standard_error: float
    worst: float
    sparse_mean: float  # over rewards of 1 at one to three pairs
    sparse_standard_error: float
    sparse_worst: float
    adversarial: float
    adversarial_reward: FloatArray  # [n]
    upper_bound: float  # no reward loses more
    num_rewards: int  # of each kind


def planning_regret(
    truth: MDP, transitions: Any, *, num_rewards: int = 100, seed: int = 0, smoothing: float = 0.5
) -> PlanningRegret:
    """Returns what planning on the estimate from `transitions` `[n, S]` costs in `truth`.

    `num_rewards` of each kind are drawn. `truth` must be communicating and `smoothing` positive.
    """
    num_rewards = checks.integer(num_rewards, "num_rewards", least=2, most=10**6)
    generator = np.random.default_rng(checks.seed(seed))
    trials = make_trials(check_mdp(truth, "truth"), transitions, smoothing)
    if smoothing < LEAST_SMOOTHING:
        raise InvalidArgumentError(f"`smoothing` must be at least {LEAST_SMOOTHING:g}, got {smoothing:g}.")
    uniform = [trials.of(generator.random(truth.num_pairs)) for _ in range(num_rewards)]
    sparse = [trials.of(sparse_reward(generator, truth.num_pairs)) for _ in range(num_rewards)]
    found = worst_reward(trials, [*uniform, *sparse])
    return PlanningRegret(
        *_summary(uniform), *_summary(sparse),
        adversarial=found.regret, adversarial_reward=frozen(found.reward),
        upper_bound=regret_bound(trials), num_rewards=num_rewards,
    )  # fmt: skip


def sparse_reward(generator: np.random.Generator, num_pairs: int) -> FloatArray:
    """Returns a reward `[n]` of 1 at one to three pairs and 0 elsewhere."""
    size = min(num_pairs, int(generator.integers(1, MOST_REWARDED + 1)))
    reward = np.zeros(num_pairs)
    reward[generator.choice(num_pairs, size, replace=False)] = 1.0
    return reward


def _summary(trials: list[Trial]) -> tuple[float, float, float]:
    """Returns the mean regret, its standard error, and the largest."""
    regrets = np.array([trial.regret for trial in trials])
    error = regrets.std(ddof=1) / np.sqrt(regrets.size)
    return float(regrets.mean()), float(error), float(regrets.max())
