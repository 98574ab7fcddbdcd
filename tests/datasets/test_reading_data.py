"""What people bring: every form says the same, and what is wrong is refused by name."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from data_streams import Stream, random_stream

import rhocover.datasets.columns
import rhocover.datasets.tables
from rhocover.datasets import Tally, read_tally
from rhocover.errors import InvalidArgumentError, InvalidDataError, MissingExtraError

STREAM = random_stream(7, 500)


def write(path: Path, columns: dict) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path, row_group_size=90)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(columns)
            writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return path


def check_same(a: Tally, b: Tally) -> None:
    assert a.keys == b.keys
    assert np.array_equal(a.counts, b.counts)
    assert np.array_equal(a.moves.toarray(), b.moves.toarray())
    assert np.array_equal(a.starts, b.starts)
    assert np.array_equal(a.batches.toarray(), b.batches.toarray())
    assert (a.num_truncated, a.num_jumps, a.end_keys) == (b.num_truncated, b.num_jumps, b.end_keys)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads in pieces of 64 rows, so that episodes run over their edges."""
    monkeypatch.setattr(rhocover.datasets.tables, "SIZE", 64)
    monkeypatch.setattr(rhocover.datasets.tables, "MOST_CSV_ROWS", 64)


@pytest.mark.parametrize("name", ["data.npz", "data.csv", "data.tsv", "data.parquet", "DATA.PARQUET"])
def test_a_file_says_what_its_columns_say(name: str, tmp_path: Path, small_pieces: None) -> None:
    path = write(tmp_path / name.lower(), STREAM.columns | {"reward": np.full(500, 0.5)})
    path = path.rename(tmp_path / name)
    check_same(read_tally(path), read_tally(STREAM.columns))
    check_same(read_tally(str(path)), read_tally(STREAM[:]))
    assert read_tally(path).source == str(path)


def test_columns_go_by_their_usual_names() -> None:
    names = ("observations", "Actions", "next_observations", "terminals", "timeouts")
    check_same(read_tally(dict(zip(names, STREAM[:], strict=True))), read_tally(STREAM.columns))
    text = {name: np.asarray(values).astype(str) for name, values in STREAM.columns.items()}
    check_same(read_tally(text), read_tally(STREAM.columns))
    floats = STREAM.columns | {
        "s": STREAM.s.astype(np.float32),
        "terminated": STREAM.terminated.astype(float),
    }
    check_same(read_tally(floats), read_tally(STREAM.columns))
    check_same(read_tally(STREAM.columns | {"s": STREAM.s[:, None]}), read_tally(STREAM.columns))


def test_done_with_truncated_is_a_cut_and_terminated_with_truncated_an_end() -> None:
    rows = {"s": [0, 1], "a": [0, 0], "s_next": [1, 0], "truncated": [True, False]}
    assert read_tally(rows | {"done": [True, True]}).ends.tolist() == [0, 1]
    assert read_tally(rows | {"terminated": [True, True]}).ends.tolist() == [1, 1]
    both = read_tally(rows | {"terminated": [False, True], "done": [True, True]})
    assert (both.ends.tolist(), both.num_truncated) == ([0, 1], 1)


