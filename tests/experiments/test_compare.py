"""A comparison holds the runs that `explore` makes, however many processes made them, and says so honestly."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import rhocover as rc
from patience import PATIENCE, waited_for
from rhocover.errors import (
    FileFormatError,
    InvalidArgumentError,
    RhocoverError,
    SolverError,
    UnknownNameError,
)
from rhocover.experiments import finished_runs, question
from rhocover.experiments.compare import read_question
from rhocover.experiments.question import COLUMNS, ENDS, FACTS, CompareSpec, Failure, error_of, run_one
from rhocover.exploring.belief.learned import Learned
from rhocover.files import load_tensors, save_tensors
from rhocover.learning.rules import ErrorRule, StdRule
from rhocover.theory import measured_exponent
from tiers import tiered

COMPARING = importlib.import_module("rhocover.experiments.compare")  # by name: a function is called like it

EXPLORERS = ("feedback", "stationary", "algorithm1")
ASKED = {"rho": [2.0, np.inf], "num_steps": 400, "seeds": [3, 0, 8]}


@pytest.fixture(scope="module")
def found():
    """Returns two models, two orders, three explorers, three seeds, all in this process."""
    return rc.compare(["river_swim", "wheel"], EXPLORERS, workers=1, **ASKED)


def same_bits(a: rc.Comparison, b: rc.Comparison) -> bool:
    same_names = (a.envs, a.orders, a.explorers, a.seeds) == (b.envs, b.orders, b.explorers, b.seeds)
    columns = all(a.columns[name].tobytes() == b.columns[name].tobytes() for name in COLUMNS)
    ends = all(a.ends[name].tobytes() == b.ends[name].tobytes() for name in ENDS)
    facts = all(a.facts[name].tobytes() == b.facts[name].tobytes() for name in FACTS)
    return same_names and columns and ends and facts and a.steps.tobytes() == b.steps.tobytes()


class Stubborn:
    """An explorer of the caller's own: feedback under another name."""

    def __init__(self) -> None:
        self._inner = rc.Feedback()

    def init(self, belief):
        return self._inner.init(belief)

    def policy(self, state):
        return self._inner.policy(state)

    def update(self, state, visits):
        return self._inner.update(state, visits)


# --- the numbers ------------------------------------------------------------------------------------


def test_every_run_is_the_one_that_explore_makes(found):
    for env, rho, explorer, k in (("river_swim", 2.0, "feedback", 0), ("wheel", np.inf, "algorithm1", 2)):
        run = rc.explore(rc.envs.make(env), rho, 400, explorer=explorer, seed=found.seeds[k], trace_points=5)
        np.testing.assert_array_equal(found.steps, run.trace["steps"])
        for name in COLUMNS:
            np.testing.assert_array_equal(found.values(env, rho, explorer, name)[k], run.trace[name])
        assert found.fact(env, rho, "sigma") == run.trace.sigma
        assert found.fact(env, rho, "best_divergence") == run.best.divergence
        assert found.fact(env, rho, "best_worst_ratio") == run.best.worst_ratio
        np.testing.assert_equal(found.fact(env, rho, "kappa_min"), run.trace.kappa_min)  # nan at inf


@pytest.mark.thorough
def test_two_processes_give_the_bits_of_one(found, tmp_path):
    reports = []
    other = rc.compare(
        ["river_swim", "wheel"], EXPLORERS, workers=2, out=tmp_path / "out",
        report=lambda done, total: reports.append((done, total)), **ASKED,
    )  # fmt: skip
    assert same_bits(found, other)
    assert same_bits(found, rc.Comparison.load(tmp_path / "out"))
    assert reports == [(k, 36) for k in range(1, 37)]
    assert not multiprocessing.active_children()


