"""Tables made to hurt: NPZ, CSV and Parquet files of random sizes, each a function (rng, folder) -> path."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
Make = Callable[[Rng, Path], Path]
NAMES = ("s", "a", "s_next", "terminated", "truncated")
MANY = 10**12


def steps(rng: Rng, num: int = 50) -> dict[str, np.ndarray]:
    """Returns random steps of a small world as columns."""
    states = rng.integers(4, size=num + 1)
    ends = rng.random((2, num)) < 0.1
    return dict(zip(NAMES, (states[:-1], rng.integers(2, size=num), states[1:], *ends), strict=True))


def victim(rng: Rng) -> str:
    return NAMES[int(rng.integers(len(NAMES)))]


# --- NPZ ------------------------------------------------------------------------------------------------


def npy(shape: Any, dtype: str = "<i8", data: bytes = b"", turned: bool = False) -> bytes:
    """Returns an array file whose header says what it likes."""
    head = repr({"descr": dtype, "fortran_order": turned, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npy_of(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def zipped(folder: Path, members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    """Writes an archive; a payload may be a whole number, of zeros that are never in memory at once."""
    path = folder / "steps.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, payload in members:
            archive.writestr(f"{name}.npy", payload)
    return path


def with_column(rng: Rng, folder: Path, payload: bytes, name: str | None = None, **settings: Any) -> Path:
    """Writes whole columns, one of which is something else."""
    members = {key: npy_of(array) for key, array in steps(rng).items()}
    return zipped(folder, (members | {name or victim(rng): payload}).items(), **settings)


def zeros_member(path: Path, head: bytes, size: int, name: str) -> Path:
    """Adds a packed member of `size` zeros behind a header, a piece at a time."""
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as file,
    ):
        file.write(head)
        for begin in range(0, size, 2**20):
            file.write(bytes(min(2**20, size - begin)))
    return path


def npz_bomb_beside(rng: Rng, folder: Path) -> Path:
    path = zipped(folder, ((key, npy_of(array)) for key, array in steps(rng).items()))
    size = 2 ** int(rng.integers(24, 28))
    return zeros_member(path, npy((size // 8,)), size, "extra")


def npz_bomb_in_a_column(rng: Rng, folder: Path) -> Path:
    path = zipped(folder, ((key, npy_of(array)) for key, array in steps(rng).items() if key != "s"))
    size = 2 ** int(rng.integers(24, 27))
    return zeros_member(path, npy((size // 8,)), size, "s")


def npz_bomb_wide(rng: Rng, folder: Path) -> Path:
    path = zipped(folder, ((key, npy_of(array)) for key, array in steps(rng).items() if key != "s"))
    size = 2 ** int(rng.integers(24, 27))
    return zeros_member(path, npy((50, size // 400)), size, "s")


def npz_bomb_turned(rng: Rng, folder: Path) -> Path:
    path = zipped(folder, ((key, npy_of(array)) for key, array in steps(rng).items() if key != "s"))
    return zeros_member(path, npy((50, 10**9), turned=True), 2**24, "s")


def npz_claims_rows(rng: Rng, folder: Path) -> Path:
    return with_column(rng, folder, npy((int(rng.integers(51, MANY)),), data=bytes(400)))


def npz_claims_too_little(rng: Rng, folder: Path) -> Path:
    return with_column(rng, folder, npy((50,), data=bytes(int(rng.integers(401, 10_000)))))


def npz_odd_shape(rng: Rng, folder: Path) -> Path:
    shapes = ((-1,), (0, MANY), (MANY, 0), (2**62, 4), (1.5,), ("a",), (10**30,), (), (50, 1, 1), (True,))
    return with_column(rng, folder, npy(shapes[int(rng.integers(len(shapes)))], data=bytes(400)))


def npz_odd_type(rng: Rng, folder: Path) -> Path:
    types = (
        "|O",
        "<U1000000000",
        "<V8",
        "<M8[ns]",
        "<c16",
        "S4",
        "<f9",
        ">f8",
        "<U0",
        "|V0",
        "<f2",
        "x",
        "(3,)<i8",
    )
    return with_column(rng, folder, npy((50,), types[int(rng.integers(len(types)))], bytes(800)))


def npz_letters_that_are_none(rng: Rng, folder: Path) -> Path:
    letters = rng.choice([0xD800, 0xDFFF, 0x110000, 2**31, 0], size=50).astype("<u4")
    return with_column(rng, folder, npy((50,), "<U1", letters.tobytes()))


def npz_pickle(rng: Rng, folder: Path) -> Path:
    return with_column(rng, folder, npy_of(np.array([print] * 50, object)))


def npz_other_packing(rng: Rng, folder: Path) -> Path:
    method = (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[int(rng.integers(2))]
    return with_column(rng, folder, npy((10**7,), "|i1", bytes(10**7)), "s", method=method)


def npz_locked(rng: Rng, folder: Path) -> Path:
    path = with_column(rng, folder, npy_of(np.arange(50)))
    payload = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):  # the flag for a password
        at = -1
        while (at := payload.find(mark, at + 1)) >= 0:
            payload[at + place] |= 1
    path.write_bytes(payload)
    return path


def npz_wrong_sum(rng: Rng, folder: Path) -> Path:
    path = with_column(rng, folder, npy_of(np.arange(50)))
    payload = bytearray(path.read_bytes())
    at = payload.index(b"PK\x01\x02", int(rng.integers(len(payload) // 2)))
    payload[at + 16] ^= 1 << int(rng.integers(8))
    path.write_bytes(payload)
    return path


def npz_names_that_climb(rng: Rng, folder: Path) -> Path:
    return zipped(folder, ((f"../{key}", npy_of(array)) for key, array in steps(rng).items()))


def npz_many_members(rng: Rng, folder: Path) -> Path:
    return zipped(folder, ((f"m{k}", b"") for k in range(int(rng.integers(1_000, 10_000)))))


def npz_one_array(rng: Rng, folder: Path) -> Path:
    path = folder / "steps.npz"
    path.write_bytes(npy_of(np.arange(int(rng.integers(100)))))
    return path


# --- CSV ------------------------------------------------------------------------------------------------


def rows(rng: Rng, num: int = 50) -> list[list[Any]]:
    return [
        list(row)
        for row in zip(*(column.astype(int).tolist() for column in steps(rng, num).values()), strict=True)
    ]


def csv_of(
    folder: Path, table: Iterable[Iterable[Any]], header: str = ",".join(NAMES), ending: str = "\n"
) -> Path:
    path = folder / "steps.csv"
    lines = (",".join(map(str, row)) for row in table)
    path.write_bytes((ending.join([header, *lines]) + ending).encode("utf-8", "surrogatepass"))
    return path


def csv_with(rng: Rng, folder: Path, word: str) -> Path:
    """Writes a table with one field that is another word."""
    table = rows(rng)
    table[int(rng.integers(len(table)))][int(rng.integers(len(NAMES)))] = word
    return csv_of(folder, table)


def csv_endless_line(rng: Rng, folder: Path) -> Path:
    path = csv_of(folder, rows(rng))
    with path.open("ab") as file:
        file.write(b"1" * 2 ** int(rng.integers(23, 27)))
    return path


def csv_endless_header(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, rows(rng), header="x" * 2 ** int(rng.integers(23, 26)))


def csv_many_columns(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [], header="," * int(rng.integers(10**5, 3 * 10**7)))


def csv_many_commas(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [*rows(rng), "," * int(rng.integers(10**6, 6 * 10**6))])


def csv_open_quote(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [*rows(rng), ['"0'], *rows(rng, 20_000)])


def csv_long_quotes(rng: Rng, folder: Path) -> Path:
    field = '"' + "\n" * 100_000 + '"'
    return csv_of(folder, [*rows(rng), [field] * int(rng.integers(6, 50))])


def csv_long_fields(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [[*row[:4], "0" * int(rng.integers(900, 1100))] for row in rows(rng, 3000)])


def csv_huge_number(rng: Rng, folder: Path) -> Path:
    digits = 10 ** int(rng.integers(2, 5))
    return csv_with(
        rng, folder, ("1" + "0" * digits, f"1e{digits}", f"-1e{digits}", "9" * 19)[int(rng.integers(4))]
    )


def csv_odd_word(rng: Rng, folder: Path) -> Path:
    words = (
        "nan",
        "inf",
        "-1",
        "0x1",
        "1_0",
        "٣",
        "",
        " ",
        "\0",
        "None",
        "1;2",
        "\x1b[31m",
        "\u202e1",
        "=1+1",
        "1.5",
        "-0",
        "\ufeff",
    )
    return csv_with(rng, folder, words[int(rng.integers(len(words)))])


def csv_half_letters(rng: Rng, folder: Path) -> Path:
    return csv_with(rng, folder, "\ud800")


def csv_half_letters_in_a_name(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, rows(rng), header=",".join(NAMES).replace(victim(rng), "\udfff", 1))


def csv_other_letters(rng: Rng, folder: Path) -> Path:
    path = csv_of(folder, rows(rng))
    code = ("utf-16", "utf-32", "utf-16-be", "utf-7")[int(rng.integers(4))]
    path.write_bytes(path.read_text().encode(code))
    return path


def csv_packed(rng: Rng, folder: Path) -> Path:
    path = csv_of(folder, rows(rng))
    path.write_bytes(gzip.compress(path.read_bytes() + bytes(10**6)))
    return path


def csv_names_twice(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [row + row for row in rows(rng)], header=",".join(NAMES * 2))


def csv_escapes_in_names(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, rows(rng), header=",".join(f"\x1b[2J{name}" for name in NAMES))


def csv_ragged(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [row[: int(rng.integers(1, 6))] for row in rows(rng)])


def csv_carriage_returns(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, rows(rng), ending="\r")


def csv_header_alone(rng: Rng, folder: Path) -> Path:
    return csv_of(folder, [])


def csv_hollow(rng: Rng, folder: Path) -> Path:
    path = csv_of(folder, rows(rng))
    with path.open("r+b") as file:
        file.truncate(2 ** int(rng.integers(31, 41)))
    return path


# --- Parquet --------------------------------------------------------------------------------------------


def parquet_of(folder: Path, columns: dict[str, Any], **settings: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = folder / "steps.parquet"
    parquet.write_table(pa.table(columns), path, **settings)
    return path


def parquet_long_text(rng: Rng, folder: Path) -> Path:
    import pyarrow as pa

    text = pa.array(["x" * 2 ** int(rng.integers(20, 26))])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), text)
    return parquet_of(folder, steps(rng, 2000) | {victim(rng): column}, compression="zstd")


def parquet_many_rows(rng: Rng, folder: Path) -> Path:
    """Writes runs of equal values whose number the footer makes a thousand million times larger."""
    path = parquet_of(folder, {key: np.zeros(50, np.int64) for key in NAMES})
    payload = bytearray(path.read_bytes())
    size = struct.unpack("<I", payload[-8:-4])[0]
    at = payload.index(b"\x16\x64", len(payload) - 8 - size)  # 50 as thrift's compact number
    payload[at : at + 2] = b"\x16\xfe\xff\xff\xff\xff\x1f"
    payload[-8:-4] = struct.pack("<I", size + 5)
    path.write_bytes(payload)
    return path


def parquet_lists(rng: Rng, folder: Path) -> Path:
    import pyarrow as pa

    longest = 10 ** int(rng.integers(3, 7))
    lists = pa.array([np.zeros(longest, np.int64)] + [np.zeros(1, np.int64)] * 49)
    return parquet_of(folder, steps(rng) | {victim(rng): lists})


def parquet_deep(rng: Rng, folder: Path) -> Path:
    import pyarrow as pa

    column = pa.array(np.arange(50))
    for _ in range(int(rng.integers(5, 60))):
        column = pa.StructArray.from_arrays([column], ["x"])
    return parquet_of(folder, steps(rng) | {victim(rng): column})


def parquet_odd_column(rng: Rng, folder: Path) -> Path:
    import pyarrow as pa

    columns = (
        pa.nulls(50), pa.array([None] * 50, pa.int64()), pa.array([b"\xff"] * 50), pa.array([2**64 - 1] * 50, pa.uint64()),
        pa.array([float("nan")] * 50), pa.array([1] * 50).cast(pa.decimal128(38, 2)), pa.array([0] * 50, pa.timestamp("ns")),
        pa.array(["\U0010ffff"] * 50), pa.array([1] * 50, pa.duration("s")), pa.array(["9" * 400] * 50), pa.array([-1] * 50),
    )  # fmt: skip
    return parquet_of(folder, steps(rng) | {victim(rng): columns[int(rng.integers(len(columns)))]})


def parquet_names_twice(rng: Rng, folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = folder / "steps.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array(np.arange(50))] * 2, names=["s", "s"]), path)
    return path


def parquet_footer_that_lies(rng: Rng, folder: Path) -> Path:
    path = parquet_of(folder, steps(rng))
    payload = path.read_bytes()
    path.write_bytes(payload[:-8] + struct.pack("<I", int(rng.integers(2**32))) + b"PAR1")
    return path


def parquet_flipped(rng: Rng, folder: Path) -> Path:
    path = parquet_of(folder, steps(rng))
    payload = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 20))):
        payload[int(rng.integers(4, len(payload) - 8))] ^= 1 << int(rng.integers(8))
    path.write_bytes(payload)
    return path


def parquet_packed(rng: Rng, folder: Path) -> Path:
    kind = ("zstd", "gzip", "brotli", "snappy", "lz4")[int(rng.integers(5))]
    number = 2 ** int(rng.integers(18, 22))
    columns = {key: np.zeros(number, np.int64) for key in NAMES}
    return parquet_of(folder, columns, compression=kind, use_dictionary=False, data_page_size=2**30)


def no_table(rng: Rng, folder: Path) -> Path:
    path = folder / f"steps{('.npz', '.csv', '.parquet', '.tsv', '.pq')[int(rng.integers(5))]}"
    path.write_bytes(rng.bytes(int(rng.integers(5000))))
    return path


TABLES: dict[str, Make] = {
    make.__name__: make
    for make in (
        npz_bomb_beside, npz_bomb_in_a_column, npz_bomb_wide, npz_bomb_turned, npz_claims_rows, npz_claims_too_little,
        npz_odd_shape, npz_odd_type, npz_letters_that_are_none, npz_pickle, npz_other_packing, npz_locked, npz_wrong_sum,
        npz_names_that_climb, npz_many_members, npz_one_array, csv_endless_line, csv_endless_header, csv_many_columns,
        csv_many_commas, csv_open_quote, csv_long_quotes, csv_long_fields, csv_huge_number, csv_odd_word, csv_half_letters,
        csv_half_letters_in_a_name, csv_other_letters, csv_packed, csv_names_twice, csv_escapes_in_names, csv_ragged,
        csv_carriage_returns, csv_header_alone, csv_hollow, parquet_long_text, parquet_many_rows, parquet_lists,
        parquet_deep, parquet_odd_column, parquet_names_twice, parquet_footer_that_lies, parquet_flipped, parquet_packed,
        no_table,
    )
}  # fmt: skip
