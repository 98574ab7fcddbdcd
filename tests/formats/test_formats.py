"""What an earlier version wrote is read by this one, and what a later one wrote is refused with the way out.

`v1` holds a small file of every format, written once by `make_v1.py` and never changed, with the numbers
that were in it. The documentation lists the same formats.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from make_v1 import RUNS
from make_v2 import corner
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import rhocover as rc
from rhocover.collecting.storage import document_of
from rhocover.datasets.collection.manifest import digest_of, load_manifest
from rhocover.datasets.collection.source import CollectionSource, open_collection
from rhocover.errors import CheckpointWarning, FileFormatError, InvalidArgumentError, InvalidDataError
from rhocover.experiments.env_comparison import EnvComparison
from rhocover.files import FORMAT_VERSION, load_tensors

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "rhocover"
V1, V2 = HERE / "v1", HERE / "v2"
EXPECTED = json.loads((V1 / "expected.json").read_text("utf-8"))
SECOND = json.loads((V2 / "expected.json").read_text("utf-8"))
NO_LONGER = {"collection-log"}  # kinds that are read, and not written
# Floats of v1 were computed with the libraries of their time: sums in another order differ by a few 1e-16
# of their size, and plans by their tolerance, 1e-8.
CLOSE = {"rtol": 1e-7, "atol": 1e-9}
KINDS = {
    "mdp": "model.safetensors",
    "plan": "plan.safetensors",
    "run": "result.safetensors",
    "run-settings": "feedback/run.safetensors",
    "checkpoint": "feedback/checkpoint-0.safetensors",
    "comparison": "comparison.safetensors",
    "environment-comparison": "environment-comparison.safetensors",
    "audit": "audit.safetensors",
    "policy": "policy.safetensors",
    "collection-log": "left/log-000000.safetensors",
}
SETTINGS = "collection.json"
DATASET = "collection/rhocover/frozenlake-v1/rho-2-v0"


@pytest.fixture
def copy(tmp_path):
    """Returns a folder with the files of v1, to write to."""
    return Path(shutil.copytree(V1, tmp_path / "v1"))


def header_of(path: Path) -> dict:
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["rhocover"])


def as_of_later(path: Path) -> None:
    """Makes a file say that it has the next format, by rhocover 9.9; whole otherwise."""
    header = header_of(path) | {"format": FORMAT_VERSION + 1, "rhocover": "9.9"}
    save_file(load_file(path), path, metadata={"rhocover": json.dumps(header)})


def later_document(path: Path) -> None:
    document = json.loads(path.read_text("utf-8"))
    document["format"], document["versions"]["rhocover"] = FORMAT_VERSION + 1, "9.9"
    path.write_text(json.dumps(document), "utf-8")


def names_version_and_way_out(message: str) -> bool:
    said = f"has format {FORMAT_VERSION + 1}; this rhocover {rc.__version__} reads format {FORMAT_VERSION}"
    return said in message and "pip install rhocover==9.9" in message


# The collection itself.


def test_every_kind_that_the_library_writes_has_a_file_in_v1():
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    written = {kind for text in texts for kind in re.findall(r'save_tensors\([^,]+, "([a-z-]+)"', text)}
    written |= {kind for text in texts for kind in re.findall(r'^KIND = "([a-z-]+)"', text, re.MULTILINE)}
    calls = sum(len(re.findall(r"(?<!def )save_tensors\(", text)) for text in texts)
    named = sum(
        len(re.findall(r'save_tensors\([^,]+, (?:"[a-z-]+"|KIND|self._question.kind)', text))
        for text in texts
    )
    assert calls == named  # each call names its kind where it can be seen
    assert written == set(KINDS) - NO_LONGER


@pytest.mark.parametrize(("folder", "expected"), [(V1, EXPECTED), (V2, SECOND)])
def test_the_stored_files_are_what_they_were_and_small(folder, expected):
    files = {path for path in folder.rglob("*") if path.is_file() and path.name != "expected.json"}
    now = {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    assert now == expected["files"]
    assert sum(path.stat().st_size for path in files) < 500_000


# Reading.


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_a_file_of_v1_says_what_it_is_and_is_read(kind, name):
    header = header_of(V1 / name)
    assert (header["kind"], header["format"], header["rhocover"]) == (kind, 1, EXPECTED["rhocover"])
    tensors, document = load_tensors(V1 / name, kind)
    assert document == header["document"]
    assert all(tensors[key].tobytes() == array.tobytes() for key, array in load_file(V1 / name).items())


def test_the_model_of_v1_is_the_model():
    mdp = rc.MDP.load(V1 / "model.safetensors")
    known = EXPECTED["model"]
    assert (mdp.fingerprint, mdp.num_pairs, mdp.name) == tuple(
        known[k] for k in ("fingerprint", "num_pairs", "name")
    )
    assert mdp.fingerprint == rc.envs.river_swim().fingerprint


def test_the_plan_of_v1_is_the_plan_that_is_found_today():
    tensors, document = load_tensors(V1 / "plan.safetensors", "plan")
    assert tensors["occupancy"].tolist() == EXPECTED["plan"]["occupancy"]
    assert document["divergence"] == EXPECTED["plan"]["divergence"]
    today = rc.plan(rc.envs.river_swim(), 2.0)
    assert today.divergence == pytest.approx(document["divergence"], rel=0, abs=today.gap + document["gap"])
    np.testing.assert_allclose(today.occupancy, tensors["occupancy"], rtol=1e-4)  # a gap of 1e-9 is 3e-5 in d


def test_the_run_of_v1_holds_its_counts():
    tensors, document = load_tensors(V1 / "result.safetensors", "run")
    assert tensors["counts"].tolist() == EXPECTED["result"]["counts"]
    assert document["steps"] == int(tensors["counts"].sum()) == 1000


def test_the_comparison_of_v1_is_loaded_and_shown():
    found = rc.Comparison.load(V1 / "comparison.safetensors")
    known = EXPECTED["comparison"]
    assert list(found.explorers) == known["explorers"]
    assert found.values("river", 2.0, "stationary", "worst_ratio")[:, -1].tolist() == known["worst_ratio"]
    assert [row.explorer for row in found.table()] == known["explorers"]


def test_the_comparison_on_environments_of_v1_is_loaded_and_shown():
    found = EnvComparison.load(V1 / "environment-comparison.safetensors")
    known = EXPECTED["environment-comparison"]
    assert list(found.explorers) == [row.explorer for row in found.table()] == known["explorers"]
    first = found.found("FrozenLake-v1", "uniform_random", "codes")
    assert [steps.tolist() for steps in first] == known["codes"]


def test_the_collection_of_v1_is_audited_with_the_same_counts():
    audit = rc.audit(str(V1 / "collection"), 2.0)
    assert audit.counts.tolist() == EXPECTED["collection"]["counts"]
    assert audit.num_steps == EXPECTED["collection"]["num_steps"]
    np.testing.assert_allclose(audit.visited_divergence, EXPECTED["audit"]["divergence"], **CLOSE)
    tensors, _ = load_tensors(V1 / "audit.safetensors", "audit")
    assert tensors["counts"].tolist() == audit.counts.tolist()


def test_the_policy_of_v1_is_one_distribution_for_each_state():
    tensors, document = load_tensors(V1 / "policy.safetensors", "policy")
    assert tensors["policy"].shape == (len(document["states"]), len(document["actions"]))
    np.testing.assert_allclose(tensors["policy"].sum(axis=1), 1, rtol=1e-12)  # sums of four float64


@pytest.mark.parametrize(("name", "settings"), [("lake", {}), ("frames", {"states": corner}), ("rings", {})])
def test_a_collection_of_v2_is_audited_with_the_same_counts(name, settings):
    audit = rc.audit(V2 / name, 2.0, **settings)
    assert audit.tally.digest() == SECOND[name]["digest"]
    assert audit.num_steps == SECOND[name]["num_steps"]


def test_the_frames_of_v2_have_their_shape_and_their_last_ones():
    for episode in open_collection(V2 / "frames").episodes():
        assert episode.observations.shape == (len(episode) + 1, 4, 6, 3)
        assert (episode.observations == episode.observations[:, :1, :1, :1]).all()


def test_an_unfinished_collection_of_v2_holds_the_steps_until_it_was_left():
    manifest = load_manifest(V2 / "left")
    assert manifest.num_steps == 1000
    assert sum(len(flat.rewards) for flat in CollectionSource(V2 / "left", manifest).pieces()) == 1000
    assert manifest.digest == digest_of(document_of(manifest))
    with pytest.raises(InvalidDataError, match=r"is not finished\. Continue it"):
        rc.audit(V2 / "left")


def test_a_datasheet_of_v1_says_its_format_beside_the_data_and_inside():
    sheet = json.loads((V1 / "collection" / "datasheet.json").read_text("utf-8"))
    inside = json.loads((V1 / DATASET / "data" / "metadata.json").read_text("utf-8"))["rhocover"]
    assert sheet == inside
    assert sheet["format"] == 1


# Going on.


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_v1_left_goes_on_to_the_end_that_it_would_have_had(copy, name):
    """Counts are whole numbers, so they are the same on every machine unless a choice was a near tie."""
    run = rc.resume(copy / name)
    known = EXPECTED["runs"][name]
    assert run.counts.tolist() == known["counts"]
    np.testing.assert_allclose(run.divergence, known["divergence"], **CLOSE)


def test_a_collection_goes_on_only_with_the_versions_it_was_begun_with(tmp_path):
    """The rest of its steps would be others' luck; the message says what was and what is."""
    path = Path(shutil.copytree(V2 / "left", tmp_path / "left")) / "manifest.json"
    document = json.loads(path.read_text("utf-8"))
    document["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(
        InvalidArgumentError, match=r"`versions` was .*'1\.0'.* begin a new collection in another folder"
    ):
        go_on_with_the_lake(tmp_path / "left")


