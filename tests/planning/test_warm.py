"""A warm start changes how soon the optimum is found, and never what it is."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc
from rhocover import MDP
from rhocover.errors import InvalidArgumentError, NotConvergedError
from rhocover.planning import PlanStatus
from small_models import random_model, random_weights
from tiers import tiered

INF = float("inf")
RHOS = (0.0, 0.2, 0.5, 1.0, 2.0, 8.0, 100.0, INF)
TOL = 1e-8


def disturbed(mdp: MDP, size: float, seed: int) -> MDP:
    """Returns a model with the same pairs and support whose rows are a share `size` away."""
    rng, P = np.random.default_rng(seed), mdp.transitions.toarray()
    noise = rng.random(P.shape) * (P > 0)
    P = (1 - size) * P + size * noise / noise.sum(axis=1, keepdims=True)
    return MDP.from_pairs(P, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions)


def same_optimum(warm, cold, rho: float) -> None:
    """Asserts two certified plans of one divergence: each is at most its gap above the same optimum."""
    tol = max(TOL * min(1.0, rho or 1.0), 1e-12)
    assert warm.status is cold.status is PlanStatus.SOLVED
    assert 0 <= warm.gap <= tol
    assert abs(warm.divergence - cold.divergence) <= tol


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("seed", tiered(range(6)))
def test_a_plan_from_the_potential_of_a_similar_model_is_the_same_plan(seed, rho):
    mdp = random_model(seed, 4 + seed, 3, holes=0.4)
    mu = random_weights(mdp, seed)
    cold = rc.plan(mdp, rho, mu)
    near = rc.plan(disturbed(mdp, 0.1, seed), rho, mu)
    same_optimum(rc.plan(mdp, rho, mu, warm=near.potential), cold, rho)
    same_optimum(rc.plan(mdp, rho, mu, warm=cold.potential), cold, rho)
    # A plan of one order helps one of another: orders grow during a learned run.
    other = rc.plan(mdp, 2.0 if rho == INF else INF, mu)
    same_optimum(rc.plan(mdp, rho, mu, warm=other.potential), cold, rho)


@pytest.mark.parametrize("rho", tiered([1.0, 2.0, 8.0, INF], short=[2.0]))
def test_a_warm_start_saves_steps_on_average(rho):
    # The mutant that ignores the potential saves none.
    warm_steps, cold_steps = [], []
    for seed in range(12):
        mdp = random_model(seed, 15, 3, holes=0.6)
        near = rc.plan(disturbed(mdp, 0.03, seed), rho)
        cold_steps.append(rc.plan(mdp, rho).steps)
        warm_steps.append(rc.plan(mdp, rho, warm=near.potential).steps)
    assert np.mean(warm_steps) <= np.mean(cold_steps)
    assert sum(warm_steps) < sum(cold_steps) or rho == 1.0


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
@pytest.mark.parametrize("size", tiered([1.0, 30.0, 1e3, 1e6]))
def test_nonsense_gives_no_wrong_answer(size, rho):
    """The gap is certified whatever the start: a plan is right, or says that it is not solved."""
    for seed in range(3):
        mdp = random_model(seed, 6, 3, holes=0.4)
        cold = rc.plan(mdp, rho)
        nonsense = size * np.random.default_rng(seed).uniform(-1, 1, mdp.num_states)
        found = rc.plan(mdp, rho, warm=nonsense, throw=False)
        if found.status is PlanStatus.SOLVED:
            same_optimum(found, cold, rho)
        else:
            assert not found.gap <= TOL
            with pytest.raises(NotConvergedError):
                rc.plan(mdp, rho, warm=nonsense)
        if size <= 1e3:  # further away than the potential of any plan here, and still no trouble
            same_optimum(found, cold, rho)


@pytest.mark.parametrize("rho", [0.5, 2.0, INF])
def test_a_constant_is_no_potential_and_starts_as_a_plan_without_does_as_well(rho):
    mdp = random_model(1, 6, 3)
    same_optimum(rc.plan(mdp, rho, warm=np.full(6, 3.7)), rc.plan(mdp, rho), rho)


def test_a_potential_is_shifted_freely():
    """Only differences of a potential mean something, so a shift by a power of two changes no bit."""
    mdp = random_model(2, 6, 3)
    near = rc.plan(disturbed(mdp, 0.1, 0), 2).potential
    whole = np.round(near * 2**20) / 2**20  # so that the shift is exact
    one, other = rc.plan(mdp, 2, warm=whole), rc.plan(mdp, 2, warm=whole + 4.0)
    assert one.occupancy.tobytes() == other.occupancy.tobytes()


def test_a_restricted_plan_takes_the_potential_of_all_states():
    """What was dropped has no potential; its entries are not read."""
    P = np.zeros((5, 2, 5))
    P[0, :, 1] = 1.0
    P[1:, :, 1:] = rc.envs.river_swim(num_states=4).dense()
    mdp = MDP(P)
    cold = rc.plan(mdp, 2, restrict=True)
    for dropped in (0.0, np.nan):
        warm = np.where(np.arange(5) == 0, dropped, cold.potential)
        same_optimum(rc.plan(mdp, 2, restrict=True, warm=warm), cold, 2)


@pytest.mark.parametrize(
    ("warm", "message"),
    [
        (np.zeros(5), r"`warm` must have shape \(6,?\), got \(5,\)"),
        (np.zeros((6, 2)), r"`warm` must have shape"),
        (0.0, r"`warm` must have shape"),
        (np.full(6, np.nan), "`warm` must be finite"),
        (np.array([0.0, INF, 0, 0, 0, 0]), "`warm` must be finite"),
    ],
)
def test_what_is_no_potential_is_refused(warm, message):
    with pytest.raises(InvalidArgumentError, match=message):
        rc.plan(rc.envs.river_swim(), 2, warm=warm)


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 8}])
def test_with_restarts_it_is_ignored(criterion):
    river = rc.envs.river_swim()
    cold = rc.plan(river, 2, start=0, **criterion)
    warm = rc.plan(river, 2, start=0, **criterion, warm=np.random.default_rng(0).normal(size=6))
    assert warm.occupancy.tobytes() == cold.occupancy.tobytes()
    assert warm.steps == cold.steps


@pytest.mark.parametrize("rho", [0.5, 2.0, 8.0])
def test_with_a_floor_it_is_ignored(rho):
    river = rc.envs.river_swim()
    cold = rc.plan(river, rho, eta=0.01)
    warm = rc.plan(river, rho, eta=0.01, warm=cold.potential)
    assert warm.occupancy.tobytes() == cold.occupancy.tobytes()


@pytest.mark.parametrize("mu", tiered(["sparse", "tiny"]))
@pytest.mark.parametrize("rho", tiered([0.5, 1.0, 2.0, INF], short=[2.0]))
def test_weights_of_zero_or_nearly_so_are_no_trouble(rho, mu):
    """Pairs of no weight have c = 0 at the optimum: the warm start must not begin in that corner."""
    for seed in range(4):
        mdp = random_model(seed, 8, 3, holes=0.4)
        weight = random_weights(mdp, seed)
        rare = np.random.default_rng(seed).random(weight.shape) < 0.5
        weight = np.where(rare, 0.0 if mu == "sparse" else 1e-6 * weight, weight)
        cold = rc.plan(mdp, rho, weight)
        near = rc.plan(disturbed(mdp, 0.1, seed), rho, weight)
        same_optimum(rc.plan(mdp, rho, weight, warm=near.potential), cold, rho)
