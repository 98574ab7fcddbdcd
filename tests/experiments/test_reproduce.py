"""Published numbers stand beside ours, statements hold on both sides, and nothing depends on who ran it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rhocover as rc
from rhocover import errors
from rhocover.coverage import Coverage
from rhocover.experiments import Reproduction, reproduce
from rhocover.experiments.comparison import MeanEstimate
from rhocover.experiments.reproducing import NAMES, paper_statements, peers, reproduction, tarbouriech2020
from rhocover.experiments.reproducing.paper_statements import minimax_ratio, scenes
from rhocover.experiments.reproducing.reproduction import Job, ReproducedRow, exactly, run_jobs
from rhocover.experiments.reproducing.tarbouriech2020 import weighted_entropy_optimum

TABLE = "tarbouriech2020-table1"
SMALL = {"seeds": 2, "num_steps": 20_000}


@pytest.fixture(scope="module")
def table() -> Reproduction:
    return reproduce(TABLE, **SMALL, workers=1)


@pytest.fixture(scope="module")
def statements() -> Reproduction:
    return reproduce("paper-special-cases", seeds=10, num_steps=5000, workers=1)


# --- the paper's statements -------------------------------------------------------------------------


@pytest.mark.thorough
def test_every_statement_of_the_paper_holds_on_every_model(statements):
    """Six of the rows are about runs, and each fails by chance once in 16,000 times: the seeds are fixed."""
    assert statements.broken == ()
    assert all(row.holds for row in statements.rows)
    assert len(statements.groups) == 3
    labels = {row.label for row in statements.rows}
    assert len(statements.rows) == 3 * len(labels)
    assert all(any(label.startswith(f"Lemma {k}") for label in labels) for k in range(1, 6))
    assert any(label.startswith("Theorem 1") for label in labels)


@pytest.mark.thorough
def test_identities_agree_to_rounding(statements):
    """Sums of at most 60 positive terms: each side is off by some 1e-15 of itself, powers of 8 by ten times that."""
    exact = [
        row for row in statements.rows
        if row.relation == "=" and row.label.startswith(("Eq. 1", "Lemma 1: U_1", "Lemma 2 (E3)", "(1-rho)", "Uniform"))
    ]  # fmt: skip
    assert len(exact) == 3 * 9
    for row in exact:
        assert abs(row.difference) <= 5e-14 * max(1.0, abs(row.published)), row.label


@pytest.mark.thorough
def test_the_factor_that_the_paper_lost_would_be_noticed(statements):
    for scene in scenes():
        row = statements.row(scene.title, "Lemma 2 (E3): U_2 = -M E_mubar[mu/d]")
        as_printed = row.published / scene.mass
        assert abs(row.ours.mean - as_printed) > 1e6 * row.allowed
        assert "factor M" in row.note


@pytest.mark.thorough
@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.env)
def test_worst_ratios_fall_to_the_value_of_the_linear_program(statements, scene):
    labels = [f"Lemma 4: worst ratio of the plan at {rho} -> minimax" for rho in (8, 32, 128, 1000)]
    found = [statements.row(scene.title, label) for label in labels]
    excess = [row.difference for row in found]
    assert sorted(excess, reverse=True) == excess
    assert 0 < excess[-1] < 2e-3  # of order 1/rho, with a factor near 1.5 on the largest model
    assert found[0].published == minimax_ratio(scene)


def test_uniform_weights_make_the_linear_program_that_of_the_largest_floor():
    scene = scenes()[0]
    object.__setattr__(scene, "mu", np.ones(12))  # takes the place of what would be computed at first use
    t_star = scene.members.max_floor()[0]
    assert minimax_ratio(scene) == pytest.approx(1 / 12 / t_star, rel=1e-9)  # programs are checked to 1e-9


def test_one_seed_has_no_error_and_decides_nothing():
    found = reproduce("paper-special-cases", seeds=1, num_steps=2000, workers=1)
    row = found.row("Wheel(5)", "Lemma 2: -n sum |P_hat - P|_2^2, and U_2")
    assert math.isnan(row.ours.standard_error)
    assert row.holds is None


@pytest.mark.parametrize(
    ("relation", "left", "holds"),
    [("=", 1.0, True), ("=", 1.2, False), ("=", 0.8, False), ("->", 1.2, False), ("<=", -5.0, True),
     ("<=", 1.1, True), ("<=", 1.2, False), ("=", math.nan, None)],
)  # fmt: skip
def test_a_statement_holds_within_what_is_allowed(relation, left, holds):
    row = ReproducedRow("model", "statement", exactly(left), 1.0, relation=relation, allowed=0.15)
    assert row.holds is holds


def test_the_squared_error_of_the_rows_is_the_one_that_runs_report():
    """On a Garnet every pair is noisy, so leaving the certain ones out changes nothing."""
    garnet = rc.envs.garnet(num_states=8, num_actions=2, num_successors=3)
    run = rc.explore(garnet, 2, 3000, rc.weights.transition_std(garnet))
    mine = reproduction.squared_error(run)
    assert mine == pytest.approx(3000 * garnet.num_pairs * run.model_error().l2_mean, rel=1e-12)


def test_few_runs_are_allowed_more_than_four_standard_errors():
    """Student's t: the tables have t(2 degrees, two-sided 1e-3) = 31.6, and the normal limit is 4.0 here."""
    assert paper_statements.allowance(MeanEstimate(0.0, 1.0), 100_000) == pytest.approx(4.0, abs=0.01)
    assert paper_statements.allowance(MeanEstimate(0.0, 1.0), 3) > 31.6
    assert paper_statements.allowance(MeanEstimate(0.0, math.nan), 1) is None


