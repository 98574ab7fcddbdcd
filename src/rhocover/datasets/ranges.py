"""Counts files in ranges of rows, through an executor: `audit("parts/", executor=pool)`.

Several files are one stream, as everywhere. Each range of rows is counted by a call of `count_range` with
plain arguments; the partial tallies that come back are merged (`partial`). The result is the same to the bit
as that of one process, whatever the ranges and whichever call finishes first.

Where a range begins in the stream must be known before it is counted, because batches are numbered by rows.
Parquet, NPZ and HDF5 files say how many rows they have. Other files are surveyed first, each by one call of
`survey_range`; and so are tables whose rows depend on their neighbours: without next states, with a column
of episodes, or with names of states and actions, which are numbered in sorted order.

Codes of observations are not counted in ranges: they are fitted to the first steps, grow with every step,
and sample what they see in its order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.actions import ActionIds, ActionNumbers, NamedActions
from rhocover.datasets.builder import Tallier
from rhocover.datasets.chunks import RowsBeside, Survey, chunks_of_table, stream_remarks, survey_of
from rhocover.datasets.collection.manifest import is_collection
from rhocover.datasets.collection.source import NUMBERED, open_collection
from rhocover.datasets.columns import Columns, are_names, find_columns, texts
from rhocover.datasets.forms.opening import chosen_columns, open_file_table, stream_files
from rhocover.datasets.partial import Merger, PartialTally
from rhocover.datasets.read_options import ReadData, ReadOptions
from rhocover.datasets.reading_minari import check_spaces, numbered_collection
from rhocover.datasets.states import CodedStates, Ids, NamedStates
from rhocover.datasets.tables import DataTable, Piece
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidArgumentError, InvalidDataError, parse_text
from rhocover.executors import check_executor, run_calls
from rhocover.progress import note

ROWS = 2**22  # of a range: counting them takes about half a second, starting a call a few milliseconds


@dataclass(frozen=True)
class RowRange:
    """Rows `begin` to `stop` - 1 of a file; None stands for its end, if the number of rows is not known."""

    path: str
    begin: int
    stop: int | None

    def __str__(self) -> str:
        stop = "the end" if self.stop is None else f"row {self.stop - 1}"
        return f"{self.path}, row {self.begin} to {stop},"


@dataclass(frozen=True)
class Reading:
    """What all ranges of a stream have in common: the columns, and how states and actions are numbered."""

    columns: Columns
    num_states: int | None = None
    num_actions: int | None = None
    state_names: tuple[str, ...] | None = None  # all of them, in order; None if states are numbers
    action_names: tuple[str, ...] | None = None
    num_steps: int = 0  # of the stream

    def state_numbers(self) -> Ids | NamedStates:
        """Returns the numbering of states."""
        return Ids(self.num_states) if self.state_names is None else NamedStates(_numbered(self.state_names))


def _numbered(names: Sequence[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


# What a worker does.


def count_range(rows: RowRange, how: Reading, first_step: int, beside: RowsBeside) -> PartialTally | None:
    """Returns the counts of a range, whose first step is `first_step` of the stream; None without steps."""
    columns, states = how.columns, how.state_numbers()
    actions = ActionIds(how.num_actions)
    if how.action_names is not None:
        actions = NamedActions(number_of=_numbered(how.action_names))
    names = columns.state, columns.action, columns.next_state or columns.state
    tallier = Tallier(actions.count, states.count, how.num_steps, names=names, first_row=first_step)
    for chunk in chunks_of_table(_pieces(rows, columns), columns, states.numbers, actions.numbers, beside):
        tallier.add(
            chunk.states, chunk.actions, chunk.next_states, chunk.terminated, chunk.truncated, chunk.first
        )
    return tallier.partial() if tallier.num_steps else None


@dataclass(frozen=True)
class SurveyedRange:
    """What a survey of a range found: its neighbours' business, and the names that occur in it."""

    about: Survey | None
    states: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()


