"""The log of a collection: its steps on disk, in parts.

Part p holds steps p N to (p+1) N - 1; the last part is rewritten as it grows. N is 65,536, or less if
observations are large: a part has at most about 16 MB of observations, and memory holds about one part. A
part is one file, complete or absent, with its own SHA-256 and that of the settings. Nothing else is stored:
resuming a collection means running the explorer again on the logged steps (`replay`). The new steps are
compared with the log, so that a change of versions or of the environment is noticed.

Steps are columns: `observations[k]` is the observation after step k, also if that is the last one of an
episode. Resets have the number of steps before them (0: before the first), their observation and their seed
(-1: none). Observations of an array space are one column; those of Dict and Tuple spaces are one column per
component, named by its path: `observations/camera/_index_0` (see `datasets.minari.columns`).
"""

from __future__ import annotations

import copy
import math
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.datasets.minari.columns import space_leaves, split
from rhocover.documents import LEFT_OUT, from_document, to_document
from rhocover.errors import (
    CheckpointError,
    CheckpointWarning,
    EnvironmentFailedError,
    FileFormatError,
    parse_text,
)
from rhocover.files import load_tensors, save_tensors

Columns = dict[str, np.ndarray]


def row_bytes(space: Any) -> int:
    """Returns the size of one observation in bytes."""
    leaves = [leaf for _, leaf in space_leaves(space, ("observations",))]
    return sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)


