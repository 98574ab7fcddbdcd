"""Algorithm 1, line by line, against a second implementation in plain NumPy and SciPy's linprog.

The second one follows a run episode by episode. Line 4 has many solutions where pairs tie, so directions are
compared by what they earn, and by being members of D_eta; from there on everything is compared to the bit:
the policy (line 5), the visits it makes with the same random numbers (line 6), the counts (line 7).
"""

from __future__ import annotations

import numpy as np
import pytest
from exploring_models import INF, problem_of, random_model
from scipy.optimize import linprog, minimize_scalar

import rhocover as rc
from rhocover import MDP, Occupancies
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError, UnknownNameError
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers import State
from rhocover.exploring.explorers.algorithm1 import default_eta
from small_models import random_weights
from tiers import tiered

RHOS = [0, 0.5, 1, 2, 8, 64, INF]
MODELS = {"river": rc.envs.river_swim(), "actions by state": random_model(3), "garnet": random_model(5, 8, 2)}


def weights_of(model: str) -> np.ndarray | None:
    return None if model == "river" else random_weights(MODELS[model], 1)


def started(mdp: MDP) -> np.ndarray:
    return mdp.start if mdp.start is not None else np.eye(mdp.num_states)[0]


def shares_of(values: np.ndarray) -> np.ndarray:
    total = np.cumsum(values / values.sum())
    total[np.flatnonzero(values)[-1] :] = 1.0
    return total


def gradient(mu: np.ndarray, d: np.ndarray, rho: float) -> np.ndarray:
    """Returns (mu/d)^rho divided by its maximum; its limits at rho = 0 and inf."""
    if rho == 0:
        return np.log(mu / d)
    ratio = mu / d
    if rho == INF:
        return (ratio == ratio.max()).astype(float)
    return (ratio / ratio.max()) ** rho


def most(mdp: MDP, reward: np.ndarray, floor: float) -> float:
    """Returns max <reward, d> over {A d = 0, 1'd = 1, d >= floor} by SciPy; x = n d is near 1."""
    A = Occupancies.average(mdp).flow.toarray()
    n = mdp.num_pairs
    found = linprog(
        -reward,
        A_eq=np.vstack([A, np.ones(n)]),
        b_eq=np.append(np.zeros(len(A)), n),
        bounds=(n * floor, None),
    )
    assert found.status == 0
    return -found.fun / n


def followed(mdp: MDP, start: np.ndarray, psi: np.ndarray, tau: int, generator, state: int):
    """Returns (visits, last state) of psi's policy for tau steps."""
    P, visits = mdp.transitions.toarray(), np.zeros(mdp.num_pairs, int)
    for _ in range(tau):
        to_act, to_move = generator.random(2)
        pairs = np.flatnonzero(mdp.pair_state == state)
        pair = pairs[np.searchsorted(shares_of(psi[pairs]), to_act, side="right")]
        visits[pair] += 1
        state = int(np.searchsorted(shares_of(P[pair]), to_move, side="right"))
    return visits, state


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_a_run_is_the_papers_algorithm_line_by_line(model, rho):
    # Mutants: T for T+, t for t - 1 in beta, eta for 2 eta, k for k + 1, a reward that is not raised to rho.
    mdp, tau_1, num_steps, eps = MODELS[model], 10, 2000, 0.3
    explorer = rc.Algorithm1(schedule=rc.Quadratic(tau_1), count_floor=eps)
    run = rc.explore(mdp, rho, num_steps, weights_of(model), explorer=explorer, seed=3, trace_points=1)
    mu = mdp.per_pair(np.ones(mdp.num_pairs) if model == "river" else weights_of(model), "mu")
    mu = mu / mu.sum()
    best = rc.plan(mdp, rho, mu, tol=1e-10)
    floor = 0.9 * min(mdp.per_pair(best.occupancy, "d").min(), Occupancies.average(mdp).max_floor()[0])
    generator = np.random.Generator(np.random.PCG64(3))
    start = started(mdp)
    state = int(np.searchsorted(shares_of(start), generator.random(), side="right"))
    T, t = np.zeros(mdp.num_pairs, int), 0
    for k, episode in enumerate(run.episodes, start=1):
        d_plus = np.maximum(T, eps) / t if t else np.full(T.size, 1 / T.size)  # any constant: E9
        reward = gradient(mu, d_plus, rho)
        # 1e-9: tolerances of two solvers on rewards of at most 1; logs of up to 10 at rho = 0
        assert reward @ episode.psi == pytest.approx(most(mdp, reward, floor), abs=1e-8)
        check_member(mdp, episode.psi, floor)
        assert (episode.k, episode.t) == (k, t)
        assert episode.tau == min(tau_1 * k * k, num_steps - t)
        visits, state = followed(mdp, start, episode.psi, episode.tau, generator, state)
        np.testing.assert_array_equal(episode.psi_hat, visits / episode.tau)
        assert episode.beta == episode.tau / (t + episode.tau)
        check_gap(episode.gap, mu, d_plus, episode.psi, rho)
        T, t = T + visits, t + episode.tau
    assert t == num_steps
    np.testing.assert_array_equal(run.visits, T)
    assert run.last_states.tolist() == [state]
    total = sum(episode.tau * episode.psi_hat for episode in run.episodes)
    np.testing.assert_array_equal(np.rint(total), T)


