"""What is wrong is refused by name and leaves nothing behind; what is damaged is never believed."""

from __future__ import annotations

import errno
import json
import os
import sys

import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from minari_sets import GRID, assert_same, episodes_of, grid, write

from rhocover.datasets.minari import folders, hdf5_file
from rhocover.datasets.minari.files import MinariWriter, open_minari
from rhocover.errors import InvalidArgumentError, InvalidDataError, MissingExtraError
from written_sets import write_minari

DATA = ("data", "main_data.hdf5")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Returns the folder in which Minari looks for ids during a test; never the user's."""
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path):
    """Returns a whole data set of three episodes with 3, 1 and 5 steps."""
    return write(tmp_path / "set", grid())


def read(path):
    return list(open_minari(path).episodes())


def edit(path, **changes):
    """Changes metadata.json; a value of None removes its key."""
    place = path / "data" / "metadata.json"
    document = json.loads(place.read_text()) | changes
    place.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


def add_and_finish(writer):
    with writer:
        writer.add_many(**grid())
        writer.finish()


# ------------------------------------------------------------------------------------------------ writing


def test_an_exception_midway_leaves_nothing(tmp_path):
    def episodes():
        yield from episodes_of(grid())
        raise RuntimeError("the environment fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        write_minari(tmp_path / "set", "test-v0", episodes(), **GRID)
    assert os.listdir(tmp_path) == []


def test_leaving_without_finish_leaves_nothing(tmp_path):
    with MinariWriter(tmp_path / "set", "test-v0", **GRID) as writer:
        writer.add_many(**grid())
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["write", "rename", "fsync"])
def test_a_disk_that_fails_leaves_nothing_and_ends_the_writer(tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.ENOSPC, "no space left")

    writer = MinariWriter(tmp_path / "set", "test-v0", **GRID)
    owner, name = (hdf5_file.EpisodeFile, "_write") if call == "write" else (os, call)
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="no space"):
        add_and_finish(writer)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == []
    with pytest.raises(InvalidArgumentError, match="begin another"):
        writer.add_many(**grid())


def test_an_existing_path_is_never_overwritten_unless_asked(folder):
    before = (folder.joinpath(*DATA)).read_bytes()
    with pytest.raises(InvalidArgumentError, match=r"exists already\. Pass overwrite=True"):
        write(folder, grid((9,)))
    assert (folder.joinpath(*DATA)).read_bytes() == before
    write(folder, grid((9,)), overwrite=True)
    assert [len(episode) for episode in read(folder)] == [9]
    assert os.listdir(folder.parent) == ["set"]


def test_a_path_taken_while_writing_is_not_overwritten(tmp_path):
    writer = MinariWriter(tmp_path / "set", "test-v0", **GRID)
    (tmp_path / "set").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="exists already"):
        add_and_finish(writer)
    assert os.listdir(tmp_path) == ["set"]
    assert (tmp_path / "set").read_text() == "mine"


def test_what_is_replaced_comes_back_if_the_rename_fails(folder, monkeypatch):
    before, rename, calls = (folder.joinpath(*DATA)).read_bytes(), os.rename, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) == 2:  # the old one has moved aside, the new one does not come in
            raise OSError(errno.EIO, "broken")
        rename(source, target)

    monkeypatch.setattr(folders.os, "rename", fail_once)
    with pytest.raises(OSError, match="broken"):
        write(folder, grid((9,)), overwrite=True)
    assert (folder.joinpath(*DATA)).read_bytes() == before
    assert os.listdir(folder.parent) == ["set"]


