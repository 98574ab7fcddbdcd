"""The same steps for every form of data: episodes of a small walk, and what a tally of them must hold.

Some episodes end, others are cut off. What can be known of them depends on what a form keeps:

    whole      every step, its next state, and how its episode ended
    within     no next states: the last step of an episode that was cut off is left out
    unmarked   next states, and which steps are one episode, but not how it ended: every end is a cut
    bare       neither: the last step of every episode is left out
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from rhocover.datasets import Tally

NUM_STATES, NUM_ACTIONS, END = 5, 3, 9  # state 9 is only met as the end of an episode
STATE_NAMES = ("hall", "attic", "kitchen", "cellar", "den", "", "", "", "", "exit")
ACTION_NAMES = ("up", "down", "back")


@dataclass(frozen=True)
class Walk:
    """An episode of T steps: T + 1 states, T actions, and whether it ended or was cut off."""

    states: Any
    actions: Any
    is_ended: bool

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def last(self) -> Any:
        return np.arange(len(self)) == len(self) - 1


def walks(number: int = 40, seed: int = 5) -> list[Walk]:
    """Returns episodes; in every second one the last state is the end, in the others any other."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(number):
        length = int(rng.integers(2, 14))
        states = rng.integers(0, NUM_STATES, length + 1)
        states[-1] = END if k % 2 else states[-1]
        found.append(Walk(states, rng.integers(0, NUM_ACTIONS, length), bool(k % 2)))
    return found


WALKS = walks()


def columns(found: list[Walk] | None = None) -> dict[str, Any]:
    """Returns the steps of all episodes, one after another."""
    found = WALKS if found is None else found
    return {
        "s": np.concatenate([walk.states[:-1] for walk in found]),
        "a": np.concatenate([walk.actions for walk in found]),
        "s_next": np.concatenate([walk.states[1:] for walk in found]),
        "terminated": np.concatenate([walk.last & walk.is_ended for walk in found]),
        "truncated": np.concatenate([walk.last & (not walk.is_ended) for walk in found]),
        "episode": np.concatenate([np.full(len(walk), 100 + k) for k, walk in enumerate(found)]),
    }


@dataclass(frozen=True)
class Counts:
    """What a tally holds, by the keys of states and the names or numbers of actions."""

    visits: Counter
    moves: Counter
    ends: Counter
    starts: Counter
    num_truncated: int


def counted(kind: str, found: list[Walk] | None = None, is_named: bool = False) -> Counts:
    """Returns the counts of the episodes, one step after another."""
    visits, moves, ends, starts = Counter(), Counter(), Counter(), Counter()
    for walk in WALKS if found is None else found:
        is_end_known = walk.is_ended and kind in ("whole", "within")
        has_last = is_end_known or kind in ("whole", "unmarked")
        for t in range(len(walk) - (not has_last)):
            s, a, s_next = _named(walk, t) if is_named else _numbered(walk, t)
            visits[s, a] += 1
            starts[s] += t == 0
            if is_end_known and t == len(walk) - 1:
                ends[s, a] += 1
            else:
                moves[s, a, s_next] += 1
    found = WALKS if found is None else found
    cut = [not (walk.is_ended and kind in ("whole", "within")) for walk in found]
    if kind in ("unmarked", "bare"):
        cut = cut[:-1]  # no row after the last episode says that it is over
    return Counts(visits, moves, ends, +starts, sum(cut))


def _numbered(walk: Walk, t: int) -> tuple[Any, ...]:
    return int(walk.states[t]), int(walk.actions[t]), int(walk.states[t + 1])


def _named(walk: Walk, t: int) -> tuple[Any, ...]:
    s, a, s_next = _numbered(walk, t)
    return STATE_NAMES[s], ACTION_NAMES[a], STATE_NAMES[s_next]


def counts_of(tally: Tally) -> Counts:
    """Returns the counts that a tally holds."""
    A, keys = tally.num_actions, tally.keys
    names = tally.action_names or tuple(range(A))
    pairs = [(keys[s], names[a]) for s in range(len(keys)) for a in range(A)]
    moves = tally.moves.tocoo()
    moved = zip(*(part.tolist() for part in (*moves.coords, moves.data)), strict=True)
    return Counts(
        +Counter(dict(zip(pairs, tally.counts.ravel().tolist(), strict=True))),
        Counter({(*pairs[row], keys[column]): count for row, column, count in moved}),
        +Counter(dict(zip(pairs, tally.ends.tolist(), strict=True))),
        +Counter(dict(zip(keys, tally.starts.tolist(), strict=True))),
        tally.num_truncated,
    )


class Replayed(gym.Env):
    """An environment in which the episodes happen again, whatever is done; `action` is what was done."""

    observation_space = gym.spaces.Discrete(END + 1)
    action_space = gym.spaces.Discrete(NUM_ACTIONS)

    def __init__(self, found: list[Walk] | None = None) -> None:
        self._waiting = iter(WALKS if found is None else found)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.walk, self.t = next(self._waiting), 0
        return np.int64(self.walk.states[0]), {}

    @property
    def action(self) -> Any:
        return np.int64(self.walk.actions[self.t])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert action == self.walk.actions[self.t]
        self.t += 1
        is_last = self.t == len(self.walk)
        ended = is_last and self.walk.is_ended
        return np.int64(self.walk.states[self.t]), 0.0, ended, is_last and not ended, {}


def replay(env: gym.Env, number: int | None = None) -> None:
    """Plays every episode in an environment around `Replayed`."""
    inner: Any = env.unwrapped
    for _ in range(len(WALKS) if number is None else number):
        env.reset(seed=0)
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(inner.action)
            is_over = terminated or truncated
