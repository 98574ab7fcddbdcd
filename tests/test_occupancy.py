"""The three occupancy sets hold exactly the visit frequencies of policies.

Second methods: frequencies by stepping distributions through the chain, the largest floor by a linear
program written from scratch, reachable steps by a search. Closed forms: P(s'|s,a) = q(s'), DoubleChain.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from rhocover import MDP, Occupancies, envs
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError

CRITERIA = {"average": {}, "discounted": {"discount": 0.9}, "horizon": {"horizon": 5}}
SEEDS = range(8)
# Solving for at most 8 states loses a few digits: an inverse has norm 1/(1-gamma) = 10, a chain mixes in
# about 10 steps.
SOLVE = 1e-12


def random_model(seed: int) -> MDP:
    """Returns a communicating model with state-dependent actions, a start, and about half its entries zero.

    The first action of every state leads around a ring, so every policy that uses it is irreducible.
    """
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.5)
    P[np.arange(S), :, (np.arange(S) + 1) % S] += 0.2
    available = rng.random((S, A)) < 0.6
    available[:, 0] = True
    start = rng.dirichlet(np.ones(S)) * (rng.random(S) < 0.5)
    start[0] += 0.1
    return MDP(P / P.sum(axis=2, keepdims=True), available=available, start=start / start.sum())


def random_policy(members: Occupancies, rng) -> np.ndarray:
    """Returns a policy with positive probability for every entry, as a table."""
    table = members.table(rng.random(members.num_pairs) + 0.05)
    total = table.sum(axis=-1, keepdims=True)
    return np.divide(table, total, out=np.zeros_like(table), where=total > 0)


def step_on(mdp: MDP, states: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Returns where a distribution over states goes under a policy `[S, A]`, by plain sums."""
    return np.einsum("s,sa,sat->t", states, policy, mdp.dense())


