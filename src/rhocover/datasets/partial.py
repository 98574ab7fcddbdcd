"""Partial tallies: the counts of a range of rows of a stream, which merge exactly.

A stream of T rows may be counted in ranges by several processes. The counts of a range are a value, a
`PartialTally`; neighbouring ranges merge into the counts of both, in any order of merging, and the partial
tally of the whole stream is its tally. Whatever the ranges, the result is the same to the bit:

- Transitions, ends and starts are sums over rows. Keys are in ascending order and codes follow them, so that
  there is one way to write the same counts.
- A range is counted as if an episode began with its first row. Whether one did depends on the row before, so
  a partial tally keeps its first and its last row, and merging corrects the one start, cut and jump.
- Batches have a power of two as their length and begin at multiples of it, in rows of the whole stream. So
  a batch of the stream is a sum of batches of its ranges, because a range never needs longer ones.

This is not the sum of two tallies, `a + b`: there a new data set begins, so its first row begins an episode,
and the rows that do not fill a batch at the end of `a` are in no batch. `merged` continues a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.datasets.counting import MOST_STATES, SHIFT
from rhocover.datasets.tally import (
    MOST,
    SparseCounts,
    SparseRows,
    Tally,
    kind_of_counts,
    some_rows,
    sum_by_number,
)
from rhocover.errors import InvalidArgumentError, InvalidDataError


@dataclass(frozen=True)
class FirstRow:
    """What the row before decides about the first row of a range: whether it begins an episode."""

    key: int  # its state
    begins: bool | None  # whether the data mark it as the first of an episode; None if they mark none


@dataclass(frozen=True)
class LastRow:
    """What the next row needs to know: the state that the last one led to, and whether its episode closed."""

    key: int
    is_closed: bool


@dataclass(frozen=True, eq=False)
class PartialTally:
    """The counts of the rows `first_row` to `first_row + num_steps - 1` of a stream.

    Pair `k*A + a` is action a in the state `keys[k]`, and code `pair * 2^28 + j` the transition to `keys[j]`.
    """

    first_row: int
    num_steps: int
    num_actions: int
    keys: IntArray  # [S] ascending: of every state in these rows, also those that are only ends
    codes: IntArray  # ascending: the transitions that occur
    counts: IntArray  # of each of them
    ends: SparseCounts  # pairs in order, and how often each ended its episode
    starts: SparseCounts  # places among the keys, and how often an episode began there
    end_places: IntArray  # places among the keys to which an end led, in order
    num_truncated: int
    num_jumps: int
    batch_length: int
    first_batch: int  # the number in the stream of the first batch
    batches: Matrix  # csr [K, S*A]: visits in batches; the first and the last may continue in other ranges
    first: FirstRow
    last: LastRow

    def tally(self, num_actions: int | None = None, **names: Any) -> Tally:
        """Returns the tally of a whole stream; `names` are other fields of `Tally`."""
        if self.first_row:
            raise InvalidArgumentError(
                f"these are rows from {self.first_row} on, not a whole stream: merge them with those before."
            )
        A = num_actions or self.num_actions
        met = self._is_met()
        states = np.flatnonzero(met)
        whole = renumbered(
            self, _places(met), states.size, A
        )  # ends that were not met elsewhere have no state
        S, ends, starts = states.size, np.zeros(states.size * A, np.int64), np.zeros(states.size, np.int64)
        ends[whole.ends[0]], starts[whole.starts[0]] = whole.ends[1], whole.starts[1]
        only_ends = self.end_places[~met[self.end_places]]
        return Tally(
            keys=tuple(self.keys[states].tolist()),
            num_actions=A,
            moves=frozen_matrix(_matrix(whole.codes, whole.counts, S * A, S)),
            ends=frozen(ends),
            starts=frozen(starts),
            num_steps=self.num_steps,
            num_episodes=int(starts.sum()),
            num_truncated=self.num_truncated,
            batches=frozen_matrix(_full_batches(whole)),
            batch_length=self.batch_length,
            num_jumps=self.num_jumps,
            end_keys=tuple(self.keys[only_ends].tolist()),
            **names,
        )

    def _is_met(self) -> BoolArray:
        """Returns which keys are states of the tally: those of steps, of starts and of next states."""
        met = np.zeros(self.keys.size, bool)
        met[(self.codes >> SHIFT) // self.num_actions] = True
        met[self.codes & (MOST_STATES - 1)] = True
        met[self.ends[0] // self.num_actions] = True
        met[self.starts[0]] = True
        return met


def _places(kept: BoolArray) -> IntArray:
    """Returns the place of each key among the kept ones; what the others get is never used."""
    return np.cumsum(kept) - 1


def _matrix(codes: IntArray, counts: IntArray, num_pairs: int, num_states: int) -> Matrix:
    """Returns the counts of transitions, csr int64 `[n, S]`."""
    first = np.searchsorted(codes, np.arange(num_pairs + 1) << SHIFT)
    return sp.csr_array((counts, codes & (MOST_STATES - 1), first), shape=(num_pairs, num_states))


def _full_batches(whole: PartialTally) -> Matrix:
    """Returns the visits in the full batches, csr `[K, n]`; rows after the last full one are left out."""
    return some_rows(whole.batches, 0, whole.num_steps // whole.batch_length)


# Merging.


def merged(parts: Iterable[PartialTally]) -> PartialTally:
    """Returns the counts of neighbouring ranges of one stream, given in any order.

    Raises if rows between them are missing, or counted twice.
    """
    parts = sorted(parts, key=lambda part: part.first_row)
    if not parts:
        raise InvalidArgumentError("there is no range to merge: at least one is needed.")
    for a, b in pairwise(parts):
        _check_neighbours(a, b)
    keys = parts[0].keys
    for part in parts[1:]:
        keys = keys if np.array_equal(keys, part.keys) else np.union1d(keys, part.keys)
    A = max(part.num_actions for part in parts)
    same = [renumbered(part, np.searchsorted(keys, part.keys), keys.size, A) for part in parts]
    seams = [_seam(a.last, b.first) for a, b in pairwise(parts)]
    codes, counts = _summed([(part.codes, part.counts) for part in same])
    num_steps = sum(part.num_steps for part in parts)
    length, batches = _joined_batches(same, num_steps)
    first_batch = parts[0].first_batch * parts[0].batch_length // length
    return PartialTally(
        first_row=parts[0].first_row,
        num_steps=num_steps,
        num_actions=A,
        keys=keys,
        codes=codes,
        counts=counts,
        ends=_summed([part.ends for part in same]),
        starts=_summed_starts(same, seams, keys),
        end_places=np.unique(np.concatenate([part.end_places for part in same])),
        num_truncated=sum(part.num_truncated for part in parts) + sum(b.num_truncated for b in seams),
        num_jumps=sum(part.num_jumps for part in parts) + sum(b.num_jumps for b in seams),
        batch_length=length,
        first_batch=first_batch,
        batches=batches,
        first=parts[0].first,
        last=parts[-1].last,
    )


def _check_neighbours(a: PartialTally, b: PartialTally) -> None:
    end = a.first_row + a.num_steps
    if b.first_row != end:
        what = "are missing" if b.first_row > end else "would be counted twice"
        low, high = sorted((end, b.first_row))
        raise InvalidDataError(f"ranges must follow each other: the rows {low} to {high - 1} {what}.")
    if (a.first.begins is None) != (b.first.begins is None):
        raise InvalidDataError(
            f"of the ranges before and after row {end} only one marks the first rows of episodes: they are "
            "not of one stream."
        )


@dataclass(frozen=True)
class _Seam:
    """What is otherwise than in the counts of two ranges, because the second one continues the first."""

    key: int  # the state of the row after the seam
    begins: bool
    num_truncated: int
    num_jumps: int


def _seam(last: LastRow, first: FirstRow) -> _Seam:
    begins = first.key != last.key if first.begins is None else first.begins
    cut = begins and not last.is_closed
    return _Seam(first.key, begins or last.is_closed, int(cut), int(cut and first.begins is None))


def _summed_starts(parts: Sequence[PartialTally], seams: list[_Seam], keys: IntArray) -> SparseCounts:
    """Returns the starts of all ranges, without those at their seams where an episode continues."""
    over = np.searchsorted(keys, [seam.key for seam in seams if not seam.begins])
    runs = [part.starts for part in parts]
    places, counts = _summed([*runs, (over.astype(np.int64), np.full(over.size, -1))])
    return places[counts > 0], counts[counts > 0]


def _summed(runs: Sequence[SparseCounts]) -> SparseCounts:
    """Returns the sum of sparse counts; of counts of batches at most the length of one, so none overflows."""
    if len(runs) == 1:
        return runs[0]
    return sum_by_number(*(np.concatenate(part) for part in zip(*runs, strict=True)))


def renumbered(part: PartialTally, new: IntArray, num_states: int, num_actions: int) -> PartialTally:
    """Returns the same counts with `new[k]` of `num_states` as the place of key k.

    The keys are left as they are: they are those of the caller.
    """
    A = part.num_actions
    if num_actions == A and np.array_equal(new, np.arange(num_states)):
        num_pairs = num_states * A
        return (
            part
            if part.batches.shape[1] == num_pairs
            else replace(part, batches=_cut(part.batches, num_pairs))
        )

    def pairs(old: Any) -> Any:
        return new[old // A] * num_actions + old % A

    codes = (pairs(part.codes >> SHIFT) << SHIFT) | new[part.codes & (MOST_STATES - 1)]
    codes, counts = _in_order(codes, part.counts)
    rows = SparseRows(kind_of_counts(part.batch_length, num_states * num_actions))
    for numbers, visits in _rows(part.batches):
        rows.append(_in_order(pairs(numbers), visits))
    return replace(
        part,
        num_actions=num_actions,
        codes=codes,
        counts=counts,
        ends=_in_order(pairs(part.ends[0]), part.ends[1]),
        starts=_in_order(new[part.starts[0]], part.starts[1]),
        end_places=np.sort(new[part.end_places]),
        batches=rows.matrix(num_states * num_actions),
    )


def _in_order(numbers: IntArray, counts: IntArray) -> SparseCounts:
    """Returns counts by ascending number; usually they are."""
    if (numbers[1:] > numbers[:-1]).all():
        return numbers, counts
    order = np.argsort(numbers)
    return numbers[order], counts[order]


def _cut(batches: Matrix, num_pairs: int) -> Matrix:
    """Returns batches over the first pairs, without a copy; the others were not visited."""
    return sp.csr_array((batches.data, batches.indices, batches.indptr), shape=(batches.shape[0], num_pairs))


def _rows(batches: Matrix) -> Iterator[SparseCounts]:
    """Yields the pairs of each batch, and how often each was visited."""
    for begin, end in pairwise(batches.indptr.tolist()):
        yield batches.indices[begin:end], batches.data[begin:end]


def _joined_batches(parts: Sequence[PartialTally], num_steps: int) -> tuple[int, Matrix]:
    """Returns the length of the batches of all ranges together, and the batches; no rows lie between them."""
    length, num_pairs = max(part.batch_length for part in parts), parts[0].batches.shape[1]
    while num_steps // length >= MOST:
        length *= 2
    rows = SparseRows(kind_of_counts(length, num_pairs))
    number, runs = parts[0].first_batch * parts[0].batch_length // length, []
    for part in parts:
        for k, counts in enumerate(_rows(part.batches)):
            place = (part.first_batch + k) * part.batch_length // length
            if place != number:
                rows.append(_summed(runs))
                number, runs = place, []
            runs.append(counts)
    rows.append(_summed(runs))
    return length, rows.matrix(num_pairs)


FACTOR = 2  # how many times more rows than a range a neighbour may have that is merged with it at once


class Merger:
    """Merges the ranges of a stream as they come, in any order; few of them wait at any time.

    A range is merged with a neighbour that is not much longer, so each row takes part in few merges.
    """

    def __init__(self) -> None:
        self._by_begin: dict[int, PartialTally] = {}  # what is merged so far, by the first row
        self._by_end: dict[int, PartialTally] = {}  # the same, by the row after the last

    @property
    def num_steps(self) -> int:
        """Steps so far."""
        return sum(run.num_steps for run in self._by_begin.values())

    def add(self, part: PartialTally) -> None:
        """Takes the counts of one more range."""
        beside = [self._by_end.get(part.first_row), self._by_begin.get(part.first_row + part.num_steps)]
        near = [run for run in beside if run is not None and run.num_steps <= FACTOR * part.num_steps]
        for run in near:
            del self._by_begin[run.first_row], self._by_end[run.first_row + run.num_steps]
        if near:
            return self.add(merged([part, *near]))
        self._by_begin[part.first_row] = self._by_end[part.first_row + part.num_steps] = part

    def result(self) -> PartialTally:
        """Returns the counts of all ranges; raises if rows between them are missing."""
        return merged(self._by_begin.values())
