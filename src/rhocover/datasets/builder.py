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
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.datasets.minari.columns import windows
from rhocover.datasets.states import StateNumbers, WatchedStates
from rhocover.datasets.tally import BatchCounts, SparseCounts, Tally, counted, sum_by_number
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


# The counts of transitions.

SHIFT = 28  # bits of a state's number
MOST_STATES = 2**SHIFT
LARGEST_TABLE = 2**20  # possible transitions up to which they are counted in a table
LEAST_RUN = 2**20  # numbers in runs before they are merged


class MoveCounts:
    """Counts of transitions from `num_pairs` pairs to `num_states` states.

    A transition (pair, s') is one number, pair * 2^28 + s'. If few transitions are possible they have a
    table, and a piece costs one `bincount`. If there are many, transitions to the usual next state of a pair,
    the first one observed, are counted per pair. The others are kept as sorted runs of distinct numbers with
    their counts, one run per piece, which are merged when they have grown to three times the size after the
    last merge.
    """

    def __init__(self, num_pairs: int, num_states: int) -> None:
        self._shape = num_pairs, num_states
        self._counts: _TableCounts | _RunCounts = _make(num_pairs, num_states)

    def add(self, pairs: IntArray, next_states: IntArray, without: IntArray) -> None:
        """Counts transitions, `[T]` each, except the rows in `without`."""
        self._counts.add(pairs, next_states, without)

    def matrix(self) -> Matrix:
        """Returns the counts, csr int64 `[n, S]`."""
        numbers, counts = self._counts.all()
        first = np.searchsorted(numbers, np.arange(self._shape[0] + 1) << SHIFT)
        return sp.csr_array((counts, numbers & (MOST_STATES - 1), first), shape=self._shape)

    def renumber(self, new_pair: IntArray, num_pairs: int, num_states: int) -> None:
        """Gives pair i the number `new_pair[i]`, in the same order; states keep theirs."""
        numbers, counts = self._counts.all()
        self._shape = num_pairs, num_states
        self._counts = _make(num_pairs, num_states)
        self._counts.put(((new_pair[numbers >> SHIFT] << SHIFT) | (numbers & (MOST_STATES - 1)), counts))


def _make(num_pairs: int, num_states: int) -> _TableCounts | _RunCounts:
    if num_pairs * num_states <= LARGEST_TABLE:
        return _TableCounts(num_pairs, num_states)
    return _RunCounts(num_pairs)


class _TableCounts:
    """A table of all possible transitions, with one more entry for rows that are none."""

    def __init__(self, num_pairs: int, num_states: int) -> None:
        self._num_states = num_states
        self._table = np.zeros(num_pairs * num_states + 1, np.int64)

    def add(self, pairs: IntArray, next_states: IntArray, without: IntArray) -> None:
        numbers = pairs * self._num_states
        numbers += next_states
        numbers[without] = self._table.size - 1
        self._table += np.bincount(numbers, minlength=self._table.size)

    def put(self, moves: SparseCounts) -> None:
        numbers, counts = moves
        self._table[(numbers >> SHIFT) * self._num_states + (numbers & (MOST_STATES - 1))] += counts

    def all(self) -> SparseCounts:
        seen = np.flatnonzero(self._table[:-1])
        pair, state = np.divmod(seen, self._num_states)
        return (pair << SHIFT) | state, self._table[seen]


class _RunCounts:
    """Transitions to the usual next state of each pair, and sorted runs of all others."""

    def __init__(self, num_pairs: int) -> None:
        self._usual = np.full(num_pairs, -1, np.int64)
        self._hits = np.zeros(num_pairs, np.int64)
        self._runs: list[SparseCounts] = []
        self._held = self._merged = 0

    def add(self, pairs: IntArray, next_states: IntArray, without: IntArray) -> None:
        expected = self._usual[pairs]
        fresh = np.flatnonzero(expected < 0)
        if fresh.size:
            self._usual[pairs[fresh]] = next_states[fresh]
            expected[fresh] = self._usual[pairs[fresh]]
        is_other = expected != next_states
        is_other[without] = True
        others = np.flatnonzero(is_other)
        self._hits += np.bincount(pairs, minlength=self._hits.size)
        self._hits -= np.bincount(pairs[others], minlength=self._hits.size)
        is_other[without] = False
        others = np.flatnonzero(is_other)
        self.put(counted(np.sort((pairs[others] << SHIFT) | next_states[others])))

    def put(self, moves: SparseCounts) -> None:
        self._runs.append(moves)
        self._held += moves[0].size
        if self._held > max(3 * self._merged, LEAST_RUN):
            self._runs = [_merged(self._runs)]
            self._held = self._merged = self._runs[0][0].size

    def all(self) -> SparseCounts:
        hit = np.flatnonzero(self._hits)
        return _merged([*self._runs, ((hit << SHIFT) | self._usual[hit], self._hits[hit])])


