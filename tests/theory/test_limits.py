"""What nobody can do better: prices, fluctuation and kappa_min, against their formulas written out densely."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover import MDP, Coverage, Occupancies
from rhocover.theory import limits as limits_module
from rhocover.theory.limits import Limits, find_limits
from small_models import random_model
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.3, 0.5, 1, 1.5, 2, 8, 64, INF]
FINITE = [rho for rho in RHOS if rho < INF]


MODELS = {"river": rc.envs.river_swim(), "random": random_model(1, 6), "larger": random_model(2, 12)}


def solved(model: str, rho: float, mu=None) -> tuple[Occupancies, Coverage, np.ndarray, Limits]:
    """Returns (set, objective, d*, limits) of a model."""
    mdp = MODELS[model]
    members = Occupancies.average(mdp)
    mu = np.ones(mdp.num_pairs) if mu is None else mu
    best = rc.plan(mdp, rho, mu, tol=1e-11, throw=False)
    coverage = Coverage(rho, mu / mu.sum())
    d_star = mdp.per_pair(best.occupancy, "d")
    return members, coverage, d_star, find_limits(members, coverage, d_star, best.potential)


def weights(model: str, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(MODELS[model].num_pairs) + 0.1


def random_occupancy(members: Occupancies, rng) -> np.ndarray:
    policy = rng.exponential(size=members.num_pairs)
    return members.from_policy(policy / np.bincount(members.node, policy)[members.node])


# --- prices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_prices_are_a_level_and_a_potential_and_bound_every_occupancy(model, rho):
    members, coverage, d_star, limits = solved(model, rho, weights(model, 1))
    lifted = limits.level + members.flow.toarray().T @ limits.potential
    # Rounding below zero is clipped for rho > 0.
    assert limits.price == pytest.approx(lifted, abs=1e-9 * np.abs(lifted).max())
    best = coverage.value(d_star)
    assert limits.value >= best - 1e-12 * (1 + abs(best))
    assert limits.value - best <= 1e-7 * (1 + abs(best))  # tight: the plan's gap, times its order
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert coverage.value(random_occupancy(members, rng)) <= limits.value + 1e-12 * (1 + abs(best))


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_controllable_part_is_never_negative_on_or_off_the_set(model, rho):
    """Fenchel-Young holds for every d, so for visits of every run."""
    members, coverage, _, limits = solved(model, rho, weights(model, 2))
    rng = np.random.default_rng(1)
    for spread in (0.01, 0.3, 1.0):
        for _ in range(50):
            d = random_occupancy(members, rng) * np.exp(spread * rng.normal(size=members.num_pairs))
            d /= d.sum()
            if np.isinf(coverage.value(d)):  # at rho = 64 U itself leaves float64 on the way
                assert limits.bregman(d) == INF
                continue
            assert limits.bregman(d) >= -1e-12 * (1 + abs(coverage.value(d)))
            difference = limits.suboptimality(d) - limits.bregman(d)
            flow = float(limits.potential @ (members.flow @ d))
            assert difference == pytest.approx(-flow, abs=1e-10 * (1 + abs(coverage.value(d))))


@pytest.mark.parametrize("rho", [0, 0.3, 0.5, 1, 1.5, 2, 8])
@pytest.mark.parametrize("model", MODELS)
def test_at_finite_rho_it_is_the_bregman_distance_from_the_optimum(model, rho):
    """U(d*) + <grad U(d*), d - d*> - U(d), with the gradient (mu/d*)^rho; log(mu/d*) - 1 at rho = 0."""
    _, coverage, d_star, limits = solved(model, rho, weights(model, 3))
    gradient = (coverage.mu / d_star) ** rho if rho > 0 else np.log(coverage.mu / d_star) - 1
    rng = np.random.default_rng(2)
    for _ in range(20):
        d = d_star * np.exp(0.3 * rng.normal(size=d_star.size))
        d /= d.sum()
        expected = coverage.value(d_star) + gradient @ (d - d_star) - coverage.value(d)
        # d* is known to 1e-6 (the square root of the gap), and so is the gradient.
        assert limits.bregman(d) == pytest.approx(expected, rel=1e-4, abs=1e-6 * (1 + np.abs(gradient).max()))


@pytest.mark.parametrize("rho", RHOS)
def test_the_conjugate_is_the_largest_value_minus_price(rho):
    """No d >= 0 exceeds U^(g), and one attains it: d = mu g^(-1/rho), mu exp(-1-g), mu/sqrt(<g, mu>)."""
    _, coverage, _, limits = solved("random", rho, weights("random", 4))
    mu, g = coverage.mu, limits.price
    best = (
        mu * np.exp(-1 - g) if rho == 0
        else mu / np.sqrt(g @ mu) if rho == INF
        else mu * np.maximum(g, 1e-300) ** (-1 / rho)
    )  # fmt: skip
    size = 1 + abs(limits.conjugate)
    assert coverage.value(best) - g @ best == pytest.approx(limits.conjugate, abs=1e-9 * size)
    rng = np.random.default_rng(3)
    for _ in range(100):
        d = best * np.exp(0.2 * rng.normal(size=mu.size))
        assert coverage.value(d) - g @ d <= limits.conjugate + 1e-12 * size


@pytest.mark.parametrize("factor", tiered([0.5, 1.0, 3.0]))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_any_potential_gives_a_bound_and_is_scaled_to_the_best_along_it(rho, factor):
    """Prices total + A'nu >= 0 for nu three times too large, too: no multiple of them bounds U* better."""
    members, coverage, d_star, _ = solved("random", rho, weights("random", 4))
    potential = factor * rc.plan(members.mdp, rho, weights("random", 4), tol=1e-11).potential
    limits = find_limits(members, coverage, d_star, potential)
    size = 1 + abs(limits.value)
    assert limits.value >= coverage.value(d_star) - 1e-9 * size
    for other in (0.9, 1.1):
        if rho > 0:
            bound = other * limits.level + limits_module._conjugate(coverage, other * limits.price)
        else:  # a level is added there, not multiplied
            shift = other - 1
            bound = limits.level + shift + limits_module._conjugate(coverage, limits.price + shift)
        assert bound >= limits.value - 1e-12 * size


