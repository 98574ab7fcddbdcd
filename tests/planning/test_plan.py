"""plan() solves every named model for every rho and criterion, and says truly what it did.

Second methods: CVXPY on small models, Frank-Wolfe, occupancies of random policies (none may be better
than the certified bound), and the optimality conditions written out from the returned potential.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from rhocover import MDP, Coverage, Occupancies, envs, plan
from rhocover.errors import (
    InfeasibleFloorError,
    InvalidArgumentError,
    NotCommunicatingError,
    NotConvergedError,
    UnknownNameError,
)
from rhocover.planning import METHODS, Plan, PlanStatus
from small_models import SMALL_ENVS, random_model, random_weights
from tiers import tiered

INF = float("inf")
RHOS = [0, 0.3, 1, 2, 8, 100, INF]
CRITERIA = {"average": {}, "discounted": {"discount": 0.9}, "horizon": {"horizon": 6}}
FRANK_WOLFE = ["frank_wolfe", "frank_wolfe_line_search", "frank_wolfe_plain"]


def members_of(mdp: MDP, criterion: str, **options) -> Occupancies:
    return Occupancies.of(mdp, **(CRITERIA[criterion] | options))


# --- every model, every rho, every criterion -----------------------------------------------------------


def test_every_named_model_is_planned_here():
    assert set(SMALL_ENVS) == set(envs.names())


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2]))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("name", tiered(SMALL_ENVS))
def test_every_model_is_solved_for_every_rho_and_criterion(name, criterion, rho):
    mdp = envs.make(name, **SMALL_ENVS[name])
    start = {} if criterion == "average" or mdp.start is not None else {"start": 0}
    found = plan(mdp, rho, **CRITERIA[criterion], **start, restrict=criterion == "horizon")
    assert found.status is PlanStatus.SOLVED
    assert 0 < found.gap <= 1e-8
    check_consistency(found, members_of(mdp, criterion, **start))


def check_consistency(found: Plan, members: Occupancies) -> None:
    """The occupancy is a member, the policy is its policy, and the numbers are those of the occupancy."""
    d = members.flatten(found.occupancy, "occupancy")
    assert members.contains(d, tol=1e-10)
    assert found.occupancy.shape == found.policy.shape == members.shape
    allowed = members.mdp.table(np.ones(members.mdp.num_pairs)) > 0
    assert found.policy.sum(axis=-1) == pytest.approx(1, abs=1e-12)
    assert not found.policy[..., ~allowed].any()
    # A policy amplifies what the flow misses, 1e-14 or less, by its mixing time, here up to 1e4 steps.
    assert np.abs(members.from_policy(found.policy) - d).max() <= 1e-10
    ratio = found.coverage.mu_bar[d > 0] / d[d > 0]
    assert found.worst_ratio == pytest.approx(ratio.max(), rel=1e-12)
    assert found.divergence == found.coverage.divergence(d)
    assert found.value == found.coverage.value(d)


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 2, INF], short=[2]))
def test_no_policy_is_better_than_the_lower_bound(criterion, rho):
    mdp = random_model(1)
    mu, members, rng = random_weights(mdp, 1), members_of(mdp, criterion), np.random.default_rng(1)
    found = plan(mdp, rho, mu, **CRITERIA[criterion])
    coverage = Coverage(rho, members.flatten(mu, "mu"))
    best = members.flatten(found.policy, "policy")
    for share in (1.0, 0.1, 1e-3, 1e-5):
        for _ in range(20):
            table = members.table((1 - share) * best + share * rng.exponential(size=members.num_pairs))
            total = table.sum(axis=-1, keepdims=True)
            policy = table / np.where(total > 0, total, 1)
            assert coverage.divergence(members.from_policy(policy)) >= found.lower_bound


# --- CVXPY ---------------------------------------------------------------------------------------------


def cvxpy_minimum(members: Occupancies, mu: np.ndarray, rho: float) -> float:
    """Returns the smallest D_rho over the set by Clarabel at 1e-10."""
    m = mu / mu.sum()
    d, weighted = cp.Variable(m.size), np.flatnonzero(m)
    matrix, right = members.equations()
    constraints = [matrix @ d == right, d >= members.floor]
    if rho == 0:
        objective = cp.Minimize(cp.sum(cp.kl_div(d, m)))
    elif rho == 1:
        objective = cp.Maximize(m[weighted] @ cp.log(d[weighted]))
    elif rho == INF:
        level = cp.Variable()
        constraints.append(d >= level * m)
        objective = cp.Maximize(level)
    else:
        power = m[weighted] ** rho @ cp.power(d[weighted], 1 - rho, approx=False)
        objective = cp.Minimize(power) if rho > 1 else cp.Maximize(power)
    problem = cp.Problem(objective, constraints)
    problem.solve(cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return Coverage(rho, mu).divergence(np.maximum(d.value, 0.0) / d.value.sum())


@pytest.mark.parametrize("share", tiered([0, 0.3, 0.9]))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
def test_plans_agree_with_cvxpy(criterion, rho, share):
    """With floors of 0, 0.3 and 0.9 of the largest, and one action set for each state."""
    mdp = random_model(2)
    eta = share * members_of(mdp, criterion).max_floor()[0] / 2
    members, mu = members_of(mdp, criterion, eta=eta), random_weights(mdp, 2)
    found = plan(mdp, rho, mu, **CRITERIA[criterion], eta=eta)
    reference = cvxpy_minimum(members, members.flatten(mu, "mu"), rho)
    assert found.divergence == pytest.approx(reference, abs=1e-6)  # Clarabel's 1e-10, times potentials
    check_consistency(found, members)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", [0.5, 1, 2, INF])
def test_plans_agree_with_cvxpy_when_some_pairs_have_no_weight(criterion, rho):
    mdp = random_model(3)
    members, mu = members_of(mdp, criterion), random_weights(mdp, 3)
    mu[[0, 2, 4]] = 0.0
    found = plan(mdp, rho, mu, **CRITERIA[criterion])
    assert found.divergence == pytest.approx(cvxpy_minimum(members, members.flatten(mu, "mu"), rho), abs=1e-6)
    check_consistency(found, members)


def test_weights_that_change_over_the_episode_are_met_step_by_step():
    """mu[h] asks for one action at each step: the best policy plays exactly that."""
    mdp = MDP(np.full((2, 2, 2), 0.5), start=[0.5, 0.5])
    mu = np.zeros((3, 2, 2))
    mu[0, :, 0] = mu[1, :, 1] = mu[2, :, 0] = 1.0
    found = plan(mdp, 2, mu, horizon=3)
    assert found.divergence == pytest.approx(0, abs=1e-8)
    assert found.occupancy == pytest.approx(mu / 6, abs=1e-4)  # Pinsker: sqrt(2 gap)


# --- floors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", tiered([1e-3, 1e-8]))
@pytest.mark.parametrize("rho", tiered([0, 1, 2, 8, INF], short=[2]))
def test_every_pair_gets_its_floor_and_that_costs_something(rho, tol):
    mdp = random_model(4)
    mu = random_weights(mdp, 4)
    eta_max = Occupancies.average(mdp).max_floor()[0] / 2
    last = plan(mdp, rho, mu).lower_bound
    for share in (0.5, 0.9, 0.99):
        found = plan(mdp, rho, mu, eta=share * eta_max, tol=tol)
        assert mdp.per_pair(found.occupancy, "d").min() >= 2 * share * eta_max - 1e-9
        assert found.divergence >= last - tol
        last = found.lower_bound


@pytest.mark.parametrize("rho", [0, 1, 2, 8, INF])
def test_a_floor_that_the_optimum_satisfies_anyway_changes_nothing(rho):
    mdp = random_model(5)
    free = plan(mdp, rho, tol=1e-10)
    eta = 0.5 * mdp.per_pair(free.occupancy, "d").min() / 2
    floored = plan(mdp, rho, eta=eta, tol=1e-10)
    assert floored.divergence == pytest.approx(free.divergence, abs=free.gap + floored.gap)


def test_a_floor_out_of_reach_is_refused_with_the_largest_one():
    mdp = envs.river_swim()
    with pytest.raises(InfeasibleFloorError, match=r"eta=0\.03 asks .* at most 0\.04337") as caught:
        plan(mdp, 2, eta=0.03)
    assert caught.value.eta_max == pytest.approx(0.0433737987 / 2, abs=1e-10)


# --- small and odd models ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"eta": 0.1}, {"discount": 0.5, "start": 0}, {"horizon": 1, "start": 0}]
)
@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, INF])
def test_one_state_gets_its_weights(rho, options):
    found = plan(MDP(np.ones((1, 3, 1))), rho, [[3.0, 4.0, 5.0]], **options, tol=1e-12)
    # Pinsker: sqrt(2 gap / rho)
    assert found.occupancy.ravel() == pytest.approx([0.25, 1 / 3, 5 / 12], abs=2e-6)


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, INF])
def test_one_pair_gets_everything(rho):
    for options in ({}, {"eta": 0.4}, {"discount": 0.5, "start": 0}, {"horizon": 2, "start": 0}):
        found = plan(MDP(np.ones((1, 1, 1))), rho, **options)
        assert found.occupancy.sum() == pytest.approx(1)
        assert found.divergence == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("rho", [0.5, 1, 2, INF])
def test_one_state_leaves_out_what_has_no_weight(rho):
    found = plan(MDP(np.ones((1, 3, 1))), rho, [[0.0, 1.0, 1.0]])
    assert found.divergence == pytest.approx(0, abs=1e-8)
    assert found.occupancy[0, 0] <= 1e-7


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8, INF])
def test_a_periodic_chain_without_choice_has_the_divergence_of_its_only_occupancy(rho):
    ring = np.roll(np.eye(5), 1, axis=1)[:, None, :]
    mu = np.arange(1.0, 6.0)[:, None]
    found = plan(MDP(ring), rho, mu)
    assert found.occupancy == pytest.approx(np.full((5, 1), 0.2), abs=1e-13)
    assert found.divergence == pytest.approx(Coverage(rho, mu).divergence(np.full((5, 1), 0.2)), abs=1e-12)


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8])
def test_a_periodic_chain_shares_each_state_among_its_actions(rho):
    """All actions lead on around the ring: the state gets 1/S, an action its share of the weight."""
    ring = np.repeat(np.roll(np.eye(4), 1, axis=1)[:, None, :], 3, axis=1)
    mu = np.random.default_rng(6).random((4, 3)) + 0.2
    found = plan(MDP(ring), rho, mu, tol=1e-12)
    assert found.occupancy == pytest.approx(mu / mu.sum(axis=1, keepdims=True) / 4, abs=1e-5)  # sqrt(gap)


# --- models that do not communicate --------------------------------------------------------------------


def two_parts() -> MDP:
    """State 0 leads away for ever; 1 and 2 form one part, 3 another."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 3] = 1.0
    P[1, 0, 2] = P[1, 1, 1] = 1.0
    P[2, 0, 1] = P[2, 1, 2] = 1.0
    P[3, :, 3] = 1.0
    return MDP(P)


