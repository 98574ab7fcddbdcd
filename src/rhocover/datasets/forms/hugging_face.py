"""Data sets of Hugging Face: `Dataset` and `DatasetDict` objects, and the folders that `save_to_disk` wrote.

A folder is read with pyarrow alone: `state.json` lists the Arrow files, `dataset_info.json` says which
columns are labels with names. The splits of a `DatasetDict` are read one after another, as one data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.datasets.columns import whole_numbers
from rhocover.datasets.forms.arrow import arrow_table, need_pyarrow, pieces_of_batches
from rhocover.datasets.tables import DataTable, Piece, joined_tables, text_array
from rhocover.errors import InvalidDataError, shortened
from rhocover.files import check_within, parse_json, read_text

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"
ROWS = 2**13  # at a time; a data set that was shuffled or filtered copies them

# Objects.


def is_hugging_face(data: Any) -> bool:
    """Returns whether the data are a `Dataset`, an `IterableDataset`, or a dictionary of them."""
    if isinstance(data, Mapping):
        return len(data) > 0 and all(is_hugging_face(part) for part in data.values())
    return all(hasattr(data, name) for name in ("column_names", "features", "with_format"))


def table_of_hugging_face(data: Any) -> DataTable:
    """Returns a data set of the package `datasets` as a table."""
    need_pyarrow()
    if isinstance(data, Mapping):
        return _of_splits({str(name): partial(_table, part) for name, part in data.items()}, "the data")
    return _table(data)


def _table(data: Any) -> DataTable:
    names = data.column_names
    if names is None:  # of an iterable one whose columns are not declared
        raise InvalidDataError(
            "the Hugging Face data set does not say which columns it has.",
            remedy="Pass data.take(n) as a list of columns, or a Dataset instead of an IterableDataset.",
        )
    labels = {name: kind.names for name, kind in (data.features or {}).items() if hasattr(kind, "int2str")}

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        for part in data.select_columns(list(wanted)).with_format("arrow").iter(batch_size=ROWS):
            yield from part.to_batches()

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return _with_labels(pieces_of_batches(batches(wanted), wanted), labels)

    return DataTable(tuple(names), pieces, "the data")


def _of_splits(parts: Mapping[str, Any], name: str) -> DataTable:
    table = joined_tables(list(parts.values()), name)
    if len(parts) > 1:
        table.remarks.append(f"The splits {', '.join(parts)} are read one after another.")
    return table


def _with_labels(pieces: Iterator[Piece], labels: Mapping[str, Sequence[str]]) -> Iterator[Piece]:
    """Yields the pieces with the names of labels instead of their numbers."""
    row = 0
    for piece in pieces:
        chosen = [name for name in piece if name in labels]
        yield {**piece, **{name: _named(piece[name], labels[name], name, row) for name in chosen}}
        row += len(next(iter(piece.values()), ()))


def _named(values: Any, names: Sequence[str], name: str, first_row: int) -> Any:
    numbers = whole_numbers(values, name, first_row)
    bad = (numbers < 0) | (numbers >= len(names))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidDataError.of(
            name, f"must be one of {len(names)} labels", f"{numbers[row]} in row {first_row + row}"
        )
    return text_array(names, name)[numbers]


# Folders.


def is_hugging_face_folder(folder: Path) -> bool:
    """Returns whether `save_to_disk` wrote the folder."""
    return (folder / SPLITS).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def table_of_folder(folder: Path) -> DataTable:
    """Returns the data set or the splits in a folder as a table."""
    if not (folder / SPLITS).is_file():
        return _split(folder)
    splits = _document(folder / SPLITS, folder).get("splits")
    if not isinstance(splits, list) or not splits or not all(isinstance(name, str) for name in splits):
        raise InvalidDataError(f"{folder / SPLITS} must list the splits, got {shortened(repr(splits))}.")
    return _of_splits({name: partial(_split, _inside(folder, name)) for name in splits}, str(folder))


def _split(folder: Path) -> DataTable:
    state, info = _document(folder / STATE, folder), _document(folder / INFO, folder)
    listed = state.get("_data_files")
    entries = listed if isinstance(listed, list) else []
    files: list[Any] = [entry.get("filename") for entry in entries if isinstance(entry, dict)]
    if not files or not all(isinstance(name, str) for name in files):
        raise InvalidDataError(f"{folder / STATE} must list the Arrow files, got {shortened(repr(listed))}.")
    if state.get("_indices_files"):
        raise InvalidDataError(
            f"{folder} has a separate order of its rows.",
            remedy="Write it again: data.flatten_indices().save_to_disk(...).",
        )
    table = joined_tables([partial(arrow_table, _inside(folder, name)) for name in files], str(folder))
    labels = _labels(info)

    def pieces(wanted: Sequence[str]) -> Iterator[Piece]:
        return _with_labels(iter(table.pieces(wanted)), labels)

    return DataTable(table.names, pieces, str(folder))


def _labels(info: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the names of the columns that are labels."""
    features = info.get("features")
    found = {}
    for name, kind in features.items() if isinstance(features, dict) else ():
        names = kind.get("names") if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" else None
        if isinstance(names, list) and all(isinstance(text, str) for text in names):
            found[name] = names
    return found


def _document(path: Path, folder: Path) -> dict[str, Any]:
    try:
        check_within(path, folder)
        document = parse_json(read_text(path))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: nested too deeply, loops of links
        raise InvalidDataError(
            f"{path} is missing or damaged: expected JSON ({shortened(error)})."
        ) from error
    if not isinstance(document, dict):
        raise InvalidDataError(f"{path} must hold an object in JSON, got {type(document).__name__}.")
    return document


def _inside(folder: Path, name: str) -> Path:
    """Returns a file or folder of the data set; raises if it leads out of it."""
    try:
        if "\0" in name:
            raise ValueError(f"{name!r} is no name")
        check_within(folder / name, folder)
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidDataError(f"{folder} cannot be read: {shortened(error)}.") from error
    return folder / name
