"""What does a density reward add to PPO? Processor time with and without `Neighbours(k=16)`, as a ratio.

PPO is Stable-Baselines3's with its own settings, on environments with 1 to 4 numbers per observation; the
reward of the task is counted with both. One thread each, in turn, the least of three rounds.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from benchmarks import report

STEPS, ROUNDS, BAR = 20_480, 3, 1.25
WORLDS = {1: ("CartPole-v1", [0]), 2: ("MountainCar-v0", [0, 1]), 4: ("CartPole-v1", [0, 1, 2, 3])}


def make(name: str, of: list[int]) -> gym.Env:
    """Returns an environment that shows some of its numbers."""
    env = gym.make(name)
    space = gym.spaces.Box(-np.inf, np.inf, (len(of),), np.float32)
    return gym.wrappers.TransformObservation(env, lambda o: o[of], space)


def seconds(env: Any) -> float:
    """Returns the processor time of learning."""
    from stable_baselines3 import PPO

    learner = PPO("MlpPolicy", env, seed=0, device="cpu")
    began = time.process_time()
    learner.learn(STEPS)
    return time.process_time() - began


def run() -> None:
    """Measures three dimensions."""
    import torch

    torch.set_num_threads(1)
    rows, verdicts = [], {}
    for size, (name, of) in WORLDS.items():
        taken = [
            (
                seconds(make(name, of)),
                seconds(rc.CoverageReward(make(name, of), 2.0, density=rc.Neighbours(k=16))),
            )
            for _ in range(ROUNDS)
        ]
        plain, paid = (min(column) for column in zip(*taken, strict=True))
        rows.append(
            {"world": name, "D": size, "PPO s": plain, "with the density s": paid, "ratio": paid / plain}
        )
        verdicts[f"D = {size}: {paid / plain:.2f} of PPO's time (<= {BAR:g})"] = paid <= BAR * plain
    report.write("density_speed", rows, verdicts)


if __name__ == "__main__":
    run()