def test_a_question_survives_the_way_to_another_process():
    mdp = rc.envs.river_swim()
    explorers = [rc.Algorithm1(schedule=rc.Power(5, 1.5), eta=0.01), "tracking"]
    arguments = {
        "num_steps": 200, "start": [0.5, 0.5, 0, 0, 0, 0], "discount": None, "horizon": None,
        "restrict": False, "num_chains": 2, "trace_points": 3, "model": "known",
    }  # fmt: skip
    asked = read_question(mdp, explorers, 1.5, rc.weights.transition_std, 2, None, arguments)
    other = CompareSpec.from_plain(asked.plain())
    assert other.document() == asked.document()
    for place in asked.places:
        a, b = run_one(asked, place), run_one(other, place)
        assert a.rows.tobytes() == b.rows.tobytes()


@pytest.mark.parametrize(
    "given",
    tiered([{"discount": 0.9}, {"horizon": 8}, {"start": 3}, {"num_chains": 3}, {"schedule": "constant:7"},
     {"mu": "transition_std"}, {"mu": StdRule(upper=False), "rho": 3.0}]),
)  # fmt: skip
def test_what_compare_is_given_reaches_explore(given):
    found = rc.compare("river_swim", "algorithm1", num_steps=300, seeds=1, workers=1, **given)
    asked = {"world": rc.envs.river_swim(), "rho": 2.0, "num_steps": 300, "trace_points": 5} | given
    run = rc.explore(explorer="algorithm1", **asked)
    values = found.values("river_swim", found.orders[0], "algorithm1", "least_count")
    np.testing.assert_array_equal(values, [run.trace["least_count"]])
    assert found.follows_theorem("algorithm1") == ("schedule" not in given)


@pytest.mark.parametrize(
    ("model", "mu"),
    tiered(
        [
            ("learned", None),
            ("posterior", None),
            ("from_scratch", "transition_std"),
            (Learned(growth=2.0), "model_error"),
        ]
    ),
)
def test_what_the_explorers_know_reaches_explore(model, mu):
    found = rc.compare(
        "river_swim", ["tracking", "algorithm1"], model=model, mu=mu, num_steps=200, seeds=1, workers=1
    )
    for explorer in found.explorers:
        world = rc.envs.river_swim()
        run = rc.explore(world, 2.0, 200, mu, explorer=explorer, model=model, trace_points=5)
        for name in COLUMNS:
            np.testing.assert_array_equal(found.values("river_swim", 2.0, explorer, name), [run.trace[name]])
    assert found.model == run.model
    assert not found.follows_theorem("algorithm1")  # the theorem knows the model
    assert f"model {found.model.replace('_', ' ')}" in str(found)


@pytest.mark.thorough
def test_two_processes_learn_the_bits_of_one(tmp_path):
    """Among others with settings and a rule that no name has, and an explorer that a document must name."""
    asked = {
        "envs": "river_swim", "explorers": ["feedback", "fw_modest"], "model": Learned(growth=1.7), "num_steps": 200,
        "seeds": 2, "mu": ErrorRule(delta=0.3), "rho": 1.5,
    }  # fmt: skip
    one, two = rc.compare(**asked, workers=1), rc.compare(**asked, workers=2, out=tmp_path)
    assert same_bits(one, two)
    assert same_bits(one, rc.Comparison.load(tmp_path))
    other = rc.compare(**asked | {"model": "learned"}, workers=1)
    assert not same_bits(one, other)  # the growth was not lost on the way


def test_the_model_error_is_that_of_the_transitions_seen():
    found = rc.compare("river_swim", "feedback", model="learned", num_steps=200, seeds=3, workers=1)
    question = [
        rc.explore(rc.envs.river_swim(), 2.0, 200, model="learned", seed=seed, trace_points=5)
        for seed in range(3)
    ]
    errors = [run.model_error().l1_mean for run in question]
    np.testing.assert_array_equal(found.at_end("river_swim", 2, "feedback", "model_error"), errors)
    row = found.table()[0]
    assert row.model_error.mean == pytest.approx(np.mean(errors), rel=1e-15)
    assert row.summary()["model_error"]["standard_error"] > 0
    with pytest.raises(InvalidArgumentError, match="unknown end 'error'"):
        found.at_end("river_swim", 2, "feedback", "error")


