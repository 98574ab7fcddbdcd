"""What is written comes back, to the bit, through this library and through Minari itself."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from minari.data_collector import EpisodeBuffer
from minari_sets import GRID, assert_same, cut, episodes_of, grid, random_flat, write

from rhocover.datasets.minari import hdf5_reading
from rhocover.datasets.minari.files import MinariWriter, minari_path, open_minari
from written_sets import write_minari

COLUMNS = ("observations", "actions", "rewards", "terminations", "truncations")
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """Returns the folder in which Minari looks for ids during a test; never the user's."""
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


def box(form: str, shape: tuple[int, ...]) -> spaces.Box:
    low, high = (-1, 1) if np.dtype(form).kind == "f" else (np.iinfo(form).min, np.iinfo(form).max)
    return spaces.Box(low, high, shape, np.dtype(form).type)


leaf_spaces = st.one_of(
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 9), st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 9)),
    st.builds(box, st.sampled_from(TYPES), st.lists(st.integers(1, 3), max_size=3).map(tuple)),
)
some_spaces = st.recursive(
    leaf_spaces,
    lambda parts: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "é", "x y", "n" * 300]), parts, min_size=1).map(
            spaces.Dict
        ),
        st.lists(parts, min_size=1, max_size=10).map(lambda several: spaces.Tuple(tuple(several))),
    ),
    max_leaves=12,
)


@pytest.mark.thorough
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(some_spaces, some_spaces, st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 99))
def test_every_space_comes_back_to_the_bit_through_both_readers(tmp_path, seen, done, lengths, seed):
    flat = random_flat(seen, done, lengths, seed)
    path = tmp_path / f"set{len(os.listdir(tmp_path))}"
    write(path, flat, observation_space=seen, action_space=done)
    source, theirs = open_minari(path), minari.MinariDataset(path / "data")
    assert (source.observation_space, source.action_space) == (seen, done)
    assert (theirs.observation_space, theirs.action_space) == (seen, done)
    expected = episodes_of(flat)
    for mine, other, wanted in zip(source.episodes(), theirs, expected, strict=True):
        for name in COLUMNS:
            assert_same(getattr(mine, name), getattr(wanted, name))
            assert_same(getattr(other, name), getattr(wanted, name))
        assert mine.seed == wanted.seed
    about = theirs.storage.get_episode_metadata(range(len(lengths)))
    assert [(m["id"], m["total_steps"], m.get("seed")) for m in about] == [
        (number, len(wanted), wanted.seed) for number, wanted in enumerate(expected)
    ]


def test_columns_in_chunks_are_the_columns_that_were_written(tmp_path):
    flat = grid(np.random.default_rng(1).integers(1, 20, 3000))
    source = open_minari(write(tmp_path / "set", flat))
    parts = list(source.columns(chunk_episodes=700))
    assert [len(part) for part in parts] == [700, 700, 700, 700, 200]
    for name in (*COLUMNS, "lengths"):
        assert_same(np.concatenate([getattr(part, name) for part in parts]), flat[name])
    assert [seed for part in parts for seed in part.seeds] == flat["seeds"]
    assert (source.num_episodes, source.num_steps) == (3000, flat["lengths"].sum())


def test_a_library_can_add_to_any_group_of_the_file(tmp_path):
    space = spaces.Tuple((spaces.Discrete(3),) * 12)
    path = write(
        tmp_path / "set", random_flat(space, space, (2, 3)), observation_space=space, action_space=space
    )
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:
        for number in range(20):
            file["episode_1/actions"][f"more_{number}"] = np.arange(number)
    with h5py.File(path / "data" / "main_data.hdf5") as file:
        assert len(file["episode_1/actions"]) == 32
        assert file["episode_1/actions/_index_11"].shape == (3,)
        assert file["episode_1/actions/more_19"].shape == (19,)


