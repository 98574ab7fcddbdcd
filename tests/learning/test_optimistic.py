"""The bound without a known model: never above the truth, tight against a general solver, and convergent."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom

import rhocover as rc
from rhocover import MDP, Coverage
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from rhocover.learning.confidence import BALL, ConfidenceSet, make_confidence
from rhocover.learning.optimistic import certify, robust_bound, robust_lift
from small_models import random_model
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.5, 1, 2, 8, INF]
MODELS = {
    "river_swim": rc.envs.river_swim(),
    "wheel": rc.envs.wheel(),
    "garnet": rc.envs.garnet(num_states=10, num_actions=3, num_successors=3),
    "noisy_river_swim": rc.envs.noisy_river_swim(num_states=6),
    "own action sets": random_model(3),
}


def visits_of_uniform_policy(mdp: MDP, steps: int, seed: int) -> sp.csr_array:
    """Returns how often s' followed each pair along one trajectory of the uniform policy, `[n, S]`."""
    rng = np.random.default_rng(seed)
    cumulated = np.cumsum(mdp.transitions.toarray(), axis=1)
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))
    counts, s = np.zeros(mdp.transitions.shape, np.int64), 0
    for choice, move in rng.random((steps, 2)):
        i = first[s] + int(choice * (first[s + 1] - first[s]))
        s = min(int(np.searchsorted(cumulated[i], move, side="right")), mdp.num_states - 1)
        counts[i, s] += 1
    return sp.csr_array(counts)


def drawn(mdp: MDP, each: int, seed: int) -> np.ndarray:
    """Returns counts of `each` independent draws from every row, `[n, S]`."""
    return np.random.default_rng(seed).multinomial(each, mdp.transitions.toarray())


def estimate(mdp: MDP, counts: np.ndarray | sp.csr_array) -> MDP:
    """Returns the smoothed estimate (N + 1/2S)/(N + 1/2) on the pairs of the model."""
    smoothed = sp.csr_array(counts).toarray() + 0.5 / mdp.num_states
    rows = smoothed / smoothed.sum(axis=1, keepdims=True)
    return MDP.from_pairs(rows, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions)


def uniform(mdp: MDP, rho: float) -> Coverage:
    return Coverage(rho, np.ones(mdp.num_pairs))


# --- validity -------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
def test_the_bound_is_above_the_truth_no_more_often_than_promised(rho):
    """50 runs at delta = 0.2; a valid bound fails the test with probability 1e-6."""
    above, runs = 0, 0
    for model in MODELS:
        mdp = MODELS[model]
        best = rc.plan(mdp, rho).divergence
        for seed in range(10):
            counts = visits_of_uniform_policy(mdp, [300, 3000][seed % 2], seed)
            found = certify(estimate(mdp, counts), uniform(mdp, rho), counts, 0.2, max_rounds=3)
            above, runs = above + (found.lower_bound > best), runs + 1
            assert 0 <= found.lower_bound <= found.reached + 1e-9
    assert above <= binom.isf(1e-6, runs, 0.2)


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_whenever_the_set_holds_the_true_rows_every_potential_bounds_every_occupancy(model, rho):
    """The theorem itself, without chance: the lift is below the true one, and so is the bound."""
    mdp, rng = MODELS[model], np.random.default_rng(0)
    known = make_confidence(drawn(mdp, 10_000, 1), 0.01)
    coverage, best = uniform(mdp, rho), rc.plan(mdp, rho)
    tried = [best.potential, *rng.normal(size=(20, mdp.num_states)), np.zeros(mdp.num_states)]
    for h in tried:
        lift = robust_lift(mdp, known, h)
        assert (lift <= h[mdp.pair_state] - mdp.transitions @ h + 1e-12).all()
        assert 0 <= robust_bound(coverage, lift) <= best.divergence + 1e-12
    assert robust_bound(coverage, robust_lift(mdp, known, best.potential)) > 0


def test_the_opposite_of_a_lift_proves_nothing_about_the_model():
    """Only non-negative multiples of h are allowed: <l, d> <= 0 is an inequality.

    With h turned around the true lift is below the bound's; treating it as a lift claims more than is true.
    """
    mdp = MODELS["river_swim"]
    best = rc.plan(mdp, 2)
    known = make_confidence(drawn(mdp, 500, 1), 0.1)
    wrong = best.potential[mdp.pair_state] - known.lowest(best.potential)
    assert robust_bound(uniform(mdp, 2), wrong) > best.divergence
    right = best.potential[mdp.pair_state] - known.highest(best.potential)
    assert robust_bound(uniform(mdp, 2), right) < best.divergence


