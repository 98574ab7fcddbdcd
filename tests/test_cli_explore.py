"""The commands that act say what the Python API says, go on where they were stopped, and fail in one line."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rhocover as rc
from rhocover.cli import budget, compare, explore, progress, run_options, runs
from rhocover.experiments import pool
from rhocover.exploring import explorer_names
from rhocover.exploring.schedules import SCHEDULES
from test_cli import is_picture, names_in

COMMANDS = {
    "explore": explore.explore, "resume": explore.resume, "compare": compare.compare, "budget": budget.budget,
}  # fmt: skip
RUN_FILES = {"run.safetensors", "model.safetensors", "checkpoint-0.safetensors", "result.safetensors"}
SMALL = "--steps 200 --seeds 2 --workers 1"


def untimed(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key != "seconds"}


def read(text: str) -> dict:
    return json.loads(text, parse_constant=pytest.fail)


# --- explore ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rho", "arguments"),
    [
        ("--rho 2", 2.0, {}),
        ("--rho inf --explorer tracking --seed 3", np.inf, {"explorer": "tracking", "seed": 3}),
        ("--rho 2 --explorer algorithm1 --schedule quadratic:5", 2.0,
         {"explorer": "algorithm1", "schedule": rc.Quadratic(5)}),
        ("--rho 1 --mu transition_std --start 3", 1.0, {"mu": rc.weights.transition_std, "start": 3}),
        ("--rho 2 --discount 0.9 --chains 4", 2.0, {"discount": 0.9, "num_chains": 4}),
        ("--rho 2 --horizon 7", 2.0, {"horizon": 7}),
        ("--rho 2 --horizon 4 --restrict", 2.0, {"horizon": 4, "restrict": True}),
    ],
)  # fmt: skip
def test_json_holds_the_run_of_the_python_api(rhocover, line, rho, arguments):
    mdp = rc.envs.river_swim(num_states=7)
    given = {key: value(mdp) if key == "mu" else value for key, value in arguments.items()}
    run = rc.explore(mdp, rho, 600, **given)
    result = rhocover(f"explore river_swim --set num_states=7 --steps 600 --json {line}")
    assert (result.code, result.err) == (0, "")
    document = read(result.out)
    assert untimed(document["run"]) == untimed(run.summary())
    asked = document["parameters"]
    assert (asked["environment"], asked["set"], asked["num_steps"]) == ("river_swim", {"num_states": 7}, 600)


def test_the_table_shows_what_was_reached_beside_what_is_possible(rhocover):
    run = rc.explore(rc.envs.river_swim(), 2.0, 3000)
    result = rhocover("explore river_swim --rho 2 --steps 3000")
    assert (result.code, result.err) == (0, "")
    rows = {line[:18].strip(): line[18:].split() for line in result.out.splitlines()}
    assert rows["divergence"] == [f"{run.divergence:.6f}", "0.293001"]
    assert rows["worst ratio"] == [f"{run.worst_ratio:.4f}", "2.2128"]
    assert rows["regret"] == [f"{run.regret:.3g}", "0"]
    pair, count = run.least_visited
    assert f"Coverage: complete. Least visited: {pair}, {count:,} times." in result.out


def test_incomplete_coverage_is_called_that_and_has_no_numbers(rhocover):
    """Eleven steps cannot visit twelve pairs."""
    run = rc.explore(rc.envs.river_swim(), 2.0, 11)
    result = rhocover("explore river_swim --rho 2 --steps 11")
    assert result.code == 0
    assert run.coverage_text in result.out
    assert re.search(r"incomplete \(\d+ of 12\)", result.out)
    assert re.search(r"^ divergence +- +0\.293001 *$", result.out, re.MULTILINE)
    summary = read(rhocover("explore river_swim --rho 2 --steps 11 --json").out)["run"]
    assert summary["divergence"] is None
    assert summary["coverage"] == run.coverage_text


def test_out_holds_the_run_the_document_and_pictures(rhocover):
    result = rhocover("explore wheel --rho 2 --steps 500 --json --out deep/run")
    folder = Path("deep/run")
    assert result.err == f"pictures, explore.json and the run itself are in {folder}\n"
    assert names_in(folder) >= RUN_FILES | {"explore.json", *runs.PICTURES}
    assert all(is_picture(path) for path in folder.glob("*.png"))
    assert (folder / "explore.json").read_text("utf-8") == result.out
    assert rc.resume(folder).counts.tolist() == rc.explore(rc.envs.wheel(), 2, 500).counts.tolist()


@pytest.mark.parametrize("line", ["--horizon 7", "--explorer algorithm1 --chains 3", "--chains 150"])
def test_every_kind_of_run_has_pictures(rhocover, line):
    assert rhocover(f"explore river_swim --rho 2 --steps 300 --out out {line}").code == 0
    assert all(is_picture(Path("out", name)) for name in runs.PICTURES)


def test_a_long_run_is_not_explored_again_for_pictures(rhocover, monkeypatch):
    monkeypatch.setattr(runs, "LONGEST_SNAPSHOTS", 199)
    assert rhocover("explore wheel --rho 2 --steps 200 --out out").code == 0
    assert "snapshots.png" not in names_in(Path("out"))


def test_an_existing_run_is_kept_unless_told_otherwise(rhocover):
    assert rhocover("explore wheel --rho 2 --steps 100 --out out").code == 0
    before = Path("out/result.safetensors").read_bytes()
    result = rhocover("explore wheel --rho 2 --steps 200 --out out")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line
    assert "`--out` 'out' holds a run already. Go on with it: rhocover resume out" in result.err
    assert rhocover("explore wheel --rho 2 --steps 0 --out out --force").code == 2
    assert Path("out/result.safetensors").read_bytes() == before
    assert rhocover("explore wheel --rho 2 --steps 200 --out out --force").code == 0
    assert read(Path("out/explore.json").read_text())["run"]["steps"] == 200


def test_force_removes_nothing_that_is_not_of_a_run(rhocover):
    assert rhocover("explore wheel --rho 2 --steps 100 --out out").code == 0
    Path("out/notes.txt").write_text("mine")
    before = names_in(Path("out"))
    result = rhocover("explore wheel --rho 2 --steps 200 --out out --force")
    assert result.code == 2
    assert "holds 'notes.txt', which is not of this command" in result.err
    assert names_in(Path("out")) == before


# --- resume -----------------------------------------------------------------------------------------


def test_ctrl_c_says_how_to_go_on_and_resume_ends_as_if_nothing_had_been(rhocover):
    """The first report of a run sends the signal; what is resumed has the bits of an uninterrupted run."""
    code = (
        "import os, signal\n"
        "from rhocover.cli import main\n"
        "from rhocover.cli import runs\n"
        "original = runs.explore\n"
        "def explore(*args, report, **given):\n"
        "    return original(*args, report=lambda *_: os.kill(os.getpid(), signal.SIGINT), **given)\n"
        "runs.explore = explore\n"
        "main(['explore', 'river_swim', '--rho', '2', '--steps', '5000', '--seed', '4', '--out', 'run'])"
    )
    stopped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    hint = "What was done is kept. Go on with: rhocover resume run\n"
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", f"{hint}interrupted\n")
    assert "explore.json" not in names_in(Path("run"))
    result = rhocover("resume run --json")
    assert (result.code, result.err) == (0, "pictures, explore.json and the run itself are in run\n")
    whole = rc.explore(rc.envs.river_swim(), 2.0, 5000, seed=4)
    assert untimed(read(result.out)["run"]) == untimed(whole.summary())
    assert all(is_picture(Path("run", name)) for name in runs.PICTURES)
    again = rhocover("resume run --json")  # a finished run is shown again
    assert untimed(read(again.out)["run"]) == untimed(whole.summary())


# --- compare ----------------------------------------------------------------------------------------


def test_compare_prints_the_rows_of_the_python_api(rhocover):
    line = f"compare river_swim wheel --rho 2 --rho inf --explorer feedback --explorer algorithm1 {SMALL}"
    envs = {"river_swim": "river_swim", "wheel": "wheel"}
    found = rc.compare(envs, ["feedback", "algorithm1"], rho=[2, np.inf], num_steps=200, seeds=2, workers=1)
    result = rhocover(f"{line} --json")
    assert (result.code, result.err) == (0, "")
    assert read(result.out)["rows"] == [row.summary() for row in found.table()]
    table = rhocover(line).out
    assert table.count("possible") == 4
    assert "river_swim at rho = 2: 200 steps, 2 seeds" in table
    row = found.table()[0]
    if not row.num_incomplete:
        assert f"{row.regret.mean:.2e} ± {row.regret.standard_error:.0e}" in table


def test_seeds_that_never_saw_every_pair_are_told(rhocover):
    result = rhocover("compare river_swim --explorer stationary --steps 11 --seeds 3 --workers 1")
    assert re.search(r"stationary +incomplete \(3 of 3\)", result.out)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("--schedule constant:20 --explorer algorithm1", {"explorers": "algorithm1", "schedule": "constant:20"}),
        ("--explorer feedback --mu transition_std --set num_states=4", {
            "envs": rc.envs.river_swim(num_states=4), "explorers": "feedback",
            "mu": rc.weights.transition_std}),
        ("--explorer feedback --discount 0.9 --start 2 --chains 2", {
            "explorers": "feedback", "discount": 0.9, "start": 2, "num_chains": 2}),
    ],
)  # fmt: skip
def test_options_of_compare_are_arguments_of_compare(rhocover, line, given):
    found = rc.compare(**{"envs": "river_swim", "num_steps": 200, "seeds": 2, "workers": 1} | given)
    rows = read(rhocover(f"compare river_swim {SMALL} --json {line}").out)["rows"]
    assert rows == [row.summary() for row in found.table()]


def test_a_comparison_is_kept_drawn_gone_on_with_and_redrawn(rhocover, monkeypatch):
    line = f"compare river_swim --rho 2 --rho inf --explorer feedback {SMALL} --out out"
    first = rhocover(f"{line} --json")
    assert first.err == "pictures, compare.json and the numbers behind them are in out\n"
    kinds = ("regret", "bregman", "worst-ratio")
    pictures = {f"{kind}-river_swim-rho-{rho}.png" for kind in kinds for rho in ("2", "inf")}
    assert names_in(Path("out")) == pictures | {"compare.json", "comparison.safetensors"}
    assert all(is_picture(path) for path in Path("out").glob("*.png"))
    assert Path("out/compare.json").read_text("utf-8") == first.out
    shown = {name: Path("out", name).read_bytes() for name in pictures}
    for name in pictures:
        Path("out", name).unlink()
    monkeypatch.setattr(pool, "run_one", lambda *_: pytest.fail("ran"))
    redrawn = rhocover("compare --redraw out --json")
    assert (redrawn.code, redrawn.out) == (0, first.out)
    assert {name: Path("out", name).read_bytes() for name in pictures} == shown
    assert rhocover(f"{line} --json").out == first.out  # nothing is left to run


def test_another_comparison_is_refused_unless_forced(rhocover):
    line = "compare wheel --explorer feedback --steps 100 --workers 1 --out out"
    assert rhocover(f"{line} --seeds 2").code == 0
    before = Path("out/comparison.safetensors").read_bytes()
    result = rhocover(f"{line} --seeds 1")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line
    assert "other `--seeds`: [0, 1], now [0]" in result.err
    assert rhocover(f"{line} --seeds 0 --force").code == 2
    assert Path("out/comparison.safetensors").read_bytes() == before
    assert rhocover(f"{line} --seeds 1 --force").code == 0
    assert len(read(Path("out/compare.json").read_text())["parameters"]["seeds"]) == 1


def test_ctrl_c_keeps_a_comparison_and_says_so(rhocover, monkeypatch):
    original, made = pool.run_one, []

    def run(question, place):
        if made:
            raise KeyboardInterrupt
        made.append(place)
        return original(question, place)

    line = f"compare wheel --explorer feedback {SMALL} --out out"
    with monkeypatch.context() as patch:
        patch.setattr(pool, "run_one", run)
        result = rhocover(line)
    assert result.code == 130
    assert result.err == "What was done is kept in out. Go on with the same command.\ninterrupted\n"
    unfinished = rhocover("compare --redraw out")
    assert unfinished.code == 2
    assert "holds 1 of 2 runs" in unfinished.err
    assert rhocover(line).code == 0


# --- budget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("--visits 50", {"visits": 50}),
        ("--visits 50 --delta 0.01 --start 3", {"visits": 50, "delta": 0.01, "start": 3}),
        ("--model-error 0.1", {"model_error": 0.1}),
    ],
)
def test_budget_prints_the_numbers_of_the_python_api(rhocover, line, given):
    found = rc.budget(rc.envs.river_swim(), **given)
    result = rhocover(f"budget river_swim {line} --json")
    assert (result.code, result.err) == (0, "")
    assert read(result.out)["budget"] == found.summary()
    assert given.items() <= read(result.out)["parameters"].items()
    shown = rhocover(f"budget river_swim {line}").out
    assert shown.split() == str(found).split()


# --- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("explore river_swim", "--rho"),
        ("explore --rho 2", "ENV"),
        ("explore river_swam --rho 2", "'river_swim'"),
        ("explore river_swim --rho 2 --steps 0", "`--steps` must be at least 1, got 0"),
        ("explore river_swim --rho 2 --steps -3", "`--steps` must be at least 1, got -3"),
        ("explore river_swim --rho 2 --steps 2.5", "expected a whole number, got '2.5'"),
        ("explore river_swim --rho -1", "`--rho` must be in [0, inf]"),
        ("explore river_swim --rho 2 --explorer algorithm1 --steps 9", "first episode of 10 steps, got 9"),
        ("explore river_swim --rho 2 --explorer algorithm1 --schedule quadratic:0",
         "TAU of --schedule must be at least 1, got 0"),
        ("explore river_swim --rho 2 --explorer algorithm1 --schedule constant:0", "TAU of --schedule must be"),
        ("explore river_swim --rho 2 --explorer algorithm1 --schedule cubic:3", "quadratic"),
        ("explore river_swim --rho 2 --explorer algorithm1 --schedule power:3,99", "P of --schedule"),
        ("explore river_swim --rho 2 --schedule quadratic:3", "`--schedule` goes with Algorithm 1"),
        ("explore river_swim --rho 2 --explorer feedbak", "Did you mean 'feedback'"),
        ("explore river_swim --rho 2 --explorer nobody", "Known: algorithm1, algorithm1_adaptive"),
        ("explore river_swim --rho 2 --start 6", "`--start` must be a state in 0..5, got 6"),
        ("explore river_swim --rho 2 --seed -1", "`--seed` must be at least 0"),
        ("explore river_swim --rho 2 --steps 10 --chains 3", "multiple of --chains 3, got 10"),
        ("explore river_swim --rho 2 --chains 0", "`--chains` must be at least 1"),
        ("explore river_swim --rho 2 --discount 0.9 --horizon 3", "not both"),
        ("explore river_swim --rho 2 --horizon 3", "Pass --restrict"),
        ("resume nowhere", "`--out` 'nowhere' holds no run"),
        ("resume .", "holds no run: there is no run.safetensors in it"),
        ("compare", "name at least one ENV, or --redraw DIR"),
        ("compare river_swim river_swim", "given once each"),
        ("compare river_swim wheel --set num_states=3", "--set goes with one ENV"),
        ("compare river_swim --explorer feedbak", "Did you mean 'feedback'"),
        ("compare river_swim --explorer feedback --explorer feedback", "`--explorer` has 'feedback' twice"),
        ("compare river_swim --seeds 0", "`--seeds` must be at least 1"),
        ("compare river_swim --steps 5", "`--steps` must cover the first episode of 10 steps"),
        ("compare river_swim --workers 0", "`--workers` must be at least 1"),
        ("compare river_swim --rho 2 --rho 2", "--rho 2 is given twice"),
        ("compare river_swim --redraw x", "goes without ENV"),
        ("compare --redraw x", "there is no folder 'x'"),
        ("budget river_swim", "pass `--visits` or `--model-error`, one of the two, got neither"),
        ("budget river_swim --visits 3 --model-error 0.1", "got both"),
        ("budget river_swim --visits 0", "`--visits` must be at least 1"),
        ("budget river_swim --model-error 0", "`--model-error` must be in (0, inf)"),
        ("budget river_swim --visits 3 --delta 1", "`--delta` must be in (0, 1)"),
        ("budget river_swim --visits 3 --start 6", "`--start` must be a state in 0..5"),
        ("budget grid_world --set success=1 --model-error 0.1", "pass --visits 1 in place of `--model-error`"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_that_names_it_and_exit_2(rhocover, line, words):
    out = (
        ""
        if line.startswith(("resume", "budget", "compare --redraw", "compare river_swim --re"))
        else "--out o"
    )
    result = rhocover(f"{line} {out}")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line, result.err
    assert words in result.err
    assert names_in(Path.cwd()) == set()


@pytest.mark.parametrize("line", ["explore wheel --rho 2 --steps 100", f"compare wheel {SMALL}"])
def test_a_place_that_is_no_free_folder_is_refused(rhocover, line):
    Path("taken").write_text("")
    assert "must be a folder, got the file 'taken'" in rhocover(f"{line} --out taken").err
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    result = rhocover(f"{line} --out full")
    assert result.code == 2
    assert result.is_one_error_line
    assert "holds 'notes.txt'" in result.err
    assert names_in(Path("full")) == {"notes.txt"}


def test_pairs_that_cannot_be_covered_are_refused_with_the_option_that_drops_them(rhocover):
    rc.MDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], name="trap").save("trap.safetensors")
    for line in ("explore trap.safetensors --rho 2 --steps 100", f"compare trap.safetensors {SMALL}",
                 "budget trap.safetensors --visits 3"):  # fmt: skip
        result = rhocover(line)
        assert result.code == 2
        assert result.is_one_error_line
        assert "--restrict" in result.err
    assert rhocover("explore trap.safetensors --rho 2 --steps 100 --restrict --start 1").code == 0


# --- progress and help ------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_the_bar_waits_a_second_and_shows_what_is_done(monkeypatch):
    from rich.console import Console

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    console = Console(force_terminal=True, width=80, record=True, file=io.StringIO())
    bar = progress.Bar(console, "runs")
    bar.report(1, 40)
    assert bar._shown is None
    clock.now = 1.5
    bar.report(7, 40)
    bar._shown.refresh()
    bar.stop()
    assert "7/40" in console.export_text()


def test_there_is_no_bar_where_nobody_looks():
    with progress.progress("runs") as report:
        assert report is None


@pytest.mark.parametrize("name", COMMANDS)
def test_help_renders_with_examples(rhocover, name):
    result = rhocover(f"{name} --help")
    assert (result.code, result.err) == (0, "")
    assert f"Usage: rhocover {name}" in result.out
    assert f"rhocover {name} " in result.out.replace("Usage:", "")
    assert "`" not in result.out


EXAMPLES = [
    example
    for command in COMMANDS.values()
    for example in re.findall(r"\* `rhocover ([^`]*)`", inspect.getdoc(command) or "")
]


def test_the_examples_in_the_help_run(rhocover, monkeypatch):
    """In their order: a folder that one of them shows again was written by one before it."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # processes have their own tests
    for line in EXAMPLES:
        result = rhocover(line)
        wrote = re.sub(r"^pictures, .* are in (run|runs)\n", "", result.err)
        assert (line, result.code, wrote) == (line, 0, "")


