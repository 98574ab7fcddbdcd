"""What does collect() add to stepping the environment? Processor time of both in one run, as a ratio.

Yardstick: a plain loop that steps the same environment through the very actions that were collected, with
the same resets, and keeps nothing. Everything that collect() does is counted: choosing, counting, planning,
the parts, the audit, the datasheet and its page. The last three are a fixed cost, so two
lengths are taken: the ratio of the longer one, and the ratio of what the additional steps took.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from benchmarks import report

LENGTHS, ROUNDS, BAR = (200_000, 1_000_000), 1, 1.25
PENDULUM = rc.Bins(
    (8, 8), low=(-math.pi, -8), high=(math.pi, 8), of=lambda o: (math.atan2(o[1], o[0]), float(o[2]))
)
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "FrozenLake8x8-v1, known": (lambda: gym.make("FrozenLake8x8-v1"), {}),
    "CliffWalking-v1, known": (lambda: gym.make("CliffWalking-v1"), {}),
    "Taxi-v4, known": (lambda: gym.make("Taxi-v4"), {}),
    "MountainCar-v0, learned": (
        lambda: gym.make("MountainCar-v0"), {"model": "learned", "states": rc.Bins((12, 11))}
    ),
    "Pendulum-v1, learned": (
        lambda: gym.make("Pendulum-v1"), {"model": "learned", "states": PENDULUM, "actions": 3}
    ),
}  # fmt: skip


def run() -> None:
    rows, verdicts = [], {}
    for name, (make, options) in CASES.items():
        _collected(make, options, 2_000)  # compiles
        taken = [_both(make, options, length) for length in LENGTHS]
        (short, short_plain), (long, long_plain) = taken
        whole, slope = long / long_plain, (long - short) / (long_plain - short_plain)
        rows.append(
            {"case": name, "us a step, plain": 1e6 * long_plain / LENGTHS[1],
             "us a step, collect": 1e6 * long / LENGTHS[1], "ratio": whole, "ratio of more steps": slope,
             "fixed cost, s": short - short_plain * slope}
        )  # fmt: skip
        verdicts[f"{name}: {LENGTHS[1]:,} steps take {whole:.2f} of a plain loop (<= {BAR:g})"] = whole <= BAR
    report.write("collecting", rows, verdicts)


def _both(make: Callable[[], Any], options: dict[str, Any], num_steps: int) -> tuple[float, float]:
    """Returns seconds of collecting and of stepping, medians of rounds taken in turn."""
    collecting, stepping = [], []
    for _ in range(ROUNDS):
        seconds, episodes = _collected(make, options, num_steps)
        collecting.append(seconds)
        stepping.append(_stepped(make, episodes))
    return statistics.median(collecting), statistics.median(stepping)


def _collected(
    make: Callable[[], Any], options: dict[str, Any], num_steps: int
) -> tuple[float, list[tuple[int | None, list[Any]]]]:
    """Returns seconds, and the episodes: seed and actions."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        found = rc.collect(make(), 2, num_steps, out=Path(folder, "set"), **options)
        seconds = time.process_time() - began
        return seconds, _actions(found)


def _actions(found: rc.Collection) -> list[tuple[int | None, list[Any]]]:
    from rhocover.datasets.collection.source import open_collection

    episodes = []
    for episode in open_collection(found.path).episodes():
        actions = episode.actions
        episodes.append((episode.seed, list(actions) if actions.ndim > 1 else actions.tolist()))
    return episodes


def _stepped(make: Callable[[], Any], episodes: list[tuple[int | None, list[Any]]]) -> float:
    """Returns the seconds that stepping takes."""
    env, checked = make(), 0
    began = time.process_time()
    step = env.step
    for seed, actions in episodes:
        env.reset(seed=seed)
        for action in actions:
            step(action)
        checked += len(actions)
    seconds = time.process_time() - began
    assert checked == sum(len(actions) for _, actions in episodes)
    return seconds


if __name__ == "__main__":
    np.seterr(all="raise")
    run()
