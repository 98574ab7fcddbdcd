"""Small whole files of every kind that the library reads, made once in a process."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from rhocover.collecting import log, stepping
from rhocover.datasets.minari.files import MinariWriter
from rhocover.exploring.worlds import simulator

RIVER = rc.envs.river_swim(num_states=5)
RUN = {"rho": 2.0, "num_steps": 600, "explorer": "tracking", "trace_points": 1}
LEARNED = {"rho": 2.0, "num_steps": 400, "explorer": "feedback", "model": "learned", "trace_points": 1}
COMPARED = {"rho": [2.0], "num_steps": 200, "seeds": 2, "explorers": ["tracking"], "workers": 1}
COLLECTED = {"rho": 2.0, "num_steps": 60, "model": "learned", "dataset_id": "fuzz/set-v0"}
HEADER = "s,a,s_next,terminated,truncated"
Files = dict[str, bytes]


class StoppedError(Exception):
    """Leaves a run in the middle."""


def settle() -> None:
    """Makes checkpoints and parts often, pages none, and waits for no disk."""
    simulator.Simulator.batch_steps = 100
    log.PART, stepping.BETWEEN = 16, 9
    os.fsync = lambda handle: None
    module: Any = importlib.import_module("rhocover.collecting.collect")
    module.page_of_collection = lambda found: "a page"
    module.write_page = lambda page, path, overwrite: path.write_text(page)


def contents(folder: Path) -> Files:
    """Returns every file below a folder by its relative path."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def stopped_after(step: int) -> Any:
    def report(steps: int, num_steps: int) -> None:
        if steps >= step:
            raise StoppedError

    return report


