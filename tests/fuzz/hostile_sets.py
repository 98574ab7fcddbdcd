"""Minari data sets made to hurt: metadata, HDF5 and Arrow files, each a function (rng, folder) -> path."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from hostile_tables import Make, Rng

from rhocover.datasets.minari.files import MinariWriter

SPACES = {"observation_space": gym.spaces.Discrete(16), "action_space": gym.spaces.Discrete(4)}
PICTURES = {
    "observation_space": gym.spaces.Box(0, 255, (32, 40, 3), np.uint8),
    "action_space": gym.spaces.Discrete(4),
}
COLUMNS = {"observations": "i8", "actions": "i8", "rewards": "f8", "terminations": "?", "truncations": "?"}
DEEP = 100_000


def whole_set(rng: Rng, folder: Path, spaces: dict[str, Any] = SPACES) -> Path:
    """Writes a data set of three episodes."""
    lengths = rng.integers(1, 20, size=3)
    total, ends = int(lengths.sum()), np.zeros(int(lengths.sum()), bool)
    ends[np.cumsum(lengths) - 1] = True
    seen = rng.integers(16, size=(total + 3, *spaces["observation_space"].shape)).astype(
        spaces["observation_space"].dtype
    )
    with MinariWriter(folder / "set", "hostile/set-v0", **spaces) as writer:
        writer.add_many(
            seen, rng.integers(4, size=total), rng.random(total), ends, np.zeros(total, bool), lengths
        )
        writer.finish({"description": "random steps"})
    return folder / "set"


def hdf5(change: Callable[[Rng, Any, Path], Any], spaces: dict[str, Any] = SPACES) -> Make:
    """Returns the function that writes a whole set and changes its file."""

    def make(rng: Rng, folder: Path) -> Path:
        import h5py

        path = whole_set(rng, folder, spaces)
        with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
            change(rng, file, folder)
        return path

    return make


def column(rng: Rng, file: Any) -> tuple[Any, str, int]:
    """Removes a column of an episode; returns its group, its name and its number of rows."""
    group = file[f"episode_{int(rng.integers(3))}"]
    name = list(COLUMNS)[int(rng.integers(len(COLUMNS)))]
    length = len(group[name])
    del group[name]
    return group, name, length


# --- links and bytes elsewhere --------------------------------------------------------------------------


def secret(folder: Path) -> str:
    """Returns a pipe that nobody writes to: whatever opens it waits for ever."""
    place = folder / "pipe"
    if not place.exists():
        os.mkfifo(place)
    return str(place)


def link_outside(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, _ = column(rng, file)
    group[name] = h5py.ExternalLink(secret(folder), "/x")


def episode_outside(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    name = f"episode_{int(rng.integers(3))}"
    del file[name]
    file[name] = h5py.ExternalLink(secret(folder), "/x")


def bytes_outside(rng: Rng, file: Any, folder: Path) -> None:
    group, name, length = column(rng, file)
    place = ("/etc/hostname", secret(folder), "../../../../../etc/hostname")[int(rng.integers(3))]
    group.create_dataset(name, (length,), COLUMNS[name].replace("?", "i1"), external=[(place, 0, 8 * length)])


def put_together(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, length = column(rng, file)
    room = {} if rng.random() < 0.5 else {"maxshape": (None,)}
    layout = h5py.VirtualLayout((length,), "i8", **room)
    part = slice(0, h5py.h5s.UNLIMITED if room else length)
    layout[part] = h5py.VirtualSource(secret(folder), "x", (length,), **room)[part]
    group.create_virtual_dataset(name, layout)


def soft_link(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, _ = column(rng, file)
    group[name] = h5py.SoftLink((name, "/", "/episode_0", ".", "nowhere")[int(rng.integers(5))])


def circle(rng: Rng, file: Any, folder: Path) -> None:
    group, name, _ = column(rng, file)
    group[name] = (group, file)[int(rng.integers(2))]


def program_as_filter(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, length = column(rng, file)
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((length,))
    made.set_filter(int(rng.choice([5, 6, 307, 32001, 32004, 32015, 40000])), h5py.h5z.FLAG_OPTIONAL, (3,))
    h5py.h5d.create(group.id, name.encode(), h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((length,)), made)


# --- claims ---------------------------------------------------------------------------------------------


def claims(rng: Rng, file: Any, folder: Path) -> None:
    group, name, _ = column(rng, file)
    rows = 10 ** int(rng.integers(6, 14))
    group.create_dataset(name, (rows,), COLUMNS[name], chunks=(1024,), compression="gzip")


def claims_wide_rows(rng: Rng, file: Any, folder: Path) -> None:
    group, name, length = column(rng, file)
    group.create_dataset(name, (length, 10 ** int(rng.integers(6, 12))), COLUMNS[name], chunks=(1, 1024))


def large_chunks(rng: Rng, file: Any, folder: Path) -> None:
    group, name, length = column(rng, file)
    group.create_dataset(
        name, (length,), COLUMNS[name], chunks=(2**28,), maxshape=(None,), compression="gzip"
    )


def claiming_set(rng: Rng, folder: Path, fill: bool) -> Path:
    """Writes a set of one episode whose metadata, too, say that it is long; `fill` packs zeros twice."""
    import h5py

    path, rows = whole_set(rng, folder), 10 ** int(rng.integers(5, 7 if fill else 13))
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for name, form in COLUMNS.items():
            made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            made.set_chunk((min(rows, 2**20),))
            for _ in range(2):
                made.set_filter(h5py.h5z.FILTER_DEFLATE, 0, (1,))
            length = rows + (name == "observations")
            data = h5py.h5d.create(
                group.id,
                name.encode(),
                h5py.h5t.py_create(np.dtype(form)),
                h5py.h5s.create_simple((length,)),
                made,
            )
            for begin in range(0, length if fill else 0, 2**20):
                h5py.Dataset(data)[begin : begin + 2**20] = np.zeros(min(2**20, length - begin), form)
    return edited(path, total_episodes=1, total_steps=rows)


def never_written(rng: Rng, folder: Path) -> Path:
    return claiming_set(rng, folder, fill=False)


def packed_twice(rng: Rng, folder: Path) -> Path:
    return claiming_set(rng, folder, fill=True)


def one_episode_many_times(rng: Rng, folder: Path) -> Path:
    """Writes a file whose episodes are all the same bytes, packed."""
    import h5py

    path, rows, times = whole_set(rng, folder), 2**16, int(rng.integers(5, 50))
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        for name, form in COLUMNS.items():
            group.create_dataset(
                name, data=np.zeros(rows + (name == "observations"), form), compression="gzip"
            )
        for number in range(1, times):
            file[f"episode_{number}"] = group
    return edited(path, total_episodes=times, total_steps=times * rows)


def hollow(rng: Rng, folder: Path) -> Path:
    path = whole_set(rng, folder)
    with (path / "data" / "main_data.hdf5").open("r+b") as file:
        file.truncate(2 ** int(rng.integers(31, 41)))
    return path


# --- other values ---------------------------------------------------------------------------------------


def odd_type(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, length = column(rng, file)
    forms = (
        np.zeros(length, complex), np.zeros(length, [("a", "i8"), ("b", "f8")]), np.zeros(length, "S5"), np.zeros(length, "V7"),
        np.array([file.ref] * length, h5py.ref_dtype), np.zeros(length, np.float16), np.zeros(length, ">i8"),
        np.zeros(length, np.longdouble), np.full(length, np.nan), np.full(length, 2**64 - 1, np.uint64), np.full(length, -1),
    )  # fmt: skip
    chosen = forms[int(rng.integers(len(forms)))]
    group.create_dataset(name, data=chosen, dtype=h5py.ref_dtype if chosen.dtype == object else None)


def odd_shape(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, length = column(rng, file)
    shapes: tuple[Any, ...] = (
        np.zeros(0), np.zeros(length + 1), np.zeros((length, 1)), np.zeros((length, 0)), 3, h5py.Empty("i8"),
        np.zeros((1,) * 32),
    )  # fmt: skip
    group[name] = shapes[int(rng.integers(len(shapes)))]


def other_lengths_of_text(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    group, name, length = column(rng, file)
    rows = group.create_dataset(name, (length,), h5py.vlen_dtype(np.uint8))
    rows[0] = rng.integers(256, size=10**5).astype(np.uint8)


def odd_seed(rng: Rng, file: Any, folder: Path) -> None:
    import h5py

    seeds: tuple[Any, ...] = (
        "\ud7ff",
        2.5,
        np.uint64(2**64 - 1),
        -5,
        np.zeros(3),
        h5py.Empty("i8"),
        file.ref,
    )
    file["episode_0"].attrs["seed"] = seeds[int(rng.integers(len(seeds)))]


def committed_type(rng: Rng, file: Any, folder: Path) -> None:
    group, name, length = column(rng, file)
    file["kept"] = np.dtype("i8")
    group.create_dataset(name, (length,), file["kept"])


def jpeg(rng: Rng, file: Any, folder: Path) -> None:
    """Puts pictures into an episode: too large ones, cut ones, other kinds of files."""
    import h5py
    from PIL import Image

    group, buffer = file["episode_0"], io.BytesIO()
    number = len(group["observations"])
    form = str(rng.choice(["JPEG", "JPEG", "JPEG", "PNG", "TIFF"]))
    mode = str(rng.choice(["RGB", "L", "CMYK"])) if form == "JPEG" else "RGB"
    Image.new(mode, (40, 32)).save(buffer, form)
    payload = bytearray(buffer.getvalue())
    way = int(rng.integers(4))
    if way < 2 and b"\xff\xc0" in payload:
        at = payload.index(b"\xff\xc0") + 5
        payload[at : at + 4] = int(rng.integers(1, 2**16)).to_bytes(2, "big") * 2
    elif way == 2:
        payload = payload[: int(rng.integers(len(payload)))]
    del group["observations"]
    rows = group.create_dataset("observations", (number,), h5py.vlen_dtype(np.uint8))
    for row in range(number):
        rows[row] = np.frombuffer(bytes(payload), np.uint8)


# --- metadata -------------------------------------------------------------------------------------------


def edited(path: Path, **changes: Any) -> Path:
    place = path / "data" / "metadata.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | changes))
    return path


def metadata(*choices: Any) -> Make:
    """Returns the function that changes metadata.json: a choice is new entries, or the whole text."""

    def make(rng: Rng, folder: Path) -> Path:
        path, chosen = whole_set(rng, folder), choices[int(rng.integers(len(choices)))]
        if isinstance(chosen, dict):
            return edited(path, **chosen)
        (path / "data" / "metadata.json").write_bytes(chosen)
        return path

    return make


def space(**words: Any) -> dict[str, Any]:
    return {"observation_space": json.dumps(words)}


def deep_space(rng: Rng, folder: Path) -> Path:
    depth = int(rng.integers(10, 3000))
    text = '{"type": "Tuple", "subspaces": [' * depth + '{"type": "MultiBinary", "n": 2}' + "]}" * depth
    return edited(whole_set(rng, folder), observation_space=text)


def long_document(rng: Rng, folder: Path) -> Path:
    path = whole_set(rng, folder)
    place = path / "data" / "metadata.json"
    number = 2 ** int(rng.integers(18, 23))
    place.write_bytes(b'{"x": [' + b"[]," * (number // 3) + b"[]], " + place.read_bytes()[1:])
    return path


def hollow_document(rng: Rng, folder: Path) -> Path:
    path = whole_set(rng, folder)
    os.truncate(path / "data" / "metadata.json", 2 ** int(rng.integers(27, 41)))
    return path


HUGE = 10**400
BOX = {"type": "Box", "dtype": "float32", "low": [0.0], "high": [1.0]}
METADATA: dict[str, Make] = {
    "metadata_deep": metadata(b"[" * DEEP, b'{"a":' * DEEP, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"),
    "metadata_numbers": metadata(
        {"total_steps": HUGE}, {"total_episodes": HUGE, "total_steps": HUGE}, {"total_steps": float("nan")},
        {"total_episodes": 10**9, "total_steps": 10**9}, {"total_steps": -1}, {"total_steps": True}, b'{"total_steps": ' + b"9" * 10**4 + b"}",
    ),
    "metadata_half_letters": metadata(
        {"dataset_id": "\ud800"}, {"\udfff": 1}, {"data_format": "\ud800"}, {"description": "\ud800"}, b'{"dataset_id": "\xed\xa0\x80"}',
    ),
    "metadata_elsewhere": metadata(
        {"dataset_id": "../../x-v0"}, {"dataset_id": "/etc/x-v0"}, {"data_format": "../arrow"}, {"data_format": "arrow"},
        {"data_format": "parquet"}, {"dataset_id": "a\0b"}, {"env_spec": '{"id": "os:system"}', "observation_space": None},
    ),
    "metadata_spaces": metadata(
        space(type="Discrete", n=HUGE, start=0), space(type="Discrete", n=5, start=-HUGE), space(type="MultiBinary", n=10**10),
        space(type="MultiBinary", n=[10**5, 10**5]), space(**BOX, shape=[10**9]), space(**BOX, shape=[HUGE]), space(**BOX | {"low": [HUGE]}, shape=[1]),
        space(**BOX | {"dtype": "O"}, shape=[1]), space(**BOX | {"high": [float("nan")]}, shape=[1]), space(type="os.system"),
        space(type="Text", max_length=HUGE, min_length=1, charset="a"), space(type="MultiDiscrete", nvec=[2] * 10**5, start=[0] * 10**5, dtype="int64"),
        space(type="Dict", subspaces={"\ud800": {"type": "MultiBinary", "n": 1}}), space(type="Dict", subspaces={"..": {"type": "MultiBinary", "n": 1}}),
        space(type="Dict", subspaces={}), space(type="Tuple", subspaces=[]), space(type="Discrete", n=-5, start=0),
    ),
    "metadata_sheet": metadata(
        {"rhocover": {"settings": {"actions": {"kind": "levels", "levels": [[HUGE]]}}}}, {"rhocover": {"settings": {"actions": {"kind": "listed", "actions": [HUGE]}}}},
        {"rhocover": {"settings": {"states": {"kind": "discrete", "count": HUGE, "start": 0}}}}, {"rhocover": {"format": HUGE, "settings": {}}},
        {"rhocover": {"settings": {"states": {"kind": "bins", "of": None, "edges": [[HUGE]], "ends": [[0, 1]], "names": ["x"]}}}},
        {"rhocover": {"settings": {"states": {"kind": "\ud800"}}}}, {"rhocover": {"settings": {"states": {"kind": "function", "name": "os.system"}}}},
    ),
    "metadata_deep_space": deep_space,
    "metadata_long": long_document,
    "metadata_hollow": hollow_document,
}  # fmt: skip

# --- what stands in a file's place, and Arrow -----------------------------------------------------------


def in_its_place(rng: Rng, place: Path, folder: Path) -> None:
    """Puts something else where a file was."""
    way = int(rng.integers(7))
    kept = place.read_bytes()
    place.unlink()
    if way == 0:
        os.mkfifo(place)
    elif way == 1:
        place.mkdir()
    elif way == 2:
        place.symlink_to(("/dev/zero", "/dev/tty", "/dev/stdin", "/etc/passwd")[int(rng.integers(4))])
    elif way == 3:
        place.symlink_to(place.name)
    elif way == 4:
        (folder / "kept").write_bytes(kept)
        place.symlink_to(folder / "kept")
    elif way == 5:
        with socket.socket(socket.AF_UNIX) as made, contextlib_chdir(place.parent):
            made.bind(place.name)
    else:
        place.symlink_to("../" * 30 + "etc/hostname")


def contextlib_chdir(path: Path) -> Any:
    """Returns a context in which the working folder is another: names of sockets end at 108 bytes."""
    import contextlib

    return contextlib.chdir(path)


def set_without_a_file(rng: Rng, folder: Path) -> Path:
    path = whole_set(rng, folder)
    in_its_place(rng, path / "data" / ("main_data.hdf5", "metadata.json")[int(rng.integers(2))], folder)
    return path


def arrow_set(rng: Rng, folder: Path, form: str | None = None) -> Path:
    """Writes three episodes as Minari does in its other formats."""
    import pyarrow as pa
    import pyarrow.dataset as dataset

    path, form = whole_set(rng, folder), form or ("arrow", "parquet")[int(rng.integers(2))]
    (path / "data" / "main_data.hdf5").unlink()
    lengths = rng.integers(2, 20, size=3).tolist()
    for number, length in enumerate(lengths):
        columns = {name: np.zeros(length + 1, kind) for name, kind in COLUMNS.items()}
        place = path / "data" / str(number)
        dataset.write_dataset(pa.table(columns), place, format=form)
        (place / "metadata.json").write_text(json.dumps({"id": number, "total_steps": length}))
    return edited(path, data_format=form, total_steps=sum(lengths))


def arrow_file(rng: Rng, path: Path) -> Path:
    files = sorted((path / "data" / str(int(rng.integers(3)))).iterdir())
    return files[int(rng.integers(len(files)))]


def arrow_without_a_file(rng: Rng, folder: Path) -> Path:
    path = arrow_set(rng, folder)
    in_its_place(rng, arrow_file(rng, path), folder)
    return path


def arrow_folder_elsewhere(rng: Rng, folder: Path) -> Path:
    path = arrow_set(rng, folder)
    shutil.move(path / "data" / "1", folder / "away")
    (path / "data" / "1").symlink_to(folder / "away")
    return path


def arrow_flipped(rng: Rng, folder: Path) -> Path:
    path = arrow_set(rng, folder)
    place = arrow_file(rng, path)
    payload = bytearray(place.read_bytes())
    for _ in range(int(rng.integers(1, 9))):
        payload[int(rng.integers(len(payload)))] ^= 1 << int(rng.integers(8))
    place.write_bytes(payload)
    return path


def arrow_column(rng: Rng, folder: Path) -> Path:
    """Writes a column of another kind into one episode, packed: zeros without end, texts, lists."""
    import pyarrow as pa
    import pyarrow.dataset as dataset

    path = arrow_set(rng, folder, "arrow")
    length = json.loads((path / "data" / "1" / "metadata.json").read_text())["total_steps"] + 1
    columns: dict[str, Any] = {name: pa.array(np.zeros(length, kind)) for name, kind in COLUMNS.items()}
    many = 2 ** int(rng.integers(20, 24))
    others = (
        pa.array([np.zeros(many, np.int64)] + [[0]] * (length - 1)), pa.array(["x" * many] * length), pa.nulls(length),
        pa.array([None] * length, pa.int64()), pa.array([b"\xff"] * length), pa.array(["a"] * length).dictionary_encode(),
    )  # fmt: skip
    columns[(*COLUMNS, "infos")[int(rng.integers(6))]] = others[int(rng.integers(len(others)))]
    options = dataset.IpcFileFormat().make_write_options(compression="zstd")
    shutil.rmtree(path / "data" / "1")
    dataset.write_dataset(pa.table(columns), path / "data" / "1", format="arrow", file_options=options)
    (path / "data" / "1" / "metadata.json").write_text(json.dumps({"id": 1, "total_steps": length - 1}))
    return path


def arrow_many_rows(rng: Rng, folder: Path) -> Path:
    """Writes far more rows into an episode than its metadata says, packed."""
    import pyarrow as pa
    import pyarrow.dataset as dataset

    path, number = arrow_set(rng, folder, "arrow"), 2 ** int(rng.integers(20, 25))
    options = dataset.IpcFileFormat().make_write_options(compression="zstd")
    place = next(file for file in (path / "data" / "1").iterdir() if file.suffix != ".json")
    place.unlink()
    columns = {name: np.zeros(number, kind) for name, kind in COLUMNS.items()}
    about = (path / "data" / "1" / "metadata.json").read_text()
    dataset.write_dataset(
        pa.table(columns), path / "data" / "1", format="arrow", file_options=options,
        max_rows_per_file=number, max_rows_per_group=number, existing_data_behavior="overwrite_or_ignore",
    )  # fmt: skip
    (path / "data" / "1" / "metadata.json").write_text(about)
    return path


def arrow_metadata(rng: Rng, folder: Path) -> Path:
    path = arrow_set(rng, folder)
    texts = (
        b"[" * DEEP, b'{"id": 1, "total_steps": ' + b"9" * 300 + b"}", b"null", b'{"total_steps": -1}', b'{"total_steps": 1e400}',
        b'{"total_steps": 5, "seed": ' + b"9" * 300 + b"}", b"\xff", b"",
    )  # fmt: skip
    (path / "data" / "1" / "metadata.json").write_bytes(texts[int(rng.integers(len(texts)))])
    return path


def arrow_many_episodes(rng: Rng, folder: Path) -> Path:
    number = 10 ** int(rng.integers(7, 400))
    return edited(arrow_set(rng, folder), total_episodes=number, total_steps=number)


HDF5: dict[str, Make] = {
    f"hdf5_{change.__name__}": hdf5(change)
    for change in (
        link_outside, episode_outside, bytes_outside, put_together, soft_link, circle, program_as_filter, claims,
        claims_wide_rows, large_chunks, odd_type, odd_shape, other_lengths_of_text, odd_seed, committed_type,
    )
} | {"hdf5_jpeg": hdf5(jpeg, PICTURES)}  # fmt: skip
SETS: dict[str, Make] = {
    **HDF5,
    **METADATA,
    **{
        make.__name__: make
        for make in (
            never_written, packed_twice, one_episode_many_times, hollow, set_without_a_file, arrow_set, arrow_without_a_file,
            arrow_folder_elsewhere, arrow_flipped, arrow_column, arrow_many_rows, arrow_metadata, arrow_many_episodes,
        )
    },
}  # fmt: skip
