"""Files made to hurt: headers that claim the world, bombs, depth without end, archives that are not what they say.

All are small on disk. Each comes with the ending that makes a reader open it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

DEEP = 100_000
MANY = 10**12


def safetensors_files() -> Iterator[tuple[str, bytes]]:
    """Yields hostile safetensors files."""
    for claim in (2**60, 2**63, 2**64 - 1, 10**8, 8, 0):
        yield f"a header of {claim} bytes", struct.pack("<Q", claim) + b"{}" * 50
    huge = {"x": {"dtype": "F64", "shape": [MANY], "data_offsets": [0, 8 * MANY]}}
    overflow = {"x": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 0]}}
    backward = {"x": {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]}}
    overlap = {name: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for name in "xy"}
    nothing = {"x": {"dtype": "F64", "shape": [0, MANY], "data_offsets": [0, 0]}}
    for name, head in (("huge", huge), ("overflow", overflow), ("backward", backward), ("overlap", overlap),
                       ("nothing of much", nothing)):  # fmt: skip
        yield name, _with_head(json.dumps(head).encode(), bytes(8))
    yield "depth", _with_head(b'{"__metadata__": {"rhocover": ' + b"[" * DEEP + b"}}", b"")
    for words in (
        "[" * DEEP,
        '{"a":' * DEEP,
        "1" * 5000,
        '"' + "x" * 10**6,
        "{" + '"a": 1,' * 1000 + '"a": 2}',
    ):
        metadata = json.dumps({"__metadata__": {"rhocover": words}}).encode()
        yield f"metadata {words[:5]}", _with_head(metadata, b"")
    yield "names", _with_head(json.dumps({"x" * 10**6: huge["x"]}).encode(), b"")


def _with_head(head: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(head)) + head + data


def npy(shape: tuple[int, ...], dtype: str = "<f8", data: bytes = b"") -> bytes:
    """Returns an array file whose header says what it likes."""
    head = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    return _npy_head(head) + data


def _npy_head(head: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head + b"\n"


def npy_files() -> Iterator[tuple[str, bytes]]:
    """Yields hostile array files."""
    for shape in (
        (MANY,),
        (10**10,),
        (2**31, 2**31),
        (2**62, 4),
        (-1,),
        (-(10**12), -1),
        (0, MANY),
        (1.5,),
        ("a",),
        (10**30,),
    ):
        yield f"shape {shape}", npy(shape)  # type: ignore[arg-type]
    for dtype in (
        "|O",
        "<U1000000000",
        "<V8",
        "<M8[ns]",
        "<c16",
        "S4",
        "[('a', '<f8')]",
        "x",
        "<f9",
        ">f8",
        "|b1",
    ):
        yield f"dtype {dtype}", npy((3,), dtype, bytes(64))
    for head in (b"[" * 9000, b"{'descr': '<f8'", b"__import__('os').system('true')", b"{}", b"(" * 9000 + b")" * 9000,
                 b"{'descr': '<f8', 'fortran_order': 3, 'shape': 3}", b"\xff" * 50, b"'" * 7, b"1+" * 4000 + b"1"):  # fmt: skip
        yield f"head {head[:12]!r}", _npy_head(head)
    yield "version 9", b"\x93NUMPY\x09\x00" + bytes(100)
    yield "version 2, huge", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31 - 1) + b"{}"


def npz_files(whole: dict[str, np.ndarray]) -> Iterator[tuple[str, bytes]]:
    """Yields hostile archives of arrays; `whole` are columns that belong there."""
    for name, payload in npy_files():
        yield (
            f"one column: {name}",
            _zip({key: _npy_of(array) for key, array in whole.items()} | {"s": payload}),
        )
    yield (
        "a bomb",
        _zip({key: npy((2 * 10**7,), "|i1", bytes(2 * 10**7)) for key in ("s", "a")}, zipfile.ZIP_DEFLATED),
    )
    yield (
        "a bomb beside",
        _zip(
            {key: _npy_of(array) for key, array in whole.items()}
            | {"extra": npy((10**10,), "<f8", bytes(2 * 10**7))},
            zipfile.ZIP_DEFLATED,
        ),
    )
    yield "a pickle", _zip({key: _npy_of(np.array([print], object)) for key in whole})
    yield "no arrays", _zip(dict.fromkeys(whole, b"hello"))
    yield "empty archive", _zip({})
    yield "10,000 members", _zip({f"m{k}": b"" for k in range(10_000)})
    yield "one array alone", _npy_of(np.arange(9))
    yield "names that climb", _zip({f"../{key}": _npy_of(array) for key, array in whole.items()})
    yield (
        "columns of other lengths",
        _zip({key: _npy_of(a[: len(a) - k]) for k, (key, a) in enumerate(whole.items())}),
    )
    yield "no dimension", _zip({key: _npy_of(np.array(3)) for key in whole})


def _npy_of(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _zip(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, payload in members.items():
            file.writestr(f"{name}.npy", payload)
    return buffer.getvalue()


def csv_files(header: str) -> Iterator[tuple[str, bytes]]:
    """Yields hostile tables; `header` is the first line of a whole one."""
    row = b"0,1,2,0,0\n"
    head = header.encode() + b"\n"
    yield "a field of 10^7 letters", head + b"x" * 10**7 + b",1,2,0,0\n" + row
    yield "a name of 10^7 letters", b"y" * 10**7 + b"," + head + row
    yield "a quote that never ends", head + b'"0,1,2,0,0\n' + row * 1000
    yield "a long quote that never ends", head + b'"' + row * 30_000
    yield "nothing but commas", head + b"," * 10**6
    yield "10^5 columns", b",".join(b"c%d" % k for k in range(10**5)) + b"\n" + row
    yield "NUL in a field", head + b"0,1\0,2,0,0\n" + row
    yield "NUL in the header", head.replace(b"s", b"s\0", 1) + row
    yield "only NULs", bytes(10_000)
    yield "a header alone", head
    yield "no end of line", head + b"0,1,2,0"
    yield "latin-1", head + b"\xe4,1,2,0,0\n"
    yield "UTF-16", (header + "\n0,1,2,0,0\n").encode("utf-16")
    yield "a state too far", head + b"0,1,9007199254740993,0,0\n"
    yield "a state far off", head + b"4503599627370496,0,0,0,0\n" + row
    yield "an action far off", head + b"0,4503599627370496,2,0,0\n" + row
    yield "an action of 10^9", head + b"0,1000000000,2,0,0\n" + row
    yield "a state below zero", head + b"-1,1,2,0,0\n"
    yield "carriage returns", head + b"0,1,2,0,0\r0,1,2,0,0\r"
    yield "a number of 10^5 digits", head + b"1" * 10**5 + b",1,2,0,0\n"
    yield "a long field among 32,767 rows", head + b"x" * 131_000 + b",1,2,0,0\n" + row * 32_767
    yield "the header twice", head + head + row
    yield "names twice", head.rstrip() + b"," + head + b"0,1,2,0,0,0,1,2,0,0\n"


def json_files(name: str, whole: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yields hostile documents in the place of `whole`, whose entry `name` readers want."""
    yield "depth", b"[" * DEEP
    yield "depth of objects", b'{"a":' * DEEP
    yield (
        "depth in an entry",
        json.dumps(whole | {name: 0}).encode().replace(b": 0", b": " + b"[" * DEEP + b"]" * DEEP),
    )
    yield "a long number", json.dumps(whole | {name: 0}).encode().replace(b": 0", b": " + b"1" * 10_000)
    for value in (
        None,
        3,
        [],
        {},
        "",
        "..",
        "../..",
        "/",
        "/etc",
        "a\0b",
        "x" * 5000,
        "-v0",
        "a/../../b-v0",
        True,
        [name],
        {name: name},
    ):
        yield f"{name} = {value!r:.20}", json.dumps(whole | {name: value}).encode()
    for text in (
        "null",
        "3",
        "[]",
        "{}",
        '"text"',
        "NaN",
        "Infinity",
        "[1, 2",
        "{'a': 1}",
        "\ufeff{}",
        "{}{}",
        "true",
    ):
        yield text, text.encode()
    yield "surrogates", b'"\\ud800"'
    yield "not UTF-8", b'{"dataset_id": "\xff"}'


