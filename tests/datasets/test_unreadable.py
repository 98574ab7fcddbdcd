"""What cannot be read says what is missing, what is there, and the line that fixes it."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rhocover as rc
from rhocover.datasets import read_tally
from rhocover.errors import InvalidArgumentError, InvalidDataError, MissingExtraError

GOOD = {"s": [0, 1], "a": [0, 1], "s_next": [1, 0], "done": [False, True]}


def said(data: Any, **settings: Any) -> str:
    with pytest.raises(InvalidDataError) as refused:
        read_tally(data, **settings)
    return str(refused.value)


# ------------------------------------------------------------------------------------------- what is missing


def test_a_missing_column_is_named_with_the_columns_there_are_and_the_likeliest() -> None:
    words = said(pd.DataFrame(GOOD).rename(columns={"a": "the_action", "s": "position"}))
    assert "the data lacks `state` and `action`: its columns are position, the_action, s_next, done." in words
    assert (
        'for example columns={"s": "position", "a": "the_action"}, or rename them (state: s, state,' in words
    )


def test_one_column_left_over_is_the_one_that_is_missing() -> None:
    assert 'columns={"a": "u"}' in said({"s": [0], "u": [1], "s_next": [0], "done": [False]})
    assert 'columns={"a": "COLUMN"}' in said({"s": [0], "u": [1], "v": [1], "s_next": [0], "done": [False]})


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("zone", "action", "next_state"), 'columns={"s": "COLUMN", "done": "COLUMN"}'),  # z-one, d-one
        (("zone", "action", "next_zone"), '"s_next": "next_zone", "done": "COLUMN"}'),  # next.done
        (("s", "a", "s_next", "reward"), 'columns={"done": "COLUMN"}'),
        (("s", "a", "s_next", "is_terminal"), 'columns={"done": "is_terminal"}'),
    ],
)
def test_a_state_or_a_reward_is_not_taken_for_done(names, told) -> None:
    assert told in said({name: [0, 1] for name in names})


def test_ends_without_time_limits_do_not_tell_episodes_apart() -> None:
    """Old D4RL data lack timeouts: the row after a time limit is not the next state."""
    words = said({"observations": [0, 1], "actions": [0, 1], "terminals": [False, True]})
    assert "lacks `next_state`: its columns are observations, actions, terminals." in words
    assert (
        "With a column `episode`, or with `terminated` and `truncated`, next states are not needed." in words
    )


def test_the_command_line_says_its_own_option(rhocover: Any) -> None:
    pd.DataFrame(GOOD).rename(columns={"a": "the_action"}).to_csv("it.csv", index=False)
    result = rhocover("audit it.csv")
    assert result.code == 2
    assert "--column a=the_action" in result.err
    assert rhocover("audit it.csv --column a=the_action").code == 0
    assert rhocover("top-up it.csv --steps 5 --column a=the_action").code == 0
    pd.DataFrame(GOOD).assign(state=0).to_csv("two.csv", index=False)
    assert (
        "several columns for state: `s` and `state`. Keep one of them: --column s=s."
        in rhocover("audit two.csv").err
    )
    assert rhocover("audit two.csv --column s=s").code == 0
    for option in ("s", "s=", "=x", "s=x,,y"):
        assert (
            "`--column` must be like s=pos, or s=x,y, got" in rhocover(f"audit it.csv --column {option}").err
        )
    assert "`--column` has s twice. Give it once." in rhocover("audit it.csv --column s=s --column s=a").err
    assert "unknown role of a column" in rhocover("audit it.csv --column colour=s").err


def test_many_files_can_be_typed(rhocover: Any) -> None:
    for k in range(12):
        pd.DataFrame(GOOD).to_csv(f"part-{k}.csv")
    names = " ".join(f"part-{k}.csv" for k in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9))  # as a shell puts them
    result = rhocover(f"audit {names} --json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["audit"]["num_steps"] == 24
    assert rhocover(f"top-up {names} --steps 5").code == 0
    assert "twice" in rhocover("audit part-0.csv part-0.csv").err


# --------------------------------------------------------------------------------------------- what it is not


@pytest.mark.parametrize("name", ["buffer.pkl", "buffer.PICKLE", "data.pt", "data.joblib"])
def test_a_pickle_is_refused_with_the_way_to_pass_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x80\x04.")
    words = said(tmp_path / name)
    assert (
        "A pickle may run anything, so it is never opened. If you trust it, load it in Python and pass"
        in words
    )
    assert "rc.audit(load_from_pkl(path))" in words


def test_a_packed_column_of_rllib_is_a_pickle(tmp_path: Path) -> None:
    batch = {
        "type": "SampleBatch",
        "obs": "BCJNGGhAFAMA",
        "actions": [0],
        "new_obs": "BCJNGGhAFAMA",
        "dones": [False],
    }
    (tmp_path / "output.json").write_text(json.dumps(batch) + "\n")
    words = said(tmp_path / "output.json")
    assert 'is packed by RLlib as a pickle, which is never opened. Write the data with output_config={"compress_columns": []}.' in words  # fmt: skip


def test_folders_without_data_say_what_is_expected(tmp_path: Path) -> None:
    words = said(tmp_path)
    assert (
        "is a folder without a Minari data set (data/metadata.json), and no file in it ends in .npz, .csv"
        in words
    )
    assert f"no file fits '{tmp_path}/*.parquet'" in said(f"{tmp_path}/*.parquet")
    (tmp_path / "a.csv").write_text("s\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    assert f"files of several kinds (.csv, .jsonl), expected one. Name one kind, such as {tmp_path}/*.csv" in said(tmp_path)  # fmt: skip
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "c.csv").mkdir()
    assert "c.csv' is not a file" in said([tmp_path / "c.csv", tmp_path / "d.csv"])
    assert "twice, so its steps would count twice" in said([tmp_path / "a.csv", tmp_path / "a.csv"])


def test_parts_with_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    pd.DataFrame(GOOD).to_csv(tmp_path / "1.csv")
    pd.DataFrame(GOOD).rename(columns={"a": "b"}).to_csv(tmp_path / "2.csv")
    assert "2.csv lacks the column 'a' that " in said(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([{"obs": [0, 1, 2, 3], "acts": [0, 1]}], "episode 0: it has 4 observations and 2 actions"),
        ([{"obs": [0, 1], "moves": [0, 1]}], 'episode 0: it lacks the actions: its columns are obs, moves. Say which columns'),
        ([{"obs": [0, 1, 2], "acts": [0, 1], "dones": [True, False]}], "episode 0: step 0 is marked as done, but others follow"),
        ([{"obs": [0, 1], "acts": [0], "done": True}, {"obs": [0, 1], "acts": [0]}], "episode 1: it must say how it ended"),
        ([{"obs": [0, 1], "acts": [0], "dones": [True, True]}], "`done` must have 1 values, one per action, got 2"),
        ([{"steps": []}], "episode 0: it has no steps"),
        ([{"steps": [{"observation": 0, "action": 1}, {"observation": 0}]}], "episode 0: step 1 lacks 'action'"),
        ([{"steps": [{"observation": 0, "action": 1, "is_last": True}] * 2}], "episode 0: step 0 is marked `is_last`"),
        ([{"steps": [{"observation": 0, "action": 1}]}], "there is nothing to count"),
        ([{"s": 0, "a": 0, "s_next": 1, "done": False}, {"s": 1}], "row 1 must have the columns of the first, s, a, s_next, done"),
        ([], "zero episodes"),
        (iter([1, 2]), "`data` must be columns"),
        ({1, 2}, "`data` must be columns"),
        (b"x", "`data` must be columns"),
        ({"s": [0], "a": [0], "episode": [1]}, "no step whose next state is known"),
    ],
)  # fmt: skip
def test_objects_that_are_no_steps_are_refused(data: Any, message: str) -> None:
    assert message in said(data)


@pytest.mark.parametrize(
    ("name", "payload", "message"),
    [
        ("it.jsonl", b'{"s": 0, "a": 0, "episode": 1}\nnonsense\n', "line 2 is not an object in JSON"),
        ("it.jsonl", b'{"s": 0, "a": 0, "episode": 1}\n{"s": 1, "a": null}\n', "`a` must have a value in every row, got none in line 2"),
        ("it.jsonl", b'{"s": 0, "a": 0, "episode": 1}\n{"s": "x", "a": 0, "episode": 1}\n', "`s` must hold whole numbers, got a mix of int, str"),
        ("it.json", b"[]\n", "line 1 must be an object with the columns, got list"),
        ("it.json", b'{"type": "MultiAgentBatch", "policy_batches": {"a": {}, "b": {}}}\n', "several policies (a, b), expected one"),
        ("it.ndjson", b"\n", "is empty, expected a file of JSON lines"),
        ("it.csv.gz", b"s,a\n0,1\n", "is damaged, or not a CSV file with a header: Not a gzipped file"),
        ("it.csv.gz", gzip.compress(b"s,a,s_next,done\n0,1,1,0\n" * 9, mtime=0)[:-12], "ended before the end-of-stream marker"),
        ("it.arrow", b"ARROW1\0\0", "is damaged, or not an Arrow or Feather file"),
        ("it.feather", b"FEA1" + bytes(20), "it has version 1 of the Feather format; write it again"),
        ("it.hdf5", b"\x89HDF\r\n\x1a\n", "is damaged or not an HDF5 file"),
    ],
)  # fmt: skip
def test_files_that_are_no_steps_are_refused_by_name(
    name: str, payload: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(payload)
    words = said(tmp_path / name)
    assert message in words
    assert name in words


def test_hdf5_reads_only_what_is_in_the_file(tmp_path: Path) -> None:
    """The rules of Minari's files hold for these, too."""
    secret, path = tmp_path / "secret.bin", tmp_path / "it.hdf5"
    secret.write_bytes(bytes(16))
    columns = {name: values for name, values in GOOD.items() if name != "s"}
    changes = {
        "is a link to another file": lambda file: file.__setitem__("s", h5py.ExternalLink(secret, "/s")),
        "is a soft link": lambda file: file.__setitem__("s", h5py.SoftLink("/a")),
        "has its numbers in another file": lambda file: file.create_dataset("s", (2,), "i8", external=[(secret, 0, 16)]),
        "is assembled from other files": lambda file: file.create_virtual_dataset("s", layout()),
        "claims 16777216 bytes of numbers": lambda file: file.create_dataset("s", (2, 2**20), "i8", chunks=(1, 1024)),
        "has 4398046511104 bytes per row": lambda file: file.create_dataset("s", (2, 2**39), "i8", chunks=(1, 1024)),
        "texts or arrays of any length": lambda file: file.__setitem__("s", ["a", "b"]),
        "must be a column": lambda file: file.__setitem__("s", 3),
    }  # fmt: skip

    def layout() -> h5py.VirtualLayout:
        found = h5py.VirtualLayout((2,), "i8")
        found[:] = h5py.VirtualSource(secret, "s", (2,))
        return found

    for message, change in changes.items():
        with h5py.File(path, "w") as file:
            for name, values in columns.items():
                file[name] = values
            change(file)
        words = said(path)
        assert message in words
        assert "it.hdf5" in words


