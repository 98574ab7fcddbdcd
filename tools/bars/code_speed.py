"""What do codes cost? Processor time of a run over codes beyond stepping, its growth, and codes per second.

A torus of cells with nine moves is shown as a whole number; every cell is met within a few times as many
steps as there are cells. Yardstick of a run: a plain loop that steps the same environment as often.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from benchmarks import report

MOVES = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
SIDES = {32: 100_000, 316: 400_000}  # cells along a side: steps
MOST_SECONDS, MOST_GROWTH, LEAST_RATE = 4.0, 3.0, 50_000


class Torus(gym.Env):
    """Cells in rows and columns without an edge; an action moves to one of eight neighbours, or stays."""

    def __init__(self, side: int) -> None:
        self.observation_space, self.action_space = gym.spaces.Discrete(side**2), gym.spaces.Discrete(9)
        self._side, self._at = side, (0, 0)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begins in the first cell."""
        super().reset(seed=seed)
        self._at = (0, 0)
        return 0, {}

    def step(self, action: Any) -> Any:
        """Moves."""
        (x, y), (dx, dy) = self._at, MOVES[action]
        self._at = x, y = (x + dx) % self._side, (y + dy) % self._side
        return x * self._side + y, 0.0, False, False, {}


def run() -> None:
    """Measures runs over 10^3 and 10^5 codes, and a net of 1,000 codes."""
    explored(8, 2_000)  # compiles
    rows = [{"codes": side**2} | explored(side, steps) for side, steps in SIDES.items()]
    small, large = rows
    seconds = small["us a step beyond"] * SIDES[32] / 1e6
    growth = large["us a step beyond"] / small["us a step beyond"]
    rate, size = net_rate()
    rows.append({"codes": size, "observations per second": rate})
    verdicts = {
        f"10^5 steps, {small['codes']:,} codes, 9 actions: {seconds:.2f} s more (<= {MOST_SECONDS:g})":
            seconds <= MOST_SECONDS,
        f"time per step, {large['codes']:,} codes ({large['met']:,} met) / {small['codes']:,}: {growth:.2f} "
        f"(<= {MOST_GROWTH:g})": growth <= MOST_GROWTH,
        f"Net: {rate:,.0f} observations per second at {size:,} codes (>= {LEAST_RATE:,})": rate >= LEAST_RATE,
    }  # fmt: skip
    report.write("code_speed", rows, verdicts)


def explored(side: int, num_steps: int) -> dict[str, Any]:
    """Returns microseconds per step of a run from scratch, beyond stepping, and the cells that it met."""
    began = time.process_time()
    found = rc.explore(Torus(side), rho=2.0, num_steps=num_steps, model="from_scratch", seed=0)
    seconds, plain = time.process_time() - began, stepped(side, num_steps)
    met = int(np.count_nonzero(np.asarray(found.counts).sum(axis=-1)))
    return {
        "steps": num_steps, "met": met, "us a step beyond": 1e6 * (seconds - plain) / num_steps,
        "us a step, plain": 1e6 * plain / num_steps,
    }  # fmt: skip


def stepped(side: int, num_steps: int) -> float:
    """Returns the seconds of a plain loop."""
    env, actions = Torus(side), np.random.default_rng(0).integers(9, size=num_steps).tolist()
    env.reset(seed=0)
    began = time.process_time()
    for action in actions:
        env.step(action)
    return time.process_time() - began


def net_rate() -> tuple[float, int]:
    """Returns how many positions a net of about 1,000 codes encodes per second, one by one, and its size."""
    points = np.random.default_rng(0).random((200_000, 2))
    net = rc.Net(radius=0.026).fit(points[:1_000])
    for point in points[:50_000]:
        net.key(point)
    began = time.process_time()
    for point in points[50_000:]:
        net.key(point)
    return 150_000 / (time.process_time() - began), len(net.leaders)


if __name__ == "__main__":
    run()