def test_a_model_that_does_not_communicate_is_refused_by_name():
    with pytest.raises(NotCommunicatingError, match="restrict=True") as caught:
        plan(two_parts(), 2)
    assert set(caught.value.pairs) == {(0, 0), (0, 1), (3, 0), (3, 1)}


@pytest.mark.parametrize("rho", [0, 0.5, 1, 2, 8, INF])
def test_restricting_plans_on_the_heaviest_part_and_reports_the_rest(rho):
    found = plan(two_parts(), rho, restrict=True)
    assert found.occupancy == pytest.approx(np.array([[0, 0], [1, 1], [1, 1], [0, 0]]) / 4, abs=2e-4)
    assert np.array_equal(found.occupancy[[0, 3]], np.zeros((2, 2)))
    assert np.array_equal(found.weights, np.array([[0, 0], [1, 1], [1, 1], [0, 0]]))
    assert found.policy[[0, 3]] == pytest.approx(0.5)
    assert np.isnan(found.potential[[0, 3]]).all()
    assert not np.isnan(found.potential[[1, 2]]).any()
    assert "Dropped 4 of 8 pairs with 0.5 of the weight" in found.restriction
    assert "4 pairs of 2 states remain" in found.restriction
    assert found.restriction in str(found)


def test_restricting_goes_where_the_weight_is():
    mu = np.array([[0, 0], [1, 1], [1, 1], [9, 9.0]])
    found = plan(two_parts(), 2, mu, restrict=True)
    assert found.occupancy[3] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert "with 0.182 of the weight" in found.restriction  # 4 of 22


