"""Every column of a trace is the formula its table gives, and no number is made up before there is one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from exploring_models import INF, problem_of, random_model

import rhocover as rc
from rhocover.exploring.problem import make_problem
from rhocover.exploring.runs.result import COLUMNS, WHOLE, grid_of_steps, measure, regret_in_value
from rhocover.oracles import comes_apart
from rhocover.planning.problem import Criterion, Objective
from small_models import random_weights
from tiers import tiered

RHOS = [0, 0.5, 1, 2, 16, INF]


def value(mu: np.ndarray, d: np.ndarray, rho: float) -> float:
    """Returns U_rho(d) for weights that sum to 1, from the paper's formula."""
    with np.errstate(over="ignore"):
        if rho == 0:
            return float(-np.sum(d * np.log(d / mu)))
        if rho == 1:
            return float(np.sum(mu * np.log(d)))
        if rho == INF:
            return float(-np.max(mu / d))
        return float(np.sum(mu**rho * d ** (1 - rho)) / (1 - rho))


def divergence(mu: np.ndarray, d: np.ndarray, rho: float) -> float:
    """Returns D_rho(mu || d) from its definition; KL(d || mu) at rho = 0."""
    if rho == 0:
        return float(np.sum(d * np.log(d / mu)))
    if rho == 1:
        return float(np.sum(mu * np.log(mu / d)))
    if rho == INF:
        return float(np.log(np.max(mu / d)))
    return float(np.log(np.sum(mu**rho * d ** (1 - rho))) / (rho - 1))


def counts_of(mdp: rc.MDP, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 200, mdp.num_pairs)


# --- columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("seed", tiered(range(3)))
def test_columns_are_their_formulas(rho, seed):
    # Mutants: t for t - 1, mu for mubar, the sign of an excess, a gap from the divergence of the plan.
    mdp = random_model(seed, 6, 3)
    mu = random_weights(mdp, seed)
    problem = problem_of(mdp, rho, mu)
    counts = counts_of(mdp, seed)
    t = int(counts.sum())
    row = dict(zip(COLUMNS, measure(problem, counts, t), strict=True))
    weights, d = mdp.per_pair(mu, "mu") / mu.sum(), counts / t
    best = problem.best
    assert row["steps"] == t
    assert row["visited"] == mdp.num_pairs
    assert row["divergence"] == pytest.approx(divergence(weights, d, rho), rel=1e-10)
    assert row["worst_ratio"] == pytest.approx(np.max(weights / d), rel=1e-12)
    assert row["excess"] == pytest.approx(row["divergence"] - best.divergence, abs=1e-14)
    assert row["gap"] == max(row["divergence"] - best.lower_bound, 0.0)
    # d* is known to sqrt(gap), U(d*) to the gap times exp((rho-1) D).
    exact = value(weights, problem.d_star, rho) - value(weights, d, rho)
    assert row["suboptimality"] == pytest.approx(exact, rel=1e-7, abs=1e-8)
    path = problem.pathwise.best(d, tol=1e-11)
    assert row["pathwise_excess"] == pytest.approx(row["divergence"] - path.divergence, abs=1e-9)
    saved = value(weights, path.occupancy, rho) - value(weights, d, rho)
    assert row["regret"] == pytest.approx(saved, rel=1e-6, abs=1e-8 * (1 + abs(value(weights, d, rho))))
    least = int(row["least_pair"])
    assert row["least_count"] == counts[least] == counts.min()


@pytest.mark.parametrize("how", [{}, {"discount": 0.9, "start": 0}, {"horizon": 4, "start": 0}], ids=str)
def test_the_occupancies_of_a_run_are_of_one_end_component_without_a_floor(how):
    # So that the oracle of a trace needs no other method. Two ends: 0 leads to 1, or to 2 and 3.
    rows = np.zeros((4, 2, 4))
    rows[0, 0, 1] = rows[0, 1, 2] = rows[1, :, 1] = rows[2, 0, 3] = rows[2, 1, 2] = rows[3, :, 2] = 1.0
    problem = make_problem(rc.MDP(rows), Objective(2.0, None), Criterion(restrict=True, **how))
    assert comes_apart(problem.members) is None
    assert problem.members.eta == 0


