"""Every reader of files that the library and its command line have: what they read, and what the answer is.

A target is a small whole folder, the file in it that will be damaged, and a function that reads the folder.
Files that carry a checksum (`kind`) are also changed behind it, so that the checks after it are reached. Files
that carry none have a `peer`, another reader: an answer to a damaged file must be the peer's.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import peers
import whole_files as whole

import rhocover as rc
from rhocover.cli import app
from rhocover.cli.parsing import parse_weights
from rhocover.datasets import read_tally
from rhocover.datasets.minari.files import open_minari
from rhocover.errors import CheckpointWarning, RhocoverError
from rhocover.experiments import Comparison
from rhocover.files import load_tensors

Read = Callable[[Path], Any]
Hostile = Sequence[tuple[str, bytes]]


class RefusedError(RhocoverError):
    """A command that ended with a code and a line of ours."""


@dataclass(frozen=True)
class Target:
    """`read(folder)` returns the answer to `files`; `victim` is the one that is damaged."""

    name: str
    files: Mapping[str, bytes]
    victim: str
    read: Read
    kind: str | None = None  # of a sealed file
    is_text: bool = False
    peer: Read | None = None
    is_sane: Callable[[Any], bool] = lambda answer: True  # where a changed file may be a whole one
    hostile: Hostile = field(default=())
    changes_nothing: bool = False  # whether files must be the same after a refusal

    def put(self, folder: Path) -> Path:
        """Writes the whole files to a new folder; returns where the victim is."""
        for name, payload in self.files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(payload)
        return folder / self.victim


def command(*words: str) -> Any:
    """Returns the JSON that a command prints, without its times; refusals are raised, anything else is wrong."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app.main(list(words))
        except SystemExit as end:
            code = end.code or 0
    said = err.getvalue()
    assert code in app.EXIT_CODES, f"exit code {code}"
    assert "Traceback" not in said, said
    if code:
        lines = [line for line in said.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, said
        assert said.endswith(lines[0] + "\n"), said
        raise RefusedError(lines[0])
    return _timeless(json.loads(out.getvalue()))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(inner) for key, inner in value.items() if key not in ("seconds", "out", "data")
        }
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


# --- answers --------------------------------------------------------------------------------------------


def model_answer(path: Path) -> Any:
    mdp = rc.MDP.load(path)
    layout = mdp.layout
    return (
        mdp.fingerprint, mdp.num_states, mdp.num_actions, mdp.state_labels, mdp.action_labels, mdp.name, mdp.note,
        None if layout is None else layout.positions.tobytes(),
    )  # fmt: skip


def run_answer(run: rc.Run) -> Any:
    trace = tuple(run.trace[name].tobytes() for name in ("steps", "divergence", "regret", "visited"))
    return run.num_steps, run.counts.tobytes(), run.moves.tobytes(), trace


def is_sane_run(answer: Any) -> bool:
    """Whether visits are visits: none below zero, and as many as there were steps."""
    counts = np.frombuffer(answer[1], np.int64)
    return (
        counts.min() >= 0
        and counts.sum() == answer[0]
        and np.frombuffer(answer[2], np.int64).sum() == answer[0]
    )


def comparison_answer(found: Comparison) -> Any:
    arrays = {**found.columns, **found.ends, **found.facts, "steps": found.steps}
    kinds = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(arrays.items())}
    return json.dumps(dict(found.question), sort_keys=True), kinds, str(found)


def plan_answer(path: Path) -> Any:
    return str(rc.Plan.load(path)), tensors_answer(path, "plan")