def hdf5_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields hostile HDF5 files, made by h5py in `folder`."""
    import h5py

    def made(name: str, fill: Any) -> tuple[str, bytes]:
        path = folder / "hostile.hdf5"
        with h5py.File(path, "w") as file:
            fill(file)
        payload = path.read_bytes()
        path.unlink()
        return name, payload

    def episode(file: Any, **columns: Any) -> Any:
        group = file.create_group("episode_0")
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            data = columns.get(name)
            if isinstance(data, dict):
                group.create_dataset(name, **data)
            elif data is not None:
                group[name] = data
        return group

    chunked = {"dtype": "i8", "chunks": (1024,)}
    for rows in (MANY, 10**10, 2**40):
        claim = chunked | {"shape": (rows,)}
        yield made(f"{rows} rows of nothing", lambda file, c=claim: episode(
            file, observations=c, actions=c, rewards=c | {"dtype": "f8"}, terminations=c | {"dtype": "?"}, truncations=c | {"dtype": "?"}))  # fmt: skip
    bomb = {"shape": (2 * 10**8,), "dtype": "i8", "chunks": (10**6,), "compression": "gzip", "fillvalue": 0}
    yield made("a bomb", lambda file: episode(
        file, observations=bomb, actions=bomb, rewards=bomb | {"dtype": "f8"}, terminations=bomb | {"dtype": "i1"}, truncations=bomb | {"dtype": "i1"}))  # fmt: skip
    yield made("wide rows", lambda file: episode(
        file, observations={"shape": (3, 10**9), "dtype": "i8", "chunks": (1, 1024)}, actions=np.zeros(2, int), rewards=np.zeros(2),
        terminations=np.zeros(2, bool), truncations=np.zeros(2, bool)))  # fmt: skip
    yield made(
        "text",
        lambda file: episode(file, observations=np.array([b"a"] * 3, object), actions=np.zeros(2, int)),
    )
    yield made("no groups", lambda file: file.create_dataset("episode_0", data=np.zeros(3)))
    yield made("a link to itself", lambda file: file.__setitem__("episode_0", h5py.SoftLink("/episode_0")))
    yield made(
        "a link outside", lambda file: file.__setitem__("episode_0", h5py.ExternalLink("/etc/passwd", "/x"))
    )
    yield made(
        "a group in itself",
        lambda file: file.create_group("episode_0").__setitem__("actions", file["episode_0"]),
    )
    yield made("empty columns", lambda file: episode(
        file, observations=h5py.Empty("i8"), actions=h5py.Empty("i8"), rewards=h5py.Empty("f8"), terminations=h5py.Empty("?"),
        truncations=h5py.Empty("?")))  # fmt: skip
    yield made(
        "numbers alone",
        lambda file: episode(
            file, observations=3, actions=3, rewards=3.0, terminations=True, truncations=True
        ),
    )
    yield made(
        "complex",
        lambda file: episode(
            file, observations=np.zeros(3, complex), actions=np.zeros(2, int), rewards=np.zeros(2)
        ),
    )
    yield made("bytes elsewhere", lambda file: episode(
        file, observations={"shape": (3,), "dtype": "i8", "external": [("/etc/passwd", 0, 24)]}, actions=np.zeros(2, int),
        rewards=np.zeros(2), terminations=np.zeros(2, bool), truncations=np.zeros(2, bool)))  # fmt: skip
    yield made("nothing", lambda file: None)


def parquet_files(folder: Path, whole: dict[str, np.ndarray]) -> Iterator[tuple[str, bytes]]:
    """Yields whole Parquet files whose columns are not what a table of steps has."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    num = len(next(iter(whole.values())))
    columns: dict[str, Any] = {
        "nulls": pa.array([None] * num, pa.int64()), "no type": pa.nulls(num), "lists": pa.array([[1]] * num),
        "ragged": pa.array([[1]] + [[1, 2]] * (num - 1)), "text": pa.array(["x"] * num), "bytes": pa.array([b"\xff"] * num),
        "structs": pa.array([{"a": 1}] * num), "floats": pa.array([0.5] * num), "nan": pa.array([float("nan")] * num),
        "dates": pa.array([0] * num, pa.timestamp("ns")), "huge": pa.array([2**64 - 1] * num, pa.uint64()),
        "decimal": pa.array([1] * num).cast(pa.decimal128(30, 2)), "categories": pa.array(["a"] * num).dictionary_encode(),
        "long text": pa.array(["9" * 10**6] + ["1"] * (num - 1)), "below zero": pa.array([-1] * num), "half": pa.array(np.zeros(num, np.float16)),
        "times": pa.array([1] * num, pa.duration("s")), "large lists": pa.array([[0]] * num, pa.large_list(pa.int64())),
    }  # fmt: skip
    for victim in ("s", "terminated"):
        for name, column in columns.items():
            table = pa.table(
                {key: column if key == victim else pa.array(array) for key, array in whole.items()}
            )
            parquet.write_table(table, folder / "hostile.parquet")
            yield f"{victim}: {name}", (folder / "hostile.parquet").read_bytes()
    for name, table in (
        ("no rows", pa.table({key: pa.array(array[:0]) for key, array in whole.items()})), ("no columns", pa.table({})),
        ("names twice", pa.Table.from_arrays([pa.array(whole["s"])] * 2, names=["s", "s"])),
    ):  # fmt: skip
        parquet.write_table(table, folder / "hostile.parquet")
        yield name, (folder / "hostile.parquet").read_bytes()
    (folder / "hostile.parquet").unlink()


