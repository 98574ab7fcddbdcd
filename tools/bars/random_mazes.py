"""Does a run over codes see all of a maze? Random mazes of three sizes, radius 1 to 4 times the step.

Mazes are trees of corridors, found by a depth-first walk; the point of `tests/collecting/mazes.py` moves in
them. Every run should have seen every held-out cell when its budget ends; budgets grow with the maze.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report
from tools.bars.code_worlds import mazes

SIZES = {9: 30_000, 15: 100_000, 21: 250_000}  # cells along a side: steps
RADII = (1.0, 2.0, 3.0, 4.0)  # in steps of the point
SEEDS, SHARE = 3, 0.95


def walls(size: int, seed: int) -> np.ndarray:
    """Returns the walls of a random maze, `[size, size]`; size is odd."""
    rng, is_wall, way = np.random.default_rng(seed), np.ones((size, size), bool), [(1, 1)]
    is_wall[1, 1] = False
    while way:
        x, y = way[-1]
        ahead = [(x + 2 * dx, y + 2 * dy) for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        ahead = [(a, b) for a, b in ahead if 0 < a < size - 1 and 0 < b < size - 1 and is_wall[a, b]]
        if not ahead:
            way.pop()
            continue
        a, b = ahead[rng.integers(len(ahead))]
        is_wall[a, b] = is_wall[(x + a) // 2, (y + b) // 2] = False
        way.append((a, b))
    return is_wall


def explored(size: int, radius: float, seed: int) -> tuple[float, float]:
    """Returns the share of the cells that a run saw, and the step at which it had seen 95 % of them."""
    found = mazes()

    class Timed(found.Maze):  # type: ignore[name-defined]
        """Notes the step of every new cell."""

        steps, first = 0, ()

        def step(self, action: Any) -> Any:
            """Moves."""
            before, self.steps = len(self.visited), self.steps + 1
            result = super().step(action)
            self.first = (*self.first, self.steps) if len(self.visited) > before else self.first
            return result

    env = Timed(walls(size, seed))
    states = rc.Net(radius * found.STEP)
    rc.explore(env, 2.0, SIZES[size], model="from_scratch", states=states, seed=seed)
    needed = int(np.ceil(SHARE * np.count_nonzero(~env.is_wall) * found.FINE**2))
    return env.share, float(env.first[needed - 1]) if len(env.first) >= needed else np.inf


def run() -> None:
    """Runs all sizes and radii."""
    rows, least = [], {}
    for size in SIZES:
        for radius in RADII:
            seen = [explored(size, radius, seed) for seed in range(SEEDS)]
            shares, times = zip(*seen, strict=True)
            least[size] = min(least.get(size, 1.0), *shares)
            rows.append(
                {
                    "cells a side": size, "radius / step": radius, "steps": SIZES[size],
                    "share, least": min(shares),
                    "95 % at, median": float(np.median(times)), "95 % at, last": max(times),
                }
            )  # fmt: skip
    verdicts = {
        f"{size} cells a side: least share of {len(RADII) * SEEDS} runs {share:.3f} (= 1)": share == 1
        for size, share in least.items()
    }
    report.write("random_mazes", rows, verdicts)


if __name__ == "__main__":
    run()