def test_a_model_that_communicates_reports_no_restriction():
    assert plan(envs.river_swim(), 2, restrict=True).restriction == ""


def test_restarts_join_parts_that_do_not_communicate():
    found = plan(two_parts(), 2, discount=0.9, start=0)
    assert mass_of(found, 3) > 0 < mass_of(found, 1)
    assert found.occupancy.sum() == pytest.approx(1)
    assert found.restriction == ""


def test_restricting_with_restarts_keeps_what_the_start_reaches():
    found = plan(two_parts(), 2, discount=0.9, start=[0, 0.25, 0.75, 0], restrict=True)
    alone = MDP(np.array([[[0, 1.0], [1, 0]], [[1, 0], [0, 1.0]]]))
    exact = plan(alone, 2, discount=0.9, start=[0.25, 0.75])
    assert np.array_equal(found.occupancy[1:3], exact.occupancy)
    assert "Dropped 4 of 8 pairs with 0.5 of the weight (out of reach of the start)" in found.restriction


def mass_of(found: Plan, state: int) -> float:
    return float(found.occupancy[state].sum())


# --- what a plan says about itself ---------------------------------------------------------------------


def test_too_few_steps_raise_an_error_that_carries_the_plan():
    mdp = envs.river_swim()
    with pytest.raises(NotConvergedError) as caught:
        plan(mdp, 2, max_steps=1)
    reached = caught.value.plan
    assert isinstance(reached, Plan)
    assert reached.status is PlanStatus.OUT_OF_STEPS
    assert reached.steps == 1
    assert reached.gap > 1e-8
    message = str(caught.value)
    for part in ("tol=1e-06", "rho=2", f"gap {reached.gap:.2g}", "1 steps of interior_point", "throw=False"):
        assert part in message