def test_a_collection_that_v1_left_is_refused_with_the_way_out(copy):
    before = {path: path.read_bytes() for path in (copy / "left").iterdir()}
    with pytest.raises(
        InvalidArgumentError, match=r"another format.*Finish it with pip install rhocover==0\.1\.0"
    ):
        go_on_with_the_lake(copy / "left")
    assert {path: path.read_bytes() for path in (copy / "left").iterdir()} == before


def go_on_with_the_lake(out: Path) -> None:
    import gymnasium as gym

    rc.collect(gym.make("FrozenLake-v1", max_episode_steps=20), 2.0, 3000, out=out, seed=5, resume=True)


# Later formats.


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
def test_a_later_format_is_refused_with_its_version_and_the_way_out(copy, kind, name):
    as_of_later(copy / name)
    with pytest.raises(FileFormatError) as refusal:
        load_tensors(copy / name, kind)
    assert names_version_and_way_out(str(refusal.value))
    with pytest.raises(FileFormatError) as refusal:
        load_tensors(copy / name, "another kind")  # later versions may have other kinds
    assert names_version_and_way_out(str(refusal.value))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("model.safetensors", lambda v1: rc.MDP.load(v1 / "model.safetensors")),
        ("comparison.safetensors", lambda v1: rc.Comparison.load(v1 / "comparison.safetensors")),
        ("feedback/run.safetensors", lambda v1: rc.resume(v1 / "feedback")),
        ("feedback/model.safetensors", lambda v1: rc.resume(v1 / "feedback")),
    ],
)
def test_readers_pass_the_refusal_on(copy, name, read):
    as_of_later(copy / name)
    with pytest.raises(FileFormatError) as refusal:
        read(copy)
    assert names_version_and_way_out(str(refusal.value))


