"""The steps of a collection on disk, in parts: what is there is the run so far, and nothing else is.

Part p holds steps p N to (p+1) N - 1; the last one is written anew as it grows. N is 65,536, or less where
observations are large: a part has some 16 MB, whatever the environment shows, and memory holds about one. A
part is one file, whole or absent, with its own SHA-256 and that of the settings. Everything else follows from
the log: going on with a collection is to run the explorer again on what the log says the environment did
(`replay`). What it then does is compared with the log, so a change of versions or of the environment is
noticed.

Steps are columns: `observations[k]` is what the environment showed after step k, also where that was the end
of an episode; resets say after which steps an episode began anew (0: before the first), with what observation
and with which seed (-1: none). Observations of an array space are one column; those of Dict and Tuple spaces
are one column for each of their parts, named by the way there: `observations/camera/_index_0` (see
`datasets.minari.columns`).
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
    """Returns how many bytes one observation takes."""
    leaves = [leaf for _, leaf in space_leaves(space, ("observations",))]
    return sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)


def rows_within(num_bytes: int, space: Any, most: int) -> int:
    """Returns how many observations take about so many bytes: at least one, and at most `most`."""
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
        raise ValueError(f"numbers with a point, expected whole numbers of {space}")
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
    """Returns observation number `row` of nested arrays, as an environment would show it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: one(part, values[key], row) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one(part, values[k], row) for k, part in enumerate(space.spaces))
    return values[row].copy() if values.ndim > 1 or space.shape else values[row]


def joined(pieces: Sequence[Columns]) -> Columns:
    """Returns columns one after another."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def picked(columns: Columns, rows: Any) -> Columns:
    """Returns some rows of each column."""
    return {name: array[rows] for name, array in columns.items()}


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


class ObservationBuffer:
    """Room for the observations of one batch of steps: a buffer for arrays of one shape, a list otherwise.

    What is added is copied: environments may use one array again and again.
    """

    def __init__(self, space: Any, size: int, *, is_plain: bool) -> None:
        self._list: list[Any] = []
        self._array = None
        self._count, self._is_plain = 0, is_plain
        if not is_plain and getattr(space, "shape", None) and space.dtype is not None:
            self._array = np.empty((size, *space.shape), space.dtype)

    @property
    def put(self) -> Callable[[Any], None]:
        """How to add an observation; not kept here, or what is in the buffer would be held by a circle."""
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


PART = 1 << 16  # steps of a part, at most
PART_BYTES = 1 << 24  # of its observations: soon written, and a few copies of it fit anywhere
SECONDS = 20.0  # between two writings of a part that grows
STEP_TYPES = {"actions": "<i4", "rewards": "<f8", "terminated": "|b1", "truncated": "|b1", "envs": "<i4"}
RESET_TYPES = {"reset_steps": "<i8", "reset_envs": "<i8", "reset_seeds": "<i8"}
STEP_NAMES = tuple(STEP_TYPES)


@dataclass(frozen=True)
class StoredPart:
    """What a file says of a part besides its columns; `run` is the digest of the settings."""

    first: int
    run: str
    size: int = field(default=PART, metadata=LEFT_OUT)  # what a log of old does not say

    def __post_init__(self) -> None:
        checks.integer(self.size, "size", least=1, most=PART)


@dataclass(frozen=True, eq=False)
class Part:
    """Some steps and the episodes that begin among them; `first` is the number of the first step.

    `size` is how many steps make it full; all parts of a log have the same.
    Steps are columns `[T]` and observations `[T, ...]`. Resets are columns `[R]`: `reset_steps` (how many
    steps of the run were taken before), `reset_envs`, `reset_seeds` (-1: none), and what they showed.
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
    """Records steps in a folder; those that are there already are compared instead."""

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
        """Takes the beginning of an episode."""
        self._resets.append(reset)

    def add(self, steps: Steps) -> None:
        """Takes steps; full parts are written at once."""
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
        """Writes the part that is full, or compares it, and begins the next one."""
        self._save()
        later = [reset for reset in self._resets if reset.step >= self.num_steps]
        self._first, self._steps, self._resets = self.num_steps, [], later

    def pause(self) -> None:
        """Writes the part that grows, if it was not for some time."""
        if self.num_steps > self._written and time.monotonic() - self._saved >= SECONDS:
            self._save()

    def close(self) -> None:
        """Writes what is not written yet; refuses to go on if what was on disk turned out different."""
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
        except CheckpointError:  # says itself what happened to the folder
            raise
        except OSError as error:
            raise CheckpointError(
                parse_text(
                    f"{path.name} could not be written to {str(self._folder)!r}: {error.strerror or error}; "
                    f"the steps before {self._written} are there. Make room, then go on with `resume=True`."
                )
            ) from error
        self._written, self._saved = self.num_steps, time.monotonic()

    def _joined(self) -> Columns:
        """Returns the steps of the part that grows, which are held in one piece from now on."""
        self._steps = [joined(self._steps)]
        return self._steps[0]

    def _own_resets(self) -> Columns:
        """Returns the resets of this part as columns."""
        last = min(self._first + self._size - 1, self.num_steps)  # those of a step that was undone come later
        own = [reset for reset in self._resets if reset.step <= last]
        columns = as_columns(self._space, [reset.observation for reset in own], "reset_observations")
        return columns | {
            "reset_steps": np.array([reset.step for reset in own], np.int64),
            "reset_envs": np.array([reset.env for reset in own], np.int64),
            "reset_seeds": np.array([-1 if reset.seed is None else reset.seed for reset in own], np.int64),
        }

    def _compare(self) -> None:
        """Refuses a run that differs from what is on disk, in the steps of this part."""
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
                    f"the collection cannot go on: `{name}` at step {self._first + int(wrong[0])} is not "
                    "what it was. The environment does not repeat itself for the same seed and actions, or "
                    "a library or the processor is another one. Finish it where it was begun, or begin anew "
                    "in another folder."
                )


def load_part(folder: Path, number: int, digest: str) -> Part:
    """Returns a part; refuses one that is damaged or of another collection."""
    path = part_path(folder, number)
    columns, document = load_tensors(path, "collection-log")
    found = from_document(StoredPart, document, f"`{path}`")
    first, size = found.first, found.size
    if found.run != digest or first != number * size:
        raise FileFormatError(f"{path.name} belongs to another collection.")
    if not _is_log(columns, first, size):
        raise FileFormatError(f"`{path}` does not hold steps of a collection.")
    return Part(first, size, columns)


def _is_log(columns: Columns, first: int, size: int) -> bool:
    """Whether columns have the names, the types and the lengths of steps and resets, in their order."""
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
    """What a log holds: how many steps, in parts of which size."""

    num_steps: int
    size: int


def part_size(space: Any) -> int:
    """Returns how many steps a part has in an environment that shows values of `space`."""
    return rows_within(PART_BYTES, space, PART)


def stored_steps(folder: Path, digest: str) -> Stored | None:
    """Returns what there is from the first step on without a gap; removes what comes after a gap."""
    number, steps, size = 0, 0, None
    while part_path(folder, number).exists():
        try:
            part = load_part(folder, number, digest)
        except FileFormatError as error:
            warnings.warn(f"{error} It is collected again.", CheckpointWarning, stacklevel=3)
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
    """Returns the files of all parts that there are, whole or not."""
    return [path for path in sorted(folder.iterdir()) if PART_NAME.fullmatch(path.name)]


def parts_of(folder: Path, digest: str) -> Any:
    """Yields the parts in order."""
    number = 0
    while part_path(folder, number).exists():
        yield load_part(folder, number, digest)
        number += 1
