"""The steps of the proof of Theorem 1, shown on runs of Algorithm 1.

The recursion holds on every path from the first episode with d_hat >= eta on, without any chance in it:
smoothness with the constant off the floor, the Frank-Wolfe direction, concavity. Chance is in Delta alone, which
lemma 6 bounds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import rhocover as rc
from rhocover import chains
from rhocover.theory import TheoremConstants, theorem_constants


def deviation(c: TheoremConstants, num_pairs: int, num_steps: float) -> float:
    """Returns lemma 6's bound on |psi_hat - psi| after so many steps, from the definition of c_1 and c_2."""
    log_slope = math.log(num_pairs) - c.rho * math.log(num_pairs * c.eta)  # mu is 1/n everywhere
    a_1, a_2 = math.exp(c.log_c_1 - log_slope), math.exp(c.log_c_2 - log_slope)
    return a_1 / math.sqrt(num_steps) + a_2 / num_steps


def constants(mdp: rc.MDP, rho: float, **settings: float) -> TheoremConstants:
    return theorem_constants(
        mdp, rho, np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_pairs), **settings
    )


@pytest.mark.parametrize("rho", [1.0, 2.0, 4.0])
def test_every_episode_obeys_the_recursion_of_the_proof(rho: float) -> None:
    """xi_{k+1} <= (1-beta) xi_k + C beta^2 + beta Delta once d_hat >= eta, by its three steps.

    C = 2^(rho+1) C_eta is so large (E18) that the recursion alone would hide a mistake in any of them. So the steps
    are checked by themselves: smoothness with the largest curvature between the two points, which C bounds, and
    concavity; the direction has its own test. Mutants: no curvature at all, and a step in the other direction.
    """
    mdp = rc.envs.river_swim()
    best = rc.plan(mdp, rho, tol=1e-10)
    d_star = mdp.per_pair(best.occupancy, "d")
    eta = 0.45 * float(d_star.min())
    run = rc.explore(
        mdp, rho, 60_000, explorer=rc.Algorithm1(rc.Quadratic(10), eta=eta), seed=1, trace_points=1
    )
    coverage = rc.Coverage(rho, np.full(mdp.num_pairs, 1 / mdp.num_pairs))
    top, C = coverage.value(d_star), math.exp(coverage.log_smoothness(eta, off_floor=True))
    rounding = 1e-9 * abs(top)
    T, excesses = np.zeros(mdp.num_pairs), []
    for episode in run.episodes:
        before, T = T, T + episode.tau * episode.psi_hat
        d, after = before / max(before.sum(), 1), T / T.sum()
        if min(d.min(), after.min()) < eta:
            continue
        gradient, beta = np.exp(coverage.log_gradient(d)), episode.beta
        xi, xi_after = top - coverage.value(d), top - coverage.value(after)
        curvature = np.exp(coverage.log_curvature(np.minimum(d, after)).max())
        assert curvature <= C
        linear = xi - beta * gradient @ (episode.psi_hat - d)
        assert xi_after <= linear + curvature / 2 * np.sum((after - d) ** 2) + rounding
        assert xi <= gradient @ (d_star - d) + rounding
        delta = gradient @ (episode.psi - episode.psi_hat)
        assert xi_after <= (1 - beta) * xi + C * beta**2 + beta * delta + rounding
        excesses.append((xi_after - linear, linear - xi))
    assert len(excesses) >= 10
    assert max(excess for excess, _ in excesses) > 0.1 * abs(
        min(step for _, step in excesses)
    )  # it is needed


def test_the_direction_of_an_episode_is_at_least_as_good_as_the_optimum() -> None:
    """<grad U(d_hat), psi - d*> >= 0, because d* lies in D_eta: the step that E11 is about."""
    mdp, rho = rc.envs.river_swim(), 2.0
    run = rc.explore(mdp, rho, 20_000, explorer="algorithm1", seed=0, trace_points=1)
    d_star = mdp.per_pair(rc.plan(mdp, rho).occupancy, "d")
    coverage = rc.Coverage(rho, np.full(mdp.num_pairs, 1 / mdp.num_pairs))
    T, margins = np.zeros(mdp.num_pairs), []
    for episode in run.episodes:
        if T.min() > 0:
            reward = coverage.reward(T / T.sum())  # the gradient, its largest entry 1
            margins.append(float(reward @ (episode.psi - d_star)))
        T = T + episode.tau * episode.psi_hat
    assert len(margins) >= 10
    assert min(margins) >= -1e-9  # tolerances of the linear program
    assert max(margins) > 1e-3  # and not because psi were d* itself


