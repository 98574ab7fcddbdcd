"""Recording a run: its steps become the parts of a collection, which are also what a resumed run repeats.

A round has 65,536 steps, or fewer if observations are large: the parts of a round have at most about 8 MB of
observations, and memory holds about one round. When a round is full, its parts are written, and then the
manifest that names them (`datasets.collection`). The round that is not full is written every twenty seconds,
and when the run stops.

Nothing else is stored: resuming a collection means running the explorer again on the stored steps (`replay`).
The new steps are compared with the stored ones, so that a change of versions or of the environment is
noticed. Where rounds end depends on the steps only, so the parts are the same after any interruption.
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.datasets.collection.manifest import (
    MANIFEST,
    Manifest,
    Part,
    load_part,
    part_name,
    part_path,
    remove_unnamed,
    write_manifest,
)
from rhocover.datasets.collection.rows import OBSERVATION, Leaves, PartRows, Spaces, rows_as_bytes
from rhocover.datasets.minari.columns import space_leaves, split
from rhocover.errors import (
    CheckpointError,
    CheckpointWarning,
    EnvironmentFailedError,
    InvalidDataError,
    parse_text,
)
from rhocover.files import write_atomically


def row_bytes(space: Any) -> int:
    """Returns the size of one observation in bytes."""
    leaves = [leaf for _, leaf in space_leaves(space, ("observations",))]
    return sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape or ()) for leaf in leaves)


def rows_within(num_bytes: int, space: Any, most: int) -> int:
    """Returns how many observations fit into `num_bytes`: at least one, and at most `most`."""
    return max(1, min(most, num_bytes // max(1, row_bytes(space))))


def as_leaves(space: Any, observations: Any) -> Leaves:
    """Returns observations, given as an array or as a list, as arrays `[T, ...]` by component."""
    return {path: array for path, _, array in split(stacked(space, observations), space, (OBSERVATION,))}


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


def one(space: Any, leaves: Leaves, row: int, path: tuple[str, ...] = (OBSERVATION,)) -> Any:
    """Returns observation number `row`, as an environment would return it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: one(part, leaves, row, (*path, key)) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(one(part, leaves, row, (*path, f"_index_{k}")) for k, part in parts)
    values = leaves[path]
    return values[row].copy() if values.ndim > 1 or space.shape else values[row]


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


ROUND = 1 << 16  # most steps of a round
ROUND_BYTES = 1 << 23  # of its observations: quickly written, and several copies fit into any memory
SECONDS = 20.0  # between two writes of the round that grows
COLUMNS = ("actions", "rewards", "terminated", "truncated", "envs")


def round_steps(space: Any) -> int:
    """Returns how many steps a full round has, for observations of `space`."""
    return rows_within(ROUND_BYTES, space, ROUND)


@dataclass(frozen=True, eq=False)
class Begun:
    """An episode that has begun: its number, its seed, and its first observation."""

    episode: int
    seed: int
    observation: Any


class EpisodeStream:
    """Where one environment stands between two rounds."""

    def __init__(self, space: Any) -> None:
        self._space = space
        self.resets: deque[Begun] = deque()  # episodes whose first step is not in a full round yet
        self.episode, self.step = -1, 0  # of the next step, if it continues an episode
        self.shown: Leaves | None = None  # the last observation, if the next step continues an episode
        self.num_rows = 0

    def rows(
        self, columns: dict[str, np.ndarray], after: Leaves, values: Any
    ) -> tuple[PartRows, EpisodeStream]:
        """Returns the rows of steps that follow, and where the environment then stands."""
        over = columns["terminated"] | columns["truncated"]
        begins = np.append(self.shown is None, over[:-1])
        starts = np.flatnonzero(np.append(True, over[:-1]))
        fresh = list(self.resets)[: int(np.count_nonzero(begins))]
        first = fresh if self.shown is None else [Begun(self.episode, -1, None), *fresh]
        lengths = np.diff(np.append(starts, over.size))
        step = np.arange(over.size) - np.repeat(starts, lengths)
        step[: lengths[0]] += 0 if self.shown is None else self.step
        seed = np.full(over.size, -1, np.int64)
        seed[starts] = [begun.seed for begun in first]
        rows = PartRows(
            episode=np.repeat([begun.episode for begun in first], lengths), step=step, t=columns["t"],
            env=columns["envs"].astype(np.int64), seed=seed, action=values[columns["actions"]],
            reward=columns["rewards"], terminated=columns["terminated"], truncated=columns["truncated"],
            shown=_shown(self._first(fresh), after, starts),
        )  # fmt: skip
        return rows, self._after(rows, len(fresh))

    def _first(self, fresh: Sequence[Begun]) -> Leaves:
        """Returns the first observation of each stretch, in the type that those of steps have."""
        if not fresh:
            assert self.shown is not None
            return self.shown
        buffer = ObservationBuffer(self._space, len(fresh), is_plain=False)
        for begun in fresh:
            buffer.put(begun.observation)
        found = as_leaves(self._space, buffer.take(len(fresh)))
        return found if self.shown is None else joined([self.shown, found])

    def _after(self, rows: PartRows, num_resets: int) -> EpisodeStream:
        then = EpisodeStream(self._space)
        then.resets = deque(list(self.resets)[num_resets:])
        then.num_rows = self.num_rows + len(rows)
        if not (rows.terminated[-1] or rows.truncated[-1]):
            then.episode, then.step = int(rows.episode[-1]), int(rows.step[-1]) + 1
            then.shown = {path: array[-1:].copy() for path, array in rows.shown.items()}
        return then