def test_overwrite_replaces_data_sets_and_nothing_else(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(InvalidArgumentError, match="is not a Minari data set and is not overwritten"):
        write(tmp_path / "thesis", grid(), overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").exists()


@pytest.mark.parametrize("dataset_id", ["test", "../test-v0", "/tmp/test-v0", "a b-v0", "", None, 3])
def test_an_id_that_minari_could_not_load_is_refused(tmp_path, dataset_id):
    with pytest.raises(InvalidArgumentError, match="`dataset_id` must be like 'name-v0'"):
        write(tmp_path / "set", grid(), dataset_id)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": np.zeros(11, int)}, r"`observations` must have shape \(12\), got \(11,\).*T \+ 1"),
        ({"observations": np.zeros((12, 1), int)}, r"`observations` must have shape \(12\), got \(12, 1\)"),
        ({"observations": np.zeros(12)}, "`observations` must hold whole numbers like its space"),
        ({"observations": np.zeros(12, object)}, "`observations` must hold numbers .* got dtype object"),
        ({"observations": np.zeros(12, "U3")}, "`observations` must hold numbers"),
        ({"observations": {"a": 1}}, "`observations` must hold numbers"),
        ({"actions": [[1], [1, 2]]}, "`actions` must be a rectangular array"),
        (
            {"actions": np.full(9, 2**63, np.uint64)},
            "`actions` has dtype uint64 and values that int64, the dtype of this column so far, cannot",
        ),
        ({"rewards": np.zeros(8)}, r"`rewards` must have shape \(9,\), the sum of lengths, got \(8,\)"),
        ({"rewards": np.zeros(9, complex)}, "`rewards` must hold numbers"),
        ({"truncations": np.zeros(9, int)}, "`truncations` must be True or False, got dtype int64"),
        ({"terminations": np.arange(9) == 1}, r"got terminations\[1\] = True; the episode ends at step 2"),
        ({"lengths": [3, 0, 6]}, r"`lengths` must be at least 1, got lengths\[1\] = 0"),
        ({"lengths": []}, "`lengths` must be whole numbers"),
        ({"lengths": [3.0, 6.0]}, "`lengths` must be whole numbers"),
        ({"seeds": [1, 2]}, "`seeds` must be 3 numbers or None, one per episode, got 2"),
        ({"seeds": 5}, "`seeds` must be 3 numbers or None, one per episode, got 5"),
        ({"seeds": [1, -2, None]}, "`seeds` must be whole numbers from 0"),
        ({"seeds": [1, 2**70, None]}, "`seeds` must be whole numbers from 0"),
        ({"seeds": [1, 0.5, None]}, "`seeds` must be whole numbers from 0"),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_the_ones_before_are_kept(tmp_path, changes, words):
    flat = grid()
    with MinariWriter(tmp_path / "set", "test-v0", **GRID) as writer:
        writer.add_many(**flat)
        with pytest.raises(InvalidDataError, match=words):
            writer.add_many(**(flat | changes))
        writer.finish()
    assert_same(next(open_minari(tmp_path / "set").columns()).observations, flat["observations"])


def test_nested_columns_must_be_nested_as_their_space(tmp_path):
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))))
    with MinariWriter(tmp_path / "set", "test-v0", **(GRID | {"observation_space": space})) as writer:
        zeros = np.zeros(12, int)
        with pytest.raises(
            InvalidDataError, match=r"`observations` must be a dict of \['a', 'b'\], got the keys \['a'\]"
        ):
            writer.add_many(**(grid() | {"observations": {"a": zeros}}))
        with pytest.raises(
            InvalidDataError, match="`observations/b` must be a tuple of 2 columns, got ndarray"
        ):
            writer.add_many(**(grid() | {"observations": {"a": zeros, "b": zeros}}))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), "`observations` is Text; expected Discrete"),
        (spaces.Dict(a=spaces.Sequence(spaces.Discrete(2))), "`observations/a` is Sequence"),
        (spaces.Dict({"a/b": spaces.Discrete(2)}), "the key 'a/b', which HDF5 cannot store"),
        ("Discrete", "`observation_space` must be a Gymnasium space"),
    ],
)
def test_a_space_that_is_no_array_of_numbers_is_refused(tmp_path, space, words):
    with pytest.raises(InvalidArgumentError, match=words):
        write(tmp_path / "set", grid(), observation_space=space)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"total_steps": 3}, "`metadata` has the key 'total_steps'; expected algorithm_name"),
        ({"rhocover": float("nan")}, "JSON without nan"),
        ({"rhocover": object()}, "JSON without nan"),
        ({"author": [3]}, r"`metadata\['author'\]` must be text"),
        ({"description": 3}, r"`metadata\['description'\]` must be text"),
    ],
)
def test_metadata_that_no_file_can_hold_is_refused(tmp_path, metadata, words):
    with pytest.raises(InvalidArgumentError, match=words):
        write(tmp_path / "set", grid(), metadata=metadata)
    assert os.listdir(tmp_path) == []


def test_a_data_set_without_episodes_is_not_written(tmp_path):
    with pytest.raises(InvalidDataError, match="no episodes"):
        write_minari(tmp_path / "set", "test-v0", [], **GRID)
    assert os.listdir(tmp_path) == []


def test_an_environment_made_from_a_function_is_left_out_of_the_metadata(tmp_path):
    spec = EnvSpec("Mine-v0", entry_point=lambda: None)
    assert "env_spec" not in open_minari(write(tmp_path / "set", grid(), env_spec=spec)).metadata


# ------------------------------------------------------------------------------------------------ reading


def test_an_unknown_id_names_what_is_near_and_what_is_there(root):
    write(root / "lake" / "covered-v0", grid(), "lake/covered-v0")
    with pytest.raises(InvalidDataError, match=r"Did you mean 'lake/covered-v0'.*Nothing is downloaded"):
        open_minari("lake/coverd-v0")
    assert open_minari("lake/covered-v0").dataset_id == "lake/covered-v0"


