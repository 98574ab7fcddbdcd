"""What is held while collecting, writing and auditing is bounded in bytes, whatever an environment shows."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_environments import Failing, Ring, contents, limited, nested_ring, place

import rhocover as rc
from patience import PATIENCE
from rhocover.collecting import log, stepping
from rhocover.datasets.collection import rows
from rhocover.datasets.collection.manifest import load_manifest
from rhocover.datasets.minari import hdf5_reading
from rhocover.environments.encoding import FunctionCode
from rhocover.environments.encoding.watching import Watch
from rhocover.errors import EnvironmentFailedError, OutOfMemoryError
from rhocover.files import tensor_bytes
from rhocover.learning.codes import dimension_of, share_within
from tiers import tiered

LEARNED = {"model": "learned"}
SIDE = 32
FRAME = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)  # 3 KB
ROW = 3 * SIDE * SIDE


def frame(state: int, time: int) -> np.ndarray:
    picture = np.full((SIDE, SIDE, 3), time % 256, np.uint8)
    picture[0, 0, 0] = state
    return picture


def corner(picture: np.ndarray) -> int:
    return int(picture[0, 0, 0])


def frames(ending: float = 0.02) -> Ring:
    return Ring(frame, FRAME, ending=ending)


def rings() -> SyncVectorEnv:
    return SyncVectorEnv([lambda: limited(40), lambda: limited(60)], autoreset_mode=AutoresetMode.SAME_STEP)


SHOWN = {
    "pictures": (frames, {"states": corner}),
    "pictures without an end": (lambda: frames(-1.0), {"states": corner}),
    "numbers": (lambda: Ring(ending=0.01), {}),
    "a Dict": (nested_ring, {"states": place}),
    "a Tuple": (lambda: nested_ring(is_tuple=True), {"states": place}),
    "copies": (rings, {}),
}


def collect(env, out: Path, num_steps: int = 300, **more):
    return rc.collect(env, 2.0, num_steps, out=out, dataset_id="test/set-v0", **LEARNED, **more)


def sizes_of_parts(out: Path) -> list[int]:
    return [part.rows for part in load_manifest(out).parts]


def test_a_part_of_the_log_ends_at_its_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "ROUND_BYTES", 50 * ROW + 1)
    with pytest.raises(EnvironmentFailedError):
        collect(Failing(frames(), 180), tmp_path / "out", states=corner)
    assert sizes_of_parts(tmp_path / "out") == [50, 50, 50, 29]


def test_one_observation_larger_than_a_part_is_a_part(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "ROUND_BYTES", ROW // 2)
    monkeypatch.setattr(stepping, "BATCH_BYTES", ROW // 2)
    with pytest.raises(EnvironmentFailedError):
        collect(Failing(frames(), 5), tmp_path / "out", states=corner)
    assert sizes_of_parts(tmp_path / "out") == [1, 1, 1, 1]


@pytest.mark.parametrize("at", tiered([49, 51, 101, 240]))
@pytest.mark.parametrize("then", tiered([50, 1 << 16]))
def test_a_collection_goes_on_with_rounds_of_the_size_it_was_begun_with(at, then, tmp_path, monkeypatch):
    """Also where another version would take others: bytes do not depend on when it stopped."""
    monkeypatch.setattr(stepping, "BETWEEN", 60)
    monkeypatch.setattr(log, "ROUND_BYTES", 50 * ROW)
    collect(frames(), tmp_path / "whole", states=corner)
    with pytest.raises(EnvironmentFailedError):
        collect(Failing(frames(), at), tmp_path / "out", states=corner)
    monkeypatch.setattr(log, "ROUND_BYTES", then * ROW)
    collect(frames(), tmp_path / "out", states=corner, resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", tiered(list(SHOWN)))
def test_episodes_that_go_over_many_parts_are_exported_like_any_other(name, tmp_path, monkeypatch):
    make, settings = SHOWN[name]
    monkeypatch.setattr(log, "ROUND", 64)
    at_once = collect(make(), tmp_path / "whole", num_steps=60, **settings).to_minari("test/whole-v0")
    monkeypatch.setattr(log, "ROUND", 7)
    in_parts = collect(make(), tmp_path / "parts", num_steps=60, **settings).to_minari("test/parts-v0")
    for one, two in zip(at_once.iterate_episodes(), in_parts.iterate_episodes(), strict=True):
        assert np.array_equal(one.actions, two.actions)
        assert np.array_equal(one.rewards, two.rewards)
        assert np.array_equal(one.truncations, two.truncations)
        assert [a.tolist() for a in leaves(one.observations)] == [
            a.tolist() for a in leaves(two.observations)
        ]


def leaves(observations) -> list[np.ndarray]:
    if isinstance(observations, dict):
        return [array for key in sorted(observations) for array in leaves(observations[key])]
    if isinstance(observations, tuple):
        return [array for part in observations for array in leaves(part)]
    return [observations]


@pytest.mark.parametrize("name", tiered(list(SHOWN)))
def test_an_audit_that_reads_long_episodes_in_pieces_counts_the_same(name, tmp_path, monkeypatch):
    make, settings = SHOWN[name]
    collect(make(), tmp_path / "out", **settings).to_minari()
    at_once = rc.audit("test/set-v0", 2.0, **settings)
    monkeypatch.setattr(hdf5_reading, "CHUNK_BYTES", 1)
    monkeypatch.setattr("rhocover.datasets.builder.AT_ONCE", 2 * ROW)
    in_pieces = rc.audit("test/set-v0", 2.0, **settings)
    assert (in_pieces.summary(), in_pieces.verdict) == (at_once.summary(), at_once.verdict)


def peak_of(make) -> int:
    """Returns the largest number of bytes held while something ran, nothing freed but by its last owner."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [0.02, -1.0])