def next_states_of(stream: Stream) -> tuple[dict, dict]:
    """Returns the stream without next states, and what can be known of it: rows whose successor is a row."""
    closed = stream.terminated | stream.truncated
    episode = np.cumsum(np.append(0, closed[:-1]))
    same = np.append(episode[1:] == episode[:-1], False)
    known = same | stream.terminated
    s_next = np.where(same, np.append(stream.s[1:], 0), stream.s)
    first = np.append(True, episode[1:] != episode[:-1])
    columns = {"s": stream.s, "a": stream.a, "terminated": stream.terminated, "episode": episode}
    return columns, {
        "s": stream.s[known], "a": stream.a[known], "s_next": s_next[known],
        "terminated": stream.terminated[known], "first": first[known],
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_next_states_are_those_of_the_next_row_of_the_episode(seed: int, small_pieces: None) -> None:
    """The last row of an episode that was cut led nobody knows where: it is left out."""
    from rhocover.datasets import Tallier

    columns, known = next_states_of(random_stream(seed, 500))
    tallier = Tallier()
    tallier.add(known["s"], known["a"], known["s_next"], known["terminated"], None, known["first"])
    expected, found = tallier.tally(), read_tally(columns)
    assert found.num_steps == known["s"].size < 500
    check_same(found, expected)


def test_an_episode_column_says_where_episodes_begin(small_pieces: None) -> None:
    columns = {
        "s": [0, 1, 0, 1],
        "a": [0] * 4,
        "s_next": [1, 0, 1, 0],
        "done": [False] * 4,
        "episode": [4, 4, 9, 9],
    }
    tally = read_tally(columns)
    assert (tally.num_episodes, tally.num_truncated, tally.num_jumps) == (2, 1, 0)


class Frame:
    """What data frames have in common: names, and columns by name."""

    def __init__(self, columns) -> None:
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return self._columns[name]


def test_a_data_frame_is_columns() -> None:
    check_same(read_tally(Frame(STREAM.columns)), read_tally(STREAM.columns))


def test_states_and_actions_may_be_real_numbers_with_a_code() -> None:
    from rhocover.environments.encoding import Bins

    s, s_next = np.array([[0.1], [0.6]]), np.array([[0.6], [0.9]])
    rows = {"s": s, "a": [[-0.9], [1.0]], "s_next": s_next, "done": [False, False]}
    tally = read_tally(rows, states=Bins(2, low=0, high=1), actions=[[-1.0], [1.0]])
    assert tally.counts.tolist() == [[1, 0], [0, 1]]
    assert tally.keys == (0, 1)
    assert "from 0.5" in tally.state_name(1)
    named = read_tally(rows | {"a": [0, 1]}, states=lambda x: "low" if x[0] < 0.5 else "high")
    assert named.keys == ("low", "high")
    assert named.pair_name(3) == "(high, 1)"


def test_something_with_a_tally_is_that_tally() -> None:
    class Collected:
        tally = read_tally(STREAM.columns)

    assert read_tally(Collected()) is Collected.tally
    assert read_tally(Collected.tally, num_states=4) is Collected.tally


GOOD = {"s": [0, 1], "a": [0, 1], "s_next": [1, 0], "done": [False, True]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": None}, "the data lacks `action`: its columns are s, s_next, done. Say which columns they are"),
        ({"s_next": None}, "lacks `next_state`"),
        ({"done": None}, "lacks `done`"),
        ({"state": [0, 1]}, "several columns for state: `s` and `state`"),
        ({"s": [0.5, 1]}, "`s` must hold whole numbers, got 0.5 in row 0"),
        ({"s": [0, np.nan]}, "`s` must hold whole numbers, got nan in row 1"),
        ({"s": ["0", "x"]}, "`s` must hold whole numbers, or names that are no numbers, got 'x' in row 1, but '0' in"),
        ({"s": np.array([0, None], object)}, "`s` must hold whole numbers, got a mix of NoneType, int"),
        ({"s": [True, False]}, "`s` must hold whole numbers, got dtype bool"),
        ({"s": np.array([0, 2**64 - 1], np.uint64)}, "whole numbers that int64 can hold"),
        ({"s": [0, -1]}, "`s` must be whole numbers from 0, got -1 in row 1"),
        ({"s": [[0, 1], [1, 0]]}, "Observations of several numbers need `states`"),
        ({"s": [[0], [1, 0]]}, "rows of different lengths"),
        ({"s": [0]}, "lengths `s` 1, `a` 2"),
        ({"s": 3}, "`s` must be a column"),
        ({"a": [0, 2**40]}, "`a` must be whole numbers from 0 to"),
        ({"done": [False, 2]}, "`done` must hold True or False, or 0 or 1, got 2 in row 1"),
        ({"done": ["no", "yes"]}, "`done` must hold True or False, or 0 or 1, got no in row 0"),
        ({"done": np.array([None, True], object)}, "a mix of NoneType, bool"),
        ({key: [] for key in GOOD}, "zero rows"),
    ],
)  # fmt: skip
def test_columns_that_are_no_transitions_are_refused(change: dict, message: str) -> None:
    columns = {name: values for name, values in (GOOD | change).items() if values is not None}
    with pytest.raises(InvalidDataError) as refused:
        read_tally(columns)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "`data` must be columns"),
        (([0], [0]), "a tuple of 2"),
        ("nowhere.parquet", "there is no file 'nowhere.parquet'"),
        ("nowhere.csv", "there is no file 'nowhere.csv'"),
    ],
)
def test_what_is_no_data_is_refused(data, message: str) -> None:
    with pytest.raises(InvalidDataError) as refused:
        read_tally(data)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["data.npz", "data.parquet", "data.csv"])