def _shown(first: Leaves, after: Leaves, starts: IntArray) -> Leaves:
    """Returns the first observation of each stretch, followed by those after its steps."""
    found = {}
    for path, array in after.items():
        begin = first[path]
        place = starts + np.arange(starts.size)
        is_after = np.ones(len(array) + starts.size, bool)
        is_after[place] = False
        both = np.empty((is_after.size, *array.shape[1:]), np.result_type(begin, array))
        both[place], both[is_after] = begin, array
        found[path] = both
    return found


class Log:
    """Records steps as parts in a folder; steps that are already there are compared instead.

    `values` are the environment's actions by number. Use `complete` at the end of a run, and `close` in any
    case.
    """

    def __init__(self, folder: Path, spaces: Spaces, values: Any, manifest: Manifest) -> None:
        self._folder, self._spaces, self._values = folder, spaces, np.asarray(values)
        self.manifest = manifest
        self._stored = manifest.num_steps  # steps on disk when this process began
        self._size = manifest.round_steps
        self._steps: list[tuple[dict[str, np.ndarray], Leaves]] = []  # of the round that grows
        self._streams: dict[int, EpisodeStream] = {}
        self._first = 0  # its first step
        self._written = self._stored
        self._saved = time.monotonic()
        self._num_episodes = 0
        self.num_steps = 0

    def begin(self, reset: Reset) -> None:
        """Records the reset with which an episode begins."""
        seed = -1 if reset.seed is None else reset.seed
        if reset.env not in self._streams:
            self._streams[reset.env] = EpisodeStream(self._spaces.observation)
        begun = Begun(self._num_episodes, seed, reset.observation)
        self._streams[reset.env].resets.append(begun)
        self._num_episodes += 1

    def add(self, steps: Steps) -> None:
        """Records steps; full rounds are written at once."""
        after = as_leaves(self._spaces.observation, steps.observations)
        columns = {name: np.asarray(getattr(steps, name)) for name in COLUMNS}
        num, done = int(columns["actions"].size), 0
        columns["t"] = np.arange(self.num_steps, self.num_steps + num)
        while done < num:
            some = slice(done, min(num, done + self._first + self._size - self.num_steps))
            self._steps.append(
                ({name: array[some] for name, array in columns.items()},
                 {path: array[some].copy() for path, array in after.items()})
            )  # fmt: skip
            self.num_steps += some.stop - done
            done = some.stop
            if self.num_steps == self._first + self._size:
                self._save(is_full=True)

    def pause(self) -> None:
        """Writes the current round if the last write was long enough ago."""
        if self.num_steps > self._written and time.monotonic() - self._saved >= SECONDS:
            self._save()

    def close(self) -> None:
        """Writes the rest; raises if the steps on disk differ from those of this run."""
        if self.num_steps > self._first:
            self._save()

    def complete(self) -> Manifest:
        """Writes the rest as the last round, and returns the manifest of all of them."""
        if self._steps:
            self._save(is_full=True)
        return self.manifest

    def _save(self, *, is_full: bool = False) -> None:
        """Writes the current round unless it is there; goes on to the next one if it is full."""
        number = self._first // self._size
        made, streams = self._rows()
        if self._first < self._stored:
            self._compare(number, made)
        if self.num_steps > self._written or (is_full and self._has_open(number)):
            self._write(number, made, is_full=is_full)
        if is_full:
            self._streams, self._steps, self._first = streams, [], self.num_steps

    def _rows(self) -> tuple[dict[int, PartRows], dict[int, EpisodeStream]]:
        """Returns the rows of the current round by environment, and where each environment then stands."""
        self._steps = [tuple(joined(parts) for parts in zip(*self._steps, strict=True))]  # type: ignore[list-item]
        [(columns, after)] = self._steps
        made, streams = {}, dict(self._streams)
        for env in np.unique(columns["envs"]).tolist():
            own = columns["envs"] == env
            mine, seen = _some(columns, own), _some(after, own)
            made[env], streams[env] = self._streams[env].rows(mine, seen, self._values)
        return made, streams

    def _has_open(self, number: int) -> bool:
        """Whether the parts of a round on disk have the names of a round that is not full."""
        parts = (part for part in self.manifest.parts if part.round == number)
        return any(part.name != part_name(part.env, number) for part in parts)

    def _write(self, number: int, made: dict[int, PartRows], *, is_full: bool) -> None:
        """Writes the parts of a round, then the manifest, and removes the parts that they replace."""
        old = [part for part in self.manifest.parts if part.round == number]
        so_far = None if is_full else self.num_steps - self._first
        parts = [part for part in self.manifest.parts if part.round != number]
        for env, rows in made.items():
            name = part_name(env, number, so_far)
            content = rows_as_bytes(rows, self._spaces)
            self._put(
                name,
                lambda name=name, c=content: write_atomically(
                    part_path(self._folder, name), c, overwrite=True
                ),
            )
            digest = hashlib.sha256(content).hexdigest()
            first = self._streams[env].num_rows
            parts.append(Part(name, env, number, len(rows), first, len(content), digest))
        parts.sort(key=lambda part: (part.env, part.round))
        manifest = replace(self.manifest, parts=tuple(parts))
        self._put(MANIFEST, lambda: write_manifest(self._folder, manifest))
        self.manifest, self._written, self._saved = manifest, self.num_steps, time.monotonic()
        for part in {part.name for part in old} - {part.name for part in parts}:
            part_path(self._folder, part).unlink(missing_ok=True)

    def _put(self, name: str, write: Callable[[], None]) -> None:
        """Writes a file; an error says which steps are there."""
        try:
            write()
        except CheckpointError:  # its message already explains what happened to the folder
            raise
        except OSError as error:
            raise CheckpointError(
                parse_text(
                    f"{name} could not be written to {str(self._folder)!r}: {error.strerror or error}; "
                    f"the steps before {self._written} are there. Free some space, then continue with "
                    "`resume=True`."
                )
            ) from error

    def _compare(self, number: int, made: dict[int, PartRows]) -> None:
        """Raises if the steps of a round differ from those on disk."""
        for part in self.manifest.parts:
            if part.round == number:
                disk = load_part(self._folder, part, self._spaces)
                if part.env not in made:
                    raise differs("env", int(disk.t[0]))
                _compare_rows(made[part.env], disk)