def test_explorers_of_episodes_and_others_are_compared_in_episodes():
    found = rc.compare(
        "wheel", ["feedback", "ent_game"], horizon=6, num_steps=120, seeds=1, workers=1, restrict=True
    )
    assert "all in episodes of 6 steps" in str(found)
    assert "episodes" not in str(rc.compare("wheel", "feedback", num_steps=120, seeds=1, workers=1))
    assert found.fact("wheel", 2, "num_weighted") > rc.envs.wheel().num_pairs  # pairs of every step, for both


def test_numbers_of_numpy_are_as_good_as_pythons(tmp_path):
    given = {"num_steps": np.int64(90), "seeds": np.int64(2), "start": np.int64(3), "rho": np.float64(2)}
    found = rc.compare("river_swim", "feedback", workers=1, out=tmp_path, **given)
    start = np.eye(6)[3]
    other = rc.compare("river_swim", "feedback", num_steps=90, seeds=[0, 1], start=start, workers=1)
    assert same_bits(found, other)


def test_models_and_explorers_go_by_names_of_the_callers_own():
    envs = {"short": rc.envs.river_swim(num_states=3), "long": "river_swim"}
    explorers = {"five": rc.Algorithm1(schedule=rc.Quadratic(5)), "ten": "algorithm1"}
    mu = {"short": None, "long": rc.weights.transition_std(rc.envs.river_swim())}
    found = rc.compare(envs, explorers, mu=mu, num_steps=100, seeds=1, workers=1)
    assert (found.envs, found.explorers) == (("short", "long"), ("five", "ten"))
    assert found.follows_theorem("five")
    assert found.fact("short", 2, "num_weighted") == 6
    assert found.fact("long", 2, "num_weighted") == np.count_nonzero(mu["long"])


def test_an_explorer_of_the_callers_own_runs_here_and_nowhere_else(tmp_path):
    found = rc.compare("river_swim", [Stubborn(), "feedback"], num_steps=300, seeds=2, rho=2)
    assert found.explorers == ("Stubborn", "feedback")
    own, known = (found.values("river_swim", 2, name, "visited") for name in found.explorers)
    np.testing.assert_array_equal(own, known)
    for given in ({"workers": 2}, {"out": tmp_path / "out"}):
        with pytest.raises(InvalidArgumentError, match="'Stubborn' is not part of this library"):
            rc.compare("river_swim", Stubborn(), num_steps=300, seeds=2, **given)
    assert not (tmp_path / "out").exists()


# --- curves and the table ---------------------------------------------------------------------------


def test_a_curve_is_mean_quantiles_and_standard_error_over_the_seeds(found):
    values = found.values("river_swim", 2.0, "feedback", "regret")
    curve = found.curve("river_swim", 2.0, "feedback", "regret")
    a, b, c = values[:, -1]
    assert curve.mean[-1] == pytest.approx((a + b + c) / 3, rel=1e-14)
    assert curve.median[-1] == sorted([a, b, c])[1]
    low, middle, high = sorted([a, b, c])
    assert curve.low[-1] == pytest.approx(low + 0.2 * (middle - low), rel=1e-12)  # 0.1 of 2 intervals
    assert curve.high[-1] == pytest.approx(high - 0.2 * (high - middle), rel=1e-12)
    spread = math.sqrt(sum((x - curve.mean[-1]) ** 2 for x in (a, b, c)) / 2)
    assert curve.standard_error[-1] == pytest.approx(spread / math.sqrt(3), rel=1e-12)
    assert curve.num_seeds == 3


def test_a_point_shows_only_if_every_seed_is_complete(found):
    for explorer in found.explorers:
        visited = found.values("river_swim", 2.0, explorer, "visited")
        missing = (visited < 12).sum(axis=0)
        curve = found.curve("river_swim", 2.0, explorer, "regret")
        np.testing.assert_array_equal(curve.num_incomplete, missing)
        np.testing.assert_array_equal(found.num_incomplete("river_swim", 2.0, explorer), missing)
        np.testing.assert_array_equal(np.isnan(curve.mean), missing > 0)
        np.testing.assert_array_equal(np.isnan(curve.median), missing > 0)
        assert 0 < (missing > 0).sum() < missing.size
        assert np.isfinite(found.curve("river_swim", 2.0, explorer, "visited").mean).all()


