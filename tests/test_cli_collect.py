"""`rhocover collect` says what the Python API says, goes on where it was stopped, and removes nothing unasked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from lake_commands import COLLECT, LAKE, contents, read, stopped_at_its_first_report
from rhocover.cli import collect
from rhocover.collecting import storage
from rhocover.datasets import read_tally
from test_cli import names_in
from tiers import tiered


@pytest.mark.parametrize(
    ("line", "make", "arguments"),
    tiered([
        (f"{LAKE} --rho inf", lambda: gym.make(LAKE), {"rho": np.inf}),
        (f"{LAKE} --rho 2 --set map_name=8x8 --set is_slippery=false --seed 3",
         lambda: gym.make(LAKE, map_name="8x8", is_slippery=False), {"rho": 2.0, "seed": 3}),
        (f"{LAKE} --rho 1 --model learned --mu transition_std --max-episode-steps 30 --id lake/mine-v1",
         lambda: gym.make(LAKE, max_episode_steps=30),
         {"rho": 1.0, "model": "learned", "mu": "transition_std", "dataset_id": "lake/mine-v1"}),
        (f"{LAKE} --rho 2 --model learned --num-envs 3", lambda: gym.make_vec(LAKE, 3, "sync"),
         {"rho": 2.0, "model": "learned"}),
        (f"{LAKE} --rho 2 --workers 3", lambda: LAKE, {"rho": 2.0, "workers": 3}),
        (f"{LAKE} --rho 2 --explorer algorithm1 --schedule quadratic:5", lambda: gym.make(LAKE),
         {"rho": 2.0, "explorer": "algorithm1", "schedule": "quadratic:5"}),
        (f"{LAKE} --rho 2 --until-visits 3", lambda: gym.make(LAKE), {"rho": 2.0, "until": rc.EveryPair(3)}),
        ("MountainCar-v0 --rho 2 --model learned --states bins:12,9", lambda: gym.make("MountainCar-v0"),
         {"rho": 2.0, "model": "learned", "states": rc.Bins((12, 9))}),
        ("Pendulum-v1 --rho 2 --model learned --states bins:3@-1:1,-1:1,:4 --actions 3",
         lambda: gym.make("Pendulum-v1"),
         {"rho": 2.0, "model": "learned", "states": rc.Bins(3, (-1, -1, None), (1, 1, 4)), "actions": 3}),
    ]),
)  # fmt: skip
def test_json_holds_the_collection_of_the_python_api(rhocover, line, make, arguments):
    found = rc.collect(make(), num_steps=1500, out="expected", **arguments)
    result = rhocover(f"collect {line} --steps 1500 --out here --json")
    assert result.code == 0, result.err
    assert result.err == "the data set is in here, its datasheet is here/datasheet.html\n"
    document = read(result.out)
    expected = json.loads(json.dumps(found.summary()))
    changed = {"out": "here", "repeat": document["collection"]["repeat"]}
    assert document["collection"] == expected | changed
    assert read(Path("here/datasheet.json").read_text()) == {**found.datasheet, "repeat": changed["repeat"]}
    assert document["parameters"]["environment"] == line.split()[0]
    counts = rc.audit("here", states=found.states, actions=found.actions).counts
    assert counts.sum() == found.num_steps


def test_workers_write_the_same_files_in_other_processes(rhocover):
    """Also after the environment's arguments; numbers that do not fit together are refused, and nothing is removed."""
    line = f"collect {LAKE} --set map_name=8x8 --workers 2 --steps 1024"
    assert rhocover(f"{line} --out here").code == 0
    assert rhocover(f"{line} --out there --engine process:2").code == 0
    first, second = (contents(Path(name)) for name in ("here", "there"))
    assert {name for name in first if first[name] != second[name]} <= {"datasheet.json", "datasheet.html"}
    refused = rhocover(f"collect {LAKE} --workers 3 --steps 1024 --out here --force")
    assert "`--steps` must be a multiple of --workers 3" in refused.err
    assert contents(Path("here")) == first
    both = rhocover(f"collect {LAKE} --workers 2 --num-envs 2 --steps 1024 --out other")
    assert "`--num-envs` must be 1 with `--workers`" in both.err