@pytest.mark.parametrize("rho", tiered([0.5, 1, 2, INF], short=[2]))
def test_pairs_of_no_weight_stay_in_the_dynamics(rho):
    """Their prices must not be negative either: with them ignored the bound exceeds the optimum."""
    mdp = MODELS["river_swim"]
    mu = np.where(mdp.pair_state == 5, 1.0, 0.0)
    best = rc.plan(mdp, rho, mu, throw=False)
    counts = np.rint(mdp.transitions.toarray() * 1e12).astype(np.int64)
    found = certify(mdp, Coverage(rho, mdp.table(mu)), counts, 0.05)
    assert best.divergence > 0.1
    assert found.lower_bound == pytest.approx(best.divergence, abs=1e-3)
    assert found.lower_bound <= best.divergence


# --- tightness ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_with_exact_counts_the_bound_is_the_optimum(model, rho):
    """1e13 visits of each pair leave rows open by about 2e-6 of L1 distance."""
    mdp = MODELS[model]
    counts = np.rint(mdp.transitions.toarray() * 1e13).astype(np.int64)
    best = rc.plan(mdp, rho).divergence
    found = certify(mdp, uniform(mdp, rho), counts, 0.05)
    assert found.lower_bound <= best
    assert found.lower_bound == pytest.approx(best, abs=2e-4 * (1 + best))


@pytest.mark.parametrize("rho", tiered([0, 1, 2, INF], short=[2]))
@pytest.mark.parametrize("model", tiered(["river_swim", "garnet", "noisy_river_swim"]))
def test_the_distance_from_the_optimum_falls_with_the_square_root_of_the_counts(model, rho):
    mdp = MODELS[model]
    best, far = rc.plan(mdp, rho).divergence, []
    for each in (10**5, 10**7, 10**9):
        counts = np.rint(mdp.transitions.toarray() * each).astype(np.int64)
        far.append(best - certify(mdp, uniform(mdp, rho), counts, 0.05).lower_bound)
    ratios = np.array(far[:-1]) / np.array(far[1:])
    assert (ratios > 6).all()  # 10, less sqrt of the growth of log N, less what 1e-3 of agreement leaves open
    assert (ratios < 14).all()


def program_optimum(mdp: MDP, known: ConfidenceSet, coverage: Coverage) -> float:
    """Returns the optimum of the optimistic program over q(i, s'), by a conic solver."""
    n, S = known.counts.shape
    q = cp.Variable((n, S), nonneg=True)
    d = cp.sum(q, axis=1)
    E = np.zeros((S, n))
    E[mdp.pair_state, np.arange(n)] = 1.0
    rules = [E @ d == cp.sum(q, axis=0), cp.sum(q) == 1]
    for i in np.flatnonzero(known.visits):
        own = slice(known.counts.indptr[i], known.counts.indptr[i + 1])
        seen, shares = known.counts.indices[own], known.shares[own]
        if known.form[i] == BALL:
            moved = [cp.rel_entr(share * d[i], q[i, s]) for s, share in zip(seen, shares, strict=True)]
            rules.append(cp.sum(cp.hstack(moved)) <= known.ball[i] * d[i])
            continue
        lower, upper = np.zeros(S), np.full(S, known.intervals.unseen[i])
        lower[seen], upper[seen] = known.intervals.lower[own], known.intervals.upper[own]
        rules += [q[i] >= lower * d[i], q[i] <= upper * d[i]]
    mu, t = coverage.mu_bar, cp.Variable()
    goal = {
        0: lambda: cp.Minimize(cp.sum(cp.rel_entr(d, mu))),
        0.5: lambda: cp.Maximize(np.sqrt(mu) @ cp.sqrt(d)),
        1: lambda: cp.Maximize(mu @ cp.log(d)),
        2: lambda: cp.Minimize((mu**2) @ cp.inv_pos(d)),
        INF: lambda: cp.Maximize(t),
    }[coverage.rho]()
    rules += [d >= mu * t] if coverage.rho == INF else []
    cp.Problem(goal, rules).solve(solver="CLARABEL")
    return coverage.divergence(np.maximum(d.value, 0.0))


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
@pytest.mark.parametrize("seed", tiered([1, 2]))
def test_the_two_sides_enclose_the_optimum_of_the_optimistic_program(seed, rho):
    mdp = random_model(seed, 4, 2)
    counts = drawn(mdp, 400, seed)
    model, coverage = estimate(mdp, counts), uniform(mdp, rho)
    h = rc.plan(model, rho, coverage.mu).potential
    known = make_confidence(counts, 0.1).settled_at(h)
    optimum = program_optimum(mdp, known, coverage)
    found = certify(model, coverage, counts, 0.1, potential=h, max_rounds=40)
    accuracy = 1e-6  # of the conic solver
    assert found.lower_bound <= optimum + accuracy
    assert optimum <= found.reached + accuracy
    assert found.reached - found.lower_bound <= 0.02 * found.reached + 1e-5
    assert optimum < rc.plan(mdp, rho).divergence - 1e-3  # there was something to be optimistic about