def test_throw_false_returns_what_the_error_would_have_carried():
    mdp = envs.river_swim()
    with pytest.raises(NotConvergedError) as caught:
        plan(mdp, 2, max_steps=2)
    found = plan(mdp, 2, max_steps=2, throw=False)
    assert np.array_equal(found.occupancy, caught.value.plan.occupancy)
    assert found.status is PlanStatus.OUT_OF_STEPS


@pytest.mark.parametrize("rho", [2, 100, INF])
@pytest.mark.parametrize("name", ["river_swim", "six_arms"])
def test_a_plan_that_was_stopped_does_not_claim_to_be_stuck(name, rho):
    """Also when the best point came before the last step."""
    mdp = envs.make(name)
    for max_steps in range(1, plan(mdp, rho).steps):
        found = plan(mdp, rho, tol=1e-8, max_steps=max_steps, throw=False)
        assert found.status is PlanStatus.OUT_OF_STEPS


@pytest.mark.parametrize("max_steps", tiered([1, 2, 3]))
@pytest.mark.parametrize("rho", tiered([0, 1, 2, 32, INF], short=[2]))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
def test_even_a_plan_that_was_stopped_holds_what_its_policy_visits(criterion, rho, max_steps):
    mdp = random_model(12)
    found = plan(mdp, rho, **CRITERIA[criterion], max_steps=max_steps, throw=False)
    check_consistency(found, members_of(mdp, criterion))