def check_member(mdp: MDP, psi: np.ndarray, floor: float) -> None:
    """psi is an occupancy with at least 2 eta everywhere; the plan behind eta is exact to 1e-5 or so."""
    found = Occupancies.average(mdp).membership(psi)
    assert max(found.flow, found.mass) <= 1e-10
    assert psi.min() >= floor * (1 - 1e-4)


def check_gap(gap: float, mu: np.ndarray, d: np.ndarray, psi: np.ndarray, rho: float) -> None:
    """<grad U(d), psi - d> from the gradient itself: (mu/d)^rho, mu/d^2 at the worst pair, log(mu/d)."""
    if rho == 0:
        slope = np.log(mu / d)
    elif rho == INF:
        slope = np.where(np.arange(mu.size) == np.argmax(mu / d), mu / d**2, 0.0)
    else:
        slope = (mu / d) ** rho
    size = np.abs(slope) @ np.abs(psi - d)
    assert gap == pytest.approx(slope @ (psi - d), abs=1e-9 * size)  # 64 times the rounding of a logarithm


def test_step_sizes_are_those_of_the_theorem():
    """beta_k = 6k/((k+1)(2k+1)), beta_1 = 1, and the weighted visits of all episodes give d_hat."""
    run = rc.explore(MODELS["river"], 2, 3850, explorer="algorithm1", trace_points=1)  # 10 whole episodes
    assert len(run.episodes) == 10
    d_hat = np.zeros(12)
    for episode in run.episodes:
        k = episode.k
        assert episode.beta == pytest.approx(6 * k / ((k + 1) * (2 * k + 1)), rel=1e-15)
        d_hat = (1 - episode.beta) * d_hat + episode.beta * episode.psi_hat
    assert d_hat == pytest.approx(run.visits / 3850, abs=1e-15)


@pytest.mark.parametrize(
    ("num_steps", "episodes", "last"), [(10, 1, 10), (49, 2, 39), (50, 2, 40), (51, 3, 1)]
)
def test_the_last_episode_ends_where_the_budget_does(num_steps, episodes, last):
    run = rc.explore(MODELS["river"], 2, num_steps, explorer="algorithm1", trace_points=1)
    assert len(run.episodes) == episodes
    assert run.episodes[-1].tau == last
    assert sum(episode.tau for episode in run.episodes) == num_steps


# --- eps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("oracle", tiered(["lp", "fixed_point"]))
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_first_episode_does_not_depend_on_eps(model, rho, oracle):
    # To the bit: the mutant divides equal counts and lets their rounding break ties.
    problem = problem_of(MODELS[model], rho, weights_of(model))
    first = []
    for eps in (1e-6, 0.1, 0.5, 0.999):
        explorer = rc.Algorithm1(count_floor=eps, oracle=oracle)
        first.append(explorer.policy(explorer.init(KnownModel(problem))).direction)
    for psi in first[1:]:
        np.testing.assert_array_equal(psi, first[0])


def test_an_unvisited_pair_ranks_above_one_visited_once_by_one_over_eps():
    problem = problem_of(MODELS["river"], 2)
    counts = np.full(12, 1)
    counts[5] = 0
    rewards = {}
    for eps in (0.25, 0.5):
        explorer = rc.Algorithm1(count_floor=eps)
        state = State(KnownModel(problem), counts, 11, 1)
        psi = explorer.policy(state).direction
        d = np.maximum(counts, eps) / 11
        rewards[eps] = ((1 / 12) / d) ** 2
        assert rewards[eps][5] / rewards[eps][0] == pytest.approx(eps**-2)
        floor = 2 * default_eta(problem, problem.members.max_floor()[0])
        assert rewards[eps] @ psi == pytest.approx(most(MODELS["river"], rewards[eps], floor), rel=1e-9)


