"""Frank-Wolfe finds the best coverage, and its gap is never smaller than the truth.

Sources: closed forms (actions that do not matter, a target that is an occupancy), CVXPY with Clarabel, the
published values for RiverSwim-6. The named mutants: a gradient without its power rho, a gap from the value
instead of the upper bound, weights that do not sum to 1, a line search past the end, a floor ignored.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from rhocover import MDP, Coverage, Occupancies, envs
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError, UnknownNameError
from rhocover.planning import frank_wolfe as module
from rhocover.planning.frank_wolfe import VARIANTS, frank_wolfe
from tiers import tiered

RHOS = (0.0, 0.5, 1.0, 2.0, 5.0)
TOL = 1e-6
ROUNDING = 1e-12  # of a divergence near 1, and of an occupancy solved for a few states
PUBLISHED = {1.0: 0.148958613, 1.5: 0.224795624, 2.0: 0.293000580, 3.0: 0.396901096, 5.0: 0.504778357}


def covers(members: Occupancies, rho: float, seed: int | None = None) -> Coverage:
    """Returns uniform weights, or weights spread over two decades."""
    if seed is None:
        return Coverage(rho, np.ones(members.num_pairs))
    return Coverage(rho, 10.0 ** np.random.default_rng(seed).uniform(-1, 1, members.num_pairs))


def best_divergence(members: Occupancies, coverage: Coverage) -> float:
    """Returns the smallest D_rho over the set, by CVXPY."""
    rho, k = coverage.rho, np.flatnonzero(coverage.support)
    mu, size = coverage.mu_bar[k], members.num_pairs
    x = cp.Variable(size)  # size times d: Clarabel wants numbers near 1
    ratio = cp.multiply(1 / (size * mu), x[k])
    if rho == 0:
        objective = cp.Minimize(cp.sum(cp.rel_entr(x[k] / size, mu)))
    elif rho == 1:
        objective = cp.Maximize(mu @ cp.log(ratio))
    else:
        powers = mu @ cp.power(ratio, 1 - rho)
        objective = cp.Minimize(powers) if rho > 1 else cp.Maximize(powers)
    matrix, right_side = members.equations()
    constraints = [matrix @ x == size * right_side, x >= size * members.floor]
    cp.Problem(objective, constraints).solve(solver=cp.CLARABEL)
    assert x.value is not None
    return coverage.divergence(np.maximum(x.value / size, 0.0))


def actions_that_do_not_matter(q: np.ndarray, num_actions: int) -> Occupancies:
    return Occupancies.average(MDP(np.tile(q, (q.size, num_actions, 1))))


# Against closed forms.


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
def test_when_actions_do_not_matter_each_state_shares_its_visits_by_weight(rho):
    q = np.array([0.5, 0.3, 0.2])
    members = actions_that_do_not_matter(q, 3)
    mu = np.random.default_rng(0).uniform(0.5, 2, (3, 3))
    found = frank_wolfe(members, Coverage(rho, mu.ravel()), tol=1e-9)
    expected = (q[:, None] * mu / mu.sum(axis=1, keepdims=True)).ravel()
    assert found.d == pytest.approx(expected, abs=1e-4)  # sqrt of the gap over the curvature
    assert found.divergence - Coverage(rho, mu.ravel()).divergence(expected) <= 1e-9 + ROUNDING


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
def test_a_target_that_is_an_occupancy_is_reached_for_every_rho(rho):
    members = Occupancies.average(envs.river_swim(num_states=4))
    target = members.from_policy(np.random.default_rng(1).dirichlet(np.ones(2), size=4))
    found = frank_wolfe(members, Coverage(rho, target), tol=1e-8)
    assert found.converged
    assert -ROUNDING <= found.divergence <= 1e-8


@pytest.mark.parametrize("rho", tiered(PUBLISHED))
def test_river_swim_has_the_published_divergence(rho):
    members = Occupancies.average(envs.river_swim())
    found = frank_wolfe(members, covers(members, rho), tol=1e-9)
    assert found.divergence == pytest.approx(PUBLISHED[rho], abs=1.5e-9)  # the gap and the digits given


# Against CVXPY.


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("seed", tiered([None, 0]))
def test_on_a_random_model_cvxpy_finds_nothing_better(rho, seed):
    members = Occupancies.average(envs.garnet(num_states=6, num_actions=2, num_successors=3, seed=3))
    coverage = covers(members, rho, seed)
    found = frank_wolfe(members, coverage, tol=TOL)
    assert found.converged
    assert found.divergence == pytest.approx(best_divergence(members, coverage), abs=TOL)
    assert members.contains(found.d, ROUNDING)


@pytest.mark.parametrize(
    "options", tiered([{"discount": 0.8, "start": 0}, {"horizon": 4, "start": 0}]), ids=str
)
@pytest.mark.parametrize("rho", tiered([0.0, 1.0, 2.0], short=[2.0]))
def test_from_a_start_cvxpy_finds_nothing_better(options, rho):
    members = Occupancies.of(envs.river_swim(num_states=4), **options)
    coverage = covers(members, rho)
    found = frank_wolfe(members, coverage, tol=TOL)
    assert found.divergence == pytest.approx(best_divergence(members, coverage), abs=TOL)
    assert members.contains(found.d, ROUNDING)


@pytest.mark.parametrize("part", tiered([0.5, 0.95]))
@pytest.mark.parametrize("rho", tiered([0.0, 1.0, 2.0], short=[2.0]))
def test_with_a_floor_cvxpy_finds_nothing_better(part, rho):
    mdp = envs.river_swim()
    eta = part * Occupancies.average(mdp).max_floor()[0] / 2
    members = Occupancies.average(mdp, eta=eta)
    coverage = covers(members, rho)
    found = frank_wolfe(members, coverage, tol=TOL)
    assert found.divergence == pytest.approx(best_divergence(members, coverage), abs=TOL)
    assert members.contains(found.d, 1e-11)  # what the linear program promises


def test_a_pair_of_weight_zero_is_used_only_on_the_way():
    members = Occupancies.average(envs.river_swim(num_states=4))
    coverage = Coverage(2.0, np.where(np.arange(8) % 2, 1.0, 0.0))  # only "right" matters
    found = frank_wolfe(members, coverage, tol=TOL)
    assert found.divergence == pytest.approx(best_divergence(members, coverage), abs=TOL)
    assert found.divergence < coverage.divergence(members.max_floor()[1]) - 0.01


# The certificate.


@pytest.mark.parametrize("rho", tiered([*RHOS, 20.0]))
@pytest.mark.parametrize("variant", tiered(VARIANTS))
def test_the_gap_is_never_below_the_distance_from_the_optimum(rho, variant):
    members = Occupancies.average(envs.river_swim())
    coverage = covers(members, rho)
    best = frank_wolfe(members, coverage, tol=1e-9).lower_bound
    for max_steps in (0, 1, 2, 5, 12, 30):
        found = frank_wolfe(members, coverage, variant=variant, tol=1e-12, max_steps=max_steps)
        assert found.gap >= found.divergence - (best + 1e-9) - ROUNDING
        assert found.divergence == coverage.divergence(found.d)
        assert found.lower_bound <= best + 1e-9 + ROUNDING


@pytest.mark.parametrize("variant", tiered(VARIANTS))
def test_every_variant_gets_there(variant):
    members = Occupancies.average(envs.river_swim(num_states=3))
    coverage = covers(members, 1.0)
    found = frank_wolfe(members, coverage, variant=variant, tol=1e-2, max_steps=3000)
    assert found.converged
    assert found.gap <= 1e-2


def test_away_steps_need_far_fewer_responses_than_a_plain_line_search():
    members = Occupancies.average(envs.river_swim())
    coverage = covers(members, 2.0)
    away = frank_wolfe(members, coverage, tol=1e-8)
    line = frank_wolfe(members, coverage, variant="line_search", tol=1e-8, max_steps=5 * away.steps)
    assert away.converged
    assert not line.converged


def test_too_few_steps_are_reported_and_not_hidden():
    members = Occupancies.average(envs.river_swim())
    found = frank_wolfe(members, covers(members, 2.0), tol=1e-9, max_steps=2)
    assert (found.converged, found.steps) == (False, 2)
    assert found.gap > 1e-9


def test_a_tolerance_below_rounding_ends_without_a_claim():
    members = actions_that_do_not_matter(np.array([0.5, 0.5]), 2)
    found = frank_wolfe(members, Coverage(1.0, [0.1, 0.4, 0.2, 0.3]), tol=1e-18, max_steps=500)
    assert found.gap <= 1e-6
    assert not found.converged


def test_large_orders_do_not_overflow():
    members = Occupancies.average(envs.river_swim(num_states=12))
    found = frank_wolfe(members, covers(members, 100.0), tol=1e-3, max_steps=200)
    assert found.converged


# The start, and what is refused.


def test_unconnected_parts_are_all_visited_from_the_start():
    loops = np.zeros((2, 1, 2))
    loops[0, 0, 0] = loops[1, 0, 1] = 1
    members = Occupancies.average(MDP(loops))  # the uniform policy has no one occupancy
    found = frank_wolfe(members, Coverage(1.0, [1.0, 3.0]), tol=1e-9)
    assert found.d == pytest.approx([0.25, 0.75], abs=1e-4)  # sqrt of the gap over the curvature


def test_weights_may_be_a_table():
    members = Occupancies.average(envs.river_swim())
    mu = np.random.default_rng(2).random((6, 2)) + 0.1
    table = frank_wolfe(members, Coverage(1.0, mu), tol=1e-3)
    assert table.divergence == frank_wolfe(members, Coverage(1.0, mu.ravel()), tol=1e-3).divergence


def test_what_the_method_cannot_do_is_refused():
    members = Occupancies.average(envs.river_swim())
    with pytest.raises(InvalidArgumentError, match="needs rho < inf"):
        frank_wolfe(members, covers(members, np.inf))
    with pytest.raises(InvalidArgumentError, match="infinite once a pair of zero weight is visited"):
        frank_wolfe(members, Coverage(0.0, np.arange(12.0)))
    with pytest.raises(UnknownNameError, match="Known: away, line_search, plain"):
        frank_wolfe(members, covers(members, 1.0), variant="pairwise")
    with pytest.raises(InfeasibleFloorError):
        frank_wolfe(Occupancies.average(envs.river_swim(), eta=0.03), covers(members, 1.0))


def test_weighted_pairs_that_no_policy_keeps_visiting_are_named():
    P = np.zeros((3, 1, 3))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 1] = 1  # state 0 is left for ever
    members = Occupancies.average(MDP(P))
    with pytest.raises(InvalidArgumentError, match=r"keeps visiting these pairs: \(0, 0\)\."):
        frank_wolfe(members, covers(members, 1.0))


def test_weight_leaves_the_worst_point_also_where_the_best_response_is_the_first():
    """Best and worst were one point then, the step was nothing, and the method said that it was stuck."""
    members = Occupancies.average(MDP(np.ones((1, 2, 1))))
    coverage = Coverage(2, np.ones(2))
    best, worst = np.array([0.9, 0.1]), np.array([0.1, 0.9])
    mixture = module._Mixture(best, coverage.support)
    mixture.shift(0, mixture.add(worst), 0.8)
    assert mixture.worst == 0
    reward = module.gradient_reward(coverage, mixture.d)
    assert module._advance(mixture, coverage, reward, best, "away", 1)
    assert mixture.d == pytest.approx([0.5, 0.5], abs=1e-9)
    assert members.contains(mixture.d)
