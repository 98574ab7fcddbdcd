"""Arrow and Parquet folders are read from their own files, and never for more than their steps take."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.dataset as dataset
import pytest
from gymnasium import spaces
from minari_sets import GRID, assert_same, write

import rhocover as rc
from rhocover.datasets.minari import hdf5_reading
from rhocover.datasets.minari.files import open_minari
from rhocover.errors import InvalidDataError
from tiers import tiered

FORMS = {"observations": "i8", "actions": "i8", "rewards": "f8", "terminations": "?", "truncations": "?"}
LENGTHS = (3, 7)


def columns(length, seed=0):
    rng = np.random.default_rng([seed, length])
    return {name: rng.integers(2, size=length + 1).astype(form) for name, form in FORMS.items()} | {
        "terminations": np.zeros(length + 1, bool),
        "truncations": np.arange(length + 1) == length - 1,
    }


def put(folder, index, table, form, length=None, compression=None):
    """Writes the table of an episode, and its metadata."""
    place = folder / "data" / str(index)
    shutil.rmtree(place, ignore_errors=True)
    options = dataset.IpcFileFormat().make_write_options(compression=compression) if compression else None
    dataset.write_dataset(
        pa.table(table),
        place,
        format=form,
        file_options=options,
        max_rows_per_group=10**6,
        max_rows_per_file=10**6,
    )
    about = {"id": index, "total_steps": LENGTHS[index] if length is None else length, "seed": 5 + index}
    (place / "metadata.json").write_text(json.dumps(about))
    return place


@pytest.fixture(params=["arrow", "parquet"])
def form(request):
    return request.param


@pytest.fixture
def folder(tmp_path, form):
    """Returns a data set of two episodes of 3 and 7 steps."""
    flat = {"observations": np.zeros(12, int), "actions": np.zeros(10, int), "rewards": np.zeros(10), "terminations": np.zeros(10, bool),
            "truncations": np.zeros(10, bool), "lengths": LENGTHS}  # fmt: skip
    path = write(tmp_path / "set", flat)
    (path / "data" / "main_data.hdf5").unlink()
    for index, length in enumerate(LENGTHS):
        put(path, index, columns(length), form)
    edit(path, data_format=form)
    return path


def edit(path, **changes):
    place = path / "data" / "metadata.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | changes))


@pytest.mark.parametrize("most", tiered([10, 100, 10**6]))
def test_an_episode_is_its_rows_whatever_the_parts_in_which_they_come(folder, monkeypatch, most):
    whole = rc.audit(folder).tally
    monkeypatch.setattr(hdf5_reading, "CHUNK_BYTES", most)
    for index, episode in enumerate(open_minari(folder).episodes()):
        wanted = columns(LENGTHS[index])
        assert episode.seed == 5 + index
        assert_same(episode.observations, wanted["observations"])
        for name in ("actions", "rewards", "terminations", "truncations"):
            assert_same(getattr(episode, name), wanted[name][:-1])
    tally = rc.audit(folder).tally
    assert (tally.num_episodes, tally.num_steps, tally.num_truncated) == (2, 10, 2)
    assert (tally.moves != whole.moves).nnz == 0


def test_what_stands_beside_the_steps_is_not_read(folder, form):
    put(folder, 1, columns(7) | {"infos": pa.array([{"x": [1]}] + [{"x": [1, 2]}] * 7)}, form)
    assert rc.audit(folder).tally.num_steps == 10


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_more_bytes_than_the_steps_take_are_refused_before_they_are_unpacked(folder, form, compression):
    if form == "parquet":
        pytest.skip("Parquet says it in its footer")
    put(
        folder,
        1,
        columns(7) | {"actions": pa.array([np.zeros(2**20, int)] + [[0]] * 7)},
        form,
        None,
        compression,
    )
    with pytest.raises(
        InvalidDataError, match=r"episode 1 .*it claims \d+ bytes of numbers; its steps take at most"
    ):
        rc.audit(folder)
    put(folder, 1, columns(7), form, None, compression)
    assert rc.audit(folder).tally.num_steps == 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actions": pa.array([[0, 1]] * 8)}, "`actions` must be lists of 1 numbers"),
        ({"actions": pa.array([[0, 1], []] * 4)}, "`actions` must be lists of 1 numbers"),
        ({"actions": pa.array(["x"] * 8)}, "`actions` has type string, expected numbers"),
        ({"actions": pa.array([None] * 8, pa.int64())}, "`actions` has type int64, expected numbers"),
        (
            {"terminations": pa.array([[True, False]] * 8)},
            "`terminations` must be lists|`terminations` has type",
        ),
        ({"rewards": pa.array([1] * 8).cast(pa.decimal128(30, 2))}, "`rewards` has type decimal128"),
        ({"observations": pa.array(["a"] * 8).dictionary_encode()}, "episode 1"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(folder, form, change, words):
    put(folder, 1, columns(7) | change, form)
    with pytest.raises(InvalidDataError, match=words):
        rc.audit(folder)


@pytest.mark.parametrize("length", [0, -1, 6, 8, 11, 10**400, 7.0, None])
def test_an_episode_has_the_rows_that_its_metadata_says(folder, form, length):
    put(folder, 1, columns(7), form, "x" if length is None else length)
    with pytest.raises(InvalidDataError, match=r"episode 1: it (has|must have) .* (rows|steps)"):
        rc.audit(folder)


def test_a_folder_or_a_file_that_leads_elsewhere_is_refused(folder, tmp_path):
    file = next(path for path in (folder / "data" / "1").iterdir() if path.suffix != ".json")
    shutil.move(file, tmp_path / "away")
    file.symlink_to(tmp_path / "away")
    with pytest.raises(InvalidDataError, match=r"episode 1: .*cannot be read: it leads out of its folder"):
        rc.audit(folder)
    file.unlink()
    shutil.move(tmp_path / "away", file)
    shutil.move(folder / "data" / "1", tmp_path / "episode")
    (folder / "data" / "1").symlink_to(tmp_path / "episode")
    with pytest.raises(InvalidDataError, match=r"episode 1 .*it leads out of its folder"):
        rc.audit(folder)


@pytest.mark.parametrize("number", [10**9, 10**15])
def test_episodes_that_are_not_there_take_no_room(folder, number):
    edit(folder, total_episodes=number, total_steps=number)
    with pytest.raises(InvalidDataError, match="episode 2 is missing or damaged"):
        rc.audit(folder)


def test_nested_spaces_are_fields_of_fields(tmp_path, form):
    space = spaces.Dict(
        a=spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2, 2)))), b=spaces.MultiBinary(3)
    )
    rng = np.random.default_rng(1)
    flat = {
        "observations": {
            "a": (rng.integers(3, size=9), rng.random((9, 2, 2)).astype(np.float32)),
            "b": rng.integers(2, size=(9, 3)).astype(np.int8),
        },
        "actions": rng.integers(4, size=8), "rewards": rng.random(8), "terminations": np.zeros(8, bool),
        "truncations": np.zeros(8, bool), "lengths": (8,),
    }  # fmt: skip
    path = write(tmp_path / "nested", flat, **(GRID | {"observation_space": space}))
    (path / "data" / "main_data.hdf5").unlink()
    first, second = flat["observations"]["a"]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(second.ravel()), 4)
    inner = pa.StructArray.from_arrays([pa.array(first), lists], names=["0", "1"])
    bits = pa.FixedSizeListArray.from_arrays(pa.array(flat["observations"]["b"].ravel()), 3)
    seen = pa.StructArray.from_arrays([inner, bits], names=["a", "b"])
    steps = {name: np.append(flat[name], flat[name][:1]) for name in list(FORMS)[1:]}
    put(path, 0, steps | {"observations": seen}, form, 8)
    edit(path, data_format=form)
    assert_same(next(open_minari(path).columns()).observations, flat["observations"])
