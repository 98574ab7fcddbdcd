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

from rhocover.datasets.minari import hdf5_reading, hdf5_writing
from rhocover.datasets.minari.files import MinariWriter, minari_path, open_minari
from rhocover.datasets.minari.hdf5_writing import EpisodeColumn, root_group, type_bytes
from rhocover.datasets.minari.reading import source_leaves
from tiers import tiered
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


@pytest.mark.parametrize("form", [*TYPES, "?"])
def test_a_type_is_described_as_h5py_describes_it(tmp_path, form):
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file["x"] = np.zeros(3, form)
    assert type_bytes(np.dtype(form)) in (tmp_path / "theirs.h5").read_bytes()


def test_columns_in_chunks_are_the_columns_that_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(hdf5_reading, "read_episode", None)  # all of it is read in bulk
    flat = grid(np.random.default_rng(1).integers(1, 20, 3000))
    source = open_minari(write(tmp_path / "set", flat))
    parts = list(source.columns(chunk_episodes=700))
    assert [len(part) for part in parts] == [700, 700, 700, 700, 200]
    for name in (*COLUMNS, "lengths"):
        assert_same(np.concatenate([getattr(part, name) for part in parts]), flat[name])
    assert [seed for part in parts for seed in part.seeds] == flat["seeds"]
    assert (source.num_episodes, source.num_steps) == (3000, flat["lengths"].sum())


def test_reading_in_bulk_and_through_h5py_give_the_same(tmp_path, monkeypatch):
    path = write(tmp_path / "set", grid(np.arange(1, 40)))
    in_bulk = next(open_minari(path).columns())
    monkeypatch.setattr(hdf5_reading, "read_episode", None)  # the bulk reader took none of them one by one
    assert_same(next(open_minari(path).columns()).observations, in_bulk.observations)
    monkeypatch.undo()
    monkeypatch.setattr(hdf5_reading, "_record", lambda *_: None)
    one_by_one = next(open_minari(path).columns())
    for name in (*COLUMNS, "lengths"):
        assert_same(getattr(one_by_one, name), getattr(in_bulk, name))
    assert one_by_one.seeds == in_bulk.seeds


def test_the_bulk_reader_takes_an_episode_only_if_every_byte_of_its_header_is_as_written(
    tmp_path, monkeypatch
):
    place = write(tmp_path / "set", grid((3, 1, 5))) / "data" / "main_data.hdf5"
    source = open_minari(tmp_path / "set")
    with h5py.File(place) as file:
        begin = file.id.links.get_info(b"episode_1").u
        template = hdf5_reading._record(file, source_leaves(source), 0).template
    whole, free = place.read_bytes(), set()
    for name, (form, offset, *_) in template.dtype.fields.items():
        if name == "attrs.seed" or name.endswith(".data"):  # any seed, any place of the data in the file
            free |= set(range(offset, offset + form.itemsize))
    monkeypatch.setattr(hdf5_reading, "read_episode", lambda *_: pytest.fail("one by one"))
    assert len(list(source.episodes())) == 3
    for offset in sorted(set(range(template.itemsize)) - free)[::3]:  # every number has more bytes than that
        damaged = bytearray(whole)
        damaged[begin + offset] ^= 0x10
        place.write_bytes(damaged)
        with pytest.raises(pytest.fail.Exception, match="one by one"):
            list(source.episodes())


def test_writing_holds_a_batch_in_memory_and_the_rest_is_in_the_file(tmp_path):
    flat = grid(np.full(5000, 4))
    with MinariWriter(tmp_path / "set", "grid/test-v0", **GRID) as writer:
        writer.add_many(**flat)
        (file,) = tmp_path.glob(".set.*/data/main_data.hdf5")
        written = file.stat().st_size
        writer.finish()
    whole = (tmp_path / "set" / "data" / "main_data.hdf5").stat().st_size
    assert written > 0.75 * whole  # four batches of 1024 out of 5000 episodes, and no index yet


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


@pytest.mark.parametrize("most_bytes", tiered([2**24, 5000]))
def test_the_file_is_the_same_to_the_bit_whatever_the_pieces(tmp_path, monkeypatch, most_bytes):
    monkeypatch.setattr(hdf5_writing, "BATCH_BYTES", most_bytes)
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


@pytest.mark.parametrize("count", [1, 64, 65, 8128, 8192, 8193])
def test_the_index_finds_every_episode_where_leaves_and_tree_nodes_are_just_full(tmp_path, count):
    path = write(tmp_path / "set", grid(np.ones(count, int)))
    with h5py.File(path / "data" / "main_data.hdf5") as file:
        assert sorted(file) == sorted(f"episode_{number}" for number in range(count))
        assert all(f"episode_{number}" in file for number in range(count))
        for number in {0, count // 2, count - 1}:
            assert file[f"episode_{number}"].attrs["id"] == number
    with h5py.File(path / "data" / "main_data.hdf5", "a") as file:  # every leaf that is full gets split
        for number in range(200):
            file.create_group(f"episode_{count + number}")
        assert len(file) == count + 200
        assert all(f"episode_{number}" in file for number in range(0, count, 97))


def test_the_index_has_as_many_levels_as_it_takes():
    body, superblock = root_group(np.zeros(8193, np.int64), 96)
    assert superblock[:8] == b"\x89HDF\r\n\x1a\n"
    assert body.count(b"SNOD\x01") == -(-8193 // 64)
    assert body.count(b"TREE\x00\x00") == 2
    assert body.count(b"TREE\x00\x01") == 1


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
    assert max(sizes) == 10_000 // (200 * row)
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


def test_a_column_knows_its_name_and_size():
    column = EpisodeColumn(("observations", "place"), np.dtype("<f4"), (2, 3), 1)
    assert (column.name, column.row_bytes) == ("observations/place", 24)


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
