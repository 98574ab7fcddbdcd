"""A table costs what its steps cost: what it only claims, or holds beside them, is never unpacked."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from data_streams import random_stream

import rhocover as rc
from rhocover.cli import parsing
from rhocover.datasets import read_tally, tables
from rhocover.datasets.forms import arrow
from rhocover.errors import InvalidArgumentError, InvalidDataError

COLUMNS = random_stream(3, 200).columns


def npy(shape: object, dtype: str = "<i8", data: bytes = b"", turned: bool = False) -> bytes:
    """Returns an array file whose header says what it likes."""
    head = repr({"descr": dtype, "fortran_order": turned, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def archive(path: Path, method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    """Writes the columns as an NPZ file, with other members in their places or beside them."""
    whole = {}
    for name, values in COLUMNS.items():
        buffer = io.BytesIO()
        np.save(buffer, values)
        whole[name] = buffer.getvalue()
    with zipfile.ZipFile(path, "w", method) as file:
        for name, payload in (whole | members).items():
            file.writestr(f"{name}.npy", payload)
    return path


def same(a: rc.data.Tally, b: rc.data.Tally) -> bool:
    return a.keys == b.keys and (a.moves != b.moves).nnz == 0 and np.array_equal(a.ends, b.ends)


# ---------------------------------------------------------------------------------------------------- NPZ


@pytest.mark.parametrize("extra", [npy((10**10,), "<f8", bytes(10**6)), npy((3,), "|O"), b"no array"])
def test_what_stands_beside_the_columns_of_an_npz_is_never_opened(tmp_path: Path, extra: bytes) -> None:
    assert same(read_tally(archive(tmp_path / "it.npz", extra=extra)), read_tally(COLUMNS))


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (npy((10**12,), data=bytes(1600)), r"`s` claims 8000000000000 bytes \(shape \(1000000000000,\)\)"),
        (npy((10**6,), data=bytes(8 * 10**6)), "one value per row, got lengths `s` 1000000, `a` 200"),
        (npy((200,), "<U100000000", bytes(1600)), "`s` claims 80000000000 bytes"),
        (npy((200,), data=bytes(1700)), "`s` has more bytes than an array of its shape"),
        (npy((), data=bytes(8)), "`s` must be a column, got one value"),
        (npy((-200,), data=bytes(1600)), "damaged, or not an NPZ"),
    ],
)
def test_a_column_that_claims_what_it_does_not_hold_is_refused(
    tmp_path: Path, payload: bytes, words: str
) -> None:
    with pytest.raises(InvalidDataError, match=words) as refused:
        read_tally(archive(tmp_path / "it.npz", s=payload))
    assert "it.npz" in str(refused.value)


def test_columns_of_other_lengths_are_refused_before_any_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_read", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(InvalidDataError, match="`s` 1000000, `a` 200"):
        read_tally(archive(tmp_path / "it.npz", s=npy((10**6,), data=bytes(8 * 10**6))))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_numpy_does_not_write_is_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(
        InvalidDataError,
        match=f"packed with ZIP method {method}, which is not supported. Write the file with numpy.savez",
    ):
        read_tally(archive(tmp_path / "it.npz", method))


@pytest.mark.parametrize("code", [0xD800, 0xDFFF, 0x110000, 2**31])
def test_numbers_that_are_no_letters_are_refused(tmp_path: Path, code: int) -> None:
    letters = np.full(200, code, "<u4").tobytes()
    with pytest.raises(
        InvalidDataError, match=f"`s` has a text with {code:#x}, which is not a Unicode character"
    ):
        read_tally(archive(tmp_path / "it.npz", s=npy((200,), "<U1", letters)))


def test_wide_columns_come_in_small_pieces_that_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).random((200, 3))
    columns = COLUMNS | {"s": values, "s_next": np.asfortranarray(values[::-1])}
    np.savez_compressed(tmp_path / "it.npz", **columns)
    code = {"states": rc.Bins(3, low=0.0, high=1.0)}
    monkeypatch.setattr(tables, "PIECE_BYTES", 100)
    with zipfile.ZipFile(tmp_path / "it.npz") as file:
        pieces = list(tables.read_columns(file, list(columns), 64))
    assert {len(piece["a"]) for piece in pieces} == {4}
    for name, column in columns.items():
        assert np.array_equal(np.concatenate([piece[name] for piece in pieces]), column)
    assert same(read_tally(tmp_path / "it.npz", **code), read_tally(columns, **code))


def test_a_wide_array_in_fortran_order_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_TURNED", 1000)
    with pytest.raises(InvalidDataError, match="in Fortran order; the limit is 1000"):
        read_tally(archive(tmp_path / "it.npz", s=npy((200, 2), data=bytes(3200), turned=True)))


# ---------------------------------------------------------------------------------------------------- CSV


def rows(num: int = 60) -> str:
    return "s,a,s_next,done\n" + "".join(
        f"{k % 3},{k % 2},{(k + 1) % 3},{int(k % 9 == 8)}\n" for k in range(num)
    )


@pytest.mark.parametrize(
    "text",
    [
        rows() + "1" * 5000, "x" * 5000 + "\n1\n", "," * 5000 + "\n", rows() + "," * 5000 + "\n",
        rows() + '"' + "\n" * 5000, rows() + '1,1,1,"' + "0,\n" * 2000,
    ],
)  # fmt: skip
def test_a_row_without_end_is_refused_where_it_becomes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(tables, "MOST_LETTERS", 1000)
    (tmp_path / "it.csv").write_text(text)
    with pytest.raises(InvalidDataError, match="it has a row of more than 1000 characters") as refused:
        read_tally(tmp_path / "it.csv")
    assert "it.csv" in str(refused.value)


def test_the_longer_rows_are_the_fewer_come_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = rows(60).splitlines()
    wide = [f"{line},{'x' * (300 if 20 < k < 30 else 1)}" for k, line in enumerate(lines)]
    (tmp_path / "it.csv").write_text("\n".join(wide))
    (tmp_path / "plain.csv").write_text("\n".join(lines))
    monkeypatch.setattr(tables, "PIECE_LETTERS", 1000)
    with (tmp_path / "it.csv").open(newline="") as file:
        names, delimiter = tables.read_header(file)
        file.seek(0)
        sizes = [len(part) for part in tables.read_fields(file, names, ["s", "a"], delimiter, 1000)]
    assert sizes == [20, 3, 3, 3, 31]
    assert same(read_tally(tmp_path / "it.csv"), read_tally(tmp_path / "plain.csv"))


def test_a_row_of_another_width_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text(rows(40_000) + "1,2,3\n" + rows(5))
    with pytest.raises(InvalidDataError, match="line 40002 has 3 fields, but the header has 4"):
        read_tally(tmp_path / "it.csv")


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e400", "9" * 900])
@pytest.mark.parametrize("column", ["s", "a", "s_next"])
def test_a_number_beyond_all_is_refused_by_column_and_row(tmp_path: Path, number: str, column: str) -> None:
    lines = rows(40).splitlines()
    fields = lines[31].split(",")
    fields[["s", "a", "s_next"].index(column)] = number
    (tmp_path / "it.csv").write_text("\n".join([*lines[:31], ",".join(fields), *lines[32:]]))
    with pytest.raises(InvalidDataError, match=f"`{column}` must hold whole numbers, got inf in row 30"):
        read_tally(tmp_path / "it.csv")


# ------------------------------------------------------------------------------------------------ Parquet


def test_a_long_text_that_is_kept_once_is_refused_before_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int32)), pa.array(["7" * 10**6]))
    for column in (text, text.dictionary_decode()):
        parquet.write_table(pa.table(COLUMNS | {"s": column}), tmp_path / "it.parquet", compression="zstd")
        made = []
        monkeypatch.setattr(arrow, "text_array", lambda values, name, m=made: m.append(len(values)) or 1 / 0)
        with pytest.raises(InvalidDataError):
            read_tally(tmp_path / "it.parquet")
        assert made == [1]
        monkeypatch.undo()
        with pytest.raises(InvalidDataError, match="`s` has a text of 1000000 characters"):
            read_tally(tmp_path / "it.parquet")


def test_text_is_read_as_before(tmp_path: Path) -> None:
    texts = {name: [str(value) for value in values.tolist()] for name, values in COLUMNS.items()}
    parquet.write_table(pa.table(texts), tmp_path / "it.parquet")
    assert same(read_tally(tmp_path / "it.parquet"), read_tally(COLUMNS))


def test_more_rows_than_bytes_can_say_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(
        pa.table({name: np.zeros(10**5, np.int64) for name in COLUMNS}), tmp_path / "it.parquet"
    )
    assert read_tally(tmp_path / "it.parquet").num_steps == 10**5
    monkeypatch.setattr(arrow, "MOST_ROWS", 10)
    with pytest.raises(InvalidDataError, match="it claims 100000 rows in "):
        read_tally(tmp_path / "it.parquet")


def test_lists_and_text_of_a_row_group_have_a_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "MOST_COLUMN", 10_000)
    lists = pa.array([np.zeros(2000, np.int64)] + [[0]] * 199)
    parquet.write_table(pa.table(COLUMNS | {"s": lists}), tmp_path / "it.parquet")
    with pytest.raises(InvalidDataError, match=r"`s` has \d+ bytes in one row group; the limit is 10000"):
        read_tally(tmp_path / "it.parquet")


# ------------------------------------------------------------------------------------------------ weights


def test_weights_that_claim_more_than_their_file_holds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mu.npy"
    path.write_bytes(npy((10**9, 2), "<f8", bytes(80)))
    model = rc.envs.river_swim(num_states=5)
    with pytest.raises(InvalidArgumentError, match=r"it claims shape \(1000000000, 2\) in \d+ bytes"):
        parsing.parse_weights(str(path), model)
    os.truncate(path, 2**36)
    with pytest.raises(InvalidArgumentError, match="it claims 68719476736 bytes, of which"):
        parsing.parse_weights(str(path), model)


def test_weights_as_text_have_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MOST_CSV", 1000)
    (tmp_path / "mu.csv").write_text("1," * 1000)
    with pytest.raises(InvalidArgumentError, match="it has 2000 bytes, expected at most 1000"):
        parsing.parse_weights(str(tmp_path / "mu.csv"), rc.envs.river_swim(num_states=5))
