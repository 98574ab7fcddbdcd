"""The commands about environments and data say what the Python API says, and remove or run nothing unasked."""

from __future__ import annotations

import builtins
import csv
import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from patience import PATIENCE, waited_for
from rhocover.cli import collect, output, parsing
from rhocover.datasets import read_tally
from rhocover.files import load_tensors
from test_cli import names_in

LAKE = "FrozenLake-v1"
COLLECT = f"collect {LAKE} --rho 2 --steps 1500"
MODULE = '''
import gymnasium as gym
import numpy as np


class Ring(gym.Env):
    """A ring of five states; it breaks at the step `broken`, and shows 9 at the step `lost`."""

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

    def __init__(self, broken=None, lost=None):
        self.broken, self.lost, self.t = broken, lost, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return self.s, {}

    def step(self, action):
        self.t += 1
        if self.t == self.broken:
            raise RuntimeError("the ring broke")
        self.s = (self.s + 2 * int(action) - 1) % 5
        return (9 if self.t == self.lost else self.s), 0.0, False, False, {}


gym.register("Ring-v0", entry_point=Ring, disable_env_checker=True, max_episode_steps=20)
'''


@pytest.fixture(autouse=True)
def no_data_sets(monkeypatch, tmp_path):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """Returns the name of an environment that a module of the user's brings."""
    folder = tmp_path.parent / f"{tmp_path.name}-modules"
    folder.mkdir()
    (folder / "rings.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    yield "rings:Ring-v0"
    sys.modules.pop("rings", None)
    gym.registry.pop("Ring-v0", None)


def read(text: str) -> dict:
    return json.loads(text, parse_constant=pytest.fail)


def random_steps(num_steps: int = 3000) -> np.ndarray:
    """Returns s, a, s_next, done, cut of uniformly random steps on the frozen lake, `[T, 5]`."""
    env, rng, rows = gym.make(LAKE), np.random.default_rng(0), []
    state, _ = env.reset(seed=0)
    for _ in range(num_steps):
        action = int(rng.integers(4))
        after, _, ended, cut, _ = env.step(action)
        rows.append((state, action, after, int(ended), int(cut)))
        state = env.reset()[0] if ended or cut else after
    return np.array(rows)


def write_steps(
    path: str = "steps.csv", rows: np.ndarray | None = None, header: str = "s,a,s_next,terminated,truncated"
):
    np.savetxt(path, random_steps() if rows is None else rows, "%d", ",", header=header, comments="")


# --- collect ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "make", "arguments"),
    [
        (f"{LAKE} --rho inf", lambda: gym.make(LAKE), {"rho": np.inf}),
        (f"{LAKE} --rho 2 --set map_name=8x8 --set is_slippery=false --seed 3",
         lambda: gym.make(LAKE, map_name="8x8", is_slippery=False), {"rho": 2.0, "seed": 3}),
        (f"{LAKE} --rho 1 --model learned --mu transition_std --max-episode-steps 30 --id lake/mine-v1",
         lambda: gym.make(LAKE, max_episode_steps=30),
         {"rho": 1.0, "model": "learned", "mu": "transition_std", "dataset_id": "lake/mine-v1"}),
        (f"{LAKE} --rho 2 --model learned --num-envs 3", lambda: gym.make_vec(LAKE, 3, "sync"),
         {"rho": 2.0, "model": "learned"}),
        (f"{LAKE} --rho 2 --explorer algorithm1 --schedule quadratic:5", lambda: gym.make(LAKE),
         {"rho": 2.0, "explorer": "algorithm1", "schedule": "quadratic:5"}),
        (f"{LAKE} --rho 2 --until-visits 3", lambda: gym.make(LAKE), {"rho": 2.0, "until": rc.EveryPair(3)}),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4,3", lambda: gym.make("MountainCar-v0"),
         {"rho": 2.0, "model": "learned", "states": rc.Bins((4, 3))}),
        ("Pendulum-v1 --rho 2 --model learned --states bins:3@-1:1,-1:1,:4 --actions 3",
         lambda: gym.make("Pendulum-v1"),
         {"rho": 2.0, "model": "learned", "states": rc.Bins(3, (-1, -1, None), (1, 1, 4)), "actions": 3}),
    ],
)  # fmt: skip
def test_json_holds_the_collection_of_the_python_api(rhocover, line, make, arguments):
    found = rc.collect(make(), num_steps=1500, out="expected", **arguments)
    result = rhocover(f"collect {line} --steps 1500 --out here --json")
    assert result.code == 0, result.err
    assert (
        result.err
        == f"the data set is in {Path('here', found.dataset_id)}, its datasheet is here/datasheet.html\n"
    )
    document = read(result.out)
    expected = json.loads(json.dumps(found.summary()))
    changed = {"out": "here", "repeat": document["collection"]["repeat"]}
    assert document["collection"] == expected | changed
    assert read(Path("here/datasheet.json").read_text()) == {**found.datasheet, "repeat": changed["repeat"]}
    assert document["parameters"]["environment"] == line.split()[0]
    counts = rc.audit(Path("here", found.dataset_id), states=found.states, actions=found.actions).counts
    assert counts.sum() == found.num_steps