@pytest.mark.thorough
def test_quantiles_are_those_of_a_random_rollout_with_the_same_seed(rhocover):
    from rhocover.environments.stepping import random_rollout

    env = gym.make("MountainCar-v0")
    code = rc.QuantileBins((4, 3)).fit(random_rollout(env, 10_000, 5))
    line = "collect MountainCar-v0 --rho 2 --model learned --states quantiles:4,3 --seed 5 --steps 500 --out o --json"
    stored = read(rhocover(line).out)["collection"]["settings"]["states"]
    assert stored["edges"] == [list(axis.inner) for axis in code.axes]


def test_the_table_has_the_best_and_what_random_actions_come_to(rhocover):
    result = rhocover(f"{COLLECT} --out lake")
    found = rc.audit("lake", 2.0, model=gym.make(LAKE))
    rows = {line[:15].strip(): line[15:].split() for line in result.out.splitlines()}
    assert rows["pairs covered"] == ["44", "of", "44"]
    assert rows["divergence"] == [f"{found.divergence:.6f}", f"{found.best.divergence:.6f}", "-"]
    assert rows["worst ratio"] == [f"{found.worst_ratio:.4f}", f"{found.best_worst_ratio:.4f}", "12.5093"]
    assert " ".join(found.verdict.split()) in " ".join(result.out.split())


def test_a_stopping_rule_is_told(rhocover):
    shown = " ".join(rhocover(f"{COLLECT} --until-visits 3 --out lake").out.split())
    assert re.search(
        r"Stopped after [\d,]+ of 1,500 steps: every pair with positive weight was visited at least 3", shown
    )
    short = " ".join(rhocover(f"collect {LAKE} --rho 2 --steps 100 --until-visits 3 --out few").out.split())
    assert "The goal was not reached in 100 steps" in short


@pytest.mark.thorough
def test_the_datasheet_holds_a_command_that_repeats_it(rhocover):
    assert (
        rhocover(f"{COLLECT} --set is_slippery=false --seed 2 --out one --report one.html --json").code == 0
    )
    command = read(Path("one/datasheet.json").read_text())["repeat"]
    assert (
        command == f"rhocover collect {LAKE} --rho 2 --steps 1500 --set is_slippery=false --seed 2 --out DIR"
    )
    assert rhocover(command.removeprefix("rhocover ").replace("DIR", "two")).code == 0
    assert contents(Path("one")) == contents(Path("two"))
    assert command in Path("one.html").read_text()


def test_an_environment_of_a_module_that_was_typed_is_used(rhocover, ring):
    result = rhocover(f"collect {ring} --rho 2 --model learned --steps 300 --out ring --json")
    assert result.code == 0, result.err
    assert read(result.out)["collection"]["coverage"]["num_pairs"] == 10


def test_a_data_set_never_makes_an_environment(rhocover, ring, monkeypatch):
    """The data set names the environment that it is of; reading it must not build that."""
    assert rhocover(f"collect {ring} --rho 2 --model learned --steps 300 --out ring").code == 0
    monkeypatch.setattr(gym, "make", lambda *_, **__: pytest.fail("made an environment"))
    assert rhocover("audit ring").code == 0
    assert rhocover("top-up ring --steps 100").code == 0


@pytest.mark.thorough
@pytest.mark.parametrize("more", ["", " --model learned --num-envs 2"])
def test_ctrl_c_says_how_to_go_on_and_resume_comes_to_the_same_bytes(rhocover, more):
    line = f"collect {LAKE} --rho 2 --steps 6000{more} --seed 4"
    stopped = stopped_at_its_first_report(f"{line} --out part", "collect")
    said = re.fullmatch(
        r"The steps so far are stored\. Continue with: rhocover (.*)\ninterrupted\n", stopped.stderr
    )
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert said, stopped.stderr
    assert "datasheet.json" not in names_in(Path("part"))
    assert [name for name in contents(Path("part")) if name.startswith("parts/part-0000-000000")]
    refused = rhocover("audit part")
    assert (refused.code, "is not finished" in refused.err) == (2, True)
    assert said[1].endswith("--out part --resume")
    assert rhocover(said[1]).code == 0
    assert rhocover(f"{line} --out whole").code == 0
    assert contents(Path("part")) == contents(Path("whole"))
    done = rhocover(said[1])
    assert (done.code, done.is_one_error_line) == (2, True)
    assert "is finished. Add to it: rhocover top-up" in done.err


