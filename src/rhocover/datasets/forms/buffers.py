"""Replay and rollout buffers of Stable-Baselines3 as tables, without importing it.

A buffer has a column for each environment, `observations[t, env]`. They are read one after another.

- A `ReplayBuffer` is a ring: once it is `full`, its oldest step is at `pos`. With `optimize_memory_usage` it
  keeps no next observations; they are the observations one place further, and the step at `pos` of a full
  ring is lost. `timeouts` marks which `dones` were time limits.
- A `RolloutBuffer` has neither next observations nor the kind of an end, but `episode_starts`. After `get`
  was called, its columns are flat, one environment after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.datasets import tables
from rhocover.datasets.tables import DataTable, NestedRows, Piece
from rhocover.errors import InvalidDataError

NEEDED = ("observations", "actions", "pos", "full", "n_envs", "buffer_size")
SCALED = (
    "Actions are scaled back from [-1, 1], as the algorithms of Stable-Baselines3 store them, to the bounds "
    "of the action space."
)
NO_TIMEOUTS = (
    "The buffer does not mark time limits (handle_timeout_termination=False): every `done` counts as an end."
)


def is_buffer(data: Any) -> bool:
    """Returns whether the data are a buffer of Stable-Baselines3, or look like one."""
    return all(hasattr(data, name) for name in NEEDED)


def table_of_buffer(buffer: Any) -> DataTable:
    """Returns a replay or rollout buffer as a table, oldest step first."""
    name = type(buffer).__name__
    num_steps = int(buffer.buffer_size if buffer.full else buffer.pos)
    if not num_steps:
        raise InvalidDataError(f"the {name} has zero steps: there is nothing to count. Fill it first.")
    if hasattr(buffer, "episode_starts"):
        return _rollout(buffer, name, num_steps)
    if not hasattr(buffer, "dones"):
        raise InvalidDataError(f"the {name} has neither `dones` nor `episode_starts`, expected one of them.")
    return _replay(buffer, name, num_steps)


def _replay(buffer: Any, name: str, num_steps: int) -> DataTable:
    is_shared = bool(getattr(buffer, "optimize_memory_usage", False))
    places = np.arange(num_steps)
    if buffer.full:
        places = (places[int(is_shared) :] + int(buffer.pos)) % num_steps
    after = buffer.observations if is_shared else buffer.next_observations
    timeouts = getattr(buffer, "timeouts", None)
    scale = _scale(buffer, places)

    def piece(part: IntArray, env: int) -> dict[str, Any]:
        done = np.asarray(buffer.dones)[part, env] != 0
        cut = np.zeros(part.size, bool) if timeouts is None else done & (np.asarray(timeouts)[part, env] != 0)
        then = (part + 1) % len(_first(after)) if is_shared else part
        actions = _taken(buffer.actions, part, env)
        return {
            "observations": _taken(buffer.observations, part, env),
            "actions": actions if scale is None else scale(actions),
            "next_observations": _taken(after, then, env),
            "terminated": done & ~cut,
            "truncated": cut,
            "episode": np.full(part.size, env),  # one environment's steps do not continue another's
        }

    table = _table(piece, places, int(buffer.n_envs), name)
    if not getattr(buffer, "handle_timeout_termination", True):
        table.remarks.append(NO_TIMEOUTS)
    if scale is not None:
        table.remarks.append(SCALED)
    return table


def _rollout(buffer: Any, name: str, num_steps: int) -> DataTable:
    size, num_envs = int(buffer.buffer_size), int(buffer.n_envs)
    is_flat = bool(getattr(buffer, "generator_ready", False))
    starts = np.asarray(buffer.episode_starts).reshape(size, num_envs)[:num_steps] != 0
    episode = np.cumsum(starts, axis=0) + np.arange(num_envs) * (size + 1)  # other numbers in each column

    def piece(part: IntArray, env: int) -> dict[str, Any]:
        taken = (part + env * size,) if is_flat else (part, env)
        return {
            "observations": _taken(buffer.observations, *taken),
            "actions": _taken(buffer.actions, *taken),
            "episode": episode[part, env],
        }

    return _table(piece, np.arange(num_steps), num_envs, name)


def _table(piece: Any, places: IntArray, num_envs: int, name: str) -> DataTable:
    """Returns the table of pieces at these places, for one environment after another."""
    names = tuple(piece(places[:1], 0))

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        for env in range(num_envs):
            for begin in range(0, places.size, tables.SIZE):
                columns = piece(places[begin : begin + tables.SIZE], env)
                yield {name: columns[name] for name in wanted}

    return DataTable(names, pieces, f"the {name}")


def _taken(values: Any, *place: Any) -> Any:
    """Returns some rows of an array, or of a dictionary of arrays."""
    if isinstance(values, Mapping):
        return NestedRows({key: part[place] for key, part in values.items()}, "observations")[:]
    return np.asarray(values)[place]


def _first(values: Any) -> Any:
    return next(iter(values.values())) if isinstance(values, Mapping) else values


def _scale(buffer: Any, places: IntArray) -> Any:
    """Returns the function that undoes the scaling of real actions to [-1, 1]; None if there was none."""
    space = getattr(buffer, "action_space", None)
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    is_same = bool((low == -1).all() and (high == 1).all())
    if is_same or np.asarray(buffer.actions).dtype.kind != "f":
        return None
    if any(np.abs(_taken(buffer.actions, places, env)).max() > 1 + 1e-6 for env in range(int(buffer.n_envs))):
        return None  # stored as they were played
    lows, widths = np.ravel(low).astype(float), np.ravel(high - low).astype(float)
    return lambda actions: lows + 0.5 * (actions.astype(float) + 1) * widths
