"""Counts a stream of transitions, in pieces of any size, into a tally.

The result does not depend on how the stream was divided into pieces: an episode may end in one piece and the
next begin in another. Memory holds the counts and one piece. Keys are integers; the states of the tally are
those that were met, by ascending key.

If the first rows of episodes are not marked, they are the rows after an end or a truncation; a row whose
state is not the next state of the row before begins an episode, too, because data sets often do not mark time
limits. Such jumps are counted, because in shuffled rows almost every row is one.

Whole episodes, as Minari stores them, have one observation more than steps; `count_episodes` counts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, IntArray
from rhocover.datasets.counting import (
    IS_CLOSED,
    JUMPS,
    MOST_STATES,
    NONE,
    SHIFT,
    TRUNCATED,
    Transitions,
    bounds,
    count_rows,
    near_items,
    room_for,
)
from rhocover.datasets.minari.columns import windows
from rhocover.datasets.partial import FirstRow, LastRow, PartialTally, renumbered
from rhocover.datasets.states import StateNumbers, WatchedStates
from rhocover.datasets.tally import BatchCounts, SparseCounts, Tally, sum_by_number
from rhocover.errors import Argument, InvalidArgumentError, InvalidDataError
from rhocover.learning.markov import MarkovTest, markov_test
from rhocover.progress import note

# The numbers of keys.

LARGEST_KEY = 2**20 - 1  # up to which a key is its own number


class KeyNumbers:
    """The number of each key met so far; `count` numbers are in use.

    Keys up to `LARGEST_KEY` are their own numbers and need no lookup. Once there is a larger one (a hash, a
    date, a code of many digits), all new keys are entered in a sorted list and get the next free numbers;
    those counted before keep theirs.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sorted: IntArray | None = None  # keys in order; None while every key is its own number
        self._number = np.empty(0, np.int64)  # of each of them

    def of(self, keys: IntArray) -> IntArray:
        """Returns the number of each key `[T]`; new keys get new numbers."""
        if self._sorted is None:
            top = int(keys.max())
            if top <= LARGEST_KEY:
                self.count = max(self.count, top + 1)
                return keys
            self._sorted, self._number = np.arange(self.count), np.arange(self.count)
        self._enter(np.unique(keys))
        return self._number[np.searchsorted(self._sorted, keys)]

    def keys(self, numbers: IntArray) -> IntArray:
        """Returns the key of each number."""
        if self._sorted is None:
            return numbers
        key = np.empty(self.count, np.int64)
        key[self._number] = self._sorted
        return key[numbers]

    def _enter(self, keys: IntArray) -> None:
        """Gives numbers to those of the distinct, sorted keys that have none."""
        assert self._sorted is not None
        fresh = np.setdiff1d(keys, self._sorted, assume_unique=True)
        if fresh.size:
            both = np.concatenate([self._sorted, fresh])
            numbers = np.concatenate([self._number, self.count + np.arange(fresh.size)])
            order = np.argsort(both, kind="stable")
            self._sorted, self._number = both[order], numbers[order]
            self.count += fresh.size


# The tally of a stream.

MOST_ACTIONS = 2**20
MOST_PAIRS = 2**26  # every pair has an entry in several arrays


