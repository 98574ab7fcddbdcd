"""Counts of equal stretches of a stream, a few dozen of them however long it gets.

The share of a pair among T steps is a mean of dependent numbers, so its error is not sqrt(p(1-p)/T). The
means over long stretches are almost independent, and their spread is an honest error (batch means, Schmeiser
1982). A stream's length is not known beforehand: stretches have length 1 at first, and whenever 64 are full,
neighbours are joined and the length doubles. So there are always 32 to 63 of them, of a length that is a
power of two and does not depend on the pieces in which the stream arrived. What follows the last full stretch
is left out.

Knows nothing of states and actions: it counts numbers 0..n-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import IntArray, Matrix

MOST = 64  # stretches; when so many would be full, their length doubles
FEW = 4  # a segment so many times smaller than the counts is added one by one

SparseCounts = tuple[Any, Any]  # numbers in order, and how often each occurs


class BatchCounts:
    """Counts of consecutive equal stretches; feed it with `add`, ask with `matrix` and `length`.

    Where at least `num_steps` will come, short stretches need not be made first; the result is the same.
    """

    def __init__(self, num_pairs: int, num_steps: int = 0) -> None:
        self.length = 1
        while num_steps // self.length >= MOST:
            self.length *= 2
        self._full: list[SparseCounts] = []
        self._current = np.zeros(num_pairs, np.int64)
        self._filled = 0  # steps in the stretch that is being filled
        self._total = 0

    def add(self, pairs: IntArray) -> None:
        """Takes the next steps of the stream, the pair of each, `[T]`."""
        self._total += pairs.size
        while self._total // self.length >= MOST:
            self._double()
        done = 0
        while done < pairs.size:
            segment = pairs[done : done + self.length - self._filled]
            self._count(segment)
            done += segment.size

    def matrix(self) -> Matrix:
        """Returns the counts of the full stretches in order, csr `[K, n]`."""
        shape = (len(self._full), self._current.size)
        if not self._full:
            return sp.csr_array(shape, dtype=np.int64)
        first = np.cumsum([0, *(numbers.size for numbers, _ in self._full)])
        columns, counts = (np.concatenate(part) for part in zip(*self._full, strict=True))
        return sp.csr_array((counts, columns, first), shape=shape)

    def renumber(self, new: IntArray, num_pairs: int) -> None:
        """Gives pair i the number `new[i]`, in the same order, among `num_pairs`."""
        self._full = [(new[numbers].astype(numbers.dtype), counts) for numbers, counts in self._full]
        current, self._current = self._current, np.zeros(num_pairs, np.int64)
        self._current[new[: current.size]] = current

    def _count(self, segment: IntArray) -> None:
        is_short = FEW * segment.size < self._current.size
        if is_short and segment.size == self.length:  # a whole stretch: no need to look through all pairs
            self._keep(counted(np.sort(segment)))
            return
        if is_short:
            np.add.at(self._current, segment, 1)
        else:
            self._current += np.bincount(segment, minlength=self._current.size)
        self._filled += segment.size
        if self._filled == self.length:
            numbers = np.flatnonzero(self._current != 0)  # of bool, because NumPy is faster there
            self._keep((numbers, self._current[numbers]))
            self._current[numbers] = 0
            self._filled = 0

    def _keep(self, counts: SparseCounts) -> None:
        """Puts a full stretch away, in half the room where its numbers allow that."""
        kind = np.int32 if max(self.length, self._current.size) < 2**30 else np.int64
        self._full.append((counts[0].astype(kind), counts[1].astype(kind)))

    def _double(self) -> None:
        """Joins neighbours; a last one without neighbour is the beginning of the stretch being filled."""
        if len(self._full) % 2:
            numbers, counts = self._full.pop()
            self._current[numbers] += counts
            self._filled += self.length
        self._full = [_joined(*two) for two in zip(self._full[::2], self._full[1::2], strict=True)]
        self.length *= 2


def _joined(a: SparseCounts, b: SparseCounts) -> SparseCounts:
    """Returns the sum of two counts."""
    numbers, counts = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    return sum_by_number(numbers, counts)


def sum_by_number(numbers: IntArray, counts: IntArray) -> SparseCounts:
    """Returns the different numbers in order, and the sum of the counts of each."""
    if not numbers.size:
        return numbers, counts
    order = np.argsort(numbers, kind="stable")  # what comes as sorted runs is only merged
    numbers, counts = numbers[order], counts[order]
    first = first_of_each(numbers)
    return numbers[first], np.add.reduceat(counts, first)


def counted(numbers: IntArray) -> SparseCounts:
    """Returns the different ones of sorted numbers, and how often each occurs."""
    first = first_of_each(numbers)
    return numbers[first], np.diff(first, append=numbers.size)


def first_of_each(numbers: IntArray) -> IntArray:
    """Returns the places at which a new number begins, among sorted ones."""
    is_new = np.ones(numbers.size, bool)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return np.flatnonzero(is_new)


def joined_batches(a: Matrix, length_a: int, b: Matrix, length_b: int) -> tuple[Matrix, int]:
    """Returns the stretches of a stream followed by another, brought to one length, and that length."""
    a, length_a = _lengthened(a, length_a, length_b)
    b, length_b = _lengthened(b, length_b, length_a)
    both: Matrix = sp.csr_array(sp.vstack([a, b], format="csr"))
    while both.shape[0] >= MOST:
        both, length_a = _halved(both), 2 * length_a
    return both, length_a


def _lengthened(batches: Matrix, length: int, least: int) -> tuple[Matrix, int]:
    while length < least:
        batches, length = _halved(batches), 2 * length
    return batches, length


def _halved(batches: Matrix) -> Matrix:
    """Returns neighbours joined; a last one without neighbour is left out."""
    K = batches.shape[0] // 2
    pairs = sp.csr_array((np.ones(2 * K, np.int64), np.arange(2 * K), np.arange(0, 2 * K + 1, 2)),
                         shape=(K, batches.shape[0]))  # fmt: skip
    return sp.csr_array(pairs @ batches)