@pytest.mark.parametrize("rho", [0, 1, 2, 32, INF])
def test_a_plan_below_its_floor_is_never_solved(rho):
    """However large the tolerance for the gap is."""
    mdp = random_model(13)
    eta = 0.9 * Occupancies.average(mdp).max_floor()[0] / 2
    found = plan(mdp, rho, random_weights(mdp, 13), eta=eta, tol=1e3, max_steps=1, throw=False)
    is_above = mdp.per_pair(found.occupancy, "d").min() >= 2 * eta - 1e-9
    assert is_above or found.status is not PlanStatus.SOLVED


def test_a_tolerance_below_rounding_stalls_honestly():
    with pytest.raises(NotConvergedError) as caught:
        plan(envs.garnet(num_states=10, seed=2), 2, tol=1e-30)
    assert caught.value.plan.status is PlanStatus.STALLED
    assert caught.value.plan.gap < 1e-10


@pytest.mark.parametrize("max_steps", [1, 2, 3, 5, 200])
def test_no_more_steps_are_taken_than_allowed(max_steps):
    found = plan(envs.river_swim(), 32, max_steps=max_steps, throw=False)
    assert found.steps <= max_steps
    assert (found.status is PlanStatus.SOLVED) == (found.gap <= 1e-8)


def test_a_larger_tolerance_takes_no_more_steps():
    steps = [plan(envs.garnet(seed=3), 8, tol=tol).steps for tol in (1e-2, 1e-4, 1e-8)]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_a_plan_names_the_method_that_made_it():
    mdp = envs.river_swim()
    for method in METHODS:
        rho, tol = (INF, 1e-8) if method == "leximin" else (1, 1e-2)
        found = plan(mdp, rho, method=method, tol=tol)
        assert found.method == method
        assert method in str(found)
        assert found.seconds > 0


@pytest.mark.parametrize("method", ["simplex", "", None, 3, "interior-point"])
def test_an_unknown_method_is_refused_with_the_known_ones(method):
    with pytest.raises(UnknownNameError, match="interior_point"):
        plan(envs.river_swim(), 2, method=method)


@pytest.mark.parametrize(
    ("method", "rho", "eta"),
    [("leximin", 2, 0), ("leximin", INF, 0.01), *((name, INF, 0) for name in FRANK_WOLFE)],
)
def test_a_method_refuses_what_it_cannot_do(method, rho, eta):
    with pytest.raises(InvalidArgumentError):
        plan(envs.river_swim(), rho, method=method, eta=eta)


# --- Frank-Wolfe ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 5], short=[2]))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("method", tiered(FRANK_WOLFE))
def test_frank_wolfe_agrees_with_the_interior_point(method, criterion, rho):
    mdp = random_model(7)
    mu = random_weights(mdp, 7)
    exact = plan(mdp, rho, mu, **CRITERIA[criterion])
    found = plan(mdp, rho, mu, **CRITERIA[criterion], method=method, max_steps=100, tol=1e-6, throw=False)
    assert abs(found.divergence - exact.divergence) <= found.gap + exact.gap
    assert found.divergence >= exact.lower_bound
    assert found.gap < 0.2  # 2/(k+2) of the first gap after 100 steps, with room
    if method == "frank_wolfe":
        assert found.status is PlanStatus.SOLVED


