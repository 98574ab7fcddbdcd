"""Counts a table of steps, read in pieces: names or numbers of states and actions, codes, and remarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from rhocover.datasets.actions import make_action_numbers
from rhocover.datasets.builder import Tallier
from rhocover.datasets.chunks import chunks_of_table, stream_remarks
from rhocover.datasets.columns import Columns, are_names, find_columns, real_numbers
from rhocover.datasets.forms.opening import chosen_columns
from rhocover.datasets.read_options import (
    MOST_FITTED,
    ReadData,
    ReadOptions,
    as_read,
    num_kept,
    read_held_out,
    watched_states,
)
from rhocover.datasets.states import Ids, NamedStates, StateNumbers, WatchedStates
from rhocover.datasets.tables import DataTable, Piece
from rhocover.environments.encoding import WholeNumber, read_state_code
from rhocover.environments.encoding.watching import Watch
from rhocover.errors import InvalidDataError

MOST_NUMBERS = 2**24  # of the observations to which a code is fitted


def read_table(table: DataTable, asked: ReadOptions) -> ReadData:
    """Returns the counts of a table, and the code of its states after reading."""
    chosen = {} if table.has_roles else chosen_columns(asked.columns)
    columns = find_columns(table.names, table.name, chosen)
    head, pieces = _head(_as_numbers(table.pieces(columns.needed), columns, asked), columns, asked)
    if not head:
        raise InvalidDataError(
            f"{table.name} has zero rows: there is nothing to count. At least one is needed."
        )
    observations, actions = _first(head, columns.state), _first(head, columns.action)
    then = None if columns.next_state is None else _first(head, columns.next_state)
    states, held_out = asked.fitted_codes(observations, then)
    coder = _state_numbers(states, held_out, observations, columns.state, asked)
    space = asked.code_spaces and asked.code_spaces[1]
    acted = make_action_numbers(
        asked.actions, actions, columns.action, asked.num_actions, asked.action_labels, space
    )
    num_rows = table.num_rows if columns.next_state else 0  # without next states some rows are left out
    names_of = columns.state, columns.action, columns.next_state or columns.state
    tallier = Tallier(acted.count, coder.count, num_rows, names=names_of, num_kept=num_kept(coder))
    left_out = 0
    for chunk in chunks_of_table(chain(head, pieces), columns, coder.numbers, acted.numbers):
        tallier.add(
            chunk.states, chunk.actions, chunk.next_states, chunk.terminated, chunk.truncated, chunk.first
        )
        left_out += chunk.num_left_out
    if not tallier.num_steps:
        raise InvalidDataError(
            f"{table.name} has no step whose next state is known: there is nothing to count."
        )
    remarks = [*table.remarks, *stream_remarks(columns, left_out), *asked.fit_remarks(len(observations))]
    tally = acted.named(coder.named(tallier.tally(source=table.name, remarks=tuple(remarks))))
    return as_read(tally, tallier, coder, asked)


def _as_numbers(pieces: Iterator[Piece], columns: Columns, asked: ReadOptions) -> Iterator[Piece]:
    """Yields the pieces; text in columns that a code is about becomes numbers, except for a function."""
    is_coded = not (asked.states is None or callable(asked.states))
    names = [columns.state, columns.next_state] if is_coded or asked.held_out is not None else []
    names = [name for name in (*names, columns.action if asked.actions is not None else None) if name]
    row = 0
    for piece in pieces:
        yield {**piece, **{name: real_numbers(piece[name], name, row) for name in names}}
        row += len(piece[columns.state])


def _state_numbers(states: Any, held_out: Any, example: Any, column: str, asked: ReadOptions) -> StateNumbers:
    """Returns the numbering of states; a code is made for observations of the shape of `example`."""
    if states is None and held_out is None:
        return NamedStates() if are_names(example, column) else Ids(asked.num_states)
    space = asked.code_spaces[0] if asked.code_spaces else _space_of(example)
    if states is None:
        return WatchedStates(Ids(asked.num_states), Watch(WholeNumber(1), read_held_out(held_out, space)))
    return watched_states(read_state_code(states, space), held_out, space)


def _space_of(example: Any) -> Any:
    """Returns the space of observations like these, without bounds, because a table has none."""
    from gymnasium import spaces

    shape = np.asarray(example).shape[1:] if not isinstance(example, list) else ()
    return spaces.Box(-np.inf, np.inf, shape, np.float64)


# The first steps, to which codes are fitted.


def _head(
    pieces: Iterator[Piece], columns: Columns, asked: ReadOptions
) -> tuple[list[Piece], Iterator[Piece]]:
    """Returns the first pieces, as many as a fit needs, and the others."""
    needs_fit = asked.must_fit or asked.actions is not None
    head, rows = [], 0
    for piece in pieces:
        number = len(piece[columns.state])
        if number:
            head.append(piece)
            rows += number
        if rows >= (_num_fitted(head[0][columns.state]) if needs_fit and head else 1):
            break
    return head, pieces


def _num_fitted(observations: Any) -> int:
    """Returns to how many steps a code is fitted: fewer if observations are large."""
    size = np.asarray(observations[0]).size if not isinstance(observations[0], dict) else 1
    return min(MOST_FITTED, max(1, MOST_NUMBERS // max(size, 1)))


def _first(head: Sequence[Piece], name: str) -> Any:
    """Returns a column of the first pieces, to which codes are fitted."""
    parts = [piece[name] for piece in head]
    number = _num_fitted(parts[0])
    if isinstance(parts[0], list):
        return [value for part in parts for value in part][:number]
    return (parts[0] if len(parts) == 1 else np.concatenate(parts))[:number]