def test_memory_does_not_grow_with_the_steps(ending, tmp_path, monkeypatch):
    """1,500 more pictures are 4.6 MB more: any place that kept them, or a circle of objects, would show.

    The fewer are enough to fill the sample that says how far codes may be trusted, which has a limit of its own.
    """
    for module, name in ((log, "ROUND_BYTES"), (stepping, "BATCH_BYTES"), (rows, "GROUP_BYTES"),
                         (hdf5_reading, "CHUNK_BYTES")):  # fmt: skip
        monkeypatch.setattr(module, name, 20 * ROW)
    monkeypatch.setattr("rhocover.datasets.builder.AT_ONCE", 20 * ROW)
    collect(frames(ending), tmp_path / "warm", 100, states=corner)  # what is imported and compiled once

    def peak(num_steps: int) -> int:
        out = tmp_path / f"out-{num_steps}"

        def work() -> None:
            found = collect(frames(ending), out, num_steps, states=corner)
            rc.audit(out, 2.0, states=corner)
            found.to_minari(overwrite=True)

        return peak_of(work)

    few, many = peak(1_500), peak(3_000)
    assert many - few < 500 * ROW, (few, many)


NARROW = """
import resource, sys
sys.path.insert(0, {here!r})
import gymnasium as gym, numpy as np, rhocover as rc
from gymnasium import spaces
from toy_environments import Ring

shape = (210, 160, 3)
def frame(state, time):
    picture = np.full(shape, time % 256, np.uint8)
    picture[0, 0, 0] = state
    return picture

def collect(num_steps, out):
    env = Ring(frame, spaces.Box(0, 255, shape, np.uint8), ending=-1.0)
    return rc.collect(env, 2.0, num_steps, out=out, states=lambda o: int(o[0, 0, 0]), model="learned")

collect(50, "warm")
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + {room}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(collect(2500, "out").num_steps)
except (MemoryError, rc.errors.EnvironmentFailedError) as error:
    print(type(error).__name__, error)
"""


