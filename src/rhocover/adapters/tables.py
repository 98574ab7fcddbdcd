"""The model of an environment that carries its own table of transitions.

An episode ends, a model of this library does not: occupancy is what one unending run visits. So moves that
end an episode are wired to how episodes begin,

    P(s' | s, a) = P(s', goes on | s, a) + P(ends | s, a) * start(s'),

which is the chain that an environment with automatic resets walks. The states in which episodes end are then
never acted in, and leave the model; so does what the start cannot reach, and what no run visits for ever.
With `ends="stay"` they remain as states that are never left, for plans with a discount or a horizon.

A time limit is not part of the model: it would make the step number part of the state. Wrappers that change
what an action does are not in the table, and not in the model either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.adapters.table_rows import TableRows, read_rows
from rhocover.adapters.toy_text import picture
from rhocover.chains import maximal_end_components, reachable_states
from rhocover.checks import BoolArray, IntArray, Matrix, frozen, name_some
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.mdp import MDP

ENDS = ("restart", "stay")


@dataclass(frozen=True, eq=False)
class Table:
    """A model, the environment's number of each of its states `[S]`, and what was left out, in words."""

    model: MDP
    states: IntArray
    note: str


def table_model(env: Any, *, ends: str = "restart") -> MDP:
    """Returns the model of an environment with a table, `env.unwrapped.P`; see `read_table`."""
    return read_table(env, ends=ends).model


def read_table(env: Any, *, ends: str = "restart") -> Table:
    """Returns the model of an environment with a table, and which of the environment's states it holds.

    `ends="restart"` wires episode ends to the start and keeps what can be visited for ever; `ends="stay"`
    makes them states that are never left and keeps what the start reaches.

    >>> import gymnasium as gym
    >>> from rhocover.adapters.tables import read_table
    >>> table = read_table(gym.make("FrozenLake-v1"))
    >>> table.model
    MDP(FrozenLake-v1: 11 states, 4 actions, 44 pairs)
    >>> print(table.note)
    11 of 16 states are in the model. In 5 the episode ends and the run goes on at the start:
    r1c1, r1c3, r2c3, r3c0, r3c3. The time limit of 100 steps is not part of the model.
    """
    if not isinstance(ends, str) or ends not in ENDS:
        raise unknown_name("choice of `ends`", ends, ENDS)
    rows = read_rows(env)
    whole = _whole_model(env, rows, _restarting(rows))
    acted_in = reachable_states(whole, rows.start)
    is_end = _end_states(rows, acted_in)
    if ends == "stay":
        whole = _whole_model(env, rows, _staying(rows, acted_in, is_end))
        kept = (acted_in | is_end)[whole.pair_state]
    else:
        kept = acted_in[whole.pair_state] & (maximal_end_components(whole).pair_label >= 0)
    note = " ".join([*_left_out(whole, kept, acted_in, is_end), *_time_limit(env)])
    model, states = _whole_model(env, rows, whole.transitions, note).subset(kept)
    return Table(model, frozen(states + rows.first_state), note)


def _restarting(rows: TableRows) -> Matrix:
    """Returns the rows `[S*A, S]` with every end wired to the start distribution."""
    ending = sp.csr_array(rows.ends.sum(axis=1).reshape(-1, 1))
    return sp.csr_array(rows.moves + ending @ sp.csr_array(rows.start.reshape(1, -1)))


def _end_states(rows: TableRows, acted_in: BoolArray) -> BoolArray:
    """Returns the states `[S]` in which an episode may end that goes through the states acted in."""
    return rows.ends.T @ np.repeat(acted_in, rows.num_actions).astype(float) > 0


def _staying(rows: TableRows, acted_in: BoolArray, is_end: BoolArray) -> Matrix:
    """Returns the rows `[S*A, S]` in which a state where an episode ends is never left again."""
    both = np.flatnonzero(is_end & acted_in)
    if both.size:
        raise InvalidArgumentError(
            f"some moves into state {both[0] + rows.first_state} end the episode and others do not, so it "
            'cannot be a state that is never left. Use ends="restart".'
        )
    at_end = np.repeat(is_end, rows.num_actions).astype(float)
    itself = sp.kron(sp.eye_array(rows.num_states), np.ones((rows.num_actions, 1)), format="csr")
    going = sp.diags_array(1 - at_end) @ (rows.moves + rows.ends)
    return sp.csr_array(going + sp.diags_array(at_end) @ itself)


def _whole_model(env: Any, rows: TableRows, transitions: Matrix, note: str = "") -> MDP:
    """Returns the model of all states of the table, in reach or not."""
    looks = picture(env)
    numbers = range(rows.first_state, rows.first_state + rows.num_states)
    spec = getattr(env, "spec", None)
    return MDP(
        transitions,
        num_actions=rows.num_actions,
        start=rows.start,
        state_labels=looks.state_labels or [str(number) for number in numbers],
        action_labels=looks.action_labels,
        layout=looks.layout,
        name=spec.id if spec is not None else type(env.unwrapped).__name__,
        note=note,
    )


def _left_out(whole: MDP, kept: BoolArray, acted_in: BoolArray, is_end: BoolArray) -> list[str]:
    """Returns sentences about the states and pairs that are not in the model."""
    is_kept = np.bincount(whole.pair_state[kept], minlength=whole.num_states) > 0
    gone = ~is_kept
    groups = [
        ("In {} the episode ends and the run goes on at the start: {}.", gone & is_end),
        ("{} cannot be reached from the start: {}.", gone & ~is_end & ~acted_in),
        ("{} cannot be visited for ever: {}.", gone & ~is_end & acted_in),
    ]
    sentences = [f"{is_kept.sum()} of {whole.num_states} states are in the model."]
    sentences += [text.format(group.sum(), _names(whole, group)) for text, group in groups if group.any()]
    leaving = np.flatnonzero(~kept & is_kept[whole.pair_state])
    if leaving.size:
        names = name_some([whole.pair_name(int(pair)) for pair in leaving])
        sentences.append(f"Pairs that lead out of these for ever are left out, {leaving.size}: {names}.")
    return sentences


def _names(whole: MDP, group: BoolArray) -> str:
    labels = whole.state_labels or ()
    return name_some([labels[state] for state in np.flatnonzero(group)])


def _time_limit(env: Any) -> list[str]:
    """Returns the sentence about the time limit among the wrappers, if there is one."""
    from gymnasium.wrappers import TimeLimit

    while hasattr(env, "env"):
        if isinstance(env, TimeLimit):
            return [f"The time limit of {env._max_episode_steps} steps is not part of the model."]
        env = env.env
    return []