def test_quantiles_are_those_of_a_random_rollout_with_the_same_seed(rhocover):
    from rhocover.environments.stepping import random_rollout

    env = gym.make("MountainCar-v0")
    code = rc.QuantileBins((4, 3)).fit(random_rollout(env, 10_000, 5))
    line = "collect MountainCar-v0 --rho 2 --model learned --states quantiles:4,3 --seed 5 --steps 500 --out o --json"
    stored = read(rhocover(line).out)["collection"]["settings"]["states"]
    assert stored["edges"] == [list(axis.inner) for axis in code.axes]


def test_the_table_has_the_best_and_what_random_actions_come_to(rhocover):
    result = rhocover(f"{COLLECT} --out lake")
    found = rc.audit("lake/rhocover/frozenlake-v1/rho-2-v0", 2.0, model=gym.make(LAKE))
    rows = {line[:15].strip(): line[15:].split() for line in result.out.splitlines()}
    assert rows["pairs covered"] == ["44", "of", "44"]
    assert rows["divergence"] == [f"{found.divergence:.6f}", f"{found.best.divergence:.6f}", "-"]
    assert rows["worst ratio"] == [f"{found.worst_ratio:.4f}", f"{found.best_worst_ratio:.4f}", "12.5093"]
    assert " ".join(found.verdict.split()) in " ".join(result.out.split())


def test_a_stopping_rule_is_told(rhocover):
    shown = " ".join(rhocover(f"{COLLECT} --until-visits 3 --out lake").out.split())
    assert re.search(
        r"Stopped after [\d,]+ of 1,500 steps: every pair with a weight was visited at least 3", shown
    )
    short = " ".join(rhocover(f"collect {LAKE} --rho 2 --steps 100 --until-visits 3 --out few").out.split())
    assert "The 100 steps ended before this was so" in short


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


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stopped_at_its_first_report(line: str, name: str) -> subprocess.CompletedProcess:
    """Returns the end of a command whose first report sends the signal of Ctrl-C."""
    code = (
        "import os, signal, sys\n"
        "from rhocover.cli import main\n"
        "from rhocover import collecting\n"
        f"original = collecting.{name}\n"
        "def stopping(*args, report, **given):\n"
        "    return original(*args, report=lambda *_: os.kill(os.getpid(), signal.SIGINT), **given)\n"
        f"collecting.{name} = stopping\n"
        "main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *line.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("more", ["", " --model learned --num-envs 2"])
def test_ctrl_c_says_how_to_go_on_and_resume_comes_to_the_same_bytes(rhocover, more):
    line = f"collect {LAKE} --rho 2 --steps 6000{more} --seed 4"
    stopped = stopped_at_its_first_report(f"{line} --out part", "collect")
    said = re.fullmatch(r"What was done is kept\. Go on with: rhocover (.*)\ninterrupted\n", stopped.stderr)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert said, stopped.stderr
    assert "datasheet.json" not in names_in(Path("part"))
    assert "log-000000.safetensors" in names_in(Path("part"))
    refused = rhocover("audit part")
    assert (refused.code, "is not finished" in refused.err) == (2, True)
    assert said[1].endswith("--out part --resume")
    assert rhocover(said[1]).code == 0
    assert rhocover(f"{line} --out whole").code == 0
    assert contents(Path("part")) == contents(Path("whole"))
    done = rhocover(said[1])
    assert (done.code, done.is_one_error_line) == (2, True)
    assert "is finished. Add to it with rhocover top-up." in done.err


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


def test_an_existing_collection_is_kept_unless_told_otherwise(rhocover):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    before = contents(Path("lake"))
    refused = rhocover(f"{COLLECT} --seed 1 --out lake")
    assert (refused.code, refused.out, refused.is_one_error_line) == (2, "", True)
    assert "`--out` 'lake' holds a collection already. Go on with it: --resume" in refused.err
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
    "name", ["notes.txt", "rhocover/notes.txt", "rhocover/frozenlake-v1/rho-2-v0/data/notes.txt", "log-1.txt"]
)
def test_force_removes_nothing_that_is_not_of_a_collection(rhocover, name):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    Path("lake", name).write_text("mine")
    before = contents(Path("lake"))
    result = rhocover(f"{COLLECT} --out lake --force")
    assert (result.code, result.is_one_error_line) == (2, True)
    assert f"holds '{name}', which is not of a collection. Nothing was removed." in result.err
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
    for text in ("{", "[]", '{"dataset_id": "../other"}', '{"dataset_id": 3}'):
        Path("lake/collection.json").write_text(text)
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
    for name in ("collection.json", "log-000012.safetensors", ".log-000000.safetensors.0123abcd.tmp", "datasheet.html",
                 "space/name-v0/data/metadata.json", "space/.name-v0.0123abcd.tmp/data/main_data.hdf5",
                 "space/namespace_metadata.json"):  # fmt: skip
        assert collect._is_of_collection(name, "space/name-v0"), name
    for name in ("notes", "log-.safetensors", "space/x", "space/name-v1/data/metadata.json", "x/collection.json",
                 "space/name-v0/data/x/metadata.json", "collection.json.bak.old", "collection.json.bak", ".log-2024-notes.txt",
                 ".log-000000.safetensors.backup", "space/.name-v0.backup/data/main_data.hdf5"):  # fmt: skip
        assert not collect._is_of_collection(name, "space/name-v0"), name


