"""Several agents: the sum of their visits is planned for, certified, and divided among them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import rhocover as rc
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from tests.tiers import tiered

inf = float("inf")
RHOS = (0.0, 1e-3, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 8.0, 64.0, inf)
CRITERIA = ({}, {"discount": 0.9}, {"horizon": 7})


def garnet(seed: int, start: int = 0) -> rc.MDP:
    """Returns a random model of six states and two actions."""
    rng = np.random.default_rng(seed)
    P = np.zeros((6, 2, 6))
    for s, a in np.ndindex(6, 2):
        P[s, a, rng.choice(6, 3, replace=False)] = rng.dirichlet(np.ones(3))
    P[:, 1] = 0.9 * P[:, 1] + 0.1 * np.roll(np.eye(6), 1, axis=1)  # communicating
    return rc.MDP(P, start=start)


def corridor(low: int, high: int, num_states: int = 8) -> rc.MDP:
    """Returns a model that moves left and right between two states and comes back to them from elsewhere."""
    P = np.zeros((num_states, 2, num_states))
    for s in range(num_states):
        for a, step in enumerate((-1, 1)):
            goal = min(max(s + step, low), high) if low <= s <= high else s + (1 if s < low else -1)
            P[s, a, goal] += 0.9
            P[s, a, s] += 0.1
    return rc.MDP(P, start=low)


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.2, 2.0, (6, 2))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", tiered(RHOS, short=[0.0, 1.0, inf]))
def test_agents_alike_are_as_good_as_one(rho: float, criterion: dict) -> None:
    mdp, mu = garnet(0), weights(1)
    one = rc.plan(mdp, rho, mu, **criterion)
    three = rc.plan_agents([mdp, mdp, mdp], rho, mu, shares=[1, 2, 3], **criterion)
    # both lower bounds are below the same optimum, and both divergences above it
    assert three.lower_bound <= one.divergence + 1e-12
    assert one.lower_bound <= three.divergence + 1e-12
    assert three.gap <= max(1e-8 * min(1.0, rho or 1.0), 1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", tiered(RHOS, short=[0.3, 2.0]))
def test_no_policies_of_the_agents_are_below_the_bound(rho: float, criterion: dict) -> None:
    models, mu, shares = [garnet(2, 0), garnet(3, 4)], weights(4), np.array([0.3, 0.7])
    found = rc.plan_agents(models, rho, mu, shares=shares, **criterion)
    rng, sets = np.random.default_rng(5), [rc.Occupancies.of(mdp, **criterion) for mdp in models]
    places = found.weights > 0
    target = Coverage(rho, found.weights[places])
    for _ in range(30):
        mixed = np.zeros_like(found.occupancy)
        for k, members in enumerate(sets):
            policy = rng.dirichlet([1.0, 1.0], members.shape[:-1])
            other = members.table(members.from_policy(policy))
            mixed += shares[k] * (found.occupancies[k] + rng.uniform(0, 0.3) * (other - found.occupancies[k]))
        assert target.divergence(mixed[places]) >= found.lower_bound - 1e-12


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_plan_is_what_its_policies_do(criterion: dict) -> None:
    models, mu = [garnet(2, 0), garnet(3, 4)], weights(4)
    found = rc.plan_agents(models, 2.0, mu, shares=[0.3, 0.7], **criterion)
    total = np.zeros_like(found.occupancy)
    for mdp, policy, d, share in zip(models, found.policies, found.occupancies, found.shares, strict=True):
        members = rc.Occupancies.of(mdp, **criterion)
        assert members.contains(d, 1e-9)
        again = members.table(members.from_policy(policy))
        np.testing.assert_allclose(again, d, atol=1e-12)
        total += share * again
    places = found.weights > 0
    target = Coverage(2.0, found.weights[places])
    assert target.divergence(total[places]) == pytest.approx(found.divergence, abs=1e-12)
    assert target.worst_ratio(total[places]) == pytest.approx(found.worst_ratio, rel=1e-12)
    np.testing.assert_allclose(np.nansum(found.division, axis=0)[total > 0], 1.0, atol=1e-12)


def test_the_worst_case_is_that_of_a_linear_program() -> None:
    """max t with sum_k w_k d_k >= t mubar and each d_k stationary, by HiGHS."""
    models, mu, shares = [garnet(6), garnet(7), garnet(8)], weights(9), np.array([0.2, 0.3, 0.5])
    sets = [rc.Occupancies.average(mdp) for mdp in models]
    flow = sp.csr_array(sp.block_diag([members.equations()[0] for members in sets]))
    right = np.concatenate([members.equations()[1] for members in sets])
    equal = sp.hstack([flow, sp.csr_array((right.size, 1))])
    target = (mu / mu.sum()).ravel()
    above = sp.hstack([*(-share * sp.eye_array(12) for share in shares), sp.csr_array(target[:, None])])
    end = linprog(np.append(np.zeros(36), -1.0), above, np.zeros(12), equal, right)
    found = rc.plan_agents(models, inf, mu, shares=shares)
    assert found.divergence == pytest.approx(np.log(-1 / end.fun), abs=1e-8)


def test_who_can_go_nowhere_else_covers_its_part() -> None:
    """Each corridor has four or five of the eight states; with equal shares all pairs get the same visits."""
    found = rc.plan_agents([corridor(0, 4), corridor(3, 7)], 2.0)
    assert found.divergence <= 1e-8
    np.testing.assert_allclose(found.occupancy, 1 / 16, rtol=1e-3)
    assert (found.division[0][:3] == 1).all()
    assert (found.division[1][5:] == 1).all()


def test_the_text_and_the_summary_say_who_covers_what() -> None:
    found = rc.plan_agents([corridor(0, 4), corridor(5, 7)], 2.0, shares=[0.5, 0.5])
    text = str(found)
    assert "agent 0: 0.5 of the steps, most of the visits of 10 of 16 pairs" in text
    assert "agent 1: 0.5 of the steps, most of the visits of 6 of 16 pairs" in text
    assert found.summary()["mostly_visited_by"] == [10, 6]
    assert found.divergence == pytest.approx(
        np.log(20**2 / 16 / 32 + 12**2 / 16 / 32), abs=1e-8
    )  # log sum mu^2/d


def test_pairs_that_nobody_can_visit_are_refused_or_left_out() -> None:
    models = [corridor(0, 2), corridor(4, 7)]
    with pytest.raises(NotCommunicatingError, match=r"2 pairs .*\(3, 0\), \(3, 1\).*restrict=True") as caught:
        rc.plan_agents(models)
    assert caught.value.pairs == ((3, 0), (3, 1))
    found = rc.plan_agents(models, restrict=True)
    assert found.restriction == "Left out 2 pairs with 0.125 of the weight: no agent can visit them."
    assert found.weights[3].tolist() == [0, 0]
    assert (found.weights > 0).sum() == 14


def two_rooms() -> rc.MDP:
    """Returns a model that chooses one of two states at first, and stays there."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = 1
    P[1, :, 1] = P[2, :, 2] = 1
    return rc.MDP(P, start=0)


