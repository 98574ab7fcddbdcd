"""The rows of a collection: steps of one environment, as they are in a Parquet file.

| column | |
|---|---|
| `episode` | number of the episode, counted as episodes begin; with `workers`, the `t` of its first step |
| `step` | number of the step within its episode, from 0 |
| `t` | number of the step in the run, over all environments |
| `env` | which environment of a vector; 0 if there is one |
| `seed` | in the first row of an episode, the seed of its reset; null in others and without a seed |
| `observation` | before the step: a number, a list (row-major), or a struct of the parts of a Dict or Tuple |
| `action` | a number or a list |
| `reward`, `terminated`, `truncated` | as the environment returned them |
| `next_observation` | after the step |

An observation that is one number has the next one beside it in every row. A larger one is not stored twice:
there `next_observation` is null where the next row of the file is the next step of the same episode, because
that row has it. So every file can be read by itself, and the last observation of an episode is never lost.

In memory (`PartRows`), the observations of a file are one array: those before each step and, at the end of
each *stretch* of consecutive steps, the one after its last step.

    row          0    1    2  | 3    4          steps 0-2 end an episode, 3-4 begin the next
    shown        o0   o1   o2   o3 | p0   p1   p2

Bytes depend on the rows and on the version of pyarrow only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.datasets.minari.columns import (
    ColumnPath,
    check_form,
    is_plain,
    named,
    named_parts,
    space_leaves,
)
from rhocover.errors import InvalidDataError

if TYPE_CHECKING:
    import gymnasium as gym

OBSERVATION, NEXT, ACTION = "observation", "next_observation", "action"
NUMBERS = ("episode", "step", "t", "env", "seed")
FLAGS = ("terminated", "truncated")
NAMES = (*NUMBERS, OBSERVATION, ACTION, "reward", *FLAGS, NEXT)
GROUP_BYTES = (
    1 << 22
)  # of observations in one row group; Arrow takes several times that to write and read one
MARK = b"rhocover"  # in the metadata of a file: it has such rows
SHAPE = b"shape"  # in the metadata of a column of lists: the shape of the array

Leaves = dict[ColumnPath, np.ndarray]


@dataclass(frozen=True, eq=False)
class Spaces:
    """The spaces of observations and actions."""

    observation: gym.Space[Any]
    action: gym.Space[Any]

    @cached_property
    def leaves(self) -> dict[ColumnPath, gym.Space[Any]]:
        """The components of an observation, by path."""
        return dict(space_leaves(self.observation, (OBSERVATION,)))

    @property
    def is_number(self) -> bool:
        """Whether an observation is one number."""
        return set(self.leaves) == {(OBSERVATION,)} and not (self.observation.shape or ())

    @property
    def row_bytes(self) -> int:
        """The size of one observation in bytes."""
        sizes = (np.dtype(s.dtype).itemsize * math.prod(s.shape or ()) for s in self.leaves.values())
        return sum(sizes)


@dataclass(frozen=True, eq=False)
class PartRows:
    """T steps of one environment; `shown` has T + E observations by component, E of them end stretches."""

    episode: IntArray
    step: IntArray
    t: IntArray
    env: IntArray
    seed: IntArray  # -1: none
    action: np.ndarray
    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    shown: Leaves

    def __len__(self) -> int:
        return int(self.step.size)

    @cached_property
    def begins(self) -> BoolArray:
        """Which rows begin a stretch: the first one, and those that begin an episode."""
        found = self.step == 0
        found[:1] = True
        return found

    @cached_property
    def ends(self) -> BoolArray:
        """Which rows are the last of their stretch."""
        return np.append(self.begins[1:], True)[: len(self)]

    @property
    def before(self) -> IntArray:
        """Where the observation before each step is in `shown`."""
        return np.arange(len(self)) + np.cumsum(self.begins) - 1

    @property
    def after(self) -> IntArray:
        """Where the observation after each step is in `shown`."""
        return self.before + 1

    @property
    def lengths(self) -> IntArray:
        """How many steps each stretch has, `[E]`."""
        return np.diff(np.append(np.flatnonzero(self.begins), len(self)))


# PartRows as bytes.


def rows_as_bytes(rows: PartRows, spaces: Spaces) -> bytes:
    """Returns the Parquet file of some rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table, packing = _table(rows, spaces)
    sink, write = pa.BufferOutputStream(), cast(Any, parquet.write_table)
    write(
        table, sink, compression="zstd", row_group_size=max(1, GROUP_BYTES // max(1, spaces.row_bytes)),
        use_dictionary=[path for path in packing if packing[path] == DICTIONARY],
        column_encoding={path: how for path, how in packing.items() if how != DICTIONARY},
        write_statistics=[name for name in table.column_names if name in packing],
    )  # fmt: skip
    return sink.getvalue().to_pybytes()


DICTIONARY, DELTAS, SPLIT = "DICTIONARY", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"
FEW = 4  # rows per distinct float from which a dictionary is shorter than the floats themselves


def _table(rows: PartRows, spaces: Spaces) -> tuple[Any, dict[str, str]]:
    """Returns the rows as an Arrow table, and how each of its columns of numbers is packed."""
    import pyarrow as pa

    packing = dict.fromkeys(("episode", "step", "t"), DELTAS) | dict.fromkeys(
        ("env", "seed", *FLAGS), DICTIONARY
    )
    shown, last = rows.shown, rows.ends
    before = {path: array[rows.before] for path, array in shown.items()}
    after = {
        path: array[rows.after if spaces.is_number else rows.after[last]] for path, array in shown.items()
    }
    kept = None if spaces.is_number else last
    columns = {
        **{name: pa.array(getattr(rows, name)) for name in NUMBERS[:4]},
        "seed": pa.array(rows.seed, mask=rows.seed < 0),
        OBSERVATION: _nested(spaces.observation, before, (OBSERVATION,), None),
        ACTION: _leaf(rows.action, None),
        "reward": pa.array(rows.reward),
        **{name: pa.array(getattr(rows, name)) for name in FLAGS},
        NEXT: _nested(spaces.observation, after, (OBSERVATION,), kept),
    }
    packing |= _packing(rows.action, (ACTION,)) | _packing(rows.reward, ("reward",))
    for path, array in shown.items():
        packing |= _packing(array, path) | _packing(array, (NEXT, *path[1:]))
    shapes = {OBSERVATION: spaces.observation, NEXT: spaces.observation, ACTION: spaces.action}
    fields = [
        pa.field(name, column.type, name in ("seed", NEXT), _shape_of(shapes.get(name)))
        for name, column in columns.items()
    ]
    schema = pa.schema(fields, metadata={MARK: b"rows of a collection"})
    return pa.Table.from_arrays(list(columns.values()), schema=schema), packing


def _shape_of(space: Any) -> dict[bytes, bytes] | None:
    shape = getattr(space, "shape", None)
    return {SHAPE: json.dumps(list(shape)).encode()} if shape and len(shape) > 1 else None


def _packing(array: np.ndarray, path: ColumnPath) -> dict[str, str]:
    """Returns how a column is packed: whole numbers and few floats by a dictionary, others byte by byte."""
    name = ".".join((*path, "list", "element") if array.ndim > 1 else path)
    if array.dtype.kind != "f" or array.dtype.itemsize == 2:
        return {name: DICTIONARY}
    is_few = FEW * np.unique(array).size <= array.size
    return {name: DICTIONARY if is_few else SPLIT}


def _nested(space: Any, leaves: Leaves, path: ColumnPath, kept: BoolArray | None) -> Any:
    """Returns arrays as a column, nested as the space is; with `kept`, they are the values of those rows."""
    import pyarrow as pa

    parts = named_parts(space)
    if parts is None:
        return _leaf(leaves[path], kept)
    arrays = [_nested(part, leaves, (*path, key), kept) for key, part in parts.items()]
    fields = [
        pa.field(key, array.type, kept is not None, _shape_of(part))
        for (key, part), array in zip(parts.items(), arrays, strict=True)
    ]
    mask = None if kept is None else pa.array(~kept)
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _leaf(array: np.ndarray, kept: BoolArray | None) -> Any:
    """Returns an array `[T, ...]` as a column; with `kept`, its rows are the values of those rows."""
    import pyarrow as pa

    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    if array.ndim == 1:
        if kept is None:
            return pa.array(array)
        full = np.zeros(kept.size, array.dtype)
        full[kept] = array
        return pa.array(full, mask=~kept)
    width, values = math.prod(array.shape[1:]), pa.array(array.reshape(-1))
    element = pa.field("element", values.type, nullable=False)
    if kept is None:
        return pa.FixedSizeListArray.from_arrays(values, type=pa.list_(element, width))
    ends = np.append(0, np.cumsum(kept)) * width
    mask = np.append(~kept, False)  # a null has no values, so nothing is stored for it
    return pa.ListArray.from_arrays(
        pa.array(ends.astype(np.int32), mask=mask), values, type=pa.list_(element)
    )


# Bytes as rows.


def rows_of_table(table: Any, spaces: Spaces) -> PartRows:
    """Returns the rows of an Arrow table; raises if its columns are not those of the spaces."""
    if sorted(table.column_names) != sorted(NAMES):
        raise InvalidDataError(
            f"it has the columns {', '.join(table.column_names)[:200]}, expected {', '.join(NAMES)}."
        )
    columns = {name: table.column(name).combine_chunks() for name in NAMES}
    numbers = {name: _plain(columns[name], name, "i") for name in NUMBERS[:4]}
    flags = {name: _plain(columns[name], name, "b") for name in FLAGS}
    seed = columns["seed"].fill_null(-1)
    step = numbers["step"].astype(np.int64)
    begins = step == 0
    begins[:1] = True
    ends = np.append(begins[1:], True)[: step.size]
    before = _leaves(spaces.observation, columns[OBSERVATION], (OBSERVATION,), None)
    after = _leaves(spaces.observation, columns[NEXT], (OBSERVATION,), ends)
    [action] = _leaves(spaces.action, columns[ACTION], (ACTION,), None).values()
    return PartRows(
        **numbers, **flags, seed=_plain(seed, "seed", "i"), action=action,
        reward=_plain(columns["reward"], "reward", "f"),
        shown={path: _interleaved(before[path], after[path], ends) for path in before},
    )  # fmt: skip


def _plain(column: Any, name: str, kind: str) -> Any:
    """Returns a column of one number per row; raises for nulls and other kinds."""
    if column.null_count:
        raise InvalidDataError.of(name, "must have a value in every row")
    array = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind != kind:
        raise InvalidDataError.of(name, "is not what a collection has there", f"{column.type}")
    return array.astype(np.int64) if kind == "i" else array


def _interleaved(before: np.ndarray, last: np.ndarray, ends: BoolArray) -> np.ndarray:
    """Returns the observations before each step, and after each end of a stretch that which follows it."""
    if last.shape[0] == 1:
        return np.concatenate([before, last])
    shown = np.empty((before.shape[0] + last.shape[0], *before.shape[1:]), np.result_type(before, last))
    place = np.arange(ends.size) + np.cumsum(ends) - ends
    is_last = np.ones(shown.shape[0], bool)
    is_last[place] = False
    shown[place], shown[is_last] = before, last
    return shown


def _leaves(space: Any, column: Any, path: ColumnPath, wanted: BoolArray | None) -> Leaves:
    """Returns the arrays of a column by path; of some rows only, if `wanted`, others may be null."""
    parts = named_parts(space)
    if parts is None:
        return {path: _array(column, space, path, wanted)}
    if [field.name for field in getattr(column.type, "fields", ())] != list(parts):
        raise InvalidDataError(
            f"{named(path)} has the type {str(column.type)[:200]}, expected a struct of {list(parts)}."
        )
    found: Leaves = {}
    for key, field in zip(parts, column.flatten(), strict=True):
        found |= _leaves(parts[key], field, (*path, key), wanted)
    return found


def _array(column: Any, space: Any, path: ColumnPath, wanted: BoolArray | None) -> np.ndarray:
    """Returns a column as an array `[T, *shape]`, after checking it against its space."""
    import pyarrow as pa
    import pyarrow.types as types

    if wanted is not None:
        column = column.filter(pa.array(wanted))
    if column.null_count:
        raise InvalidDataError(
            f"{named(path)} lacks the observation after a row whose next step is not the next row."
        )
    shape, rows = tuple(space.shape or ()), len(column)
    is_list = types.is_fixed_size_list(column.type) or types.is_list(column.type)
    if is_list != bool(shape):
        raise InvalidDataError(
            f"{named(path)} has the type {str(column.type)[:200]}, expected one for the space {space}."
        )
    if types.is_list(column.type):
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != math.prod(shape)).any():
            raise InvalidDataError(f"{named(path)} has lists of several lengths.")
    values = column.flatten() if is_list else column
    array = values.to_numpy(zero_copy_only=False)
    if values.null_count or not is_plain(array.dtype) or array.size != rows * math.prod(shape):
        raise InvalidDataError(f"{named(path)} does not hold one {space} per row.")
    array = array.reshape((rows, *shape))
    check_form(array.shape, array.dtype, space, path, rows)
    return array