@pytest.mark.parametrize("rho", tiered([0.5, 1, 2, 16], short=[2]))
def test_the_oracle_gap_is_the_logarithm_of_the_best_response(rho):
    """log max <p/d, d'>, p = mu^rho d^(1-rho) normalised, the maximum by SciPy's linear programming."""
    from scipy.optimize import linprog

    mdp = random_model(4, 6, 3)
    problem = problem_of(mdp, rho)
    counts = counts_of(mdp, 4)
    d, n = counts / counts.sum(), mdp.num_pairs
    p = np.full(n, 1 / n) ** rho * d ** (1 - rho)
    reward = p / p.sum() / d
    A = problem.members.flow.toarray()
    found = linprog(
        -reward, A_eq=np.vstack([A, np.ones(n)]), b_eq=np.append(np.zeros(len(A)), n), bounds=(0, None)
    )
    row = dict(zip(COLUMNS, measure(problem, counts, int(counts.sum())), strict=True))
    assert row["oracle_gap"] == pytest.approx(np.log(-found.fun / n), rel=1e-8)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_regret_in_value_is_the_difference_of_two_values(rho):
    """(1-rho) U = exp((rho-1) D) for weights that sum to 1."""
    coverage = rc.Coverage(rho, np.full(4, 0.25))

    def of(D: float) -> float:
        if rho in (0, 1):
            return -D
        return -np.exp(D) if rho == INF else np.exp((rho - 1) * D) / (1 - rho)

    for D, excess in ((0.7, 0.2), (0.1, 0.1), (2.0, 1e-3)):
        assert regret_in_value(coverage, D, excess) == pytest.approx(of(D - excess) - of(D), rel=1e-9)
    assert regret_in_value(coverage, 0.7, 0.0) == 0
    assert regret_in_value(coverage, 0.7, 1e-17) > 0  # the mutant that subtracts two exponentials gives 0


# --- incomplete ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_before_every_weighted_pair_was_visited_there_is_no_number(rho):
    run = rc.explore(rc.envs.river_swim(num_states=12), rho, 200, explorer="stationary", trace_points=5)
    trace, missing = run.trace, run.trace["visited"] < run.trace.num_weighted
    assert missing.any()
    assert trace.num_weighted == 24
    for name in COLUMNS:
        if name in WHOLE:
            assert trace[name].dtype == np.int64
            assert (trace[name] >= 0).all()
        else:
            np.testing.assert_array_equal(np.isnan(trace[name]), missing, err_msg=name)
    first = rc.explore(rc.envs.river_swim(num_states=12), rho, 20, explorer="stationary")
    seen = np.count_nonzero(first.counts)
    assert first.coverage_text == f"incomplete ({seen} of 24)"
    assert not first.is_complete
    assert first.gap == first.certificate().gap == first.worst_ratio == INF
    assert (first.divergence == first.certificate().divergence == INF) == (rho >= 1)
    assert np.isnan([first.regret, first.identity_error()]).all()
    assert f"coverage incomplete ({seen} of 24)" in str(first)
    assert "nan" not in str(first)
    assert first.least_visited[1] == 0


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_what_was_visited_has_figures_of_its_own_while_pairs_are_missing(rho):
    """By hand: weights of the visited pairs alone, normalised, against all visits."""
    run = rc.explore(rc.envs.river_swim(num_states=12), rho, 20, explorer="stationary")
    seen, shares = run.visits > 0, run.visits / 20
    mu = seen / seen.sum()
    assert run.num_missing == 24 - seen.sum() > 0
    assert run.visited_worst_ratio == pytest.approx((mu[seen] / shares[seen]).max(), rel=1e-12)
    assert run.visited_divergence == pytest.approx(rc.Coverage(rho, mu).divergence(shares), rel=1e-12)
    whole = rc.explore(rc.envs.river_swim(), rho, 5000)
    assert whole.num_missing == 0
    assert whole.visited_divergence == pytest.approx(whole.divergence, rel=1e-12)
    assert whole.visited_worst_ratio == pytest.approx(whole.worst_ratio, rel=1e-12)


