"""The planner reaches the optima that are known without it: by hand, by closed form, by invariance.

Values of a plan are compared through its certificate: the optimum lies in [divergence - gap,
divergence], so a known value may differ from the divergence by the gap and by its own last digit.
Distances of occupancies follow by Pinsker's inequality, |d - mu|_1^2 <= 2 D_rho(mu || d) / min(rho, 1)
(Gilardoni 2010 below 1), and |d - mu|_1 <= 2 (e^D - 1) at rho = inf.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rhocover import MDP, Coverage, Occupancies, envs, plan

INF = float("inf")
RHOS = [0, 0.05, 0.5, 0.9, 1, 1.5, 2, 5, 32, 100, 1000, INF]
CRITERIA = {"average": {}, "discounted": {"discount": 0.9}, "horizon": {"horizon": 4}}

# D*_rho of RiverSwim-6 with uniform weights, to the digits shown. Orders 1, 2, 5, 100 and inf agree with
# 25-digit values by the method of exact_optimum.py.
RIVER_SWIM = {
    1: 0.148958613,
    1.5: 0.224795624,
    2: 0.293000580,
    3: 0.396901096,
    5: 0.504778357,
    10: 0.584927933,
    100: 0.646744883,
    1000: 0.652373344,
    INF: 0.65299309,
}


def random_model(seed: int, num_states: int = 6, num_actions: int = 3) -> MDP:
    """Returns a dense random model with a start; every policy visits every state."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(num_states, 0.5), size=(num_states, num_actions)) + 0.01
    return MDP(P / P.sum(axis=2, keepdims=True), start=rng.dirichlet(np.ones(num_states)))


def distance_bound(rho: float, divergence: float) -> float:
    """Returns how far d may be from mu in the 1-norm if D_rho(mu || d) is this small, rounding included."""
    divergence = max(divergence, 0.0) + 1e-15  # of a sum of logarithms
    if rho == INF:
        return 2 * float(np.expm1(divergence))
    return float(np.sqrt(2 * divergence / (min(rho, 1) if rho > 0 else 1)))


# --- RiverSwim-6 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RIVER_SWIM)
def test_river_swim_reaches_its_published_divergence(rho):
    found = plan(envs.river_swim(), rho, tol=1e-9)
    last_digit = 5e-9 if rho == INF else 1e-9
    assert found.divergence == pytest.approx(RIVER_SWIM[rho], abs=last_digit + found.gap)


def test_river_swim_has_its_published_largest_floor():
    t_star, d = Occupancies.average(envs.river_swim()).max_floor()
    assert t_star == pytest.approx(0.0433737987, abs=1e-10)
    assert d.min() == pytest.approx(t_star, abs=1e-12)
    worst = plan(envs.river_swim(), INF, tol=1e-11)
    # uniform weights: the best worst ratio is (1/n) / t*
    assert worst.occupancy.min() == pytest.approx(t_star, abs=1e-10)


@pytest.mark.parametrize(("rho", "value"), [(1, -2.6338653), (2, -1.3404436)])
def test_river_swim_has_its_published_utility(rho, value):
    found = plan(envs.river_swim(), rho, np.full((6, 2), 1 / 12), tol=1e-10)
    assert found.value == pytest.approx(value, abs=1e-7)  # the digits shown


@pytest.mark.parametrize(("rho", "least"), [(1, 0.03342190), (2, 0.03765959)])
def test_river_swim_has_its_published_smallest_occupancy(rho, least):
    found = plan(envs.river_swim(), rho, tol=1e-13)
    # d is off by at most about sqrt(2 gap) d: 5e-7 times 0.04, and the last digit shown
    assert found.occupancy.min() == pytest.approx(least, abs=3e-8)


# --- closed forms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_that_are_an_occupancy_are_attained_for_every_rho(criterion, rho):
    mdp = random_model(3)
    members = Occupancies.of(mdp, **CRITERIA[criterion])
    rng = np.random.default_rng(4)
    table = members.table(rng.random(members.num_pairs) + 0.1)
    policy = table / np.where(table.sum(axis=-1, keepdims=True) > 0, table.sum(axis=-1, keepdims=True), 1)
    mu = members.table(members.from_policy(policy))
    found = plan(mdp, rho, 7.5 * mu, **CRITERIA[criterion], tol=1e-11)
    assert -1e-14 <= found.divergence <= found.gap
    assert np.abs(found.occupancy - mu).sum() <= distance_bound(rho, found.divergence)