def _merged(runs: list[SparseCounts]) -> SparseCounts:
    numbers, counts = (np.concatenate(part) for part in zip(*runs, strict=True))
    return sum_by_number(numbers, counts)


# The tally of a stream.

MOST_ACTIONS = 2**20
MOST_PAIRS = 2**26  # every pair has an entry in several arrays


class Tallier:
    """Counts transitions; `num_actions` and `num_keys` are taken from the data if they are not given.

    Counting is faster if `num_steps`, the least number of steps that will be added, is given. `names` are the
    names of the columns in error messages. The first `num_kept` steps are kept for `markov_test`.

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
    ) -> None:
        self._num_actions, self._num_keys, self._names = num_actions, num_keys, names
        self._numbers = KeyNumbers()
        self._S, self._A = 1, num_actions or 1  # for which arrays have room
        self._ends, self._starts = np.zeros(self._A, np.int64), np.zeros(1, np.int64)
        self._is_end = np.zeros(1, bool)
        self._batches, self._moves = BatchCounts(self._A, num_steps), MoveCounts(self._A, 1)
        self._led_to, self._is_closed = -1, True  # of the last row
        self._top_action = -1
        self._kept: list[tuple[Any, ...]] = []  # states, actions, next states, is first of episode
        self._left = num_kept  # steps to keep
        self.num_steps = self.num_truncated = self.num_jumps = 0

    def add(
        self, states: Any, actions: Any, next_states: Any, terminated: Any,
        truncated: Any = None, first: Any = None,
    ) -> None:  # fmt: skip
        """Counts the next transitions of the stream, `[T]` each.

        `first` marks the rows that begin an episode; without it they are inferred (see the module). The very
        first row and every row after an end or a truncation begin one in any case. A row that is both
        terminated and truncated counts as an end.
        """
        s = self._checked(states, self._names[0], self._num_keys)
        a = self._checked(actions, self._names[1], self._num_actions or MOST_ACTIONS)
        s_next = self._checked(next_states, self._names[2], self._num_keys)
        if not s.size:
            return
        ended = np.asarray(terminated, bool)
        closed = ended if truncated is None else ended | np.asarray(truncated, bool)
        s, s_next = self._numbers.of(s), self._numbers.of(s_next)
        self._top_action = max(self._top_action, int(a.max()))
        self._make_room(self._numbers.count, self._top_action + 1)
        begins = self._count_episodes(s, s_next, ended, closed, first)
        if self._left > 0:
            columns = (s, a, np.where(ended, -1, s_next), begins)
            self._kept.append(tuple(column[: self._left].astype(np.int32) for column in columns))
            self._left -= s.size
        pair = s * self._A + a
        self._batches.add(pair)
        last = np.flatnonzero(ended)
        self._moves.add(pair, s_next, last)
        np.add.at(self._ends, pair[last], 1)
        self._is_end[s_next[last]] = True
        self.num_steps += s.size
        note(f"{self.num_steps:,} steps read")

    def markov_test(self) -> MarkovTest | None:
        """Returns the test of whether the states of the first steps are Markov; None if none were kept."""
        kept = zip(*self._kept, strict=True)
        return markov_test(*(np.concatenate(parts) for parts in kept)) if self._kept else None

    def tally(self, **names: Any) -> Tally:
        """Returns the counts over the states that were met; `names` are other fields of `Tally`."""
        A = self._num_actions or self._top_action + 1
        if not self.num_steps:
            raise InvalidDataError("the data have no transitions: zero rows. At least one is needed.")
        self._make_room(self._numbers.count, A)
        moves = self._moves.matrix()
        visits = np.asarray(moves.sum(axis=1)).ravel() + self._ends
        met = visits.reshape(self._S, self._A).any(axis=1) | (self._starts > 0)
        met[moves.indices] = True
        states = np.flatnonzero(met)
        order = np.argsort(self._numbers.keys(states), kind="stable")
        states = states[order]
        only_ends = np.flatnonzero(self._is_end & ~met)
        return self._over(states, A, moves, tuple(np.sort(self._numbers.keys(only_ends)).tolist()), names)

    def _over(self, states: IntArray, A: int, moves: Any, end_keys: tuple, names: dict[str, Any]) -> Tally:
        """Returns the tally of these states, in this order."""
        pairs = (states[:, None] * self._A + np.arange(A)).ravel()
        batches = self._batches.matrix()
        if np.array_equal(pairs, np.arange(pairs.size)):  # all states, perhaps with unused room after them
            moves, batches = _cut(moves, pairs.size, states.size), _cut(batches, batches.shape[0], pairs.size)
        else:
            moves, batches = moves[pairs][:, states], batches[:, pairs]
            moves.sort_indices()
        return Tally(
            keys=tuple(self._numbers.keys(states).tolist()),
            num_actions=A,
            moves=frozen_matrix(moves),
            ends=frozen(self._ends[pairs]),
            starts=frozen(self._starts[states]),
            num_steps=self.num_steps,
            num_episodes=int(self._starts.sum()),
            num_truncated=self.num_truncated,
            batches=frozen_matrix(batches),
            batch_length=self._batches.length,
            num_jumps=self.num_jumps,
            end_keys=end_keys,
            **names,
        )

    def _count_episodes(
        self, s: IntArray, s_next: IntArray, ended: BoolArray, closed: BoolArray, first: Any
    ) -> BoolArray:
        """Counts starts, truncations and jumps, also between pieces; returns which rows begin episodes."""
        after_close = np.empty(s.size, bool)
        after_close[0], after_close[1:] = self._is_closed, closed[:-1]
        if first is None:
            begins = np.empty(s.size, bool)
            begins[0] = s[0] != self._led_to
            np.not_equal(s[1:], s_next[:-1], out=begins[1:])
            self.num_jumps += int(np.count_nonzero(begins & ~after_close))
        else:
            begins = np.asarray(first, bool).copy()
        self.num_truncated += int(np.count_nonzero(closed & ~ended) + np.count_nonzero(begins & ~after_close))
        begins |= after_close
        np.add.at(self._starts, s[begins], 1)
        self._led_to, self._is_closed = int(s_next[-1]), bool(closed[-1])
        return begins

    def _checked(self, values: Any, name: str, limit: int | None) -> IntArray:
        """Returns whole numbers from 0 as int64; raises with the row of the first that is not one."""
        array = checks.any_array(values, name)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InvalidDataError.of(
                name, "must be one whole number per row", f"shape {array.shape} of {array.dtype}"
            )
        array = array.astype(np.int64, copy=False)
        if array.size and (array.min() < 0 or (limit is not None and array.max() >= limit)):
            row = int(np.argmax((array < 0) | (array >= (limit or np.iinfo(np.int64).max))))
            bound, where = "" if limit is None else f" to {limit - 1}", f"in row {self.num_steps + row}"
            raise InvalidDataError.of(
                name,
                f"must be whole numbers from 0{bound}",
                f"{array[row]} {where}",
                remedy="Is it data of another environment?",
            )
        return array

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
        ends = np.zeros(S * A, np.int64)
        ends[new] = self._ends
        self._starts = np.pad(self._starts, (0, S - self._S))
        self._is_end = np.pad(self._is_end, (0, S - self._S))
        self._batches.renumber(new, S * A)
        self._moves.renumber(new, S * A, S)
        self._ends, self._S, self._A = ends, S, A


def _cut(matrix: Matrix, num_rows: int, num_columns: int) -> Matrix:
    """Returns the first rows and columns of a matrix that is zero beyond them, without a copy."""
    parts = matrix.data, matrix.indices, matrix.indptr[: num_rows + 1]
    return sp.csr_array(parts, shape=(num_rows, num_columns))


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
