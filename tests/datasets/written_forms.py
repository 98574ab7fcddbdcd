"""The same steps in every form that can be read, each written by the library that people write it with.

A form is (what can be known of it, function of an empty folder that returns the data). `FILES` are those that
the command line can be given, too.
"""

from __future__ import annotations

import gzip
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
from minari.data_collector import EpisodeBuffer

from rhocover.environments.wrappers import CountVisits
from same_steps import WALKS, Replayed, columns, replay

COLUMNS = columns()
PANDAS, POLARS = pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)
ARROW = pa.table(COLUMNS)
NUM_ROWS = len(PANDAS)
CUTS = [0, 2, 57, 140, 141, NUM_ROWS]  # where tables are divided into parts
Make = Callable[[Path], Any]
NUMBERS = itertools.count()


def without(*names: str) -> dict[str, Any]:
    return {name: values for name, values in COLUMNS.items() if name not in names}


def to(name: str, write: Callable[[Path], Any]) -> Make:
    """Returns the function that writes a file of this name and returns where it is."""

    def make(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return make


def parts(write: Callable[[pd.DataFrame, Path], Any], suffix: str) -> Make:
    """Returns the function that writes the steps to several files, of which the names alone say the order."""

    def make(folder: Path) -> Path:
        place = folder / "parts"
        place.mkdir()
        bounds = list(itertools.pairwise(CUTS))
        for k, (begin, end) in reversed(list(enumerate(bounds, start=8))):  # part-8, part-9, part-10
            write(PANDAS.iloc[begin:end], place / f"part-{k}{suffix}")
        (place / "_SUCCESS").write_text("")
        return place

    return make


def chain(make: Make, then: Callable[[Any], Any]) -> Make:
    return lambda folder: then(make(folder))


# --- Arrow and JSON


def arrow_file(path: Path, kind: Any = pa.ipc.new_file) -> None:
    with pa.OSFile(str(path), "wb") as file, kind(file, ARROW.schema) as writer:
        for batch in ARROW.to_batches(max_chunksize=50):
            writer.write_batch(batch)


def json_lines(path: Path) -> None:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as file:
        for row in PANDAS.to_dict("records"):
            file.write(
                json.dumps({name: getattr(value, "item", lambda v=value: v)() for name, value in row.items()})
                + "\n"
            )


def rllib_lines(path: Path) -> None:
    """Writes what RLlib's JsonWriter writes with compress_columns=[]: a batch per line."""
    names = {"s": "obs", "a": "actions", "s_next": "new_obs", "terminated": "terminateds", "truncated": "truncateds",
             "episode": "eps_id"}  # fmt: skip
    with path.open("w") as file:
        for begin, end in itertools.pairwise(CUTS):
            batch = {names[name]: values[begin:end].tolist() for name, values in COLUMNS.items()}
            batch |= {"type": "SampleBatch", "rewards": [0.0] * (end - begin), "t": list(range(end - begin))}
            file.write(json.dumps(batch) + "\n")


def two_packed_json_files(folder: Path) -> str:
    for k, part in enumerate((PANDAS.iloc[:77], PANDAS.iloc[77:])):
        part.to_json(folder / f"{k}.jsonl.gz", orient="records", lines=True)
    return f"{folder}/*.jsonl.gz"


# --- HDF5


def d4rl(folder_or_none: Any = None, *, with_next: bool = True) -> dict[str, Any]:
    found = {
        "observations": COLUMNS["s"], "actions": COLUMNS["a"], "rewards": np.zeros(NUM_ROWS, np.float32),
        "terminals": COLUMNS["terminated"], "timeouts": COLUMNS["truncated"],
        "infos/qpos": np.zeros((NUM_ROWS, 2)), "metadata/algorithm": "none",
    }  # fmt: skip
    return found | {"next_observations": COLUMNS["s_next"]} if with_next else found


def hdf5(path: Path, **settings: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, values in d4rl(**settings).items():
            packed = (
                {}
                if isinstance(values, str)
                else {"compression": "gzip", "chunks": (64, *np.shape(values)[1:])}
            )
            file.create_dataset(name, data=values, **packed)


# --- Hugging Face


def as_dataset(_: Any = None) -> Any:
    import datasets

    return datasets.Dataset.from_dict(COLUMNS)


def two_splits(_: Any = None) -> Any:
    """Returns the steps as two splits, the border inside an episode."""

    import datasets

    whole = as_dataset()
    return datasets.DatasetDict(train=whole.select(range(150)), validation=whole.select(range(150, NUM_ROWS)))


def reordered(_: Path) -> Any:
    """Returns the steps in their order, by a list of rows beside the table, which has another."""

    import datasets

    order = np.random.default_rng(0).permutation(NUM_ROWS)
    mixed = datasets.Dataset.from_dict({name: values[order] for name, values in COLUMNS.items()})
    return mixed.select(np.argsort(order))


def saved(data: Any) -> Make:
    def make(folder: Path) -> Path:
        data().save_to_disk(str(folder / "saved"))
        return folder / "saved"

    return make


# --- episodes


def rlds() -> Iterator[dict[str, Any]]:
    for walk in WALKS:
        length = len(walk)
        steps = [
            {
                "observation": state, "action": walk.actions[t] if t < length else 0, "reward": 0.0,
                "is_first": t == 0, "is_last": t == length, "is_terminal": walk.is_ended and t == length,
            }
            for t, state in enumerate(walk.states)
        ]  # fmt: skip
        yield {"steps": steps, "episode_id": 7}


def batched_rlds() -> Iterator[dict[str, Any]]:
    for episode in rlds():
        names = episode["steps"][0]
        yield {"steps": {name: np.array([step[name] for step in episode["steps"]]) for name in names}}


def one_more(_: Path) -> list[dict[str, Any]]:
    return [
        {"observations": w.states, "actions": w.actions, "terminations": w.last & w.is_ended, "truncations": w.last & (not w.is_ended)}
        for w in WALKS
    ]  # fmt: skip


def as_many(with_next: bool, marks: bool = True) -> Make:
    def make(_: Path) -> list[dict[str, Any]]:
        found = []
        for w in WALKS:
            episode = {"observations": w.states[:-1], "actions": w.actions}
            episode |= {"terminals": w.last & w.is_ended} if marks else {}
            episode |= {"next_observations": w.states[1:]} if with_next else {}
            found.append(episode)
        return found

    return make


# --- environments


def collected(folder: Path) -> minari.MinariDataset:
    """Returns the data set that Minari makes of buffers, as its DataCollector does."""
    buffers = [
        EpisodeBuffer(
            id=k, seed=0, observations=list(w.states), actions=list(w.actions), rewards=[0.0] * len(w),
            terminations=list(w.last & w.is_ended), truncations=list(w.last & (not w.is_ended)),
        )
        for k, w in enumerate(WALKS)
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends authors, descriptions and evaluation environments
        return minari.create_dataset_from_buffers(
            f"test/steps{next(NUMBERS)}-v0", buffers, observation_space=Replayed.observation_space,
            action_space=Replayed.action_space,
        )  # fmt: skip


def visits(_: Path) -> Any:
    env = CountVisits(Replayed())
    replay(env)
    return env.visits


FILES: dict[str, tuple[str, Make]] = {
    "npz, numpy": ("whole", to("it.npz", lambda path: np.savez(path, **COLUMNS))),
    "packed npz, numpy": ("whole", to("it.npz", lambda path: np.savez_compressed(path, **COLUMNS))),
    "csv, pandas": ("whole", to("it.csv", lambda path: PANDAS.to_csv(path, index=False))),
    "csv, polars": ("whole", to("it.csv", lambda path: POLARS.write_csv(path, separator=";"))),
    "tsv, pandas": ("whole", to("it.tsv", lambda path: PANDAS.to_csv(path, sep="\t"))),
    "csv.gz, pandas": ("whole", to("it.csv.gz", lambda path: PANDAS.to_csv(path, index=False))),
    "parquet, pandas": ("whole", to("it.parquet", lambda path: PANDAS.to_parquet(path))),
    "parquet, polars": ("whole", to("it.parquet", lambda path: POLARS.write_parquet(path))),
    "parquet, pyarrow": ("whole", to("it.pq", lambda path: pa.parquet.write_table(ARROW, path, row_group_size=60))),
    "folder of parquet": ("whole", parts(pd.DataFrame.to_parquet, ".parquet")),
    "pattern of parquet": ("whole", chain(parts(pd.DataFrame.to_parquet, ".parquet"), lambda place: f"{place}/*.parquet")),
    "folder of csv": ("whole", parts(pd.DataFrame.to_csv, ".csv")),
    "pattern of jsonl.gz": ("whole", two_packed_json_files),
    "feather, pyarrow": ("whole", to("it.feather", lambda path: pa.feather.write_feather(ARROW, str(path), chunksize=70))),
    "feather, pandas": ("whole", to("it.feather", lambda path: PANDAS.to_feather(path))),
    "arrow file, pyarrow": ("whole", to("it.arrow", arrow_file)),
    "arrow stream, pyarrow": ("whole", to("it.arrow", lambda path: arrow_file(path, pa.ipc.new_stream))),
    "ipc, polars": ("whole", to("it.ipc", lambda path: POLARS.write_ipc(path, compression="zstd"))),
    "jsonl, pandas": ("whole", to("it.jsonl", lambda path: PANDAS.to_json(path, orient="records", lines=True))),
    "jsonl.gz, json": ("whole", to("it.jsonl.gz", json_lines)),
    "ndjson, polars": ("whole", to("it.ndjson", lambda path: POLARS.write_ndjson(path))),
    "json, RLlib": ("whole", to("it.json", rllib_lines)),
    "hdf5, h5py": ("whole", to("it.hdf5", hdf5)),
    "h5 without next, h5py": ("within", to("it.h5", lambda path: hdf5(path, with_next=False))),
    "csv with episodes, pandas": ("within", to("it.csv", lambda path: pd.DataFrame(without("s_next", "truncated")).to_csv(path))),
    "csv without marks": ("unmarked", to("it.csv", lambda path: pd.DataFrame(without("terminated", "truncated")).to_csv(path))),
    "csv without anything": ("bare", to("it.csv", lambda path: pd.DataFrame(without("s_next", "terminated", "truncated")).to_csv(path))),
    "saved Dataset": ("whole", saved(as_dataset)),
    "saved DatasetDict": ("whole", saved(two_splits)),
    "Minari's folder": ("whole", chain(collected, lambda data: Path(data.storage.data_path).parent)),
}  # fmt: skip

OBJECTS: dict[str, tuple[str, Make]] = {
    "arrays": ("whole", lambda _: COLUMNS),
    "tuple": ("whole", lambda _: tuple(without("episode").values())),
    "list of paths": ("whole", chain(parts(pd.DataFrame.to_parquet, ".parquet"), lambda place: sorted(place.glob("*.parquet")))),
    "rows": ("whole", lambda _: PANDAS.to_dict("records")),
    "pandas": ("whole", lambda _: PANDAS),
    "pandas with pyarrow's types": ("whole", lambda _: PANDAS.convert_dtypes(dtype_backend="pyarrow")),
    "pandas with missing-value types": ("whole", lambda _: PANDAS.convert_dtypes()),
    "polars": ("whole", lambda _: POLARS),
    "LazyFrame": ("whole", lambda _: POLARS.lazy()),
    "pyarrow Table": ("whole", lambda _: ARROW),
    "pyarrow RecordBatch": ("whole", lambda _: ARROW.combine_chunks().to_batches()[0]),
    "pyarrow RecordBatchReader": ("whole", lambda _: pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches(max_chunksize=33))),
    "pyarrow Dataset": ("whole", lambda folder: pa.dataset.dataset(FILES["parquet, pyarrow"][1](folder))),
    "Dataset": ("whole", as_dataset),
    "reordered Dataset": ("whole", reordered),
    "DatasetDict": ("whole", two_splits),
    "IterableDataset": ("whole", lambda _: as_dataset().to_iterable_dataset()),
    "D4RL": ("whole", d4rl),
    "D4RL without next": ("within", lambda _: d4rl(with_next=False)),
    "RLlib": ("whole", lambda _: {"OBS": COLUMNS["s"], "NEW_OBS": COLUMNS["s_next"], "ACTIONS": COLUMNS["a"],
                                  "DONES": COLUMNS["terminated"] | COLUMNS["truncated"], "TRUNCATEDS": COLUMNS["truncated"],
                                  "EPS_ID": COLUMNS["episode"], "T": np.zeros(NUM_ROWS)}),
    "RLDS": ("whole", lambda _: list(rlds())),
    "iterator of RLDS": ("whole", lambda _: rlds()),
    "RLDS in arrays": ("whole", lambda _: batched_rlds()),
    "episodes with T + 1 observations": ("whole", one_more),
    "episodes with T and next": ("whole", as_many(with_next=True)),
    "episodes with T": ("within", as_many(with_next=False)),
    "episodes without marks": ("bare", as_many(with_next=False, marks=False)),
    "Minari": ("whole", collected),
    "Minari's episodes": ("whole", chain(collected, lambda data: list(data.iterate_episodes()))),
    "env.visits": ("whole", visits),
}  # fmt: skip
FORMS = FILES | OBJECTS
