"""Of an HDF5 file only what the file itself holds is read, and never more than its bytes account for."""

from __future__ import annotations

import json
import os

import h5py
import numpy as np
import pytest
from gymnasium import spaces
from minari_sets import GRID, assert_same, episodes_of, grid, random_flat, write

import rhocover as rc
from rhocover.datasets.minari import hdf5_objects, hdf5_reading
from rhocover.datasets.minari.files import open_minari
from rhocover.errors import InvalidDataError
from tiers import tiered

LENGTHS = (3, 1, 5)


@pytest.fixture
def folder(tmp_path):
    """Returns a whole data set of three episodes with 3, 1 and 5 steps."""
    return write(tmp_path / "set", grid(LENGTHS))


@pytest.fixture
def secret(tmp_path):
    """Returns a file beside the data set whose bytes, and whose columns, would pass for states."""
    place = tmp_path / "secret.hdf5"
    with h5py.File(place, "w") as file:
        group = file.create_group("episode_0")
        for name, form in (("observations", "i8"), ("actions", "i8"), ("rewards", "f8")):
            group[name] = np.zeros(3 + (name == "observations"), form)
        group["terminations"] = group["truncations"] = np.zeros(3, bool)
    return place


def data(folder):
    return folder / "data" / "main_data.hdf5"


def without(group, name):
    """Removes a column; returns its group."""
    del group[name]
    return group


def put_together(group, name, source, **room):
    layout = h5py.VirtualLayout(shape=(3,), dtype="i8", **room)
    other = h5py.VirtualSource(str(source), "episode_0/actions", shape=(3,), **room)
    rows = slice(0, h5py.h5s.UNLIMITED) if room else slice(0, 3)
    layout[rows] = other[rows]
    without(group, name).create_virtual_dataset(name, layout)


def packed(group, name, code):
    """Writes a column with a filter of any number, which may be left out where it is unknown."""
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((3,))
    made.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (3,))
    space = h5py.h5s.create_simple((3,))
    column = h5py.h5d.create(without(group, name).id, name.encode(), h5py.h5t.NATIVE_INT64, space, made)
    column.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(3, np.int64))


