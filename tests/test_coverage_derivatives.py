"""Gradient, curvature, reward and smoothness constant of U_rho are the derivatives that they are called.

References are those of `exact_coverage`, at 60 digits.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from exact_coverage import FINITE, INF, exact, exact_value, normalised, ordinary, rounding, spread
from rhocover import Coverage
from tiers import tiered

# --- derivatives --------------------------------------------------------------------------------------


def near_the_weights(seed, size):
    """Returns weights and an occupancy whose ratios differ by a factor of 2 or so.

    Then the terms of U differ by less than 2^(2 rho), and rho/2 more digits than usual keep all of them.
    """
    mu, _ = ordinary(seed)
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, size)
    return mu[:size], normalised(mu[:size] * np.exp(noise))


def exact_partial(rho, mu, d, i, step):
    """Returns the central difference of U_rho in entry i; its error is of the order step^2."""
    up, down = exact(d), exact(d)
    up[i] += step
    down[i] -= step
    return (exact_value(rho, mu, up) - exact_value(rho, mu, down)) / (2 * step)


@pytest.mark.parametrize("rho", tiered(FINITE))
def test_the_gradient_is_the_derivative_of_the_papers_value(rho):
    mu, d = near_the_weights(5, 4)
    with mp.workdps(60 + int(rho) // 2):
        # Relative error of the difference: (rho+1)(rho+2)/6 (step/d)^2, below 1e-25 with d > 1e-3.
        found = [mp.log(exact_partial(rho, mu, d, i, mp.mpf(10) ** -20)) for i in range(4)]
    expected = np.array([float(x) for x in found])
    log_gradient = Coverage(rho, mu).log_gradient(d)
    np.testing.assert_allclose(log_gradient, expected, rtol=0, atol=4 * (1 + rho) * rounding(mu, d))


@pytest.mark.parametrize("rho", tiered(FINITE))
def test_the_hessian_is_the_second_derivative_and_is_diagonal(rho):
    mu, d = near_the_weights(6, 3)
    with mp.workdps(90 + int(rho) // 2):
        step = mp.mpf(10) ** -20
        for i in range(3):
            for j in range(3):
                high, low = exact(d), exact(d)
                high[j] += step
                low[j] -= step
                slopes = [exact_partial(rho, mu, point, i, step) for point in (high, low)]
                second = (slopes[0] - slopes[1]) / (2 * step)
                if i != j:
                    # 90 digits less 40 for the two steps, and less those of the value itself
                    assert abs(second) <= mp.mpf(10) ** -40 * abs(exact_value(rho, mu, exact(d)))
                else:
                    off = mp.log(-second) - Coverage(rho, mu).log_curvature(d)[i]
                    assert abs(off) <= 4 * (2 + rho) * rounding(mu, d)


def test_at_rho_zero_the_curvature_is_that_of_relative_entropy():
    mu, d = ordinary(7)
    np.testing.assert_allclose(Coverage(0, mu).hessian_diagonal(d), -1 / d, rtol=1e-14)


@pytest.mark.parametrize("rho", FINITE)
@pytest.mark.parametrize("inputs", [ordinary, spread])
def test_the_reward_is_the_gradient_with_largest_entry_one(rho, inputs):
    mu, d = inputs(8)
    coverage = Coverage(rho, mu)
    expected = coverage.log_gradient(d) - coverage.log_gradient(d).max()
    reward = coverage.reward(d)
    assert reward.max() == 1
    seen = expected > -700  # below, exp is denormal or zero
    off = np.abs(np.log(reward[seen]) - expected[seen])
    assert off.max() <= 4 * (1 + rho) * rounding(mu, d)
    assert (reward[~seen] < 1e-300).all()


def test_the_reward_at_zero_is_the_slope_of_the_gradient_in_rho():
    # ((mubar/d)^rho - 1)/rho at rho = 1e-30, with 90 digits, is its limit to 1e-28.
    mu, d = ordinary(9)
    bar = normalised(mu)
    with mp.workdps(90):
        order = mp.mpf(10) ** -30
        expected = [((x / y) ** order - 1) / order for x, y in zip(exact(bar), exact(d), strict=True)]
    np.testing.assert_allclose(Coverage(0, mu).reward(d), [float(x) for x in expected], rtol=0, atol=1e-14)


def test_the_reward_of_the_worst_case_marks_the_worst_pairs():
    coverage = Coverage(INF, [1.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(coverage.reward([0.125, 0.5, 0.25, 0.125]), [1, 0, 1, 0])
    np.testing.assert_array_equal(coverage.reward([0.0, 0.5, 0.5, 0.0]), [1, 0, 0, 0])


@pytest.mark.parametrize("rho", FINITE)
def test_the_reward_of_an_incomplete_coverage_marks_what_was_never_visited(rho):
    coverage = Coverage(rho, [1.0, 5.0, 2.0, 0.0])
    np.testing.assert_array_equal(coverage.reward([0.0, 0.5, 0.0, 0.5]), [1, 0, 1, 0])


# --- the smoothness constant --------------------------------------------------------------------------


@pytest.mark.parametrize("off_floor", [False, True])
@pytest.mark.parametrize("rho", FINITE)
def test_the_smoothness_constant_bounds_the_curvature_above_the_floor_and_is_attained_on_it(rho, off_floor):
    mu, _ = ordinary(10)
    coverage, eta = Coverage(rho, mu), 0.01
    floor = eta if off_floor else 2 * eta
    constant = coverage.log_smoothness(eta, off_floor=off_floor)
    slack = 4 * (2 + rho) * rounding(mu, [floor])
    rng = np.random.default_rng(0)
    for _ in range(50):
        d = rng.uniform(floor, 1, mu.size)
        assert coverage.log_curvature(d).max() <= constant + slack
    on_floor = np.full(mu.size, floor)
    assert abs(coverage.log_curvature(on_floor).max() - constant) <= slack
    assert coverage.log_curvature(on_floor).argmax() == mu.argmax()


@pytest.mark.parametrize("rho", [0.5, 1, 2, 8, 64])
def test_off_the_floor_the_constant_is_two_to_the_rho_plus_one_times_larger(rho):
    # E12 of the errata: the proof needs the constant at d >= eta, the paper states it at d >= 2 eta.
    coverage = Coverage(rho, [1.0, 3.0])
    factor = math.exp(coverage.log_smoothness(0.1, off_floor=True) - coverage.log_smoothness(0.1))
    assert factor == pytest.approx(2 ** (rho + 1), rel=1e-12)  # exp of a log that is right to 1e-14


def test_the_smoothness_constant_is_the_papers():
    assert math.exp(Coverage(2, [1.0, 3.0]).log_smoothness(0.1)) == pytest.approx(2 * 9 / 0.2**3, rel=1e-13)
