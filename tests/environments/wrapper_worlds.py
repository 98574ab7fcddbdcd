"""Small environments that end, are cut, raise and lie, for the tests of the wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

NUM_STATES, NUM_ACTIONS = 6, 3


class Wanderer(gym.Env):
    """Jumps at random around a ring of six states, by its own generator; one jump in seven ends."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Discrete(NUM_STATES)
        self.action_space = gym.spaces.Discrete(NUM_ACTIONS)
        self.state = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self.state, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        if not self.action_space.contains(action):
            raise ValueError(f"no such action: {action}")
        self.state = int(self.state + action + self.np_random.integers(2)) % NUM_STATES
        return self.state, 1.0, bool(self.np_random.random() < 1 / 7), False, {"state": self.state}


class Scripted(gym.Env):
    """Returns a list of (observation, terminated, truncated) whatever it is asked; None raises instead."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, start: Any, script: list[tuple[Any, bool, bool] | None]) -> None:
        self.observation_space = gym.spaces.Discrete(NUM_STATES)
        self.action_space = gym.spaces.Discrete(NUM_ACTIONS)
        self.start, self.script = start, list(script)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if self.start is None:
            raise RuntimeError("the simulator is gone")
        return self.start, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        happens = self.script.pop(0)
        if happens is None:
            raise RuntimeError("the simulator is gone")
        return happens[0], 0.0, happens[1], happens[2], {}


def limited(num_steps: int = 5) -> gym.Env:
    """Returns a wanderer whose episodes are cut after so many steps."""
    return gym.wrappers.TimeLimit(Wanderer(), num_steps)


class ByHand:
    """Counts in dictionaries, as one would on paper."""

    def __init__(self) -> None:
        self.counts: dict = {}
        self.moves: dict = {}
        self.ends: dict = {}
        self.starts: dict = {}
        self.num_truncated = 0

    def start(self, key: Any) -> None:
        self.starts[key] = self.starts.get(key, 0) + 1

    def step(self, key: Any, action: int, next_key: Any, terminated: bool, truncated: bool) -> None:
        pair = (key, int(action))
        self.counts[pair] = self.counts.get(pair, 0) + 1
        if terminated:
            self.ends[pair] = self.ends.get(pair, 0) + 1
        else:
            self.moves[pair, next_key] = self.moves.get((pair, next_key), 0) + 1
            self.num_truncated += bool(truncated)

    def agrees_with(self, visits: Any) -> bool:
        keys, A = visits.keys, visits.counts.shape[1]
        moves = visits.moves.tocoo()
        rows, columns = (c.tolist() for c in moves.coords)
        found_moves = {
            ((keys[r // A], r % A), keys[c]): int(n)
            for r, c, n in zip(rows, columns, moves.data, strict=True)
        }
        ends = {(keys[r // A], r % A): int(visits.ends[r]) for r in np.flatnonzero(visits.ends).tolist()}
        starts = {keys[s]: int(visits.starts[s]) for s in np.flatnonzero(visits.starts)}
        ours = (self.counts, self.moves, self.ends, self.starts, self.num_truncated)
        return ours == (visits.as_dict(), found_moves, ends, starts, visits.num_truncated)


def same_visits(a: Any, b: Any) -> bool:
    """Returns whether two tallies hold the same numbers."""
    return (
        a.keys == b.keys
        and np.array_equal(a.counts, b.counts)
        and np.array_equal(a.ends, b.ends)
        and np.array_equal(a.starts, b.starts)
        and a.num_truncated == b.num_truncated
        and (a.moves != b.moves).nnz == 0
    )