def test_an_environment_that_fails_is_told_and_what_was_before_is_kept(rhocover, ring):
    for broken, words in (("broken=7", "the ring broke"), ("lost=7", "9")):
        out = broken.split("=")[0]
        result = rhocover(f"collect {ring} --set {broken} --rho 2 --model learned --steps 300 --out {out}")
        assert (result.code, result.out, result.is_one_error_line) == (1, "", True), result.err
        assert words in result.err
        assert "log-000000.safetensors" in names_in(Path(out))


# --- audit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("", {}),
        ("--rho inf --delta 0.2", {"rho": np.inf, "delta": 0.2}),
        ("--mu model_error --rho 1.5", {"mu": "model_error", "rho": 1.5}),
        ("--num-states 20 --num-actions 6", {"num_states": 20, "num_actions": 6}),
        ("--num-states 20 --met-only", {"num_states": 20, "met_only": True}),
        ("--certificate", {"certificate": True}),
        ("--no-certificate", {"certificate": False}),
        ("--no-best", {"best": False}),
        ("--mu mu.npy", {"mu": np.arange(1.0, 65).reshape(16, 4)}),
        ("--mu mu.csv --best", {"mu": np.arange(1.0, 65).reshape(16, 4), "best": True}),
        ("--env FrozenLake-v1 --rho inf", {"model": gym.make(LAKE), "rho": np.inf}),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_json_holds_the_audit_of_the_python_api(rhocover, line, arguments, ending):
    rows = random_steps()
    columns = dict(zip(("s", "a", "s_next", "terminated", "truncated"), rows.T, strict=True))
    columns |= {name: columns[name].astype(bool) for name in ("terminated", "truncated")}
    np.savez("steps.npz", **columns)
    write_steps(rows=rows)
    if ending == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), "steps.parquet")
    np.save("mu.npy", arguments.get("mu", np.ones(1)))
    if "mu.csv" in line:
        np.savetxt("mu.csv", arguments["mu"], delimiter=",")
    result = rhocover(f"audit steps.{ending} --json {line}")
    assert (result.code, result.err) == (0, "")
    document = read(result.out)
    assert document["audit"] == json.loads(json.dumps(rc.audit(f"steps.{ending}", **arguments).summary()))
    assert document["requirements"] == {"worst_ratio": None, "complete": False, "unmet": None}


def test_a_collection_is_audited_by_its_folder_its_data_set_and_its_id(rhocover, monkeypatch):
    assert rhocover(f"{COLLECT} --id lake/good-v0 --out lake").code == 0
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(Path("lake").absolute()))
    documents = [
        read(rhocover(f"audit {data} --json").out)["audit"]
        for data in ("lake", "lake/lake/good-v0", "lake/good-v0")
    ]
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["num_steps"] == 1500


