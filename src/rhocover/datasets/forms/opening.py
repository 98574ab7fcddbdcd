"""Opens data of any form as a table of steps: files, folders and lists of files, and objects in memory.

A file is opened by the end of its name. Several files are one stream, in natural order: part-2 comes before
part-10. A folder is a data set that Hugging Face's `save_to_disk` wrote, or it holds such files; Minari's
folders and ids are read elsewhere (`datasets.reading`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.datasets.columns import read_roles, real_numbers
from rhocover.datasets.forms.arrow import arrow_table, is_arrow, parquet_table, table_of_arrow
from rhocover.datasets.forms.buffers import is_buffer, table_of_buffer
from rhocover.datasets.forms.episodes import is_row, table_of_episodes
from rhocover.datasets.forms.hdf5 import hdf5_table
from rhocover.datasets.forms.hugging_face import (
    is_hugging_face,
    is_hugging_face_folder,
    table_of_folder,
    table_of_hugging_face,
)
from rhocover.datasets.forms.json_lines import json_table
from rhocover.datasets.tables import (
    DataTable,
    Piece,
    csv_table,
    joined_tables,
    npz_table,
    table_of_columns,
)
from rhocover.errors import InvalidArgumentError, InvalidDataError, parse_text, shortened

READERS: dict[str, Callable[[Path], DataTable]] = {
    ".npz": npz_table,
    ".csv": csv_table,
    ".tsv": csv_table,
    ".csv.gz": csv_table,
    ".tsv.gz": csv_table,
    ".parquet": parquet_table,
    ".pq": parquet_table,
    ".arrow": arrow_table,
    ".feather": arrow_table,
    ".ipc": arrow_table,
    ".jsonl": json_table,
    ".ndjson": json_table,
    ".json": json_table,
    ".jsonl.gz": json_table,
    ".ndjson.gz": json_table,
    ".json.gz": json_table,
    ".hdf5": hdf5_table,
    ".h5": hdf5_table,
}
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
LOAD_IT = (
    "A pickle may run anything, so it is never opened. If you trust it, load it in Python and pass the "
    "object: rc.audit(load_from_pkl(path)) for a buffer of Stable-Baselines3, with load_from_pkl from "
    "stable_baselines3.common.save_util."
)
TUPLE_NAMES = {4: ("s", "a", "s_next", "done"), 5: ("s", "a", "s_next", "terminated", "truncated")}
GLOB = re.compile(r"[*?\[]")


def open_table(data: Any, columns: Any = None) -> DataTable:
    """Returns the data as a table; `columns` are the columns that the caller chose for roles."""
    roles = read_roles(columns)
    if isinstance(data, str | os.PathLike):
        return _with_stacks(_opened(data), roles)
    table = _of_object(data, {role: names[0] for role, names in roles.items()})
    return _with_stacks(table, roles)


# Files and folders.


def kind_of(path: Path) -> str:
    """Returns the end of a name that says what a file is: .csv, .csv.gz."""
    ends = [end.lower() for end in path.suffixes[-2:]]
    return "".join(ends) if ends and ends[-1] == ".gz" else ends[-1] if ends else ""


def is_table(text: str | os.PathLike[str]) -> bool:
    """Returns whether a name is that of a table: of a file, a pattern of files, or a folder of them."""
    path = Path(text)
    if path.is_dir():
        return is_hugging_face_folder(path) or bool(_parts_of(path))
    return path.is_file() or kind_of(path) in READERS or is_pattern(path)


def is_pattern(path: Path) -> bool:
    """Returns whether a name stands for several files: parts/*.parquet."""
    return GLOB.search(str(path)) is not None and not os.path.lexists(path)


def _opened(text: str | os.PathLike[str]) -> DataTable:
    path = checks.place(text, "data", "file or folder")
    if path.is_dir() and is_hugging_face_folder(path):
        return table_of_folder(path)
    if path.is_dir() or is_pattern(path):
        return _joined(_files_of(path), str(path))
    return open_file_table(path)


def _files_of(path: Path) -> list[Path]:
    """Returns the files of a folder, or those that a pattern fits, in their order in the stream."""
    if path.is_dir():
        return _in_order(_parts_of(path), str(path))
    every = [Path(name) for name in glob.iglob(str(path), recursive=True)]
    found = [one for one in every if kind_of(one) in READERS or not one.is_dir()]
    if not found:
        raise InvalidDataError.of("data", f": no file fits {str(path)!r}")
    return _in_order(found, str(path))


def stream_files(data: Any) -> tuple[list[Path], str]:
    """Returns the files that are one stream, in order, and its name; raises if the data are not files."""
    if isinstance(data, str | os.PathLike):
        path = checks.place(data, "data", "file or folder")
        if is_pattern(path) or (path.is_dir() and not is_hugging_face_folder(path) and _parts_of(path)):
            return _files_of(path), str(path)
        if not path.is_dir():
            return [path], str(path)
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return _listed_files(data)
    raise InvalidArgumentError.of(
        "executor",
        "counts files: a path that ends in one of " + ", ".join(READERS) + ", a folder of such files, a "
        "pattern or a list",
        f"data of type {type(data).__name__}" if not isinstance(data, str | os.PathLike) else repr(str(data)),
        remedy=parse_text("Leave `executor` out, or write the data as Parquet files."),
    )


def _listed_files(data: Sequence[Any]) -> tuple[list[Path], str]:
    paths = [checks.place(item, "data", "file or folder") for item in data]
    name = f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else str(paths[0])
    return _in_order(paths, name), name


def open_file_table(path: Path) -> DataTable:
    """Returns one file as a table; raises if there is none, or if it is not of a known kind."""
    if not path.is_file():
        what = "is not a file" if os.path.lexists(path) else ""
        raise InvalidDataError.of(
            "data", f": {str(path)!r} {what}" if what else f": there is no file {str(path)!r}"
        )
    kind = kind_of(path)
    if kind in READERS:
        return READERS[kind](path)
    raise InvalidDataError.of(
        "data",
        f": {str(path)!r} must end in {', '.join(READERS)}, or be a Minari data set's folder",
        remedy=LOAD_IT if path.suffix.lower() in PICKLES else "",
    )


def _parts_of(folder: Path) -> list[Path]:
    """Returns the files of a folder that are tables; other files and hidden ones are not looked at."""
    names = [name for name in sorted(os.listdir(folder)) if name[0] not in "._" and name not in NOT_PARTS]
    paths = [folder / name for name in names if kind_of(Path(name)) in READERS]
    return [path for path in paths if path.suffix != ".json"] or paths  # documents may be beside the data


NOT_PARTS = (
    "metadata.json",
    "collection.json",
    "manifest.json",
    "datasheet.json",
    "state.json",
    "dataset_info.json",
)


def natural(path: Path) -> list[Any]:
    """Returns the key by which part-2 comes before part-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


def _joined(paths: Sequence[Path], name: str) -> DataTable:
    """Returns files as one table."""
    return joined_tables([partial(open_file_table, path) for path in paths], name)


def _in_order(paths: Sequence[Path], name: str) -> list[Path]:
    """Returns files of one kind in natural order; raises if one is there twice, or of another kind."""
    paths = sorted(paths, key=natural)
    twice = (
        [path for k, path in enumerate(paths) if path in paths[:k]] if len(set(paths)) < len(paths) else []
    )
    if twice:
        raise InvalidDataError.of("data", f"lists {str(twice[0])!r} twice, so its steps would count twice")
    kinds = sorted({kind_of(path) for path in paths})
    if len(kinds) > 1:
        if lost := [path for path in paths if not os.path.lexists(path)]:
            raise InvalidDataError.of("data", f": there is no file {str(lost[0])!r}")
        raise InvalidDataError.of(
            "data", f": {name} holds files of several kinds ({', '.join(kinds)}), expected one",
            remedy=f"Name one kind, such as {paths[0].parent / '*'!s}{kinds[0]}.",
        )  # fmt: skip
    return paths


# Objects.


def _of_object(data: Any, roles: Mapping[str, str]) -> DataTable:
    """Returns an object in memory as a table."""
    if is_hugging_face(data):
        return table_of_hugging_face(data)
    if isinstance(data, Mapping):
        if "steps" in data:
            return table_of_episodes([data], roles)
        return table_of_columns(data, "the data")
    if is_arrow(data):
        return table_of_arrow(data)
    if is_buffer(data):
        return table_of_buffer(data)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):  # a LazyFrame of polars
        return _of_lazy_frame(data)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # a data frame
        return table_of_columns({name: data[name] for name in data.columns}, "the data")
    if isinstance(data, tuple | list) and data:
        return _of_list(data, roles)
    if hasattr(data, "__iter__") and not isinstance(data, str | bytes | np.ndarray | set | frozenset):
        return _of_iterator(iter(data), roles)
    raise unreadable(data)


def _of_lazy_frame(data: Any) -> DataTable:
    """Returns a LazyFrame of polars as a table; only the wanted columns are computed."""

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        frame = data.select(list(wanted)).collect()
        return table_of_columns({name: frame[name] for name in wanted}, "the data").pieces(wanted)

    return DataTable(tuple(data.collect_schema().names()), pieces, "the data")


def _of_list(data: Any, roles: Mapping[str, str]) -> DataTable:
    """Returns a list of files, of steps or of episodes, or a tuple of columns, as a table."""
    if all(isinstance(item, str | os.PathLike) for item in data):
        return _joined(*_listed_files(data))
    if is_row(data[0]):
        return _of_rows(data)
    if _is_episode(data[0]):
        return table_of_episodes(data, roles)
    if len(data) in TUPLE_NAMES:
        return table_of_columns(dict(zip(TUPLE_NAMES[len(data)], data, strict=True)), "the data")
    raise unreadable(data)


def _is_episode(item: Any) -> bool:
    return (
        isinstance(item, Mapping)
        or (hasattr(item, "observations") and hasattr(item, "actions"))
        or (hasattr(item, "obs") and hasattr(item, "acts"))
    )


def _of_iterator(data: Iterator[Any], roles: Mapping[str, str]) -> DataTable:
    first = list(islice(data, 1))
    if first and not _is_episode(first[0]):
        raise unreadable(data)
    return table_of_episodes((item for part in (first, data) for item in part), roles)


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> DataTable:
    """Returns steps, a dictionary each, as a table."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != rows[0].keys():
            raise InvalidDataError(
                f"row {number} must have the columns of the first, {shortened(', '.join(map(str, rows[0])))}."
            )
    return table_of_columns({name: [row[name] for row in rows] for name in rows[0]}, "the data")


def unreadable(data: Any) -> InvalidDataError:
    """Returns the error for something that is no data."""
    kind = type(data).__name__
    got = f"a {kind} of {len(data)}" if isinstance(data, tuple | list) else kind
    return InvalidDataError.of(
        "data",
        "must be columns (a mapping, a data frame or a tuple s, a, s_next, done), episodes, a replay buffer, "
        f"a path ending in {', '.join(READERS)}, a folder of such files, a Minari data set or its id, or a "
        "Tally",
        got,
    )


# Columns that the caller put together.


def chosen_columns(columns: Any) -> dict[str, str]:
    """Returns the name that the column of each chosen role has in the opened table."""
    return {role: ", ".join(names) for role, names in read_roles(columns).items()}


def _with_stacks(table: DataTable, roles: Mapping[str, tuple[str, ...]]) -> DataTable:
    """Returns the table with one more column for each role to which the caller gave several."""
    stacks = {", ".join(names): names for names in roles.values() if len(names) > 1}
    if not stacks:
        return table
    lacking = [name for names in stacks.values() for name in names if name not in table.names]
    if lacking:
        raise InvalidDataError.of(
            "columns",
            f"names {lacking[0]!r}, but {table.name} has the columns {shortened(', '.join(table.names))}",
        )

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        plain = dict.fromkeys(part for name in wanted for part in stacks.get(name, (name,)))
        row = 0
        for piece in table.pieces(list(plain)):
            yield {
                name: _stacked(piece, stacks[name], row) if name in stacks else piece[name] for name in wanted
            }
            row += len(next(iter(piece.values())))

    return DataTable((*table.names, *stacks), pieces, table.name, table.num_rows, table.remarks)


def _stacked(piece: Piece, names: Sequence[str], first_row: int) -> Any:
    """Returns several columns of numbers side by side, `[T, k]`."""
    parts = [real_numbers(piece[name], name, first_row) for name in names]
    flat = [np.asarray(part).reshape(len(part), -1) for part in parts]
    return np.concatenate(flat, axis=1)