def survey_range(
    rows: RowRange, columns: Columns, has_state_names: bool, has_action_names: bool
) -> SurveyedRange:
    """Returns what the other ranges need to know of a range."""
    states: set[str] = set()
    actions: set[str] = set()

    def seen() -> Iterator[Piece]:
        row = rows.begin
        for piece in _pieces(rows, columns):
            for name in (columns.state, columns.next_state):
                if has_state_names and name is not None:
                    states.update(np.unique(texts(piece[name], name, row)).tolist())
            if has_action_names:
                actions.update(np.unique(texts(piece[columns.action], columns.action, row)).tolist())
            row += len(piece[columns.state])
            yield piece

    return SurveyedRange(survey_of(seen(), columns, rows.begin), frozenset(states), frozenset(actions))


def _pieces(rows: RowRange, columns: Columns) -> Iterator[Piece]:
    """Yields the columns of a range; raises if the file has become shorter than it was."""
    table = _opened(Path(rows.path))
    missing = [name for name in columns.needed if name not in table.names]
    if missing:
        raise InvalidDataError(f"{table.name} lacks the column {missing[0]!r} that the first file has.")
    number = 0
    for piece in table.rows(columns.needed, rows.begin, rows.stop):
        number += len(piece[columns.state])
        yield piece
    if rows.stop is not None and number != rows.stop - rows.begin:
        raise InvalidDataError(f"{table.name} changed while it was read.")


def _opened(path: Path) -> DataTable:
    """Returns a file as a table; a collection, given by its folder, as one of numbers."""
    return numbered_collection(path)[0] if is_collection(path) else open_file_table(path)


# What the caller does.


def read_ranges(data: Any, asked: ReadOptions, size: int = ROWS) -> ReadData:
    """Returns the counts of files, each range of about `size` rows by a call of the executor."""
    executor = check_executor(asked.executor)
    _refuse_codes(asked)
    if isinstance(data, str | os.PathLike) and is_collection(Path(data)):
        return _read_collection(executor, Path(data), asked, size)
    paths, name = stream_files(data)
    table = open_file_table(paths[0])
    columns = find_columns(table.names, table.name, chosen_columns(asked.columns))
    has_names = _has_names(paths, columns)
    ranges = [rows for path in paths for rows in _ranges_of(path, columns, size)]
    how = Reading(columns, asked.num_states, asked.num_actions)
    is_plain = columns.next_state is not None and columns.episode is None and not any(has_names)
    if is_plain and all(rows.stop is not None for rows in ranges):
        plan = _plan_by_rows(ranges)
    else:
        how, plan = _surveyed(executor, how, has_names, ranges)
    if not plan.num_steps:
        raise InvalidDataError(f"{name} has no step whose next state is known: there is nothing to count.")
    whole = _count_all(executor, plan, replace(how, num_steps=plan.num_steps))
    remarks = (*table.remarks, *stream_remarks(columns, plan.num_left_out))
    return ReadData(_named(whole, how, asked, source=name, remarks=remarks), asked.states)


def _read_collection(executor: Any, folder: Path, asked: ReadOptions, size: int) -> ReadData:
    """Returns the counts of a collection; each range is some of its parts."""
    source = open_collection(folder)
    check_spaces(source, asked.spaces)
    _, states, actions = numbered_collection(folder)
    plan = _plan_by_rows(_ranges_of(folder, NUMBERED, size))
    how = Reading(NUMBERED, len(states.every_key), actions.num_actions, num_steps=plan.num_steps)
    whole = _count_all(executor, plan, how)
    tally = whole.tally(actions.num_actions, source=source.dataset_id, action_names=actions.names)
    return ReadData(CodedStates(states).named(tally), asked.states)


def _refuse_codes(asked: ReadOptions) -> None:
    for argument in ("states", "actions", "held_out"):
        if getattr(asked, argument) is not None:
            raise InvalidArgumentError.of(
                "executor",
                parse_text(
                    f"counts states and actions that are numbers or names, but `{argument}` encodes them"
                ),
                remedy=parse_text("Leave `executor` out, or write the numbers of the code to the files."),
            )


def _has_names(paths: Sequence[Path], columns: Columns) -> tuple[bool, bool]:
    """Returns whether states, and whether actions, are names, by the first rows of the stream."""
    for path in paths:
        for piece in open_file_table(path).pieces(columns.needed):
            if len(piece[columns.state]):
                state, action = columns.state, columns.action
                return are_names(piece[state], state), are_names(piece[action], action)
    raise InvalidDataError("the files have zero rows: there is nothing to count. At least one is needed.")