def average_by_stepping(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Returns the limit of the lazy chain, whose halves make periods harmless: 2^13 steps by squaring."""
    chain = (np.eye(mdp.num_states) + np.einsum("sa,sat->st", policy, mdp.dense())) / 2
    for _ in range(13):
        chain = chain @ chain
        chain /= chain.sum(axis=1, keepdims=True)  # 2^13 roundings would add up
    return chain[0][:, None] * policy


def discounted_by_stepping(mdp: MDP, discount: float, policy: np.ndarray) -> np.ndarray:
    """Returns (1-gamma) sum_t gamma^t P(s_t = s) pi(a|s); 0.9^400 is 5e-19."""
    total, states = np.zeros((mdp.num_states, mdp.num_actions)), mdp.start
    for t in range(400):
        total += (1 - discount) * discount**t * states[:, None] * policy
        states = step_on(mdp, states, policy)
    return total


def horizon_by_stepping(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Returns P(s_h = s) pi_h(a|s) / H for a policy `[H, S, A]`."""
    result, states = [], mdp.start
    for rule in policy:
        result.append(states[:, None] * rule / len(policy))
        states = step_on(mdp, states, rule)
    return np.array(result)


def by_stepping(members: Occupancies, policy: np.ndarray) -> np.ndarray:
    if members.criterion == "average":
        return average_by_stepping(members.mdp, policy)
    if members.criterion == "discounted":
        return discounted_by_stepping(members.mdp, members.discount, policy)
    return horizon_by_stepping(members.mdp, policy)


def river(criterion: str, **more) -> Occupancies:
    return Occupancies.of(envs.river_swim(), **CRITERIA[criterion], **more)


@pytest.fixture(params=CRITERIA)
def criterion(request) -> str:
    return request.param


# --- policies and their occupancies -------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_the_occupancy_of_a_policy_is_how_often_its_chain_visits_each_pair(criterion, seed):
    # Mutants: transposed P, no factor (1-gamma), a horizon that counts H+1 steps.
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    policy = random_policy(members, np.random.default_rng(seed))
    found = members.table(members.from_policy(policy))
    np.testing.assert_allclose(found, by_stepping(members, policy), rtol=0, atol=SOLVE)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_occupancy_leads_to_its_policy_and_back(criterion, seed):
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    policy = random_policy(members, np.random.default_rng(seed))
    d = members.from_policy(policy)
    np.testing.assert_allclose(members.to_policy(d), policy, rtol=0, atol=SOLVE)
    np.testing.assert_allclose(members.from_policy(members.to_policy(d)), d, rtol=0, atol=SOLVE)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mixture_of_occupancies_is_the_occupancy_of_one_policy(criterion, seed):
    # The sets are convex: the mixture's own policy visits as the mixture does.
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    rng = np.random.default_rng(seed)
    several = [members.from_policy(random_policy(members, rng)) for _ in range(4)]
    mixture = rng.dirichlet(np.ones(4)) @ np.array(several)
    np.testing.assert_allclose(members.from_policy(members.to_policy(mixture)), mixture, rtol=0, atol=SOLVE)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_and_entries_are_two_ways_to_write_one_occupancy(criterion, seed):
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    d = members.from_policy(random_policy(members, np.random.default_rng(seed)))
    table = members.table(d)
    assert table.shape == members.shape
    np.testing.assert_array_equal(members.flatten(table, "d"), d)
    np.testing.assert_array_equal(members.flatten(d, "d"), d)
    np.testing.assert_array_equal(members.to_policy(table), members.to_policy(d))
    assert members.membership(table) == members.membership(d)
    np.testing.assert_array_equal(members.table(d, fill=-1.0)[members.table(np.ones(d.size)) == 0], -1)


def test_where_an_occupancy_never_comes_its_policy_is_uniform_over_the_actions_of_the_state():
    mdp = MDP.from_pairs(
        np.array([[1.0, 0], [0, 1], [1, 0], [1, 0]]), [0, 0, 1, 1], [0, 1, 0, 2], num_actions=4
    )
    policy = Occupancies.average(mdp).to_policy([1.0, 0, 0, 0])
    np.testing.assert_array_equal(policy, [[1, 0, 0, 0], [0.5, 0, 0.5, 0]])


def test_a_policy_ignores_entries_that_rounding_left_below_zero():
    members = river("average")
    d = np.full(12, 1 / 12)
    d[0] = -1e-17
    policy = members.to_policy(d)
    np.testing.assert_array_equal(policy[0], [0, 1])
    assert policy.min() == 0


def test_a_periodic_chain_has_its_time_average():
    mdp = MDP(np.roll(np.eye(3), 1, axis=1)[:, None, :])
    np.testing.assert_allclose(Occupancies.average(mdp).from_policy(np.ones((3, 1))), 1 / 3, rtol=1e-15)


@pytest.mark.parametrize("S", [1, 2])
def test_one_state_or_one_action_leaves_no_choice(criterion, S):
    mdp = MDP(np.full((S, 1, S), 1 / S), start=np.full(S, 1 / S))
    members = Occupancies.of(mdp, **CRITERIA[criterion])
    expected = 1 / S if members.num_steps is None else 1 / (5 * S)
    np.testing.assert_allclose(members.from_policy(members.table(1.0)), expected, rtol=1e-15)
    assert members.max_floor()[0] == pytest.approx(expected, rel=1e-12)  # an LP's equations hold to 1e-12


# --- membership ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_occupancies_of_policies_are_members_and_their_equations_hold(criterion, seed):
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    d = members.from_policy(random_policy(members, np.random.default_rng(seed)))
    found = members.membership(d)
    assert found.flow <= SOLVE
    assert found.mass <= SOLVE
    assert found.negativity == found.floor_shortage == 0
    assert members.contains(d)
    matrix, right_side = members.equations()
    np.testing.assert_allclose(matrix @ d, right_side, rtol=0, atol=SOLVE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_four_residuals_are_what_loops_over_the_model_find(seed):
    mdp = random_model(seed)
    d = np.random.default_rng(seed).normal(size=mdp.num_pairs)
    for discount in (None, 0.9):
        members = Occupancies.of(mdp, discount=discount, eta=0.01)
        flow = []
        for s in range(mdp.num_states):
            out = sum(d[i] for i in range(d.size) if mdp.pair_state[i] == s)
            P = mdp.dense()
            come = sum(d[i] * P[mdp.pair_state[i], mdp.pair_action[i], s] for i in range(d.size))
            gamma, reset = (1, 0) if discount is None else (discount, (1 - discount) * mdp.start[s])
            flow.append(abs(out - gamma * come - reset))
        found = members.membership(d)
        assert found.flow == pytest.approx(max(flow), rel=1e-12)
        assert found.mass == pytest.approx(abs(sum(d) - 1), rel=1e-12)
        assert found.negativity == max(0, -min(d))
        assert found.floor_shortage == pytest.approx(max(0, 0.02 - min(d)), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_flow_of_a_horizon_joins_each_step_to_the_next(seed):
    mdp = random_model(seed)
    members = Occupancies.horizon(mdp, 3)
    d = np.random.default_rng(seed).normal(size=members.num_pairs)
    table = members.table(d)
    reached = members.table(1.0).sum(axis=2) > 0
    expected = [table[0].sum(axis=1) - mdp.start / 3]
    expected += [table[h].sum(axis=1) - np.einsum("sa,sat->t", table[h - 1], mdp.dense()) for h in (1, 2)]
    largest = np.abs(np.array(expected)[reached]).max()
    assert members.membership(d).flow == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("wrong", ["flow", "mass", "negativity", "floor_shortage"])
def test_each_residual_alone_is_enough_to_be_no_member(wrong):
    # Two absorbing states: every distribution is in flow balance, so the residuals can be set one by one.
    mdp = MDP(np.eye(2)[:, None, :])
    members = Occupancies.average(mdp, eta=0.1 if wrong == "floor_shortage" else 0.0)
    swap = Occupancies.average(MDP(np.eye(2)[::-1][:, None, :]))
    broken = {
        "flow": (swap, [0.4, 0.6]),
        "mass": (members, [0.5, 0.6]),
        "negativity": (members, [-0.1, 1.1]),
        "floor_shortage": (members, [0.1, 0.9]),
    }
    chosen, d = broken[wrong]
    residuals = vars(chosen.membership(d))
    assert residuals[wrong] > 0.05
    others = {name: value for name, value in residuals.items() if name not in (wrong, "floor_shortage")}
    assert max(others.values()) < 1e-15
    assert not chosen.contains(d)
    assert chosen.contains(d, tol=0.5)


def test_the_mass_of_a_restarting_or_episodic_occupancy_follows_from_its_flow():
    # F'h = 1 and g'h = 1, so 1'd = h'F d = h'g = 1.
    for members in (river("discounted"), river("horizon"), Occupancies.horizon(random_model(3), 1)):
        h = members.unit_potential()
        np.testing.assert_allclose(members.flow.T @ h, 1, rtol=0, atol=1e-13)  # h is at most 10
        assert members.inflow @ h == pytest.approx(1, rel=1e-14)
    with pytest.raises(InvalidArgumentError, match="average"):
        river("average").unit_potential()


# --- the horizon set ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_a_horizon_set_has_the_steps_and_states_that_a_search_reaches(seed, horizon):
    mdp = random_model(seed)
    P = mdp.dense()
    here = {s for s in range(mdp.num_states) if mdp.start[s] > 0}
    expected = []
    for h in range(horizon):
        for s, a in zip(mdp.pair_state, mdp.pair_action, strict=True):
            if s in here:
                expected.append((h, int(s), int(a)))
        here = {t for s in here for a in range(mdp.num_actions) for t in np.flatnonzero(P[s, a]).tolist()}
    members = Occupancies.horizon(mdp, horizon)
    found = zip(members.step, mdp.pair_state[members.pair], mdp.pair_action[members.pair], strict=True)
    assert [tuple(int(k) for k in entry) for entry in found] == expected
    assert members.shape == (horizon, mdp.num_states, mdp.num_actions)
    assert members.flow.shape == (len({entry[:2] for entry in expected}), len(expected))


def test_river_swim_unrolls_one_state_a_step():
    assert Occupancies.horizon(envs.river_swim(), 4).num_pairs == 2 * (1 + 2 + 3 + 4)


def test_a_table_over_states_is_repeated_over_the_steps():
    members = river("horizon")
    table = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(
        members.flatten(table, "mu"), members.flatten(np.broadcast_to(table, (5, 6, 2)), "mu")
    )
    stationary = np.full((6, 2), 0.5)
    np.testing.assert_array_equal(
        members.from_policy(stationary), members.from_policy(np.broadcast_to(stationary, (5, 6, 2)))
    )


def test_every_step_of_an_episode_has_the_same_mass():
    members = river("horizon")
    d = members.table(members.from_policy(np.full((6, 2), 0.5)))
    np.testing.assert_allclose(d.sum(axis=(1, 2)), 0.2, rtol=1e-14)


# --- closed forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_if_successors_do_not_depend_on_the_pair_the_occupancy_is_q_times_the_policy(seed):
    # P(s'|s,a) = q(s'), start q: for all three criteria; the largest floor is min q(s) / (actions of s).
    rng = np.random.default_rng(seed)
    S, A = 5, 3
    q = rng.dirichlet(np.ones(S))
    available = rng.random((S, A)) < 0.6
    available[:, 1] = True
    mdp = MDP(np.broadcast_to(q, (S, A, S)), available=available, start=q)
    for arguments in CRITERIA.values():
        members = Occupancies.of(mdp, **arguments)
        policy = random_policy(members, rng)
        steps = members.num_steps or 1
        found = members.table(members.from_policy(policy))
        np.testing.assert_allclose(found, q[:, None] * policy / steps, rtol=1e-12)
        expected = (q / available.sum(axis=1)).min() / steps
        assert members.max_floor()[0] == pytest.approx(expected, abs=1e-12)  # an LP's equations hold to 1e-12


def test_double_chain_can_be_visited_uniformly_and_no_better():
    members = Occupancies.average(envs.double_chain())
    uniform = np.full(members.num_pairs, 1 / members.num_pairs)
    assert members.contains(uniform, tol=1e-15)
    assert members.max_floor()[0] == pytest.approx(1 / members.num_pairs, abs=1e-12)
    np.testing.assert_allclose(members.to_policy(uniform), 0.5, rtol=1e-15)


# --- the largest floor --------------------------------------------------------------------------------


def floor_by_linprog(members: Occupancies) -> float:
    """Returns max t with F d = g, 1'd = 1, d >= t, by another solver and another formulation."""
    n = members.num_pairs
    rows = members.flow.shape[0]
    equal = sp.vstack([sp.hstack([members.flow, sp.csr_array((rows, 1))]), np.append(np.ones(n), 0)[None]])
    above = sp.hstack([-sp.eye_array(n), np.ones((n, 1))])
    right = np.append(members.inflow, 1.0)
    return -linprog(np.append(np.zeros(n), -1.0), A_ub=above, b_ub=np.zeros(n), A_eq=equal, b_eq=right).fun


def test_the_largest_floor_of_river_swim_is_the_published_number():
    assert river("average").max_floor()[0] == pytest.approx(0.0433737987, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_floor_is_that_of_another_program_and_is_attained(criterion, seed):
    members = Occupancies.of(random_model(seed), **CRITERIA[criterion])
    t_star, d = members.max_floor()
    assert t_star == pytest.approx(floor_by_linprog(members), abs=1e-9)  # linprog's tolerance is 1e-7 of rows
    assert d.min() >= t_star - 1e-12
    assert members.contains(d, tol=1e-10)


def test_a_floor_is_allowed_up_to_half_of_the_largest_and_the_error_names_that(criterion):
    members = river(criterion)
    eta_max = members.max_floor()[0] / 2
    river(criterion, eta=eta_max).check_floor()
    river(criterion, eta=0.5 * eta_max).check_floor()
    members.check_floor()
    with pytest.raises(InfeasibleFloorError) as caught:
        river(criterion, eta=eta_max * 1.001).check_floor()
    assert caught.value.eta_max == pytest.approx(eta_max, rel=1e-9)
    assert f"eta <= {eta_max:.4g}" in str(caught.value)


def test_the_error_of_a_floor_is_the_sentence_of_the_house_style():
    with pytest.raises(InfeasibleFloorError) as caught:
        river("average", eta=0.03).check_floor()
    assert str(caught.value) == (
        "eta=0.03 asks every pair for 0.06 of the visits; this MDP allows at most 0.04337 (eta <= 0.02169). "
        "Pass eta=0.02 or less."
    )


def test_a_pair_that_cannot_be_visited_for_ever_leaves_no_floor():
    # State 0 is left and never seen again.
    members = Occupancies.average(MDP([[[0.0, 1.0]], [[0.0, 1.0]]]), eta=0.01)
    assert members.max_floor()[0] == pytest.approx(0, abs=1e-12)
    with pytest.raises(InfeasibleFloorError):
        members.check_floor()


def test_the_largest_floor_of_the_set_does_not_depend_on_the_floor_asked_for():
    assert river("average", eta=0.02).max_floor()[0] == river("average").max_floor()[0]


# --- construction -------------------------------------------------------------------------------------


def test_the_arguments_choose_the_criterion(criterion):
    members = river(criterion, eta=0.001)
    assert members.criterion == criterion
    assert members.eta == 0.001
    assert members.floor == 0.002


def test_a_start_that_is_given_takes_the_place_of_the_models_own():
    mdp = envs.river_swim()
    np.testing.assert_array_equal(Occupancies.discounted(mdp, 0.9).start, mdp.start)
    np.testing.assert_array_equal(Occupancies.discounted(mdp, 0.9, start=3).start, np.eye(6)[3])
    assert Occupancies.horizon(mdp, 1, start=3).num_pairs == 2


def test_the_callers_arrays_are_not_kept():
    mine, start = np.full((6, 2), 0.5), np.full(6, 1 / 6)
    members = Occupancies.discounted(envs.river_swim(), 0.9, start=start)
    d = members.from_policy(mine)
    kept = d.copy()
    mine[:], start[:] = 7, 7
    np.testing.assert_array_equal(d, kept)
    np.testing.assert_array_equal(members.start, 1 / 6)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((6, 2), 0.4), "`policy` must sum to 1 in every state, got 0.8 in state 0"),
        (np.array([[0.5, 0.5]] * 5 + [[0.5, 0.6]]), "in state 5"),
        (np.array([[1.5, -0.5]] * 6), "`policy` must be non-negative"),
        (np.full((6, 2), np.nan), "`policy` must be finite"),
        (np.full((2, 6), 0.5), "`policy` must have shape"),
        (np.ones(6), "`policy` must have shape"),
        ("uniform", "`policy` must hold real numbers"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(policy, message):
    for name in ("average", "discounted"):
        with pytest.raises(InvalidArgumentError, match=message):
            river(name).from_policy(policy)


def test_a_policy_over_time_is_refused_with_the_state_and_the_step():
    policy = np.full((5, 6, 2), 0.5)
    policy[3, 2, 0] = 0.75
    with pytest.raises(InvalidArgumentError, match=r"got 1\.25 in state 2 at step 3"):
        river("horizon").from_policy(policy)
    with pytest.raises(InvalidArgumentError, match=r"`policy` must have shape \(5, 6, 2\) or \(6, 2\), got"):
        river("horizon").from_policy(policy[:3])


@pytest.mark.parametrize("d", [np.ones(5), np.ones((6, 3)), None, "d", np.full(12, np.nan), [True] * 12])
def test_what_is_no_vector_over_the_pairs_is_refused_by_name(criterion, d):
    for method in ("membership", "contains", "to_policy"):
        with pytest.raises(InvalidArgumentError, match="`d` must"):
            getattr(river(criterion), method)(d)
