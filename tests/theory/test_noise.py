"""The noise of an episode: how fast Delta falls, and what the gap of lemma 6 is for. The sharp statements.

The constants of the proof are far above what happens (E18), so that comparing with them shows nothing. What can be
shown is the rate, the variance that the rate is made from, and that the gap bounds it and is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from many_runs import exponent, many_runs, mean_and_error
from rhocover import chains
from rhocover.exploring import Block, SamplePolicy, initial_state
from rhocover.exploring.problem import Problem, make_problem
from rhocover.planning.problem import Objective
from rhocover.theory import TheoremConstants, theorem_constants

RIVER = rc.envs.river_swim()


def constants(mdp: rc.MDP, rho: float, **settings: float) -> TheoremConstants:
    return theorem_constants(
        mdp, rho, np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_pairs), **settings
    )


def deviation(c: TheoremConstants, num_pairs: int, num_steps: float) -> float:
    """Returns lemma 6's bound on |psi_hat - psi| after so many steps, from the definition of c_1 and c_2."""
    log_slope = math.log(num_pairs) - c.rho * math.log(num_pairs * c.eta)  # mu is 1/n everywhere
    a_1, a_2 = math.exp(c.log_c_1 - log_slope), math.exp(c.log_c_2 - log_slope)
    return a_1 / math.sqrt(num_steps) + a_2 / num_steps


# --- the noise of an episode --------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """Plays the policy of one direction for ever."""

    psi: tuple[float, ...]

    def init(self, belief):
        return initial_state(belief)

    def policy(self, state):
        return Block(
            SamplePolicy(
                state.problem.mdp.per_pair(state.problem.members.to_policy(np.array(self.psi)), "p")
            ),
            1 << 40,
        )

    def update(self, state, visits):
        return state.after(visits)


def direction_and_gradient(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Returns psi of an episode of Algorithm 1, and the gradient at the visits before it."""
    run = rc.explore(problem.mdp, 2.0, 20_000, explorer="algorithm1", seed=0, trace_points=1)
    T = sum(episode.tau * episode.psi_hat for episode in run.episodes[:-2])
    return run.episodes[-2].psi, np.exp(problem.coverage.log_gradient(T / T.sum()))


def long_run_variance(problem: Problem, psi: np.ndarray, gradient: np.ndarray) -> float:
    """Returns lim tau E[Delta^2] by Poisson's equation: v - P v = g - <g, psi>, state by state."""
    mdp, P = problem.mdp, problem.mdp.transitions.toarray()
    share = psi / np.bincount(mdp.pair_state, psi)[mdp.pair_state]
    S, mean = mdp.num_states, float(gradient @ psi)
    chain, earned = np.zeros((S, S)), np.bincount(mdp.pair_state, share * (gradient - mean), S)
    np.add.at(chain, mdp.pair_state, share[:, None] * P)
    v = np.linalg.lstsq(np.eye(S) - chain, earned, rcond=None)[0]
    step = (gradient - mean - v[mdp.pair_state])[:, None] + v[None, :]
    return float(np.sum(psi[:, None] * P * step**2))


def test_the_noise_of_an_episode_falls_as_one_over_the_root_of_its_length() -> None:
    """Delta <= c_1/sqrt(tau) + c_2/tau: the root mean square has the exponent -1/2, and the constant of its chain.

    600 walks of one direction of Algorithm 1. 5 standard errors: fails by chance once in 2e6. The constants c_1 and
    c_2 themselves are 5,000 to 26,000 times larger (E18). Mutants: psi_hat of another episode, tau for its root.
    """
    problem = make_problem(RIVER, Objective(2.0))
    psi, gradient = direction_and_gradient(problem)
    runs = many_runs(problem, Fixed(tuple(psi)), [300, 3000, 30_000], range(600))
    delta = (psi - runs.occupancy) @ gradient
    slope, error = exponent(runs.steps, delta**2)
    assert abs(slope / 2 + 0.5) <= 5 * error / 2
    assert error < 0.05
    mean, own = mean_and_error(runs.steps * delta**2)
    assert abs(mean[-1] - long_run_variance(problem, psi, gradient)) <= 5 * own[-1]
    c = constants(problem.mdp, 2.0)
    bound = np.exp(c.log_c_1) / np.sqrt(runs.steps) + np.exp(c.log_c_2) / runs.steps
    assert (np.abs(delta) <= bound).all()


# --- lemma 6 ------------------------------------------------------------------------------------------


def variance_of_visits(chain: np.ndarray, stationary: np.ndarray, num_steps: int) -> np.ndarray:
    """Returns n Var(psi_hat_n(s)) of a chain that starts stationary, exactly: a sum over covariances, `[S]`."""
    total, power = stationary * (1 - stationary) * num_steps, np.eye(len(chain))
    for lag in range(1, num_steps):
        power = power @ chain
        total = total + 2 * (num_steps - lag) * stationary * (np.diag(power) - stationary)
    return total / num_steps


@pytest.mark.parametrize("seed", range(8))
def test_visits_of_a_reversible_chain_scatter_by_no_more_than_its_gap_allows(seed: int) -> None:
    """n Var(psi_hat(s)) <= (2/gamma - 1) psi(s)(1 - psi(s)), what lemma 6's gap is for; a line is reversible."""
    mdp, rng = RIVER, np.random.default_rng(seed)
    chain = chains.policy_chain(mdp, rng.dirichlet([1.0, 1.0], size=mdp.num_states))
    stationary, gap = chains.stationary_distribution(chain), chains.spectral_gap(chain)
    assert chains.is_reversible(chain)
    for n in (2, 30, 1000):
        found = variance_of_visits(chain.toarray(), stationary, n)
        assert (found <= (2 / gap - 1) * stationary * (1 - stationary) * (1 + 1e-9)).all()


@pytest.mark.parametrize(("p", "q"), [(0.01, 0.02), (0.1, 0.05), (0.3, 0.2)])
def test_a_chain_of_two_states_scatters_by_all_that_its_gap_allows(p: float, q: float) -> None:
    """The bound is sharp: it is attained but for 2 (1-gamma)/(n gamma^2), the two ends. Mutant: a gap 1% too large."""
    chain = np.array([[1 - p, p], [q, 1 - q]])
    stationary, gap, n = np.array([q, p]) / (p + q), chains.spectral_gap(sp.csr_array(chain)), 4000
    ends = 2 * (1 - gap) * (1 - (1 - gap) ** n) / (n * gap**2)
    expected = (2 / gap - 1 - ends) * stationary * (1 - stationary)
    assert variance_of_visits(chain, stationary, n) == pytest.approx(expected, rel=1e-9)


@pytest.mark.thorough
def test_the_bound_of_lemma_6_is_an_order_of_magnitude_above_what_happens() -> None:
    """The largest deviation that 5% of 400 runs exceed is a tenth to a fortieth of the bound for delta = 5%."""
    mdp, rho, num_steps = RIVER, 2.0, 200_000
    problem = make_problem(mdp, Objective(rho))
    gap = chains.spectral_gap(chains.policy_chain(mdp, problem.best.policy))
    bound = deviation(constants(mdp, rho, gamma_min=gap), mdp.num_pairs, num_steps)
    runs = many_runs(problem, "stationary", [num_steps], range(400))
    errors = np.abs(runs.occupancy[:, 0] - problem.d_star).max(axis=1)
    assert bound / 40 < np.quantile(errors, 0.95) < bound / 10
    assert errors.max() < bound