# --- the identity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
def test_the_suboptimality_of_any_walk_is_its_controllable_part_and_a_martingale(rho):
    """xi = Breg - (1/n)[h(s_1) - h(s_{n+1}) + M_n], summed step by step along a walk of a random policy."""
    _, coverage, _, limits = solved("larger", rho, weights("larger", 5))
    mdp, rng, n = MODELS["larger"], np.random.default_rng(4), 400
    P, h = mdp.transitions.toarray(), limits.potential
    counts, state, martingale = np.zeros(mdp.num_pairs), 3, 0.0
    for pair in range(mdp.num_pairs):  # one visit each, wherever they start, so that U is finite
        counts[pair] += 1
        martingale += h[np.argmax(P[pair])] - P[pair] @ h
        martingale += h[mdp.pair_state[pair]] - h[np.argmax(P[pair])]  # closes the loop
    for _ in range(n):
        pair = rng.choice(np.flatnonzero(mdp.pair_state == state))
        counts[pair] += 1
        later = rng.choice(mdp.num_states, p=P[pair])
        martingale += h[later] - P[pair] @ h
        state = later
    total = counts.sum()
    d = counts / total
    right = limits.bregman(d) - (h[3] - h[state] + martingale) / total
    assert limits.suboptimality(d) == pytest.approx(right, abs=1e-11 * (1 + abs(coverage.value(d))))


# --- sigma and kappa_min ------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("model", MODELS)
def test_sigma_is_the_spread_of_the_potential_over_one_step(model, rho):
    members, _, d_star, limits = solved(model, rho)
    P, h = members.mdp.transitions.toarray(), limits.potential
    variance = sum(d_star[i] * (P[i] @ h**2 - (P[i] @ h) ** 2) for i in range(d_star.size))
    # The plain formula cancels where h is far from zero; its own rounding is 1e-15 h^2.
    assert limits.sigma**2 == pytest.approx(variance, rel=1e-8, abs=1e-13 * np.max(h**2))


def dense_kappa(members: Occupancies, coverage: Coverage, d_star: np.ndarray) -> float:
    """Returns 1/2 tr[(B H^-1 B')^-1 Sigma_W], all of it dense."""
    rho, P = coverage.rho, members.mdp.transitions.toarray()
    H = rho * coverage.mu**rho / d_star ** (rho + 1) if rho > 0 else 1 / d_star
    B = np.vstack([members.flow.toarray()[:-1], np.ones(d_star.size)])
    sigma = sum(d_star[i] * (np.diag(P[i]) - np.outer(P[i], P[i])) for i in range(d_star.size))
    residual = np.zeros((len(B), len(B)))
    residual[:-1, :-1] = sigma[:-1, :-1]
    return 0.5 * float(np.trace(np.linalg.solve(B / H @ B.T, residual)))