@pytest.mark.thorough
def test_going_on_with_other_settings_is_refused(rhocover):
    assert (
        stopped_at_its_first_report(f"collect {LAKE} --rho 2 --steps 6000 --out part", "collect").returncode
        == 130
    )
    before = contents(Path("part"))
    result = rhocover(f"collect {LAKE} --rho 2 --steps 6000 --seed 1 --out part --resume")
    assert (result.code, result.is_one_error_line) == (2, True)
    assert "`--seed` was 0 when this collection was begun, got 1" in result.err
    assert contents(Path("part")) == before


@pytest.mark.thorough
def test_an_existing_collection_is_kept_unless_told_otherwise(rhocover):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    before = contents(Path("lake"))
    refused = rhocover(f"{COLLECT} --seed 1 --out lake")
    assert (refused.code, refused.out, refused.is_one_error_line) == (2, "", True)
    assert (
        "`--out` 'lake' already contains a collection. Name another folder, such as --out results"
        in refused.err
    )
    for wrong in (
        "--explorer nobody",
        "--steps 0",
        "--id no",
        "--set nonsense=1",
        "--states bins:3",
        "--resume",
    ):
        assert rhocover(f"{COLLECT} --out lake --force {wrong}").code == 2, wrong
        assert contents(Path("lake")) == before
    assert (
        rhocover(f"{COLLECT} --seed 1 --id other/name-v2 --out lake --force --report lake/page.html").code
        == 0
    )
    assert "rhocover" not in names_in(Path("lake"))
    assert read(Path("lake/datasheet.json").read_text())["settings"]["seed"] == 1
    assert (
        rhocover(f"{COLLECT} --out lake --force --report lake/page.html").code == 0
    )  # the report is of the command


@pytest.mark.parametrize(
    "name",
    tiered(["notes.txt", "parts/notes.txt", "parts/part-1.parquet", "collection.json", "manifest.json.bak"]),
)
def test_force_removes_nothing_that_is_not_of_a_collection(rhocover, name):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    Path("lake", name).write_text("mine")
    before = contents(Path("lake"))
    result = rhocover(f"{COLLECT} --out lake --force")
    assert (result.code, result.is_one_error_line) == (2, True)
    assert f"holds '{name}', which does not belong to a collection. Nothing was removed." in result.err
    assert contents(Path("lake")) == before


def test_force_follows_no_link_and_needs_a_collection_that_it_can_read(rhocover):
    Path("other").mkdir()
    Path("other/precious").write_text("mine")
    refused = rhocover(f"{COLLECT} --out other --force")
    assert (refused.code, "holds no collection" in refused.err) == (2, True)
    assert rhocover(f"{COLLECT} --out lake").code == 0
    Path("lake/link").symlink_to(Path("other").absolute())
    assert "holds 'link'" in rhocover(f"{COLLECT} --out lake --force").err
    Path("lake/link").unlink()
    for text in ("{", "[]", '{"id": "../other"}', '{"format": 1, "id": 3}'):
        Path("lake/manifest.json").write_text(text)
        result = rhocover(f"{COLLECT} --out lake --force")
        assert (result.code, "Nothing was removed" in result.err) == (2, True), result.err
    assert Path("other/precious").read_text() == "mine"


def test_a_folder_in_use_is_not_cleared(rhocover):
    from rhocover.folders import hold_folder

    assert rhocover(f"{COLLECT} --out lake").code == 0
    before, lock = contents(Path("lake")), hold_folder("lake")
    assert "is in use by another process" in rhocover(f"{COLLECT} --out lake --force").err
    lock.release()
    assert contents(Path("lake")) == before


