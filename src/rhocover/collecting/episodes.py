"""Turns a log into episodes, many at a time.

An episode is its first observation and then one observation per step. The steps of a vector environment's
copies alternate in the log; each copy is assembled separately. An episode that the end of the collection cuts
off is marked as truncated, so that a reader does not take it for a termination.

Memory holds one part of the log and the beginnings of episodes that continue after it. Large ones are moved
to files (`StoredRows`), so an episode may be as long as the collection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.collecting.log import STEP_NAMES, Columns, Part, joined, nested, picked
from rhocover.datasets.minari.columns import FlatColumns, Spool
from rhocover.errors import FileFormatError

HELD_BYTES = 1 << 25  # in memory for episodes that continue after a part, over all copies
MOST_LONG = 64  # episodes in files at a time: a process may open about a thousand files


class _LongEpisode:
    """One episode whose observations are kept in files; `resets` is the row of its reset."""

    def __init__(self, folder: Path, steps: Columns, resets: Columns) -> None:
        self._resets = picked(resets, slice(0, 1))
        names = [name for name in steps if name not in STEP_NAMES]
        begin = {name: self._resets[f"reset_{name}"] for name in names}
        self._spools = {name: Spool(folder, b.dtype, b.shape[1:]).append(b) for name, b in begin.items()}
        self._short: list[Columns] = []
        self.add(steps)

    def add(self, steps: Columns) -> None:
        """Adds the next steps."""
        self._spools = {name: spool.append(steps[name]) for name, spool in self._spools.items()}
        self._short.append({name: steps[name].copy() for name in STEP_NAMES})

    def finished(self, space: Any, values: Any) -> FlatColumns:
        """Returns the episode; one that did not terminate is marked as truncated."""
        steps = joined(self._short)
        steps["truncated"][-1] |= not steps["terminated"][-1]
        observations = {name: spool.rows() for name, spool in self._spools.items()}
        return _flat(observations, steps, np.array([steps["actions"].size]), self._resets, space, values)


class _Stream:
    """The steps of one copy that were not yielded yet, with their resets."""

    def __init__(self) -> None:
        self.steps: list[Columns] = []
        self.resets: list[Columns] = []
        self.long: _LongEpisode | None = None  # the episode that the steps continue

    @property
    def num_bytes(self) -> int:
        """How many bytes its steps take."""
        return sum(array.nbytes for steps in self.steps for array in steps.values())

    def put_away(self, folder: Path) -> None:
        """Moves the unfinished episode to files."""
        steps, resets = joined(self.steps), joined(self.resets)
        if self.long is None:
            _check_begun(resets, 1)
            self.long = _LongEpisode(folder, steps, resets)
            self.resets = [picked(resets, slice(1, None))]
        else:
            self.long.add(steps)
        self.steps = [picked(steps, slice(0, 0))]


def episodes_of(parts: Iterable[Part], space: Any, values: Any, folder: Path) -> Iterator[FlatColumns]:
    """Yields the episodes of a log in the order in which they ended, copy by copy; `values` are actions.

    An episode that is too long for memory is kept in an unnamed file in `folder`.
    """
    streams: dict[int, _Stream] = {}
    for part in parts:
        _share_out(part, streams)
        for env in sorted(streams):
            yield from _whole_episodes(streams[env], space, values, is_last=False)
        _put_away(streams, folder)
    for env in sorted(streams):
        yield from _whole_episodes(streams[env], space, values, is_last=True)


def _put_away(streams: dict[int, _Stream], folder: Path) -> None:
    """Moves the largest unfinished episodes to files until the rest fits into `HELD_BYTES`."""
    sizes = {env: stream.num_bytes for env, stream in streams.items()}
    held, num_long = sum(sizes.values()), sum(stream.long is not None for stream in streams.values())
    for env in sorted(sizes, key=lambda env: -sizes[env]):
        if held <= HELD_BYTES:
            return
        if streams[env].long is None and num_long == MOST_LONG:
            continue
        num_long += streams[env].long is None
        streams[env].put_away(folder)
        held -= sizes[env]


def _share_out(part: Part, streams: dict[int, _Stream]) -> None:
    """Distributes steps and resets to the copies."""
    c = part.columns
    steps = {name: array for name, array in c.items() if not name.startswith("reset_")}
    resets = {name: array for name, array in c.items() if name.startswith("reset_")}
    for env in np.unique(np.concatenate([c["envs"], c["reset_envs"]])).tolist():
        stream = streams.setdefault(env, _Stream())
        stream.steps.append(picked(steps, c["envs"] == env))
        stream.resets.append(picked(resets, c["reset_envs"] == env))


def _whole_episodes(stream: _Stream, space: Any, values: Any, *, is_last: bool) -> Iterator[FlatColumns]:
    """Yields the episodes that have ended, or all if `is_last`, and keeps the rest."""
    steps, resets = joined(stream.steps), joined(stream.resets)
    over = steps["terminated"] | steps["truncated"]
    if is_last and over.size and not over[-1]:
        steps["truncated"] = steps["truncated"].copy()
        steps["truncated"][-1] = over[-1] = True
    ends = np.flatnonzero(over)
    if stream.long is not None and (ends.size or is_last):
        num_steps = int(ends[0]) + 1 if ends.size else 0
        stream.long.add(picked(steps, slice(0, num_steps)))
        yield stream.long.finished(space, values)
        stream.long = None
        steps, ends = picked(steps, slice(num_steps, None)), ends[1:] - num_steps
    num, num_steps = ends.size, int(ends[-1]) + 1 if ends.size else 0
    stream.steps = [picked(steps, slice(num_steps, None))]
    stream.resets = [picked(resets, slice(num, None))]
    if num:
        resets = picked(resets, slice(0, num))
        yield _assembled(picked(steps, slice(0, num_steps)), resets, ends, space, values)


def _check_begun(resets: Columns, num_episodes: int) -> None:
    if resets["reset_steps"].size < num_episodes:
        raise FileFormatError("the log does not contain the reset of every episode.")


def _assembled(steps: Columns, resets: Columns, ends: IntArray, space: Any, values: Any) -> FlatColumns:
    _check_begun(resets, ends.size)
    lengths = np.diff(ends, prepend=-1)
    first = ends - lengths + 1 + np.arange(ends.size)  # of each episode, among the observations
    is_first = np.zeros(ends[-1] + 1 + ends.size, bool)
    is_first[first] = True
    observations = {}
    for name in (name for name in steps if name not in STEP_NAMES):
        begin = resets[f"reset_{name}"]
        column = np.empty((is_first.size, *begin.shape[1:]), np.result_type(begin, steps[name]))
        column[is_first], column[~is_first] = begin, steps[name]
        observations[name] = column
    return _flat(observations, steps, lengths, resets, space, values)


def _flat(
    observations: Any, steps: Columns, lengths: IntArray, resets: Columns, space: Any, values: Any
) -> FlatColumns:
    """Returns episodes as flat columns, given their joined observations."""
    seeds = tuple(None if seed < 0 else seed for seed in resets["reset_seeds"].tolist())
    return FlatColumns(
        nested(space, observations, "observations"), values[steps["actions"]], steps["rewards"],
        steps["terminated"], steps["truncated"], lengths, seeds,
    )  # fmt: skip