def _some(columns: dict[Any, np.ndarray], rows: BoolArray) -> dict[Any, np.ndarray]:
    """Returns some rows of columns; the columns themselves if it is all of them."""
    return columns if rows.all() else {name: array[rows] for name, array in columns.items()}


def joined(pieces: Sequence[dict[Any, np.ndarray]]) -> dict[Any, np.ndarray]:
    """Returns the concatenation of columns."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _compare_rows(now: PartRows, disk: PartRows) -> None:
    """Raises if the first rows differ, as far as there are both."""
    num = min(len(now), len(disk))
    columns = {name: (getattr(now, name), getattr(disk, name)) for name in COMPARED}
    for path, array in now.shown.items():
        name = ".".join(path)
        columns[name] = array[now.before[:num]], disk.shown[path][disk.before[:num]]
        columns[f"next_{name}"] = array[now.after[:num]], disk.shown[path][disk.after[:num]]
    for name, (a, b) in columns.items():
        a, b = a[:num], b[:num]
        is_same = (a == b) | ((a != a) & (b != b))
        wrong = np.flatnonzero(~is_same.reshape(num, -1).all(axis=1))
        if wrong.size:
            raise differs(name, int(now.t[wrong[0]]))


COMPARED = ("action", "reward", "terminated", "truncated", "t", "episode", "step", "seed")


def differs(name: str, step: int) -> EnvironmentFailedError:
    """Returns the error for steps that are not those stored."""
    return EnvironmentFailedError(
        f"the collection cannot continue: `{name}` at step {step} differs from the stored steps. The "
        "environment is not reproducible for the same seed and actions, or a library or the processor has "
        "changed. Finish it where it was begun, or start a new collection in another folder."
    )


def usable(folder: Path, manifest: Manifest, spaces: Spaces) -> Manifest:
    """Returns the manifest up to its first harmed round; the others are collected again."""
    for part in sorted(manifest.parts, key=lambda part: (part.round, part.env)):
        try:
            load_part(folder, part, spaces)
        except InvalidDataError as error:
            warnings.warn(f"{error} Its steps are collected again.", CheckpointWarning, stacklevel=3)
            manifest = manifest.before_round(part.round)
            write_manifest(folder, manifest)
            break
    remove_unnamed(folder, manifest)
    return manifest
