"""From a log to episodes, many at a time.

An episode is its first observation and then one for each step. The copies of a vector environment take turns
in the log; each is put together for itself. What the end of the collection cuts off is marked as truncated:
the environment did not end there, and a reader must not take it for an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rhocover.adapters.minari_columns import FlatColumns
from rhocover.checks import IntArray
from rhocover.collecting.log import STEP_NAMES, Part
from rhocover.collecting.observations import Columns, joined, nested, picked
from rhocover.errors import FileFormatError


class _Stream:
    """The steps of one copy that are not handed out yet, with the resets among them."""

    def __init__(self) -> None:
        self.steps: list[Columns] = []
        self.resets: list[Columns] = []


def episodes_of(parts: Iterable[Part], space: Any, values: Any) -> Iterator[FlatColumns]:
    """Yields the episodes of a log in the order in which they ended, copy by copy; `values` are actions."""
    streams: dict[int, _Stream] = {}
    for part in parts:
        _share_out(part, streams)
        for env in sorted(streams):
            found = _whole_episodes(streams[env], space, values, is_last=False)
            if found is not None:
                yield found
    for env in sorted(streams):
        found = _whole_episodes(streams[env], space, values, is_last=True)
        if found is not None:
            yield found


def _share_out(part: Part, streams: dict[int, _Stream]) -> None:
    """Gives each copy its steps and resets."""
    c = part.columns
    steps = {name: array for name, array in c.items() if not name.startswith("reset_")}
    resets = {name: array for name, array in c.items() if name.startswith("reset_")}
    for env in np.unique(np.concatenate([c["envs"], c["reset_envs"]])).tolist():
        stream = streams.setdefault(env, _Stream())
        stream.steps.append(picked(steps, c["envs"] == env))
        stream.resets.append(picked(resets, c["reset_envs"] == env))


def _whole_episodes(stream: _Stream, space: Any, values: Any, *, is_last: bool) -> FlatColumns | None:
    """Returns the episodes that are over, or all of them, and keeps the rest."""
    steps, resets = joined(stream.steps), joined(stream.resets)
    over = steps["terminated"] | steps["truncated"]
    if is_last and over.size and not over[-1]:
        steps["truncated"] = steps["truncated"].copy()
        steps["truncated"][-1] = over[-1] = True
    ends = np.flatnonzero(over)
    num, num_steps = ends.size, int(ends[-1]) + 1 if ends.size else 0
    stream.steps = [picked(steps, slice(num_steps, None))]
    stream.resets = [picked(resets, slice(num, None))]
    if num == 0:
        return None
    resets = picked(resets, slice(0, num))
    return _assembled(picked(steps, slice(0, num_steps)), resets, ends, space, values)


def _assembled(steps: Columns, resets: Columns, ends: IntArray, space: Any, values: Any) -> FlatColumns:
    if resets["reset_steps"].size != ends.size:
        raise FileFormatError("the log does not say how every episode began.")
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
    seeds = tuple(None if seed < 0 else seed for seed in resets["reset_seeds"].tolist())
    return FlatColumns(
        nested(space, observations, "observations"), values[steps["actions"]], steps["rewards"],
        steps["terminated"], steps["truncated"], lengths, seeds,
    )  # fmt: skip