@pytest.mark.parametrize("rho", [0, 0.3, 0.5, 1, 1.5, 2, 8])
@pytest.mark.parametrize("model", MODELS)
def test_kappa_min_is_its_formula(model, rho):
    # Mutants: no half, the last state's row left in, H for its inverse, mu for mubar.
    members, coverage, d_star, limits = solved(model, rho, weights(model, 6))
    # At rho = 8 curvatures lie 1e10 and more apart; there the smallest are raised to 1e-10 of the largest.
    tolerance = 1e-7 if rho < 8 else 1e-4
    assert limits.kappa_min == pytest.approx(dense_kappa(members, coverage, d_star), rel=tolerance)
    assert limits.kappa_error == 0


def test_kappa_min_of_river_swim_is_the_one_that_was_measured():
    """4.6201 at rho = 2: feedback came to 4.69 ± 0.10 in 1,500 runs."""
    assert solved("river", 2)[3].kappa_min == pytest.approx(4.6201, abs=5e-5)


@pytest.mark.parametrize("factor", [1e-100, 7.0, 1e100])
def test_nothing_depends_on_the_scale_of_the_weights(factor):
    plain, scaled = (
        solved("random", 2)[3],
        solved("random", 2, np.full(MODELS["random"].num_pairs, factor))[3],
    )
    assert scaled.kappa_min == pytest.approx(plain.kappa_min, rel=1e-9)
    assert scaled.sigma == pytest.approx(plain.sigma, rel=1e-9)


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 8], short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_random_probes_estimate_the_same_trace(model, rho, monkeypatch):
    """Within 5 standard errors: for a mean of 200 that fails by chance once in a million."""
    exact = solved(model, rho)[3].kappa_min
    monkeypatch.setattr(limits_module, "EXACT_STATES", 0)
    probed = solved(model, rho)[3]
    assert 0 < probed.kappa_error < 0.3 * exact
    assert abs(probed.kappa_min - exact) <= 5 * probed.kappa_error


def test_probes_have_the_covariance_of_the_flow_residual():
    """20,000 draws: each entry of the covariance within 6 standard errors, 144 of them, once in 4e6."""
    mdp = MODELS["larger"]
    _, _, d_star, _ = solved("larger", 2)
    P, rng = mdp.transitions.toarray(), np.random.default_rng(0)
    draws = np.array([limits_module._residual(rng, mdp.transitions, d_star) for _ in range(20_000)])
    expected = sum(d_star[i] * (np.diag(P[i]) - np.outer(P[i], P[i])) for i in range(d_star.size))
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / len(draws))
    assert (np.abs(draws.T @ draws / len(draws) - expected) <= 6 * error).all()
    assert np.abs(draws.sum(axis=1)).max() <= 1e-12  # what leaves one state enters another


def test_the_worst_case_has_prices_and_no_curvature():
    limits = solved("river", INF)[3]
    assert np.isnan(limits.kappa_min)
    assert np.isfinite(limits.sigma)
    assert limits.value == pytest.approx(-np.exp(0.65299309), rel=1e-7)


@pytest.mark.parametrize("rho", [2000, 1e5])
def test_where_the_value_leaves_float64_there_is_nan_and_no_warning(rho):
    limits = solved("river", rho)[3]
    assert np.isnan(limits.value)
    assert np.isnan(limits.bregman(np.full(12, 1 / 12)))


@pytest.mark.parametrize("rho", tiered([0.5, 1, 2, INF], short=[2]))
def test_pairs_without_weight_have_no_price_of_their_own_and_take_up_any_residual(rho):
    mu = weights("larger", 7)
    mu[::4] = 0.0
    members, coverage, _, limits = solved("larger", rho, mu)
    rng = np.random.default_rng(5)
    for _ in range(30):
        d = random_occupancy(members, rng)
        assert limits.bregman(d) >= -1e-12 * (1 + abs(coverage.value(d)))
        assert limits.value >= coverage.value(d) - 1e-12
    if rho < INF:
        assert 0 <= limits.kappa_min < solved("larger", rho, mu + 1e-6)[3].kappa_min * 1.01


def test_a_model_without_chance_has_nothing_that_cannot_be_controlled():
    mdp = rc.envs.double_chain(num_states=7)
    if np.allclose(mdp.transitions.data, 1.0):
        best = rc.plan(mdp, 2)
        d = mdp.per_pair(best.occupancy, "d")
        limits = find_limits(Occupancies.average(mdp), Coverage(2, np.ones(d.size)), d, best.potential)
        assert limits.sigma == pytest.approx(0, abs=1e-12)
        assert limits.kappa_min == pytest.approx(0, abs=1e-12)
    cycle = MDP(np.eye(4)[[1, 2, 3, 0]][:, None, :])
    limits = find_limits(Occupancies.average(cycle), Coverage(2, np.ones(4)), np.full(4, 0.25), np.zeros(4))
    assert limits.sigma == limits.kappa_min == 0
