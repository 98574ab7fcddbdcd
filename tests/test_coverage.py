"""U_rho and D_rho are what section 1 of the mathematics says, to the last digits that float64 has.

References are computed with mpmath at 60 digits from the very floats that the code gets, so that only
the code's own rounding is measured. What that may be: every formula is a sum of logarithms, and the
logarithm of a number x is off by half an ulp of |log x|. Tolerances are therefore a small multiple of

    rounding(mu, d) = 2^-52 (1 + largest |log mu| + largest |log d|).
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings

from exact_coverage import (
    BELOW_ONE,
    EPS,
    FINITE,
    INF,
    PLAIN,
    RHOS,
    exact,
    exact_divergence,
    exact_value,
    normalised,
    ordinary,
    rounding,
    spread,
    weights_and_occupancy,
)
from rhocover import Coverage
from rhocover.coverage import checked_weights, log_sum_exp
from rhocover.errors import InvalidArgumentError
from tiers import tiered

reproducible = settings(max_examples=60, deadline=None, derandomize=True)


# --- accuracy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS))
@pytest.mark.parametrize("inputs", tiered([ordinary, spread]))
def test_the_divergence_is_right_to_four_roundings_of_its_logarithms(rho, inputs):
    # A mutant that takes log(sum) instead of log1p near rho = 1 is off by 1e-7 at 1 ± 1e-9.
    with mp.workdps(60):
        for seed in range(8):
            mu, d = inputs(seed)
            expected = exact_divergence(rho, mu, d)
            off = abs(expected - Coverage(rho, mu).divergence(d))
            assert off <= 4 * rounding(mu, d) * (1 + expected)  # mubar, itself rounded, multiplies the logs


@pytest.mark.parametrize("rho", [rho for rho in RHOS if rho == 0 or rho >= 0.25])
def test_the_divergence_of_ordinary_weights_has_thirteen_digits(rho):
    # Measured: 3e-15 relative. Below rho = 1/4 the divergence itself is of the size rho, and d, whose sum
    # is 1 only to 1e-16, does not determine more than 1e-16/rho of it.
    with mp.workdps(60):
        for seed in range(8):
            mu, d = ordinary(seed)
            expected = exact_divergence(rho, mu, d)
            assert abs(expected - Coverage(rho, mu).divergence(d)) <= 1e-13 * expected


@pytest.mark.parametrize("rho", FINITE)
@pytest.mark.parametrize("inputs", [ordinary, spread])
def test_the_logarithm_of_the_value_is_right_to_rho_times_the_rounding_of_its_logarithms(rho, inputs):
    # log |U| holds rho log mu: at rho = 10,000 and mu = 1e100 that is 2e6, and 5e-10 is its last digit.
    with mp.workdps(60):
        for seed in range(8):
            mu, d = inputs(seed)
            expected = mp.log(abs(exact_value(rho, mu, exact(d))))
            assert abs(expected - Coverage(rho, mu).log_abs_value(d)) <= 4 * (1 + rho) * rounding(mu, d)


@pytest.mark.parametrize("rho", FINITE)
def test_the_value_is_the_papers_sum(rho):
    with mp.workdps(60):
        for seed in range(8):
            mu, d = ordinary(seed)
            expected = exact_value(rho, mu, exact(d))
            got = Coverage(rho, mu).value(d)
            if abs(expected) > 1.7e308:
                assert got == math.copysign(INF, expected)
            elif abs(expected) > 1e-300:
                assert abs(expected - got) <= 4 * (1 + rho) * rounding(mu, d) * abs(expected)


@pytest.mark.parametrize("rho", PLAIN)
@pytest.mark.parametrize("inputs", [ordinary, spread])
def test_v_is_the_rho_norm_of_the_ratio_under_d(rho, inputs):
    # The sum before the root is 1 + O(rho) for small rho, so a rounding of 1 becomes one of 1/rho.
    with mp.workdps(60):
        for seed in range(8):
            mu, d = inputs(seed)
            order = mp.mpf(rho)
            mean = mp.fsum(y * (m / y) ** order for m, y in zip(exact(mu), exact(d), strict=True))
            off = abs(mp.log(mean) / order - Coverage(rho, mu).log_v(d))
            assert off <= 4 * (1 + 1 / rho) * EPS + 4 * rounding(mu, d)


@pytest.mark.parametrize("rho", BELOW_ONE)
@pytest.mark.parametrize("met", [1e-5, 1e-20, 1e-40, 1e-300])
def test_the_divergence_is_right_where_d_hardly_meets_mu(rho, met):
    # sum mubar^rho d^(1-rho) is then near 0, and 1 + (sum - 1) has lost it.
    mu, d = [1.0, 2.0, 0.0], [met, met, 1 - 2 * met]
    with mp.workdps(400):
        expected = exact_divergence(rho, mu, d)
        assert abs(expected - Coverage(rho, mu).divergence(d)) <= 8 * EPS * expected


# --- closed forms and identities ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        (0, 0.25 * math.log(0.5) + 0.75 * math.log(1.5)),
        (0.5, -2 * math.log(math.sqrt(0.125) + math.sqrt(0.375))),
        (1, 0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
        (2, math.log(4 / 3)),
        (3, math.log(0.125 / 0.0625 + 0.125 / 0.5625) / 2),
        (INF, math.log(2)),
    ],
)
def test_two_equal_weights_visited_one_to_three_have_the_divergence_of_the_textbook(rho, expected):
    assert Coverage(rho, [1.0, 1.0]).divergence([0.25, 0.75]) == pytest.approx(expected, rel=8 * EPS)


@pytest.mark.parametrize("rho", tiered(PLAIN))
@reproducible
@given(weights_and_occupancy())
def test_value_and_divergence_say_the_same(rho, pair):
    # (1-rho) U = M^rho exp((rho-1) D), in logarithms; a mutant with M^(rho-1) fails.
    mu, d = pair
    coverage = Coverage(rho, mu)
    left = math.log(abs(1 - rho)) + coverage.log_abs_value(d)
    right = rho * math.log(mu.sum()) + (rho - 1) * coverage.divergence(d)
    assert abs(left - right) <= 8 * (1 + rho) * rounding(mu, d) + 40 * EPS  # log 1e-9 is 20


@reproducible
@given(weights_and_occupancy())
def test_the_value_at_two_is_minus_the_mass_times_the_expected_ratio(pair):
    # E3 of the errata: the paper leaves the factor M out.
    mu, d = pair
    expected = -mu.sum() * sum(m / mu.sum() * (m / y) for m, y in zip(mu, d, strict=True))
    assert Coverage(2, mu).value(d) == pytest.approx(expected, rel=1e-13)  # 2 logs of size 7, 8 terms


@pytest.mark.parametrize("rho", tiered(BELOW_ONE))
@reproducible
@given(weights_and_occupancy())
def test_below_one_the_divergence_is_skew_symmetric(rho, pair):
    # (1-rho) D_rho(p || q) = rho D_(1-rho)(q || p): two code paths, below and above 1/2.
    mu, d = pair
    forward = (1 - rho) * Coverage(rho, mu).divergence(d)
    backward = rho * Coverage(1 - rho, d).divergence(normalised(mu))
    assert abs(forward - backward) <= 8 * rounding(mu, d)


@pytest.mark.parametrize("rho", tiered([0.05, 0.25, 0.5, 0.75, 0.95]))
@reproducible
@given(weights_and_occupancy())
def test_with_equal_weights_below_one_it_is_the_renyi_entropy_of_order_one_minus_rho(rho, pair):
    _, d = pair
    entropy = math.log(math.fsum(d ** (1 - rho))) / rho
    expected = rho / (1 - rho) * (math.log(d.size) - entropy)
    # 1/(1-rho) = 20 multiplies the rounding of the entropy
    assert Coverage(rho, np.ones(d.size)).divergence(d) == pytest.approx(expected, abs=1e-13)


@reproducible
@given(weights_and_occupancy())
def test_the_divergence_grows_with_rho(pair):
    # From rho > 0 on; rho = 0 stands for the slope there.
    mu, d = pair
    found = [Coverage(rho, mu).divergence(d) for rho in RHOS[1:]]
    assert all(low <= high + 8 * rounding(mu, d) for low, high in itertools.pairwise(found))


@pytest.mark.parametrize("rho", tiered(RHOS))
@reproducible
@given(weights_and_occupancy())
def test_the_divergence_is_never_negative_and_vanishes_at_the_weights(rho, pair):
    mu, d = pair
    coverage = Coverage(rho, mu)
    assert coverage.divergence(d) >= -8 * rounding(mu, d)
    assert abs(coverage.divergence(normalised(mu))) <= 8 * rounding(mu, normalised(mu))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("factor", [2.0**-300, 1e-100, 7.0, 1e100, 2.0**300])
def test_the_divergence_does_not_depend_on_the_scale_of_the_weights(rho, factor):
    mu, d = ordinary(1)
    same = Coverage(rho, mu).divergence(d)
    # log(1e100 mu) is of the size 230, so one rounding of it is 2.8e-14
    assert abs(Coverage(rho, factor * mu).divergence(d) - same) <= 4 * rounding(factor * mu, d)


@pytest.mark.parametrize("rho", FINITE)
def test_value_and_gradient_scale_with_the_rho_th_power_of_the_weights(rho):
    mu, d = ordinary(2)
    one, three = Coverage(rho, mu), Coverage(rho, 3 * mu)
    shift = rho * math.log(3)
    tolerance = 8 * (1 + rho) * rounding(3 * mu, d)
    np.testing.assert_allclose(three.log_gradient(d), one.log_gradient(d) + shift, rtol=0, atol=tolerance)
    if rho != 1:  # U_1 is linear in mu, which the next line says for the others
        assert abs(three.log_abs_value(d) - one.log_abs_value(d) - shift) <= tolerance
    else:
        assert three.value(d) == pytest.approx(3 * one.value(d), rel=8 * EPS)


# --- limits -------------------------------------------------------------------------------------------


@reproducible
@given(weights_and_occupancy())
def test_near_one_the_divergence_is_relative_entropy_plus_half_the_variance(pair):
    # d/drho D at 1 is Var_mubar(log mubar/d)/2; what remains is of order 1e-18.
    mu, d = pair
    bar = normalised(mu)
    log_ratio = np.log(bar / d)
    mean = float(bar @ log_ratio)
    slope = float(bar @ (log_ratio - mean) ** 2) / 2
    assert Coverage(1, mu).divergence(d) == pytest.approx(mean, abs=8 * rounding(mu, d))
    for step in (-1e-9, 1e-9):
        order = 1 + step
        expected = mean + (order - 1) * slope
        assert Coverage(order, mu).divergence(d) == pytest.approx(expected, abs=8 * rounding(mu, d))


@reproducible
@given(weights_and_occupancy())
def test_near_zero_the_divergence_is_rho_times_the_reverse_relative_entropy(pair):
    mu, d = pair
    reverse = float(d @ np.log(d / normalised(mu)))
    assert Coverage(0, mu).divergence(d) == pytest.approx(reverse, abs=8 * rounding(mu, d))
    # The next term is rho times a number of the size of log(d/mubar)^2 < 400; d's sum is off by 1e-16.
    slope = Coverage(1e-9, mu).divergence(d) / 1e-9
    assert slope == pytest.approx(reverse, abs=1e-9 * 400 + 8 * EPS / 1e-9)


@pytest.mark.parametrize("rho", tiered([1.5, 2, 8, 64, 1000, 10_000], short=[2]))
@reproducible
@given(weights_and_occupancy())
def test_the_worst_case_bounds_every_order_and_is_near_for_a_large_one(rho, pair):
    # D_inf - log(1/mubar_worst)/(rho-1) <= D_rho <= D_inf.
    mu, d = pair
    worst = Coverage(INF, mu).divergence(d)
    weight = normalised(mu)[np.argmax(mu / d)]
    found = Coverage(rho, mu).divergence(d)
    slack = 8 * rounding(mu, d)
    assert worst + math.log(weight) / (rho - 1) - slack <= found <= worst + slack


@pytest.mark.parametrize("rho", tiered(FINITE))
@reproducible
@given(weights_and_occupancy())
def test_v_lies_between_the_worst_ratio_and_its_share(rho, pair):
    # d_worst^(1/rho) r_max <= V_rho <= r_max, the full limit and not only the liminf.
    mu, d = pair
    worst = int(np.argmax(mu / d))
    top = math.log(mu[worst] / d[worst])
    slack = 8 * rounding(mu, d) + 8 * EPS / rho
    assert top + math.log(d[worst]) / rho - slack <= Coverage(rho, mu).log_v(d) <= top + slack


def test_v_at_the_ends_is_its_limit():
    mu, d = ordinary(3)
    reverse = float(d @ np.log(d / normalised(mu)))
    assert Coverage(0, mu).log_v(d) == pytest.approx(math.log(mu.sum()) - reverse, rel=1e-13)
    assert Coverage(1, mu).log_v(d) == pytest.approx(math.log(mu.sum()), rel=1e-14)
    assert Coverage(INF, mu).log_v(d) == pytest.approx(math.log((mu / d).max()), rel=1e-14)


def test_the_value_at_the_ends_is_minus_the_reverse_entropy_and_minus_the_worst_ratio():
    mu, d = ordinary(4)
    assert Coverage(0, mu).value(d) == -Coverage(0, mu).divergence(d)
    assert Coverage(INF, mu).value(d) == pytest.approx(-(mu / d).max(), rel=1e-14)
    assert Coverage(INF, mu).log_abs_value(d) == pytest.approx(math.log((mu / d).max()), rel=1e-14)


# --- zero weights, pairs never visited ----------------------------------------------------------------


@pytest.mark.parametrize("rho", [*FINITE, INF])
@pytest.mark.parametrize("unweighted", [0.0, 0.25])
def test_a_pair_of_zero_weight_is_as_if_it_were_not_there(rho, unweighted):
    # A mutant that forgets the support gives 0 * log 0 = nan, or a warning, which is an error here.
    mu, d = ordinary(11)
    d = (1 - unweighted) * d
    small, large = Coverage(rho, mu), Coverage(rho, np.append(mu, 0.0))
    longer = np.append(d, unweighted)
    tolerance = 4 * (1 + (rho if rho < INF else 0)) * rounding(mu, d) + 4 * EPS / rho
    for number in ("divergence", "log_v", "log_abs_value", "worst_ratio"):
        expected = getattr(small, number)(d)
        assert getattr(large, number)(longer) == pytest.approx(expected, abs=tolerance * (1 + abs(expected)))
    assert large.ratio(longer)[-1] == large.reward(longer)[-1] == 0
    if rho < INF:
        assert large.log_gradient(longer)[-1] == large.log_curvature(longer)[-1] == -INF
        assert large.hessian_diagonal(longer)[-1] == 0


def test_at_rho_zero_a_visit_to_a_pair_of_zero_weight_costs_infinitely_much():
    coverage = Coverage(0, [1.0, 1.0, 0.0])
    assert coverage.divergence([0.5, 0.4, 0.1]) == INF
    assert coverage.value([0.5, 0.4, 0.1]) == -INF
    assert coverage.divergence([0.5, 0.5, 0.0]) == pytest.approx(0, abs=2 * EPS)
    np.testing.assert_array_equal(coverage.log_curvature([0.5, 0.5, 0.0])[2], -INF)


@pytest.mark.parametrize("rho", [rho for rho in RHOS if rho >= 1])
def test_from_one_on_a_weighted_pair_never_visited_makes_the_divergence_infinite(rho):
    coverage = Coverage(rho, [1.0, 1.0, 1.0])
    assert coverage.divergence([0.5, 0.5, 0.0]) == INF
    assert coverage.value([0.5, 0.5, 0.0]) == -INF
    assert coverage.worst_ratio([0.5, 0.5, 0.0]) == INF


@pytest.mark.parametrize("rho", BELOW_ONE)
def test_below_one_a_weighted_pair_never_visited_costs_its_share_only(rho):
    # sum over the visited: 2 (1/3)^rho (1/2)^(1-rho) = (2/3)^rho.
    expected = rho / (1 - rho) * math.log(3 / 2)
    found = Coverage(rho, [1.0, 1.0, 1.0]).divergence([0.5, 0.5, 0.0])
    assert found == pytest.approx(expected, rel=1e-14, abs=2 * EPS)


def test_at_rho_zero_a_weighted_pair_never_visited_costs_log_of_its_share():
    assert Coverage(0, [1.0] * 3).divergence([0.5, 0.5, 0.0]) == pytest.approx(math.log(1.5), rel=4 * EPS)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("weighted", [1, 3, 7])
def test_visits_to_nothing_that_is_weighted_make_the_divergence_infinite(rho, weighted):
    # At rho in [1/2, 1) with three weights the excess is -0.9999999999999999 and not -1.
    mu = np.append(np.ones(weighted), 0.0)
    d = np.append(np.zeros(weighted), 1.0)
    assert Coverage(rho, mu).divergence(d) == INF


# --- extremes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
def test_weights_over_two_hundred_orders_of_magnitude_give_finite_logs_and_no_warning(rho):
    mu, d = spread(12)
    coverage = Coverage(rho, mu)
    numbers = [coverage.divergence(d), coverage.log_v(d), *coverage.log_ratio(d), *coverage.reward(d)]
    if rho not in (0, INF):
        numbers += [coverage.log_abs_value(d), *coverage.log_gradient(d), *coverage.log_curvature(d)]
    assert np.isfinite(numbers).all()
    for outside in (coverage.value(d), *coverage.ratio(d)):
        assert not math.isnan(outside)


@pytest.mark.parametrize(("mu", "expected"), [(2.0, -INF), (0.1, 0.0)])
def test_at_rho_ten_thousand_the_value_leaves_float64_quietly_and_its_logarithm_stays(mu, expected):
    # U = -2 mu^rho (1/2)^(1-rho) / 9999, so log |U| = rho log(2 mu) - log 9999.
    coverage = Coverage(10_000, [mu, mu])
    assert coverage.value([0.5, 0.5]) == expected
    assert coverage.log_abs_value([0.5, 0.5]) == pytest.approx(
        10_000 * math.log(2 * mu) - math.log(9999), rel=1e-14
    )
    assert coverage.divergence([0.5, 0.5]) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("rho", RHOS)
def test_the_largest_and_smallest_floats_are_weights_too(rho):
    coverage = Coverage(rho, [1.7e308, 5e-324])
    d = [0.5, 0.5]
    # mubar is (1, 3e-632): D = log 2 from rho = 1 on, and rho/(1-rho) log 2 below; 632 digits at rho = 0.
    expected = math.log(2) if rho >= 1 else rho / (1 - rho) * math.log(2)
    if rho == 0:
        expected = 0.5 * math.log(0.5) + 0.5 * (math.log(0.5) + math.log(1.7e308) - math.log(5e-324))
    if 0 < rho < 1:
        with mp.workdps(60):
            expected = float(exact_divergence(rho, [1.7e308, 5e-324], d))
    assert coverage.divergence(d) == pytest.approx(expected, rel=1e-12, abs=8 * EPS)  # logs of size 745
    assert not math.isnan(coverage.value(d))


# --- the object ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 3), (6, 1)])
@pytest.mark.parametrize("rho", [0, 0.25, 1, 2, INF])
def test_the_shape_of_the_weights_is_only_a_shape(rho, shape):
    mu, d = ordinary(13)
    mu, d = mu[:6], normalised(d[:6])
    flat, shaped = Coverage(rho, mu), Coverage(rho, mu.reshape(shape))
    assert shaped.divergence(d.reshape(shape)) == pytest.approx(flat.divergence(d), rel=1e-14)
    assert shaped.reward(d.reshape(shape)).shape == shape
    with pytest.raises(InvalidArgumentError, match="`d` must have shape"):
        shaped.divergence(np.append(d, 0.0))


def test_a_coverage_cannot_be_changed_and_keeps_no_hold_of_the_callers_array():
    mine = np.array([1.0, 2.0])
    coverage = Coverage(2, mine)
    before = coverage.divergence([0.5, 0.5])
    mine[0] = 100.0
    assert coverage.divergence([0.5, 0.5]) == before
    for array in (coverage.mu, coverage.log_mu, coverage.log_mu_bar, coverage.support):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        coverage.rho = 3


def test_the_mass_and_the_normalised_weights_are_those_of_mu():
    mu, d = ordinary(14)
    coverage = Coverage(2, mu)
    assert coverage.log_mass == pytest.approx(math.log(math.fsum(mu)), rel=4 * EPS, abs=4 * EPS)
    np.testing.assert_allclose(coverage.mu_bar, mu / math.fsum(mu), rtol=1e-14)
    np.testing.assert_allclose(coverage.ratio(d), mu / math.fsum(mu) / d, rtol=1e-14)
    assert coverage.worst_ratio(d) == pytest.approx(math.exp(Coverage(INF, mu).divergence(d)), rel=1e-14)


@pytest.mark.parametrize("method", ["divergence", "value", "log_v", "ratio", "log_gradient", "log_curvature"])
@pytest.mark.parametrize(
    "d", [[0.5, -0.1], [0.5, math.nan], [math.inf, 0.5], ["a", "b"], [True, False], None]
)
def test_what_is_not_an_occupancy_is_refused_by_name(method, d):
    with pytest.raises(InvalidArgumentError, match="`d`"):
        getattr(Coverage(2, [1.0, 1.0]), method)(d)


@pytest.mark.parametrize("rho", [0, INF])
def test_what_has_no_gradient_says_so_and_names_the_limit(rho):
    coverage = Coverage(rho, [1.0, 1.0])
    with pytest.raises(InvalidArgumentError, match="`reward`"):
        coverage.log_gradient([0.5, 0.5])
    with pytest.raises(InvalidArgumentError, match="0 < rho < inf"):
        coverage.log_smoothness(0.1)
    if rho == INF:
        with pytest.raises(InvalidArgumentError, match="rho < inf"):
            coverage.log_curvature([0.5, 0.5])


@pytest.mark.parametrize("eta", [0, 0.5, -0.1, math.nan, math.inf, "0.1", None, True])
def test_the_smoothness_constant_needs_a_floor_between_zero_and_one_half(eta):
    with pytest.raises(InvalidArgumentError, match="`eta`"):
        Coverage(2, [1.0, 1.0]).log_smoothness(eta)


# --- formulas of their own ---------------------------------------------------------------------------


def test_the_reward_of_maximum_entropy_forbids_pairs_of_no_weight():
    reward = Coverage(0.0, [1.0, 3.0, 0.0]).reward([0.5, 0.25, 0.25])
    np.testing.assert_allclose(reward, [np.log(0.5), np.log(3.0), -np.inf], rtol=1e-14)


@pytest.mark.parametrize("rho", [0.0, 0.5, 2.0])
def test_a_pair_of_no_weight_has_no_curvature_even_where_it_has_no_visits(rho):
    coverage = Coverage(rho, [1.0, 3.0, 0.0])
    for unweighted in (0.0, 0.25):
        found = coverage.log_curvature([0.5, 0.5 - unweighted, unweighted])
        assert found[2] == -np.inf
        assert np.isfinite(found[:2]).all()
    assert coverage.hessian_diagonal([0.5, 0.5, 0.0])[2] == 0


def test_the_sum_of_exponentials_at_its_ends():
    assert log_sum_exp(np.array([-np.inf, -np.inf])) == -np.inf
    assert log_sum_exp(np.array([0.0, np.inf])) == np.inf
    assert log_sum_exp(np.array([0.0, 0.0, -np.inf])) == pytest.approx(np.log(2), rel=1e-15)
    assert log_sum_exp(np.array([1000.0, 1000.0])) == pytest.approx(1000 + np.log(2), rel=1e-15)
    assert log_sum_exp(np.array([-2000.0, -2001.0])) == pytest.approx(-2000 + np.log1p(np.exp(-1)), rel=1e-15)


@pytest.mark.parametrize("mu", [[], [0.0, 0.0], [1.0, -1e-300], [1.0, np.nan]])
def test_weights_without_anything_positive_or_finite_are_refused(mu):
    with pytest.raises(InvalidArgumentError, match="`mu`"):
        checked_weights(mu, "mu")


@pytest.mark.parametrize("rho", [0.2, 0.499, 0.5, 0.75, 1.5, 3.0])
def test_visits_that_do_not_add_up_to_one_count_as_they_are(rho):
    coverage, d = Coverage(rho, [1.0, 3.0]), np.array([0.1, 0.3])
    expected = np.log(np.sum(np.array([0.25, 0.75]) ** rho * d ** (1 - rho))) / (rho - 1)
    assert coverage.divergence(d) == pytest.approx(expected, rel=1e-12)
    assert coverage.divergence(2.5 * d) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("rho", [0.0, 1.0, np.inf])
def test_the_logarithm_of_the_value_at_the_orders_that_have_their_own_formula(rho):
    coverage, d = Coverage(rho, [1.0, 3.0]), [0.5, 0.5]
    assert coverage.log_abs_value(d) == pytest.approx(np.log(abs(coverage.value(d))), rel=1e-14)
    assert coverage.value(d) < 0


@pytest.mark.parametrize("rho", [-1e-12, -1.0, np.nan])
def test_an_order_below_zero_is_refused(rho):
    with pytest.raises(InvalidArgumentError, match="rho"):
        Coverage(rho, [1.0])