# --- the table of Tarbouriech et al. ----------------------------------------------------------------


@pytest.mark.thorough
def test_the_table_has_every_system_on_both_models(table):
    assert table.groups == ("Wheel(5)", "NoisyRiverSwim(12)")
    assert len(table.rows) == 10
    assert [row.label for row in table.rows[:5]] == [*tarbouriech2020.EXPLORERS]
    assert sum(row.published is not None for row in table.rows) == 6
    for row in table.rows:
        assert 0 < row.ours.mean < 0.1
        assert row.ours.standard_error > 0
        assert row.ratio is None  # another budget than the published one
    assert "2,000,000" in table.text
    assert table.row("Wheel(5)", "MaxEnt").published == 1.0045e-3


@pytest.mark.thorough
def test_the_numbers_are_means_over_runs_of_the_public_api(table):
    errors_of_seeds = [
        rc.explore(
            rc.envs.wheel(), 1.5, 20_000, "model_error", model="learned", seed=seed, trace_points=1
        ).model_error().l1_mean
        for seed in (0, 1)
    ]  # fmt: skip
    row = table.row("Wheel(5)", "feedback")
    assert row.ours.mean == np.mean(errors_of_seeds)
    assert row.ours.standard_error == pytest.approx(abs(np.subtract(*errors_of_seeds)) / 2, rel=1e-12)


@pytest.mark.thorough
def test_the_result_does_not_depend_on_the_number_of_workers():
    small = {"seeds": 2, "num_steps": 2000}
    one = reproduce(TABLE, **small, workers=1).summary()
    assert reproduce(TABLE, **small, workers=2).summary() == one


def test_with_the_published_budget_there_is_a_ratio_and_a_note_on_what_is_not_reproduced():
    ours = MeanEstimate(0.0035, 0.0001)
    row = tarbouriech2020.make_row("noisy_river_swim", "Weighted-MaxEnt", ours, 2_000_000)
    assert row.ratio == pytest.approx(0.0035 / 0.2862e-2)
    assert "Not reproduced" in row.note
    assert "0.0035" in row.note
    met = tarbouriech2020.make_row(
        "noisy_river_swim", "Weighted-MaxEnt", MeanEstimate(0.286e-2, 1e-5), 2_000_000
    )
    assert "Not reproduced" not in met.note  # the verdict is computed, not written down
    assert tarbouriech2020.make_row("wheel", "feedback", ours, 2_000_000).note == ""
    near = MeanEstimate(1.01e-3, 1e-5)
    assert tarbouriech2020.make_row("wheel", "MaxEnt", near, 2_000_000).note == ""
    below = tarbouriech2020.make_row("noisy_river_swim", "FW-MODEST", MeanEstimate(0.29e-2, 1e-4), 2_000_000)
    assert "4% below the limit of the objective" in below.note
    far = tarbouriech2020.make_row("wheel", "MaxEnt", MeanEstimate(2e-3, 1e-5), 2_000_000)
    assert "99% above" in far.note


@pytest.mark.parametrize("env", tarbouriech2020.ENVS)
def test_no_limit_is_below_that_of_the_objective_which_is_the_error(env):
    limit = {label: tarbouriech2020.asymptotic_error(env, label, 10_000) for label in tarbouriech2020.LIMITS}
    least = limit["FW-MODEST"]
    assert limit["feedback"] == least
    assert all(value >= least * (1 - 1e-6) for value in limit.values())  # plans have gaps of 1e-8
    assert limit["MaxEnt"] > 1.3 * least
    assert tarbouriech2020.asymptotic_error(env, "MaxEnt", 40_000) == pytest.approx(limit["MaxEnt"] / 2)


@pytest.mark.thorough
def test_the_limit_is_what_long_runs_of_the_uniform_policy_measure():
    """40 runs of 100,000 steps; five standard errors are exceeded with probability 1e-5 by chance, and the next
    term of the error is of order 1/(n d) = 1/1000 of it."""
    several = [tarbouriech2020.make_job("wheel", "uniform random", 100_000, seed) for seed in range(40)]
    found = np.concatenate(run_jobs(several, 1, None))
    limit = tarbouriech2020.asymptotic_error("wheel", "uniform random", 100_000)
    assert abs(found.mean() - limit) < 5 * found.std(ddof=1) / 40**0.5
    assert found.std(ddof=1) / 40**0.5 < 0.1 * limit  # so that the line above can fail


