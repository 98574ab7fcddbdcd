"""Files made to hurt in the other forms: packed text, JSON lines, Arrow, flat HDF5, saved folders, parts."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from hostile_tables import NAMES, Make, Rng, steps, victim

from rhocover.datasets.minari.arrow import _field, _followed


def packed(folder: Path, name: str, head: bytes, fill: bytes, times: int) -> Path:
    """Writes a packed file of a head and many times the same."""
    path = folder / name
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(head)
        for _ in range(times):
            file.write(fill)
    return path


def gz_endless_row(rng: Rng, folder: Path) -> Path:
    return packed(
        folder, "steps.csv.gz", ",".join(NAMES).encode() + b"\n", b"1" * 2**20, 2 ** int(rng.integers(6, 10))
    )


def gz_many_rows(rng: Rng, folder: Path) -> Path:
    row = b",".join([b"0"] * len(NAMES)) + b"\n"
    return packed(
        folder, "steps.csv.gz", ",".join(NAMES).encode() + b"\n", row * 2**12, 2 ** int(rng.integers(4, 8))
    )


def gz_endless_line(rng: Rng, folder: Path) -> Path:
    return packed(folder, "steps.jsonl.gz", b'{"s": "', b"x" * 2**20, 2 ** int(rng.integers(6, 10)))


def line(rng: Rng) -> dict[str, Any]:
    return {name: int(values[0]) for name, values in steps(rng, 1).items()}


def lines_wide(rng: Rng, folder: Path) -> Path:
    """Writes rows of long lists, of which few are read at a time."""
    path = folder / "steps.jsonl"
    row = json.dumps(line(rng) | {victim(rng): [0] * 10**5}) + "\n"
    path.write_text(row * int(rng.integers(50, 200)))
    return path


def lines_of_lists(rng: Rng, folder: Path) -> Path:
    path = folder / "steps.json"
    fill = ("[]", "{}", '""', "[[]]", "0")[int(rng.integers(5))]
    columns = {name: [0] for name in NAMES} | {"type": "SampleBatch"}
    text = json.dumps(columns | {victim(rng): 7}).replace(
        ": 7", ": [" + ",".join([fill] * (2**24 // 8)) + "]"
    )
    path.write_text(text + "\n")
    return path


def lines_deep(rng: Rng, folder: Path) -> Path:
    path = folder / "steps.ndjson"
    depth = 10 ** int(rng.integers(3, 7))
    path.write_text(
        json.dumps(line(rng) | {victim(rng): 7}).replace(": 7", ": " + "[" * depth + "]" * depth) + "\n"
    )
    return path


# --- Arrow


def arrow_of(folder: Path, columns: dict[str, Any], name: str = "steps.arrow", **settings: Any) -> Path:
    import pyarrow as pa
    from pyarrow import ipc

    table = pa.table(columns)
    with (
        pa.OSFile(str(folder / name), "wb") as file,
        ipc.new_file(file, table.schema, options=ipc.IpcWriteOptions(**settings)) as writer,
    ):
        writer.write_table(table)
    return folder / name


def arrow_bomb(rng: Rng, folder: Path) -> Path:
    number = 2 ** int(rng.integers(22, 26))
    kind = ("zstd", "lz4")[int(rng.integers(2))]
    return arrow_of(folder, {name: np.zeros(number, np.int64) for name in NAMES}, compression=kind)


def arrow_claims(rng: Rng, folder: Path) -> Path:
    """Changes the size to which a packed buffer claims to unpack."""
    path = arrow_of(folder, dict(steps(rng, 200)), compression="zstd")
    payload = bytearray(path.read_bytes())
    places = [k for k in range(0, len(payload) - 8, 8) if struct.unpack_from("<q", payload, k)[0] == 1600]
    for place in places or [0]:
        struct.pack_into("<q", payload, place, 2 ** int(rng.integers(31, 62)))
    path.write_bytes(payload)
    return path


def arrow_views(rng: Rng, folder: Path) -> Path:
    """Writes many views of one long text."""
    import pyarrow as pa

    number, text = 10**5, b"7" * 10**6
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    column = pa.Array.from_buffers(
        pa.string_view(), number, [None, pa.py_buffer(view * number), pa.py_buffer(text)]
    )
    columns = {name: pa.array(np.zeros(number, np.int64)) for name in NAMES} | {victim(rng): column}
    return arrow_of(folder, columns)


def arrow_repeated_blocks(rng: Rng, folder: Path) -> Path:
    """Lists the one batch of a file many times in its footer, by the same bytes."""
    path = arrow_of(folder, dict(steps(rng, 50)))
    payload = path.read_bytes()
    length = struct.unpack("<i", payload[-10:-6])[0]
    footer = payload[-10 - length : -10]
    place = _field(footer, _followed(footer, 0), 3)
    assert place is not None
    listed = _followed(footer, place)
    many, end = (
        int(rng.integers(2, 10**4)),
        -(-length // 8) * 8 + 4,
    )  # structs begin at multiples of eight bytes
    longer = bytearray(
        footer.ljust(end, b"\0") + struct.pack("<I", many) + footer[listed + 4 : listed + 28] * many
    )
    struct.pack_into("<I", longer, place, end - place)
    path.write_bytes(payload[: -10 - length] + longer + struct.pack("<i", len(longer)) + b"ARROW1")
    return path


def arrow_flipped(rng: Rng, folder: Path) -> Path:
    path = arrow_of(folder, dict(steps(rng, 200)), compression=(None, "zstd")[int(rng.integers(2))])
    payload = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 30))):
        payload[int(rng.integers(len(payload)))] = int(rng.integers(256))
    path.write_bytes(payload)
    return path


# --- folders


def saved(rng: Rng, folder: Path) -> Path:
    """Writes a folder as the package `datasets` saves it, with one batch."""
    import pyarrow as pa
    from pyarrow import ipc

    place = folder / "saved"
    place.mkdir()
    table = pa.table(dict(steps(rng, 50)))
    with pa.OSFile(str(place / "data.arrow"), "wb") as file, ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    (place / "dataset_info.json").write_text("{}")
    (place / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    return place


def saved_elsewhere(rng: Rng, folder: Path) -> Path:
    place = saved(rng, folder)
    names = (
        "../saved/data.arrow",
        "/etc/passwd",
        "../secret.arrow",
        "link.arrow",
        "a\0b",
        "x" * 5000,
        "",
        ".",
        "state.json",
    )
    (folder / "secret.arrow").write_bytes((place / "data.arrow").read_bytes())
    (place / "link.arrow").symlink_to(folder / "secret.arrow")
    name = names[int(rng.integers(len(names)))]
    (place / "state.json").write_text(json.dumps({"_data_files": [{"filename": name}]}))
    return place


def saved_splits_elsewhere(rng: Rng, folder: Path) -> Path:
    place = saved(rng, folder)
    (folder / "all").mkdir()
    name = ("../saved", "/etc", "..", ".", "saved", "a\0b")[int(rng.integers(6))]
    (folder / "all" / "dataset_dict.json").write_text(json.dumps({"splits": [name]}))
    assert place.is_dir()
    return folder / "all"


def saved_odd(rng: Rng, folder: Path) -> Path:
    place = saved(rng, folder)
    texts = ("[" * 10**5, "3", "[]", '{"_data_files": 3}', '{"_data_files": [3]}', '{"_data_files": [{}]}', '{"_data_files": []}',
             '{"features": {"a": {"names": [], "_type": "ClassLabel"}}}', '{"features": [3]}', "\xff", "{" * 10**5)  # fmt: skip
    name = ("state.json", "dataset_info.json")[int(rng.integers(2))]
    (place / name).write_text(texts[int(rng.integers(len(texts)))], "latin-1")
    return place


def parts_odd(rng: Rng, folder: Path) -> Path:
    """Writes a folder of parts of which one is no table, has other columns, or is a pipe or a folder."""
    import os

    place = folder / "parts"
    place.mkdir()
    text = ",".join(NAMES) + "\n" + ",".join(["0"] * len(NAMES)) + "\n"
    for k in range(3):
        (place / f"part-{k}.csv").write_text(text)
    odd = place / "part-9.csv"
    kind = int(rng.integers(5))
    if kind == 0:
        odd.write_text("x,y\n1,2\n")
    elif kind == 1:
        odd.write_bytes(rng.bytes(1000))
    elif kind == 2:
        os.mkfifo(odd)
    elif kind == 3:
        odd.mkdir()
    else:
        odd.symlink_to(place)
    return place


def hdf5_flat(rng: Rng, folder: Path) -> Path:
    import hostile

    files = list(hostile.flat_hdf5_files(folder, dict(steps(rng, 50))))
    path = folder / "steps.hdf5"
    path.write_bytes(files[int(rng.integers(len(files)))][1])
    return path


def hdf5_bomb(rng: Rng, folder: Path) -> Path:
    import h5py

    path = folder / "steps.h5"
    number = 2 ** int(rng.integers(24, 28))
    with h5py.File(path, "w") as file:
        for name in NAMES:
            file.create_dataset(
                name, data=np.zeros(2**20, "i1"), maxshape=(None,), chunks=(2**20,), compression="gzip"
            )
            file[name].resize((number,))
    return path


FORMS: dict[str, Make] = {
    make.__name__: make
    for make in (
        gz_endless_row, gz_many_rows, gz_endless_line, lines_wide, lines_of_lists, lines_deep, arrow_bomb, arrow_claims,
        arrow_views, arrow_repeated_blocks, arrow_flipped, saved_elsewhere, saved_splits_elsewhere, saved_odd, parts_odd,
        hdf5_flat, hdf5_bomb,
    )
}  # fmt: skip