@pytest.mark.parametrize(
    ("agents", "others", "message"),
    [
        ([], {}, "agents.*must be a list of models.*empty"),
        (garnet(0), {}, "agents.*must be a list of models"),
        ([garnet(0), "river"], {}, r"agents\[1\].*must be an MDP"),
        ([garnet(0), corridor(0, 7)], {}, r"agents\[1\].*6 and 2.*8 and 2"),
        ([garnet(0)] * 2, {"shares": [1, 0]}, "shares.*must be positive.*agent 1"),
        ([garnet(0)] * 2, {"shares": [1]}, "shares"),
        ([garnet(0)] * 2, {"mu": np.ones((3, 2))}, "mu"),
        ([garnet(0)] * 2, {"mu": np.zeros((6, 2))}, "mu.*positive"),
        ([garnet(0)] * 2, {"mu": np.eye(6)[:, :2], "rho": 0}, "rho=0.*infinite"),
        ([garnet(0)] * 2, {"tol": 0}, "tol"),
        ([two_rooms()], {}, r"agents\[0\].*one end component.*2 of them"),
        ([corridor(0, 2), corridor(3, 7)], {"mu": np.eye(8)[:, :2]}, r"agents\[1\].*Leave this agent out"),
        ([rc.MDP(np.ones((2, 1, 2)) / 2)], {"horizon": 3}, r"agents\[0\].*must have a start"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(agents: object, others: dict, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rc.plan_agents(agents, **others)  # pyright: ignore[reportArgumentType]


def test_one_of_two_rooms_for_each_agent_needs_restarts() -> None:
    """With a horizon both states are within reach of one agent, so two are no better than one."""
    mdp = two_rooms()
    one, two = rc.plan(mdp, 2.0, horizon=3), rc.plan_agents([mdp, mdp], 2.0, horizon=3)
    assert two.divergence == pytest.approx(one.divergence, abs=2e-8)


@pytest.mark.thorough
def test_large_models_are_certified() -> None:
    large = rc.envs.grid_world(num_rows=60)
    found = rc.plan_agents([large, large], 2.0, shares=[0.25, 0.75])
    assert found.gap <= 1e-8
    assert found.divergence == pytest.approx(rc.plan(large, 2.0).divergence, abs=2e-8)