def test_a_later_checkpoint_is_passed_over_and_two_are_refused(copy):
    """Nothing is removed or overwritten by the refusal."""
    first, second = (copy / "stationary" / f"checkpoint-{k}.safetensors" for k in (0, 1))
    as_of_later(first)
    as_of_later(second)
    before = [path.read_bytes() for path in (first, second)]
    with pytest.raises(FileFormatError) as refusal:
        rc.resume(copy / "stationary")
    assert names_version_and_way_out(str(refusal.value))
    assert [path.read_bytes() for path in (first, second)] == before
    shutil.copy(V1 / "stationary" / second.name, second)
    with pytest.warns(CheckpointWarning, match=f"has format {FORMAT_VERSION + 1}"):
        run = rc.resume(copy / "stationary")
    assert run.counts.tolist() == EXPECTED["runs"]["stationary"]["counts"]


def test_settings_of_a_later_collection_are_refused_by_whoever_reads_them(copy):
    later_document(copy / "collection" / SETTINGS)
    with pytest.raises(FileFormatError) as refusal:
        rc.audit(str(copy / "collection"), 2.0)
    assert names_version_and_way_out(str(refusal.value))
    later_document(copy / "left" / SETTINGS)
    with pytest.raises(FileFormatError) as refusal:
        go_on_with_the_lake(copy / "left")
    assert names_version_and_way_out(str(refusal.value))
    assert (copy / "left" / "log-000000.safetensors").exists()