def test_a_pair_without_weight_may_stay_unvisited():
    mu = np.ones((6, 2))
    mu[5] = 0.0
    run = rc.explore(rc.envs.river_swim(), 2, 60, mu, explorer="tracking")
    weighted = run.counts[:5]
    assert run.trace.num_weighted == 10
    assert run.is_complete == bool((weighted > 0).all())
    if run.is_complete:
        assert run.coverage_text == "complete"


def test_the_summary_is_json_with_none_for_what_is_not_known():
    for num_steps in (20, 5000):
        run = rc.explore(rc.envs.river_swim(), INF, num_steps, seed=2)
        text = json.dumps(run.summary(), allow_nan=False)
        found = json.loads(text)
        assert found["steps"] == num_steps
        assert found["rho"] == "inf"
        assert (found["divergence"] == "inf") == (not run.is_complete)
        assert (found["regret"] is None) == (not run.is_complete)
        assert found["kappa_min"] is None  # no curvature at rho = inf


def test_a_saved_run_has_its_counts_moves_and_trace(tmp_path):
    from rhocover.files import load_tensors

    run = rc.explore(rc.envs.river_swim(), 2, 500)
    run.save(tmp_path / "run")
    tensors, document = load_tensors(tmp_path / "run", "run")
    np.testing.assert_array_equal(tensors["counts"], run.counts)
    np.testing.assert_array_equal(tensors["moves"], run.moves)
    for name in COLUMNS:
        assert tensors[f"trace.{name}"].tobytes() == run.trace[name].tobytes()
    assert document["explorer"] == "feedback"
    with pytest.raises(rc.errors.InvalidArgumentError, match="overwrite=True"):
        run.save(tmp_path / "run")


# --- the grid -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_chains", tiered([1, 7]))
@pytest.mark.parametrize("per_decade", tiered([1, 3, 10]))
@pytest.mark.parametrize("num_steps", tiered([1, 7, 10, 999, 1000, 123_456, 10**12 + 4]))
def test_a_trace_is_logarithmic_and_ends_with_the_last_step(num_steps, per_decade, num_chains):
    num_steps *= num_chains
    grid = grid_of_steps(num_steps, per_decade, num_chains)
    assert grid == sorted(set(grid))
    assert grid[-1] == num_steps
    assert all(mark % num_chains == 0 for mark in grid)
    assert grid[0] >= 1
    late = np.array(grid[:-1], float)
    late = late[late >= 100 * num_chains * per_decade]
    # Marks are rounded to whole multiples, at most 1% off where they are this large.
    assert np.diff(np.log10(late)) == pytest.approx(1 / per_decade, abs=0.01)
    assert len(grid) <= per_decade * (np.log10(num_steps) + 1) + 2


def test_the_trace_of_a_run_has_the_steps_of_its_grid():
    run = rc.explore(rc.envs.river_swim(), 2, 5000, trace_points=4)
    np.testing.assert_array_equal(run.trace["steps"], grid_of_steps(5000, 4))
    assert len(run.trace) == len(run.trace["steps"])


def test_what_theory_predicts_falls_with_the_square_root_and_with_the_steps():
    trace = rc.explore(rc.envs.river_swim(), 2, 1000).trace
    assert trace.fluctuation == pytest.approx(trace.sigma / np.sqrt(trace["steps"]))
    assert trace.limit == pytest.approx(trace.kappa_min / trace["steps"])
    assert trace.sigma > 0
    with pytest.raises(ValueError, match="read-only"):
        trace["regret"][0] = 0.0


def test_an_unknown_column_is_refused_with_all_names():
    trace = rc.explore(rc.envs.river_swim(), 2, 100).trace
    assert trace.keys() == COLUMNS
    with pytest.raises(rc.errors.UnknownNameError, match=r"unknown column 'regrets'\. Did you mean 'regret'"):
        trace["regrets"]