class Tallier:
    """Counts transitions; `num_actions` and `num_keys` are taken from the data if they are not given.

    Counting is faster if `num_steps`, the least number of steps that will be added, is given. `names` are the
    names of the columns in error messages. The first `num_kept` steps are kept for `markov_test`. With
    `first_row`, the rows are a range of a stream that begins there; `partial` returns its counts.

    >>> tallier = Tallier()
    >>> tallier.add([0, 1, 0], [1, 0, 0], [1, 0, 1], [False, False, True])
    >>> tallier.tally().counts.tolist()
    [[1, 1], [1, 0]]
    """

    def __init__(
        self,
        num_actions: int | None = None,
        num_keys: int | None = None,
        num_steps: int = 0,
        *,
        names: tuple[str, str, str] = ("states", "actions", "next_states"),
        num_kept: int = 0,
        first_row: int = 0,
    ) -> None:
        self._num_actions, self._num_keys, self._names = num_actions, num_keys, names
        self._numbers = KeyNumbers()
        self._S, self._A = 1, num_actions or 1  # for which arrays have room
        self._ends, self._near = np.zeros(self._A, np.int64), room_for(self._A)
        self._starts, self._is_end = np.zeros(1, np.int64), np.zeros(1, bool)
        self._batches = BatchCounts(self._A, num_steps, first_row)
        self._far = Transitions()
        self._carried = np.array([-1, True, 0, 0, 0], np.int64)  # see `counting`
        self._top_action = -1
        self._first_row = first_row
        self._first: FirstRow | None = None
        self._kept: list[tuple[Any, ...]] = []  # states, actions, next states, is first of episode
        self._left = num_kept  # steps to keep
        self.num_steps = 0

    @property
    def num_jumps(self) -> int:
        """Rows so far whose state is not the next state of the row before, without an end between."""
        return int(self._carried[JUMPS])

    def add(
        self, states: Any, actions: Any, next_states: Any, terminated: Any,
        truncated: Any = None, first: Any = None,
    ) -> None:  # fmt: skip
        """Counts the next transitions of the stream, `[T]` each.

        `first` marks the rows that begin an episode; without it they are inferred (see the module). The very
        first row and every row after an end or a truncation begin one in any case. A row that is both
        terminated and truncated counts as an end.
        """
        s, _ = self._checked(states, self._names[0], self._num_keys)
        a, top_action = self._checked(actions, self._names[1], self._num_actions or MOST_ACTIONS)
        s_next, _ = self._checked(next_states, self._names[2], self._num_keys)
        if not s.size:
            return
        ended = _flags(terminated)
        closed = ended if truncated is None else ended | _flags(truncated)
        marks = NONE if first is None else _flags(first)
        if self._first is None:
            self._first = FirstRow(int(s[0]), None if first is None else bool(marks[0]))
        self._last_key = int(s_next[-1])
        s, s_next = self._numbers.of(s), self._numbers.of(s_next)
        self._top_action = max(self._top_action, top_action)
        self._make_room(self._numbers.count, self._top_action + 1)
        begins = self._count(s, a, s_next, ended, closed, marks)
        if self._left > 0:
            columns = (s, a, np.where(ended, -1, s_next), begins)
            self._kept.append(tuple(column[: self._left].astype(np.int32) for column in columns))
            self._left -= s.size
        self.num_steps += s.size
        note(f"{self.num_steps:,} steps read")

    def _count(
        self,
        s: IntArray,
        a: IntArray,
        s_next: IntArray,
        ended: BoolArray,
        closed: BoolArray,
        marks: BoolArray,
    ) -> BoolArray:
        """Counts rows whose numbers are in range, batch by batch; returns which of them begin episodes."""
        begins = np.zeros(s.size, bool) if self._left > 0 else NONE
        done = 0
        for stop in self._batches.stops(s.size):
            began = done
            while done < stop:
                done = count_rows(
                    s, a, s_next, ended, closed, marks, self._A, done, stop, begins, self._batches.current,
                    self._near, self._ends, self._starts, self._is_end, self._far.codes, self._far.counts,
                    self._carried,
                )  # fmt: skip
                if done < stop:
                    self._far = self._far.grown()
            rows = slice(began, stop)
            self._batches.counted(stop - began, lambda rows=rows: s[rows] * self._A + a[rows])
        return begins

    def markov_test(self) -> MarkovTest | None:
        """Returns the test of whether the states of the first steps are Markov; None if none were kept."""
        kept = zip(*self._kept, strict=True)
        return markov_test(*(np.concatenate(parts) for parts in kept)) if self._kept else None

    def tally(self, **names: Any) -> Tally:
        """Returns the counts over the states that were met; `names` are other fields of `Tally`."""
        return self.partial().tally(self._num_actions, **names)

    def partial(self) -> PartialTally:
        """Returns the counts so far as a value that merges with those of the rows before and after."""
        if self._first is None:
            raise InvalidDataError("the data have no transitions: zero rows. At least one is needed.")
        codes, counts = self._transitions()
        first_batch, batches = self._batches.all()
        end_pairs, start_places = np.flatnonzero(self._ends), np.flatnonzero(self._starts)
        states = self._states(codes, end_pairs, start_places)
        new = np.zeros(int(states.max()) + 1, np.int64)
        new[states] = np.arange(states.size)
        is_closed, truncated, jumps = (int(self._carried[k]) for k in (IS_CLOSED, TRUNCATED, JUMPS))
        found = PartialTally(
            first_row=self._first_row,
            num_steps=self.num_steps,
            num_actions=self._A,
            keys=self._numbers.keys(states),
            codes=codes,
            counts=counts,
            ends=(end_pairs, self._ends[end_pairs]),
            starts=(start_places, self._starts[start_places]),
            end_places=np.flatnonzero(self._is_end),
            num_truncated=truncated,
            num_jumps=jumps,
            batch_length=self._batches.length,
            first_batch=first_batch,
            batches=batches,
            first=self._first,
            last=LastRow(self._last_key, bool(is_closed)),
        )
        return renumbered(found, new, states.size, self._A)

    def _transitions(self) -> SparseCounts:
        """Returns the codes of all transitions, and how often each occurred."""
        items = zip(near_items(self._near), self._far.items(), strict=True)
        return sum_by_number(*(np.concatenate(two) for two in items))

    def _states(self, codes: IntArray, end_pairs: IntArray, start_places: IntArray) -> IntArray:
        """Returns the numbers of all states in the rows, also of those that are only ends, by their keys."""
        seen = self._is_end.copy()
        seen[(codes >> SHIFT) // self._A] = True
        seen[codes & (MOST_STATES - 1)] = True
        seen[end_pairs // self._A] = True
        seen[start_places] = True
        states = np.flatnonzero(seen)
        return states[np.argsort(self._numbers.keys(states), kind="stable")]

    def _checked(self, values: Any, name: str, limit: int | None) -> tuple[IntArray, int]:
        """Returns whole numbers from 0 as int64, and the largest; raises with the first row that has none."""
        array = checks.any_array(values, name)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidDataError.of(
                name, "must be one whole number per row", f"shape {array.shape} of {array.dtype}"
            )
        array = array.astype(np.int64, copy=False)
        least, largest = bounds(array) if array.size else (0, 0)
        if least < 0 or (limit is not None and largest >= limit):
            row = int(np.argmax((array < 0) | (array >= (limit or np.iinfo(np.int64).max))))
            bound, where = (
                "" if limit is None else f" to {limit - 1}",
                f"in row {self._first_row + self.num_steps + row}",
            )
            raise InvalidDataError.of(
                name,
                f"must be whole numbers from 0{bound}",
                f"{array[row]} {where}",
                remedy="Is it data of another environment?",
            )
        return array, int(largest)

    def _make_room(self, num_states: int, num_actions: int) -> None:
        """Makes room for these numbers of states and actions, and for up to twice the states."""
        if num_states <= self._S and num_actions <= self._A:
            return
        S = self._S if num_states <= self._S else max(num_states, min(2 * self._S, 2 * num_states))
        A = max(num_actions, self._A)
        if S * A > MOST_PAIRS:
            raise InvalidDataError(
                f"{num_states} states with {A} actions each are more than the {MOST_PAIRS} pairs that can be "
                "counted. Number the actions from 0 without gaps, or read the data with coarser states."
            )
        old = np.arange(self._S * self._A)
        new = old // self._A * A + old % self._A
        ends, near = np.zeros(S * A, np.int64), room_for(S * A)
        ends[new], near.reshape(S * A, -1)[new] = self._ends, self._near.reshape(old.size, -1)
        self._starts = np.pad(self._starts, (0, S - self._S))
        self._is_end = np.pad(self._is_end, (0, S - self._S))
        self._batches.renumber(new, S * A)
        if A > self._A:
            codes, counts = self._far.items()
            codes = (new[codes >> SHIFT] << SHIFT) | (codes & (MOST_STATES - 1))
            self._far = Transitions.of(codes, counts)
        self._ends, self._near, self._S, self._A = ends, near, S, A


def _flags(values: Any) -> BoolArray:
    """Returns one flag per row."""
    return np.asarray(values, bool)


# Whole episodes, with all their observations.

AT_ONCE = 1 << 22  # numbers of observations that are encoded together: 32 MB as float64


def count_episodes(
    tallier: Tallier, columns: Any, code: StateNumbers, action_code: Any, source: str, goes_on: bool = False
) -> None:
    """Counts a piece: E episodes with N steps in all have N + E observations, one more than steps each.

    If the piece before ended within an episode, this one `goes_on` with it.
    """
    if isinstance(code, WatchedStates):
        code.watch.is_next_known = goes_on  # the last observation of the piece before
    try:
        seen = _numbers_of(columns.observations, code, tallier.num_steps)
        actions = action_code.numbers(columns.actions)
    except InvalidArgumentError as error:
        where = f": {source} cannot be read after step {tallier.num_steps}: "
        raise InvalidDataError((Argument("data"), where, *error.text), argument="data") from error
    lengths = np.asarray(columns.lengths, np.int64)
    is_state, is_next = within_episodes(lengths)
    first = np.zeros(actions.size, bool)
    first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    first[0] &= not goes_on
    tallier.add(seen[is_state], actions, seen[is_next], columns.terminations, columns.truncations, first)


def _numbers_of(observations: Any, code: StateNumbers, first_row: int) -> IntArray:
    """Returns the number of each observation, in parts, because codes convert observations to float64."""
    shown = windows(observations, AT_ONCE)
    parts = [code.numbers(rows_of(some), "observations", first_row) for some in shown]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def within_episodes(lengths: IntArray) -> tuple[Any, Any]:
    """Returns which observations are followed by a step, and which follow one, `[N + E]` each."""
    begin = np.cumsum(lengths) - lengths + np.arange(lengths.size)  # of each episode, among observations
    is_state, is_next = np.ones((2, int(lengths.sum()) + lengths.size), bool)
    is_state[begin + lengths] = False
    is_next[begin] = False
    return is_state, is_next


def rows_of(observations: Any) -> Any:
    """Returns observations with one entry per step: nested columns become a list of values."""
    if isinstance(observations, dict):
        parts = {key: rows_of(value) for key, value in observations.items()}
        length = len(next(iter(parts.values())))
        return [{key: part[t] for key, part in parts.items()} for t in range(length)]
    if isinstance(observations, tuple):
        return list(zip(*(rows_of(part) for part in observations), strict=True))
    return observations
