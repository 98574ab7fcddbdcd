"""Does PPO visit more of a field with one far reward when it is paid for coverage? Beside it: chance.

A field of 40 by 40, the start in one corner, the only reward in the other, episodes of 100 steps: FrozenLake
without holes and ice, so a stock environment. Learners are Stable-Baselines3's, with the same settings, seeds
and steps with and without `CoverageReward`; what is counted is distinct state-action pairs visited while
learning. Without it there is no reward to learn from, and PPO does what its noise tells it to. The promise is
PPO's: twice as many with every seed. DQN is shown beside it; its replay buffer holds rewards of the past.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from benchmarks import report, seeds

SIZE, NUM_STEPS, SEEDS, FACTOR = 40, 40_960, 6, 2.0
NUM_PAIRS = 4 * (SIZE**2 - 1)
RHOS = {"PPO": (None, 1.0, 2.0, 8.0), "DQN": (None, 2.0)}  # None: only counted
LEARNERS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 1024, "batch_size": 128, "n_epochs": 5, "learning_rate": 1e-3, "ent_coef": 0.01},
    "DQN": {"batch_size": 64, "learning_starts": 500, "learning_rate": 1e-3},
}


def run() -> None:
    rows = [row("uniform random", None, seeds.over(walk, [(seed,) for seed in range(SEEDS)]), None)]
    for learner in LEARNERS:
        plain = None
        for rho in RHOS[learner]:
            pairs = seeds.over(learn, [(learner, rho, seed) for seed in range(SEEDS)])
            plain = pairs if rho is None else plain
            rows.append(row(learner, rho, pairs, plain))
    least = next(r["least ratio"] for r in rows if r["learner"] == "PPO" and r["rho"] == 2.0)
    sentence = f"PPO: pairs with CoverageReward (rho = 2) / without, least of {SEEDS} seeds: {least:.2f}"
    verdicts = {f"{sentence} (>= {FACTOR:g})": least >= FACTOR}
    report.write("ppo", rows, verdicts)


def row(learner: str, rho: float | None, pairs: list[int], plain: list[int] | None) -> dict[str, Any]:
    """Returns a line of the table; ratios are seed by seed against the same learner without the reward."""
    mean, error = seeds.mean_and_error(pairs)
    ratios = [p / q for p, q in zip(pairs, plain, strict=True)] if plain else []
    return {
        "learner": learner, "rho": "-" if rho is None else rho, "steps": NUM_STEPS, "pairs": mean, "±": error,
        "share": mean / NUM_PAIRS, "mean ratio": float(np.mean(ratios)) if ratios else "-",
        "least ratio": min(ratios) if ratios else "-",
    }  # fmt: skip


def field() -> gym.Env:
    """Returns the field; the far corner is 78 moves away."""
    rows = ["S" + "F" * (SIZE - 1), *["F" * SIZE] * (SIZE - 2), "F" * (SIZE - 1) + "G"]
    return gym.make("FrozenLake-v1", desc=rows, is_slippery=False, max_episode_steps=SIZE * 5 // 2)


def learn(learner: str, rho: float | None, seed: int) -> int:
    """Returns how many pairs a learner of Stable-Baselines3 visits."""
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    env = rc.CountVisits(field()) if rho is None else rc.CoverageReward(field(), rho)
    model = getattr(stable_baselines3, learner)(
        "MlpPolicy", env, seed=seed, device="cpu", **LEARNERS[learner]
    )
    model.learn(NUM_STEPS)
    return env.visits.num_pairs


def walk(seed: int) -> int:
    """Returns how many pairs uniformly random actions visit."""
    env, rng = rc.CountVisits(field()), np.random.default_rng(seed)
    env.reset(seed=seed)
    for action in rng.integers(4, size=NUM_STEPS).tolist():
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return env.visits.num_pairs
