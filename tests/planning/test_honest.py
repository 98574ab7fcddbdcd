"""Cases in which a plausible number would be easy to print, and wrong."""

from __future__ import annotations

import numpy as np
import pytest

import rhocover as rc


@pytest.mark.parametrize("coupling", [1e-9, 1e-12, 1e-15])
def test_a_chain_that_hardly_moves_is_planned_by_its_flow(coupling):
    """There is one policy; its occupancy is (3/4, 1/4). An absolute residual would accept (1/2, 1/2)."""
    mdp = rc.MDP([[[1 - coupling, coupling]], [[3 * coupling, 1 - 3 * coupling]]])
    best = rc.plan(mdp, rho=1)
    # 1 - 3e-15 is stored with an error of a few percent of 3e-15, the off-diagonal entries exactly
    assert best.occupancy.ravel() == pytest.approx([0.75, 0.25], rel=1e-6)


def test_parts_joined_by_pairs_of_no_weight_are_still_joined_by_the_policy():
    """At the optimum the doors carry nothing; a policy that never takes them covers one room only."""
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[0, 1, 1] = P[1, 0, 1] = P[1, 1, 0] = 1
    mdp = rc.MDP(P)
    best = rc.plan(mdp, rho=2, mu=[[1, 0], [1, 0]])
    d = rc.Occupancies.average(mdp).from_policy(best.policy)
    assert d == pytest.approx(best.occupancy.ravel(), rel=1e-9)
    assert best.divergence <= 1e-8


@pytest.mark.parametrize("discount", [1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
def test_a_discount_near_one_is_near_the_average(discount):
    average = rc.plan(rc.envs.river_swim(), rho=1)
    best = rc.plan(rc.envs.river_swim(), rho=1, discount=discount, start=0)
    assert best.divergence == pytest.approx(average.divergence, abs=1e-8 + 10 * (1 - discount))


@pytest.mark.parametrize("rho", [1e-3, 1e-5, 1e-6])
def test_a_small_rho_is_planned_to_the_same_relative_accuracy(rho):
    """D_rho is about rho KL(d || mu): an absolute tolerance of 1e-8 would accept anything at 1e-8."""
    mu = np.exp(5 * np.random.default_rng(1).standard_normal((6, 2)))
    entropy = rc.plan(rc.envs.river_swim(), rho=0, mu=mu)
    best = rc.plan(rc.envs.river_swim(), rho=rho, mu=mu)
    # the optima differ by O(rho) and their KL by O(rho^2); 1e-12/rho is what the floor of the tolerance leaves
    assert rc.Coverage(0, mu).divergence(best.occupancy) == pytest.approx(
        entropy.divergence, abs=10 * rho**2 + 1e-12 / rho + 1e-8
    )


def test_what_a_plan_hands_out_cannot_be_changed():
    mdp = rc.envs.river_swim()
    best = rc.plan(mdp, rho=1)
    with pytest.raises(ValueError, match="read-only"):
        best.occupancy[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        rc.Occupancies.average(mdp).flow.data[0] = 5.0


def test_ratios_of_enormous_weights_do_not_overflow():
    best = rc.plan(rc.envs.river_swim(), 1, mu=np.full((6, 2), 1e308))
    assert best.ratio.max() == pytest.approx(best.worst_ratio, rel=1e-12)


def test_weight_that_only_unreachable_pairs_carry_is_named():
    mu = np.zeros((6, 2))
    mu[5] = 1.0
    with pytest.raises(rc.errors.NotCommunicatingError, match=r"\(5, left\)"):
        rc.plan(rc.envs.river_swim(), rho=1, horizon=2, start=0, mu=mu)
