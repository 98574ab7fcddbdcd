"""`rhocover compare` prints the rows of the Python API, keeps what it has, and draws it again."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import rhocover as rc
from test_cli import is_picture, names_in
from test_cli_explore import SMALL, read
from tiers import tiered

QUESTION = importlib.import_module("rhocover.experiments.question")


def test_compare_prints_the_rows_of_the_python_api(rhocover):
    line = f"compare river_swim wheel --rho 2 --rho inf --explorer feedback --explorer algorithm1 {SMALL}"
    envs = {"river_swim": "river_swim", "wheel": "wheel"}
    found = rc.compare(envs, ["feedback", "algorithm1"], rho=[2, np.inf], num_steps=200, seeds=2, workers=1)
    result = rhocover(f"{line} --json")
    assert (result.code, result.err) == (0, "")
    assert read(result.out)["rows"] == [row.summary() for row in found.table()]
    table = rhocover(line).out
    assert len(re.findall(r"^ *possible ", table, re.MULTILINE)) == 4
    assert "river_swim at rho = 2: 200 steps, 2 seeds" in table
    row = found.table()[0]
    if not row.num_incomplete:
        assert f"{row.regret.mean:.2e} ± {row.regret.standard_error:.0e}" in table


def test_seeds_that_never_saw_every_pair_are_told(rhocover):
    result = rhocover("compare river_swim --explorer stationary --steps 11 --seeds 3 --workers 1")
    assert re.search(r"stationary +incomplete \(3 of 3\)", result.out)


@pytest.mark.parametrize(
    ("line", "given"),
    tiered([
        ("--schedule constant:20 --explorer algorithm1", {"explorers": "algorithm1", "schedule": "constant:20"}),
        ("--explorer feedback --mu transition_std --set num_states=4", {
            "envs": rc.envs.river_swim(num_states=4), "explorers": "feedback",
            "mu": rc.weights.transition_std}),
        ("--explorer feedback --discount 0.9 --start 2 --num-envs 2", {
            "explorers": "feedback", "discount": 0.9, "start": 2, "num_chains": 2}),
        ("--explorer feedback --model from_scratch", {"explorers": "feedback", "model": "from_scratch"}),
        ("--explorer tracking --model learned --mu transition_std", {
            "explorers": "tracking", "model": "learned", "mu": "transition_std"}),
        ("--explorer feedback --explorer rf_ucrl --horizon 9", {
            "explorers": ["feedback", "rf_ucrl"], "horizon": 9}),
    ]),
)  # fmt: skip
def test_options_of_compare_are_arguments_of_compare(rhocover, line, given):
    found = rc.compare(**{"envs": "river_swim", "num_steps": 200, "seeds": 2, "workers": 1} | given)
    rows = read(rhocover(f"compare river_swim {SMALL} --json {line}").out)["rows"]
    assert rows == [row.summary() for row in found.table()]


@pytest.mark.thorough
def test_the_table_of_a_learned_comparison_says_so_and_has_the_model_error(rhocover):
    found = rc.compare("river_swim", "feedback", model="learned", num_steps=300, seeds=2, workers=1)
    line = "compare river_swim --explorer feedback --steps 300 --seeds 2 --workers 1"
    learned = rhocover(f"{line} --model learned").out
    assert "river_swim at rho = 2: 300 steps, 2 seeds; model learned" in learned
    error = found.table()[0].model_error
    assert f"{error.mean:.3g} ± {error.standard_error:.1g}" in learned
    assert ("model error" in learned, "exponent" in learned) == (True, False)
    known = rhocover(line).out
    assert ("model" in known, "exponent" in known) == (False, True)
    episodes = rhocover("compare wheel --explorer feedback --explorer ent_game --horizon 9 --restrict "
                        f"{SMALL}").out  # fmt: skip
    assert "2 seeds; all in episodes of 9 steps" in episodes


def test_no_number_of_a_table_is_cut_off_where_names_are_long(rhocover, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = rhocover(f"compare wheel --explorer state_marginal_matching {SMALL} --model learned").out
    assert "…" not in shown
    assert "state_marginal_matching" in shown


def test_a_comparison_with_another_model_is_refused(rhocover):
    line = f"compare wheel --explorer feedback {SMALL} --out out"
    assert rhocover(line).code == 0
    result = rhocover(f"{line} --model learned")
    assert (result.code, result.out) == (2, "")
    assert "other `--model`: known, now learned" in result.err


@pytest.mark.thorough
def test_a_comparison_is_kept_drawn_gone_on_with_and_redrawn(rhocover, monkeypatch):
    line = f"compare river_swim --rho 2 --rho inf --explorer feedback {SMALL} --out out"
    first = rhocover(f"{line} --json")
    assert first.err == "figures, compare.json and the runs are in out\n"
    kinds = ("regret", "bregman", "worst-ratio")
    pictures = {f"{kind}-river_swim-rho-{rho}.png" for kind in kinds for rho in ("2", "inf")}
    assert names_in(Path("out")) == pictures | {"compare.json", "comparison.safetensors"}
    assert all(is_picture(path) for path in Path("out").glob("*.png"))
    assert Path("out/compare.json").read_text("utf-8") == first.out
    shown = {name: Path("out", name).read_bytes() for name in pictures}
    for name in pictures:
        Path("out", name).unlink()
    monkeypatch.setattr(QUESTION, "run_one", lambda *_: pytest.fail("ran"))
    redrawn = rhocover("compare --redraw out --json")
    assert (redrawn.code, redrawn.out) == (0, first.out)
    assert {name: Path("out", name).read_bytes() for name in pictures} == shown
    assert rhocover(f"{line} --json").out == first.out  # nothing is left to run


@pytest.mark.thorough
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
    original, made = QUESTION.run_one, []

    def run(question, place):
        if made:
            raise KeyboardInterrupt
        made.append(place)
        return original(question, place)

    line = f"compare wheel --explorer feedback {SMALL} --out out"
    with monkeypatch.context() as patch:
        patch.setattr(QUESTION, "run_one", run)
        result = rhocover(line)
    assert result.code == 130
    assert result.err == "The finished runs are stored in out. Continue with the same command.\ninterrupted\n"
    unfinished = rhocover("compare --redraw out")
    assert unfinished.code == 2
    assert "holds 1 of 2 runs" in unfinished.err
    assert rhocover(line).code == 0


# --- environments -------------------------------------------------------------------------------------

CAR = "compare MountainCar-v0 --states bins:6 --held-out bins:20 --steps 300 --seeds 2 --workers 1"


def test_compare_on_environments_prints_the_rows_of_the_python_api(rhocover):
    found = rc.compare(
        "MountainCar-v0", states=rc.Bins(6), held_out=rc.Bins(20), num_steps=300, seeds=2, workers=1
    )
    assert read(rhocover(f"{CAR} --json").out)["rows"] == [row.summary() for row in found.table()]
    table = rhocover(CAR).out
    assert "MountainCar-v0: 300 steps, 2 seeds" in table
    assert str(found.table()[0].cells) in table
    assert f"95 % of {found.most('MountainCar-v0', 'cells')}" in table


def test_a_comparison_on_environments_is_kept_and_redrawn(rhocover):
    line = f"{CAR} --explorer uniform_random"
    first = rhocover(f"{line} --out runs")
    assert first.code == 0
    assert names_in(Path("runs")) == {"compare.json", "comparison.safetensors", "found-MountainCar-v0.png"}
    assert is_picture(Path("runs/found-MountainCar-v0.png"))
    assert rhocover("compare --redraw runs").out == first.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{CAR} --report page.html", "--report"),
        ("compare MountainCar-v0 --states bins:6 --held-out net", "--held-out net needs an environment"),
        ("compare MountainCar-v0 --states bins:6 --discount 0.9", "--discount"),
        ("compare river_swim --states bins:6", "river_swim"),
    ],
)
def test_what_environments_do_not_have_is_refused(rhocover, line, words):
    result = rhocover(line)
    assert result.code == 2
    assert words in result.err
