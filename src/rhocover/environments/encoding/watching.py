"""Watches the observations of a run or a data set beside its states: a sample of them, and a held-out code.

The sample is every k-th observation; when it is full, every other one is dropped and k doubles. It does not
depend on how the stream was divided into pieces, and no random numbers are drawn.

A held-out code is never planned with. Its keys are only counted: with each, the observation at which it was
first met.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from rhocover.environments.encoding.base import StateCode, is_lossy, noun_of
from rhocover.environments.encoding.bins import BinCode
from rhocover.environments.encoding.features import FeatureReader
from rhocover.environments.encoding.functions import FunctionCode
from rhocover.errors import InvalidArgumentError, RhocoverError
from rhocover.learning.codes import Coded, Sample, growth_of

MOST = 4096  # observations of the sample, which has between half of them and all
MOST_NUMBERS = 1 << 18  # of the sample, so that neighbours are found in a second
LEAST = 256  # observations of the sample if they have more numbers than that: enough for a dimension
LARGEST = 1 << 22  # numbers of the sample, whatever they are: 32 MB, and a few copies exist for a moment
NUMBERS = np.ndarray | np.number | np.bool_ | float | int  # what a log returns for an int is an np.int64


def held_out_key(code: StateCode, observation: Any) -> Hashable:
    """Returns the key of a held-out code; an error names the argument, because states have a code too."""
    try:
        return code.key(observation)
    except RhocoverError as error:
        raise InvalidArgumentError(f"`held_out`: {error}", argument="held_out") from error


class Watched(NamedTuple):
    """What a `Watch` has seen, as plain values."""

    num_seen: int
    stride: int
    kept: list[Any]
    first: dict[Hashable, int]


class Watch:
    """Sees observations, one at a time (`see`) or many (`see_all`); `coded` returns what is known then."""

    def __init__(self, code: StateCode, held_out: StateCode | None = None, stride: int = 1) -> None:
        self.code, self.held_out = code, held_out
        self.num_seen = 0
        self._first: dict[Hashable, int] = {}  # the observation at which each held-out key was first met
        self._kept: list[Any] = []
        self._is_sampled = is_lossy(code)
        self.stride, self._most = stride, MOST
        self.is_next_known = False  # whether the next observation was seen already, as the last of a piece

    def see(self, observation: Any) -> None:
        """Sees the next observation."""
        if self.held_out is not None:
            self._first.setdefault(held_out_key(self.held_out, observation), self.num_seen)
        if self._is_sampled and self.num_seen % self.stride == 0:
            self._keep(observation)
        self.num_seen += 1

    def see_all(self, observations: Any, *, is_sampled: bool = True) -> None:
        """Sees the next observations; those that are seen a second time, as next states, are not sampled."""
        if self.is_next_known:
            observations, self.is_next_known = observations[1:], False
        if self.held_out is not None:
            for t, key in zip(*self._held_out_keys(observations), strict=True):
                self._first.setdefault(key, self.num_seen + t)
        if self._is_sampled and is_sampled:
            begin, number = self.num_seen, len(observations)
            t = -begin % self.stride
            while t < number:
                self._keep(observations[t])
                t += 1
                t += -(begin + t) % self.stride
        self.num_seen += len(observations) if is_sampled else 0

    def _held_out_keys(self, observations: Any) -> tuple[list[int], list[Hashable]]:
        """Returns where keys first occur among many observations, and the keys."""
        code = self.held_out
        assert code is not None
        if code.num_keys is None:
            return list(range(len(observations))), [held_out_key(code, one) for one in observations]
        try:
            keys, first = np.unique(code.keys(observations), return_index=True)
        except RhocoverError as error:
            raise InvalidArgumentError(f"`held_out`: {error}", argument="held_out") from error
        return first.tolist(), keys.tolist()

    def _keep(self, observation: Any) -> None:
        if not self._kept:
            self._most = _most(max(_size(observation), 1))
        self._kept.append(copy.deepcopy(observation))
        self._thin()

    def _thin(self) -> None:
        """Drops every other observation of the sample while it is full."""
        while len(self._kept) >= self._most:
            self._kept, self.stride = self._kept[::2], 2 * self.stride

    def watched(self) -> Watched:
        """Returns what was seen, for another process."""
        return Watched(self.num_seen, self.stride, self._kept, self._first)

    def add(self, more: Watched) -> None:
        """Adds what was seen elsewhere, after all that was seen here; it began with the stride of here."""
        for key, place in more.first.items():
            self._first.setdefault(key, self.num_seen + place)
        self.num_seen += more.num_seen
        if more.kept and not self._kept:
            self._most = _most(max(_size(more.kept[0]), 1))
        stride = max(self.stride, more.stride)
        self._kept = self._kept[:: stride // self.stride] + more.kept[:: stride // more.stride]
        self.stride = stride
        self._thin()

    def coded(self) -> Coded:
        """Returns the sample and the held-out code so far."""
        held_out = None
        if self.held_out is not None:
            code = self.held_out
            first = list(self._first.values())
            held_out = growth_of(first, self.num_seen, code.num_keys, noun_of(code))
        return Coded(noun_of(self.code), is_lossy(self.code), self._sample(), held_out)

    def _sample(self) -> Sample | None:
        """Returns the sample as vectors with their codes; None if the observations are not numbers."""
        if not self._kept:
            return None
        try:
            points = _vectors(self.code, self._kept)
            keys = _keys(self.code, self._kept)
        except (RhocoverError, ValueError, TypeError):
            return None
        if not points.size or not np.isfinite(points).all():
            return None
        number: dict[Hashable, int] = {}
        codes = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        return Sample(points, codes)


def _most(size: int) -> int:
    """Returns how many observations of `size` numbers a full sample has."""
    return max(2, min(MOST, max(LEAST, MOST_NUMBERS // size), LARGEST // size))


def _size(observation: Any) -> int:
    """Returns how many numbers an observation has."""
    if isinstance(observation, dict):
        return sum(map(_size, observation.values()))
    return sum(map(_size, observation)) if isinstance(observation, tuple) else int(np.size(observation))


def _vectors(code: Any, observations: list[Any]) -> Any:
    """Returns the numbers that a code looks at, `[m, D]`; for a function, all numbers."""
    if isinstance(code, BinCode):
        return np.asarray(code.features(observations), float)
    if isinstance(code, FunctionCode) and not isinstance(observations[0], NUMBERS):
        return np.zeros((0, 0))
    reader = getattr(code, "reader", None) or FeatureReader(getattr(code, "of", None))
    return reader.many(observations)


def _keys(code: Any, observations: list[Any]) -> list[Any]:
    if hasattr(code, "num_leaders"):  # a net, which must not grow here
        return code.keys(observations, grows=False).tolist()
    return [code.key(observation) for observation in observations]
