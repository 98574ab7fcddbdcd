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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, IntArray, Matrix, frozen, frozen_matrix
from rhocover.datasets.counting import MOST_STATES, SHIFT
from rhocover.datasets.tally import MOST, SparseCounts, Tally, batch_matrix, kind_of_counts, sum_by_number
from rhocover.errors import InvalidArgumentError, InvalidDataError

Batch = tuple[int, Any, Any]  # its number in the stream; its pairs in order, and how often each was visited


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
    batches: tuple[Batch, ...]  # in order; the first and the last may continue in other ranges
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
        whole = renumbered(self, _places(met), A)  # ends that were not met elsewhere have no state
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
            batches=frozen_matrix(batch_matrix(_full_batches(whole, S * A), S * A)),
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


def _full_batches(whole: PartialTally, num_pairs: int) -> list[SparseCounts]:
    """Returns the pairs and counts of the full batches; rows after the last full one are left out."""
    kind, num_full = kind_of_counts(whole.batch_length, num_pairs), whole.num_steps // whole.batch_length
    full = whole.batches[:num_full]
    return [(pairs.astype(kind, copy=False), counts.astype(kind, copy=False)) for _, pairs, counts in full]


# Merging.


def merged(parts: Iterable[PartialTally]) -> PartialTally:
    """Returns the counts of neighbouring ranges of one stream, given in any order.

    Raises if rows between them are missing, or counted twice.
    """
    parts = sorted(parts, key=lambda part: part.first_row)
    if not parts:
        raise InvalidArgumentError("there is no range to merge: at least one is needed.")
    for a, b in zip(parts, parts[1:], strict=False):
        _check_neighbours(a, b)
    keys = parts[0].keys
    for part in parts[1:]:
        keys = keys if np.array_equal(keys, part.keys) else np.union1d(keys, part.keys)
    A = max(part.num_actions for part in parts)
    same = [renumbered(part, np.searchsorted(keys, part.keys), A) for part in parts]
    borders = [_border(a.last, b.first) for a, b in zip(parts, parts[1:], strict=False)]
    codes, counts = _summed([(part.codes, part.counts) for part in same])
    num_steps = sum(part.num_steps for part in parts)
    length, batches = _joined_batches(same, num_steps)
    return PartialTally(
        first_row=parts[0].first_row,
        num_steps=num_steps,
        num_actions=A,
        keys=keys,
        codes=codes,
        counts=counts,
        ends=_summed([part.ends for part in same]),
        starts=_summed_starts(same, borders, keys),
        end_places=np.unique(np.concatenate([part.end_places for part in same])),
        num_truncated=sum(part.num_truncated for part in parts) + sum(b.num_truncated for b in borders),
        num_jumps=sum(part.num_jumps for part in parts) + sum(b.num_jumps for b in borders),
        batch_length=length,
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
class _Border:
    """What is otherwise than in the counts of two ranges, because the second one continues the first."""

    key: int  # the state of the row after the border
    begins: bool
    num_truncated: int
    num_jumps: int


def _border(last: LastRow, first: FirstRow) -> _Border:
    begins = first.key != last.key if first.begins is None else first.begins
    cut = begins and not last.is_closed
    return _Border(first.key, begins or last.is_closed, int(cut), int(cut and first.begins is None))


def _summed_starts(parts: Sequence[PartialTally], borders: list[_Border], keys: IntArray) -> SparseCounts:
    """Returns the starts of all ranges, without those at their borders where an episode continues."""
    over = np.searchsorted(keys, [border.key for border in borders if not border.begins])
    runs = [part.starts for part in parts]
    places, counts = _summed([*runs, (over.astype(np.int64), np.full(over.size, -1))])
    return places[counts > 0], counts[counts > 0]


def _summed(runs: Sequence[SparseCounts]) -> SparseCounts:
    if len(runs) == 1:
        return runs[0]
    return sum_by_number(*(np.concatenate(part) for part in zip(*runs, strict=True)))


def renumbered(part: PartialTally, new: IntArray, num_actions: int) -> PartialTally:
    """Returns the same counts with `new[k]` as the place of key k; the order stays the same.

    The keys are left as they are: they are those of the caller.
    """
    A = part.num_actions
    if A == num_actions and np.array_equal(new, np.arange(new.size)):
        return part

    def pairs(old: Any) -> Any:
        return (new[old // A] * num_actions + old % A).astype(old.dtype)

    return replace(
        part,
        num_actions=num_actions,
        codes=(pairs(part.codes >> SHIFT) << SHIFT) | new[part.codes & (MOST_STATES - 1)],
        ends=(pairs(part.ends[0]), part.ends[1]),
        starts=(new[part.starts[0]], part.starts[1]),
        end_places=new[part.end_places],
        batches=tuple((number, pairs(numbers), counts) for number, numbers, counts in part.batches),
    )


def _joined_batches(parts: Sequence[PartialTally], num_steps: int) -> tuple[int, tuple[Batch, ...]]:
    """Returns the length of the batches of all ranges together, and the batches."""
    length = max(part.batch_length for part in parts)
    while num_steps // length >= MOST:
        length *= 2
    kind = kind_of_counts(length, 1 + max(int(pairs[-1]) for part in parts for _, pairs, _ in part.batches))
    shared: dict[int, list[SparseCounts]] = {}
    for part in parts:
        for number, pairs, counts in part.batches:
            pairs, counts = pairs.astype(kind, copy=False), counts.astype(kind, copy=False)
            shared.setdefault(number * part.batch_length // length, []).append((pairs, counts))
    return length, tuple((number, *_summed(runs)) for number, runs in shared.items())


class Merger:
    """Merges the ranges of a stream as they come, in any order; memory holds few ranges that wait.

    Neighbours are merged when both have about the same number of rows, so each row takes part in few merges.
    """

    def __init__(self) -> None:
        self._runs: dict[int, PartialTally] = {}  # by the first row
        self._by_end: dict[int, int] = {}  # the first row of the run that ends before this row
        self.num_steps = 0

    def add(self, part: PartialTally) -> None:
        """Takes the counts of one more range."""
        self.num_steps += part.num_steps
        while (before := self._by_end.get(part.first_row)) is not None:
            part = merged([self._pop(before), part])
        while (after := self._runs.get(part.first_row + part.num_steps)) is not None:
            part = merged([part, self._pop(after.first_row)])
        self._runs[part.first_row] = part
        self._by_end[part.first_row + part.num_steps] = part.first_row

    def _pop(self, first_row: int) -> PartialTally:
        part = self._runs.pop(first_row)
        del self._by_end[part.first_row + part.num_steps]
        return part

    def result(self) -> PartialTally:
        """Returns the counts of all ranges; raises if rows between them are missing."""
        return merged(self._runs.values())
