"""How often each state followed each pair, counted in pieces.

A move (pair, s') is one number, pair * 2^28 + s'. Few possible moves have a table, and a piece costs one
`bincount`. Among many, most pairs have a usual successor: the first that was seen. Moves to it are counted
per pair; the others are kept as sorted runs of the numbers that occurred with their counts, one run a piece,
merged when the runs have grown to three times what the last merge left.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import IntArray, Matrix
from rhocover.data.batches import SparseCounts, counted, sum_by_number

SHIFT = 28  # bits of a state's number
MOST_STATES = 2**SHIFT
LARGEST_TABLE = 2**20  # possible moves that are counted in a table
LEAST_RUN = 2**20  # numbers in runs before they are merged


class MoveCounts:
    """Counts of moves from `num_pairs` pairs to `num_states` states."""

    def __init__(self, num_pairs: int, num_states: int) -> None:
        self._shape = num_pairs, num_states
        self._counts: _TableCounts | _RunCounts = _make(num_pairs, num_states)

    def add(self, pairs: IntArray, next_states: IntArray, without: IntArray) -> None:
        """Counts moves, `[T]` each; the rows `without` are none."""
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
    """A place for every possible move, and one for what is no move."""

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
    """Moves to each pair's usual successor, and sorted runs of all others."""

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