def test_the_file_is_the_same_to_the_bit_whatever_the_pieces(tmp_path):
    lengths = np.random.default_rng(2).integers(1, 9, 2500)
    flat = grid(lengths)
    write(tmp_path / "whole", flat)
    write_minari(tmp_path / "single", "grid/test-v0", episodes_of(flat), **GRID)
    with MinariWriter(tmp_path / "pieces", "grid/test-v0", **GRID) as writer:
        for begin, end in ((0, 1), (1, 1023), (1023, 1030), (1030, 2500)):
            first, last = lengths[:begin].sum(), lengths[:end].sum()
            seen, done = slice(first + begin, last + end), slice(first, last)
            piece = {name: flat[name][done].copy() for name in COLUMNS[1:]}
            piece["observations"] = flat["observations"][seen].copy()
            writer.add_many(**piece, lengths=lengths[begin:end], seeds=flat["seeds"][begin:end])
            for array in piece.values():
                array[:] = 0  # the caller may reuse its arrays
        writer.finish()
    for file in ("main_data.hdf5", "metadata.json"):
        whole, *others = (
            (tmp_path / name / "data" / file).read_bytes() for name in ("whole", "single", "pieces")
        )
        assert all(other == whole for other in others)


def test_minari_loads_samples_filters_splits_and_lists_the_data_set(root):
    flat = grid((3, 1, 5, 4))
    spec = gym.spec("FrozenLake-v1")
    about = {"author": {"b", "a"}, "description": "text", "rhocover": {"rho": 2.0}}
    write(minari_path("lake/deep/test-v3"), flat, "lake/deep/test-v3", env_spec=spec, metadata=about)
    data = minari.load_dataset("lake/deep/test-v3")
    assert (data.total_steps, data.total_episodes, data.env_spec.id) == (13, 4, "FrozenLake-v1")
    assert {len(episode) for episode in data.sample_episodes(4)} == {1, 3, 4, 5}
    assert data.filter_episodes(lambda episode: len(episode) > 3).total_steps == 9
    assert [part.total_episodes for part in minari.split_dataset(data, [3, 1], seed=0)] == [3, 1]
    assert data.storage.metadata["author"] == {"a", "b"}
    assert data.storage.metadata["rhocover"] == {"rho": 2.0}
    assert list(minari.list_local_datasets(compatible_minari_version=True)) == ["lake/deep/test-v3"]
    assert minari.namespace.list_local_namespaces() == ["lake", "lake/deep"]


def test_minari_writes_the_same_keys_about_the_same_episodes(root):
    flat = grid()
    mine = open_minari(write(root / "mine-v0", flat, "mine-v0")).metadata
    theirs = open_minari(theirs_of(flat, "theirs-v0")).metadata
    assert set(mine) == set(theirs)
    for key in set(mine) - {"dataset_id", "jpeg_encoding"}:
        assert mine[key] == theirs[key]