def narrow(room: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs it with an allocator of Arrow that has no address space in reserve."""
    code = NARROW.format(here=str(Path(__file__).parent), room=room)
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space are Linux's")
def test_pictures_of_250_megabytes_are_collected_in_200(tmp_path):
    found = narrow(200 << 20, tmp_path)
    assert (found.returncode, found.stdout.strip()) == (0, "2500"), found.stderr


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of address space are Linux's")
def test_where_memory_ends_the_process_does_not(tmp_path):
    """It ends in our hands, or in those of the environment, which makes a picture at each step."""
    found = narrow(12 << 20, tmp_path)
    assert found.returncode == 0, found.stderr
    kind, said = found.stdout.split(maxsplit=1)
    if kind == "OutOfMemoryError":
        assert said.startswith("there was not enough memory to continue")
        assert "continue with resume=True" in said
    else:
        assert kind == "EnvironmentFailedError"
        assert "MemoryError: Unable to allocate" in said
        assert "The steps before are kept" in said


def test_memory_that_ends_while_steps_are_stored_is_said_with_what_is_kept(tmp_path, monkeypatch):
    real, count = log.rows_as_bytes, []

    def scarce(*given, **named):
        count.append(given)
        if len(count) > 2:
            raise MemoryError("Unable to allocate 16.0 MiB")
        return real(*given, **named)

    monkeypatch.setattr(log, "ROUND", 64)
    collect(Ring(), tmp_path / "whole")
    monkeypatch.setattr(log, "rows_as_bytes", scarce)
    with pytest.raises(
        OutOfMemoryError, match=r"Unable to allocate 16.0 MiB.*are complete: continue with resume=True"
    ):
        collect(Ring(), tmp_path / "out")
    monkeypatch.setattr(log, "rows_as_bytes", real)
    collect(Ring(), tmp_path / "out", resume=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("copies", [1, 2])
def test_memory_that_ends_while_an_observation_is_kept_is_no_failure_of_the_environment(
    copies, tmp_path, monkeypatch
):
    real, count = Watch.see, []

    def scarce(watch, observation):
        count.append(observation)
        if len(count) > 20:
            raise MemoryError("Unable to allocate 98.4 KiB")
        real(watch, observation)

    monkeypatch.setattr(Watch, "see", scarce)
    env = Ring() if copies == 1 else SyncVectorEnv([Ring, Ring])
    with pytest.raises(OutOfMemoryError, match=r"Unable to allocate 98.4 KiB.*continue with resume=True"):
        collect(env, tmp_path / "out", states=int)


def test_a_sample_of_pictures_has_at_most_4_million_numbers():
    watch = Watch(FunctionCode(lambda picture: int(picture[0])))
    for k in range(300):
        watch.see(np.full(100_000, k % 5, np.uint8))
    found = watch.coded().sample
    assert 2 << 20 <= found.points.size <= 4 << 20
    assert share_within(found) == 0.0
    assert dimension_of(found.points).num_points == 5


def test_tensors_become_the_bytes_that_safetensors_gives():
    from safetensors.numpy import save

    kinds = ("bool", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "f8", "i8", "u8")
    tensors = {f"a {kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    tensors |= {'ä/"b"': np.zeros(0, np.int64), "z": np.array(3.0), "0": np.zeros((2, 0, 3), np.float32)}
    metadata = {"rhocover": '{"x": "é\\n"}'}
    assert tensor_bytes(tensors, metadata) == save(tensors, metadata)


def test_tensors_that_lie_oddly_in_memory_are_stored_as_they_read(tmp_path):
    from safetensors.numpy import load

    tensors = {"turned": np.arange(6).reshape(2, 3).T, "other end": np.arange(3, dtype=">i4")}
    stored = load(tensor_bytes(tensors, {"a": "b"}))
    assert all(np.array_equal(stored[name], array) for name, array in tensors.items())