OUTSIDE = {
    "a link of an episode to another file": (
        lambda file, secret: without(file, "episode_0").__setitem__(
            "episode_0", h5py.ExternalLink(str(secret), "/episode_0")
        ),
        "episode 0: the episode is a link to another file, '.*secret.hdf5'",
    ),
    "a link of a column to another file": (
        lambda file, secret: without(file["episode_0"], "actions").__setitem__(
            "actions", h5py.ExternalLink(str(secret), "/episode_0/actions")
        ),
        "episode 0: `actions` is a link to another file, '.*secret.hdf5'",
    ),
    "a column in the bytes of another file": (
        lambda file, secret: without(file["episode_0"], "observations").create_dataset(
            "observations", shape=(4,), dtype="i8", external=[(str(secret), 8, 32)]
        ),
        "episode 0: `observations` has its numbers in another file, '.*secret.hdf5'",
    ),
    "a column put together from another file": (
        lambda file, secret: put_together(file["episode_0"], "actions", secret),
        "episode 0: `actions` is assembled from other files",
    ),
    "a column put together without an end": (
        lambda file, secret: put_together(file["episode_0"], "actions", secret, maxshape=(None,)),
        "episode 0: `actions` is assembled from other files",
    ),
    "a soft link of an episode": (
        lambda file, secret: (
            file.move("episode_0", "elsewhere"),
            file.__setitem__("episode_0", h5py.SoftLink("/elsewhere")),
        ),
        "episode 0: the episode is a soft link",
    ),
    "a soft link of a column": (
        lambda file, secret: (
            file["episode_0"].move("actions", "elsewhere"),
            file["episode_0"].__setitem__("actions", h5py.SoftLink("elsewhere")),
        ),
        "episode 0: `actions` is a soft link",
    ),
    "a filter that is a program": (
        lambda file, secret: packed(file["episode_0"], "actions", 32015),
        "episode 0: `actions` is packed with the HDF5 filter 32015.*Supported filters: gzip",
    ),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_nothing_outside_the_file_is_followed(folder, secret, case):
    change, words = OUTSIDE[case]
    with h5py.File(data(folder), "a") as file:
        change(file, secret)
    for read in (rc.audit, lambda place: list(open_minari(place).columns())):
        with pytest.raises(InvalidDataError, match=words):
            read(folder)


def test_a_link_of_a_group_within_an_episode_is_not_followed(tmp_path, secret):
    space = spaces.Dict(room=spaces.Dict(x=spaces.Discrete(4)))
    folder = write(
        tmp_path / "nested",
        grid() | {"observations": {"room": {"x": np.zeros(12, int)}}},
        observation_space=space,
    )
    with h5py.File(data(folder), "a") as file:
        outer = without(file["episode_0/observations"], "room")
        outer["room"] = h5py.ExternalLink(str(secret), "/episode_0")
    with pytest.raises(InvalidDataError, match="`observations/room/x` is a link to another file"):
        list(open_minari(folder).columns())


def test_a_link_of_a_kind_that_a_program_defines_is_not_followed(folder):
    with h5py.File(data(folder), "a") as file:
        without(file["episode_0"], "actions")["actions"] = h5py.ExternalLink("other", "/x")
    payload = data(folder).read_bytes()
    at = payload.index(b"\x40\x07actions")  # the kind, and the length of the name: IV.A.2.g of the format
    data(folder).write_bytes(payload[:at] + b"\xc8" + payload[at + 1 :])
    with pytest.raises(InvalidDataError, match="`actions` is a link of a kind that HDF5 does not know"):
        list(open_minari(folder).columns())


@pytest.mark.parametrize(
    "settings",
    [
        {"compression": "gzip", "shuffle": True},
        {"compression": "lzf", "fletcher32": True},
        {"dtype": "named"},
    ],
)
def test_what_hdf5_itself_can_unpack_is_read(folder, settings):
    with h5py.File(data(folder), "a") as file:
        before = file["episode_0/actions"][()]
        if "dtype" in settings:
            file["named"] = np.dtype("i8")
            settings = {"dtype": file["named"]}
        without(file["episode_0"], "actions").create_dataset("actions", data=before, **settings)
    assert_same(next(open_minari(folder).episodes()).actions, before)


def test_references_to_other_objects_are_no_numbers(folder):
    with h5py.File(data(folder), "a") as file:
        to = np.array([file.ref] * 3, h5py.ref_dtype)
        without(file["episode_0"], "actions").create_dataset("actions", data=to, dtype=h5py.ref_dtype)
    with pytest.raises(InvalidDataError, match="`actions` has dtype object"):
        list(open_minari(folder).columns())


# ------------------------------------------------------------------------------- what stands in a file's place


@pytest.mark.parametrize("name", ["main_data.hdf5", "metadata.json"])
@pytest.mark.parametrize(
    ("put", "words"),
    [
        (lambda place, secret: os.mkfifo(place), "a pipe|without a Minari data set"),
        (lambda place, secret: place.symlink_to("/dev/zero"), "leads out of its folder|without a Minari"),
        (lambda place, secret: place.mkdir(), "is a folder|without a Minari"),
        (lambda place, secret: place.symlink_to(place.name), "cannot be read|without a Minari"),
        (lambda place, secret: place.symlink_to(secret), "leads out of its folder, to .*secret"),
        (lambda place, secret: place.symlink_to(f"../../{secret.name}"), "leads out of its folder"),
    ],
)
def test_a_data_set_whose_file_is_no_file_of_its_folder_is_refused(folder, secret, name, put, words):
    place = folder / "data" / name
    if name == "metadata.json":
        secret.write_bytes(place.read_bytes())
    place.unlink()
    put(place, secret)
    with pytest.raises(InvalidDataError, match=words):
        rc.audit(folder)


def test_a_link_within_the_folder_is_a_file_of_it(folder):
    data(folder).rename(folder / "data" / "other")
    data(folder).symlink_to("other")
    assert rc.audit(folder).tally.num_steps == 9


def test_a_folder_may_be_reached_by_a_link(folder, tmp_path):
    (tmp_path / "short").symlink_to(folder)
    assert rc.audit(tmp_path / "short").tally.num_steps == 9


# -------------------------------------------------------------------------------------- claims, and long episodes


def limited(empty):
    """Returns a function that makes small arrays only."""

    def make(shape, *rest, **more):
        assert np.prod(shape, dtype=float) < 10**5, f"room was made for {shape}"
        return empty(shape, *rest, **more)

    return make


def claiming(folder, shape, steps=None, **settings):
    """Makes every column of a data set of one episode claim so many rows, and the metadata, too."""
    with h5py.File(data(folder), "w") as file:
        group = file.create_group("episode_0")
        for name, form in (("observations", "i8"), ("actions", "i8"), ("rewards", "f8")):
            group.create_dataset(name, (shape + (name == "observations"),), form, **settings)
        for name in ("terminations", "truncations"):
            group.create_dataset(name, (shape,), "i1", **settings)
    place = folder / "data" / "metadata.json"
    changes = {"total_episodes": 1, "total_steps": shape if steps is None else steps}
    place.write_text(json.dumps(json.loads(place.read_text()) | changes))


@pytest.mark.parametrize("rows", [2 * 10**8, 10**12])
def test_numbers_that_were_never_written_are_refused_before_room_is_made_for_them(folder, rows, monkeypatch):
    claiming(folder, rows, chunks=(2**16,), compression="gzip")
    monkeypatch.setattr(hdf5_objects.np, "empty", limited(np.empty))
    with pytest.raises(
        InvalidDataError, match=r"claims \d+ bytes of numbers, but the file of \d+ bytes stores 0"
    ):
        rc.audit(folder)


def test_an_episode_of_more_steps_than_all_have_is_refused_before_it_is_read(folder, monkeypatch):
    claiming(folder, 10**6, steps=9, chunks=(2**16,), compression="gzip")
    monkeypatch.setattr(hdf5_objects.np, "empty", limited(np.empty))
    with pytest.raises(
        InvalidDataError, match="episode 0 claims 1000000 steps, but according to the metadata"
    ):
        rc.audit(folder)


def test_chunks_too_large_to_be_unpacked_are_refused(folder, monkeypatch):
    monkeypatch.setattr(hdf5_objects, "MOST_CHUNK", 2**16)
    claiming(folder, 10**5, chunks=(10**5,), compression="gzip")
    with pytest.raises(InvalidDataError, match="stored in chunks of 800000 bytes; at most 65536"):
        rc.audit(folder)


def test_more_episodes_than_there_are_take_no_room(folder):
    place = folder / "data" / "metadata.json"
    for number, words in (
        (10**12, "has 3 episodes, expected 10"),
        (10**400, "must have 'total_episodes' as int"),
    ):
        changes = {"total_episodes": number, "total_steps": number}
        place.write_text(json.dumps(json.loads(place.read_text()) | changes))
        with pytest.raises(InvalidDataError, match=words):
            rc.audit(folder)


@pytest.mark.parametrize("most", tiered([26, 60, 200, 10**6]))
def test_an_episode_read_in_parts_is_the_episode(tmp_path, monkeypatch, most):
    flat = grid((3, 40, 1, 17, 2))
    folder = write(tmp_path / "long", flat)
    whole = rc.audit(folder).tally
    monkeypatch.setattr(hdf5_reading, "CHUNK_BYTES", most)
    source = open_minari(folder)
    for came, wanted in zip(source.episodes(), episodes_of(flat), strict=True):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            assert_same(getattr(came, name), np.asarray(getattr(wanted, name)))
        assert came.seed == wanted.seed
    pieces = list(source.pieces())
    assert all(len(piece.rewards) * 26 <= max(26, most) or len(piece) > 1 for piece in pieces)
    tally = rc.audit(folder).tally
    for name in ("num_steps", "num_episodes", "num_truncated", "num_jumps", "keys"):
        assert getattr(tally, name) == getattr(whole, name)
    assert (tally.moves != whole.moves).nnz == 0
    assert np.array_equal(tally.starts, whole.starts)


def test_pictures_are_read_in_parts_too(tmp_path, monkeypatch):
    import io

    from PIL import Image

    space = spaces.Box(0, 255, (32, 40, 3), np.uint8)
    flat = random_flat(space, GRID["action_space"], (5,))
    folder = write(tmp_path / "set", flat, observation_space=space)
    with h5py.File(data(folder), "a") as file:
        rows = without(file["episode_0"], "observations").create_dataset(
            "observations", (6,), h5py.vlen_dtype(np.uint8)
        )
        for number, frame in enumerate(flat["observations"]):
            buffer = io.BytesIO()
            Image.fromarray(frame).save(buffer, "JPEG")
            rows[number] = np.frombuffer(buffer.getvalue(), np.uint8)
    whole = next(open_minari(folder).columns()).observations
    monkeypatch.setattr(hdf5_reading, "CHUNK_BYTES", 10_000)
    assert len(list(open_minari(folder).pieces())) == 3
    assert_same(next(open_minari(folder).columns()).observations, whole)


def test_a_picture_of_another_size_is_refused_before_it_is_unpacked(tmp_path):
    import io

    from PIL import Image

    space = spaces.Box(0, 255, (32, 40, 3), np.uint8)
    folder = write(tmp_path / "set", random_flat(space, GRID["action_space"], (1,)), observation_space=space)
    buffer = io.BytesIO()
    Image.new("RGB", (40, 32)).save(buffer, "JPEG")
    small = bytearray(buffer.getvalue())
    at = small.index(b"\xff\xc0") + 5  # of the frame: height and width, two bytes each
    small[at : at + 4] = (20_000).to_bytes(2, "big") * 2
    with h5py.File(data(folder), "a") as file:
        rows = without(file["episode_0"], "observations").create_dataset(
            "observations", (2,), h5py.vlen_dtype(np.uint8)
        )
        rows[0] = rows[1] = np.frombuffer(bytes(small), np.uint8)
    with pytest.raises(InvalidDataError, match="an image of 20000 x 20000 pixels; its space has 32 x 40"):
        list(open_minari(folder).columns())