def theirs_of(flat: dict, dataset_id: str, **more) -> minari.MinariDataset:
    """Returns the same episodes as Minari's own writer stores them."""
    buffers = [
        EpisodeBuffer(seed=e.seed, **{name: getattr(e, name) for name in COLUMNS}) for e in episodes_of(flat)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # author, code and so on are missing
        return minari.create_dataset_from_buffers(dataset_id, buffers, **(GRID | more))


def test_minari_appends_to_the_data_set_and_changes_it_without_harm(root):
    flat, more = grid((3, 1, 5)), grid((2, 6), seed=1)
    path = write(root / "test-v0", flat, "test-v0")
    data = minari.load_dataset("test-v0")
    buffers = [EpisodeBuffer(**{n: getattr(e, n) for n in COLUMNS}) for e in episodes_of(more)]
    data.update_dataset_from_buffer(buffers)
    data.storage.update_episode_metadata([{"note": "n" * 500}, {"seed": 7}], [1, 2])
    source = open_minari(path)
    assert (source.num_episodes, source.num_steps) == (5, 17)
    for episode, wanted in zip(source.episodes(), episodes_of(flat) + episodes_of(more), strict=True):
        for name in COLUMNS:
            assert_same(getattr(episode, name), getattr(wanted, name))
    assert [episode.seed for episode in source.episodes()] == [None, 1, 7, None, None]


def test_minari_combines_it_with_another(root):
    first, second = grid((3, 1)), grid((5,), seed=1)
    write(root / "first-v0", first, "first-v0")
    write(root / "second-v0", second, "second-v0")
    both = [minari.load_dataset(name) for name in ("first-v0", "second-v0")]
    minari.combine_datasets(both, "both-v0")
    episodes = list(open_minari("both-v0").episodes())
    for episode, wanted in zip(episodes, episodes_of(first) + episodes_of(second), strict=True):
        assert_same(episode.observations, wanted.observations)


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_what_minari_wrote_is_read_as_minari_reads_it(root, data_format):
    seen = spaces.Dict(
        place=spaces.Box(-9, 9, (2,), np.float32), hands=spaces.Tuple((spaces.Discrete(3),) * 2)
    )
    flat = random_flat(seen, GRID["action_space"], (3, 1, 5))
    data = theirs_of(flat, "ns/theirs-v0", observation_space=seen, data_format=data_format)
    for source in (open_minari("ns/theirs-v0"), open_minari(data), open_minari(root / "ns/theirs-v0")):
        for episode, wanted in zip(source.episodes(), episodes_of(flat), strict=True):
            for name in COLUMNS:
                assert_same(getattr(episode, name), getattr(wanted, name))
            assert episode.seed == wanted.seed


@pytest.mark.parametrize("is_jpeg", [True, False])
def test_pictures_are_read_whether_minari_stored_them_as_jpeg_or_not(is_jpeg):
    space = spaces.Box(0, 255, (32, 40, 3), np.uint8)
    flat = random_flat(space, GRID["action_space"], (3, 2))
    data = theirs_of(flat, "picture-v0", observation_space=space, jpeg_encoding=is_jpeg)
    for mine, theirs in zip(open_minari(data).episodes(), data, strict=True):
        assert_same(mine.observations, theirs.observations)
    assert is_jpeg or np.array_equal(next(open_minari(data).columns()).observations, flat["observations"])


def test_pictures_are_written_without_loss_and_minari_shows_them_so(tmp_path):
    space = spaces.Box(0, 255, (32, 40, 3), np.uint8)
    flat = random_flat(space, GRID["action_space"], (3, 2))
    path = write(tmp_path / "set", flat, observation_space=space)
    theirs = [episode.observations for episode in minari.MinariDataset(path / "data")]
    assert_same(np.concatenate(theirs), flat["observations"])


def test_the_episodes_chosen_in_a_minari_data_set_are_the_ones_read(root):
    flat = grid((3, 1, 5, 2))
    write(root / "test-v0", flat, "test-v0")
    chosen = minari.MinariDataset(root / "test-v0" / "data", np.array([3, 0]))
    source = open_minari(chosen)
    assert (source.num_episodes, source.num_steps) == (2, 5)
    assert [len(episode) for episode in source.episodes()] == [2, 3]
    assert_same(next(source.episodes()).observations, cut(flat["observations"], slice(12, 15)))


def test_memory_holds_a_chunk_even_if_episodes_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_reading, "CHUNK_BYTES", 10_000)
    flat = grid([200] * 50)
    source = open_minari(write(tmp_path / "set", flat))
    sizes = [len(part) for part in source.columns()]
    row = 8 + 8 + 8 + 1 + 1
    assert max(sizes) == -(-10_000 // (200 * row))  # it is full with the episode that reaches its size
    assert sum(sizes) == 50


def test_floats_finer_than_their_space_and_whole_numbers_of_other_sizes_keep_their_values(tmp_path):
    space = spaces.Box(-1, 1, (2,), np.float32)
    flat = random_flat(space, GRID["action_space"], (3,))
    flat["observations"] = np.random.default_rng(0).random((4, 2))
    flat["actions"] = np.array([1, 2, 3], dtype=">i2")
    part = next(open_minari(write(tmp_path / "set", flat, observation_space=space)).columns())
    assert_same(part.observations, flat["observations"])
    assert part.actions.dtype == np.int64
    assert part.actions.tolist() == [1, 2, 3]


def test_opening_and_missing_ids_create_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    with pytest.raises(ValueError, match="nothing-v0"):
        open_minari("nothing-v0")
    assert not os.listdir(tmp_path)
    assert minari_path("ns/b-v0") == Path(tmp_path, ".minari", "datasets", "ns", "b-v0")


def test_the_metadata_file_is_json_that_others_can_read(tmp_path):
    path = write(tmp_path / "set", grid(), metadata={"rhocover": [1, {"a": None}]})
    text = (path / "data" / "metadata.json").read_text()
    assert json.loads(text, parse_constant=lambda _: pytest.fail("not JSON"))["rhocover"] == [1, {"a": None}]