def test_the_table_has_the_numbers_of_the_last_step(found):
    rows = {(row.env, row.rho, row.explorer): row for row in found.table()}
    assert len(rows) == 12
    for (env, rho, explorer), row in rows.items():
        if (env, rho) == ("wheel", 2.0):
            continue  # three cells are enough
        last = [
            rc.explore(rc.envs.make(env), rho, 400, explorer=explorer, seed=seed, trace_points=5)
            for seed in found.seeds
        ]
        regret = np.array([run.regret for run in last])
        bregman = 400 * np.array([run.trace["bregman"][-1] for run in last])
        assert row.regret.mean == pytest.approx(sum(regret) / 3, rel=1e-12, nan_ok=True)
        error = np.sqrt(((regret - regret.mean()) ** 2).sum() / 6)
        assert row.regret.standard_error == pytest.approx(error, rel=1e-9, nan_ok=True)
        assert row.scaled_bregman.mean == pytest.approx(bregman.mean(), rel=1e-12, nan_ok=True)
        assert row.worst_ratio.mean == pytest.approx(
            np.mean([run.worst_ratio for run in last]), rel=1e-12, nan_ok=True
        )
        assert row.best_worst_ratio == last[0].best.worst_ratio
        excess = np.mean([run.divergence - run.best.divergence for run in last])
        assert row.excess.mean == pytest.approx(excess, rel=1e-9, abs=1e-12, nan_ok=True)
        assert row.num_incomplete == sum(not run.is_complete for run in last)
        assert row.theorem_exponent == (-1 / 3 if explorer == "algorithm1" else None)
    assert rows["river_swim", 2.0, "feedback"].regret.mean < rows["river_swim", 2.0, "stationary"].regret.mean


def test_the_exponent_is_fitted_over_the_last_two_decades_that_are_complete(found):
    regret = found.values("river_swim", 2.0, "algorithm1", "regret")
    late = (found.steps >= 4) & ~np.isnan(regret).any(axis=0)
    slope, error, _ = measured_exponent(found.steps[late], regret[:, late])
    row = next(row for row in found.table() if (row.rho, row.explorer) == (2.0, "algorithm1"))
    assert (row.exponent.mean, row.exponent.standard_error) == (slope, error)


def test_incomplete_seeds_leave_no_mean_and_are_counted():
    found = rc.compare("river_swim", ["feedback", "stationary"], num_steps=11, seeds=6, workers=1)
    for row in found.table():
        visited = found.values("river_swim", 2.0, row.explorer, "visited")[:, -1]
        assert row.num_incomplete == (visited < 12).sum() > 0
        assert math.isnan(row.regret.mean)
        assert math.isnan(row.exponent.mean)
        assert row.summary()["regret"] == {"mean": None, "standard_error": None}
        assert f"{row.num_incomplete} of 6 seeds incomplete" in str(found)


def test_one_seed_has_no_standard_error():
    found = rc.compare("river_swim", "feedback", num_steps=400, seeds=1, workers=1)
    row = found.table()[0]
    assert math.isfinite(row.regret.mean)
    assert math.isnan(row.regret.standard_error)
    assert found.curve("river_swim", 2, "feedback", "regret").has_band is False


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (("sea", 2, "feedback", "regret"), "unknown env 'sea'"),
        (("wheel", 3, "feedback", "regret"), "`rho` must be one of 2, inf, got 3"),
        (("wheel", 2, "tracking", "regret"), "unknown explorer 'tracking'"),
        (("wheel", 2, "feedback", "regrets"), "Did you mean 'regret'"),
    ],
)
def test_a_name_that_is_not_in_the_comparison_is_refused(found, ask, words):
    with pytest.raises(InvalidArgumentError, match=words):
        found.curve(*ask)


