"""Plans and budgets: certificates that hold against every other policy, and relations between plans."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from property_tools import INF, about, few, many, models, orders, positive_orders, seeds, weighted_models

import rhocover as rc
from rhocover.files import load_tensors
from rhocover.theory import find_limits, measured_exponent, theorem_constants

criteria = st.sampled_from([{}, {"discount": 0.9}, {"horizon": 3, "restrict": True}])


@about("plan", "Plan")
@many
@given(weighted_models(), orders, criteria, seeds)
def test_no_policy_is_better_than_the_lower_bound(drawn, rho, criterion, seed):
    mdp, mu = drawn
    best = rc.plan(mdp, rho, mu, **criterion, throw=False)
    members = rc.Occupancies.of(mdp, **{key: value for key, value in criterion.items() if key != "restrict"})
    assert best.lower_bound == best.divergence - best.gap
    assert best.gap >= 0
    weights = np.random.default_rng(seed).random(members.num_pairs) ** 3 + 1e-6
    d = members.from_policy(weights / np.bincount(members.node, weights)[members.node])
    coverage = rc.Coverage(rho, members.flatten(best.weights, "mu"))
    assert coverage.divergence(d) >= best.lower_bound - 1e-12 * (1 + abs(best.divergence))
    own = members.flatten(best.occupancy, "d")
    assert members.contains(own, tol=1e-9)
    assert coverage.divergence(own) == pytest.approx(best.divergence, abs=1e-11)


@about("plan")
@many
@given(weighted_models(), positive_orders, positive_orders)
def test_the_best_divergence_grows_with_rho(drawn, one, other):
    mdp, mu = drawn
    low, high = (rc.plan(mdp, rho, mu, throw=False) for rho in sorted([one, other]))
    assert low.lower_bound <= high.divergence + 1e-12 * (1 + high.divergence)


@about("plan")
@few
@given(weighted_models(), positive_orders)
def test_a_floor_costs_and_never_helps(drawn, rho):
    mdp, mu = drawn
    most, _ = rc.Occupancies.average(mdp).max_floor()
    free, floored = rc.plan(mdp, rho, mu), rc.plan(mdp, rho, mu, eta=0.4 * most)
    assert floored.divergence >= free.lower_bound
    assert floored.occupancy[mdp.table(np.ones(mdp.num_pairs)) > 0].min() >= 0.8 * most - 1e-9


@about("Plan")
@few
@given(weighted_models(), orders, criteria)
def test_a_plan_tells_the_same_in_its_file_and_in_its_summary(tmp_path_factory, drawn, rho, criterion):
    mdp, mu = drawn
    best = rc.plan(mdp, rho, mu, **criterion, throw=False)
    path = tmp_path_factory.mktemp("plans") / "plan.rhocover"
    best.save(path)
    tensors, document = load_tensors(path, "plan")
    assert tensors["occupancy"].tobytes() == np.ascontiguousarray(best.occupancy).tobytes()
    summary = json.loads(json.dumps(best.summary()))
    assert {key: document[key] for key in summary} == summary
    assert_equal_plans(rc.Plan.load(path), best)
    assert best.policy.sum(axis=-1) == pytest.approx(1, abs=1e-12)
    assert best.ratio[best.weights > 0].max() == pytest.approx(best.worst_ratio)


def assert_equal_plans(one: rc.Plan, other: rc.Plan) -> None:
    """Every field is the same, arrays to the bit."""
    for field in dataclasses.fields(rc.Plan):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(theirs, np.ndarray):
            assert (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
            assert not mine.flags.writeable
        elif isinstance(theirs, rc.MDP):
            assert (mine.fingerprint, repr(mine)) == (theirs.fingerprint, repr(theirs))
        elif isinstance(theirs, rc.Coverage):
            assert (mine.rho, mine.mu.tobytes()) == (theirs.rho, theirs.mu.tobytes())
        else:
            assert mine == theirs, field.name


@about("plan_agents", "AgentsPlan")
@few
@given(weighted_models(), orders)
def test_two_agents_alike_reach_what_one_reaches(drawn, rho):
    mdp, mu = drawn
    one, two = (
        rc.plan(mdp, rho, mu, throw=False),
        rc.plan_agents([mdp, mdp], rho, mu, shares=[1, 3], tol=1e-6),
    )
    rounding = 1e-12 * (1 + one.divergence)
    assert two.lower_bound <= one.divergence + rounding
    assert one.lower_bound <= two.divergence + rounding


@about("plan_features", "FeaturePlan")
@few
@given(weighted_models(), orders)
def test_features_that_mark_pairs_have_the_divergence_of_pairs(drawn, rho):
    mdp, mu = drawn
    rho = max(rho, 0.5)
    pairs = rc.plan(mdp, rho, mu, throw=False)
    marks = rc.plan_features(mdp, rho, phi=np.eye(mdp.num_pairs), mu=mu, throw=False)
    rounding = 1e-11 * (1 + abs(pairs.divergence))
    assert marks.lower_bound <= pairs.divergence + rounding
    assert pairs.lower_bound <= marks.divergence + rounding


@about("best", "at_most", "at_least", "within", "Condition")
@few
@given(weighted_models(), orders, st.floats(0.1, 0.9), seeds)
def test_conditions_hold_and_cost_coverage(drawn, rho, share, seed):
    mdp, mu = drawn
    value = np.random.default_rng(seed).random(mdp.num_pairs)
    low, high = -rc.best(mdp, -value), rc.best(mdp, value)
    assume(high - low > 1e-3)
    middle, free = low + share * (high - low), rc.plan(mdp, rho, mu, throw=False)
    for asked in (
        rc.at_most(value, middle),
        rc.at_least(value, middle),
        rc.within(value, middle - 0.05 * (high - low), middle + 0.05 * (high - low)),
    ):
        assert isinstance(asked, rc.Condition)
        found = rc.plan(mdp, rho, mu, subject_to=asked, throw=False)
        (met,) = found.conditions
        assert asked.low - 1e-8 <= met.value <= asked.high + 1e-8
        assert met.price >= 0
        assert found.divergence >= free.lower_bound - 1e-9 * (1 + abs(free.divergence))


@about("tradeoff", "Tradeoff")
@few
@given(models(), st.sampled_from([0.5, 1.0, 2.0, INF]), seeds)
def test_more_return_is_never_better_covered(mdp, rho, seed):
    value = np.random.default_rng(seed).random(mdp.num_pairs)
    free = rc.plan(mdp, rho, throw=False)
    assume(rc.best(mdp, value) - float(value @ mdp.per_pair(free.occupancy, "d")) > 1e-3)
    curve = rc.tradeoff(mdp, rho, value, num_points=3, closest=0.8, tol=1e-6)
    assert (np.diff(curve.returns) > 0).all()
    assert (np.diff(curve.divergence) >= -curve.gap[1:] - 1e-9).all()


@about("plan")
@few
@given(weighted_models(), orders)
def test_groups_of_one_pair_are_pairs_and_states_ask_for_less(drawn, rho):
    mdp, mu = drawn
    pairs = rc.plan(mdp, rho, mu, throw=False)
    single = rc.plan(mdp, rho, mdp.per_pair(mu, "mu"), cover=np.arange(mdp.num_pairs), throw=False)
    states = rc.plan(mdp, rho, mu.sum(axis=1), cover="states", throw=False)
    rounding = 1e-9 * (1 + pairs.divergence)
    assert single.lower_bound <= pairs.divergence + rounding
    assert pairs.lower_bound <= single.divergence + rounding
    assert states.lower_bound <= pairs.divergence + rounding


# --- budgets and theory --------------------------------------------------------------------------------


@about("budget", "Budget")
@few
@given(models(), st.integers(1, 200), st.floats(0.001, 0.5))
def test_a_budget_is_ordered_and_attained(mdp, visits, delta):
    found = rc.budget(mdp, visits=visits, delta=delta)
    assert isinstance(found, rc.Budget)
    assert found.lower_bound_steps <= found.steps
    assert visits * mdp.num_pairs <= found.steps
    assert found.sure_steps is None or found.sure_steps >= visits * mdp.num_pairs
    assert found.policy.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert f"{visits} time" in found.wish or "once" in found.wish
    json.dumps(found.summary())
    d = rc.Occupancies.average(mdp).from_policy(found.policy)
    assert found.steps == pytest.approx(math.ceil(visits / d.min() - 1e-6), abs=1 + 1e-6 * found.steps)


@about("budget")
@few
@given(models(), seeds)
def test_no_policy_needs_fewer_steps_than_the_best(mdp, seed):
    weights = mdp.table(np.random.default_rng(seed).random(mdp.num_pairs) + 0.1)
    policy = weights / weights.sum(axis=1, keepdims=True)
    found = rc.budget(mdp, visits=1000, policy=policy)
    assert found.given is not None
    assert found.given.steps >= found.lower_bound_steps


@about("theorem_constants", "find_limits", "measured_exponent")
@few
@given(models(), st.floats(0.5, 4.0), st.floats(0.01, 0.3))
def test_theory_is_finite_and_monotone(mdp, rho, delta):
    most, _ = rc.Occupancies.average(mdp).max_floor()
    asked = {"eta": 0.3 * most, "gamma_min": 0.1}
    tight, loose = (theorem_constants(mdp, rho, delta=share, **asked) for share in (delta / 10, delta))
    assert math.isfinite(loose.log_b_delta)
    assert tight.k_delta >= loose.k_delta >= 2  # surer is later
    best = rc.plan(mdp, rho)
    limits = find_limits(
        rc.Occupancies.average(mdp), best.coverage, mdp.per_pair(best.occupancy, "d"), best.potential
    )
    assert limits.sigma >= 0
    assert not limits.kappa_min < 0


@about("measured_exponent")
@many
@given(st.floats(-3, 0), st.floats(0.1, 10))
def test_the_exponent_of_a_power_is_found(slope, factor):
    t = np.unique(np.geomspace(10, 10**6, 40).astype(int))
    found = measured_exponent(t, factor * t.astype(float) ** slope)
    assert found.slope == pytest.approx(slope, abs=1e-6)


@about("plan")
@few
@given(weighted_models())
def test_the_worst_case_is_the_limit_of_large_orders(drawn):
    """D_rho <= D_inf for every d, and V_rho is within d_i^(1/rho) of the worst ratio."""
    mdp, mu = drawn
    worst, large = rc.plan(mdp, INF, mu, throw=False), rc.plan(mdp, 300.0, mu, throw=False)
    assert large.lower_bound <= worst.divergence + 1e-12
    assert worst.worst_ratio <= large.worst_ratio * (1 + worst.gap + 1e-9)