def test_states_and_actions_are_taken_from_the_datasheet_unless_they_are_typed(rhocover):
    line = "collect Pendulum-v1 --rho 2 --model learned --states quantiles:2 --actions 3 --steps 600 --out p --json"
    asked = read(rhocover(line).out)["collection"]["coverage"]
    result = rhocover("audit p")
    assert "as its datasheet says" in result.out
    found = read(rhocover("audit p --json").out)["audit"]
    for name in ("num_states", "num_pairs", "num_actions", "divergence", "worst_ratio", "thin"):
        assert found[name] == asked[name], name
    typed = read(rhocover("audit p --states bins:3 --actions 5 --json").out)["audit"]
    expected = rc.audit("p/rhocover/pendulum-v1/rho-2-v0", states=rc.Bins(3), actions=5)
    assert typed == json.loads(json.dumps(expected.summary()))
    assert "as its datasheet says" not in rhocover("audit p --states bins:3 --actions 5").out


def test_a_requirement_that_is_not_met_exits_with_4_after_the_result(rhocover):
    assert rhocover(f"{COLLECT} --out lake").code == 0
    found = rc.audit("lake/rhocover/frozenlake-v1/rho-2-v0")
    least = np.ceil(found.worst_ratio)
    for more in ("", "--json", f"--env {LAKE}"):
        assert rhocover(f"audit lake {more} --require-worst-ratio {least:g} --require-complete").code == 0
        result = rhocover(
            f"audit lake {more} --require-worst-ratio 2 --out kept{more[:5]} --report r{more[:5]}.html"
        )
        assert result.code == 4
        assert result.err.splitlines()[-1].startswith(
            f"error: --require-worst-ratio 2: the worst ratio is {found.worst_ratio:.4g}. Covers all 44"
        )
        assert Path(f"kept{more[:5]}", "audit.json").exists()
        assert Path(f"r{more[:5]}.html").exists()
    assert read(rhocover("audit lake --require-worst-ratio 2 --json").out)["requirements"][
        "unmet"
    ].startswith("--require-worst")


def test_states_that_were_declared_and_never_met_close_the_gate(rhocover):
    rows = [[s, a, (s + 1) % 3, 0, 0] for a in (0, 1) for s in (0, 1, 2)]
    write_steps(rows=np.array(rows))
    for demand in ("--require-worst-ratio 1000", "--require-complete"):
        assert rhocover(f"audit steps.csv {demand}").code == 0
        result = rhocover(f"audit steps.csv --num-states 6 {demand}")
        assert result.code == 4
        assert "Covers 6 of 12 pairs (3 of 6 states were met)" in result.err
        assert "--met-only judges the data by those that were" in " ".join(result.out.split())
        assert rhocover(f"audit steps.csv --num-states 6 --met-only {demand}").code == 0
        document = read(rhocover(f"audit steps.csv --num-states 6 --json {demand}").out)
        assert document["requirements"]["unmet"].startswith(demand)
        assert document["audit"]["worst_ratio"] == "inf"


def test_a_certificate_can_be_left_out_and_one_that_proves_nothing_is_called_that(rhocover):
    write_steps()
    assert "The certificate proves nothing yet: " in rhocover("audit steps.csv").out
    left_out = rhocover("audit steps.csv --no-certificate")
    assert "Certified: nothing, because no certificate was asked for." in left_out.out
    refused = rhocover("audit steps.csv --no-best --certificate")
    assert refused.code == 2
    assert "--certificate compares with the best, which --no-best leaves out" in refused.err


def test_incomplete_data_is_refused_where_it_has_to_be_complete(rhocover):
    write_steps(rows=np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]]))
    result = rhocover("audit steps.csv --require-complete")
    assert result.code == 4
    assert "--require-complete: 2 of 4 pairs were never tried. Covers 2 of 4 pairs" in result.err
    assert re.search(r"^ worst ratio +inf ", result.out, re.MULTILINE)
    assert re.search(r"^ worst ratio, visited pairs +\d", result.out, re.MULTILINE)
    assert rhocover("audit steps.csv --require-worst-ratio 1e9").code == 4


def test_out_holds_the_document_and_the_tables(rhocover):
    write_steps()
    result = rhocover("audit steps.csv --json --out deep/results")
    assert result.err == "wrote 2 files to deep/results\n"
    assert Path("deep/results/audit.json").read_text() == result.out
    tensors, _ = load_tensors(Path("deep/results/audit.safetensors"), "audit")
    assert (tensors["counts"] == rc.audit("steps.csv").counts).all()
    again = rhocover("audit steps.csv --out deep/results")
    assert (again.code, "would be overwritten. Pass --force" in again.err) == (2, True)
    assert rhocover("audit steps.csv --out deep/results --force").code == 0


