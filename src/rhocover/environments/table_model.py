"""Models of environments that have a table of their transitions.

Models never terminate here: the occupancy is that of one unending run. A transition that ends an episode
therefore leads to the start distribution,

    P(s' | s, a) = P(s', goes on | s, a) + P(ends | s, a) * start(s'),

which is the chain of an environment with automatic resets. No action is taken in the states in which episodes
end, so they are not in the model; nor are states that cannot be reached from the start, or cannot be visited
in the long run. With `ends="stay"` the end states remain as states that are never left, for plans with a
discount or a horizon.

A time limit is not part of the model, because the step number would have to be part of the state. Wrappers
that change the effect of an action are not in the table, so they are not in the model either.

The table is that of Gymnasium's tabular environments: `P[state][action]` is a list of (probability, next
state, reward, terminated). A next state may occur in it several times (a slip into a wall is one of three
ways to stay); its probabilities are added. Rewards are not read. Errors name the entry that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.chains import maximal_end_components, reachable_states
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen, name_some
from rhocover.environments.encoding.advice import learning_advice
from rhocover.errors import InvalidArgumentError, InvalidModelError, unknown_name
from rhocover.layout import Layout, rectangle
from rhocover.mdp import MDP
from rhocover.printing import count_of
from rhocover.transitions import ROW_SUM_TOLERANCE

# Reading and checking the table.

Entry = tuple[float, int, bool]  # probability, next state, whether the episode ends there


@dataclass(frozen=True, eq=False)
class TableRows:
    """The table as two matrices `[S*A, S]`, row s*A + a: transitions within, and at the end of, an episode.

    `start` `[S]` is the start distribution. States and actions count from 0; the environment's own numbers
    are higher by `first_state` and `first_action`.
    """

    moves: Matrix
    ends: Matrix
    start: FloatArray
    num_states: int
    num_actions: int
    first_state: int
    first_action: int
    chosen: tuple[int, ...] | None = None  # the numbers of the actions among all, None for all


def read_rows(env: Any) -> TableRows:
    """Returns the table of an environment; raises if it has none or an invalid one."""
    table = _table(env)
    states, actions = _ranges(env)
    rows: list[list[Entry]] = []
    for state in states:
        at_state = _look_up(table, state, "", "state")
        rows += [_row(at_state, state, action, states) for action in actions]
    return TableRows(
        _matrix(rows, len(states), states.start, ended=False),
        _matrix(rows, len(states), states.start, ended=True),
        _start(env, len(states)), len(states), len(actions), states.start, actions.start,
    )  # fmt: skip


def _table(env: Any) -> Any:
    if isinstance(env, str):
        raise InvalidArgumentError.of(
            "env", "must be an environment", f"a name: pass gymnasium.make({env!r})"
        )
    if not hasattr(env, "unwrapped") or not hasattr(env, "action_space"):
        raise InvalidArgumentError.of("env", "must be a Gymnasium environment", type(env).__name__)
    table = getattr(env.unwrapped, "P", None)
    if not isinstance(table, Mapping | Sequence):
        name = type(env.unwrapped).__name__
        raise InvalidArgumentError(
            f"{name} has no table of its transitions (`env.unwrapped.P`), so its model is not known.",
            argument="env",
            remedy=("It can be learned during the run: ", learning_advice(env), "."),
        )
    if getattr(env.unwrapped, "fickle_passenger", False):
        raise InvalidArgumentError(
            "a fickle passenger changes the destination outside the table of the Taxi environment.",
            argument="env",
            remedy=("Make it with fickle_passenger=False, or learn it: ", learning_advice(env), "."),
        )
    return table


def _ranges(env: Any) -> tuple[range, range]:
    """Returns the environment's numbers of states and of actions."""
    from gymnasium.spaces import Discrete

    for which in ("observation_space", "action_space"):
        inner, outer = getattr(env.unwrapped, which), getattr(env, which)
        if not isinstance(inner, Discrete) or inner != outer:
            raise InvalidArgumentError(
                f"a table needs one Discrete `{which}`, got {outer} outside and {inner} inside the wrappers. "
                "Remove the wrapper that changes it, or pass env.unwrapped.",
                argument="env",
            )
    return _numbers(env.observation_space), _numbers(env.action_space)


def _numbers(space: Any) -> range:
    return range(int(space.start), int(space.start) + int(space.n))


def _look_up(table: Any, number: int, place: str, kind: str) -> Any:
    try:
        return table[number]
    except (KeyError, IndexError, TypeError):
        raise InvalidModelError(
            f"the table has no entry P{place}[{number}]; every {kind} of the space needs one.", argument="env"
        ) from None


def _row(at_state: Any, state: int, action: int, states: range) -> list[Entry]:
    place = f"P[{state}][{action}]"
    entries = _look_up(at_state, action, f"[{state}]", "action")
    row = [_entry(entry, place, states) for entry in _listed(entries, place)]
    total = sum(entry[0] for entry in row)
    if not abs(total - 1) <= ROW_SUM_TOLERANCE:
        raise InvalidModelError(
            f"{place} sums to {total:g}, expected 1 (tolerance {ROW_SUM_TOLERANCE:g}).", argument="env"
        )
    return row


