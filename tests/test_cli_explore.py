"""The commands that act say what the Python API says, go on where they were stopped, and fail in one line."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import rhocover as rc
from patience import PATIENCE
from rhocover.cli import explore, output
from rhocover.cli.result_tables import TRUE
from rhocover.exploring import explorer_names
from rhocover.exploring.explorers.registry import CLASSES, VARIANTS
from rhocover.exploring.runs import result
from rhocover.exploring.runs.spec import MODELS
from rhocover.exploring.runs.stopping import CertifiedGap, EveryPair, SmallModelError
from test_cli import is_picture, names_in
from tiers import tiered

RUN_FILES = {"run.safetensors", "model.safetensors", "checkpoint-0.safetensors", "result.safetensors"}
SMALL = "--steps 200 --seeds 2 --workers 1"


def untimed(summary: dict) -> dict:
    return {key: value for key, value in summary.items() if key != "seconds"}


def read(text: str) -> dict:
    return json.loads(text, parse_constant=pytest.fail)


# --- explore ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rho", "arguments"),
    tiered([
        ("--rho 2", 2.0, {}),
        ("--rho inf --explorer tracking --seed 3", np.inf, {"explorer": "tracking", "seed": 3}),
        ("--rho 2 --explorer algorithm1 --schedule quadratic:5", 2.0,
         {"explorer": "algorithm1", "schedule": rc.Quadratic(5)}),
        ("--rho 1 --mu transition_std --start 3", 1.0, {"mu": rc.weights.transition_std, "start": 3}),
        ("--rho 2 --discount 0.9 --num-envs 4", 2.0, {"discount": 0.9, "num_chains": 4}),
        ("--rho 2 --horizon 7", 2.0, {"horizon": 7}),
        ("--rho 2 --horizon 4 --restrict", 2.0, {"horizon": 4, "restrict": True}),
        ("--rho 2 --model learned", 2.0, {"model": "learned"}),
        ("--rho 2 --model posterior --explorer tracking", 2.0, {"model": "posterior", "explorer": "tracking"}),
        ("--rho 1 --model from_scratch --discount 0.9", 1.0, {"model": "from_scratch", "discount": 0.9}),
        ("--rho 1.5 --model learned --mu model_error", 1.5, {"model": "learned", "mu": "model_error"}),
        ("--rho 2 --model learned --mu transition_std", 2.0, {"model": "learned", "mu": "transition_std"}),
        ("--rho 2 --explorer ent_game --horizon 7 --model learned", 2.0,
         {"explorer": "ent_game", "horizon": 7, "model": "learned"}),
        ("--rho 2 --until-visits 6", 2.0, {"until": EveryPair(6)}),
        ("--rho 2 --model learned --until-gap 0.8 --delta 0.3", 2.0,
         {"model": "learned", "until": CertifiedGap(0.8, 0.3)}),
        ("--rho 2 --model learned --until-error 0.9 --delta 0.3", 2.0,
         {"model": "learned", "until": SmallModelError(0.9, 0.3)}),
    ]),
)  # fmt: skip
def test_json_holds_the_run_of_the_python_api(rhocover, line, rho, arguments):
    mdp = rc.envs.river_swim(num_states=7)
    given = {key: value(mdp) if callable(value) else value for key, value in arguments.items()}
    run = rc.explore(mdp, rho, 600, **given)
    assert run.is_enough == ("until" in given)  # these rules are met within the budget
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
    assert re.search(r"^ divergence +inf +0\.293001 *$", result.out, re.MULTILINE)
    assert re.search(rf"^ worst ratio, visited pairs +{run.visited_worst_ratio:.4f} +- *$", result.out, re.M)
    summary = read(rhocover("explore river_swim --rho 2 --steps 11 --json").out)["run"]
    assert summary["divergence"] == summary["gap"] == summary["worst_ratio"] == "inf"
    assert summary["coverage"] == run.coverage_text


@pytest.mark.thorough
def test_json_holds_certificate_evidence_and_model_error(rhocover):
    """Twelve steps cannot visit fourteen pairs, so there is something that was never reached."""
    mdp = rc.envs.river_swim(num_states=7)
    for steps, is_lacking in ((600, False), (12, True)):
        run = rc.explore(mdp, 2.0, steps, model="learned")
        line = f"explore river_swim --set num_states=7 --rho 2 --steps {steps} --model learned --delta 0.2"
        document = read(rhocover(f"{line} --json").out)
        certificate, evidence, error = run.certificate(0.2), run.evidence(0.2), run.model_error()
        plain = {key: str(value) if value == np.inf else value for key, value in asdict(certificate).items()}
        assert document["certificate"] == plain
        assert document["evidence"]["unmet"] == list(evidence.unmet)
        assert document["evidence"]["text"] == str(evidence)
        assert bool(evidence.unmet or evidence.unvisited) == is_lacking
        assert document["model_error"].items() >= asdict(error).items()
        assert document["model_error"]["worst_pair_name"] == mdp.pair_name(error.worst_pair)
        assert document["parameters"]["model"] == "learned"
        assert document["parameters"]["delta"] == 0.2


def test_with_a_known_model_the_certificate_is_sure_and_nothing_is_left_to_find(rhocover):
    document = read(rhocover("explore river_swim --rho 2 --steps 600 --json").out)
    run = rc.explore(rc.envs.river_swim(), 2.0, 600)
    assert document["evidence"] is None
    assert (document["certificate"]["gap"], document["certificate"]["delta"]) == (run.gap, 0.0)
    assert "plug-in" not in rhocover("explore river_swim --rho 2 --steps 600").out


@pytest.mark.thorough
def test_the_table_of_a_learned_model_has_the_true_the_estimated_and_the_certified_gap(rhocover):
    run = rc.explore(rc.envs.river_swim(), 2.0, 3000, model="learned")
    result = rhocover("explore river_swim --rho 2 --steps 3000 --model learned --delta 0.1")
    assert (result.code, result.err) == (0, "")
    found = run.certificate(0.1)
    gaps = [f"{gap:.3g}" for gap in (run.trace["excess"][-1], found.plug_in_gap, found.gap)]
    rows = {line[:22].strip(): line[22:].split() for line in result.out.splitlines()}
    assert rows["gap to the best, nats"] == gaps
    assert rows["model error"] == [f"{run.model_error().l1_mean:.3g}"]
    assert "upper bound, with probability 0.9" in result.out
    assert TRUE in " ".join(result.out.split())
    assert "feedback on river_swim at rho = 2, model learned: 3,000 steps, seed 0" in result.out
    assert "never" not in result.out
    assert "suggest" not in result.out


def test_what_was_never_reached_is_told(rhocover):
    run = rc.explore(rc.envs.river_swim(), 2.0, 10, model="learned", mu="transition_std")
    line = "explore river_swim --rho 2 --steps 10 --model learned --mu transition_std"
    words = " ".join(rhocover(line).out.split())
    assert str(run.evidence(0.05)) in words
    assert "never met" in words
    assert "Some pairs with a weight were never visited, so there is nothing to certify yet." in words


def test_weights_of_a_rule_are_said_to_be_estimates(rhocover):
    line = "explore river_swim --rho 2 --steps 600 --model learned"
    said = "weights estimated from the observed transitions."
    assert said in " ".join(rhocover(f"{line} --mu transition_std").out.split())
    assert said not in " ".join(rhocover(f"{line} --mu random:1").out.split())


@pytest.mark.thorough
def test_a_certificate_that_takes_minutes_is_made_only_where_it_was_asked_for(rhocover, monkeypatch):
    monkeypatch.setattr(result, "LARGEST", 12 * 6 - 1)  # one less than RiverSwim's pairs times states
    line = "explore river_swim --rho 2 --steps 600 --model learned"
    assert read(rhocover(f"{line} --json").out)["certificate"] is None
    shown = rhocover(line).out
    assert "The certificate is left out" in shown
    assert re.search(r"^ gap to the best, nats +-?[\d.e-]+ +- +- *$", shown, re.MULTILINE)
    assert read(rhocover(f"{line} --until-gap 0.01 --json").out)["certificate"]["gap"] > 0.01
    known = read(rhocover(f"{line.replace('learned', 'known')} --json").out)
    assert known["certificate"] is not None
    few = " ".join(rhocover(line.replace("600", "10")).out.split())
    assert "there is nothing to certify yet" in few  # which takes no plan to see
    monkeypatch.setattr(result, "LARGEST", 12 * 6)
    assert read(rhocover(f"{line} --json").out)["certificate"]["gap"] > 0


@pytest.mark.parametrize(
    ("line", "until", "words"),
    tiered(
        [
            (
                "--until-visits 6",
                EveryPair(6),
                "every pair with positive weight was visited at least 6 times.",
            ),
            ("--until-gap 0.5", CertifiedGap(0.5), "the certified gap is at most 0.5 nats (delta = 0.05)."),
            (
                "--until-error 1 --delta 0.2",
                SmallModelError(1.0, 0.2),
                "the model error is at most 1 (delta = 0.2).",
            ),
        ]
    ),
)
def test_a_rule_that_was_met_is_told_with_its_step_and_one_that_was_not_as_well(rhocover, line, until, words):
    run = rc.explore(rc.envs.river_swim(), 2.0, 2000, model="learned", until=until)
    assert run.num_steps < 2000
    asked = f"explore river_swim --rho 2 --model learned {line}"
    shown = " ".join(rhocover(f"{asked} --steps 2000").out.split())
    assert f"Stopped after {run.num_steps:,} of 2,000 steps: {words}" in shown
    short = " ".join(rhocover(f"{asked} --steps 20").out.split())
    assert f"The goal was not reached in 20 steps: {words}" in short


def test_out_holds_the_run_the_document_and_pictures(rhocover):
    result = rhocover("explore wheel --rho 2 --steps 500 --json --out deep/run")
    folder = Path("deep/run")
    assert result.err == f"figures, explore.json and the run are in {folder}\n"
    assert names_in(folder) >= RUN_FILES | {"explore.json", *explore.PICTURES}
    assert all(is_picture(path) for path in folder.glob("*.png"))
    assert (folder / "explore.json").read_text("utf-8") == result.out
    assert rc.resume(folder).counts.tolist() == rc.explore(rc.envs.wheel(), 2, 500).counts.tolist()


@pytest.mark.parametrize(
    "line",
    tiered(["--horizon 7", "--explorer algorithm1 --num-envs 3", "--num-envs 150", "--model learned --until-visits 5",
     "--explorer fw_modest --model posterior --mu model_error"]),
)  # fmt: skip
def test_every_kind_of_run_has_pictures(rhocover, line):
    assert rhocover(f"explore river_swim --rho 2 --steps 300 --out out {line}").code == 0
    assert all(is_picture(Path("out", name)) for name in explore.PICTURES)


def test_a_long_run_is_not_explored_again_for_pictures(rhocover, monkeypatch):
    monkeypatch.setattr(explore, "LONGEST_SNAPSHOTS", 199)
    assert rhocover("explore wheel --rho 2 --steps 200 --out out").code == 0
    assert "snapshots.png" not in names_in(Path("out"))


@pytest.mark.thorough
def test_an_existing_run_is_kept_unless_told_otherwise(rhocover):
    assert rhocover("explore wheel --rho 2 --steps 100 --out out").code == 0
    before = Path("out/result.safetensors").read_bytes()
    result = rhocover("explore wheel --rho 2 --steps 200 --out out")
    assert (result.code, result.out) == (2, "")
    assert result.is_one_error_line
    assert "`--out` 'out' already holds a run. Continue it with rhocover resume out" in result.err
    assert rhocover("explore wheel --rho 2 --steps 0 --out out --force").code == 2
    assert rhocover("explore wheel --rho 2 --explorer rf_express --out out --force").code == 2  # no horizon
    assert Path("out/result.safetensors").read_bytes() == before
    assert rhocover("explore wheel --rho 2 --steps 200 --out out --force").code == 0
    assert read(Path("out/explore.json").read_text())["run"]["steps"] == 200


def test_force_removes_nothing_that_is_not_of_a_run(rhocover):
    assert rhocover("explore wheel --rho 2 --steps 100 --out out").code == 0
    Path("out/notes.txt").write_text("mine")
    before = names_in(Path("out"))
    result = rhocover("explore wheel --rho 2 --steps 200 --out out --force")
    assert result.code == 2
    assert "holds 'notes.txt', which this command did not write" in result.err
    assert names_in(Path("out")) == before


# --- resume -----------------------------------------------------------------------------------------


def stopped_at_its_first_report(line: str) -> subprocess.CompletedProcess:
    """Returns the end of a command whose first report sends the signal of Ctrl-C."""
    code = (
        "import os, signal, sys\n"
        "from rhocover.cli import main\n"
        "from rhocover.cli import explore as command\n"
        "original = command.explore_model\n"
        "def explore(*args, report, **given):\n"
        "    return original(*args, report=lambda *_: os.kill(os.getpid(), signal.SIGINT), **given)\n"
        "command.explore_model = explore\n"
        "main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *line.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.thorough
def test_ctrl_c_says_how_to_go_on_and_resume_ends_as_if_nothing_had_been(rhocover):
    """The first report of a run sends the signal; what is resumed has the bits of an uninterrupted run."""
    stopped = stopped_at_its_first_report("explore river_swim --rho 2 --steps 5000 --seed 4 --out run")
    hint = "The steps so far are stored. Continue with: rhocover resume run\n"
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, "", f"{hint}interrupted\n")
    assert "explore.json" not in names_in(Path("run"))
    result = rhocover("resume run --json")
    assert (result.code, result.err) == (0, "figures, explore.json and the run are in run\n")
    whole = rc.explore(rc.envs.river_swim(), 2.0, 5000, seed=4)
    assert untimed(read(result.out)["run"]) == untimed(whole.summary())
    assert all(is_picture(Path("run", name)) for name in explore.PICTURES)
    again = rhocover("resume run --json")  # a finished run is shown again
    assert untimed(read(again.out)["run"]) == untimed(whole.summary())


@pytest.mark.thorough
def test_a_learned_run_is_resumed_with_its_model_its_rule_and_its_end(rhocover):
    """Stopped at the first report, a run goes on to where its stopping rule is met, bit for bit."""
    asked = "--model learned --mu transition_std --until-error 0.5 --delta 0.2 --out run"
    stopped = stopped_at_its_first_report(f"explore river_swim --rho 2 --steps 20000 {asked}")
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert "explore.json" not in names_in(Path("run"))
    until = rc.SmallModelError(0.5, 0.2)
    whole = rc.explore(rc.envs.river_swim(), 2.0, 20_000, "transition_std", model="learned", until=until)
    assert whole.is_enough
    assert whole.num_steps < 20_000
    result = rhocover("resume run --json")
    assert (result.code, result.err) == (0, "figures, explore.json and the run are in run\n")
    document = read(result.out)
    assert untimed(document["run"]) == untimed(whole.summary())
    assert document["certificate"] == asdict(whole.certificate(0.2))  # delta is the rule's
    assert document["parameters"]["model"] == asdict(MODELS["learned"])
    other = read(rhocover("resume run --json --delta 0.01").out)
    assert other["certificate"] == asdict(whole.certificate(0.01))
    shown = " ".join(rhocover("resume run").out.split())
    assert f"Stopped after {whole.num_steps:,} of 20,000 steps" in shown
    refused = rhocover("resume run --delta 0")
    assert (refused.code, "`--delta` must be in (0, 1), got 0" in refused.err) == (2, True)


# --- explorers --------------------------------------------------------------------------------------


def test_every_explorer_is_listed_with_what_it_does(rhocover):
    result = rhocover("explorers")
    assert (result.code, result.err) == (0, "")
    assert "`" not in result.out
    entries = read(rhocover("explorers --json").out)
    assert [entry["name"] for entry in entries] == list(explorer_names())
    for entry in entries:
        assert re.search(rf"^ {entry['name']} ", result.out, re.MULTILINE)
        assert entry["summary"].endswith(".")
        assert entry["summary"].split()[0] in result.out
        assert entry["kind"] == ("own" if entry["name"] in {*CLASSES, *VARIANTS} else "cited")
        assert bool(entry["axis"]) == (entry["kind"] == "cited")
    found = {entry["name"]: entry for entry in entries}
    assert "rho = inf" in found["cov_game"]["axis"]
    assert "rho = 1 - alpha" in found["max_renyi"]["axis"]
    assert found["algorithm1_short"]["summary"].endswith("This variant uses --schedule constant:50.")
    assert found["algorithm1"]["settings"]["schedule"][0] == "quadratic"


@pytest.mark.parametrize("name", tiered(explorer_names()))
def test_every_explorer_has_a_page(rhocover, name):
    result = rhocover(f"explorers {name}")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{name}: ")
    assert "`" not in result.out
    assert "Settings in Python: " in result.out


def test_an_unknown_explorer_has_no_page(rhocover):
    result = rhocover("explorers feedbak")
    assert (result.code, result.out) == (2, "")
    assert "Did you mean 'feedback'" in result.err


# --- budget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "given"),
    tiered(
        [
            ("--visits 50", {"visits": 50}),
            ("--visits 50 --delta 0.01 --start 3", {"visits": 50, "delta": 0.01, "start": 3}),
            ("--model-error 0.1", {"model_error": 0.1}),
        ]
    ),
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
    tiered([
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
        ("explore river_swim --rho 2 --schedule quadratic:3", "`--schedule` is for Algorithm 1 only"),
        ("explore river_swim --rho 2 --explorer feedbak", "Did you mean 'feedback'"),
        ("explore river_swim --rho 2 --explorer nobody", "algorithm1, algorithm1_adaptive"),
        ("explore river_swim --rho 2 --model lerned", "Did you mean 'learned'"),
        ("explore river_swim --rho 2 --model nothing", "Known: from_scratch, known, learned, posterior"),
        ("explore river_swim --rho 2 --delta 0", "`--delta` must be in (0, 1), got 0"),
        ("explore river_swim --rho 2 --delta 1 --model learned", "`--delta` must be in (0, 1), got 1"),
        ("explore river_swim --rho 2 --until-visits 3 --until-gap 1",
         "`--until-gap` cannot be combined with `--until-visits`. Leave it out."),
        ("explore river_swim --rho 2 --until-gap 1 --until-error 1", "`--until-error` cannot be combined with `--until-gap`"),
        ("explore river_swim --rho 2 --until-visits 0", "`--until-visits` must be at least 1, got 0"),
        ("explore river_swim --rho 2 --until-visits x", "expected a whole number, got 'x'"),
        ("explore river_swim --rho 2 --until-gap 0", "`--until-gap` must be positive and finite, got 0"),
        ("explore river_swim --rho 2 --until-error -1", "`--until-error` must be positive and finite, got -1"),
        ("explore river_swim --rho 2 --model learned --mu model_error --discount 0.9",
         "`--mu` can be a rule only in runs without restarts. Leave `--discount` out, or pass weights."),
        ("explore river_swim --rho 2 --model learned --mu transition_std --horizon 9", "`--mu` can be a rule only"),
        ("explore river_swim --rho 2 --model learned --mu modelerror", "Pass --mu model_error"),
        ("explore river_swim --rho 2 --explorer ent_game",
         "`--horizon` is needed: EntGame plays episodes of a fixed length that begin at the start. Pass --horizon 20"),
        ("explore river_swim --rho 2 --explorer generative_sampling", "generative_world(mdp)"),
        ("compare river_swim --model lerned", "Did you mean 'learned'"),
        ("compare river_swim --model learned --mu model_error --discount 0.9", "`--mu` can be a rule only"),
        ("compare river_swim --explorer feedback --explorer cov_game", "`--horizon` is needed: CovGame plays"),
        ("explore river_swim --rho 2 --start 6", "`--start` must be a state in 0..5, got 6"),
        ("explore river_swim --rho 2 --seed -1", "`--seed` must be at least 0"),
        ("explore river_swim --rho 2 --steps 10 --num-envs 3", "multiple of --num-envs 3, got 10"),
        ("explore river_swim --rho 2 --num-envs 0", "`--num-envs` must be at least 1"),
        ("explore river_swim --rho 2 --discount 0.9 --horizon 3", "`--horizon` cannot be combined with `--discount`"),
        ("explore river_swim --rho 2 --horizon 3", "Pass --restrict"),
        ("resume nowhere", "DIR 'nowhere' holds no run"),
        ("resume .", "DIR '.' holds no run. `rhocover explore --out DIR` writes one."),
        ("compare", "ENV is missing, such as river_swim."),
        ("compare river_swim river_swim", "ENV has 'river_swim' twice. Give it once."),
        ("compare river_swim wheel --set num_states=3", "`--set` needs exactly one ENV"),
        ("compare river_swim --explorer feedbak", "Did you mean 'feedback'"),
        ("compare river_swim --explorer feedback --explorer feedback", "`--explorer` has 'feedback' twice"),
        ("compare river_swim --seeds 0", "`--seeds` must be at least 1"),
        ("compare river_swim --steps 5", "`--steps` must cover the first episode of 10 steps"),
        ("compare river_swim --workers 0", "`--workers` must be at least 1"),
        ("compare river_swim --rho 2 --rho 2", "`--rho` has 2 twice. Give it once."),
        ("compare river_swim --redraw x", "'river_swim' is too much, because --redraw runs nothing"),
        ("compare --redraw x", "'x' holds no comparison. `rhocover compare --out DIR` writes one."),
        ("budget river_swim", "a goal is missing: `--visits` or `--model-error`. Pass --visits 100"),
        ("budget river_swim --visits 3 --model-error 0.1", "`--model-error` cannot be combined with `--visits`. Leave it out."),
        ("budget river_swim --visits 0", "`--visits` must be at least 1"),
        ("budget river_swim --model-error 0", "`--model-error` must be in (0, inf)"),
        ("budget river_swim --visits 3 --delta 1", "`--delta` must be in (0, 1)"),
        ("budget river_swim --visits 3 --start 6", "`--start` must be a state in 0..5"),
        ("budget grid_world --set success=1 --model-error 0.1", "pass --visits 1 instead of `--model-error`"),
    ]),
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


def test_there_is_no_bar_where_nobody_looks():
    with output.progress("runs") as report:
        assert report is None


@pytest.mark.thorough
def test_a_comparison_in_several_processes_works_from_the_shell(tmp_path):
    line = [
        sys.executable,
        "-m",
        "rhocover",
        *shlex.split("compare wheel --steps 100 --seeds 2 --workers 2 --json"),
    ]
    result = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    found = rc.compare({"wheel": "wheel"}, num_steps=100, seeds=2, workers=1)
    assert read(result.stdout)["rows"] == [row.summary() for row in found.table()]
