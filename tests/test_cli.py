"""The command line says what the Python API says, writes whole files or none, and fails in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import rhocover as rc
from patience import PATIENCE
from rhocover.cli import app, demo, outputs, parsing, plan
from rhocover.errors import SolverError
from rhocover.files import load_tensors
from tiers import tiered

TRANSIENT = [  # state 0 is left for ever; 1 and 2 lead to each other
    [[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]],
    [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    [[0.0, 1.0, 0.0], [0.0, 0.3, 0.7]],
]


@pytest.fixture
def model(tmp_path):
    """Returns a model that is not communicating, saved as transient.safetensors."""
    mdp = rc.MDP(TRANSIENT, name="transient")
    mdp.save(tmp_path / "transient.safetensors")
    return mdp


def untimed(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key != "seconds"}


def is_picture(path: Path) -> bool:
    """Whether the file is a PNG that can be decoded and shows something."""
    return path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n") and matplotlib.image.imread(path).std() > 0.01


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


# --- plan: the numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "mu", "arguments"),
    tiered(
        [
            ("", None, {}),
            ("--mu transition_std", rc.weights.transition_std, {}),
            ("--mu model_error", rc.weights.model_error, {}),
            ("--discount 0.9", None, {"discount": 0.9}),
            ("--discount 0.9 --start 3", None, {"discount": 0.9, "start": 3}),
            ("--horizon 8", None, {"horizon": 8}),
            ("--horizon 4 --restrict", None, {"horizon": 4, "restrict": True}),
            (
                "--horizon 6 --mu transition_std --start 2",
                rc.weights.transition_std,
                {"horizon": 6, "start": 2},
            ),
            ("--eta 0.015", None, {"eta": 0.015}),
            ("--tol 1e-5", None, {"tol": 1e-5}),
        ]
    ),
)
def test_json_holds_the_numbers_of_the_python_api(rhocover, line, mu, arguments):
    mdp = rc.envs.river_swim(num_states=7)
    best = rc.plan(mdp, 2.0, mu and mu(mdp), **arguments)
    result = rhocover(f"plan river_swim --set num_states=7 --rho 2 --json {line}")
    assert (result.code, result.err) == (0, "")
    document = json.loads(result.out, parse_constant=pytest.fail)
    [found] = document["plans"]
    assert found.pop("policy") == best.policy.tolist()
    assert untimed(found) == untimed(best.summary())
    assert (document["states"], document["actions"]) == (mdp.state_labels, list(mdp.action_labels))
    asked = {"environment": "river_swim", "set": {"num_states": 7}, "rho": [2.0]} | arguments
    assert asked.items() <= document["parameters"].items()


def test_several_rho_give_a_plan_each_in_the_order_typed(rhocover):
    result = rhocover("plan river_swim --rho inf --rho 0.5 --rho 2 --json")
    plans = json.loads(result.out, parse_constant=pytest.fail)["plans"]
    assert [summary["rho"] for summary in plans] == ["inf", 0.5, 2.0]
    assert plans[0]["divergence"] == rc.plan(rc.envs.river_swim(), np.inf).divergence


def test_the_table_has_a_row_for_each_rho_with_its_certificate(rhocover):
    result = rhocover("plan river_swim --rho 2 --rho inf")
    rows = [line.split() for line in result.out.splitlines() if line.endswith("solved ")]
    assert (result.code, result.err) == (0, "")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("2", "0.293001", "2.2128"),
        ("inf", "0.652993", "1.9213"),
    ]
    assert all(float(row[2]) < 1e-8 for row in rows)
    assert "river_swim: 6 states, 2 actions, 12 pairs; uniform weights, long-run visits" in result.out


def test_a_saved_model_is_planned_like_the_named_one(rhocover):
    rc.envs.make("double_chain", num_states=5).save("chain.safetensors")
    named = json.loads(rhocover("plan double_chain --set num_states=5 --rho 3 --json").out)
    saved = json.loads(rhocover("plan ./chain.safetensors --rho 3 --json").out)
    assert untimed(named["plans"][0]) == untimed(saved["plans"][0])


def test_a_name_wins_over_a_file_of_the_same_name(rhocover):
    Path("river_swim").write_text("not a model")
    assert rhocover("plan river_swim --rho 1").code == 0


@pytest.mark.parametrize("ending", ["npy", "csv"])
def test_weights_come_from_a_file(rhocover, ending):
    mdp = rc.envs.river_swim()
    mu = np.random.default_rng(0).uniform(0.5, 1, (6, 2))
    np.save("mu.npy", mu)
    np.savetxt("mu.csv", mu, delimiter=",", fmt="%.17g")
    plans = json.loads(rhocover(f"plan river_swim --rho 2 --mu mu.{ending} --json").out)["plans"]
    assert plans[0]["divergence"] == rc.plan(mdp, 2, mu).divergence


def test_random_weights_are_uniform_between_a_tenth_and_one_and_set_by_their_seed():
    mdp = rc.envs.garnet(num_states=100)
    mu = parsing.parse_weights("random:7", mdp)
    assert mu.min() < 0.11 < 0.99 < mu.max()
    assert mu.min() >= 0.1
    assert mu.max() <= 1
    assert (mu == parsing.parse_weights("random:7", mdp)).all()
    assert (mu != parsing.parse_weights("random:8", mdp)).any()


def test_pairs_that_cannot_be_covered_are_refused_with_the_option_that_drops_them(rhocover, model):
    refused = rhocover("plan transient.safetensors --rho 2")
    assert refused.code == 2
    assert refused.is_one_error_line
    assert "--restrict" in refused.err
    result = rhocover("plan transient.safetensors --rho 2 --restrict --json")
    best = rc.plan(model, 2, restrict=True)
    found = json.loads(result.out)["plans"][0]
    assert untimed(best.summary()).items() <= found.items()
    shown = rhocover("plan transient.safetensors --rho 2 --rho 3 --restrict").out
    assert " ".join(shown.split()).count(" ".join(best.restriction.split())) == 1


def test_missing_the_tolerance_exits_with_3_and_still_shows_what_was_reached(rhocover):
    line = "plan garnet --rho 2 --rho 8 --max-steps 1"
    table = rhocover(line)
    assert table.code == 3
    assert table.is_one_error_line
    assert "2 of 2 plans missed the tolerance" in table.err
    assert table.out.count("out of steps") == 2
    document = rhocover(f"{line} --json --out kept")
    assert document.code == 3
    assert [p["status"] for p in json.loads(document.out)["plans"]] == ["out_of_steps"] * 2
    assert "plan-rho-2.safetensors" in names_in(Path("kept"))


# --- plan: the files --------------------------------------------------------------------------------


def test_out_holds_plans_pictures_and_the_document(rhocover):
    result = rhocover("plan river_swim --rho 0 --rho 0.5 --rho inf --json --out deep/er")
    folder = Path("deep/er")
    kinds = ("plan-rho-{}.safetensors", "occupancy-rho-{}.png", "ratio-rho-{}.png")
    expected = {kind.format(rho) for kind in kinds for rho in ("0", "0.5", "inf")}
    assert names_in(folder) == expected | {"frontier.png", "plan.json"}
    assert all(is_picture(path) for path in folder.glob("*.png"))
    assert (folder / "plan.json").read_text("utf-8") == result.out
    best = rc.plan(rc.envs.river_swim(), 0.5)
    tensors, document = load_tensors(folder / "plan-rho-0.5.safetensors", "plan")
    assert (tensors["occupancy"] == best.occupancy).all()
    assert untimed(best.summary()).items() <= document.items()
    loaded = rc.Plan.load(folder / "plan-rho-0.5.safetensors")
    assert (loaded.policy == best.policy).all()
    assert loaded.summary() | {"seconds": 0} == best.summary() | {"seconds": 0}
    assert result.err == f"wrote 11 files to {folder}\n"


def test_two_points_are_not_a_frontier(rhocover):
    rhocover("plan river_swim --rho 1 --rho 2 --out out")
    assert "frontier.png" not in names_in(Path("out"))


@pytest.mark.parametrize(
    "line",
    tiered(["--horizon 6", "--horizon 3 --restrict", "--discount 0.5 --start 1", "--mu transition_std"]),
)
def test_every_kind_of_plan_has_pictures(rhocover, line):
    assert rhocover(f"plan river_swim --rho 2 --out out {line}").code == 0
    assert is_picture(Path("out/occupancy-rho-2.png"))
    assert is_picture(Path("out/ratio-rho-2.png"))


def test_an_existing_file_is_refused_before_anything_is_computed(rhocover, monkeypatch):
    Path("out").mkdir()
    Path("out/ratio-rho-2.png").write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(plan, "make_plan", lambda *_, **__: pytest.fail("planned"))
        result = rhocover("plan river_swim --rho 2 --out out")
    assert result.code == 2
    assert result.is_one_error_line
    assert "ratio-rho-2.png" in result.err
    assert "--force" in result.err
    assert names_in(Path("out")) == {"ratio-rho-2.png"}
    assert Path("out/ratio-rho-2.png").read_text() == "precious"
    assert rhocover("plan river_swim --rho 2 --out out --force").code == 0
    assert is_picture(Path("out/ratio-rho-2.png"))


def test_other_files_in_the_folder_stay(rhocover):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    assert rhocover("plan river_swim --rho 2 --out out").code == 0
    assert Path("out/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("line", ["plan river_swim --rho 2", "demo"])
def test_a_file_in_the_place_of_the_folder_is_refused(rhocover, line):
    Path("taken").write_text("")
    for out in ("taken", "taken/below"):
        result = rhocover(f"{line} --out {out}")
        assert result.code == 2
        assert result.is_one_error_line
        assert "'taken' is not a folder" in result.err.replace(f"{Path.cwd()}/", "")


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_goes_wrong_while_writing_leaves_nothing_behind(rhocover, monkeypatch, problem):
    def fail(*_, **__):
        raise problem

    monkeypatch.setattr(plan, "save_figure", fail)
    result = rhocover("plan river_swim --rho 2 --out out/here")
    assert result.code == (130 if isinstance(problem, KeyboardInterrupt) else 1)
    assert names_in(Path.cwd()) == set()


def test_a_file_that_appears_while_planning_is_not_overwritten(tmp_path):
    def late(path: Path) -> None:
        (tmp_path / "a").write_text("theirs")
        path.write_text("ours")

    with pytest.raises(rc.errors.InvalidArgumentError, match="--force"):
        outputs.write_all(tmp_path, {"a": late}, force=False)
    assert (tmp_path / "a").read_text() == "theirs"
    assert names_in(tmp_path) == {"a"}


@pytest.mark.parametrize(
    "arguments", [{}, {"discount": 0.9}, {"horizon": 8}, {"horizon": 4, "restrict": True}]
)
def test_the_ratio_map_peaks_at_the_worst_ratio(arguments):
    mdp = rc.envs.river_swim()
    mu = np.random.default_rng(0).uniform(0.5, 1, (6, 2))
    best = rc.plan(mdp, 2, mu, **arguments)
    assert plan.ratio(best).max() == pytest.approx(best.worst_ratio, rel=1e-12)
    assert plan.visits(best).sum() == pytest.approx(1, abs=1e-12)


def test_the_ratio_map_leaves_out_what_was_dropped(model):
    best = rc.plan(model, 2, restrict=True)
    ratio = plan.ratio(best)
    assert (ratio[0] == 0).all()
    assert ratio.max() == pytest.approx(best.worst_ratio, rel=1e-12)


# --- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    tiered(
        [
            ("plan --rho 2", "ENV"),
            ("plam", "plam"),
            ("plan river_swim --rho 2 --rhu 3", "--rhu"),
            ("plan river_swim --rho 2 extra", "extra"),
            ("plan river_swim --rho two", "expected a number, got 'two'"),
            ("plan river_swim --rho nan", "expected a number, got 'nan'"),
            ("plan river_swim --rho ''", "expected a number, got ''"),
            ("plan river_swim --rho -1", "`--rho` must be in [0, inf], got -1"),
            ("plan river_swim --rho 2 --rho 2.0", "`--rho` has 2 twice. Give it once."),
            ("plan river_swam --rho 2", "'river_swim'"),
            ("plan nothing.safetensors --rho 2", "ENV: there is no file 'nothing.safetensors'"),
            ("plan river_swim --rho 2 --set num_states", "parameter=value"),
            ("plan river_swim --rho 2 --set num_states=x", "whole number, got 'x'"),
            ("plan river_swim --rho 2 --set num_states=1", "at least 2"),
            ("plan river_swim --rho 2 --set num_stats=3", "'num_states'"),
            (f"plan river_swim --rho 2 --set num_states={10**30}", "must be at most"),
            ("plan grid_world --rho 2 --set success=nan", "nan"),
            ("plan river_swim --rho 2 --mu unifrom", "Pass --mu uniform"),
            ("plan river_swim --rho 2 --mu random", "random:SEED"),
            ("plan river_swim --rho 2 --mu random:-1", "got '-1'"),
            ("plan river_swim --rho 2 --mu random:x", "got 'x'"),
            ("plan river_swim --rho 2 --mu missing.npy", "there is no file 'missing.npy'"),
            ("plan river_swim --rho 2 --discount 1", "`--discount` must be in (0, 1)"),
            ("plan river_swim --rho 2 --discount nan", "expected a number, got 'nan'"),
            ("plan river_swim --rho 2 --horizon 0", "`--horizon` must be at least 1"),
            ("plan river_swim --rho 2 --horizon 2.5", "expected a whole number, got '2.5'"),
            (
                "plan river_swim --rho 2 --discount 0.9 --horizon 3",
                "`--horizon` cannot be combined with `--discount`",
            ),
            ("plan river_swim --rho 2 --horizon 3", "Pass --restrict"),
            ("plan river_swim --rho 2 --start 0", "--discount or --horizon"),
            ("plan river_swim --rho 2 --discount 0.9 --start 6", "`--start` must be a state in 0..5, got 6"),
            ("plan garnet --rho 2 --discount 0.9", "`--start` is needed"),
            ("plan river_swim --rho 2 --eta 0.7", "`--eta` must be in [0, 1/2)"),
            ("plan river_swim --rho 2 --eta 0.03", "eta <= 0.02169"),
            ("plan river_swim --rho 2 --method newton", "interior_point"),
            ("plan river_swim --rho 2 --method leximin", "rho=inf"),
            ("plan river_swim --rho 2 --tol 0", "`--tol` must be positive"),
            ("plan river_swim --rho 2 --tol nan", "expected a number, got 'nan'"),
            ("plan river_swim --rho 2 --max-steps 0", "`--max-steps` must be at least 1"),
            ("plan river_swim --rho 0 --mu transition_std", "zero weight"),
            ("plan grid_world --set success=1 --rho 2 --mu transition_std", "Pass --mu uniform"),
            ("envs nowhere", "Known: deep_sea"),
            ("demo --out", "--out"),
        ]
    ),
)
def test_bad_input_is_one_line_that_names_it_and_exit_2(rhocover, line, words):
    result = rhocover(line)
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == set()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", b"", "does not hold an array"),
        ("a.npy", b"garbage, not an array", "magic string"),
        ("a.csv", b"left,right\n1,2\n", "could not convert string 'left'"),
        ("a.csv", b"1,2\n3\n", "number of columns"),
        ("a.csv", b"", "must have shape (6, 2)"),
        ("a.csv", b"1,2\n", "must have shape (6, 2), got (1, 2)"),
        ("a.csv", b"1,2\n" * 5 + b"1,nan\n", "mu[5, 1] = nan"),
        ("a.csv", b"1,2\n" * 5 + b"1,-3\n", "mu[5, 1] = -3"),
        ("a.csv", b"0,0\n" * 6, "positive"),
        ("a.csv", b"\xff\xfe", "does not hold an array"),
    ],
)
def test_a_file_that_holds_no_weights_is_refused(rhocover, name, content, words):
    Path(name).write_bytes(content)
    result = rhocover(f"plan river_swim --rho 2 --mu {name}")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err


def test_an_array_of_objects_is_not_unpickled(rhocover):
    np.save("a.npy", np.array([[print]]), allow_pickle=True)
    result = rhocover("plan river_swim --rho 2 --mu a.npy")
    assert result.code == 2
    assert "Object arrays cannot be loaded" in result.err


def test_parameters_do_not_go_with_a_saved_model(rhocover, model):
    result = rhocover("plan transient.safetensors --rho 2 --set num_states=3")
    assert result.code == 2
    assert "--set" in result.err


def test_a_damaged_model_exits_with_1(rhocover):
    Path("broken.safetensors").write_bytes(b"\x00" * 100)
    result = rhocover("plan broken.safetensors --rho 2")
    assert (result.code, result.out) == (1, "")
    assert result.is_one_error_line


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (SolverError("the solver\nfailed."), 1, "error: the solver failed."),
        (MemoryError("Unable to allocate 8 TiB"), 1, "not enough memory. Unable to allocate 8 TiB"),
        (PermissionError(13, "Permission denied", "place"), 1, "Permission denied: place"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_fails_is_told_in_one_line(rhocover, monkeypatch, problem, code, words):
    def fail(*_, **__):
        raise problem

    monkeypatch.setattr(plan, "make_plan", fail)
    result = rhocover("plan river_swim --rho 2 --out out")
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert result.err.count("\n") == 1
    assert names_in(Path.cwd()) == set()


def test_a_defect_is_not_hidden(monkeypatch):
    monkeypatch.setattr(plan, "make_plan", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        app.main(["plan", "river_swim", "--rho", "2"])


@pytest.mark.thorough
def test_the_signal_of_ctrl_c_exits_with_130():
    code = (
        "import os, signal, time\n"
        "from rhocover.cli import main, plan as command\n"
        "command.make_plan = lambda *_, **__: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))\n"
        "main(['plan', 'river_swim', '--rho', '2'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "interrupted\n")


# --- envs -------------------------------------------------------------------------------------------


def test_the_list_has_every_environment_with_sizes_and_parameters(rhocover):
    result = rhocover("envs")
    assert (result.code, result.err) == (0, "")
    for entry in rc.envs.describe():
        sizes = rf"{entry.name} .* {entry.num_states} +{entry.num_pairs} *$"
        assert re.search(sizes, result.out, re.MULTILINE), entry.name
        assert all(f"{key}=" in result.out for key in entry.parameters)


def test_the_list_as_json_is_what_the_registry_says(rhocover):
    entries = json.loads(rhocover("envs --json").out, parse_constant=pytest.fail)
    assert [entry["name"] for entry in entries] == list(rc.envs.names())
    for entry, known in zip(entries, rc.envs.describe(), strict=True):
        assert entry["parameters"] == known.parameters
        assert (entry["num_states"], entry["num_pairs"]) == (known.num_states, known.num_pairs)
        assert json.loads(rhocover(f"envs {entry['name']} --json").out) == entry


@pytest.mark.parametrize("name", tiered(rc.envs.names()))
def test_the_example_of_an_environment_runs(rhocover, name):
    page = rhocover(f"envs {name}").out
    example = re.search(r"^Example +rhocover (.*)$", page, re.MULTILINE)
    assert example
    result = rhocover(f"{example[1]} --restrict")
    assert result.code == 0, result.err


# --- demo -------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_demonstration_prints_certified_tables_and_draws_seven_pictures(rhocover):
    result = rhocover("demo --out show")
    assert (result.code, result.err) == (0, "")
    rows = [line.split() for line in result.out.splitlines() if line.endswith("solved ")]
    assert [row[0] for row in rows] == 2 * ["0", "1", "2", "8", "32", "inf"]
    river = {row[0]: row[1] for row in rows[:6]}
    assert (river["1"], river["2"], river["inf"]) == ("0.148959", "0.293001", "0.652993")
    assert all(float(row[2]) <= 1e-8 for row in rows)
    for scene in ([float(row[3]) for row in rows[:6]], [float(row[3]) for row in rows[6:]]):
        assert scene == sorted(scene, reverse=True)  # the worst pair gains with every step of rho
    named = re.findall(r"^  (show\S+)$", result.out, re.MULTILINE)
    assert {Path(name).name for name in named} == names_in(Path("show"))
    assert len(named) == 7
    assert "algorithm1" in result.out
    assert all(is_picture(Path(name)) for name in named)
    again = rhocover("demo --out show")
    assert (again.code, again.out) == (2, "")


def test_the_letter_is_twenty_by_twenty_and_hangs_together():
    scene = demo.letter()
    ink = scene.weights.min(axis=1) > (1 + demo.INK) / 2
    assert scene.mdp.num_states == 400
    inside = scene.mdp.transitions[ink[scene.mdp.pair_state]][:, ink]
    reached = np.zeros(ink.sum(), bool)
    reached[0] = True
    states = np.searchsorted(np.flatnonzero(ink), scene.mdp.pair_state[ink[scene.mdp.pair_state]])
    for _ in range(ink.sum()):
        reached |= inside[reached[states]].sum(axis=0) > 0
    assert reached.all()


# --- the shell -------------------------------------------------------------------------------------


def test_the_version_is_printed_also_by_python_m():
    line = [sys.executable, "-m", "rhocover", "--version"]
    result = subprocess.run(line, capture_output=True, text=True, check=True)
    assert result.stdout == f"rhocover {rc.__version__}\n"


@pytest.mark.thorough
def test_a_usage_error_leaves_stdout_alone_and_reaches_the_shell():
    line = [sys.executable, "-m", "rhocover", "plan", "--json"]
    result = subprocess.run(line, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ENV is missing")
