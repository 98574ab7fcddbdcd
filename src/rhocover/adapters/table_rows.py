"""An environment's own table of transitions, read and checked.

Gymnasium's tabular environments carry `P[state][action]`, a list of (probability, next state, reward,
terminated). A successor may stand in it several times (a slip into a wall is one of three ways to stay);
its probabilities are added up. Rewards are not read. What is not a table is refused with its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, Matrix
from rhocover.errors import InvalidArgumentError, InvalidModelError
from rhocover.transitions import ROW_SUM_TOLERANCE

Entry = tuple[float, int, bool]  # probability, next state, whether the episode ends there


@dataclass(frozen=True, eq=False)
class TableRows:
    """The table as two matrices `[S*A, S]`, row s*A + a: moves that go on, and moves that end the episode.

    `start` `[S]` is how episodes begin. States and actions count from 0; the environment's own numbers are
    `first_state` and `first_action` higher.
    """

    moves: Matrix
    ends: Matrix
    start: FloatArray
    num_states: int
    num_actions: int
    first_state: int
    first_action: int


def read_rows(env: Any) -> TableRows:
    """Returns the table of an environment; raises if it has none or a wrong one."""
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
        raise InvalidArgumentError(f"`env` must be an environment, got a name: pass gymnasium.make({env!r}).")
    if not hasattr(env, "unwrapped") or not hasattr(env, "action_space"):
        raise InvalidArgumentError(f"`env` must be an environment of Gymnasium, got {type(env).__name__}.")
    table = getattr(env.unwrapped, "P", None)
    if not isinstance(table, Mapping | Sequence):
        raise InvalidArgumentError(
            f"{type(env.unwrapped).__name__} has no table of its transitions (`env.unwrapped.P`), so its "
            'model is not known. It can be learned on the way: explore(env, ..., model="learned").'
        )
    if getattr(env.unwrapped, "fickle_passenger", False):
        raise InvalidArgumentError(
            "a fickle passenger changes the destination outside the table of the Taxi environment. Make it "
            'with fickle_passenger=False, or explore(env, ..., model="learned").'
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
                "Take the wrapper that changes it away, or pass env.unwrapped."
            )
    return _numbers(env.observation_space), _numbers(env.action_space)


def _numbers(space: Any) -> range:
    return range(int(space.start), int(space.start) + int(space.n))


def _look_up(table: Any, number: int, place: str, kind: str) -> Any:
    try:
        return table[number]
    except (KeyError, IndexError, TypeError):
        raise InvalidModelError(
            f"the table has no entry P{place}[{number}]; every {kind} of the space needs one."
        ) from None


def _row(at_state: Any, state: int, action: int, states: range) -> list[Entry]:
    place = f"P[{state}][{action}]"
    entries = _look_up(at_state, action, f"[{state}]", "action")
    row = [_entry(entry, place, states) for entry in _listed(entries, place)]
    total = sum(entry[0] for entry in row)
    if not abs(total - 1) <= ROW_SUM_TOLERANCE:
        raise InvalidModelError(f"{place} sums to {total:g}, expected 1 (tolerance {ROW_SUM_TOLERANCE:g}).")
    return row


def _listed(entries: Any, place: str) -> list[Any]:
    if isinstance(entries, Sequence) and not isinstance(entries, str):
        return list(entries)
    raise InvalidModelError(
        f"{place} must be a list of (probability, state, reward, ended), got {entries!r}."
    )


def _entry(entry: Any, place: str, states: range) -> Entry:
    try:
        probability, successor, _, ended = entry
        result = float(probability), int(successor), bool(ended)
    except (TypeError, ValueError) as error:
        raise InvalidModelError(
            f"{place} holds {entry!r}, expected (probability, next state, reward, terminated)."
        ) from error
    if not 0 <= result[0] <= 1 + ROW_SUM_TOLERANCE:  # NaN is not
        raise InvalidModelError(f"{place} has the probability {result[0]:g}, expected 0 to 1.")
    if result[1] != successor or result[1] not in states:
        raise InvalidModelError(
            f"{place} leads to state {successor}, expected {states.start} to {states.stop - 1}."
        )
    return result


def _matrix(rows: list[list[Entry]], num_states: int, first: int, *, ended: bool) -> Matrix:
    """Returns the entries that end the episode, or those that do not, `[S*A, S]`; duplicates add up."""
    chosen = [(i, s - first, p) for i, row in enumerate(rows) for p, s, end in row if end == ended and p > 0]
    i, s, p = (np.array(part) for part in zip(*chosen, strict=True)) if chosen else ([], [], [])
    return sp.csr_array((p, (i, s)), shape=(len(rows), num_states), dtype=np.float64)


def _start(env: Any, num_states: int) -> FloatArray:
    for name in ("initial_state_distrib", "isd"):
        if getattr(env.unwrapped, name, None) is not None:
            return checks.distribution(getattr(env.unwrapped, name), f"env.unwrapped.{name}", num_states)
    raise InvalidArgumentError(
        f"{type(env.unwrapped).__name__} has a table but does not say how episodes begin: set "
        f"env.unwrapped.initial_state_distrib to {num_states} probabilities."
    )