def test_a_comparison_does_not_change(found):
    with pytest.raises(ValueError, match="read-only"):
        found.columns["regret"][0] = 0
    with pytest.raises(AttributeError):
        found.seeds = ()


# --- files ------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_bit_for_bit(found, tmp_path):
    found.save(tmp_path / "a.safetensors")
    again = rc.Comparison.load(tmp_path / "a.safetensors")
    assert same_bits(found, again)
    assert str(again) == str(found)
    assert [row.summary() for row in again.table()] == [row.summary() for row in found.table()]
    with pytest.raises(InvalidArgumentError, match="exists already"):
        found.save(tmp_path / "a.safetensors")


def test_a_file_that_is_damaged_or_foreign_is_refused(found, tmp_path):
    path = tmp_path / "a.safetensors"
    rc.envs.wheel().save(path)
    with pytest.raises(FileFormatError, match="expected a 'comparison'"):
        rc.Comparison.load(path)
    found.save(path, overwrite=True)
    tensors, document = load_tensors(path, "comparison")
    save_tensors(path, "comparison", tensors | {"regret": tensors["regret"][:1]}, document, overwrite=True)
    with pytest.raises(FileFormatError, match="do not match its question"):
        rc.Comparison.load(path)
    save_tensors(path, "comparison", tensors, {"envs": []}, overwrite=True)
    with pytest.raises(FileFormatError, match="does not hold a comparison"):
        rc.Comparison.load(path)


def interrupt_after(monkeypatch, count):
    """Makes the run after the first `count` end as with Ctrl-C, and notes which runs there were."""
    made, original = [], question.run_one

    def run(question, place):
        if len(made) == count:
            raise KeyboardInterrupt
        made.append(place)
        return original(question, place)

    monkeypatch.setattr(question, "run_one", run)
    return made


def test_the_same_call_goes_on_after_an_interruption(monkeypatch, tmp_path):
    asked = {"envs": "river_swim", "explorers": EXPLORERS, "num_steps": 200, "seeds": 3, "workers": 1}
    whole = rc.compare(**asked)
    with monkeypatch.context() as patch:
        first = interrupt_after(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            rc.compare(**asked, out=tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"holds 4 of 9 runs\. Call compare again"):
        rc.Comparison.load(tmp_path)
    with monkeypatch.context() as patch:
        rest = interrupt_after(patch, 100)
        found = rc.compare(**asked, out=tmp_path)
    assert len(first) == 4
    assert not set(first) & set(rest)
    assert len(rest) == 5
    assert same_bits(whole, found)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 0)  # nothing is left to run
        assert same_bits(whole, rc.compare(**asked, out=tmp_path))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"seeds": 1}, r"other `seeds`: \[0, 1\], now \[0\]"),
        ({"num_steps": 101}, "other `num_steps`: 100, now 101"),
        ({"rho": 3}, "other `rho`"),
        ({"explorers": ["tracking"]}, "other `explorers`"),
        ({"explorers": {"feedback": "tracking"}}, "other settings of explorers"),
        ({"envs": {"river_swim": rc.envs.river_swim(num_states=4)}}, "other models"),
        ({"mu": np.ones((6, 2))}, "other `mu`"),
        ({"start": 2}, "other `start`"),
        ({"model": "learned"}, "other `model`: known, now learned"),
        ({"model": Learned(growth=3.0)}, r"other `model`: known, now \{'discovery': True, 'growth': 3.0"),
        ({"mu": "transition_std"}, r"other `mu`: \[None\], now \[\{'name': 'transition_std'"),
    ],
)
def test_other_arguments_are_refused_and_nothing_is_overwritten(tmp_path, other, words):
    asked = {"envs": "river_swim", "explorers": ["feedback"], "num_steps": 100, "seeds": 2, "workers": 1}
    rc.compare(**asked, out=tmp_path)
    before = (tmp_path / finished_runs.FILE).read_bytes()
    with pytest.raises(InvalidArgumentError, match=words):
        rc.compare(**asked | other, out=tmp_path)
    assert (tmp_path / finished_runs.FILE).read_bytes() == before
    assert os.listdir(tmp_path) == [finished_runs.FILE]


