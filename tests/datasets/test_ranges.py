"""Files counted in ranges of rows through an executor: as one process counts them, whatever fails."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from data_streams import random_stream
from written_forms import FILES

import rhocover as rc
from rhocover.datasets import audit, read_tally
from rhocover.datasets.ranges import read_ranges
from rhocover.datasets.read_options import ReadOptions
from rhocover.errors import InvalidArgumentError, InvalidDataError, RhocoverError
from tiers import tiered


class Here:
    """An executor that runs every call at once, here; the first `break_first` calls fail."""

    def __init__(self, break_first: int = 0) -> None:
        self.left, self.calls = break_first, []

    def submit(self, function: Any, *args: Any) -> Future:
        future: Future = Future()
        self.calls.append((function, args))
        if self.left:
            self.left -= 1
            future.set_exception(OSError("the node is gone"))
            return future
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def counted(data: Any, executor: Any = None, size: int = 50, **options: Any) -> rc.Tally:
    """Returns the tally in ranges of `size` rows."""
    return read_ranges(data, ReadOptions(executor=executor or Here(), **options), size).tally


def write_parts(folder: Path, num_rows: int = 900, group: int = 70) -> Path:
    """Writes a stream as five Parquet files, one of them empty, in row groups that fit to nothing."""
    table = pa.table(random_stream(3, num_rows, 6).columns)
    place = folder / "parts"
    place.mkdir()
    cuts = [0, 250, 250, 251, 600, num_rows]
    for k, (begin, end) in enumerate(itertools.pairwise(cuts)):
        parquet.write_table(table[begin:end], place / f"part-{k + 6}.parquet", row_group_size=group)
    return place


@pytest.mark.parametrize("size", tiered([1, 50, 10**6], short=[50]))
def test_a_folder_of_parts_is_one_stream_in_any_ranges(tmp_path: Path, size: int) -> None:
    place = write_parts(tmp_path)
    assert counted(place, size=size).digest() == read_tally(place).digest()


NOT_FILES = ("Minari's folder", "saved Dataset", "saved DatasetDict")  # folders with files of their own kind


@pytest.mark.parametrize("form", tiered(sorted({*FILES} - {*NOT_FILES}), short=["csv with episodes, pandas"]))
def test_every_form_of_file_is_counted_as_by_one_process(tmp_path: Path, form: str) -> None:
    data = FILES[form][1](tmp_path)
    found, expected = counted(data, size=20), read_tally(data)
    assert found.digest() == expected.digest()
    assert (found.remarks, found.source) == (expected.remarks, expected.source)
    assert found.action_names == expected.action_names


@pytest.mark.parametrize("form", tiered(NOT_FILES, short=["saved Dataset"]))
def test_folders_of_other_kinds_are_refused(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    with pytest.raises(InvalidArgumentError, match="`executor` counts files") as error:
        audit(FILES[form][1](tmp_path), executor=Here())
    assert error.value.argument == "executor"


def episodes(seed: int = 0, num_rows: int = 400) -> pd.DataFrame:
    """Returns steps without next states, of episodes that end, are cut, or just stop."""
    stream = random_stream(seed, num_rows)
    names = np.array(["ape", "bee", "cat", "dog"])
    episode = np.cumsum(np.random.default_rng(seed).random(num_rows) < 0.1)
    return pd.DataFrame({"s": names[stream.s], "a": names[stream.a], "episode": episode,
                         "terminated": stream.terminated, "truncated": stream.truncated})  # fmt: skip


@pytest.mark.parametrize("columns", [
    ["s", "a", "episode"], ["s", "a", "terminated", "truncated"], ["s", "a", "episode", "terminated"],
])  # fmt: skip
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_that_depend_on_their_neighbours_are_surveyed_first(
    tmp_path: Path, columns: list[str], kind: str
) -> None:
    frame = episodes()[columns]
    for k, begin in enumerate(range(0, 400, 90)):
        part, place = pd.DataFrame(frame[begin : begin + 90]), tmp_path / f"{k}.{kind}"
        if kind == "csv":
            part.to_csv(place, index=False)
        else:
            part.to_parquet(place, row_group_size=17)
    found, expected = counted(tmp_path, size=1), read_tally(tmp_path)
    assert (found.digest(), found.remarks) == (expected.digest(), expected.remarks)
    assert found.keys == expected.keys == ("ape", "bee", "cat", "dog")


def test_what_fails_is_tried_again_and_counted_once(tmp_path: Path) -> None:
    place = write_parts(tmp_path)
    assert counted(place, Here(break_first=3)).digest() == read_tally(place).digest()


def test_what_fails_four_times_is_an_error_with_the_part_and_the_cause(tmp_path: Path) -> None:
    place = write_parts(tmp_path)
    words = r"part-6\.parquet, row 0 to row 69, failed in the executor; it was tried 4 times.*node is gone"
    with pytest.raises(RhocoverError, match=words):
        counted(place, Here(break_first=10**6), size=50)


def test_an_error_about_the_data_is_not_tried_again(tmp_path: Path) -> None:
    table = pa.table({"s": [0, 1, 1, -1], "a": [0] * 4, "s_next": [1] * 4, "done": [False] * 4})
    parquet.write_table(table, tmp_path / "one.parquet", row_group_size=2)
    executor = Here()
    with pytest.raises(InvalidDataError, match="must be whole numbers from 0, got -1 in row 3"):
        counted(tmp_path / "one.parquet", executor, size=2)
    assert len(executor.calls) == 2


def test_what_travels_is_plain(tmp_path: Path) -> None:
    """A path and row numbers: no open file, no table, no closure."""
    executor = Here()
    counted(write_parts(tmp_path), executor)
    for function, args in executor.calls:
        assert function.__module__ == "rhocover.datasets.ranges"
        assert function.__qualname__ == function.__name__
        assert isinstance(args[0].path, str)


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    place = write_parts(tmp_path) / "part-6.parquet"

    class Shortens(Here):
        def submit(self, function: Any, *args: Any) -> Future:
            parquet.write_table(parquet.read_table(place)[:100], place)
            return super().submit(function, *args)

    with pytest.raises(InvalidDataError, match="changed while it was read"):
        counted(place, Shortens(), size=1000)


@pytest.mark.parametrize(("data", "options", "words"), [
    ({"s": [0], "a": [0], "s_next": [0], "done": [True]}, {}, "counts files.*got data of type dict"),
    ("parts", {"states": rc.Bins(3, low=0.0, high=1.0)}, "`states` encodes them.*Leave `executor` out"),
    ("parts", {"executor": 3}, r"must have a method submit\(function, \*args\).*got int"),
])  # fmt: skip
def test_what_cannot_be_counted_in_ranges_is_refused_with_the_way_out(
    tmp_path: Path, data: Any, options: dict[str, Any], words: str
) -> None:
    write_parts(tmp_path)
    data = tmp_path / data if isinstance(data, str) else data
    with pytest.raises(InvalidArgumentError, match=words):
        audit(data, **{"executor": Here(), **options})


def test_an_audit_through_threads_is_the_audit_of_one_process(tmp_path: Path) -> None:
    place = write_parts(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        through = audit(place, executor=pool)
    alone = audit(place)
    assert through.tally.digest() == alone.tally.digest()
    assert str(through) == str(alone)


@pytest.mark.thorough
def test_processes_count_as_one_does(tmp_path: Path) -> None:
    place = write_parts(tmp_path)
    with ProcessPoolExecutor(2) as pool:
        found = read_ranges(place, ReadOptions(executor=pool), 100).tally
    assert found.digest() == read_tally(place).digest()


@pytest.mark.thorough
def test_a_pool_whose_process_was_killed_is_an_error_with_the_cause(tmp_path: Path) -> None:
    place = write_parts(tmp_path)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(os._exit, 1)
        with pytest.raises(RhocoverError, match=r"part-6.*BrokenProcessPool"):
            read_tally(place, executor=pool)