def _ranges_of(path: Path, columns: Columns, size: int) -> list[RowRange]:
    """Returns the ranges of a file, of at least `size` rows each but the last; one if it cannot be split."""
    table = _opened(path)
    if table.borders is None:
        return [RowRange(os.fspath(path), 0, None)]
    borders, cuts = table.borders(columns.needed), [0]
    for border in borders[1:-1]:
        if border - cuts[-1] >= size:
            cuts.append(border)
    return [RowRange(os.fspath(path), *two) for two in pairwise([*cuts, borders[-1]]) if two[0] < two[1]]


@dataclass(frozen=True)
class RangePlan:
    """Where each range with steps begins in the stream, and what is beside it."""

    ranges: list[RowRange]
    first_steps: list[int]
    beside: list[RowsBeside]
    num_steps: int
    num_left_out: int = 0


def _plan_by_rows(ranges: list[RowRange]) -> RangePlan:
    """Returns the plan of ranges whose rows are all steps."""
    first = np.cumsum([0, *((rows.stop or 0) - rows.begin for rows in ranges)]).tolist()
    return RangePlan(ranges, first[:-1], [RowsBeside(row) for row in first[:-1]], first[-1])


def _surveyed(
    executor: Any, how: Reading, has_names: tuple[bool, bool], ranges: list[RowRange]
) -> tuple[Reading, RangePlan]:
    """Returns the names in all ranges, and the plan of those that have rows."""
    calls = [(rows, how.columns, *has_names) for rows in ranges]
    found = dict(run_calls(executor, survey_range, calls, [f"the survey of {rows}" for rows in ranges]))
    surveys = [found[k].about for k in range(len(ranges))]
    some = [(rows, about) for rows, about in zip(ranges, surveys, strict=True) if about is not None]
    states, actions = (
        tuple(sorted(frozenset().union(*(getattr(one, name) for one in found.values()))))
        for name in ("states", "actions")
    )
    how = replace(
        how,
        state_names=states if has_names[0] else None,
        action_names=actions if has_names[1] else None,
    )
    return how, _plan_by_surveys([rows for rows, _ in some], [about for _, about in some], how.columns)


def _plan_by_surveys(ranges: list[RowRange], surveys: list[Survey], columns: Columns) -> RangePlan:
    """Returns the plan of ranges whose neighbours are known."""
    row = step = 0
    first_steps, beside = [], []
    for k, about in enumerate(surveys):
        before = surveys[k - 1].last if k else (None, True, True)
        after = surveys[k + 1].first if k + 1 < len(surveys) else None
        goes_on = after is not None and not about.last[1] and after[1] == about.last[0]
        first_steps.append(step)
        beside.append(RowsBeside(row, before[0], before[1], after and after[0], goes_on))
        row += about.num_rows
        is_known = about.last[2] or goes_on
        step += about.num_rows if columns.next_state is not None else about.num_known + is_known
    return RangePlan(ranges, first_steps, beside, step, row - step)


def _count_all(executor: Any, plan: RangePlan, how: Reading) -> PartialTally:
    """Returns the counts of the whole stream."""
    calls = [(rows, how, *two) for rows, *two in zip(plan.ranges, plan.first_steps, plan.beside, strict=True)]
    merger = Merger()
    for _, part in run_calls(executor, count_range, calls, [str(rows) for rows in plan.ranges]):
        if part is not None:
            merger.add(part)
            note(f"{merger.num_steps:,} of {plan.num_steps:,} steps counted")
    whole = merger.result()
    if (whole.first_row, whole.num_steps) != (0, plan.num_steps):
        raise InvalidDataError(
            f"the files changed while they were read: {plan.num_steps} steps were found at first, and "
            f"{whole.num_steps} were counted."
        )
    return whole


def _named(whole: PartialTally, how: Reading, asked: ReadOptions, **fields: Any) -> Tally:
    """Returns the tally with names of states and actions, as `reading_tables` gives them."""
    labels = asked.action_labels
    actions: ActionNumbers = ActionIds(asked.num_actions)
    if how.action_names is not None:
        actions = NamedActions(
            asked.num_actions, None if labels is None else tuple(labels), _numbered(how.action_names)
        )
        actions.check(list(how.action_names), how.columns.action)
    return actions.named(how.state_numbers().named(whole.tally(actions.count, **fields)))