@pytest.mark.parametrize("eps", [0, 1, -0.5, 1.5, INF])
def test_eps_lies_between_zero_and_one(eps):
    with pytest.raises(InvalidArgumentError, match=rf"^`count_floor` must be in \(0, 1\), got {eps:g}\.$"):
        rc.Algorithm1(count_floor=eps)


# --- eta ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
def test_the_default_floor_keeps_the_optimum_inside(rho):
    """2 eta = 0.9 min(min d*, t*); for RiverSwim-6 min d* is .03342190 at rho = 1 and .03765959 at 2."""
    problem = problem_of(MODELS["river"], rho)
    t_star, _ = problem.members.max_floor()
    expected = 0.9 * min(problem.d_star.min(), t_star)
    assert 2 * default_eta(problem, t_star) == pytest.approx(expected, rel=1e-12)
    known = {1: 0.03342190, 2: 0.03765959}
    if rho in known:
        # The plan's gap of 1e-10 leaves d* uncertain by sqrt(2 gap) (Pinsker).
        assert expected == pytest.approx(0.9 * known[rho], abs=1.5e-5)
    assert (problem.d_star >= 2 * default_eta(problem, t_star)).all()


def test_where_the_optimum_has_zeros_there_is_no_floor():
    mdp = MODELS["river"]
    mu = np.ones((6, 2))
    mu[0] = 0.0
    problem = problem_of(mdp, 2, mu)
    if problem.d_star.min() < 1e-12:
        assert default_eta(problem, problem.members.max_floor()[0]) == 0
    run = rc.explore(mdp, 2, 2000, mu, explorer="algorithm1", trace_points=1)
    assert run.is_complete


@pytest.mark.parametrize("oracle", ["lp", "fixed_point"])
def test_a_floor_that_no_occupancy_has_is_refused_with_the_largest_one(oracle):
    with pytest.raises(InfeasibleFloorError) as caught:
        rc.explore(MODELS["river"], 2, 1000, explorer=rc.Algorithm1(eta=0.03, oracle=oracle))
    assert str(caught.value) == (
        "eta=0.03 asks every pair for 0.06 of the visits; this MDP allows at most 0.04337 (eta <= 0.02169). "
        "Pass eta=0.02 or less."
    )
    assert caught.value.eta_max == pytest.approx(0.0433737987 / 2, abs=1e-10)


@pytest.mark.parametrize("eta", [-0.1, 0.5, 3])
def test_eta_lies_below_one_half(eta):
    with pytest.raises(InvalidArgumentError, match=rf"^`eta` must be in \[0, 1/2\), got {eta:g}\.$"):
        rc.explore(MODELS["river"], 2, 1000, explorer=rc.Algorithm1(eta=eta))


@pytest.mark.parametrize("eta", ["0.01", np.nan, 1j, True])
def test_eta_is_a_number(eta):
    with pytest.raises(InvalidArgumentError, match=r"^`eta` must be a number, got "):
        rc.Algorithm1(eta=eta)


def test_a_floor_above_the_optimum_leaves_a_bias_and_one_below_it_does_not():
    """E11: with 2 eta = 1.1 min d* every direction, hence the limit, keeps that much in every pair."""
    mdp, num_steps = MODELS["river"], 30_000
    least = 0.03765959
    above = rc.Algorithm1(eta=1.1 * least / 2, schedule=rc.Constant(50))
    below = rc.Algorithm1(eta=0.9 * least / 2, schedule=rc.Constant(50))
    biased = rc.plan(mdp, 2, eta=1.1 * least / 2).divergence - rc.plan(mdp, 2).divergence
    runs = [rc.explore(mdp, 2, num_steps, explorer=each, trace_points=1) for each in (above, below)]
    assert biased > 1e-3
    # Pathwise, so that the world's own noise is out: the bias stays, the rest is below a fifth of it.
    assert runs[0].trace["pathwise_excess"][-1] > 0.5 * biased
    assert runs[1].trace["pathwise_excess"][-1] < 0.2 * biased