def test_the_commands_and_the_functions_take_the_same_words():
    for name, missing in (("explore", {"model", "trace_points"}), ("compare", {"envs", "explorers", "trace_points"}),
                          ("budget", {"mdp", "policy"})):  # fmt: skip
        command = inspect.signature(COMMANDS[name]).parameters
        function = inspect.signature(getattr(rc, name)).parameters
        shared = set(function) - missing - {"world", "mdp", "rho", "mu", "num_steps", "report"}
        assert shared <= set(command), name
        assert all(command[word].default == function[word].default for word in shared), name


def test_the_help_names_every_explorer_and_every_schedule():
    for option in (run_options.Explorer, run_options.Explorers):
        words = option.__metadata__[0].help
        assert all(re.search(rf"\b{name}\b", words) for name in explorer_names())
    schedule = run_options.Schedule.__metadata__[0].help
    assert all(f"{name}:" in schedule for name in SCHEDULES)


def test_a_comparison_in_several_processes_works_from_the_shell(tmp_path):
    line = [
        sys.executable,
        "-m",
        "rhocover",
        *shlex.split("compare wheel --steps 100 --seeds 2 --workers 2 --json"),
    ]
    result = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    found = rc.compare({"wheel": "wheel"}, num_steps=100, seeds=2, workers=1)
    assert read(result.stdout)["rows"] == [row.summary() for row in found.table()]