@pytest.mark.parametrize("rho", [0, 1, 2])
def test_frank_wolfe_keeps_the_floor(rho):
    mdp = random_model(8)
    eta = 0.9 * Occupancies.average(mdp).max_floor()[0] / 2
    mu = random_weights(mdp, 8)
    exact, found = plan(mdp, rho, mu, eta=eta), plan(mdp, rho, mu, eta=eta, method="frank_wolfe", tol=1e-4)
    assert abs(found.divergence - exact.divergence) <= found.gap + exact.gap
    assert mdp.per_pair(found.occupancy, "d").min() >= 2 * eta - 1e-9


# --- the potential -------------------------------------------------------------------------------------


def prices(found: Plan, members: Occupancies) -> np.ndarray:
    """Returns c = K'nu + alpha of every entry; alpha = 1 for the average criterion, at rho = 0 it is 0."""
    states = members.mdp.pair_state[members.pair]
    nu = np.zeros(members.flow.shape[0])
    nu[members.node] = found.potential[states if members.num_steps is None else (members.step, states)]
    alpha = 1.0 if members.criterion == "average" and found.rho > 0 else 0.0
    return members.flow.T @ nu + alpha


@pytest.mark.parametrize("rho", [0.5, 1, 2, 5])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_potential_prices_the_occupancy(criterion, rho):
    """Stationarity: c >= 0, <c, d> = 1, and d is proportional to mubar c^(-1/rho).

    Where c is small d costs nothing and may be off. To second order the gap is rho/2 sum c d e^2 for
    relative errors e, so that much is proved, and no more can be asked.
    """
    mdp = random_model(9)
    members, mu = members_of(mdp, criterion), random_weights(mdp, 9)
    found = plan(mdp, rho, mu, **CRITERIA[criterion], tol=1e-11)
    c, d = prices(found, members), members.flatten(found.occupancy, "d")
    assert c.min() > 0
    assert c @ d == pytest.approx(1, abs=1e-10)
    predicted = found.coverage.mu_bar * c ** (-1 / rho)
    error = d * (c @ predicted) / predicted - 1
    assert rho / 2 * np.sum(c * d * error**2) <= 2 * found.gap


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_potential_prices_the_occupancy_at_rho_zero(criterion):
    mdp = random_model(9)
    members, mu = members_of(mdp, criterion), random_weights(mdp, 9)
    found = plan(mdp, 0, mu, **CRITERIA[criterion], tol=1e-12)
    predicted = found.coverage.mu_bar * np.exp(-prices(found, members))
    assert members.flatten(found.occupancy, "d") == pytest.approx(predicted / predicted.sum(), rel=1e-5)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_potential_of_the_worst_case_prices_only_the_worst_pairs(criterion):
    """Complementarity: c > 0 only where mubar/d is the worst ratio, and the prices prove that ratio."""
    mdp = random_model(10)
    members, mu = members_of(mdp, criterion), random_weights(mdp, 10)
    found = plan(mdp, INF, mu, **CRITERIA[criterion], tol=1e-11)
    c, d = prices(found, members), members.flatten(found.occupancy, "d")
    assert c.min() >= -1e-10
    assert c @ d == pytest.approx(1, abs=1e-9)
    assert c @ found.coverage.mu_bar == pytest.approx(np.exp(found.divergence), rel=1e-9)
    shortfall = 1 - found.coverage.mu_bar / d / found.worst_ratio
    assert np.abs(c * shortfall).max() <= 1e-8


@pytest.mark.parametrize("rho", [0.5, 1, 2])
def test_a_pair_without_weight_is_visited_only_where_that_is_free(rho):
    mdp = random_model(11)
    members, mu = members_of(mdp, "average"), random_weights(mdp, 11)
    mu[1] = 0.0
    found = plan(mdp, rho, mu, tol=1e-10)
    c, d = prices(found, members), members.flatten(found.occupancy, "d")
    assert c.min() >= -1e-9
    assert np.abs((c * d)[found.coverage.mu_bar == 0]).max() <= 1e-8