def rows_within(num_bytes: int, space: Any, most: int) -> int:
    """Returns how many observations fit into `num_bytes`: at least one, and at most `most`."""
    return max(1, min(most, num_bytes // max(1, row_bytes(space))))


def as_columns(space: Any, observations: Any, name: str) -> Columns:
    """Returns observations, given as an array or as a list, as named columns `[T, ...]`."""
    nested = stacked(space, observations)
    return {"/".join(path): array for path, _, array in split(nested, space, (name,))}


def stacked(space: Any, observations: Any) -> Any:
    """Returns a list of observations as arrays, nested as the space is."""
    from gymnasium import spaces

    if isinstance(observations, np.ndarray):
        return observations
    if isinstance(space, spaces.Dict):
        return {key: stacked(part, [o[key] for o in observations]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(part, [o[k] for o in observations]) for k, part in enumerate(space.spaces))
    if not len(observations):
        return np.zeros((0, *space.shape), space.dtype)
    array = np.array(observations)
    if array.dtype.kind == "f" and space.dtype.kind in "iu":
        raise ValueError(f"got floating-point numbers, expected integers of {space}")
    return array if array.dtype.kind == "f" else array.astype(space.dtype)


def nested(space: Any, columns: Mapping[str, np.ndarray], name: str) -> Any:
    """Returns named columns as arrays, nested as the space is."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: nested(part, columns, f"{name}/{key}") for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nested(part, columns, f"{name}/_index_{k}") for k, part in enumerate(space.spaces))
    return columns[name]


def one(space: Any, values: Any, row: int) -> Any:
    """Returns observation number `row` of nested arrays, as an environment would return it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: one(part, values[key], row) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one(part, values[k], row) for k, part in enumerate(space.spaces))
    return values[row].copy() if values.ndim > 1 or space.shape else values[row]


def joined(pieces: Sequence[Columns]) -> Columns:
    """Returns the concatenation of columns."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def picked(columns: Columns, rows: Any) -> Columns:
    """Returns some rows of each column."""
    return {name: array[rows] for name, array in columns.items()}


@dataclass(frozen=True, eq=False)
class Reset:
    """The reset of one environment, before step number `step` of the whole run."""

    step: int
    observation: Any
    seed: int | None
    env: int = 0


@dataclass(frozen=True, eq=False)
class Steps:
    """Consecutive steps of a run, in the order in which they are counted."""

    actions: IntArray  # numbers of the action code
    observations: Any  # after each step, a list or an array
    rewards: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    envs: IntArray  # which copy of the environment


class Recorder(Protocol):
    """Records resets and steps."""

    def begin(self, reset: Reset) -> None:
        """Records the reset with which an episode begins."""
        ...

    def add(self, steps: Steps) -> None:
        """Records steps."""
        ...


class ObservationBuffer:
    """The observations of one batch of steps: an array if they are arrays of one shape, otherwise a list.

    Observations are copied, because environments may reuse one array.
    """

    def __init__(self, space: Any, size: int, *, is_plain: bool) -> None:
        self._list: list[Any] = []
        self._array = None
        self._count, self._is_plain = 0, is_plain
        if not is_plain and getattr(space, "shape", None) and space.dtype is not None:
            self._array = np.empty((size, *space.shape), space.dtype)

    @property
    def put(self) -> Callable[[Any], None]:
        """The function that adds an observation; not stored, to avoid a reference cycle."""
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


PART = 1 << 16  # most steps of a part
PART_BYTES = 1 << 24  # of its observations: quickly written, and a few copies fit into any memory
SECONDS = 20.0  # between two writes of the part that grows
STEP_TYPES = {"actions": "<i4", "rewards": "<f8", "terminated": "|b1", "truncated": "|b1", "envs": "<i4"}
RESET_TYPES = {"reset_steps": "<i8", "reset_envs": "<i8", "reset_seeds": "<i8"}
STEP_NAMES = tuple(STEP_TYPES)


@dataclass(frozen=True)
class StoredPart:
    """The metadata of a part in its file; `run` is the digest of the settings."""

    first: int
    run: str
    size: int = field(default=PART, metadata=LEFT_OUT)  # not in logs of old versions

    def __post_init__(self) -> None:
        checks.integer(self.size, "size", least=1, most=PART)


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive steps and the resets among them; `first` is the number of the first step.

    `size` is the number of steps of a full part, the same for all parts of a log. Steps are columns `[T]` and
    observations `[T, ...]`. Resets are columns `[R]`: `reset_steps` (how many steps of the run were taken
    before), `reset_envs`, `reset_seeds` (-1: none), and their observations.
    """

    first: int
    size: int
    columns: Columns

    @property
    def num_steps(self) -> int:
        """How many steps it holds."""
        return int(self.columns["actions"].size)


PART_NAME = re.compile(r"log-\d{6,}\.safetensors")


def part_path(folder: Path, number: int) -> Path:
    """Returns the file of a part."""
    return folder / f"log-{number:06d}.safetensors"


class Log:
    """Records steps in a folder; steps that are already there are compared instead."""

    def __init__(self, folder: Path, space: Any, digest: str, stored: Stored | None = None) -> None:
        self._folder, self._space, self._digest = folder, space, digest
        self._stored = 0 if stored is None else stored.num_steps  # steps on disk when this process began
        self._size = part_size(space) if stored is None else stored.size
        self._steps: list[Columns] = []  # of the part that grows
        self._resets: list[Reset] = []
        self._first = 0  # its first step
        self._written = self._stored
        self._saved = time.monotonic()
        self.num_steps = 0

    def begin(self, reset: Reset) -> None:
        """Records the reset with which an episode begins."""
        self._resets.append(reset)

    def add(self, steps: Steps) -> None:
        """Records steps; full parts are written at once."""
        columns = as_columns(self._space, steps.observations, "observations")
        columns = {name: array.copy() for name, array in columns.items()}
        columns |= {name: np.asarray(getattr(steps, name)) for name in STEP_NAMES}
        columns["envs"], columns["actions"] = (columns[name].astype(np.int32) for name in ("envs", "actions"))
        left = int(columns["actions"].size)
        while left:
            room = self._first + self._size - self.num_steps
            now = min(left, room)
            self._steps.append(picked(columns, slice(0, now)))
            columns = picked(columns, slice(now, None))
            self.num_steps += now
            left -= now
            if self.num_steps == self._first + self._size:
                self._close_part()

    def _close_part(self) -> None:
        """Writes or compares the full part, and begins the next one."""
        self._save()
        later = [reset for reset in self._resets if reset.step >= self.num_steps]
        self._first, self._steps, self._resets = self.num_steps, [], later

    def pause(self) -> None:
        """Writes the current part if the last write was long enough ago."""
        if self.num_steps > self._written and time.monotonic() - self._saved >= SECONDS:
            self._save()

    def close(self) -> None:
        """Writes the rest; raises if the steps on disk differ from those of this run."""
        if self.num_steps > self._first:
            self._save()

    def _save(self) -> None:
        self._compare()
        if self.num_steps <= self._written:
            return
        columns = self._joined() | self._own_resets()
        path = part_path(self._folder, self._first // self._size)
        document = to_document(StoredPart(self._first, self._digest, self._size))
        try:
            save_tensors(path, "collection-log", columns, document, overwrite=True)
        except CheckpointError:  # its message already explains what happened to the folder
            raise
        except OSError as error:
            raise CheckpointError(
                parse_text(
                    f"{path.name} could not be written to {str(self._folder)!r}: {error.strerror or error}; "
                    f"the steps before {self._written} are there. Free some space, then continue with "
                    "`resume=True`."
                )
            ) from error
        self._written, self._saved = self.num_steps, time.monotonic()

    def _joined(self) -> Columns:
        """Returns the steps of the current part as one piece, and keeps them so."""
        self._steps = [joined(self._steps)]
        return self._steps[0]

    def _own_resets(self) -> Columns:
        """Returns the resets of this part as columns."""
        last = min(self._first + self._size - 1, self.num_steps)  # not that of a step that was taken back
        own = [reset for reset in self._resets if reset.step <= last]
        columns = as_columns(self._space, [reset.observation for reset in own], "reset_observations")
        return columns | {
            "reset_steps": np.array([reset.step for reset in own], np.int64),
            "reset_envs": np.array([reset.env for reset in own], np.int64),
            "reset_seeds": np.array([-1 if reset.seed is None else reset.seed for reset in own], np.int64),
        }

    def _compare(self) -> None:
        """Raises if the steps of this part differ from those on disk."""
        if self._first >= self._stored or not self._steps:
            return
        number, now = self._first // self._size, self._joined()
        disk = load_part(self._folder, number, self._digest).columns
        num = min(disk["actions"].size, now["actions"].size)
        for name, array in now.items():
            same = disk[name][:num] == array[:num]
            both_nan = (disk[name][:num] != disk[name][:num]) & (array[:num] != array[:num])
            wrong = np.flatnonzero(~(same | both_nan).reshape(num, -1).all(axis=1))
            if wrong.size:
                raise EnvironmentFailedError(
                    f"the collection cannot continue: `{name}` at step {self._first + int(wrong[0])} differs "
                    "from the log. The environment is not reproducible for the same seed and actions, or a "
                    "library or the processor has changed. Finish it where it was begun, or start a new "
                    "collection in another folder."
                )


def load_part(folder: Path, number: int, digest: str) -> Part:
    """Returns a part; raises if it is damaged or belongs to another collection."""
    path = part_path(folder, number)
    columns, document = load_tensors(path, "collection-log")
    found = from_document(StoredPart, document, f"`{path}`")
    first, size = found.first, found.size
    if found.run != digest or first != number * size:
        raise FileFormatError(f"{path.name} belongs to another collection.")
    if not _is_log(columns, first, size):
        raise FileFormatError(f"`{path}` does not contain steps of a collection.")
    return Part(first, size, columns)


def _is_log(columns: Columns, first: int, size: int) -> bool:
    """Whether columns have the names, types and lengths of steps and resets, with resets in order."""
    kinds = {name: columns[name].dtype.str for name in (*STEP_TYPES, *RESET_TYPES) if name in columns}
    if kinds != STEP_TYPES | RESET_TYPES or any(columns[name].ndim != 1 for name in kinds):
        return False
    lengths = {name.startswith("reset_"): set() for name in columns}
    for name, array in columns.items():
        lengths[name.startswith("reset_")].add(array.shape[:1])
    if not all(len(length) == 1 and length != {()} for length in lengths.values()):
        return False
    at = np.concatenate([[first], columns["reset_steps"], [first + size]])
    return columns["actions"].size <= size and bool((np.diff(at) >= 0).all())


@dataclass(frozen=True)
class Stored:
    """The extent of a log: how many steps it has, in parts of which size."""

    num_steps: int
    size: int


def part_size(space: Any) -> int:
    """Returns how many steps a full part has, for observations of `space`."""
    return rows_within(PART_BYTES, space, PART)


def stored_steps(folder: Path, digest: str) -> Stored | None:
    """Returns the extent of the log up to its first gap; removes the parts after it."""
    number, steps, size = 0, 0, None
    while part_path(folder, number).exists():
        try:
            part = load_part(folder, number, digest)
        except FileFormatError as error:
            warnings.warn(f"{error} Its steps are collected again.", CheckpointWarning, stacklevel=3)
            break
        if part.first != steps:  # of a log with parts of another size
            break
        steps += part.num_steps
        number, size = number + 1, part.size
        if part.num_steps < part.size:
            break
    kept = {part_path(folder, k) for k in range(number)}
    for path in part_files(folder):
        if path not in kept:
            path.unlink()
    return None if size is None else Stored(steps, size)


def part_files(folder: Path) -> list[Path]:
    """Returns the files of all parts, complete or not."""
    return [path for path in sorted(folder.iterdir()) if PART_NAME.fullmatch(path.name)]


def parts_of(folder: Path, digest: str) -> Any:
    """Yields the parts in order."""
    number = 0
    while part_path(folder, number).exists():
        yield load_part(folder, number, digest)
        number += 1
