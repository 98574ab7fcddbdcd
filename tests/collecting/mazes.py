"""Continuous mazes for tests: a point that moves in eight directions or stands still, shown as it is or embedded."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

STEP = 0.2  # of a cell
FINE = 2  # held-out cells per side of a cell
ANGLES = np.arange(8) * np.pi / 4
MOVES = STEP * np.concatenate([np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1), np.zeros((1, 2))])


def snake(size: int) -> np.ndarray:
    """Returns the walls of one long corridor that goes to and fro, `[size, size]`; size is odd."""
    is_wall = np.ones((size, size), bool)
    is_wall[1:-1:2, 1:-1] = False
    for k, row in enumerate(range(2, size - 1, 2)):
        is_wall[row, size - 2 if k % 2 == 0 else 1] = False
    return is_wall


class Maze(gym.Env):
    """The point starts in cell (1, 1); `embedding` is the number of opaque features shown, 0 for x and y."""

    action_space = gym.spaces.Discrete(9)

    def __init__(self, is_wall: np.ndarray, embedding: int = 0) -> None:
        self.is_wall, self.embedding = is_wall, embedding
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (embedding or 2,), np.float64)
        rng = np.random.default_rng(7)
        self._maps = rng.normal(size=(2, 2, max(embedding, 1))) * 2 / len(is_wall)
        self._phase = rng.uniform(0, 2 * np.pi, max(embedding, 1))
        self.visited: set[tuple[int, ...]] = set()

    @property
    def share(self) -> float:
        """The share of the held-out fine cells that were visited."""
        return len(self.visited) / (np.count_nonzero(~self.is_wall) * FINE**2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._at = np.array([1.5, 1.5])
        return self._shown(), {}

    def step(self, action):
        after = self._at + MOVES[action]
        if not self.is_wall[int(after[0]), int(after[1])]:
            self._at = after
        self.visited.add(tuple((self._at * FINE).astype(int).tolist()))
        return self._shown(), 0.0, False, False, {}

    def _shown(self) -> np.ndarray:
        if not self.embedding:
            return self._at.copy()
        first, second = self._maps
        return np.tanh(self._at @ first) + np.sin(self._at @ second * 2 + self._phase)