def _listed(entries: Any, place: str) -> list[Any]:
    if isinstance(entries, Sequence) and not isinstance(entries, str):
        return list(entries)
    raise InvalidModelError(
        f"{place} must be a list of (probability, state, reward, ended), got {entries!r}.", argument="env"
    )


def _entry(entry: Any, place: str, states: range) -> Entry:
    try:
        probability, successor, _, ended = entry
        result = float(probability), int(successor), bool(ended)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(
            f"{place} holds {entry!r}, expected (probability, next state, reward, terminated).",
            argument="env",
        ) from error
    if not 0 <= result[0] <= 1 + ROW_SUM_TOLERANCE:  # also refuses NaN
        raise InvalidModelError(
            f"{place} has the probability {result[0]:g}, expected 0 to 1.", argument="env"
        )
    if result[1] != successor or result[1] not in states:
        raise InvalidModelError(
            f"{place} leads to state {successor}, expected {states.start} to {states.stop - 1}.",
            argument="env",
        )
    return result


def _matrix(rows: list[list[Entry]], num_states: int, first: int, *, ended: bool) -> Matrix:
    """Returns the entries that end the episode, or those that do not, `[S*A, S]`; duplicates are added."""
    chosen = [(i, s - first, p) for i, row in enumerate(rows) for p, s, end in row if end == ended and p > 0]
    i, s, p = (np.array(part) for part in zip(*chosen, strict=True)) if chosen else ([], [], [])
    return sp.csr_array((p, (i, s)), shape=(len(rows), num_states), dtype=np.float64)


def _start(env: Any, num_states: int) -> FloatArray:
    for name in ("initial_state_distrib", "isd"):
        if getattr(env.unwrapped, name, None) is not None:
            return checks.distribution(getattr(env.unwrapped, name), f"env.unwrapped.{name}", num_states)
    raise InvalidArgumentError(
        f"{type(env.unwrapped).__name__} has a table but no start distribution: set "
        f"env.unwrapped.initial_state_distrib to {num_states} probabilities.",
        argument="env",
    )


# Names and positions of the states of Gymnasium's tabular environments. FrozenLake and CliffWalking are maps
# of cells in reading order. A state of Taxi is a cell, the passenger's place and the destination: the figure
# has one map per pair of the latter two, places from left to right and destinations from top to bottom.

LEFT, DOWN, RIGHT, UP, STILL = (-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)  # (x, y), y points down


@dataclass(frozen=True, eq=False)
class Labelling:
    """Names of all states and actions of an environment, and where to draw them; None if unknown."""

    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    layout: Layout | None = None


def picture(env: Any) -> Labelling:
    """Returns names and positions by state number; they are known for FrozenLake, CliffWalking and Taxi."""
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    inner = env.unwrapped
    if isinstance(inner, FrozenLakeEnv):
        num_rows, num_columns = inner.desc.shape
        return _map(num_rows, num_columns, {"left": LEFT, "down": DOWN, "right": RIGHT, "up": UP})
    if isinstance(inner, CliffWalkingEnv):
        return _map(*inner.shape, {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT})
    if isinstance(inner, TaxiEnv):
        return _taxi()
    return Labelling()


def _map(num_rows: int, num_columns: int, moves: dict[str, tuple[int, int]]) -> Labelling:
    labels = tuple(f"r{row}c{column}" for row in range(num_rows) for column in range(num_columns))
    return Labelling(
        labels, tuple(moves), rectangle(num_rows, num_columns, np.array(list(moves.values()), float))
    )


def _taxi() -> Labelling:
    row, column, passenger, destination = np.unravel_index(np.arange(500), (5, 5, 5, 4))
    places = ("at R", "at G", "at Y", "at B", "aboard")
    labels = tuple(
        f"r{r}c{c} {places[p]} to {'RGYB'[d]}"
        for r, c, p, d in zip(row, column, passenger, destination, strict=True)
    )
    moves = {"south": DOWN, "north": UP, "east": RIGHT, "west": LEFT, "pick up": STILL, "drop off": STILL}
    positions = np.stack([6 * passenger + column, 6 * destination + row], axis=1).astype(float)
    return Labelling(labels, tuple(moves), Layout(positions, np.array(list(moves.values()), float)))


# The model.

ENDS = ("restart", "stay")


@dataclass(frozen=True, eq=False)
class TabularModel:
    """A model, the environment's number of each of its states `[S]`, and a note on what was left out."""

    model: MDP
    states: IntArray
    note: str


def table_model(env: Any, *, ends: str = "restart") -> MDP:
    """Returns the model of an environment with a table, `env.unwrapped.P`; see `read_table`."""
    return read_table(env, ends=ends).model


