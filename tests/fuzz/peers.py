"""Other readers of the same files, short and slow, to compare answers with where a format has no checksum."""

from __future__ import annotations

import csv
import gzip
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
    return _counted(READERS["".join(path.suffixes)](path))


def _counted(columns: Mapping[str, Iterable[Any]]) -> Counter:
    chosen = {str(name).strip().lower(): list(values) for name, values in columns.items()}
    s, a, ended = (
        [read(value) for value in chosen[name]]
        for read, name in ((_whole, "s"), (_whole, "a"), (_is_true, "terminated"))
    )
    after = (
        [_whole(value) for value in chosen["s_next"]]
        if "s_next" in chosen
        else _following(s, ended, chosen["truncated"])
    )
    rows = zip(s, a, after, ended, strict=True)
    return Counter((s, a, None if end else then) for s, a, then, end in rows if end or then is not None)


def _following(states: list[int], ended: list[bool], truncated: list[Any]) -> list[int | None]:
    """Returns the state after each row where there is no column of next states; None if it is not known."""
    cut = [_is_true(value) for value in truncated]
    return [None if stop else after for stop, after in zip(cut, [*states[1:], None], strict=True)]


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
    return np.asarray(value).item() if isinstance(value, np.ndarray | list) else value


def _csv(path: Path) -> Mapping[str, Iterable[Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
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


def _json(path: Path) -> Mapping[str, Iterable[Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    if all(row.get("type") == "SampleBatch" for row in rows):
        return {name: [_number(value) for row in rows for value in row[name]] for name in _common(rows)}
    return {name: [_number(row[name]) for row in rows] for name in _common(rows)}


def _common(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the columns of steps of the first row, which all others must have."""
    return [name for name in (*NAMES, "truncated") if name in rows[0]]


def _number(value: Any) -> Any:
    assert isinstance(value, int | float | str), value
    return value


def _arrow(path: Path) -> Mapping[str, Iterable[Any]]:
    from pyarrow import ipc, memory_map

    with memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        table = (ipc.open_file(file) if is_file else ipc.open_stream(file)).read_all()
        table.validate(full=True)
        return table.to_pydict()


def _hdf5(path: Path) -> Mapping[str, Iterable[Any]]:
    import h5py

    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in (*NAMES, "truncated") if name in file}


def counted_set(folder: Path) -> Counter:
    """Returns the same of a folder that `datasets` saved."""
    state = json.loads((folder / "state.json").read_text())
    parts = [_arrow(folder / entry["filename"]) for entry in state["_data_files"]]
    return _counted({name: [value for part in parts for value in part[name]] for name in parts[0]})


READERS = {
    ".csv": _csv, ".tsv": _csv, ".csv.gz": _csv, ".npz": _npz, ".parquet": _parquet, ".jsonl": _json,
    ".jsonl.gz": _json, ".json": _json, ".arrow": _arrow, ".feather": _arrow, ".hdf5": _hdf5,
}  # fmt: skip


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