def test_a_manifest_of_a_later_format_is_refused_by_whoever_reads_it(tmp_path):
    for name, read in (("lake", lambda folder: rc.audit(folder, 2.0)), ("left", go_on_with_the_lake)):
        folder = Path(shutil.copytree(V2 / name, tmp_path / name))
        later_document(folder / "manifest.json")
        with pytest.raises(FileFormatError) as refusal:
            read(folder)
        assert names_version_and_way_out(str(refusal.value))


def test_a_later_datasheet_inside_a_data_set_is_refused_by_the_command_line(copy, rhocover):
    place = copy / DATASET / "data" / "metadata.json"
    metadata = json.loads(place.read_text("utf-8"))
    metadata["rhocover"] |= {"format": FORMAT_VERSION + 1, "versions": {"rhocover": "9.9"}}
    place.write_text(json.dumps(metadata), "utf-8")
    result = rhocover(f"audit {copy / DATASET} --rho 2")
    assert result.code == 1
    assert result.is_one_error_line
    assert names_version_and_way_out(result.err)


@pytest.mark.parametrize("text", ["[]", "3", '"text"', "null"])
def test_settings_that_are_no_document_are_refused(copy, text):
    (copy / "collection" / SETTINGS).write_text(text, "utf-8")
    with pytest.raises(FileFormatError, match="expected a JSON object"):
        rc.audit(str(copy / "collection"), 2.0)


# Prose.


def test_the_page_about_formats_lists_every_kind_with_its_tensors_and_version():
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    assert f"format {FORMAT_VERSION}" in text
    for kind, name in KINDS.items():
        part = re.search(rf"^### `{kind}`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert part, f"docs/formats.md has no section `{kind}`"
        told = set(re.findall(r"`([\w.-]+)`", part[1]))
        tensors, document = load_tensors(V1 / name, kind)
        missing = {*map(family, tensors), *document} - told
        assert not missing, f"docs/formats.md, {kind}: {sorted(missing)} are not told"


def family(tensor: str) -> str:
    """Returns the name that stands for tensors of the same make: `trace.` for `trace.steps`."""
    name = tensor.split(".")[0] + "." if "." in tensor else tensor
    return re.sub(r"-\d+-\d+-\d+$", "-0-0-0", name)


def test_the_page_about_formats_lists_the_documents_of_a_collection():
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    told = set(re.findall(r"`([\w.-]+)`", text))
    for place in (V1 / "left/collection.json", V1 / "collection/datasheet.json", V2 / "left/manifest.json"):
        assert {place.name, *json.loads(place.read_text("utf-8"))} <= told
    manifest = json.loads((V2 / "left/manifest.json").read_text("utf-8"))
    assert {*manifest["parts"][0], *manifest["settings"]} <= told
