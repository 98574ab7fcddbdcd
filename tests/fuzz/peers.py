"""Other readers of the same files, short and slow, to compare answers with where a format has no checksum."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ("s", "a", "s_next", "terminated")


def counted(tally: Any) -> Counter:
    """Returns how often each (state, action, next state or None) is in a tally of the library's."""
    result: Counter = Counter()
    moves = tally.moves.tocoo()
    for pair, after, count in zip(moves.row.tolist(), moves.col.tolist(), moves.data.tolist(), strict=True):
        state, action = divmod(pair, tally.num_actions)
        result[tally.keys[state], action, tally.keys[after]] += count
    for pair in np.flatnonzero(tally.ends).tolist():
        state, action = divmod(pair, tally.num_actions)
        result[tally.keys[state], action, None] += int(tally.ends[pair])
    return Counter({key: count for key, count in result.items() if count})


def counted_table(path: Path) -> Counter:
    """Returns the same of a file of steps."""
    columns = READERS[path.suffix](path)
    chosen = {str(name).strip().lower(): values for name, values in columns.items()}
    rows = zip(*(chosen[name] for name in NAMES), strict=True)
    return Counter(
        (_whole(s), _whole(a), None if _is_true(end) else _whole(after)) for s, a, after, end in rows
    )


def _whole(value: Any) -> int:
    word = str(_item(value)).strip().rstrip("\0")  # NumPy's texts end before trailing zeros
    try:
        return int(word)
    except ValueError:
        number = float(word)
    assert number == int(number)
    return int(number)


def _is_true(value: Any) -> bool:
    word = str(_item(value)).strip().lower()
    assert word in ("true", "false", "0", "1", "0.0", "1.0"), word
    return word in ("true", "1", "1.0")


def _item(value: Any) -> Any:
    return np.asarray(value).item() if isinstance(value, np.ndarray) else value


def _csv(path: Path) -> Mapping[str, Iterable[Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        delimiter = max(",;\t", key=first.count)
        names = next(csv.reader([first], delimiter=delimiter))
        rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
    assert all(len(row) == len(names) for row in rows)
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def _npz(path: Path) -> Mapping[str, Iterable[Any]]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _parquet(path: Path) -> Mapping[str, Iterable[Any]]:
    import pyarrow.parquet as parquet

    return parquet.read_table(path).to_pydict()


READERS = {".csv": _csv, ".tsv": _csv, ".npz": _npz, ".parquet": _parquet}


def flat_columns(source: Any) -> tuple[Any, ...]:
    """Returns all that the library reads of a Minari data set, in a form that can be compared."""
    parts = list(source.columns())
    names = ("observations", "actions", "rewards", "terminations", "truncations", "lengths")
    arrays = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    seeds = [seed for part in parts for seed in part.seeds]
    return (*(_plain(array) for array in arrays), tuple(seeds))


def _plain(array: np.ndarray) -> tuple[Any, ...]:
    if array.dtype.kind == "f":
        return array.shape, np.asarray(array, np.float64).tobytes()
    return array.shape, np.asarray(array, np.int64).tobytes()


def hdf5_columns(folder: Path) -> tuple[Any, ...]:
    """Returns the same through h5py, an episode after another."""
    import h5py

    number = json.loads((folder / "data" / "metadata.json").read_text())["total_episodes"]
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    columns: dict[str, list[np.ndarray]] = {name: [] for name in names}
    seeds: list[int | None] = []
    with h5py.File(folder / "data" / "main_data.hdf5", "r") as file:
        for index in range(number):
            group = file[f"episode_{index}"]
            for name in names:
                columns[name].append(np.asarray(group[name]))
            seeds.append(_seed(group))
    arrays = [np.concatenate(columns[name]) for name in names]
    arrays[3:] = [array.astype(bool) for array in arrays[3:]]
    lengths = np.array([len(rewards) for rewards in columns["rewards"]])
    return (*(_plain(array) for array in (*arrays, lengths)), tuple(seeds))


def _seed(group: Any) -> int | None:
    value = group.attrs.get("seed")
    is_number = isinstance(value, np.integer | int)
    return int(value) if is_number and value < 2**63 else None
