"""Numbers for keys, in order of need: small keys are their own, others get the next one free.

Keys up to `LARGEST_KEY` need no lookup. Where one is larger (a hash, a date, a code of many digits) all new
keys are entered in a sorted list; those counted before keep their numbers.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import IntArray

LARGEST_KEY = 2**20 - 1  # that is its own number


class KeyNumbers:
    """The number of each key met so far; `count` numbers are in use."""

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
        """Gives numbers to those of the different keys, in order, that have none."""
        assert self._sorted is not None
        fresh = np.setdiff1d(keys, self._sorted, assume_unique=True)
        if fresh.size:
            both = np.concatenate([self._sorted, fresh])
            numbers = np.concatenate([self._number, self.count + np.arange(fresh.size)])
            order = np.argsort(both, kind="stable")
            self._sorted, self._number = both[order], numbers[order]
            self.count += fresh.size