def test_a_folder_of_a_learned_comparison_refuses_a_known_one(tmp_path):
    asked = {"envs": "river_swim", "explorers": ["feedback"], "num_steps": 100, "seeds": 1, "workers": 1}
    learned = rc.compare(**asked, model="learned", out=tmp_path)
    with pytest.raises(InvalidArgumentError, match="other `model`: learned, now known"):
        rc.compare(**asked, out=tmp_path)
    assert same_bits(learned, rc.compare(**asked, model=Learned(), out=tmp_path))  # the same by another name


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"holds 'notes.txt'"):
        rc.compare("river_swim", num_steps=100, seeds=1, workers=1, out=tmp_path)
    with pytest.raises(InvalidArgumentError, match="must be a folder"):
        rc.compare("river_swim", num_steps=100, seeds=1, workers=1, out=tmp_path / "notes.txt")
    assert os.listdir(tmp_path) == ["notes.txt"]


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"envs": "river_swam"}, "'river_swim'"),
        ({"envs": []}, "`envs` must have at least one entry"),
        ({"envs": 3}, "`envs` must hold MDPs or names"),
        ({"envs": ["river_swim", "river_swim"]}, "'river_swim' twice. Pass a mapping"),
        ({"explorers": "feedbak"}, "Did you mean 'feedback'"),
        ({"explorers": ["feedback", "feedback"]}, "'feedback' twice"),
        ({"explorers": [rc.Feedback]}, "write Feedback"),
        ({"num_steps": 0}, "`num_steps` must be at least 1"),
        ({"num_steps": 5}, "first episode of 10 steps, got 5"),
        ({"seeds": 0}, "`seeds` must be at least 1"),
        ({"seeds": [1, 1]}, "`seeds` has 1 twice"),
        ({"seeds": [-1]}, "`seeds` must be at least 0"),
        ({"rho": -1}, "`rho` must be in"),
        ({"rho": [1, 1.0]}, "`rho` has 1.0 twice"),
        ({"mu": {"sea": None}}, "`mu` must have an entry"),
        ({"mu": np.ones(3)}, "`mu` must have shape"),
        ({"start": 6}, "`start` must be a state in 0..5"),
        ({"workers": 0}, "`workers` must be at least 1"),
        ({"model": "lerned"}, "unknown model 'lerned'. Did you mean 'learned'"),
        ({"model": 3}, "`model` must be a name"),
        (
            {"mu": "transition_sdt"},
            "unknown rule for `mu` 'transition_sdt'. Did you mean 'transition_std'",
        ),
        ({"mu": "model_error", "discount": 0.9}, "`mu` can be a rule only in runs without restarts"),
        ({"explorers": ["feedback", "ent_game"]}, "`horizon` is needed: EntGame plays episodes"),
        ({"explorers": "generative_sampling"}, "generative_world"),
        ({"explorers": "feedback", "schedule": "constant:5"}, "`schedule` needs algorithm1"),
        ({"schedule": "constant:0"}, "`tau` must be at least 1"),
        ({"envs": {"trap": rc.MDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]])}}, "restrict=True"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(monkeypatch, tmp_path, given, words):
    monkeypatch.setattr(question, "run_one", lambda *_: pytest.fail("ran"))
    asked = {"envs": "river_swim", "num_steps": 100, "seeds": 2, "workers": 1, "out": tmp_path / "out"}
    with pytest.raises(InvalidArgumentError, match=words):
        rc.compare(**asked | given)
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_is_named_and_what_was_done_is_kept(monkeypatch, tmp_path):
    original = question.explore

    def fail(**arguments):
        if arguments["seed"] == 1:
            raise SolverError("no pivot")
        return original(**arguments)

    asked = {"envs": "river_swim", "explorers": EXPLORERS, "num_steps": 100, "seeds": 2, "workers": 1}
    with monkeypatch.context() as patch:
        patch.setattr(question, "explore", fail)
        with pytest.raises(SolverError, match="feedback on river_swim at rho = 2, seed 1 failed: no pivot"):
            rc.compare(**asked, out=tmp_path)
    with pytest.raises(InvalidArgumentError, match="holds 3 of 6 runs"):
        rc.Comparison.load(tmp_path)
    assert same_bits(rc.compare(**asked), rc.compare(**asked, out=tmp_path))