@pytest.mark.parametrize("rho", RHOS)
def test_double_chain_is_covered_uniformly_for_every_rho(rho):
    found = plan(envs.double_chain(num_states=31), rho, tol=1e-11)
    assert -1e-14 <= found.divergence <= found.gap
    assert np.abs(found.occupancy - 1 / 62).sum() <= distance_bound(rho, found.divergence)


@pytest.mark.parametrize("rho", RHOS)
def test_a_chain_that_forgets_its_action_has_a_closed_form(rho):
    """P(s'|s,a) = q(s') leaves only the choice of actions: D* is the divergence of the state masses."""
    mdp, q, mu = forgetful_model()
    found = plan(mdp, rho, mu, tol=1e-11)
    best = Coverage(rho, mu.sum(axis=1)).divergence(q)
    assert found.divergence == pytest.approx(best, abs=found.gap + 1e-14)
    assert found.occupancy.sum(axis=1) == pytest.approx(q, abs=1e-12)  # flow, to rounding


@pytest.mark.parametrize("rho", [0, 0.05, 0.5, 0.9, 1, 1.5, 2, 5])
def test_a_chain_that_forgets_its_action_shares_each_state_as_the_weights_do(rho):
    mdp, q, mu = forgetful_model()
    found = plan(mdp, rho, mu, tol=1e-12)
    closed_form = (q / mu.sum(axis=1))[:, None] * mu
    # The objective bends by at least min(rho, 1) sum p (dd/d)^2 / 2, p >= 1e-4 for the lightest pair here.
    error = np.sqrt(2 * found.gap / (1e-4 * (min(rho, 1) or 1)))
    assert np.abs(found.occupancy / closed_form - 1).max() <= error + 1e-12