def test_saved_folders_stay_inside_themselves(tmp_path: Path) -> None:
    import datasets

    datasets.Dataset.from_dict(GOOD).save_to_disk(str(tmp_path / "saved"))
    state = json.loads((tmp_path / "saved" / "state.json").read_text())
    for name, message in (
        ("../x.arrow", "leads out of its folder"),
        ("none.arrow", "none.arrow"),
        (3, "must list the Arrow files"),
    ):
        (tmp_path / "saved" / "state.json").write_text(
            json.dumps(state | {"_data_files": [{"filename": name}]})
        )
        assert message in said(tmp_path / "saved")
    (tmp_path / "saved" / "state.json").write_text("{")
    assert "state.json is missing or damaged" in said(tmp_path / "saved")


def test_columns_of_lists_must_be_even(tmp_path: Path) -> None:
    table = pa.table(GOOD | {"s": [[0], [1, 2]]})
    assert "`s` must be one value per row, got rows of different lengths" in said(table)
    assert "`s` must have a value in every row, got none in row 1" in said(pa.table(GOOD | {"s": [0, None]}))


@pytest.mark.parametrize(
    ("module", "extra", "name"),
    [("pyarrow.parquet", "parquet", "it.arrow"), ("pyarrow.parquet", "parquet", "it.feather"), ("h5py", "minari", "it.h5")],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(
    module: str, extra: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'rhocover\[{extra}\]'"):
        read_tally(tmp_path / name)


def test_a_folder_that_is_also_a_minari_id_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    (tmp_path / "root" / "door-v0" / "data").mkdir(parents=True)
    (tmp_path / "root" / "door-v0" / "data" / "metadata.json").write_text("{}")
    (tmp_path / "door-v0").mkdir()
    pd.DataFrame(GOOD).to_csv(tmp_path / "door-v0" / "it.csv")
    with pytest.raises(InvalidArgumentError, match=r"both a Minari id and a folder here. Pass './door-v0'"):
        read_tally("door-v0")
    assert read_tally("./door-v0").num_steps == 2


def test_observations_in_structures_need_a_code() -> None:
    rows = GOOD | {"s": [{"x": 0.0}, {"x": 1.0}], "s_next": [{"x": 1.0}, {"x": 0.0}]}
    assert "`s` must hold whole numbers, got values of type dict" in said(pa.table(rows))
    for data in (pa.table(rows), rows):
        assert read_tally(data, states=lambda seen: seen["x"] > 0.5).counts.tolist() == [[1, 0], [0, 1]]
    columns = GOOD | {"s": {"x": np.array([0.0, 1.0])}, "s_next": {"x": np.array([1.0, 0.0])}}
    assert read_tally(columns, states=rc.Net(0.5, of="x")).counts.tolist() == [[1, 0], [0, 1]]
