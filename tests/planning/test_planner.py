"""The planner's own steps: tolerances by rho, warm starts, the linking share, what is handed out, the way round."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import rhocover as rc
from rhocover import MDP, Coverage, Occupancies, envs
from rhocover.errors import InvalidArgumentError, NotConvergedError
from rhocover.planning import PlanStatus
from rhocover.planning import interior_point as leximin_module
from rhocover.planning import planner as module
from rhocover.planning import problem as reading
from rhocover.planning.interior_point import leximin
from rhocover.planning.problem import Criterion, Objective, PlanningProblem, leximin_multipliers
from rhocover.planning.program import Multipliers, dual_bound
from rhocover.planning.result import SolverResult, StopRules
from rhocover.planning.union import _certified_level, _occupancy, best_addition
from rhocover.theory.limits import PathwiseProblem
from small_models import random_model, random_weights

INF = float("inf")


def problem_of(rho: float = 2.0, mu=None, **options):
    eta = options.pop("eta", 0.0)
    return PlanningProblem.read(random_model(3), Objective(rho, mu), Criterion(**options), eta)


# --- tolerances -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "tol", "aim"),
    [
        (2.0, 1e-6, 1e-6),
        (0.0, 1e-6, 1e-6),
        (0.1, 1e-6, 1e-7),
        (1e-9, 1e-6, 1e-12),
        (1e-9, 1e-13, 1e-13),
        (0.5, 1e-3, 5e-4),
    ],
)
def test_the_tolerance_shrinks_with_a_small_rho_but_not_below_rounding(monkeypatch, rho, tol, aim):
    seen = []
    solve, checked = module._solve, module._checked
    monkeypatch.setattr(
        module, "_solve", lambda p, m, limits, *rest: seen.append(limits) or solve(p, m, limits, *rest)
    )
    monkeypatch.setattr(
        module, "_checked", lambda p, f, m, limits: seen.append(limits) or checked(p, f, m, limits)
    )
    rc.plan(random_model(3), rho, tol=tol, throw=False)
    assert [limits.tol for limits in seen] == pytest.approx([aim, aim], rel=1e-12, abs=0.0)
    assert [limits.acceptable for limits in seen] == pytest.approx([aim, aim], rel=1e-12, abs=0.0)


def test_the_solver_aims_at_half_of_the_tolerance(monkeypatch):
    seen, real = [], module.interior_point
    monkeypatch.setattr(module, "interior_point", lambda *a, **k: seen.append(k) or real(*a, **k))
    rc.plan(random_model(3), 2.0, tol=1e-6)
    assert seen[0]["tol"] == 5e-7
    assert seen[0]["max_steps"] == 200


@pytest.mark.parametrize("tol", [0.0, -1e-9, np.nan])
def test_a_tolerance_must_be_positive(tol):
    with pytest.raises(InvalidArgumentError, match="tol"):
        rc.plan(random_model(3), 2.0, tol=tol)


def limits_of(tol: float, acceptable: float | None = None) -> StopRules:
    return StopRules(tol, tol if acceptable is None else acceptable, 200, 0.0, INF)


def test_a_plan_below_the_proven_bound_is_not_believed():
    problem = problem_of()
    d = problem.members.from_policy(1 / np.bincount(problem.members.node)[problem.members.node])
    found = SolverResult(d, 5.0, Multipliers(np.zeros(problem.program.K.shape[0]), 1.0), 3, False)
    plan = module._checked(problem, found, "interior_point", limits_of(1e-8))
    assert plan.gap == INF
    assert plan.status is PlanStatus.STALLED
    assert (
        module._checked(problem, replace(found, is_out_of_steps=True), "x", limits_of(1e-8)).status
        is PlanStatus.OUT_OF_STEPS
    )
    own = replace(found, lower_bound=problem.program.coverage.divergence(d) - 1e-3)
    plan = module._checked(problem, own, "interior_point", limits_of(1e-2))
    assert plan.gap == pytest.approx(1e-3, rel=1e-6)
    assert plan.status is PlanStatus.SOLVED
    assert module._checked(problem, own, "interior_point", limits_of(9e-4)).status is PlanStatus.STALLED
    nearly = module._checked(problem, own, "interior_point", limits_of(9e-4, 2e-3))
    assert nearly.status is PlanStatus.NEARLY
    assert nearly.is_good
    late = replace(limits_of(9e-4), deadline=-INF)
    assert module._checked(problem, own, "interior_point", late).status is PlanStatus.OUT_OF_TIME


@pytest.mark.parametrize("rho", [0.0, 1e-3, 1.0])
def test_only_maximum_entropy_refuses_pairs_of_no_weight(rho):
    weights = random_weights(random_model(3), 3)
    weights[0, 0] = 0.0
    if rho > 0:
        assert rc.plan(random_model(3), rho, weights).status is PlanStatus.SOLVED
        return
    with pytest.raises(InvalidArgumentError, match="rho=0 measures"):
        rc.plan(random_model(3), rho, weights)


# --- warm starts ----------------------------------------------------------------------------------------


def test_a_warm_potential_is_read_relative_to_its_last_state():
    problem = problem_of()
    nu = module._read_warm(problem, np.array([3, 1, 4, 1, 5]))
    np.testing.assert_array_equal(nu, [-2.0, -4.0, -1.0, -4.0])
    assert nu.dtype == float
    assert module._read_warm(problem, None) is None
    assert module._read_warm(problem, np.array([1e6, 0, 0, 0, 0.0])) is not None
    assert module._read_warm(problem, np.array([1.1e6, 0, 0, 0, 0.0])) is None  # no plan's of this model
    assert module._read_warm(problem_of(discount=0.9), np.ones(5)) is None
    for bad in (np.array([1, np.nan, 1, 1, 1]), np.array(["a"] * 5), np.ones(5) * 1j):
        with pytest.raises(InvalidArgumentError, match="`warm`"):
            module._read_warm(problem, bad)
    with pytest.raises(InvalidArgumentError, match="`warm`"):
        module._read_warm(problem, np.ones(4))


def test_a_warm_start_that_fails_is_followed_by_a_cold_one(monkeypatch):
    starts, real = [], module._solve

    def solve(problem, method, limits, warm):
        starts.append(warm is not None)
        found = real(problem, method, limits, None)
        return replace(found, lower_bound=-1.0) if warm is not None else found

    monkeypatch.setattr(module, "_solve", solve)
    plan = rc.plan(random_model(3), 2.0, warm=np.zeros(5))
    assert starts == [True, False]
    assert plan.status is PlanStatus.SOLVED
    starts.clear()
    rc.plan(random_model(3), 2.0)
    assert starts == [False]


# --- what is handed out ---------------------------------------------------------------------------------


def test_a_share_of_the_uniform_policy_links_parts_only_where_some_pairs_have_no_weight():
    weights = random_weights(random_model(3), 3)
    weights[0, 0] = 0.0
    linked, whole = problem_of(mu=weights), problem_of()
    n = whole.members.num_pairs
    uniform = whole.members.from_policy(1 / np.bincount(whole.members.node)[whole.members.node])
    d = np.random.default_rng(0).dirichlet(np.ones(n))
    assert reading._linked(whole, d, 0.25) is d
    np.testing.assert_allclose(reading._linked(linked, d, 0.25), 0.75 * d + 0.25 * uniform, rtol=1e-13)
    restarting = problem_of(mu=weights, discount=0.9)
    assert reading._linked(restarting, d, 0.25) is d


def found_at(problem, d) -> SolverResult:
    return SolverResult(d, -1.0, Multipliers(np.zeros(problem.program.K.shape[0]), 1.0), 3, False)


def visits_at(problem, d):
    found = found_at(problem, d)
    return reading.visits_of_policy(problem, found.d, found.multipliers, 1e-8)


@pytest.mark.parametrize("options", [{}, {"discount": 0.9}, {"horizon": 3}], ids=str)
def test_what_is_handed_out_is_what_its_policy_visits(options):
    problem = problem_of(**options)
    members = problem.members
    d = members.from_policy(1 / np.bincount(members.node)[members.node])
    for size in (0.0, 1e-12, 1e-6):
        off = d * (1 + size * np.arange(d.size))
        plan = module._checked(problem, found_at(problem, off / off.sum()), "x", limits_of(1e-8))
        visits = members.from_policy(members.to_policy(off))
        np.testing.assert_allclose(members.flatten(plan.occupancy, "d"), visits, rtol=1e-13)
        np.testing.assert_allclose(members.from_policy(plan.policy), visits, rtol=1e-13)
        assert plan.divergence == pytest.approx(problem.program.coverage.divergence(visits), abs=1e-14)


def test_a_large_model_is_evaluated_only_where_its_flow_does_not_hold_to_rounding(monkeypatch):
    problem = problem_of()
    members = problem.members
    d = members.from_policy(1 / np.bincount(members.node)[members.node])
    off = d * (1 + 1e-6 * np.arange(d.size))
    calls, real = [], reading._evaluated
    monkeypatch.setattr(reading, "_evaluated", lambda *a: calls.append(1) or real(*a))
    visits_at(problem, d)
    assert calls == [1]
    monkeypatch.setattr(reading, "EVALUATED_STATES", 1)
    calls.clear()
    kept, slack = visits_at(problem, d)
    np.testing.assert_array_equal(kept, d)
    assert calls == []
    assert slack < 1e-13
    visits_at(problem, off / off.sum())
    assert calls == [1]
    worst = problem_of(INF)  # the worst ratio has no first order to go by
    visits_at(worst, d)
    assert calls == [1, 1]


def test_a_policy_with_several_classes_is_joined_by_a_share_of_the_uniform_one():
    """Two states, each with a way to stay and a way over: staying only is no one occupancy."""
    mdp = MDP(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]))
    problem = PlanningProblem.read(mdp, Objective(2.0))
    stay = np.array([0.3, 0.0, 0.7, 0.0])
    visits = reading._evaluated(problem, stay, 1e-6)
    assert problem.members.contains(visits, tol=1e-14)
    assert (visits > 0).all()


def test_a_plan_counts_its_own_seconds(monkeypatch):
    began = time.perf_counter()
    plan = rc.plan(random_model(3), 2.0)
    assert 0 < plan.seconds <= time.perf_counter() - began  # its own, and not more than went by
    assert sum(plan.stages.values()) <= plan.seconds
    assert plan.lower_bound == plan.divergence - plan.gap
    assert plan.rho == 2.0


def test_the_ratio_of_a_plan_is_its_weight_over_its_visits():
    mdp = random_model(3)
    weights = random_weights(mdp, 1)
    weights[0, 0] = 0.0
    plan = rc.plan(mdp, 2.0, weights)
    expected = np.divide(
        weights / weights.sum(), plan.occupancy, out=np.zeros_like(weights), where=plan.occupancy > 0
    )
    np.testing.assert_allclose(plan.ratio, expected, rtol=1e-12)
    unseen = replace(plan, occupancy=0 * plan.occupancy)
    np.testing.assert_array_equal(unseen.ratio, np.where(weights > 0, INF, 0.0))


def test_too_few_steps_name_the_limit_and_being_stuck_names_the_tolerance():
    with pytest.raises(NotConvergedError, match="more than max_steps=1"):
        rc.plan(envs.river_swim(), 2.0, max_steps=1)
    with pytest.raises(NotConvergedError, match=r"pass tol=\de-1\d to accept it"):
        rc.plan(envs.river_swim(), 2.0, tol=1e-30)


# --- leximin --------------------------------------------------------------------------------------------


def test_leximin_raises_the_worst_again_and_again():
    members = Occupancies.average(MDP(np.ones((1, 4, 1))))
    found = leximin(members, np.array([0.1, 0.2, 0.3, 0.4]))
    np.testing.assert_allclose(found.d, [0.1, 0.2, 0.3, 0.4], rtol=1e-9)
    np.testing.assert_allclose(found.level, 1.0, rtol=1e-9)
    assert found.num_levels == 1
    zero = leximin(members, np.array([0.5, 0.0, 0.5, 0.0]))
    np.testing.assert_array_equal(np.isnan(zero.level), [False, True, False, True])
    np.testing.assert_allclose(zero.d, [0.5, 0, 0.5, 0], atol=1e-12)


def test_a_level_that_rounding_makes_infeasible_is_tried_with_more_slack(monkeypatch):
    tried, real = [], leximin_module._leximin

    def once(members, mu_bar, slack):
        tried.append(slack)
        if len(tried) < 4:
            raise leximin_module.SolverError("rounding")
        return real(members, mu_bar, slack)

    monkeypatch.setattr(leximin_module, "_leximin", once)
    members = Occupancies.average(random_model(3))
    leximin(members, np.full(members.num_pairs, 1 / members.num_pairs))
    assert tried == [1e-10, 1e-9, 3e-9, 8e-9]


@pytest.mark.parametrize("options", [{}, {"discount": 0.9}, {"horizon": 3}], ids=str)
def test_the_multipliers_of_the_first_level_prove_the_minimax_optimum(options):
    problem = problem_of(INF, **options)
    found = leximin(problem.members, problem.program.mu_bar)
    bound = dual_bound(problem.program, leximin_multipliers(problem.members, problem.rows, found.potential))
    assert problem.program.coverage.divergence(found.d) == pytest.approx(bound, abs=1e-8)
    # Levels rise: what is held first is the worst.
    assert found.level.min() == pytest.approx(np.exp(-bound), rel=1e-8)
    assert (found.d >= found.level * problem.program.mu_bar * (1 - 1e-8)).all()


# --- neighbours -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_a_pathwise_optimum_has_a_gap_within_its_tolerance(rho):
    mdp = random_model(3)
    members = Occupancies.average(mdp)
    problem = PathwiseProblem(members, Coverage(rho, np.ones(members.num_pairs)))
    d_hat = np.random.default_rng(0).dirichlet(np.full(members.num_pairs, 5.0))
    for tol in (1e-4, 1e-9):
        found = problem.best(d_hat, tol=tol) if tol == 1e-4 else problem.best(d_hat)
        assert 0 <= found.gap <= tol
        np.testing.assert_allclose(members.flow @ found.occupancy, members.flow @ d_hat, atol=1e-10)


@pytest.mark.parametrize("rho", [0.0, 1.0, 2.0])
def test_a_union_is_solved_to_its_tolerance_times_the_share_of_new_visits(rho):
    members = Occupancies.average(random_model(3))
    coverage = Coverage(rho, np.ones(members.num_pairs))
    visits = np.random.default_rng(0).integers(100, 1000, members.num_pairs)
    share = 50 / (visits.sum() + 50)
    for tol in (1e-3, 1e-7):
        found = best_addition(members, coverage, visits, 50, tol=tol)
        assert 0 <= found.gap <= tol * share + 1e-14
        np.testing.assert_allclose(
            found.d, (1 - share) * visits / visits.sum() + share * found.psi, rtol=1e-12
        )


def test_the_occupancy_of_an_addition_is_what_its_policy_visits():
    members = Occupancies.average(random_model(3))
    uniform = members.from_policy(1 / np.bincount(members.node)[members.node])
    np.testing.assert_allclose(_occupancy(members, 7 * uniform), uniform, rtol=1e-12)


def test_no_union_is_proven_anything_by_weights_of_nothing():
    members = Occupancies.average(random_model(3))
    coverage = Coverage(INF, np.ones(members.num_pairs))
    before = np.full(members.num_pairs, 0.5 / members.num_pairs)
    oracle = rc.oracles.make_oracle(members)
    assert _certified_level(coverage, before, 0.5, np.zeros(members.num_pairs), oracle) == INF
    level = _certified_level(coverage, before, 0.5, coverage.mu_bar, oracle)
    assert level == pytest.approx(1.0, rel=1e-9)  # the mean of d/mubar under mubar is the mass
