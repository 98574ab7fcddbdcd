"""What happened in a stretch of steps, as columns.

`observations[k]` is what the environment showed after step k, also where that was the end of an episode.
`resets` says after which steps an episode began anew (0: before the first), with what observation and with
which seed (-1: none). So the first observation of an episode is a reset, and the others follow.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Reset:
    """The beginning of an episode of one environment, before its step number `step` of the whole run."""

    step: int
    observation: Any
    seed: int | None
    env: int = 0


@dataclass(frozen=True, eq=False)
class Steps:
    """Consecutive steps of a run, in the order in which they are counted."""

    actions: IntArray  # numbers of the action code
    observations: Any  # what followed, a list or an array
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    envs: IntArray  # which copy of the environment


class Recorder(Protocol):
    """Keeps what happened."""

    def begin(self, reset: Reset) -> None:
        """Takes the beginning of an episode."""
        ...

    def add(self, steps: Steps) -> None:
        """Takes steps."""
        ...


class Shelf:
    """Room for the observations of one stretch: a buffer for arrays of one shape, a list otherwise.

    What is put there is copied: environments may use one array again and again.
    """

    def __init__(self, space: Any, size: int, *, is_plain: bool) -> None:
        self._list: list[Any] = []
        self._array = None
        self._count, self._is_plain = 0, is_plain
        if not is_plain and getattr(space, "shape", None) and space.dtype is not None:
            self._array = np.empty((size, *space.shape), space.dtype)

    @property
    def put(self) -> Callable[[Any], None]:
        """How to add an observation; not kept here, or what is on the shelf would be held by a circle."""
        if self._is_plain:
            return self._list.append
        return self._put_copy if self._array is None else self._put

    def _put_copy(self, observation: Any) -> None:
        self._list.append(copy.deepcopy(observation))

    def _put(self, observation: Any) -> None:
        assert self._array is not None
        self._array[self._count] = observation
        self._count += 1

    def take(self, num: int) -> Any:
        """Returns the first `num` observations."""
        return self._list[:num] if self._array is None else self._array[:num]