@pytest.mark.parametrize("keep", [0, 10, 200, -20])
def test_a_file_cut_short_is_refused(name: str, keep: int, tmp_path: Path) -> None:
    path = write(tmp_path / name, STREAM.columns)
    whole = path.read_bytes()
    path.write_bytes(whole[:keep] + (b"1" if name.endswith("csv") else b""))
    with pytest.raises(InvalidDataError) as refused:
        read_tally(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("name", ["data.npz", "data.parquet", "data.csv"])
def test_a_file_that_is_not_what_its_name_says_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for content in (bytes(range(256)) * 20, b"\x80\x04\x95" + b"0" * 99):  # the second begins like a pickle
        path.write_bytes(content)
        with pytest.raises(InvalidDataError) as refused:
            read_tally(path)
        assert str(path) in str(refused.value)


def test_a_pickle_inside_an_npz_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **(STREAM.columns | {"s": np.array([print] * 500, object)}))
    with pytest.raises(InvalidDataError, match="damaged, or not an NPZ file"):
        read_tally(path)


def test_missing_values_are_refused_by_row(tmp_path: Path) -> None:
    columns = {name: values.tolist() for name, values in STREAM.columns.items()}
    columns["a"][123] = None
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet")
    with pytest.raises(InvalidDataError, match="`a` must have a value in every row, got none in row 123"):
        read_tally(tmp_path / "data.parquet")


def test_an_unknown_suffix_says_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "data.xls").write_text("x")
    with pytest.raises(InvalidDataError, match=r"must end in \.npz, \.csv, \.tsv, .*\.parquet"):
        read_tally(tmp_path / "data.xls")


def test_without_pyarrow_the_install_line_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "data.parquet", STREAM.columns)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rhocover\[parquet\]'"):
        read_tally(path)


def test_ids_beyond_what_there_is_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="`s` must be whole numbers from 0 to 2, got 3 in row"):
        read_tally(STREAM.columns, num_states=3)
    with pytest.raises(InvalidDataError, match="`a` must be whole numbers from 0 to 1, got 2 in row"):
        read_tally(STREAM.columns, num_actions=2)
    assert read_tally(STREAM.columns, num_actions=5).counts.shape == (4, 5)
    tally = read_tally(STREAM.columns)
    with pytest.raises(InvalidDataError, match="states are 0 to 2, but the data has 3"):
        read_tally(tally, num_states=3)
    with pytest.raises(InvalidDataError, match="`num_actions` is 4, but the data has 3"):
        read_tally(tally, num_actions=4)
    with pytest.raises(InvalidArgumentError, match="`states` is for observations"):
        read_tally(tally, states=lambda x: x)
    with pytest.raises(InvalidArgumentError, match="`num_states` must be at least 1"):
        read_tally(STREAM.columns, num_states=0)