def read_table(env: Any, *, ends: str = "restart", actions: Sequence[int] | None = None) -> TabularModel:
    """Returns the model of an environment with a table, and which of the environment's states it contains.

    `actions` are the numbers of those that it has, from 0; None for all of them.
    With `ends="restart"` an end leads back to the start, and the model keeps the pairs that can be visited in
    the long run; with `ends="stay"` end states are never left, and it keeps what the start can reach.

    >>> import gymnasium as gym
    >>> from rhocover.environments.table_model import read_table
    >>> table = read_table(gym.make("FrozenLake-v1"))
    >>> table.model
    MDP(FrozenLake-v1: 11 states, 4 actions, 44 pairs)
    >>> print(table.note)
    11 of 16 states are in the model. In 5 the episode ends and the run goes on at the start:
    r1c1, r1c3, r2c3, r3c0, r3c3. The time limit of 100 steps is not part of the model.
    """
    if not isinstance(ends, str) or ends not in ENDS:
        raise unknown_name("choice of `ends`", ends, ENDS, argument="ends")
    rows = read_rows(env) if actions is None else _chosen(read_rows(env), list(actions))
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
    return TabularModel(model, frozen(states + rows.first_state), note)


def _chosen(rows: TableRows, actions: list[int]) -> TableRows:
    """Returns the rows of some of the actions."""
    pairs = (np.arange(rows.num_states)[:, None] * rows.num_actions + actions).ravel()
    return replace(
        rows, moves=rows.moves[pairs], ends=rows.ends[pairs], num_actions=len(actions), chosen=tuple(actions)
    )


def _restarting(rows: TableRows) -> Matrix:
    """Returns the rows `[S*A, S]` in which every end leads to the start distribution."""
    ending = sp.csr_array(rows.ends.sum(axis=1).reshape(-1, 1))
    return sp.csr_array(rows.moves + ending @ sp.csr_array(rows.start.reshape(1, -1)))


def _end_states(rows: TableRows, acted_in: BoolArray) -> BoolArray:
    """Returns the states `[S]` in which an episode may end after an action in one of `acted_in`."""
    return rows.ends.T @ np.repeat(acted_in, rows.num_actions).astype(float) > 0


def _staying(rows: TableRows, acted_in: BoolArray, is_end: BoolArray) -> Matrix:
    """Returns the rows `[S*A, S]` in which a state where an episode ends is never left again."""
    both = np.flatnonzero(is_end & acted_in)
    if both.size:
        raise InvalidArgumentError(
            f"some transitions into state {both[0] + rows.first_state} end the episode and others do not, so "
            "it cannot be a state that is never left.",
            argument="ends",
            remedy='Use ends="restart".',
        )
    at_end = np.repeat(is_end, rows.num_actions).astype(float)
    itself = sp.kron(sp.eye_array(rows.num_states), np.ones((rows.num_actions, 1)), format="csr")
    going = sp.diags_array(1 - at_end) @ (rows.moves + rows.ends)
    return sp.csr_array(going + sp.diags_array(at_end) @ itself)


def _whole_model(env: Any, rows: TableRows, transitions: Matrix, note: str = "") -> MDP:
    """Returns the model of all states of the table, reachable or not."""
    looks = picture(env) if rows.chosen is None else _picture_of(picture(env), rows)
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


def _picture_of(looks: Labelling, rows: TableRows) -> Labelling:
    """Returns names and positions with those of the chosen actions only."""
    chosen = list(rows.chosen or ())
    labels = looks.action_labels or [str(rows.first_action + k) for k in range(max(chosen) + 1)]
    layout = looks.layout
    if layout is not None and layout.directions is not None:
        layout = replace(layout, directions=layout.directions[chosen])
    return Labelling(looks.state_labels, tuple(labels[k] for k in chosen), layout)


def _left_out(whole: MDP, kept: BoolArray, acted_in: BoolArray, is_end: BoolArray) -> list[str]:
    """Returns sentences about the states and pairs that are not in the model."""
    is_kept = np.bincount(whole.pair_state[kept], minlength=whole.num_states) > 0
    gone = ~is_kept
    groups = [
        ("In {} the episode ends and the run goes on at the start: {}.", gone & is_end),
        ("{} cannot be reached from the start: {}.", gone & ~is_end & ~acted_in),
        ("{} cannot be visited in the long run: {}.", gone & ~is_end & acted_in),
    ]
    sentences = [f"{is_kept.sum()} of {whole.num_states} states are in the model."]
    sentences += [text.format(group.sum(), _names(whole, group)) for text, group in groups if group.any()]
    leaving = np.flatnonzero(~kept & is_kept[whole.pair_state])
    if leaving.size:
        names = name_some([whole.pair_name(int(pair)) for pair in leaving])
        count = f"{leaving.size} {'pair' if leaving.size == 1 else 'pairs'}"
        sentences.append(f"Left out because they may leave these states for good: {count}, {names}.")
    return sentences


def _names(whole: MDP, group: BoolArray) -> str:
    labels = whole.state_labels or ()
    return name_some([labels[state] for state in np.flatnonzero(group)])


def _time_limit(env: Any) -> list[str]:
    """Returns the sentence about the time limit among the wrappers, if there is one."""
    from gymnasium.wrappers import TimeLimit

    while hasattr(env, "env"):
        if isinstance(env, TimeLimit):
            return [f"The time limit of {count_of(env._max_episode_steps, 'step')} is not part of the model."]
        env = env.env
    return []