def tensors_answer(path: Path, kind: str) -> Any:
    tensors, document = load_tensors(path, kind)
    arrays = {
        name: (array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(tensors.items())
    }
    return arrays, json.dumps(document, sort_keys=True)


def collected(folder: Path) -> Any:
    rc.collect(whole.Lake(), out=folder, resume=True, **whole.COLLECTED)
    return {name: payload for name, payload in whole.contents(folder).items() if name != "manifest.json"}


# --- targets --------------------------------------------------------------------------------------------


def sealed(work: Path) -> Iterator[Target]:
    """Yields the files with a checksum of their own that are read alone."""
    safetensors = tuple(hostile.safetensors_files())

    def one(name: str, kind: str, save: Callable[[Path], Any], read: Read, **more: Any) -> Target:
        save(work / name)
        payload = (work / name).read_bytes()
        return Target(
            name, {name: payload}, name, lambda folder: read(folder / name), kind, hostile=safetensors, **more
        )

    river = rc.envs.river_swim(num_states=3)
    yield one("model.safetensors", "mdp", river.save, model_answer)
    found = rc.plan(whole.RIVER, 2.0)
    yield one("plan.safetensors", "plan", found.save, plan_answer)
    run = rc.explore(whole.RIVER, **whole.RUN)
    yield one("result.safetensors", "run", run.save, lambda path: tensors_answer(path, "run"))
    audit = rc.audit(whole.steps())
    yield one("audit.safetensors", "audit", audit.save, lambda path: tensors_answer(path, "audit"))
    comparison = rc.compare({"river": whole.RIVER}, **whole.COMPARED)
    yield one("comparison.safetensors", "comparison", comparison.save,
              lambda path: comparison_answer(Comparison.load(path)))  # fmt: skip


def runs(work: Path) -> Iterator[Target]:
    """Yields the files of runs that stopped in the middle, and of comparisons that are taken up."""
    safetensors = tuple(hostile.safetensors_files())[::3]
    kinds = {"run.safetensors": "run-settings", "model.safetensors": "mdp", "checkpoint-0.safetensors": "checkpoint",
             "checkpoint-1.safetensors": "checkpoint"}  # fmt: skip
    for title, settings in (("run", whole.RUN), ("learned run", whole.LEARNED)):
        files = whole.half_run(work / title, settings)
        for victim, kind in kinds.items():
            yield Target(f"{title}: {victim}", files, victim, lambda folder: run_answer(rc.resume(folder)), kind,
                         is_sane=is_sane_run, hostile=safetensors, changes_nothing=True)  # fmt: skip
        alone = {name: payload for name, payload in files.items() if name != "checkpoint-0.safetensors"}
        yield Target(f"{title}: one checkpoint", alone, "checkpoint-1.safetensors", lambda folder: run_answer(rc.resume(folder)),
                     "checkpoint", is_sane=is_sane_run, hostile=safetensors, changes_nothing=True)  # fmt: skip
    name = "comparison.safetensors"
    rc.compare({"river": whole.RIVER}, **whole.COMPARED, out=work / "compared")
    files = whole.contents(work / "compared")

    def take_up(folder: Path) -> Any:
        return comparison_answer(rc.compare({"river": whole.RIVER}, **whole.COMPARED, out=folder))

    yield Target(
        "comparison, taken up", files, name, take_up, "comparison", hostile=safetensors, changes_nothing=True
    )


def collections(work: Path) -> Iterator[Target]:
    """Yields the files of collections."""
    files = whole.half_collection(work / "collection")
    documents = tuple(hostile.json_files("id", json.loads(files["manifest.json"])))
    yield Target(
        "manifest.json, resumed", files, "manifest.json", collected, is_text=True, hostile=documents,
        is_sane=lambda answer: True,
    )  # fmt: skip
    parts = sorted(name for name in files if name.startswith("parts/"))
    for victim in (parts[0], parts[-1]):
        yield Target(f"collection: {victim}", files, victim, collected)
    car = whole.binned_collection(work / "car")

    def tally(folder: Path) -> Any:
        return peers.counted(read_tally(folder))

    manifest = json.loads(car["manifest.json"])
    others = (*hostile.json_files("id", manifest), *_other_codes(manifest))
    yield Target("manifest.json, audited", car, "manifest.json", tally, is_text=True, hostile=others,
                 peer=lambda folder: _any_tally(folder, "manifest.json", manifest))  # fmt: skip


def _other_codes(metadata: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yields manifests with codes of states and actions that are not codes."""
    import damages

    states = metadata["code"]["states"]
    for key in states:
        for value in damages.VALUES:
            changed = json.loads(json.dumps(metadata))
            changed["code"]["states"][key] = value
            yield f"states.{key} = {value!r:.20}", json.dumps(changed).encode()
    for name in metadata:
        for value in damages.VALUES:
            yield f"{name} = {value!r:.20}", json.dumps(metadata | {name: value}).encode()


def _any_tally(folder: Path, name: str, metadata: dict[str, Any]) -> Any:
    """Returns the answer to metadata that is other than it was, as far as it decides how states are counted.

    Such a file asks another question; what is left to say is that its counts are those of its own codes.
    """
    said = json.loads((folder / name).read_text())
    if said == metadata:
        raise AssertionError("the same metadata has another answer")
    return peers.counted(read_tally(folder))


def minari_sets(work: Path) -> Iterator[Target]:
    """Yields the files of Minari data sets, written here and by Minari itself."""

    def columns(folder: Path) -> Any:
        return peers.flat_columns(open_minari(folder))

    ours = whole.minari_set(work / "ours")
    metadata = json.loads(ours["data/metadata.json"])
    documents = tuple(hostile.json_files("observation_space", metadata)) + tuple(
        hostile.json_files("total_episodes", metadata)
    )
    hdf5 = tuple(hostile.hdf5_files(work))
    yield Target("metadata.json", ours, "data/metadata.json", columns, is_text=True, hostile=documents)
    yield Target("HDF5, ours", ours, "data/main_data.hdf5", columns, peer=peers.hdf5_columns, hostile=hdf5)
    theirs = whole.foreign_set(work / "theirs", "hdf5")
    yield Target(
        "HDF5, Minari's", theirs, "data/main_data.hdf5", columns, peer=peers.hdf5_columns, hostile=hdf5[::4]
    )
    for form in ("arrow", "parquet"):
        files = whole.foreign_set(work / form, form)
        for victim in (f"data/1/part-0.{form}", "data/1/metadata.json"):
            yield Target(f"Minari's {form}: {victim}", files, victim, columns, is_text=victim.endswith("json"),
                         peer=lambda folder: columns(folder), hostile=documents[::3] if victim.endswith("json") else ())  # fmt: skip


def tables(work: Path) -> Iterator[Target]:
    """Yields tables of steps, and weights."""
    files, columns = whole.tables(work / "tables"), whole.steps()
    made = {
        ".npz": tuple(hostile.npz_files(columns)), ".csv": tuple(hostile.csv_files(whole.HEADER)), ".tsv": (),
        ".parquet": tuple(hostile.parquet_files(work, columns)),
    }  # fmt: skip
    for name, payload in files.items():
        path = Path(name)
        yield Target(name, {name: payload}, name, lambda folder, n=name: peers.counted(read_tally(folder / n)),
                     is_text=path.suffix in (".csv", ".tsv"), peer=lambda folder, n=name: peers.counted_table(folder / n),
                     hostile=made[path.suffix] if name != "packed.parquet" else ())  # fmt: skip
    for name, payload in whole.weights(work / "weights").items():
        suffix = Path(name).suffix
        yield Target(name, {name: payload}, name, lambda folder, n=name: parse_weights(str(folder / n), whole.RIVER).tobytes(),
                     is_text=suffix == ".csv", peer=lambda folder, n=name: _weights(folder / n),
                     hostile=tuple(hostile.npy_files()) if suffix == ".npy" else tuple(hostile.csv_files("1,2")))  # fmt: skip


def forms(work: Path) -> Iterator[Target]:
    """Yields the other forms of tables: packed text, JSON lines, Arrow, HDF5, and what `datasets` saves."""
    made = {
        "steps.jsonl": tuple(hostile.line_files(whole.steps())), "steps.hdf5": tuple(hostile.flat_hdf5_files(work, whole.steps())),
        "file.arrow": tuple(hostile.arrow_files(work, whole.steps())), "steps.csv.gz": tuple(hostile.packed_files(whole.HEADER)),
    }  # fmt: skip
    for name, payload in whole.forms(work / "forms").items():
        yield Target(name, {name: payload}, name, lambda folder, n=name: peers.counted(read_tally(folder / n)),
                     is_text=Path(name).suffix in (".jsonl", ".json"), peer=lambda folder, n=name: peers.counted_table(folder / n),
                     hostile=made.get(name, ()))  # fmt: skip
    files = whole.saved_set(work / "saved")
    for victim in files:
        is_text = victim.endswith("json")
        documents = (
            tuple(hostile.json_files("_data_files", json.loads(files[victim])))[::3] if is_text else ()
        )
        yield Target(f"saved: {victim}", files, victim, lambda folder: peers.counted(read_tally(folder)), is_text=is_text,
                     peer=peers.counted_set, hostile=documents)  # fmt: skip


def _weights(path: Path) -> bytes:
    """Returns weights through another reader; they are numbers of 0 or more, not all 0."""
    if path.suffix == ".npy":
        table = np.load(path)
    else:
        lines = [line.partition("#")[0] for line in path.read_text("utf-8").splitlines()]
        table = np.array([[float(word) for word in line.split(",")] for line in lines if line.strip()])
    assert table.shape == (5, 2)
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    return np.ascontiguousarray(table, np.float64).tobytes()


def commands(work: Path) -> Iterator[Target]:
    """Yields the same files once more, as the command line reads them."""

    def at(folder: Path, name: str) -> str:
        return str(folder / name)

    model = "model.safetensors"
    whole.RIVER.save(work / model)
    yield Target("plan MODEL", {model: (work / model).read_bytes()}, model,
                 lambda folder: command("plan", at(folder, model), "--rho", "2", "--json")["plans"],
                 "mdp", hostile=tuple(hostile.safetensors_files())[::2])  # fmt: skip
    for name, payload in whole.weights(work / "weights").items():
        yield Target(f"plan --mu {name}", {name: payload}, name,
                     lambda folder, n=name: command("plan", "river_swim", "--set", "num_states=5", "--rho", "2", "--json", "--mu", at(folder, n))["plans"],
                     is_text=name.endswith("csv"), peer=lambda folder, n=name: _planned(_weights(folder / n)),
                     hostile=tuple(hostile.npy_files())[::2] if name.endswith("npy") else ())  # fmt: skip
    columns = whole.steps()
    made = {".npz": tuple(hostile.npz_files(columns))[::4], ".csv": tuple(hostile.csv_files(whole.HEADER)),
            ".parquet": tuple(hostile.parquet_files(work, columns))[::5]}  # fmt: skip
    for name, payload in whole.tables(work / "tables").items():
        if name in ("plain.npz", "steps.csv", "plain.parquet"):
            yield Target(f"audit {name}", {name: payload}, name, lambda folder, n=name: command("audit", at(folder, n), "--json")["audit"],
                         is_text=name.endswith("csv"), peer=lambda folder, n=name: _audited(folder / n), hostile=made[Path(name).suffix])  # fmt: skip
    name = "steps.csv"
    yield Target("top-up steps.csv", {name: whole.tables(work / "more")[name]}, name,
                 lambda folder: command("top-up", at(folder, name), "--steps", "50", "--json")["top_up"], is_text=True,
                 peer=lambda folder: _timeless(json.loads(json.dumps(rc.top_up(folder / name, num_steps=50).summary()))))  # fmt: skip
    files = whole.half_run(work / "run", whole.RUN)
    for victim, kind in (("run.safetensors", "run-settings"), ("checkpoint-1.safetensors", "checkpoint")):
        yield Target(
            f"resume: {victim}",
            files,
            victim,
            _resumed,
            kind,
            hostile=tuple(hostile.safetensors_files())[::4],
        )
    rc.compare({"river": whole.RIVER}, **whole.COMPARED, out=work / "compared")
    name = "comparison.safetensors"
    yield Target("compare --redraw", whole.contents(work / "compared"), name, _redrawn, "comparison",
                 hostile=tuple(hostile.safetensors_files())[::4])  # fmt: skip
    ours = whole.minari_set(work / "ours")
    for victim in ("data/metadata.json", "data/main_data.hdf5"):
        yield Target(f"audit DIR: {victim}", ours, victim, lambda folder: command("audit", str(folder), "--json")["audit"],
                     is_text=victim.endswith("json"), peer=lambda folder: _audited(folder), hostile=tuple(hostile.json_files("observation_space", json.loads(ours["data/metadata.json"])))[::3]
                     if victim.endswith("json") else tuple(hostile.hdf5_files(work))[::3])  # fmt: skip
    files = whole.binned_collection(work / "car")
    documents = tuple(hostile.json_files("id", json.loads(files["manifest.json"])))
    yield Target(
        "collect --force: manifest.json", files, "manifest.json", _forced, is_text=True, hostile=documents
    )
    yield Target(
        "audit COLLECTION",
        files,
        "manifest.json",
        lambda folder: command("audit", str(folder), "--json")["audit"],
        is_text=True,
        hostile=documents,
    )


def _planned(mu: bytes) -> Any:
    table = np.frombuffer(mu).reshape(5, 2)
    best = rc.plan(whole.RIVER, 2.0, table)
    return [_timeless(json.loads(json.dumps(best.summary() | {"policy": best.policy.tolist()})))]


def _audited(path: Path) -> Any:
    return _timeless(json.loads(json.dumps(rc.audit(path).summary())))


def _resumed(folder: Path) -> Any:
    """Returns what resuming says, without pictures."""
    from rhocover.cli import outputs

    before, outputs.write_all = outputs.write_all, lambda *_, **__: []
    try:
        return command("resume", str(folder), "--json")["run"]
    finally:
        outputs.write_all = before


def _redrawn(folder: Path) -> Any:
    from rhocover.cli import outputs

    before, outputs.write_all = outputs.write_all, lambda *_, **__: []
    try:
        return command("compare", "--redraw", str(folder), "--json")["rows"]
    finally:
        outputs.write_all = before


def _forced(folder: Path) -> Any:
    """Returns what is left after making room for another collection; a refusal must leave everything."""
    from rhocover.cli.collect import clear_collection
    from rhocover.folders import hold_folder

    before = whole.contents(folder)
    try:
        with hold_folder(folder) as held:
            clear_collection(held)
    except RhocoverError:
        assert whole.contents(folder) == before, "something was removed"
        raise
    return sorted(whole.contents(folder))


GROUPS: dict[str, Callable[[Path], Iterator[Target]]] = {
    "sealed": sealed, "runs": runs, "collections": collections, "minari": minari_sets, "tables": tables, "forms": forms,
    "commands": commands,
}  # fmt: skip


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Makes a folder that is gone afterwards, whatever was left in it."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["GROUPS", "CheckpointWarning", "RefusedError", "Target", "scratch"]