def forgetful_model() -> tuple[MDP, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    q = rng.dirichlet(np.ones(5))
    return MDP(np.tile(q, (5, 3, 1))), q, rng.random((5, 3)) + 0.05


# --- one axis ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_best_divergence_grows_with_rho(seed):
    mdp = random_model(seed)
    mu = np.random.default_rng(seed).random((6, 3)) + 0.05
    plans = [plan(mdp, rho, mu, tol=1e-10) for rho in RHOS if rho > 0]  # rho = 0 is the limit of D_rho/rho
    for low, high in itertools.pairwise(plans):
        assert low.lower_bound < high.divergence
        assert low.divergence < high.divergence  # these models are far from constant in rho


@pytest.mark.parametrize("rho", [1.5, 2, 5, 32, 100, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_for_rho_is_near_minimax(rho, seed):
    """D_inf(d*_rho) <= D_inf* + log(1/mubar_min)/(rho-1), and D*_rho is below D*_inf by no more."""
    mdp = random_model(seed)
    mu = np.random.default_rng(seed).random((6, 3)) + 0.05
    price = np.log(mu.sum() / mu.min()) / (rho - 1)
    found, worst = plan(mdp, rho, mu), plan(mdp, INF, mu)
    assert np.log(found.worst_ratio) <= worst.divergence + price + found.gap
    assert worst.lower_bound - price <= found.divergence
    assert found.lower_bound <= worst.divergence


@pytest.mark.parametrize("criterion", CRITERIA)
def test_plans_are_continuous_at_rho_zero(criterion):
    mdp = random_model(5)
    mu = np.random.default_rng(5).random((6, 3)) + 0.05
    entropy = plan(mdp, 0, mu, **CRITERIA[criterion], tol=1e-11)
    for rho in (1e-2, 1e-3, 1e-4):
        found = plan(mdp, rho, mu, **CRITERIA[criterion], tol=1e-12)
        # Both expansions begin with rho; the factor 1 is several times what these models show.
        assert found.divergence / rho == pytest.approx(entropy.divergence, abs=rho + 1e-12 / rho)
        assert np.abs(found.occupancy - entropy.occupancy).sum() <= rho


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", [1, 0.5, 2])
def test_plans_are_continuous_in_rho(criterion, rho):
    """The formulas change at rho = 1 and 1/2; the optimum does not."""
    mdp = random_model(6)
    plans = [plan(mdp, rho + h, **CRITERIA[criterion], tol=1e-12) for h in (-1e-6, 0, 1e-6)]
    assert plans[0].divergence < plans[1].divergence < plans[2].divergence
    # dD*/drho is the variance of log mubar/d over 2 or so: below 1 here
    assert plans[2].divergence - plans[0].divergence < 2e-6
    for near in (plans[0], plans[2]):
        # sqrt(2 gap) at most, and 1e-6 times the derivative of d
        assert np.abs(near.occupancy - plans[1].occupancy).sum() <= 1e-5


@pytest.mark.parametrize("rho", [10.0, 100.0, 1e3, 1e4, 1e5])
def test_the_minimax_value_is_the_limit_of_growing_rho(rho):
    mdp = envs.river_swim()
    found, worst = plan(mdp, rho), plan(mdp, INF)
    below = worst.divergence - found.divergence
    assert -found.gap <= below <= np.log(12) / (rho - 1) + worst.gap


# --- invariance ----------------------------------------------------------------------------------------

SAME = [0, 0.5, 1, 2, 32, INF]


@pytest.mark.parametrize("rho", SAME)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_relabelling_states_and_actions_relabels_the_plan(criterion, rho):
    mdp, rng = random_model(7), np.random.default_rng(7)
    mu = rng.random((6, 3)) + 0.05
    states, actions = rng.permutation(6), rng.permutation(3)
    relabelled = MDP(mdp.dense()[np.ix_(states, actions, states)], start=mdp.start[states])
    one = plan(mdp, rho, mu, **CRITERIA[criterion], tol=1e-11)
    two = plan(relabelled, rho, mu[np.ix_(states, actions)], **CRITERIA[criterion], tol=1e-11)
    assert two.divergence == pytest.approx(one.divergence, abs=one.gap + two.gap)
    if rho < 32:  # beyond, pairs far from the worst are not determined to this precision
        one_relabelled = one.occupancy[..., states, :][..., actions]
        assert np.abs(two.occupancy - one_relabelled).sum() <= 20 * np.sqrt(one.gap + two.gap)


@pytest.mark.parametrize("rho", SAME)
@pytest.mark.parametrize("factor", [1e100, 1e-100, 2.0**-1000])
def test_the_scale_of_the_weights_does_not_matter(rho, factor):
    mdp = random_model(8)
    mu = np.random.default_rng(8).random((6, 3)) + 0.05
    one, two = plan(mdp, rho, mu), plan(mdp, rho, factor * mu)
    # log mu is off by half an ulp of |log 1e300| = 691, that is 6e-14, and mubar by as much
    assert two.divergence == pytest.approx(one.divergence, abs=1e-11)
    assert two.occupancy == pytest.approx(one.occupancy, abs=1e-9)
    assert two.steps == one.steps


@pytest.mark.parametrize("rho", [rho for rho in SAME if rho > 0])
def test_an_unreachable_state_without_weight_changes_nothing(rho):
    mdp = random_model(9)
    mu = np.random.default_rng(9).random((6, 3)) + 0.05
    P = np.zeros((7, 3, 7))
    P[:6, :, :6] = mdp.dense()
    P[6, :, 0] = 1.0  # leads in, and nothing leads back
    one, two = plan(mdp, rho, mu), plan(MDP(P), rho, np.vstack([mu, np.zeros(3)]))
    assert two.divergence == one.divergence
    assert np.array_equal(two.occupancy, np.vstack([one.occupancy, np.zeros(3)]))
    assert np.array_equal(two.policy[:6], one.policy)
    assert two.policy[6] == pytest.approx(1 / 3)
    assert np.isnan(two.potential[6])
    assert np.array_equal(two.potential[:6], one.potential)


def test_planning_twice_gives_the_same_bits():
    mdp = envs.garnet(num_states=20, num_actions=3, seed=1)
    for rho in (0, 2, INF):
        one, two = plan(mdp, rho), plan(mdp, rho)
        assert np.array_equal(one.occupancy, two.occupancy)
        assert one.gap == two.gap
