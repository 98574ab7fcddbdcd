"""The steps of the proof of Theorem 1, shown on runs of Algorithm 1.

The recursion holds on every path from the first episode with d_hat >= eta on, without any chance in it:
smoothness with the constant off the floor, the Frank-Wolfe direction, concavity. Chance is in Delta alone, which
lemma 6 bounds: see `test_noise`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import rhocover as rc
from many_runs import exponent, many_runs
from rhocover.exploring.problem import Problem, make_problem
from rhocover.planning.problem import Objective
from small_models import random_model
from tiers import tiered

MODELS = {"river": rc.envs.river_swim(), "random": random_model(3, 5, 3, holes=0.3)}


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


# --- theorem 1 ----------------------------------------------------------------------------------------


def exponent_of_algorithm_1(problem: Problem, eta: float | None) -> tuple[float, float]:
    """Returns the exponent of E[xi] at the ends of episodes 7, 15, 31 and 63 of tau_k = 10 k^2, and its error."""
    steps = [10 * (k - 1) * k * (2 * k - 1) // 6 for k in (8, 16, 32, 64)]
    runs = many_runs(problem, rc.Algorithm1(rc.Quadratic(10), eta=eta), steps, range(24))
    return exponent(runs.steps, runs.steered)  # xi itself, less a martingale of mean zero


@pytest.mark.thorough
@pytest.mark.parametrize(("model", "rho"), [("river", 1.0), ("river", 2.0), ("random", 2.0)])
def test_the_suboptimality_of_algorithm_1_falls_faster_than_the_theorem_promises(
    model: str, rho: float
) -> None:
    """E[U(d*) - U(d_hat(t_K))] over 1,400 to 853,440 steps: the exponent is below -1/3 by 5 standard errors.

    Measured -0.64 to -0.73 with errors below 0.03: failing by chance is out of reach, and an algorithm of exponent
    -1/3 passes once in 3e6.
    """
    problem = make_problem(MODELS[model], Objective(rho))
    slope, error = exponent_of_algorithm_1(problem, None)
    assert error < 0.03
    assert slope + 5 * error < -1 / 3


@pytest.mark.thorough
def test_a_floor_above_the_optimum_is_not_mistaken_for_convergence() -> None:
    """With 2 eta = 1.15 min d* (E11) xi tends to a bias, and the exponent is above -1/3 by 5 standard errors."""
    problem = make_problem(MODELS["river"], Objective(2.0))
    slope, error = exponent_of_algorithm_1(problem, 1.15 * float(problem.d_star.min()) / 2)
    assert slope - 5 * error > -1 / 3


def test_a_negative_suboptimality_breaks_the_printed_recursion_and_its_positive_part_does_not() -> None:
    """E7: (1-beta_k) xi_k <= (1-1/k) xi_k needs xi_k >= 0, which fails in a third of the episodes here."""
    problem = make_problem(random_model(5, 8, 2), Objective(1.0))
    ks = range(4, 33)
    steps = [10 * (k - 1) * k * (2 * k - 1) // 6 for k in ks]
    xi = many_runs(problem, "algorithm1", steps, range(10)).suboptimality
    k = np.array(ks, float)
    beta = 6 * k / ((k + 1) * (2 * k + 1))
    printed = (1 - beta) * xi <= (1 - 1 / k) * xi
    np.testing.assert_array_equal(printed, xi >= 0)
    # 290 episodes of 10 runs, much alike within a run: as if there were 10 of them, 0.15 is one standard error.
    assert 0.1 < (xi < 0).mean() < 0.7
    assert ((1 - beta) * xi <= (1 - 1 / k) * np.maximum(xi, 0)).all()


@pytest.mark.parametrize("seed", tiered(range(20)))
def test_the_printed_bound_survives_recursions_of_either_sign(seed: int) -> None:
    """From any xi_q, and with anything below b/k^2 added: K xi_K <= q xi_q^+ + 2 b log K at every K."""
    rng, q, b = np.random.default_rng(seed), 3, 0.7
    xi = first = float(rng.normal())
    for k in range(q, 3000):
        assert k * xi <= q * max(first, 0.0) + 2 * b * math.log(k)
        beta = 6 * k / ((k + 1) * (2 * k + 1))
        xi = (1 - beta) * xi + b / k**2 * float(rng.choice([1.0, 1.0, -3.0]))


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