def test_empirical_occupancies_stay_within_the_concentration_bound() -> None:
    """Lemma 6 on a reversible chain: every policy of RiverSwim makes a birth-death chain.

    The lemma promises a violation in at most 5 % of runs; 5 or more of 20 happen with probability below 0.003 if
    it is tight, and it is far from tight (E18): none is expected. The last line is the mutant: the occupancy of the
    uniform policy is outside.
    """
    mdp, rho, num_steps = rc.envs.river_swim(), 2.0, 1_000_000
    best = rc.plan(mdp, rho)
    chain = chains.policy_chain(mdp, best.policy)
    assert chains.is_reversible(chain)
    bound = deviation(constants(mdp, rho, gamma_min=chains.spectral_gap(chain)), mdp.num_pairs, num_steps)
    assert bound < 0.1
    errors = []
    for seed in range(20):
        run = rc.explore(mdp, rho, num_steps, explorer="stationary", seed=seed, trace_points=1)
        errors.append(np.abs(run.occupancy - best.occupancy).max())
    assert sum(error > bound for error in errors) < 5
    uniform = rc.Occupancies.average(mdp).from_policy(np.full((mdp.num_states, 2), 0.5))
    assert np.abs(mdp.table(uniform) - best.occupancy).max() > bound


def test_the_noise_of_an_episode_is_below_the_two_terms_of_the_proof() -> None:
    """Delta <= c_1/sqrt(tau) + c_2/tau in every episode with d_hat >= eta; with delta = 1e-9 for each of them."""
    mdp, rho = rc.envs.river_swim(), 2.0
    run = rc.explore(mdp, rho, 60_000, explorer="algorithm1", seed=2, trace_points=1)
    policies = [mdp.table(episode.psi) for episode in run.episodes]
    policies = [psi / psi.sum(axis=1, keepdims=True) for psi in policies]
    c = constants(mdp, rho, delta=1e-9, policies=policies)
    coverage = rc.Coverage(rho, np.full(mdp.num_pairs, 1 / mdp.num_pairs))
    T, checked = np.zeros(mdp.num_pairs), 0
    for episode in run.episodes:
        if T.min() > 0 and (T / T.sum()).min() >= c.eta:
            delta = np.exp(coverage.log_gradient(T / T.sum())) @ (episode.psi - episode.psi_hat)
            assert delta <= math.exp(c.log_c_1) / math.sqrt(episode.tau) + math.exp(c.log_c_2) / episode.tau
            checked += 1
        T = T + episode.tau * episode.psi_hat
    assert checked >= 10


@pytest.mark.parametrize("tau_1", [1, 10, 997])
def test_step_sizes_and_times_of_the_schedule_lie_where_the_proof_puts_them(tau_1: int) -> None:
    """1/k <= beta_k < 3/k, and k >= (3 (t_k - 1)/tau_1)^(1/3), in whole numbers."""
    schedule = rc.Quadratic(tau_1)
    t = 0
    for k in range(1, 400):
        tau = schedule.length(k, t)
        assert t + tau <= k * tau < 3 * (t + tau)  # beta_k = tau/(t + tau)
        assert tau_1 * k**3 >= 3 * t
        t += tau


def test_the_average_of_the_episodes_is_what_was_visited() -> None:
    """d_hat(t_{k+1}) = beta psi_hat + (1 - beta) d_hat(t_k), and in the end T/(t - 1) (E8)."""
    mdp = rc.envs.river_swim()
    run = rc.explore(mdp, 2.0, 5_000, explorer="algorithm1", seed=0, trace_points=1)
    d = np.zeros(mdp.num_pairs)
    for episode in run.episodes:
        d = episode.beta * episode.psi_hat + (1 - episode.beta) * d
    np.testing.assert_allclose(mdp.table(d), run.occupancy, atol=1e-12)
    assert run.counts.sum() == run.num_steps == 5_000
    np.testing.assert_array_equal(run.occupancy, run.counts / 5_000)