def packed_files(header: str) -> Iterator[tuple[str, bytes]]:
    """Yields packed text that unpacks to more than it seems, or to nothing."""
    import gzip

    row = b"0,1,2,0,0\n"
    head = header.encode() + b"\n"
    for name, payload in csv_files(header):
        yield f"packed: {name}", gzip.compress(payload, mtime=0)
    yield "10^8 zeros", gzip.compress(head + bytes(10**8), mtime=0)
    yield "10^8 letters in a row", gzip.compress(head + b"1" * 10**8, mtime=0)
    yield "10^7 empty rows", gzip.compress(head + b"\n" * 10**7 + row, mtime=0)
    yield "two packed files", gzip.compress(head + row, mtime=0) + gzip.compress(row, mtime=0)
    yield "packed twice", gzip.compress(gzip.compress(head + row, mtime=0), mtime=0)
    yield "something after it", gzip.compress(head + row, mtime=0) + b"more"
    yield "no packed file", head + row
    yield "its head alone", gzip.compress(head + row, mtime=0)[:10]


def line_files(whole: dict[str, np.ndarray]) -> Iterator[tuple[str, bytes]]:
    """Yields hostile JSON lines."""
    row = {name: int(values[0]) for name, values in whole.items()}
    line = json.dumps(row).encode() + b"\n"
    yield "depth", b"[" * DEEP
    yield (
        "depth in a field",
        line + json.dumps(row | {"s": 7}).encode().replace(b": 7", b": " + b"[" * DEEP + b"]" * DEEP),
    )
    yield "an endless line", line + b'{"s": "' + b"x" * (2**24 + 10)
    yield "endless blanks", line + b" " * (2**24 + 10)
    yield "a long number", line + json.dumps(row | {"s": 7}).encode().replace(b": 7", b": " + b"1" * 10_000)
    yield "10^6 empty lists", b'{"type": "SampleBatch", "s": [' + b",".join([b"[]"] * 10**6) + b"]}\n"
    for value in (
        None,
        [],
        {},
        [[]],
        "x",
        "",
        0.5,
        -1,
        2**63,
        2**70,
        True,
        [0, 1],
        {"a": 0},
        "NaN",
        float("nan"),
        float("inf"),
    ):
        yield f"s = {value!r:.20}", line + json.dumps(row | {"s": value}).encode()
        yield f"terminated = {value!r:.20}", line + json.dumps(row | {"terminated": value}).encode()
    for text in (
        b"null",
        b"[]",
        b"3",
        b'"s"',
        b"{}",
        b"\xff\xfe",
        b"\0",
        b"{" + line,
        b'{"type": "SampleBatch"}',
        b'{"type": []}',
    ):
        yield f"a line {text[:20]!r}", line + text + b"\n"
    for batches in (None, [], {}, {"a": 3}, {"a": {}, "b": {}}, {"a": {"s": [0]}}):
        yield (
            f"policies {batches!r:.20}",
            json.dumps({"type": "MultiAgentBatch", "policy_batches": batches}).encode(),
        )
    for columns in (
        {"s": "packed"},
        {"s": [0, 1]},
        {"s": 3},
        {"s": [None]},
        {"s": [[0], [1, 2]]},
        {"s": [{}]},
    ):
        batch = {"type": "SampleBatch", **{name: [value] for name, value in row.items()}}
        yield f"a batch with {columns!r:.30}", json.dumps(batch | columns).encode()
    yield "half a letter", line + b'{"s": "\\ud800"}'
    yield "blank lines", b"\n\n" + line + b"  \n" + line
    yield "nothing", b""