@pytest.mark.thorough
def test_a_run_that_fails_in_another_process_is_named():
    """A floor that no occupancy has is found out only by the run; its error does not survive pickling."""
    explorers = {"greedy": rc.Algorithm1(eta=0.03)}
    with pytest.raises(InvalidArgumentError, match=r"the run of greedy on river_swim at rho = 2, seed \d"):
        rc.compare("river_swim", explorers, num_steps=100, seeds=2, workers=2)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("kind", "expected"),
    tiered([("UnknownNameError", InvalidArgumentError), ("MemoryError", MemoryError), ("FileFormatError", RhocoverError),
     ("ZeroDivisionError", RuntimeError)]),
)  # fmt: skip
def test_a_failure_keeps_its_kind(monkeypatch, kind, expected):
    kinds = {"UnknownNameError": UnknownNameError, "FileFormatError": FileFormatError}
    error = kinds.get(kind) or getattr(__builtins__, kind, None) or __builtins__[kind]

    def fail(**_):
        raise error("why")

    monkeypatch.setattr(question, "explore", fail)
    arguments = {"num_steps": 100, "trace_points": 5, "num_chains": 1}
    asked = CompareSpec({"a": rc.envs.wheel()}, {"a": None}, (2.0,), {"b": rc.Feedback()}, (7,), arguments)
    failure = run_one(asked, (0, 0, 0, 0))
    assert isinstance(failure, Failure)
    raised = error_of(failure, asked.describe((0, 0, 0, 0)))
    assert type(raised) is expected
    assert str(raised).startswith("the run of b on a at rho = 2, seed 7 failed: why")
    assert ("Traceback" in str(raised)) == (expected is RuntimeError)


@pytest.mark.thorough
def test_ctrl_c_keeps_what_is_finished_and_leaves_no_process(tmp_path):
    code = (
        "import os, signal, multiprocessing, sys, rhocover as rc\n"
        "def report(done, total):\n"
        "    print(*[child.pid for child in multiprocessing.active_children()], flush=True)\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "try:\n"
        "    rc.compare('river_swim', 'feedback', num_steps=300, seeds=[*range(1000)], workers=2,\n"
        "               out=sys.argv[1], report=report)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    line = [sys.executable, "-c", code, str(tmp_path / "out")]
    result = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, start_new_session=True)
    assert (result.returncode, result.stderr) == (130, "")
    workers = [int(pid) for pid in result.stdout.split()]
    assert len(workers) == 2
    assert all(is_gone(pid) for pid in workers)
    tensors, _ = load_tensors(tmp_path / "out" / finished_runs.FILE, "comparison")
    assert 1 <= tensors["done"].sum() < 1000


@pytest.mark.thorough
def test_workers_end_when_their_parent_is_killed():
    code = (
        "import os, signal, multiprocessing, rhocover as rc\n"
        "def report(done, total):\n"
        "    print(*[child.pid for child in multiprocessing.active_children()], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "rc.compare('river_swim', 'feedback', num_steps=300, seeds=1000, workers=2, report=report)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert result.returncode == -signal.SIGKILL
    for pid in map(int, result.stdout.split()):
        assert waited_for(partial(is_gone, pid))


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for counts as ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.thorough
def test_a_script_without_its_guard_is_told_about_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import rhocover as rc\nrc.compare('river_swim', num_steps=100, seeds=2, workers=2)\n")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1
    # What Python's own tracker of semaphores may say after it, about the workers that died, is not ours.
    told = [line for line in result.stderr.splitlines() if line.startswith("rhocover.errors.")]
    assert len(told) == 1
    assert 'outside of `if __name__ == "__main__":`' in told[0]