def test_what_a_crash_leaves_behind_can_be_cleared():
    for name in ("manifest.json", "datasheet.html", "parts/part-0000-000012.parquet", ".manifest.json.0123abcd.tmp",
                 "parts/part-0001-000012-000345.parquet", "parts/.part-0000-000000.parquet.0123abcd.tmp"):  # fmt: skip
        assert storage.is_of_collection(name), name
    for name in ("notes", "parts/notes", "x/manifest.json", "part-0000-000012.parquet", "parts/x/part-0000-000012.parquet",
                 "manifest.json.bak", ".manifest.json.backup", "parts/part-1-2.parquet", "collection.json"):  # fmt: skip
        assert not storage.is_of_collection(name), name


def test_what_a_crash_of_an_earlier_version_left_behind_can_be_cleared():
    for name in ("collection.json", "log-000012.safetensors", ".log-000000.safetensors.0123abcd.tmp", "datasheet.html",
                 "space/name-v0/data/metadata.json", "space/.name-v0.0123abcd.tmp/data/main_data.hdf5",
                 "space/namespace_metadata.json"):  # fmt: skip
        assert collect._is_of_first_format(name, "space/name-v0"), name
    for name in ("notes", "log-.safetensors", "space/x", "space/name-v1/data/metadata.json", "x/collection.json",
                 "space/name-v0/data/x/metadata.json", "collection.json.bak.old", "collection.json.bak", ".log-2024-notes.txt",
                 ".log-000000.safetensors.backup", "space/.name-v0.backup/data/main_data.hdf5"):  # fmt: skip
        assert not collect._is_of_first_format(name, "space/name-v0"), name


def test_force_clears_a_collection_of_the_first_format(rhocover):
    first = Path(__file__).parent / "formats" / "v1" / "collection"
    shutil.copytree(first, "lake")
    Path("lake/notes.txt").write_text("mine")
    assert "holds 'notes.txt'" in rhocover(f"{COLLECT} --out lake --force").err
    Path("lake/notes.txt").unlink()
    assert rhocover(f"{COLLECT} --out lake --force").code == 0
    assert not {"collection.json", "rhocover"} & {path.name for path in Path("lake").iterdir()}


# --- export -------------------------------------------------------------------------------------------


def test_export_writes_a_minari_data_set_with_the_same_counts(rhocover, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    assert rhocover(f"{COLLECT} --out lake").code == 0
    before = contents(Path("lake"))
    result = rhocover("export lake --minari lake/covered-v0 --json")
    assert result.code == 0, result.err
    about = read(result.out)["export"]
    assert (about["dataset_id"], about["steps"]) == ("lake/covered-v0", 1500)
    assert about["path"] == str(tmp_path / "minari" / "lake" / "covered-v0")
    assert read_tally("lake/covered-v0").digest() == read_tally("lake").digest()
    assert contents(Path("lake")) == before
    refused = rhocover("export lake --minari lake/covered-v0")
    assert (refused.code, refused.is_one_error_line) == (2, True)
    again = rhocover("export lake --minari lake/covered-v0 --force")
    assert (again.code, again.out) == (0, f"lake/covered-v0: 1,500 steps in {about['episodes']} episodes\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("export nowhere --minari a-v0", "there is no collection in 'nowhere'"),
        ("export lake --minari ../a-v0", "must be like 'name-v0'"),
        ("export lake --minari a", "must be like 'name-v0'"),
    ],
)
def test_export_refuses_what_it_cannot_write(rhocover, tmp_path, monkeypatch, line, words):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    assert rhocover(f"{COLLECT} --out lake").code == 0
    result = rhocover(line)
    assert (result.code, result.is_one_error_line) == (2, True)
    assert words in result.err
    assert not (tmp_path / "minari").exists()


def test_an_environment_that_fails_is_told_and_what_was_before_is_kept(rhocover, ring):
    for broken, words in (("broken=7", "the ring broke"), ("lost=7", "9")):
        out = broken.split("=")[0]
        result = rhocover(f"collect {ring} --set {broken} --rho 2 --model learned --steps 300 --out {out}")
        assert (result.code, result.out, result.is_one_error_line) == (1, "", True), result.err
        assert words in result.err
        assert [name for name in contents(Path(out)) if name.startswith("parts/part-0000-000000")]