def arrow_files(folder: Path, whole: dict[str, np.ndarray]) -> Iterator[tuple[str, bytes]]:
    """Yields Arrow files whose columns, batches or footers are not what a table of steps has."""
    import struct

    import pyarrow as pa
    from pyarrow import ipc

    def written(table: Any, **settings: Any) -> bytes:
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, table.schema, options=ipc.IpcWriteOptions(**settings)) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    num = len(next(iter(whole.values())))
    zeros = pa.table({name: np.zeros(2 * 10**7, values.dtype) for name, values in whole.items()})
    yield "10^7 zeros, packed", written(zeros.slice(0, 10**6), compression="zstd")
    yield (
        "a batch of 10^9 bytes",
        written(
            pa.table({name: np.zeros(6 * 10**7, np.int64) for name in ("s", "a", "s_next")}),
            compression="zstd",
        ),
    )
    views = pa.array(["9" * 10**5] + ["1"] * (num - 1), pa.string_view())
    columns = {
        "views": views, "nulls": pa.array([None] * num, pa.int64()), "no type": pa.nulls(num), "ragged": pa.array([[1]] + [[1, 2]] * (num - 1)),
        "text": pa.array(["x"] * num), "structs": pa.array([{"a": 1}] * num), "floats": pa.array([0.5] * num),
        "categories": pa.array(["a"] * num).dictionary_encode(), "long category": pa.array(["9" * 10**6] * num).dictionary_encode(),
        "no category": pa.DictionaryArray.from_arrays(pa.array([0] * num), pa.array([None], pa.string())), "bytes": pa.array([b"\xff"] * num),
        "dates": pa.array([0] * num, pa.timestamp("ns")), "runs": pa.RunEndEncodedArray.from_arrays([num], [1]),
        "list views": pa.array([[0]] * num, pa.list_view(pa.int64())), "maps": pa.array([[("a", 1)]] * num, pa.map_(pa.string(), pa.int64())),
    }  # fmt: skip
    for name, column in columns.items():
        yield f"s: {name}", written(pa.table(whole | {"s": column}))
    yield (
        "names twice",
        written(
            pa.Table.from_arrays([pa.array(v) for v in (*whole.values(), whole["s"])], names=[*whole, "s"])
        ),
    )
    yield "no rows", written(pa.table({name: values[:0] for name, values in whole.items()}))
    good = written(pa.table(whole))
    for length in (-1, 0, 2**31 - 1, len(good)):
        yield f"a footer of {length} bytes", good[:-10] + struct.pack("<i", length) + good[-6:]
    yield "two files", good + good
    yield "the old format", b"FEA1" + good[4:]