def test_more_rounds_never_lower_the_bound_and_the_starting_potential_is_free():
    mdp, anything = MODELS["wheel"], np.arange(5.0)
    counts = drawn(mdp, 1000, 0)
    model, coverage = estimate(mdp, counts), uniform(mdp, INF)
    bounds = [
        certify(model, coverage, counts, 0.05, potential=anything, max_rounds=k).lower_bound
        for k in (1, 4, 10)
    ]
    assert 0 < bounds[0] < bounds[1] < bounds[2] <= rc.plan(mdp, INF).divergence


def test_the_estimate_itself_is_a_candidate_of_the_optimistic_program():
    mdp = MODELS["garnet"]
    counts = drawn(mdp, 100, 0)
    found = certify(estimate(mdp, counts), uniform(mdp, 2), counts, 0.05, max_rounds=1)
    p_hat = MDP.from_pairs(counts / 100, mdp.pair_state, mdp.pair_action)
    assert found.reached <= rc.plan(p_hat, 2).divergence + 0.02  # up to 1% of smoothing


def test_without_any_visit_nothing_is_claimed():
    mdp = MODELS["river_swim"]
    for rho in RHOS:
        found = certify(mdp, uniform(mdp, rho), np.zeros((12, 6), int), 0.05, max_rounds=2)
        assert found.lower_bound == 0


@pytest.mark.parametrize("pair", [6, 11])
def test_a_row_never_visited_may_lead_anywhere(pair):
    """The bound is that of the best it could be, far below what it really is."""
    mdp, coverage = MODELS["river_swim"], uniform(MODELS["river_swim"], 2)
    counts = drawn(mdp, 10**6, 0)
    counts[pair] = 0
    model = estimate(mdp, counts)
    h = rc.plan(model, 2).potential
    optimum = program_optimum(mdp, make_confidence(counts, 0.05).settled_at(h), coverage)
    found = certify(model, coverage, counts, 0.05, potential=h)
    accuracy = 1e-5  # of the conic solver, with balls of radius 1e-5
    assert found.lower_bound - accuracy <= optimum <= found.reached + accuracy
    assert found.lower_bound == pytest.approx(optimum, rel=0.01)
    assert optimum < rc.plan(mdp, 2).divergence - 0.05


def test_rows_that_would_trap_the_trajectory_are_kept_open():
    """Without visits every optimistic row leads to the best state for ever; the models stay communicating."""
    mdp = MODELS["wheel"]
    counts = np.zeros((25, 5), int)
    counts[:5] = drawn(mdp, 50, 0)[:5]
    found = certify(mdp, uniform(mdp, 2), counts, 0.05)
    assert 0 <= found.lower_bound <= found.reached < INF


# --- the door -------------------------------------------------------------------------------------------


def test_what_does_not_fit_together_is_refused():
    mdp = MODELS["river_swim"]
    counts = drawn(mdp, 10, 0)
    with pytest.raises(InvalidArgumentError, match=r"`counts` must have shape \(12, 6\), got \(11, 6\)"):
        certify(mdp, uniform(mdp, 2), counts[:-1], 0.05)
    with pytest.raises(InvalidArgumentError, match="`model` must be an MDP and `coverage` a Coverage"):
        certify(mdp, 2.0, counts, 0.05)
    with pytest.raises(InvalidArgumentError, match=r"`coverage.mu` must have shape"):
        certify(mdp, Coverage(2, np.ones(3)), counts, 0.05)
    with pytest.raises(InvalidArgumentError, match=r"`potential` must have shape \(6\)"):
        certify(mdp, uniform(mdp, 2), counts, 0.05, potential=np.zeros(5))
    with pytest.raises(InvalidArgumentError, match="`max_rounds` must be at least 1"):
        certify(mdp, uniform(mdp, 2), counts, 0.05, max_rounds=0)


def test_an_estimate_that_falls_apart_is_refused():
    stuck = MDP(np.eye(2)[:, None, :])
    with pytest.raises(NotCommunicatingError):
        certify(stuck, uniform(stuck, 2), np.eye(2, dtype=int), 0.05)