def test_equal_weights_make_the_weighted_entropy_the_entropy():
    river = rc.envs.noisy_river_swim(num_states=6)
    d = weighted_entropy_optimum(river, np.ones(river.num_pairs))
    best = rc.plan(river, 0)
    assert Coverage(0, np.ones(d.size)).divergence(d) == pytest.approx(best.divergence, abs=2e-6)
    assert np.abs(d - best.occupancy.ravel()).max() < 2e-3  # Pinsker: (2 · 1e-6)^(1/2)


def test_a_maximum_that_was_missed_is_not_handed_out(monkeypatch):
    monkeypatch.setattr("rhocover.experiments.reproducing.tarbouriech2020.GAP", 1e-18)
    river = rc.envs.river_swim()
    with pytest.raises(errors.SolverError, match="missed"):
        weighted_entropy_optimum(river, np.linspace(1, 2, river.num_pairs))


# --- the other names --------------------------------------------------------------------------------


def test_every_recorded_optimum_is_found_again():
    found = reproduce("reference-values")
    assert all(row.holds for row in found.rows)
    assert len(found.rows) == 14 + 3 * 4


@pytest.mark.thorough
def test_peers_have_a_row_for_each_system_on_both_models():
    calls: list[tuple[int, int]] = []
    found = reproduce(
        "peers-worst-ratio", seeds=1, num_steps=4000, workers=1, report=lambda *c: calls.append(c)
    )
    total = 2 * len(peers.ENTRIES)
    assert calls == [(k, total) for k in range(1, total + 1)]
    assert len(found.rows) == total
    for group in found.groups:
        best = found.row(group, "feedback, rho inf")
        assert 1 < best.asymptotic <= 1.2
        assert best.ours.mean < 0.8 * found.row(group, "uniform random, no episodes").ours.mean
        assert found.row(group, "RF-UCRL, P learned, H = 20").ratio is None


def test_counts_of_episodes_are_added_up_over_their_steps():
    wheel = rc.envs.wheel()
    run = rc.explore(wheel, 0, 400, explorer="uniform_random", model="learned", horizon=20, seed=3)
    visits = np.array([[run.counts[:, s, a].sum() for a in range(5)] for s in range(5)])
    assert visits.sum() == 400
    assert reproduction.worst_share(run) == (400 / 25 / visits.min() if visits.min() else np.inf)


# --- what is returned, and what is refused ----------------------------------------------------------


@pytest.mark.thorough
def test_a_reproduction_prints_as_a_table_with_its_notes(statements, table):
    text = str(statements)
    assert text.count("[1]") == 1 + 3  # below the tables, and once in each
    assert all(len(line) <= 100 for line in text.split("\n\n")[-1].splitlines())
    assert "Source: Tarbouriech" in str(table)
    lines = str(table).splitlines()
    heading = next(line for line in lines if line.startswith("Wheel(5)"))
    assert heading.split() == ["Wheel(5)", "ours", "published", "ratio", "limit"]
    assert any(line.startswith("FW-MODEST") and "±" in line and "0.0005091" in line for line in lines)


@pytest.mark.thorough
def test_a_summary_is_strict_json(statements, table):
    for found in (statements, table):
        read = json.loads(json.dumps(found.summary(), allow_nan=False))
        assert len(read["rows"]) == len(found.rows)
        assert set(read["rows"][0]) >= {"mean", "standard_error", "published", "ratio", "note", "label"}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("tarbouriech2020", {}, "Did you mean 'tarbouriech2020-table1'"),
        (3, {}, "unknown reproduction"),
        (
            "reference-values",
            {"seeds": 3},
            "`seeds` is not for reference-values, which simulates nothing. Leave it out.",
        ),
        (
            "reference-values",
            {"num_steps": 3000},
            "`num_steps` is not for reference-values, which simulates nothing. Leave it out.",
        ),
        (TABLE, {"num_steps": 999}, "`num_steps` must be at least 1000, got 999"),
        (TABLE, {"seeds": 0}, "`seeds` must be at least 1"),
        (TABLE, {"seeds": [1, 1]}, "`seeds` has 1 twice"),
        (TABLE, {"workers": 0}, "`workers` must be at least 1"),
        ("reference-values", {"workers": 0}, "`workers` must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(name, arguments, words):
    with pytest.raises(errors.InvalidArgumentError, match=words):
        reproduce(name, **arguments)


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_fails_says_which_one_it_was(workers):
    several = [Job("wheel", "feedback", rho, 1000, 0, "l1_error") for rho in (1.0, -1.0)]
    with pytest.raises(
        errors.InvalidArgumentError, match=r"feedback on wheel at rho = -1, seed 0 failed: .rho"
    ):
        run_jobs(several, workers, None)


def test_every_name_says_what_it_is_in_the_documentation():
    assert all(f"| {name} |" in (reproduce.__doc__ or "") for name in NAMES)
    assert paper_statements.NAME in NAMES