def flat_hdf5_files(folder: Path, whole: dict[str, np.ndarray]) -> Iterator[tuple[str, bytes]]:
    """Yields HDF5 files with a column that is elsewhere, or not what it says."""
    import h5py

    num = len(next(iter(whole.values())))

    def made(change: Any) -> bytes:
        path = folder / "hostile.hdf5"
        with h5py.File(path, "w") as file:
            for name, values in whole.items():
                file[name] = values
            del file["s"]
            change(file)
        payload = path.read_bytes()
        path.unlink()
        return payload

    layout = h5py.VirtualLayout((num,), "i8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (num,))
    changes = {
        "a link outside": lambda file: file.__setitem__("s", h5py.ExternalLink("/etc/passwd", "/x")),
        "a link inside": lambda file: file.__setitem__("s", h5py.SoftLink("/a")),
        "bytes elsewhere": lambda file: file.create_dataset("s", (num,), "i8", external=[("/etc/passwd", 0, 8 * num)]),
        "put together": lambda file: file.create_virtual_dataset("s", layout),
        "rows of nothing": lambda file: file.create_dataset("s", (2**40,), "i8", chunks=(1024,)),
        "as many rows of nothing": lambda file: file.create_dataset("s", (num, 10**9), "i8", chunks=(1, 1024)),
        "a large chunk": lambda file: file.create_dataset("s", (num, 2**20), "i8", chunks=(num, 2**20), compression="gzip"),
        "texts": lambda file: file.create_dataset("s", data=["1"] * num),
        "names": lambda file: file.create_dataset("s", data=np.array(["x"] * num, "S")),
        "wide texts": lambda file: file.create_dataset("s", data=np.array(["1" * 2000] * num, "S")),
        "no text": lambda file: file.create_dataset("s", data=np.array([b"\xff"] * num)),
        "a group": lambda file: file.create_group("s"),
        "a group in itself": lambda file: file.create_group("s").__setitem__("s", file["s"]),
        "a type": lambda file: file.__setitem__("s", np.dtype("i8")),
        "one number": lambda file: file.__setitem__("s", 3),
        "nothing": lambda file: file.__setitem__("s", h5py.Empty("i8")),
        "complex": lambda file: file.__setitem__("s", np.zeros(num, complex)),
        "fewer": lambda file: file.__setitem__("s", np.zeros(num - 1, int)),
        "many groups": lambda file: [file.create_group(f"g{k}/h") for k in range(300)],
        "compound": lambda file: file.__setitem__("s", np.zeros(num, [("x", "i8")])),
        "two columns": lambda file: file.__setitem__("s", np.zeros((num, 2), int)),
    }  # fmt: skip
    for name, change in changes.items():
        yield name, made(change)