def test_a_name_that_is_an_id_and_a_folder_is_not_guessed(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(root / "test-v0", grid((2,)), "test-v0")
    write(tmp_path / "test-v0", grid((4,)), "test-v0")
    with pytest.raises(InvalidArgumentError, match=r"both a Minari id and a folder here\. Pass './test-v0'"):
        open_minari("test-v0")
    assert open_minari("./test-v0").num_steps == 4


@pytest.mark.parametrize("source", [None, 3, ["a"]])
def test_what_is_no_source_is_refused(source):
    with pytest.raises(
        InvalidArgumentError, match="`source` must be a Minari id, a folder or a MinariDataset"
    ):
        open_minari(source)


def test_a_folder_without_a_data_set_is_refused(tmp_path):
    with pytest.raises(
        InvalidDataError, match=r"a folder without a Minari data set: expected data/metadata.json"
    ):
        open_minari(tmp_path)


def test_without_spaces_no_environment_is_built(folder, monkeypatch):
    monkeypatch.setattr("gymnasium.make", lambda *_, **__: pytest.fail("an environment was built"))
    spec = '{"id": "Evil-v0", "entry_point": "os:system", "kwargs": {}, "additional_wrappers": []}'
    edit(folder, observation_space=None, env_spec=spec)
    with pytest.raises(
        InvalidDataError, match=r"has no 'observation_space'\. Minari would build the environment"
    ):
        open_minari(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observation_space": "{}"}, "damaged 'observation_space'"),
        ({"observation_space": '{"type": "Exec"}'}, "damaged 'observation_space'"),
        (
            {"action_space": minari.serialization.serialize_space(spaces.Text(3))},
            "is Text; expected Discrete",
        ),
        ({"total_episodes": 0}, "has no episodes"),
        ({"total_episodes": 4}, "has 3 episodes, expected 4"),
        ({"total_episodes": "3"}, "must have 'total_episodes' as int, got '3'"),
        ({"total_steps": None}, "must have 'total_steps' as int, got None"),
        ({"total_steps": 10}, "holds 9 steps, but its metadata says 10"),
        ({"data_format": "pickle"}, "the format 'pickle', expected hdf5, arrow, parquet"),
        ({"data_format": "arrow"}, "episode 0 is missing or damaged"),
        ({"dataset_id": None}, "must have 'dataset_id' as str"),
    ],
)
def test_metadata_that_is_wrong_is_refused(folder, changes, words):
    edit(folder, **changes)
    with pytest.raises(InvalidDataError, match=words):
        read(folder)


def test_metadata_that_is_no_json_is_refused(folder):
    (folder / "data" / "metadata.json").write_bytes(b"\xff{")
    with pytest.raises(InvalidDataError, match="is damaged: expected JSON"):
        open_minari(folder)


def replaced(name, value):
    def change(group):
        del group[name]
        if value is not None:
            group[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (replaced("actions", None), "episode 1: `actions` is missing"),
        (replaced("actions", np.zeros(2, int)), r"episode 1: `actions` must have shape \(1\), got \(2,\)"),
        (replaced("actions", np.zeros(1)), "episode 1: `actions` must hold whole numbers"),
        (replaced("actions", np.array([b"text"], object)), "episode 1: `actions` has dtype object"),
        (replaced("observations", np.zeros(1, int)), r"episode 1: `observations` must have shape \(2\)"),
        (replaced("rewards", np.zeros((1, 1))), r"episode 1: `rewards` must have shape \(1,\), got \(1, 1\)"),
        (replaced("rewards", np.zeros(0)), "episode 1 has no steps"),
        (replaced("terminations", np.array([7])), "`terminations` must be True or False"),
        (lambda group: (replaced("actions", None)(group), group.create_group("actions")), "is a group"),
        (lambda group: group.parent.move("episode_1", "episode_x"), "episode 1: the episode is missing"),
    ],
)
def test_an_episode_that_does_not_fit_is_refused_by_number_and_column(folder, change, words):
    with h5py.File(folder.joinpath(*DATA), "a") as file:
        change(file["episode_1"])
    with pytest.raises(InvalidDataError, match=words):
        read(folder)


def test_a_file_cut_short_anywhere_is_refused(folder):
    whole = (folder.joinpath(*DATA)).read_bytes()
    for length in range(0, len(whole), 97):
        (folder.joinpath(*DATA)).write_bytes(whole[:length])
        with pytest.raises(InvalidDataError, match="damaged"):
            read(folder)


def test_a_flipped_byte_is_refused_or_changes_values_only(folder):
    whole = (folder.joinpath(*DATA)).read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        (folder.joinpath(*DATA)).write_bytes(damaged)
        try:
            assert [len(episode) for episode in read(folder)] == [3, 1, 5]
        except InvalidDataError:
            continue


def test_a_missing_file_is_named(folder):
    (folder.joinpath(*DATA)).unlink()
    with pytest.raises(InvalidDataError, match=r"main_data\.hdf5` is missing"):
        open_minari(folder)


@pytest.mark.parametrize(
    ("package", "extra"), [("minari", "minari"), ("h5py", "minari"), ("pyarrow", "parquet")]
)
def test_a_missing_package_gives_the_install_line(folder, monkeypatch, package, extra):
    if package == "pyarrow":
        edit(folder, data_format="parquet")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'rhocover\[{extra}\]'"):
        read(folder)
