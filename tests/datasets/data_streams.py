"""Streams of transitions for the tests of data sets: made at random, drawn from models, counted by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.mdp import MDP


@dataclass(frozen=True)
class Stream:
    """Columns of consecutive transitions."""

    s: Any
    a: Any
    s_next: Any
    terminated: Any
    truncated: Any

    def __getitem__(self, rows: slice) -> tuple[Any, ...]:
        return self.s[rows], self.a[rows], self.s_next[rows], self.terminated[rows], self.truncated[rows]

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "s": self.s, "a": self.a, "s_next": self.s_next,
            "terminated": self.terminated, "truncated": self.truncated,
        }  # fmt: skip


def random_stream(
    seed: int, num_rows: int, num_states: int = 4, num_actions: int = 3, *, scale: int = 1
) -> Stream:
    """Returns episodes that end, are cut, or jump without a mark; keys are multiples of `scale`."""
    rng = np.random.default_rng(seed)
    s, s_next = rng.integers(0, num_states, (2, num_rows)) * scale
    a = rng.integers(0, num_actions, num_rows)
    terminated, truncated = rng.random((2, num_rows)) < 0.15
    goes_on = ~(terminated | truncated)[:-1] & (rng.random(num_rows - 1) < 0.9)
    s[1:] = np.where(goes_on, s_next[:-1], s[1:])
    return Stream(s, a, s_next, terminated, truncated)


def walk(mdp: MDP, policy: Any, num_steps: int, seed: int, *, end: float = 0.0, start: int = 0) -> Stream:
    """Returns a run of a policy `[S, A]`; each step ends its episode with probability `end`."""
    rng = np.random.default_rng(seed)
    P = mdp.dense().cumsum(axis=2)
    pi = np.cumsum(policy, axis=1)
    u, v, ends = rng.random(num_steps), rng.random(num_steps), rng.random(num_steps) < end
    rows = np.empty((num_steps, 3), np.int64)
    state = start
    for t in range(num_steps):
        action = min(int(np.searchsorted(pi[state], u[t] * pi[state, -1])), mdp.num_actions - 1)
        after = min(int(np.searchsorted(P[state, action], v[t])), mdp.num_states - 1)
        rows[t] = state, action, after
        state = start if ends[t] else after
    s, a, s_next = rows.T.copy()
    return Stream(s, a, s_next, ends, np.zeros(num_steps, bool))


@dataclass
class ByHand:
    """What a tally must say, counted row by row."""

    visits: Counter
    moves: Counter
    ends: Counter
    starts: Counter
    num_truncated: int
    num_jumps: int


def count_by_hand(stream: Stream) -> ByHand:
    found = ByHand(Counter(), Counter(), Counter(), Counter(), 0, 0)
    led_to, is_open = None, False
    for s, a, s_next, ended, cut in zip(
        *(column.tolist() for column in stream.columns.values()), strict=True
    ):
        jumps = is_open and s != led_to
        if not is_open or jumps:
            found.starts[s] += 1
        found.num_jumps += jumps
        found.num_truncated += jumps + (cut and not ended)
        found.visits[s, a] += 1
        if ended:
            found.ends[s, a] += 1
        else:
            found.moves[s, a, s_next] += 1
        led_to, is_open = s_next, not (ended or cut)
    return found
