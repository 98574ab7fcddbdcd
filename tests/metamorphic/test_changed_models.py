"""What a model's owner may change without changing the best coverage: names, scales, copies, speed.

Each test is a relation between two plans; no optimum needs to be known. The named mutants: a transposed
table, an action that is numbered by place, weights that are not normalised, a state that is counted twice.
"""

from __future__ import annotations

import numpy as np
import pytest
from changed_models import (
    TOL,
    relabelled,
    same_divergence,
    same_visits,
    slowed,
    with_porch,
    with_second_name,
    with_twin,
)

from rhocover import MDP, Occupancies, budget, plan
from rhocover.errors import NotCommunicatingError
from rhocover.theory import Limits, find_limits
from small_models import random_model, random_weights
from tiers import tiered

INF = float("inf")
SEEDS = range(8)
RHOS = [1.0, 2.0, 8.0]  # where the optimum is unique and the bound on visits holds
ALL_RHOS = [0.0, 0.4, *RHOS, INF]
CRITERIA = {"average": {}, "discounted": {"discount": 0.9}, "horizon": {"horizon": 4}}


def model_and_weights(seed: int) -> tuple[MDP, np.ndarray]:
    mdp = random_model(seed, num_states=3 + seed % 4, num_actions=2 + seed % 2, holes=0.3)
    return mdp, random_weights(mdp, seed)


# --- names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
def test_new_numbers_for_states_and_actions_permute_the_plan(rho, criterion):
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        rng = np.random.default_rng(seed)
        states, actions = rng.permutation(mdp.num_states), rng.permutation(mdp.num_actions)
        other, weights = relabelled(mdp, mu, states, actions)
        options = CRITERIA[criterion] | {"restrict": criterion == "horizon"}
        one, two = plan(mdp, rho, mu, **options), plan(other, rho, weights, **options)
        same_divergence(one, two)
        if rho in RHOS:
            expected = one.occupancy[..., states, :][..., actions]
            same_visits(two, two.occupancy, expected)


def test_new_numbers_permute_limits_and_budgets():
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        states, actions = np.arange(mdp.num_states)[::-1], np.arange(mdp.num_actions)[::-1]
        other, weights = relabelled(mdp, mu, states, actions)
        one, two = budget(mdp, visits=50), budget(other, visits=50)
        # steps are rounded up, from numbers that agree to 1e-8
        assert abs(one.steps - two.steps) <= 1
        one, two = limits_of(mdp, mu), limits_of(other, weights)
        # functions of an optimum that is known to some 1e-4 of each entry: see `same_visits`
        assert two.sigma == pytest.approx(one.sigma, rel=1e-2)
        assert two.kappa_min == pytest.approx(one.kappa_min, rel=1e-2)


def limits_of(mdp: MDP, mu: np.ndarray) -> Limits:
    best = plan(mdp, 2.0, mu)
    return find_limits(
        Occupancies.average(mdp), best.coverage, mdp.per_pair(best.occupancy, "d"), best.potential
    )


@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
@pytest.mark.parametrize("scale", tiered([1e-200, 1e-3, 0.5, 3.0, 1e100]))
def test_the_scale_of_the_weights_changes_nothing(rho, scale):
    for seed in SEEDS[:4]:
        mdp, mu = model_and_weights(seed)
        one, two = plan(mdp, rho, mu), plan(mdp, rho, scale * mu)
        same_divergence(one, two)
        assert one.worst_ratio == pytest.approx(two.worst_ratio, rel=1e-3)
        if rho in RHOS:
            same_visits(one, two.occupancy, one.occupancy)


# --- copies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
@pytest.mark.parametrize("share", tiered([0.5, 0.1]))
def test_a_state_that_is_split_in_two_shares_its_visits(rho, share):
    """Merging the twins again can only lower a Rényi divergence, and equal shares lose nothing."""
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        state = seed % mdp.num_states
        other, weights = with_twin(mdp, mu, state, share)
        one, two = plan(mdp, rho, mu), plan(other, rho, weights)
        same_divergence(one, two)
        if rho in RHOS:
            same_visits(two, two.occupancy[-1], share * one.occupancy[state])


@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
@pytest.mark.parametrize("share", tiered([0.5, 0.1]))
def test_a_second_name_for_an_action_shares_its_visits(rho, share):
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        other, weights = with_second_name(mdp, mu, 0, share)
        one, two = plan(mdp, rho, mu), plan(other, rho, weights)
        same_divergence(one, two)
        if rho in RHOS:
            same_visits(two, two.occupancy[:, -1], share * one.occupancy[:, 0])


def test_a_second_name_without_weight_is_never_needed():
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        other, weights = with_second_name(mdp, mu, 0, 0.0)
        same_divergence(plan(mdp, 2.0, mu), plan(other, 2.0, weights))


# --- what is never seen --------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
def test_a_state_that_is_never_met_again_changes_nothing(rho):
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        one = plan(mdp, rho, mu)
        other, weights = with_porch(mdp, mu, weight=1.0)
        with pytest.raises(NotCommunicatingError, match=rf"\({mdp.num_states}, 0\)"):
            plan(other, rho, weights)
        two = plan(other, rho, weights, restrict=True)
        assert two.restriction
        assert not two.occupancy[-1].any()
        assert two.divergence == one.divergence  # the model that is left has the same bits
        assert two.occupancy[:-1].tobytes() == one.occupancy.tobytes()


@pytest.mark.parametrize("rho", tiered([1.0, INF]))
def test_a_state_that_is_never_met_again_needs_no_weight(rho):
    for seed in SEEDS:
        mdp, mu = model_and_weights(seed)
        other, weights = with_porch(mdp, mu, weight=0.0)
        same_divergence(plan(mdp, rho, mu), plan(other, rho, weights, restrict=True))


# --- speed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered(ALL_RHOS, short=[2.0]))
@pytest.mark.parametrize("stay", tiered([0.1, 0.9, 0.999]))
def test_a_slower_world_has_the_same_occupancies(rho, stay):
    """A d = 0 says that what enters a state leaves it; staying enters and leaves at once."""
    for seed in SEEDS[:5]:
        mdp, mu = model_and_weights(seed)
        other = slowed(mdp, stay)
        one, two = plan(mdp, rho, mu), plan(other, rho, mu)
        same_divergence(one, two)
        assert Occupancies.average(other).contains(one.occupancy, tol=1e-9)
        assert Occupancies.average(mdp).contains(two.occupancy, tol=1e-9 / (1 - stay))
        assert abs(two.divergence - one.divergence) <= 2 * TOL


def test_twice_the_visits_are_twice_the_steps():
    for seed in SEEDS:
        mdp, _ = model_and_weights(seed)
        once, twice = budget(mdp, visits=1000), budget(mdp, visits=2000)
        assert abs(twice.steps - 2 * once.steps) <= 2  # both rounded up
        assert twice.sure_steps < 2 * once.sure_steps  # luck evens out


def test_half_the_model_error_is_four_times_the_steps():
    mdp, _ = model_and_weights(3)
    once, half = budget(mdp, model_error=0.02), budget(mdp, model_error=0.01)
    assert half.steps == pytest.approx(4 * once.steps, rel=1e-3)
