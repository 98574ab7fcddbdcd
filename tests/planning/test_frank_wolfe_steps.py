"""Frank-Wolfe's parts: the slope along a way, the search on it, the mixture that is moved, and the start."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover import MDP, Coverage, Occupancies, envs
from rhocover.oracles import make_oracle
from rhocover.oracles.response import certified_gap, gradient_reward
from rhocover.planning import frank_wolfe as module
from rhocover.planning.frank_wolfe import _Mixture, _slope, line_search
from small_models import random_model

RHOS = [0.0, 0.5, 1.0, 2.0, 8.0]


@pytest.fixture(params=RHOS)
def case(request):
    """Returns (coverage, d, way): a point and a way on which the divergence falls first."""
    rng = np.random.default_rng(0)
    coverage = Coverage(request.param, rng.random(6) + 0.1)
    d, target = rng.dirichlet(np.full(6, 9.0)), coverage.mu_bar
    return coverage, d, target - d


def test_the_reward_is_the_gradient_with_value_one_at_the_point(case):
    coverage, d, _ = case
    reward = gradient_reward(coverage, d)
    if coverage.rho == 0:
        np.testing.assert_allclose(reward, np.log(coverage.mu_bar / d), rtol=1e-13)
    else:
        assert reward @ d == pytest.approx(1, rel=1e-14)
        gradient = (coverage.mu / d) ** coverage.rho
        np.testing.assert_allclose(reward, gradient / (gradient @ d), rtol=1e-12)


def test_the_slope_is_the_derivative_of_the_divergence_up_to_its_size(case):
    coverage, d, way = case
    t = 1e-5  # the third derivative is below 1e3: the difference is right to 1e-7
    for length in (0.0, 0.4):
        here = d + length * way
        derivative = (coverage.divergence(here + t * way) - coverage.divergence(here - t * way)) / (2 * t)
        reward = coverage.reward(here)
        scale = np.abs(reward) @ np.abs(way)
        weight = 1.0 if coverage.rho == 0 else 1 / (reward @ here)
        found = _slope(coverage, d, way, length)
        assert -1 <= found <= 1
        assert found * scale * weight == pytest.approx(-derivative, rel=1e-4, abs=1e-7)


def test_the_slope_at_the_ends():
    coverage, d = Coverage(2.0, [1.0, 1.0, 0.0]), np.array([0.5, 0.25, 0.25])
    assert _slope(coverage, d, np.array([-0.5, 0.25, 0.25]), 1.0) == -1.0  # a weighted pair has nothing left
    assert _slope(coverage, d, np.array([0.25, 0.0, -0.25]), 1.0) > 0  # one of no weight may
    assert _slope(coverage, d, np.zeros(3), 0.5) == 0.0


def test_a_line_search_ends_where_the_slope_changes_its_sign(case):
    coverage, d, way = case
    length = line_search(coverage, d, 3 * way, 0.9)
    here = coverage.divergence(d + length * 3 * way)
    assert 0 < length < 0.9
    for other in (length - 1e-3, length + 1e-3):
        assert coverage.divergence(d + other * 3 * way) > here
    assert line_search(coverage, d, -way, 0.01) == 0.0  # uphill
    assert line_search(coverage, d, way, 0.01) == 0.01  # downhill all the way
    assert line_search(coverage, d, 0 * way, 0.5) == 0.0


def test_a_certified_gap_is_what_the_oracle_allows_above_one():
    answer = type("Answer", (), {"upper_bound": 1.5})()
    d, reward = np.array([0.5, 0.5]), np.array([2.0, 0.5])
    assert certified_gap(2.0, reward, d, answer) == pytest.approx(np.log(1.5), rel=1e-15)
    assert certified_gap(0.0, reward, d, answer) == pytest.approx(0.25, rel=1e-15)


# --- the mixture ----------------------------------------------------------------------------------------


def mixture_of(d: np.ndarray, needed: bool = False) -> _Mixture:
    return _Mixture(d, np.full(d.size, needed))


def mixed(needed: bool = False) -> _Mixture:
    mixture = mixture_of(np.array([1.0, 0.0, 0.0]), needed)
    assert mixture.add(np.array([0.0, 1.0, 0.0])) == 1
    assert mixture.add(np.array([0.0, 0.0, 1.0])) == 2
    return mixture


def test_a_point_is_added_once_and_without_weight():
    mixture = mixed()
    np.testing.assert_array_equal(mixture.weights, [1, 0, 0])
    assert mixture.add(np.array([0.0, 1.0, 0.0])) == 1
    assert mixture.add(np.array([1.0, 0.0, 0.0])) == 0
    assert mixture.points.shape == (3, 3)
    np.testing.assert_array_equal(mixture.d, [1, 0, 0])


def test_weight_moves_and_the_point_with_it():
    mixture = mixed()
    mixture.shift(0, 2, 0.25)
    np.testing.assert_array_equal(mixture.weights, [0.75, 0, 0.25])
    np.testing.assert_array_equal(mixture.d, [0.75, 0, 0.25])
    mixture.shift(2, 1, 0.125)
    np.testing.assert_array_equal(mixture.d, [0.75, 0.125, 0.125])


def test_what_is_left_below_rounding_goes_along_unless_a_needed_pair_would_be_left_with_nothing():
    rounding = 1e-16
    mixture = mixed()
    mixture.shift(0, 1, 1 - rounding)
    np.testing.assert_array_equal(mixture.weights, [0, 1, 0])
    kept = mixed(needed=True)
    kept.shift(0, 1, 1.0)
    np.testing.assert_array_equal(kept.weights, [1e-100, 1, 0])
    assert kept.d[0] == 1e-100
    alone = mixed(needed=True)  # a point without weight visits nothing
    alone.add(np.array([0.5, 0.5, 0.0]))
    alone.shift(0, 1, 1.0)
    assert alone.weights[0] == 1e-100
    shared = mixed(needed=True)  # another point with weight visits what the source does
    shared.add(np.array([0.5, 0.5, 0.0]))
    shared.shift(0, 3, 0.5)
    shared.shift(0, 1, 0.5)
    np.testing.assert_array_equal(shared.weights, [0, 0.5, 0, 0.5])
    more = mixed(needed=True)
    more.shift(0, 1, 1 - 3e-15)  # more than rounding stays by itself
    assert more.weights[0] == pytest.approx(3e-15, rel=0.1, abs=0.0)


def test_the_worst_point_is_among_those_with_weight():
    mixture = mixed()
    assert mixture.worst == 0
    mixture.shift(0, 2, 0.25)
    earned = mixture.earn(np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(earned, [3, 1, 2])
    assert mixture.worst == 2  # 1 earns least, and has no weight
    mixture.earn(np.array([1.0, 0.0, 2.0]))
    assert mixture.worst == 0


def test_dropping_forgets_the_points_without_weight_and_keeps_the_mass():
    mixture = mixed()
    mixture.shift(0, 2, 0.25)
    mixture.earn(np.array([3.0, 1.0, 2.0]))
    mixture.weights *= 1 + 1e-9
    mixture.drop()
    np.testing.assert_array_equal(mixture.points, np.eye(3)[[0, 2]])
    np.testing.assert_allclose(mixture.weights, [0.75, 0.25], rtol=1e-15)
    np.testing.assert_allclose(mixture.d, [0.75, 0, 0.25], rtol=1e-15)
    assert mixture.worst == 0


def test_replacing_leaves_one_point():
    mixture, d = mixed(), np.array([0.2, 0.3, 0.5])
    mixture.replace(d)
    np.testing.assert_array_equal(mixture.points, [d])
    np.testing.assert_array_equal(mixture.weights, [1])
    assert mixture.d is d


# --- steps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_plain_step_has_the_textbooks_length(case, step):
    coverage, d, way = case
    mixture = mixture_of(d)
    assert module._advance(mixture, coverage, np.ones(6), d + way, "plain", step)
    np.testing.assert_allclose(mixture.d, d + 2 / (step + 2) * way, rtol=1e-14)


def test_a_searched_step_goes_as_far_as_the_search_says(case):
    coverage, d, way = case
    mixture = mixture_of(d)
    assert module._advance(mixture, coverage, np.ones(6), d + way, "line_search", 1)
    np.testing.assert_allclose(mixture.d, d + line_search(coverage, d, way, 1.0) * way, rtol=1e-14)
    best = mixture_of(coverage.mu_bar)
    for variant in ("line_search", "away"):
        assert not module._advance(best, coverage, gradient_reward(coverage, best.d), d, variant, 1)
    np.testing.assert_allclose(best.d, coverage.mu_bar, rtol=1e-15)


def test_blending_ends_where_no_point_promises_a_tenth_of_what_the_oracle_did(case):
    coverage, _, _ = case
    mixture = mixture_of(np.full(6, 1 / 6))
    for corner in 0.9 * np.eye(6) + 0.1 / 6:
        reward = gradient_reward(coverage, mixture.d)
        promise = float(reward @ (corner - mixture.d))
        if promise <= 0:
            continue
        before = coverage.divergence(mixture.d)
        assert module._advance(mixture, coverage, reward, corner, "away", 1)
        assert coverage.divergence(mixture.d) < before
        earned = mixture.points @ gradient_reward(coverage, mixture.d)
        assert np.ptp(earned) <= 0.1 * promise + 1e-12
        assert (mixture.weights > 0).all()
        assert mixture.weights.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("rho", RHOS)
def test_responses_needed_on_named_models(rho):
    # What was measured, and a tenth more: weight that moves the wrong way, or stops too soon, needs many more.
    limit = {0.0: 11, 0.5: 11, 1.0: 11, 2.0: 11, 8.0: 16}[rho]
    members = Occupancies.average(envs.river_swim())
    end = module.frank_wolfe(members, Coverage(rho, np.ones(members.num_pairs)), tol=1e-8)
    assert end.converged
    assert 0 <= end.divergence - end.lower_bound <= 1e-8
    assert end.steps <= 1.1 * limit


def test_without_settings_it_ends_within_a_millionth():
    members = Occupancies.average(envs.river_swim())
    end = module.frank_wolfe(members, Coverage(2.0, np.ones(members.num_pairs)))
    assert end.converged
    assert 1e-9 < end.gap <= 1e-6
    assert end.gap == end.divergence - end.lower_bound


def test_a_plan_by_best_responses_has_no_potential():
    plan = rc.plan(envs.river_swim(), 2.0, method="frank_wolfe")
    np.testing.assert_array_equal(plan.potential, np.zeros(6))


# --- the start ------------------------------------------------------------------------------------------


def start_of(members: Occupancies, mu) -> np.ndarray:
    return module._start(members, Coverage(2.0, mu), make_oracle(members))


def test_the_start_is_the_uniform_policys_occupancy_where_that_meets_every_weighted_pair():
    members = Occupancies.average(random_model(0))
    uniform = members.from_policy(1 / np.bincount(members.node)[members.node])
    np.testing.assert_array_equal(start_of(members, np.ones(members.num_pairs)), uniform)


def test_a_pair_of_no_weight_may_stay_unvisited_at_the_start():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 1] = 1.0  # 0 is left for ever
    members = Occupancies.average(MDP(P))
    np.testing.assert_allclose(start_of(members, [0.0, 1.0, 1.0]), [0.0, 0.5, 0.5], rtol=1e-12)


def test_with_a_floor_the_start_has_the_largest_one():
    members = Occupancies.average(random_model(0), eta=0.001)
    start = start_of(members, np.ones(members.num_pairs))
    assert start.min() == pytest.approx(members.max_floor()[0], rel=1e-9)


def test_where_the_uniform_policy_has_no_one_occupancy_the_start_is_the_mean_of_what_finds_the_pairs():
    rooms = np.zeros((3, 2, 3))
    rooms[0, :, 0] = rooms[1, :, 1] = rooms[2, :, 2] = 1.0
    members = Occupancies.average(MDP(rooms))
    start = start_of(members, np.ones(6))
    assert (start > 0).all()
    assert start.sum() == pytest.approx(1, abs=1e-15)
    only = start_of(members, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(only, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