# --- oracles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0.5, 1, 2, 8], short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_fixed_point_oracle_is_best_over_its_inner_approximation(model, rho):
    """psi = (1-alpha) d + alpha d0 with d best over D, alpha <= min d*/d0: d* itself is such a point."""
    mdp = MODELS[model]
    problem = problem_of(mdp, rho, weights_of(model))
    t_star, d0 = problem.members.max_floor()
    alpha = min(2 * default_eta(problem, t_star) / t_star, 0.9 * (problem.d_star / d0).min())
    explorer = rc.Algorithm1(oracle="fixed_point")
    rng = np.random.default_rng(0)
    for _ in range(5):
        counts = rng.integers(1, 100, mdp.num_pairs)
        state = State(KnownModel(problem), counts, int(counts.sum()), 3)
        psi = explorer.policy(state).direction
        reward = gradient(problem.coverage.mu, counts / counts.sum(), rho)
        value = (1 - alpha) * most(mdp, reward, 0.0) + alpha * (reward @ d0)
        assert reward @ psi == pytest.approx(value, rel=1e-9)
        check_member(mdp, psi, alpha * t_star)
    inside = (problem.d_star - alpha * d0) / (1 - alpha)
    assert problem.members.contains(inside, tol=1e-9)


@pytest.mark.parametrize("oracle", tiered(["lp", "fixed_point"]))
@pytest.mark.parametrize("rho", tiered([0, 2], short=[2]))
@pytest.mark.parametrize("model", tiered(["river", "garnet"]))
def test_both_oracles_converge(model, rho, oracle):
    """With episodes of 40 steps the regret falls to a half or less while the steps grow 8 times."""
    explorer, mu = rc.Algorithm1(schedule=rc.Constant(40), oracle=oracle), weights_of(model)
    runs = [
        rc.explore(MODELS[model], rho, 8000, mu, explorer=explorer, seed=seed, trace_points=1)
        for seed in range(2)
    ]
    early, late = np.mean([run.trace["pathwise_excess"][-2:] for run in runs], axis=0)
    assert late < early / 2


@pytest.mark.parametrize("oracle", tiered(["lp", "fixed_point"]))
@pytest.mark.parametrize(
    "schedule", tiered(["quadratic:5", "power:5,1.5", "constant:40", "doubling:8", "line_search:9"])
)
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_every_rho_runs_with_every_schedule_and_oracle(rho, schedule, oracle):
    explorer = rc.Algorithm1(schedule=schedule, oracle=oracle)
    run = rc.explore(MODELS["actions by state"], rho, 1500, explorer=explorer, trace_points=1)
    assert run.counts.sum() == 1500
    assert run.is_complete
    assert run.identity_error() <= 1e-10
    t = 0
    for episode in run.episodes[:-1]:
        if not isinstance(explorer.schedule, rc.LineSearch):
            assert episode.tau == explorer.schedule.length(episode.k, t)
        assert episode.t == t
        t += episode.tau


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 8], short=[2]))
def test_adaptive_episodes_follow_an_exact_line_search(rho):
    """The share s of the way to psi with the lowest divergence takes s/(1-s) t steps, from 10 to t of them."""
    mdp = MODELS["river"]
    run = rc.explore(mdp, rho, 3000, explorer="algorithm1_adaptive", trace_points=1)
    coverage, T, t = run.coverage, np.zeros(12), 0
    for episode in run.episodes[:-1]:
        if t > 0:
            d = np.maximum(T, 0.5) / np.maximum(T, 0.5).sum()
            found = minimize_scalar(
                lambda s, d=d, psi=episode.psi: coverage.divergence(d + s * (psi - d)),
                bounds=(0, 1), method="bounded", options={"xatol": 1e-10},
            )  # fmt: skip
            share = min(found.x, 0.5)
            expected = min(max(10.0, t * share / (1 - share)), max(t, 10))
            # The divergence is flat at its minimum: SciPy finds the place to 1e-8 or so.
            assert episode.tau == pytest.approx(expected, rel=1e-4, abs=1.5)
        else:
            assert episode.tau == 10
        T, t = T + episode.tau * episode.psi_hat, t + episode.tau


def test_an_unknown_oracle_is_refused_with_all_names():
    with pytest.raises(UnknownNameError) as caught:
        rc.Algorithm1(oracle="simplex")
    assert str(caught.value) == "unknown oracle 'simplex'. Known: fixed_point, lp."
