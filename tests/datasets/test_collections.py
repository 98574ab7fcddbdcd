"""A collection on disk: whoever reads Parquet reads its steps, only the manifest counts, and harm is named."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import polars as pl
import pytest
from gymnasium import spaces

import rhocover as rc
from rhocover.collecting import log
from rhocover.datasets import read_tally
from rhocover.datasets.collection.manifest import load_manifest, read_space, space_document
from rhocover.datasets.collection.source import open_collection
from rhocover.errors import FileFormatError, InvalidArgumentError, InvalidDataError

MAKERS: dict[str, Any] = {
    "one": lambda: gym.make("FrozenLake-v1", max_episode_steps=20),
    "three": lambda: gym.make_vec("FrozenLake-v1", num_envs=3, max_episode_steps=20),
}


@pytest.fixture(scope="module", params=list(MAKERS))
def lake(request, tmp_path_factory):
    """Returns a collection of 700 steps in rounds of 128."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "ROUND", 128)
        out = tmp_path_factory.mktemp("lake") / "data"
        return rc.collect(MAKERS[request.param](), 2.0, 700, out=out, model="learned")


@pytest.fixture
def copy(lake, tmp_path):
    """Returns the folder of a copy, to write to."""
    return Path(shutil.copytree(lake.path, tmp_path / "data"))


def part_of(folder: Path) -> Path:
    return folder / "parts" / load_manifest(folder).parts[1].name


@pytest.mark.parametrize("name", ["", "parts", "parts/*.parquet", "parts/part-*.parquet"])
def test_a_collection_has_the_same_counts_by_each_of_its_names(lake, name):
    expected = lake.tally.digest()
    assert read_tally(lake.path / name).digest() == expected
    with ThreadPoolExecutor(2) as pool:
        assert read_tally(lake.path / name, executor=pool).digest() == expected
        assert rc.audit(lake.path / name, executor=pool).verdict == rc.audit(lake.path).verdict


def test_parts_without_their_manifest_have_the_same_counts(lake, tmp_path):
    shutil.copytree(lake.path / "parts", tmp_path / "parts")
    loose, whole = read_tally(tmp_path / "parts"), lake.tally
    assert loose.counts.tolist() == whole.counts.tolist()
    assert (loose.moves != whole.moves).nnz == 0
    assert (loose.starts.tolist(), loose.ends.tolist()) == (whole.starts.tolist(), whole.ends.tolist())


def test_some_parts_are_a_table_of_their_own(lake):
    first = load_manifest(lake.path).parts[0]
    assert read_tally(lake.path / "parts" / first.name).num_steps == first.rows
    assert read_tally(f"{lake.path}/parts/{first.name[:-8]}*").num_steps == first.rows


def test_pandas_and_polars_read_the_steps_as_they_are(lake):
    frame = pd.read_parquet(lake.path / "parts")
    other = pl.read_parquet(lake.path / "parts" / "*.parquet")
    assert list(frame.columns) == other.columns == list(lake.load().schema.names)
    assert len(frame) == len(other) == 700
    moves = frame.groupby(["observation", "action", "next_observation"]).size()
    assert moves.sum() == 700
    assert sorted(frame["t"]) == list(range(700))
    for _, steps in frame.sort_values("t").groupby("episode"):
        assert list(steps["step"]) == list(range(len(steps)))
        assert (steps["observation"].to_numpy()[1:] == steps["next_observation"].to_numpy()[:-1]).all()
        assert not (steps["terminated"] | steps["truncated"]).to_numpy()[:-1].any()


def test_a_part_that_the_manifest_does_not_name_does_not_exist(copy):
    expected = read_tally(copy).digest()
    (copy / "parts" / "part-0009-000000.parquet").write_bytes(part_of(copy).read_bytes())
    (copy / "parts" / "part-0009-000001.parquet").write_bytes(b"not even Parquet")
    for name in ("", "parts", "parts/*.parquet"):
        assert read_tally(copy / name).digest() == expected