def test_as_many_thin_pairs_are_shown_as_wanted(rhocover):
    write_steps()
    names = [pair.name for pair in rc.audit("steps.csv").thin]
    for number in (0, 1, 7, 99):
        rows = re.findall(
            r"^ (\(\d+, \d\)) +\d+ ", rhocover(f"audit steps.csv --thin {number}").out, re.MULTILINE
        )
        assert rows == names[:number]


# --- top-up -----------------------------------------------------------------------------------------


def test_json_holds_the_policy_that_improves_the_union_most(rhocover):
    write_steps()
    found = rc.top_up(read_tally("steps.csv"), num_steps=2000, rho=2.0)
    result = rhocover("top-up steps.csv --steps 2000 --json --policy policy.csv")
    assert (result.code, result.err) == (0, "the policy is in policy.csv\n")
    assert read(result.out)["top_up"] == json.loads(json.dumps(found.summary()))
    with open("policy.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["state", "0", "1", "2", "3"]
    assert [row[0] for row in rows] == [str(key) for key in found.before.tally.keys]
    assert np.array([row[1:] for row in rows], float).tolist() == found.policy.tolist()
    assert rhocover("top-up steps.csv --steps 2000 --policy p/policy.safetensors").code == 0
    tensors, document = load_tensors(Path("p/policy.safetensors"), "policy")
    assert (tensors["policy"] == found.policy).all()
    assert document["states"] == [row[0] for row in rows]
    exact = rc.top_up(read_tally("steps.csv"), gym.make(LAKE), num_steps=2000, rho=2.0)
    summary = read(rhocover(f"top-up steps.csv --steps 2000 --env {LAKE} --json").out)["top_up"]
    assert summary == json.loads(json.dumps(exact.summary()))
    assert summary["before"]["best_is_exact"]
    again = rhocover("top-up steps.csv --steps 2000 --policy policy.csv")
    assert (again.code, "would be overwritten" in again.err) == (2, True)


def test_with_an_environment_the_steps_are_taken_and_stored(rhocover):
    write_steps()
    found = rc.top_up(read_tally("steps.csv"), gym.make(LAKE), 1000, np.inf, out="expected", seed=2)
    line = f"top-up steps.csv --steps 1000 --rho inf --env {LAKE} --seed 2 --out more"
    result = rhocover(f"{line} --json --report more.html")
    assert result.code == 0, result.err
    document, expected = read(result.out)["top_up"], json.loads(json.dumps(found.summary()))
    expected["collection"] |= {"out": "more", "repeat": document["collection"]["repeat"]}
    assert document == expected
    assert document["collection"]["repeat"].endswith("--out DIR")
    assert document["after"]["num_steps"] == 4000
    assert found.verdict in Path("more.html").read_text()
    refused = rhocover(line)
    assert (refused.code, "holds a collection already" in refused.err) == (2, True)
    assert rhocover(f"{line} --force --model nonsense").code == 2
    assert Path("more/datasheet.json").exists()
    shown = rhocover(f"{line} --force")
    assert shown.code == 0
    rows = {row[:15].strip(): row[15:].split() for row in shown.out.splitlines()}
    ratios = (
        found.before.worst_ratio,
        found.predicted.worst_ratio,
        found.after.worst_ratio,
        found.fresh_worst_ratio,
    )
    assert rows["worst ratio"] == [f"{ratio:.4f}" for ratio in ratios]
    assert rhocover("audit more --rho inf").code == 0


def test_an_addition_promises_better_coverage_than_there_is(rhocover):
    """More steps than there are, best spent: random data has room above the best of what it shows."""
    write_steps()
    summary = read(rhocover("top-up steps.csv --steps 5000 --rho 2 --json").out)["top_up"]
    assert summary["promise_gap"] <= 1e-6  # the tolerance of the plan
    assert summary["promised_worst_ratio"] < summary["before"]["worst_ratio"]
    assert summary["promised_divergence"] < summary["before"]["divergence"]


def test_an_interrupted_addition_goes_on_to_the_same_bytes(rhocover):
    write_steps()
    line = f"top-up steps.csv --steps 6000 --env {LAKE}"
    stopped = stopped_at_its_first_report(f"{line} --out part", "top_up")
    said = re.search(r"Go on with: rhocover (.*)\ninterrupted\n$", stopped.stderr)
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert said, stopped.stderr
    assert rhocover(said[1]).code == 0
    assert rhocover(f"{line} --out whole").code == 0
    assert contents(Path("part")) == contents(Path("whole"))


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FrozenLak-v1 --rho 2", "unknown environment 'FrozenLak-v1'. Did you mean 'FrozenLake-v1'"),
        ("Xyzzy --rho 2", "Known to Gymnasium: CartPole-v0"),
        ("river_swim --rho 2", "'river_swim' is a model of rhocover, no Gymnasium environment"),
        ("no_such_module:Env-v0 --rho 2", "cannot be imported: No module named 'no_such_module'"),
        (f"{LAKE} --rho 2 --set is_slippery", "--set must be NAME=VALUE, got 'is_slippery'"),
        (f"{LAKE} --rho 2 --set a=1 --set a=2", "--set a is given twice"),
        (f"{LAKE} --rho 2 --set nonsense=1", "FrozenLake-v1 cannot be made with these arguments: TypeError"),
        (f"{LAKE} --rho 2 --set map_name=9x9", "FrozenLake-v1 cannot be made with these arguments: KeyError"),
        (f"{LAKE} --rho -1", "`--rho` must be in [0, inf], got -1"),
        (f"{LAKE} --rho 2 --steps 0", "`--steps` must be at least 1"),
        (f"{LAKE} --rho 2 --seed -1", "`--seed` must be at least 0"),
        (f"{LAKE} --rho 2 --explorer nobody", "unknown explorer 'nobody'"),
        (f"{LAKE} --rho 2 --model guessed", "guessed"),
        (f"{LAKE} --rho 2 --mu random:1", "unknown weights for --mu 'random:1'"),
        (f"{LAKE} --rho 2 --mu mu.npy", "there is no file 'mu.npy'"),
        (f"{LAKE} --rho 2 --id 'a b'", "`--id` must be like 'name-v0'"),
        (f"{LAKE} --rho 2 --num-envs 0", "--num-envs must be at least 1"),
        (f"{LAKE} --rho 2 --num-envs 2", "a vector environment has no table of its transitions. Pass --model learned"),
        (f"{LAKE} --rho 2 --max-episode-steps 0", "--max-episode-steps must be at least 1"),
        (f"{LAKE} --rho 2 --until-visits 0", "`--until-visits` must be at least 1"),
        (f"{LAKE} --rho 2 --until-visits 1 --until-gap 1", "do not go together"),
        (f"{LAKE} --rho 2 --delta 1", "`--delta` must be in (0, 1)"),
        (f"{LAKE} --rho 2 --actions 3 --model learned", "`--actions` is for spaces of real numbers (Box)"),
        (f"{LAKE} --rho 2 --states bins:3 --model learned", "bins cut the numbers of a Box space"),
        (f"{LAKE} --rho 2 --resume", "`--resume`: 'o' holds no collection. Leave --resume out"),
        (f"{LAKE} --rho 2 --resume --force", "Pass one of them"),
        (f"{LAKE} --rho 2 --report page.txt", "--report must name a file that ends in .html"),
        ("MountainCar-v0 --rho 2", "It can be learned on the way: --model learned"),
        ("MountainCar-v0 --rho 2 --model learned", "pass `--states`, such as bins:8 for 8 bins a dimension, or quantiles:8."),
        ("MountainCar-v0 --rho 2 --states bins:4", "an environment seen through `--states` has no table"),
        ("MountainCar-v0 --rho 2 --model learned --states bins", "--states must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states grid:3", "--states must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@", "--states must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@1:2:3", "--states must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states quantiles:4@1:2", "--states must be like bins:12,11"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:four", "--states needs whole numbers"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:0", "`--states` must be at least 1"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4,3,2", "`--states` must be one number or 2"),
        ("MountainCar-v0 --rho 2 --model learned --states bins:4@2:1", "LOW of --states must be below HIGH of --states"),
        ("CartPole-v1 --rho 2 --model learned --states bins:4", "say where its bins should end, LOW:HIGH a dimension"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4", "pass `--actions`, the number of levels of each dimension"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4 --actions x", "--actions needs whole numbers"),
        ("Pendulum-v1 --rho 2 --model learned --states bins:4 --actions 0", "`--actions` must be at least 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_collected_is_refused_in_one_line(rhocover, line, words):
    result = rhocover(f"collect {line} --out o")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == set()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("audit none.csv", "DATA: there is no file 'none.csv'"),
        ("audit no/such-v0", "neither a folder nor the id of a Minari data set"),
        ("audit empty.csv", "zero rows"),
        ("audit few.csv", "few.csv"),
        ("audit mixed.csv", "whole number"),
        ("audit notes.json", "must end in"),
        ("audit steps.csv --num-states 3", "whole numbers from 0 to 2, got"),
        ("audit steps.csv --num-states 0", "`--num-states` must be at least 1"),
        ("audit steps.csv --num-actions 2", "whole numbers from 0 to 1, got"),
        ("audit steps.csv --env CliffWalking-v1", "`--env`"),
        ("audit steps.csv --env Nothing-v0", "unknown environment 'Nothing-v0'"),
        ("audit steps.csv --env CartPole-v1", "Leave `--env` out"),
        ("audit steps.csv --set a=1", "--set goes with --env ENV"),
        ("audit steps.csv --rho -1", "`--rho` must be in [0, inf]"),
        ("audit steps.csv --delta 2", "`--delta` must be in (0, 1)"),
        ("audit steps.csv --mu nothing", "unknown weights for --mu 'nothing'"),
        ("audit steps.csv --mu small.csv", "`--mu` must have shape"),
        ("audit steps.csv --thin -1", "--thin': expected 0 or more, got '-1'"),
        ("audit steps.csv --require-worst-ratio 0.5", "--require-worst-ratio must be 1 (a perfect match) or more"),
        ("audit steps.csv --require-worst-ratio inf", "and finite, got inf"),
        ("audit steps.csv --states quantiles:3", "needs an environment"),
        ("audit lake --env CliffWalking-v1", "it is another environment's"),
        ("audit lake --states bins:3", "bins cut the numbers of a Box space"),
        ("top-up none.csv --steps 10", "there is no file 'none.csv'"),
        ("top-up steps.csv --steps 0", "`--steps` must be at least 1"),
        ("top-up steps.csv --steps 10 --out o", "`--out` is for new data, which needs `--env`"),
        ("top-up steps.csv --steps 10 --resume", "--resume goes with --out DIR"),
        ("top-up steps.csv --steps 10 --id a-v0", "--id goes with --out DIR"),
        ("top-up steps.csv --steps 10 --set a=1", "--set goes with --env ENV"),
        ("top-up steps.csv --steps 10 --max-episode-steps 9", "--max-episode-steps goes with --env ENV"),
        ("top-up steps.csv --steps 10 --policy p.txt", "--policy must end in .csv or .safetensors"),
        ("top-up steps.csv --steps 10 --env CliffWalking-v1", "`--env`"),
        ("top-up steps.csv --steps 10 --env CartPole-v1", "Is it data of another environment?"),
        ("top-up steps.csv --steps 10 --env Taxi-v4 --out o", "another environment"),
        ("top-up steps.csv --steps 10 --env FrozenLake-v1 --out o --resume --force", "Pass one of them"),
        ("top-up steps.csv --steps 10 --env FrozenLake-v1 --out o --resume", "holds no collection"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_used_is_refused_in_one_line(rhocover, line, words):
    write_steps()
    Path("empty.csv").write_text("s,a,s_next,done\n")
    Path("few.csv").write_text("s,reward\n1,2\n")
    Path("mixed.csv").write_text("s,a,s_next,done\n0,1,1,0\n0,left,1,0\n")
    Path("notes.json").write_text("{}")
    Path("small.csv").write_text("1,2\n3,4\n")
    if "lake" in line:
        assert rhocover(f"{COLLECT} --out lake").code == 0
    before = names_in(Path.cwd())
    result = rhocover(line)
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == before


def test_a_missing_package_is_named_with_the_line_that_installs_it(rhocover, monkeypatch):
    write_steps("steps.csv")
    Path("steps.parquet").write_bytes(b"PAR1")
    original = builtins.__import__

    def without(name, *rest, **given):
        if name.partition(".")[0] in ("minari", "h5py", "pyarrow"):
            raise ImportError(f"No module named {name!r}", name=name.partition(".")[0])
        return original(name, *rest, **given)

    monkeypatch.setattr(builtins, "__import__", without)
    for line, extra in ((f"{COLLECT} --out o", "minari"), ("audit a/b-v0", "minari"), ("audit steps.parquet", "parquet"),
                        (f"top-up steps.csv --steps 9 --env {LAKE} --out o", "minari")):  # fmt: skip
        result = rhocover(line)
        assert (result.code, result.is_one_error_line) == (1, True), result.err
        assert f"Install it with: pip install 'rhocover[{extra}]'" in result.err
    assert "o" not in names_in(Path.cwd())


def test_an_environment_that_lacks_a_package_and_one_that_is_out_of_date(rhocover, monkeypatch):
    def lacking(*_, **__):
        raise gym.error.DependencyNotInstalled('Box2D is not installed, run `pip install "gymnasium[box2d]"`')

    with monkeypatch.context() as patch:
        patch.setattr(gym, "make", lacking)
        result = rhocover("collect LunarLander-v3 --rho 2 --out o")
    assert (result.code, result.is_one_error_line) == (1, True)
    assert 'pip install "gymnasium[box2d]"' in result.err
    old = rhocover("collect CartPole-v0 --rho 2 --model learned --states bins:2@-1:1 --steps 50 --out o")
    assert old.code == 0
    assert old.err.startswith("warning: The environment CartPole-v0 is out of date.")


# --- explore in an environment ----------------------------------------------------------------------


def test_an_environment_is_explored_like_a_model(rhocover):
    run = rc.explore(gym.make(LAKE, is_slippery=False), 2.0, 600, seed=3)
    result = rhocover(
        f"explore {LAKE} --set is_slippery=false --rho 2 --steps 600 --seed 3 --json --report r.html"
    )
    assert (result.code, result.err) == (0, "the report is in r.html\n")
    document = read(result.out)
    assert {**document["run"], "seconds": 0} == {**json.loads(json.dumps(run.summary())), "seconds": 0}
    assert document["parameters"]["set"] == {"is_slippery": False}


def test_what_nobody_knows_of_an_environment_is_not_told(rhocover):
    line = "explore MountainCar-v0 --rho 2 --model learned --states bins:3 --steps 500"
    document = read(rhocover(f"{line} --json").out)
    assert document["model_error"] is None
    shown = rhocover(line).out
    assert "in what was seen" in shown
    assert "model error" not in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{LAKE} --out old --force", "stored with its data, by rhocover collect"),
        (f"{LAKE} --out new", "stored with its data, by rhocover collect"),
        (f"{LAKE} --horizon 5", "`--horizon` is for models"),
        (f"{LAKE} --chains 2", "`--chains` is for models"),
        ("river_swim --states bins:3", "`--states` and `--actions` are for environments"),
        ("river_swim-v0", "unknown environment 'river_swim-v0'"),
    ],
)
def test_what_does_not_go_with_an_environment_is_refused(rhocover, line, words):
    assert rhocover("explore wheel --rho 2 --steps 100 --out old").code == 0
    before = contents(Path("old"))
    result = rhocover(f"explore {line} --rho 2 --steps 100")
    assert (result.code, result.is_one_error_line) == (2, True), result.err
    assert words in result.err
    assert names_in(Path.cwd()) == {"old"}
    assert contents(Path("old")) == before


# --- texts, progress and help -----------------------------------------------------------------------


def test_arguments_of_an_environment_are_json_or_else_text():
    texts = ["a=8x8", "b=true", "c=False", "d=3", "e=0.5", "f=null", 'g=["SF","HG"]', "h=a=b", 'i="7"', "j="]
    assert parsing.read_arguments(texts) == {
        "a": "8x8", "b": True, "c": False, "d": 3, "e": 0.5, "f": None, "g": ["SF", "HG"], "h": "a=b", "i": "7",
        "j": "",
    }  # fmt: skip


def test_what_looks_like_an_environment_is_one():
    assert all(parsing.is_environment(name) for name in gym.registry)
    assert parsing.is_environment("my.module:space/Name-v3")
    assert not any(
        parsing.is_environment(name) for name in [*rc.envs.names(), "model.safetensors", "./a-v1/m"]
    )


def test_states_are_read_as_bins():
    assert parsing.read_states("bins:12,11", None) == rc.Bins((12, 11))
    assert parsing.read_states("bins:8@-1:2", None) == rc.Bins(8, -1.0, 2.0)
    assert parsing.read_states("bins:8,4@-1:,:2", None) == rc.Bins((8, 4), (-1.0, None), (None, 2.0))
    assert parsing.read_states(None, None) is None
    assert parsing.read_actions("3,5") == (3, 5)
    assert parsing.read_actions("3") == 3


def test_something_turns_after_a_second_where_somebody_looks(monkeypatch):
    from rich.console import Console

    shown = io.StringIO()
    monkeypatch.setattr(output, "console", lambda **_: Console(force_terminal=True, file=shown))
    monkeypatch.setattr(output, "PATIENCE", 10.0 * PATIENCE)
    with output.waiting("counting"):
        pass
    assert shown.getvalue() == ""
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.waiting("counting"):
        assert waited_for(lambda: "counting" in shown.getvalue())


def test_nothing_turns_where_nobody_looks(capsys, monkeypatch):
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.waiting("counting"):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")
