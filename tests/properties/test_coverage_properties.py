"""Coverage and occupancy sets: inequalities and identities that hold for every rho, weight and occupancy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_tools import INF, about, distributions, many, models, orders, positive_orders, seeds

from rhocover import Coverage, Occupancies
from rhocover.oracles import best_response

sizes = st.integers(1, 8)


@st.composite
def coverages(draw, orders=orders):
    size = draw(sizes)
    mu = draw(distributions(size)) * draw(st.sampled_from([1e-100, 1.0, 1e100]))
    return Coverage(draw(orders), mu), draw(distributions(size))


@about("Coverage")
@many
@given(coverages())
def test_a_divergence_is_not_negative_and_zero_at_the_target(drawn):
    coverage, d = drawn
    # weights of 1e-100 have logarithms of 230, whose last place is 3e-14
    assert coverage.divergence(d) >= -1e-13
    assert coverage.divergence(coverage.mu_bar) == pytest.approx(0, abs=1e-12)


@about("Coverage")
@many
@given(coverages(), st.lists(st.floats(0.01, 200), min_size=2, max_size=5))
def test_the_divergence_grows_with_rho(drawn, several):
    coverage, d = drawn
    values = [Coverage(rho, coverage.mu).divergence(d) for rho in [*sorted(several), INF]]
    assert (np.diff(values) >= -1e-12 * (1 + np.abs(values[:-1]))).all()


@about("Coverage")
@many
@given(coverages(positive_orders))
def test_value_divergence_and_v_are_one_number(drawn):
    """(1 - rho) U = M^rho exp((rho - 1) D) = V^rho."""
    coverage, d = drawn
    rho = coverage.rho
    if abs(rho - 1) < 0.01:
        return  # all of it is 1 there, and D is found from what the rounding of 1 leaves
    log_sum = coverage.log_abs_value(d) + np.log(abs(1 - rho))
    assert log_sum == pytest.approx(
        rho * coverage.log_mass + (rho - 1) * coverage.divergence(d), rel=1e-9, abs=1e-9
    )
    assert coverage.log_v(d) == pytest.approx(log_sum / rho, rel=1e-12, abs=1e-12)
    assert np.sign(coverage.value(d)) in (0, np.sign(1 - rho))  # 0 where float64 ends


@about("Coverage")
@many
@given(coverages(positive_orders))
def test_v_is_at_most_the_worst_ratio(drawn):
    coverage, d = drawn
    assert coverage.log_v(d) <= coverage.log_ratio(d).max() + 1e-12 * (1 + abs(coverage.log_mass))
    assert coverage.worst_ratio(d) >= 1 - 1e-12
    assert Coverage(INF, coverage.mu).divergence(d) == pytest.approx(
        np.log(coverage.worst_ratio(d)), abs=1e-11
    )


@about("Coverage")
@many
@given(coverages(), seeds)
def test_divergences_are_convex_below_their_exponential(drawn, seed):
    """exp((rho-1) D) is convex in d for rho > 1, and D itself for rho in {0, 1, inf}."""
    coverage, d = drawn
    other = np.random.default_rng(seed).dirichlet(np.ones(d.size)) * (1 - 1e-9) + 1e-9 / d.size
    ends = coverage.divergence(d), coverage.divergence(other)
    middle = coverage.divergence((d + other) / 2)
    assert middle <= max(ends) + 1e-12 * (1 + max(ends))  # all of them are quasi-convex


@about("Coverage")
@many
@given(coverages(positive_orders))
def test_the_reward_is_the_gradient_up_to_a_factor(drawn):
    coverage, d = drawn
    log_gradient = coverage.log_gradient(d)
    assert np.exp(log_gradient - log_gradient.max()) == pytest.approx(coverage.reward(d), rel=1e-9)
    log_curvature = np.log(coverage.rho) + log_gradient - np.log(d)
    assert coverage.log_curvature(d) == pytest.approx(log_curvature, rel=1e-9, abs=1e-9)
    assert (coverage.hessian_diagonal(d) <= 0).all()


# --- occupancy sets ------------------------------------------------------------------------------------

criteria = st.sampled_from([{}, {"discount": 0.3}, {"discount": 0.99}, {"horizon": 1}, {"horizon": 5}])


@about("Occupancies")
@many
@given(models(), criteria, seeds)
def test_every_policy_has_an_occupancy_that_has_the_policy(mdp, criterion, seed):
    members = Occupancies.of(mdp, **criterion)
    weights = np.random.default_rng(seed).random(members.num_pairs) + 0.01
    policy = weights / np.bincount(members.node, weights)[members.node]
    d = members.from_policy(policy)
    assert members.contains(d, tol=1e-12)
    assert d.sum() == pytest.approx(1, abs=1e-12)
    again = members.flatten(members.to_policy(d), "policy")
    seen = np.bincount(members.node, d)[members.node] > 1e-9
    assert again[seen] == pytest.approx(policy[seen], rel=1e-6)
    assert members.flatten(members.table(d), "d") == pytest.approx(d, abs=0)


@about("Occupancies")
@many
@given(models(), criteria)
def test_the_largest_floor_is_reached_and_not_more(mdp, criterion):
    members = Occupancies.of(mdp, **criterion)
    most, d = members.max_floor()
    assert 0 < most <= 1 / members.num_pairs + 1e-12
    assert members.contains(d, tol=1e-8)
    assert d.min() == pytest.approx(most, abs=1e-8)
    assert Occupancies.of(mdp, **criterion, eta=0.49 * most).contains(d, tol=1e-8)


@about("Occupancies")
@many
@given(models(), criteria, seeds)
def test_no_policy_earns_more_than_the_best_response(mdp, criterion, seed):
    members, rng = Occupancies.of(mdp, **criterion), np.random.default_rng(seed)
    reward = rng.normal(size=members.num_pairs)
    answer = best_response(members, reward)
    weights = rng.random(members.num_pairs) ** 5 + 1e-3
    d = members.from_policy(weights / np.bincount(members.node, weights)[members.node])
    assert reward @ d <= answer.upper_bound
    assert answer.value <= answer.upper_bound <= answer.value + 1e-7 * np.abs(reward).max()