@pytest.mark.parametrize("harm", ["missing", "cut", "altered", "longer", "a folder"])
def test_a_harmed_part_is_named_with_the_way_out(copy, harm):
    path = part_of(copy)
    whole = path.read_bytes()
    path.unlink()
    if harm == "a folder":
        path.mkdir()
    elif harm != "missing":
        flipped = bytes([*whole[:100], whole[100] ^ 1, *whole[101:]])
        path.write_bytes({"cut": whole[:-50], "altered": flipped, "longer": whole + b"x"}[harm])
    said = rf"the part {path.name} of the collection in .*data.*Copy the part again"
    with pytest.raises(InvalidDataError, match=said):
        rc.audit(copy)
    with pytest.raises(InvalidDataError, match=path.name), ThreadPoolExecutor(1) as pool:
        rc.audit(copy, executor=pool)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parts": []}, "names no part"),
        ({"parts": [{}]}, "cannot be read"),
        ({"is_complete": False}, "is not finished"),
        ({"spaces": {}}, "observation space of .* is damaged"),
        ({"spaces": {"observation": {"kind": "Box", "shape": [10**9, 10**9]}}}, "at most .* numbers"),
        ({"round_steps": "many"}, "round_steps"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_manifest_that_was_changed_is_refused(copy, change, words):
    place = copy / "manifest.json"
    place.write_text(json.dumps(json.loads(place.read_text("utf-8")) | change), "utf-8")
    with pytest.raises((InvalidDataError, FileFormatError), match=words):
        rc.audit(copy)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../part-0000-000000.parquet"},
        {"rows": 0},
        {"first_row": 5},
        {"num_bytes": 2**40},
        {"env": -1},
    ],
)
def test_a_part_that_cannot_be_is_refused(copy, change):
    place = copy / "manifest.json"
    document = json.loads(place.read_text("utf-8"))
    document["parts"][0] |= change
    place.write_text(json.dumps(document), "utf-8")
    with pytest.raises((InvalidDataError, FileFormatError)):
        rc.audit(copy)


def test_a_part_that_leads_out_of_the_folder_is_refused(copy, tmp_path):
    path = part_of(copy)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidDataError, match="leads out of its folder"):
        rc.audit(copy)


def test_codes_of_observations_are_not_counted_in_ranges(tmp_path):
    env = gym.make("MountainCar-v0")
    found = rc.collect(env, 2.0, 100, out=tmp_path / "car", states=rc.Bins((4, 4)), model="learned")
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidArgumentError, match=r"Leave `?executor`? out"):
        rc.audit(found.path, executor=pool)


def test_a_large_observation_is_stored_once_and_the_last_of_an_episode_is_kept(tmp_path):
    env = gym.make("CartPole-v1")
    bins = rc.Bins((2, 2, 2, 2), low=(-3, -4, -1, -4), high=(3, 4, 1, 4))
    found = rc.collect(env, 2.0, 300, out=tmp_path / "pole", states=bins, model="learned")
    frame = found.load().to_table().to_pandas()
    goes_on = (frame["episode"].shift(-1) == frame["episode"]).to_numpy()
    assert (frame["next_observation"].isna().to_numpy() == goes_on).all()
    assert all(len(row) == 4 for row in frame["observation"])
    episodes = list(open_collection(found.path).episodes())
    assert sum(len(episode) for episode in episodes) == 300
    assert all(len(episode.observations) == len(episode) + 1 for episode in episodes)
    shutil.copytree(tmp_path / "pole" / "parts", tmp_path / "loose")
    assert read_tally(tmp_path / "loose", states=bins).counts.tolist() == found.tally.counts.tolist()


LOW, HIGH = np.array([-1, -np.inf], np.float32), np.array([np.inf, 2.5], np.float32)
SPACES = {
    "Discrete": spaces.Discrete(5, start=-2),
    "many": spaces.Discrete(2**62),
    "most": spaces.Discrete(2**63 - 1),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4], start=[1, 0]),
    "MultiBinary": spaces.MultiBinary((2, 3)),
    "Box": spaces.Box(0, 255, (4, 5, 3), np.uint8),
    "bounds": spaces.Box(LOW, HIGH),
    "whole": spaces.Box(-5, 9, (), np.int16),
    "nested": spaces.Dict(z=spaces.Discrete(2), a=spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (1,))))),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_comes_back_from_its_document(name):
    document = json.loads(json.dumps(space_document(SPACES[name]), allow_nan=False))
    assert read_space(document, "it") == SPACES[name]


@pytest.mark.parametrize(
    "document",
    [
        None, 3, [], {}, {"kind": "Text"}, {"kind": "Discrete", "n": 0, "start": 0}, {"kind": "Discrete", "n": 2**70, "start": 0},
        {"kind": "Box", "low": 0, "high": 1, "shape": [-1], "dtype": "float32"}, {"kind": "Tuple", "spaces": {}},
        {"kind": "Box", "low": [0, 0, 0], "high": 1, "shape": [2], "dtype": "float32"},
        {"kind": "Box", "low": 0, "high": 1, "shape": [2], "dtype": "O"}, {"kind": "MultiDiscrete", "nvec": [2], "dtype": "i8"},
        {"kind": "MultiBinary", "n": 10**12}, {"kind": "Box", "low": "x", "high": 1, "shape": [2], "dtype": "float32"},
    ],
)  # fmt: skip
def test_what_is_no_space_is_refused(document):
    with pytest.raises(FileFormatError, match="it is damaged"):
        read_space(document, "it")
