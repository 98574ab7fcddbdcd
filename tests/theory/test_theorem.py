"""The theorem's constants are the paper's formulas, and the bound covers what its own recursion allows.

Sources: the appendix written out in plain numbers, sums over episodes by brute force, the recursion itself.
Mutants: C_eta in place of 2^(rho+1) C_eta, A^S in place of A^(S+1), log(t) in place of log K, k_delta off by one.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from rhocover import MDP, Coverage, chains, envs, plan
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError
from rhocover.theory import TheoremConstants, measured_exponent, theorem_constants


def random_model(seed: int = 0, num_states: int = 4, num_actions: int = 3) -> MDP:
    rng = np.random.default_rng(seed)
    return MDP(rng.dirichlet(np.ones(num_states), size=(num_states, num_actions)))


def time_of(k: int, tau_1: int) -> int:
    return tau_1 * (k - 1) * k * (2 * k - 1) // 6 + 1


def deviations(c: TheoremConstants, n: int) -> tuple[float, float]:
    """Returns a_1 and a_2 of the concentration lemma."""
    a_1 = math.sqrt(2 * c.B / c.gamma_min) + math.sqrt(math.log(4 * n / c.delta) / 2)
    return a_1, 20 * c.B / c.gamma_min


@pytest.mark.parametrize("rho", [0.5, 1.0, 2.0, 3.5])
def test_constants_are_the_formulas_of_the_appendix(rho: float) -> None:
    mdp, delta, tau_1, gap = random_model(), 0.1, 7, 0.3
    mu = np.random.default_rng(1).random((4, 3)) + 0.5
    c = theorem_constants(mdp, rho, mu, delta=delta, tau_1=tau_1, gamma_min=gap)
    S, A = 4, 3
    B = math.log(S**2 * A ** (S + 1) / (delta / 2) * math.sqrt(1 / c.eta))
    slope = S * A * (mu.max() / c.eta) ** rho
    c_1 = slope * (math.sqrt(2 * B / gap) + math.sqrt(math.log(4 * S * A / delta) / 2))
    c_2 = slope * 20 * B / gap
    smooth = rho * mu.max() ** rho / (2 ** (rho + 1) * c.eta ** (rho + 1))
    b = 3 * c_1 / math.sqrt(tau_1) + 3 * c_2 / (tau_1 * c.k_delta) + 9 * 2 ** (rho + 1) * smooth
    found = [c.B, *np.exp([c.log_c_1, c.log_c_2, c.log_smoothness, c.log_b_delta])]
    assert found == pytest.approx([B, c_1, c_2, smooth, b], rel=1e-12)
    assert math.exp(c.log_smoothness_used) == pytest.approx(2 ** (rho + 1) * smooth, rel=1e-12)


def test_states_with_fewer_actions_count_with_what_they_have() -> None:
    P = np.random.default_rng(3).dirichlet(np.ones(3), size=(3, 2))
    mdp = MDP(P, available=[[True, True], [True, False], [True, True]])
    c = theorem_constants(mdp, 1.0, delta=0.2, gamma_min=1.0)
    assert pytest.approx(math.log(3 * 5 * (2 * 1 * 2) / 0.1 * math.sqrt(1 / c.eta)), rel=1e-14) == c.B


@pytest.mark.parametrize("tau_1", [1, 10, 5000])
def test_k_delta_is_the_first_episode_that_the_sum_over_episodes_allows(tau_1: int) -> None:
    mdp = envs.river_swim()
    c = theorem_constants(mdp, 2.0, tau_1=tau_1)
    a_1, a_2 = deviations(c, mdp.num_pairs)

    def least_share(k: int) -> float:
        tau = tau_1 * np.arange(1, k, dtype=float) ** 2
        return float((tau * (2 * c.eta - a_1 / np.sqrt(tau) - a_2 / tau)).sum() / tau.sum())

    assert least_share(c.k_delta) >= c.eta * (1 - 1e-12)
    assert c.k_delta == 2 or least_share(c.k_delta - 1) < c.eta


@pytest.mark.parametrize("rho", [0.4, 1.0, 2.0])
def test_the_bound_at_the_end_of_an_episode_is_the_paper_s_line(rho: float) -> None:
    mdp = random_model(2)
    c = theorem_constants(mdp, rho, tau_1=10, gamma_min=0.5)
    best = plan(mdp, rho)
    d_star = mdp.per_pair(best.occupancy, "d")
    xi = best.coverage.value(d_star) - best.coverage.value(np.full(mdp.num_pairs, c.eta))
    for K in (c.k_delta, c.k_delta + 1, 10 * c.k_delta):
        t = time_of(K, 10)
        line = (10 / (3 * (t - 1))) ** (1 / 3) * (c.k_delta * xi + 2 * math.exp(c.log_b_delta) * math.log(K))
        assert c.bound(t) == pytest.approx(line, rel=1e-9)
    assert np.isinf(c.bound([1, time_of(c.k_delta, 10) - 1])).all()
    assert 10 ** c.log10_valid_from() == pytest.approx(time_of(c.k_delta, 10) - 1, rel=1e-9)


@pytest.mark.parametrize("rho", [1.0, 2.0])
def test_the_bound_covers_the_recursion_of_the_proof_with_the_exact_step_sizes(rho: float) -> None:
    """xi_{k+1} = (1 - beta_k) xi_k + beta_k (c_1/sqrt(tau_k) + c_2/tau_k) + C beta_k^2 from the worst xi_q on."""
    c = theorem_constants(random_model(5), rho, tau_1=3)
    c_1, c_2, C, xi = np.exp([c.log_c_1, c.log_c_2, c.log_smoothness_used, c.log_xi_q])
    for k in range(c.k_delta, c.k_delta + 3000):
        tau, beta = 3.0 * k**2, 6 * k / ((k + 1) * (2 * k + 1))
        xi = (1 - beta) * xi + beta * (c_1 / math.sqrt(tau) + c_2 / tau) + C * beta**2
        if k % 100 == 0:
            assert c.bound(time_of(k + 1, 3)) >= xi


def test_weights_times_a_factor_multiply_everything_by_its_power_and_change_no_time() -> None:
    mdp, mu = random_model(1), np.full((4, 3), 1.0)
    small, large = (theorem_constants(mdp, 3.0, mu * f) for f in (1.0, 1000.0))
    for name in ("log_c_1", "log_c_2", "log_b_delta", "log_xi_q", "log_abs_optimum", "log_smoothness_used"):
        assert getattr(large, name) - getattr(small, name) == pytest.approx(3 * math.log(1000), abs=1e-9)
    assert large.log10_informative_from() == pytest.approx(small.log10_informative_from(), rel=1e-9)


def test_the_bound_stays_a_number_in_logarithms_where_it_leaves_float64() -> None:
    c = theorem_constants(envs.river_swim(), 400.0)
    t = [10 * time_of(c.k_delta, 10), 1e300]
    assert np.isfinite(c.log_bound(t)).all()
    assert np.isinf(c.bound(t)).all()
    assert c.log10_informative_from() > 308
    assert "e+" in str(c)


def test_the_worst_start_is_continuous_in_rho_where_u_itself_diverges() -> None:
    starts = [theorem_constants(random_model(), r, eta=0.01).log_xi_q for r in (1 - 1e-7, 1.0, 1 + 1e-7)]
    assert starts[0] == pytest.approx(starts[1], abs=1e-5)
    assert starts[2] == pytest.approx(starts[1], abs=1e-5)


def test_the_bound_meets_the_optimum_where_it_becomes_informative_and_is_vacuous_before() -> None:
    c = theorem_constants(envs.river_swim(), 2.0)
    t = 10 ** c.log10_informative_from()
    assert c.bound(t) == pytest.approx(math.exp(c.log_abs_optimum), rel=1e-6)
    assert t > 1e15  # any run that was ever made is in the vacuous part
    assert c.bound(t / 2) > math.exp(c.log_abs_optimum) > c.bound(2 * t)
    curve = c.log_bound(np.geomspace(t / 1e6, t * 1e6, 50))
    assert (np.diff(curve) < 0).all()


def test_eta_is_nine_tenths_of_what_keeps_the_optimum_inside() -> None:
    mdp = envs.river_swim()
    c = theorem_constants(mdp, 2.0)
    assert 2 * c.eta == pytest.approx(0.9 * 0.03765959, rel=1e-5)  # min d* at rho = 2, known to eight digits
    with pytest.raises(InvalidArgumentError, match=r"optimum gives one only 0\.0376.*Pass eta <= 0\.0188"):
        theorem_constants(mdp, 2.0, eta=0.02)
    with pytest.raises(InfeasibleFloorError, match=r"at most 0\.0433"):
        theorem_constants(mdp, 2.0, eta=0.03)


def test_gaps_are_pseudo_spectral_unless_the_chain_is_reversible_and_the_smallest_counts() -> None:
    line, mdp = envs.river_swim(), random_model()
    c = theorem_constants(line, 2.0)
    assert c.gamma_min == chains.spectral_gap(chains.policy_chain(line, plan(line, 2.0).policy))
    assert "optimal policy alone" in c.gamma_source
    policies = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 4))
    c = theorem_constants(mdp, 2.0, policies=policies)
    gaps = [chains.pseudo_spectral_gap(chains.policy_chain(mdp, policy)) for policy in policies]
    assert c.gamma_min == min(gaps) < max(gaps)
    assert "pseudo-spectral gap, the smallest of 5" in c.gamma_source
    assert theorem_constants(mdp, 2.0, gamma_min=0.25).gamma_min == 0.25


def test_a_summary_is_ready_for_json() -> None:
    read = json.loads(json.dumps(theorem_constants(random_model(), 2.0).summary()))
    assert read["k_delta"] > 1
    assert read["log10_informative_from"] > read["log10_valid_from"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0}, r"`rho` must be in \(0, inf\), got 0"),
        ({"rho": math.inf}, r"`rho` must be in \(0, inf\), got inf"),
        ({"eta": 0.0}, r"`eta` must be in \(0, 1/2\), got 0"),
        ({"eta": 0.5}, r"`eta` must be in \(0, 1/2\), got 0.5"),
        ({"delta": 1.0}, r"`delta` must be in \(0, 1\), got 1"),
        ({"tau_1": 0}, "`tau_1` must be at least 1, got 0"),
        ({"tau_1": 2.5}, "`tau_1` must be a whole number"),
        ({"gamma_min": 0}, r"`gamma_min` must be in \(0, 1\], got 0"),
        ({"gamma_min": 0.5, "policies": [np.full((4, 3), 1 / 3)]}, "`gamma_min` or `policies`, not both"),
        ({"policies": []}, "`policies` must hold at least one"),
        ({"mu": np.arange(12.0).reshape(4, 3)}, "`mu` must be positive for every pair"),
    ],
)
def test_bad_arguments_are_named(options: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        theorem_constants(random_model(), **({"rho": 2.0} | options))


def test_a_periodic_policy_and_one_that_splits_the_states_are_refused_by_name() -> None:
    cycle, stay = np.roll(np.eye(3), 1, axis=1), np.eye(3)
    mdp = MDP(np.stack([cycle, stay], axis=1))
    with pytest.raises(InvalidArgumentError, match=r"policies\[1\] makes a chain without a spectral gap"):
        theorem_constants(mdp, 1.0, policies=[np.full((3, 2), 0.5), np.tile([1.0, 0.0], (3, 1))])
    with pytest.raises(InvalidArgumentError, match=r"policies\[0\] has several recurrent classes"):
        theorem_constants(mdp, 1.0, policies=[np.tile([0.0, 1.0], (3, 1))])
    with pytest.raises(InvalidArgumentError, match="`t` must be at least 1, got 0"):
        theorem_constants(mdp, 1.0).bound([3, 0])


# --- measured exponents --------------------------------------------------------------------------------


def test_a_power_law_has_its_exponent_and_no_error() -> None:
    t = np.geomspace(10, 1e6, 30)
    slope, error, left_out = measured_exponent(t, 3 * t**-0.65)
    assert (slope, error, left_out) == (pytest.approx(-0.65, abs=1e-13), pytest.approx(0, abs=1e-13), 0)


def test_the_error_of_several_runs_is_that_of_the_mean_of_their_slopes() -> None:
    t, slopes = np.geomspace(10, 1e4, 9), np.array([-0.3, -0.5, -0.1, -0.4])
    found = measured_exponent(t, t ** slopes[:, None])
    assert found.slope == pytest.approx(slopes.mean(), abs=1e-13)
    assert found.standard_error == pytest.approx(stats.sem(slopes), rel=1e-10)


def test_the_error_of_one_run_is_that_of_least_squares() -> None:
    t = np.geomspace(10, 1e4, 20)
    regret = t**-0.5 * np.exp(np.random.default_rng(0).normal(0, 0.2, 20))
    fit = stats.linregress(np.log(t), np.log(regret))
    assert measured_exponent(t, regret)[:2] == pytest.approx((fit.slope, fit.stderr), rel=1e-10)


def test_entries_without_a_logarithm_are_left_out_and_counted() -> None:
    t = np.array([1.0, 10, 100, 1000])
    curves = np.stack([1 / t, 1 / t, 1 / t])
    curves[0, 1], curves[1, 2], curves[2, :3] = -1.0, np.nan, [0.0, np.inf, -np.inf]
    slope, _, left_out = measured_exponent(t, curves)
    assert slope == pytest.approx(-1, abs=1e-13)
    assert left_out == 2 + 4  # the third run has one entry left: no line goes through it


@pytest.mark.parametrize(
    ("t", "regret", "message"),
    [
        ([1, 2, 3], [1.0, 2.0], r"`regret` must have shape \(any, 3\), got \(1, 2\)"),
        ([1, 2], [-1.0, 2.0], "`regret` must have a run with at least two positive"),
        ([1, 1], [1.0, 2.0], "`t` must hold at least two times"),
        ([0, 1], [1.0, 2.0], "`t` must hold at least two times"),
    ],
)
def test_curves_that_no_line_fits_are_refused(t: list, regret: list, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        measured_exponent(t, regret)


def test_the_constant_off_the_floor_is_needed_at_empirical_occupancies() -> None:
    """Between two points with d >= eta, not 2 eta, the gradient can move by more than C_eta allows."""
    mdp = random_model()
    c = theorem_constants(mdp, 2.0)
    coverage = Coverage(2.0, np.ones(mdp.num_pairs))
    low, high = np.full(mdp.num_pairs, c.eta), np.full(mdp.num_pairs, 1.01 * c.eta)
    moved = np.linalg.norm(np.exp(coverage.log_gradient(low)) - np.exp(coverage.log_gradient(high)))
    far = np.linalg.norm(low - high)
    assert math.exp(c.log_smoothness) * far < moved <= math.exp(c.log_smoothness_used) * far
