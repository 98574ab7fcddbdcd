"""A bound is its inequality minus an allowance for every rounding, and the allowance is what it says.

The inequalities are evaluated once more, in 40 digits. Between that and the bound lies the allowance: positive, and
for multipliers near 1 far below 1e-12. What it is made of is counted term by term.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from rhocover import Coverage, Occupancies
from rhocover.planning import program as module
from rhocover.planning.program import EPSILON, Multipliers, dual_bound, make_program, slack_of_point
from small_models import random_model
from tiers import tiered

INF = float("inf")
RHOS = [0.0, 0.3, 1.0, 1.001, 2.0, 8.0, INF]
OPTIONS = [{}, {"eta": 0.01}, {"discount": 0.8}, {"discount": 0.8, "eta": 0.003}]


def program_of(rho: float, options: dict, zero: bool = False):
    rng = np.random.default_rng(1)
    members = Occupancies.of(random_model(1), **options)
    mu = rng.random(members.num_pairs) + 0.1
    mu[2] *= 0.0 if zero else 1e-3
    return make_program(members, Coverage(rho, mu))


def multipliers_of(program, scale: float = 1.0, spread: float = 0.2) -> Multipliers:
    rng = np.random.default_rng(2)
    nu = scale * spread * rng.normal(size=program.K.shape[0])
    z = scale * 0.3 * rng.normal(size=program.num_pairs)  # negative ones count as zero
    return Multipliers(nu, 1.3 * scale, z if program.has_floor else 0.0)


def exact_terms(program, given: Multipliers):
    """Returns y and Y in 40 digits, from the very floats that the code gets."""
    K = np.asarray(program.K.todense() if hasattr(program.K, "todense") else program.K)
    z = np.maximum(np.broadcast_to(given.z, program.num_pairs), 0.0)
    exact = lambda array: [mp.mpf(float(a)) for a in array]  # noqa: E731
    nu, zs, alpha = exact(given.nu), exact(z), mp.mpf(given.alpha)
    y = [mp.fdot(exact(column), nu) + alpha - one for column, one in zip(K.T, zs, strict=True)]
    floor = exact(np.broadcast_to(program.floor, program.num_pairs))
    total = mp.fdot(exact(program.k0), nu) + alpha
    return y, total - (mp.fdot(floor, zs) if program.has_floor else 0)


def exact_bound(program, given: Multipliers):
    y, total = exact_terms(program, given)
    mu = [mp.mpf(float(m)) for m in program.coverage.mu]
    bar = [m / mp.fsum(mu) for m in mu]
    rho = program.rho
    if rho == 0:
        return -total - mp.log(mp.fsum(m * mp.exp(-one) for m, one in zip(bar, y, strict=True)))
    raised = max(mp.mpf(0), -min(y))
    most = total + raised
    weighted = [(m, (one + raised) / most) for m, one in zip(bar, y, strict=True) if m > 0]
    if rho == 1:
        return mp.fsum(m * mp.log(one) for m, one in weighted)
    power = mp.mpf(1) if rho == INF else 1 - 1 / mp.mpf(rho)
    return mp.log(mp.fsum(m * one**power for m, one in weighted)) / power


@pytest.mark.parametrize("options", tiered(OPTIONS), ids=str)
@pytest.mark.parametrize(
    ("rho", "scale"), tiered([*((r, 1.0) for r in RHOS), *((r, s) for r in RHOS[1:] for s in (1e-9, 1e9))])
)
def test_a_bound_is_below_the_exact_one_by_its_allowance(rho, options, scale):
    program = program_of(rho, options)
    given = multipliers_of(program, scale)
    with mp.workdps(40):
        missing = float(exact_bound(program, given) - dual_bound(program, given))
    assert 0 < missing < 1e-12


def test_multipliers_that_leave_something_negative_prove_less_by_just_that():
    program = program_of(2.0, {})
    given = multipliers_of(program, spread=1.5)
    y, _ = exact_terms(program, given)
    assert min(y) < -0.1
    with mp.workdps(40):
        missing = float(exact_bound(program, given) - dual_bound(program, given))
    assert 0 < missing < 1e-12


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_allowances_count_every_term(options):
    program = program_of(2.0, options)
    given = multipliers_of(program)
    n, z = program.num_pairs, np.maximum(np.broadcast_to(given.z, program.num_pairs), 0.0)
    total, error = module._total(program, given)
    floored = float(np.sum(program.floor * z)) if program.has_floor else 0.0
    assert total == pytest.approx(program.k0 @ given.nu + given.alpha - floored, rel=1e-14, abs=0.0)
    size = np.abs(program.k0 * given.nu).sum() + abs(given.alpha) + floored
    assert error == pytest.approx((12 + np.log2(n)) * EPSILON * size, rel=1e-14, abs=0.0)
    size = np.abs(program.K).T @ np.abs(given.nu) + 1.3 + 0.7
    for alpha in (1.3, -1.3):
        found = module._rounding(program, given.nu, alpha, 0.7)
        np.testing.assert_allclose(found, (program.terms + 3) * EPSILON * size, rtol=1e-14)
    smallest = np.log(program.mu_bar.min())
    assert module._digits(program) == pytest.approx(
        12 + np.log2(n) + np.log(n) - 2 * smallest, rel=1e-14, abs=0.0
    )


def test_a_pair_of_no_weight_has_no_digits_to_lose():
    program = program_of(2.0, {}, zero=True)
    weighted = program.mu_bar[program.mu_bar > 0]
    n = program.num_pairs
    assert module._digits(program) == pytest.approx(12 + np.log2(n) + np.log(n) - 2 * np.log(weighted.min()))


@pytest.mark.parametrize("rho", [0.3, 1.0, 1.001, 2.0, INF])
def test_a_power_mean_is_right_to_the_error_that_it_reports(rho):
    program, rng = program_of(rho, {}), np.random.default_rng(3)
    for y in (
        np.exp(0.1 * rng.normal(size=program.num_pairs)),
        np.exp(4 * rng.normal(size=program.num_pairs)),
    ):
        found, error = module._power_mean_log(program, y)
        with mp.workdps(40):
            mu = [mp.mpf(float(m)) for m in program.coverage.mu]
            pairs = [(m / mp.fsum(mu), mp.mpf(float(one))) for m, one in zip(mu, y, strict=True)]
            if rho == 1:
                exact = mp.fsum(m * mp.log(one) for m, one in pairs)
                sizes = [float(m * abs(mp.log(one))) for m, one in pairs]
            else:
                power = mp.mpf(1) if rho == INF else 1 - 1 / mp.mpf(rho)
                exact = mp.log(mp.fsum(m * one**power for m, one in pairs)) / power
                sizes = [float(m * abs(one**power - 1)) for m, one in pairs]
            off = abs(float(found - exact))
        assert off <= error
        unit = EPSILON * module._digits(program)
        power = 1.0 if rho in (1.0, INF) else abs(1 - 1 / rho)
        flat = rho != 1 and np.abs(power * np.log(y)).max() < 0.5
        if rho == 1:
            assert error == pytest.approx(unit * sum(sizes), rel=1e-9, abs=0.0)
        elif flat:
            assert error == pytest.approx(2 * unit * sum(sizes) / power, rel=1e-6, abs=0.0)
        else:
            assert error == pytest.approx((unit + EPSILON * power * abs(found)) / power, rel=1e-9, abs=0.0)


def test_flat_is_within_one_half():
    assert module._is_flat(np.array([0.4, -0.49]))
    assert not module._is_flat(np.array([0.4, -0.5]))
    assert not module._is_flat(np.array([0.5, 0.0]))


def test_multipliers_that_are_not_finite_or_have_no_value_prove_nothing():
    program = program_of(2.0, {"eta": 0.01})
    good = multipliers_of(program)
    assert np.isfinite(dual_bound(program, good))
    for bad in (
        replace(good, nu=good.nu * np.nan),
        replace(good, nu=np.where(np.arange(good.nu.size) == 0, INF, good.nu)),
        replace(good, alpha=INF),
        replace(good, nu=0 * good.nu, alpha=0.0, z=np.zeros(program.num_pairs)),
        replace(good, nu=0 * good.nu, alpha=-1.0),
    ):
        assert dual_bound(program, bad) == -INF


@pytest.mark.parametrize("rho", [0.0, 2.0])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_slack_of_a_point_is_what_it_misses_at_the_prices_of_its_multipliers(options, rho):
    program, rng = program_of(rho, options), np.random.default_rng(4)
    given = multipliers_of(program)
    d = rng.dirichlet(np.ones(program.num_pairs)) * 1.01
    z = np.maximum(np.broadcast_to(given.z, d.size), 0.0)
    total = 1.0 if rho == 0 else module._total(program, given)[0]
    missed = np.abs(given.nu) @ np.abs(program.K @ d - program.k0) / total
    missed += max(1.0, abs(given.alpha) / total) * 0.01
    if program.has_floor:
        missed += z @ np.maximum(program.floor - d, 0.0) / total
    assert slack_of_point(program, given, d) == pytest.approx(missed, rel=1e-9, abs=0.0)
    small = replace(
        given, alpha=1e-3 * given.alpha, nu=0 * given.nu, z=0 * given.z
    )  # mass counts at least once
    assert slack_of_point(program, small, d) == pytest.approx(0.01, rel=1e-9, abs=0.0)
    nothing = replace(given, alpha=-0.5, nu=0 * given.nu, z=0 * given.z)  # no Y to divide by
    assert slack_of_point(program, nothing, d) == pytest.approx(0.01, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("rho", [0.5, 2.0])
def test_the_slack_of_a_member_is_the_rounding_of_its_divergence(rho):
    program = program_of(rho, {})
    members = Occupancies.average(random_model(1))
    d = members.from_policy(1 / np.bincount(members.node)[members.node])
    still = Multipliers(np.zeros(program.K.shape[0]), 1.0)
    rounding = module._digits(program) * EPSILON * (1 + program.coverage.divergence(d))
    assert slack_of_point(program, still, d) == pytest.approx(rounding + abs(d.sum() - 1), rel=1e-9, abs=0.0)