def half_run(folder: Path, settings: dict[str, Any]) -> Files:
    """Returns the folder of a run that stopped in the middle, with two checkpoints."""
    from rhocover.exploring.runs import checkpoint

    before, checkpoint.SECONDS = checkpoint.SECONDS, 0.0
    with contextlib.suppress(StoppedError):
        rc.explore(RIVER, **settings, out=folder, report=stopped_after(settings["num_steps"] // 2))
    checkpoint.SECONDS = before
    return contents(folder)


class Lake(gym.Wrapper):
    """A frozen lake that breaks at one step."""

    def __init__(self, broken: int = 0) -> None:
        super().__init__(gym.make("FrozenLake-v1", max_episode_steps=15))
        self.broken, self.count = broken, 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == self.broken:
            raise StoppedError("broken")
        return self.env.step(action)


def half_collection(folder: Path) -> Files:
    """Returns the folder of a collection that stopped in the middle, with a log of several parts."""
    with contextlib.suppress(rc.errors.EnvironmentFailedError):
        rc.collect(Lake(40), out=folder, **COLLECTED)
    return contents(folder)


def steps(num: int = 60) -> dict[str, np.ndarray]:
    """Returns random steps of a small world as columns."""
    rng = np.random.default_rng(0)
    states = rng.integers(4, size=num + 1)
    ended = rng.random(num) < 0.1
    return {
        "s": states[:-1], "a": rng.integers(2, size=num), "s_next": states[1:], "terminated": ended,
        "truncated": ~ended & (rng.random(num) < 0.1),
    }  # fmt: skip


def tables(folder: Path) -> Files:
    """Returns the same steps in every kind of table."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir()
    columns = steps()
    np.savez(folder / "plain.npz", **columns)
    np.savez_compressed(folder / "packed.npz", **columns)
    rows = np.column_stack(list(columns.values())).astype(int)
    for name, delimiter in (("steps.csv", ","), ("steps.tsv", "\t")):
        np.savetxt(folder / name, rows, "%d", delimiter, header=HEADER.replace(",", delimiter), comments="")
    table = pa.table(columns)
    parquet.write_table(table, folder / "plain.parquet", compression="none", use_dictionary=False)
    parquet.write_table(table, folder / "packed.parquet", compression="zstd", data_page_version="2.0")
    return contents(folder)


def forms(folder: Path) -> Files:
    """Returns the same steps in the other forms of files."""
    import gzip

    import h5py
    import pyarrow as pa
    from pyarrow import feather, ipc

    folder.mkdir()
    columns = steps()
    table, rows = pa.table(columns), np.column_stack(list(columns.values())).astype(int)
    text = HEADER + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    (folder / "steps.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    lines = "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows.tolist())
    (folder / "steps.jsonl").write_text(lines)
    (folder / "steps.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    batch = {"type": "SampleBatch", **{name: values.astype(int).tolist() for name, values in columns.items()}}
    (folder / "batches.json").write_text(json.dumps(batch) + "\n")
    for name, kind in (("file.arrow", ipc.new_file), ("stream.arrow", ipc.new_stream)):
        with pa.OSFile(str(folder / name), "wb") as file, kind(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
    feather.write_feather(table, str(folder / "packed.feather"), compression="zstd", chunksize=25)
    with h5py.File(folder / "steps.hdf5", "w") as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, chunks=(16,), compression="gzip", fletcher32=True)
    return contents(folder)


def saved_set(folder: Path) -> Files:
    """Returns the same steps as the package `datasets` saves them."""
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(steps()).save_to_disk(str(folder))
    return contents(folder)


def weights(folder: Path) -> Files:
    """Returns weights for the river as an array and as text."""
    folder.mkdir()
    mu = np.random.default_rng(1).uniform(0.5, 1.0, (5, 2)).round(3)
    np.save(folder / "mu.npy", mu)
    np.savetxt(folder / "mu.csv", mu, "%.3f", ",")
    return contents(folder)


def episodes(lengths: tuple[int, ...] = (3, 1, 5)) -> dict[str, Any]:
    """Returns episodes of a world of 16 states as the arguments of `add_many`."""
    rng, total = np.random.default_rng(2), sum(lengths)
    ends = np.zeros(total, bool)
    ends[np.cumsum(lengths) - 1] = True
    return {
        "observations": rng.integers(16, size=total + len(lengths)), "actions": rng.integers(4, size=total),
        "rewards": rng.random(total), "terminations": ends, "truncations": np.zeros(total, bool), "lengths": np.array(lengths),
        "seeds": [1, None, 3],
    }  # fmt: skip


def minari_set(folder: Path) -> Files:
    """Returns a data set as this library writes it."""
    spaces = {"observation_space": gym.spaces.Discrete(16), "action_space": gym.spaces.Discrete(4)}
    with MinariWriter(folder, "fuzz/set-v0", **spaces) as writer:
        writer.add_many(**episodes())
        writer.finish({"description": "random steps"})
    return contents(folder)


def foreign_set(folder: Path, form: str) -> Files:
    """Returns the same data set as Minari itself writes it, in one of its formats."""
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.serialization import serialize_space

    (folder / "data").mkdir(parents=True)
    spaces = gym.spaces.Discrete(16), gym.spaces.Discrete(4)
    with contextlib.redirect_stdout(io.StringIO()):
        storage = MinariStorage.new(
            folder / "data", observation_space=spaces[0], action_space=spaces[1], data_format=form
        )
        flat, done = episodes(), 0
        for number, length in enumerate(flat["lengths"].tolist()):
            rows = slice(done, done + length)
            storage.update_episodes([EpisodeBuffer(
                id=number, seed=flat["seeds"][number], observations=list(flat["observations"][done + number : done + number + length + 1]),
                actions=list(flat["actions"][rows]), rewards=list(flat["rewards"][rows]),
                terminations=list(flat["terminations"][rows]), truncations=list(flat["truncations"][rows]),
            )])  # fmt: skip
            done += length
    path = folder / "data" / "metadata.json"
    metadata = json.loads(path.read_text()) | {
        "dataset_id": "fuzz/foreign-v0", "observation_space": serialize_space(spaces[0]), "action_space": serialize_space(spaces[1]),
    }  # fmt: skip
    path.write_text(json.dumps(metadata))
    return contents(folder)


def binned_collection(folder: Path) -> Files:
    """Returns a finished collection whose datasheet says which bins its states are."""
    env = gym.make("MountainCar-v0", max_episode_steps=20)
    rc.collect(env, 2.0, 60, out=folder, model="learned", states=rc.Bins((3, 2)), dataset_id="fuzz/car-v0")
    return contents(folder)
