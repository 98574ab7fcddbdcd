"""Environments for the tests of this folder, small and hostile, and a wrapper that counts by hand."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import rhocover as rc

NUM_STATES, NUM_ACTIONS = 7, 3


class Ring(gym.Env):
    """Jumps around a ring of seven states by its own generator; begins in one of two; one jump in ten ends.

    `shown` makes an observation of (state, steps since the first reset), `reward` a reward of the same.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        shown: Callable[[int, int], Any] | None = None,
        space: gym.Space | None = None,
        reward: Callable[[int, int], Any] | None = None,
        ending: float = 0.1,
        first_action: int = 0,
    ) -> None:
        self.observation_space = spaces.Discrete(NUM_STATES) if space is None else space
        self.action_space = spaces.Discrete(NUM_ACTIONS, start=first_action)
        self.shown = (lambda s, t: s) if shown is None else shown
        self.reward = (lambda s, t: float(s)) if reward is None else reward
        self.ending, self.time = ending, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self.shown(self.state, self.time), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        assert self.action_space.contains(action), f"no such action: {action!r}"
        self.time += 1
        move = int(action) - int(self.action_space.start) + int(self.np_random.integers(2))
        self.state = (self.state + move) % NUM_STATES
        ends = bool(self.np_random.random() < self.ending)
        return self.shown(self.state, self.time), self.reward(self.state, self.time), ends, False, {}


def limited(num_steps: int = 5, **settings: Any) -> gym.Env:
    """Returns a ring whose episodes are cut after so many steps, unless they ended before."""
    return gym.wrappers.TimeLimit(Ring(**settings), num_steps)


def nested_ring(*, reuses: bool = False, is_tuple: bool = False) -> gym.Env:
    """Returns a ring that shows a Dict (or a Tuple) of two arrays, in one buffer for ever if it `reuses`."""
    buffer = np.zeros(2, np.float32)
    box, number = spaces.Box(0, NUM_STATES, (2,), np.float32), spaces.Discrete(NUM_STATES)

    def shown(state: int, time: int) -> Any:
        array = buffer if reuses else np.zeros(2, np.float32)
        array[:] = state, time % 5
        return (array, state) if is_tuple else {"where": array, "number": state}

    space = spaces.Tuple((box, number)) if is_tuple else spaces.Dict(where=box, number=number)
    return Ring(shown, space)


def place(observation: Any) -> int:
    """Returns the state that a nested ring is in, read off the array."""
    array = observation[0] if isinstance(observation, tuple) else observation["where"]
    return int(array[0])


class Counted(gym.Wrapper):
    """Writes down every reset and every step, as one would on paper; `key` names observations."""

    def __init__(self, env: gym.Env, key: Callable[[Any], Any] = int) -> None:
        super().__init__(env)
        self.key = key
        self.paper: list[tuple] = []  # ("reset", seed, key) and ("step", action, key, terminated, truncated)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.paper.append(("reset", seed, self.key(observation)))
        return observation, info

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        number = number_of(action, self.action_space)
        self.paper.append(("step", number, self.key(observation), bool(terminated), bool(truncated)))
        return observation, reward, terminated, truncated, info

    def get_paper(self) -> list[tuple]:
        """Returns what was written down; also across processes, through `call`."""
        return self.paper


def number_of(action: Any, space: gym.Space) -> int:
    """Returns the number of an action; of three levels of a Box, which is all that the tests use."""
    if isinstance(space, spaces.Discrete):
        return int(action) - int(space.start)
    low, high = float(space.low[0]), float(space.high[0])  # type: ignore[attr-defined]
    return round(2 * (float(action[0]) - low) / (high - low))


def moves_of(paper: list[tuple]) -> list[tuple]:
    """Returns (state, action, next state) of every step; an end leads to where the next episode begins.

    A time limit is no end: the step before it led to what was seen. The last step is left out if it ended
    and nothing was begun after it.
    """
    found, state = [], None
    for number, entry in enumerate(paper):
        if entry[0] == "reset":
            state = entry[2]
            continue
        _, action, after, terminated, _ = entry
        if terminated and number + 1 == len(paper):
            break
        found.append((state, action, paper[number + 1][2] if terminated else after))
        state = after
    return found


def moves_of_run(run: Any, keys: Any = None) -> Counter:
    """Returns how often each (state, action, next state) was counted in a run, by the environment's keys."""
    if keys is None:
        found = run.restarting.moves.tocoo()
        keys, A = run.restarting.keys, run.restarting.num_actions
        rows, columns = (c.tolist() for c in found.coords)
        places = [(keys[r // A], r % A, keys[c]) for r, c in zip(rows, columns, strict=True)]
    else:
        model = run.problem.mdp
        found = run.transitions.tocoo()
        rows, columns = (c.tolist() for c in found.coords)
        states, actions = model.pair_state.tolist(), model.pair_action.tolist()
        places = [(keys[states[r]], actions[r], keys[c]) for r, c in zip(rows, columns, strict=True)]
    return +Counter(dict(zip(places, found.data.tolist(), strict=True)))


def visits_of(moves: Counter) -> Counter:
    """Returns how often each (state, action) was left."""
    visits: Counter = Counter()
    for (state, action, _), number in moves.items():
        visits[state, action] += number
    return visits


def visits_of_tally(tally: Any) -> Counter:
    """Returns how often each (state, action) is in a tally."""
    table = tally.counts
    return Counter({(tally.keys[s], int(a)): int(table[s, a]) for s, a in np.argwhere(table)})


class Failing(gym.Wrapper):
    """Raises `error` in its step number `at`, or in the first reset after so many; `at=0` never."""

    def __init__(self, env: gym.Env, at: int = 0, *, in_reset: bool = False, error: Any = None) -> None:
        super().__init__(env)
        self.at, self.in_reset, self.num_steps = at, in_reset, 0
        self.error = RuntimeError("the simulator is gone") if error is None else error

    def reset(self, **named: Any) -> Any:
        if self.in_reset and self.at and self.num_steps >= self.at:
            raise self.error
        return self.env.reset(**named)

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        if not self.in_reset and self.num_steps == self.at:
            raise self.error
        return self.env.step(action)


def contents(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file below a folder, hidden ones too, and its folders."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


ANGLE = rc.Bins(
    (8, 8), low=(-np.pi, -8.0), high=(np.pi, 8.0), of=lambda o: (np.arctan2(o[1], o[0]), o[2]),
    names=("angle", "speed"),
)  # fmt: skip
CAR = rc.Bins((12, 11), names=("position", "velocity"))
POLE = rc.Bins((3, 3, 3, 3), low=(-2.4, -2, -0.2, -2), high=(2.4, 2, 0.2, 2))
