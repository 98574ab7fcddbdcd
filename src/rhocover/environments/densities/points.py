"""A uniform sample of all points added so far, and the search for the nearest of them.

**Memory.** The first `MOST_POINTS` points are all stored; after that each new point replaces a stored one
with the probability that keeps the stored points a uniform sample of all points added (Vitter's reservoir).

**Search.** A k-d tree holds the points up to the last call of `build`; the points stored since are compared
one by one. A point that was replaced since stays in the tree, so with 32,768 stored points the recent
ones count by up to 3% too much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree  # type: ignore[attr-defined]  # KDTree, without 20 microseconds per query

from rhocover.checks import FloatArray
from rhocover.compiling import compiled

MOST_POINTS = 2**15  # stored; fewer for points of many numbers
MOST_NUMBERS = 2**23  # of all stored points together, 64 MiB
MOST_RECENT, LEAST_RECENT = 1024, 16  # points that are compared one by one before a new tree is built


@compiled
def _take_in(near, points, recent):
    """Updates the rising squared distances `near` of points, `[m, k]`, by those to recent points."""
    k = near.shape[1]
    for m in range(points.shape[0]):
        for n in range(recent.shape[0]):
            total = 0.0
            for j in range(points.shape[1]):
                total += (points[m, j] - recent[n, j]) ** 2
            place = k
            while place > 0 and total < near[m, place - 1]:
                place -= 1
            for later in range(k - 1, place, -1):
                near[m, later] = near[m, later - 1]
            if place < k:
                near[m, place] = total


class PointStore:
    """Points of `size` numbers, each with a label (one more number)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_added = self.num_stored = 0
        self.is_due = False  # whether `build` is to be called before the next search
        self._most = min(MOST_POINTS, max(MOST_RECENT, MOST_NUMBERS // size))
        self._points, self._labels = np.empty((64, size)), np.empty(64)
        self._recent, self._num_recent = np.empty((MOST_RECENT, size)), 0
        self._tree = cKDTree(np.empty((0, size)))
        self._rng = np.random.default_rng(0)

    @property
    def num_searched(self) -> int:
        """The number of points that a search compares with."""
        return self._tree.n + self._num_recent

    @property
    def num_recent(self) -> int:
        """The number of points that are not in the tree yet."""
        return self._num_recent

    @property
    def spread(self) -> float:
        """The root mean square distance of the stored points from their mean."""
        return float(np.sqrt(self._points[: self.num_stored].var(axis=0).sum()))

    def add(self, points: FloatArray, labels: FloatArray) -> None:
        """Adds points, `[m, size]`, and their labels, `[m]`."""
        first, end = self.num_added, self.num_added + len(points)
        self.num_added = end
        if end <= self._most:
            self._make_room(end)
            self._put(points, labels, slice(first, end))
            return
        slots = np.arange(first, end)
        drawn = (self._rng.random(len(points)) * (slots + 1)).astype(np.int64)
        slots = np.where(slots < self._most, slots, drawn)
        entering = slots < self._most
        self._make_room(self._most)
        if entering.any():
            self._put(points[entering], labels[entering], slots[entering])

    def _put(self, points: FloatArray, labels: FloatArray, slots: Any) -> None:
        self._points[slots], self._labels[slots] = points, labels
        end = self._num_recent + len(points)
        if end > MOST_RECENT:  # too many to compare one by one
            self.is_due = True
            return
        self._recent[self._num_recent : end] = points
        self._num_recent = end
        self.is_due = end >= min(max(LEAST_RECENT, self.num_stored // 2), MOST_RECENT)

    def _make_room(self, num: int) -> None:
        self.num_stored = max(self.num_stored, num)
        while len(self._points) < num:
            self._points = np.concatenate([self._points, np.empty_like(self._points)])
            self._labels = np.concatenate([self._labels, np.empty_like(self._labels)])

    def build(self) -> None:
        """Builds the tree over all stored points."""
        stored = self._points[: self.num_stored]
        self._tree = cKDTree(stored, copy_data=True, compact_nodes=False, balanced_tree=False)
        self._num_recent, self.is_due = 0, False

    def distances(self, points: FloatArray, k: int) -> FloatArray:
        """Returns the distance from each to the k-th nearest stored one, `[m]`; inf if there are fewer."""
        near = self._tree.query(points, k)[0]
        if self._num_recent:
            near *= near
            _take_in(near, points, self._recent[: self._num_recent])
            return np.sqrt(near[:, k - 1])
        return near[:, k - 1]

    def some(self, num: int, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns up to `num` points of the tree, their labels, and the distances to the k nearest others."""
        rows = np.unique(np.linspace(0, self._tree.n - 1, num).astype(np.int64))
        points = self._points[rows]
        return points, self._labels[rows], self._tree.query(points, k + 1)[0][:, 1:]
