"""Three methods, one answer: policy iteration, value iteration and the linear program agree.

Independent of all three: every policy of a small model tried in turn, closed forms, HiGHS called directly.
The named mutants: a transposed chain, gains of the wrong class, a bound without rounding or with the sign
of the potential flipped, an anchor that never moves, no restart, no polish, a floor ignored.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from rhocover import MDP, Coverage, Occupancies, chains, envs
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError, SolverError, UnknownNameError
from rhocover.oracles import METHODS, Response, ValueIteration, best_response, make_oracle
from rhocover.oracles.evaluation import best_class, evaluate
from rhocover.oracles.response import Choices, ScaledReward
from tiers import tiered

reproducible = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
POLICY_METHODS = ("policy_iteration", "value_iteration")
CRITERIA = ("average", "discounted", "horizon")
# What the methods promise, in units of the largest reward: value iteration stops at 1e-9 and reports
# twice that at most, HiGHS is given 1e-9 (1e-8 when that fails), policy iteration refuses above 1e-8.
AGREE = 2e-8


def random_model(seed: int) -> MDP:
    """Returns a small model of any structure: several classes, transient states, cycles, one state."""
    rng = np.random.default_rng(seed)
    num_states, num_actions = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    P = np.zeros((num_states, num_actions, num_states))
    for s, a in np.ndindex(num_states, num_actions):
        reached = rng.choice(num_states, int(rng.integers(1, min(num_states, 3) + 1)), replace=False)
        P[s, a, reached] = rng.dirichlet(np.ones(reached.size))
    available = rng.random((num_states, num_actions)) < 0.7
    available[np.arange(num_states), rng.integers(num_actions, size=num_states)] = True
    return MDP(P, available=available, start=rng.dirichlet(np.ones(num_states)))


def members_of(mdp: MDP, criterion: str, seed: int) -> Occupancies:
    discount = (0.3, 0.9, 0.99)[seed % 3]
    options = {"average": {}, "discounted": {"discount": discount}, "horizon": {"horizon": 1 + seed % 4}}
    return Occupancies.of(mdp, **options[criterion])


def random_reward(members: Occupancies, seed: int) -> np.ndarray:
    """Returns rewards of either sign, with many ties, or spread over many decades."""
    rng = np.random.default_rng(seed + 1)
    kinds = (
        lambda size: rng.normal(size=size),
        lambda size: rng.integers(0, 3, size),
        lambda size: np.exp(6 * rng.normal(size=size)),
    )
    return np.asarray(kinds[seed % 3](members.num_pairs), float)


def size_of(reward) -> float:
    return float(np.abs(reward).max()) or 1.0


def check(members: Occupancies, reward, answer: Response) -> None:
    """What every response satisfies."""
    size = size_of(reward)
    assert members.contains(answer.occupancy, 1e-11)  # HiGHS is checked to 1e-11, solves leave 1e-15
    assert answer.value == pytest.approx(reward @ answer.occupancy, abs=1e-12 * size)
    assert answer.value <= answer.upper_bound <= answer.value + AGREE * size
    sums = np.bincount(members.node, answer.policy)
    assert sums == pytest.approx(np.ones(sums.size), abs=1e-12)
    assert (answer.policy >= 0).all()


def deterministic_policies(members: Occupancies):
    """Yields every choice of one entry a node, as a policy per entry."""
    nodes = [np.flatnonzero(members.node == k) for k in range(members.flow.shape[0])]
    for chosen in itertools.product(*nodes):
        policy = np.zeros(members.num_pairs)
        policy[list(chosen)] = 1.0
        yield policy


def class_gains(members: Occupancies, policy, reward):
    """Yields what each recurrent class of a policy's chain earns."""
    chain = chains.policy_chain(members.mdp, policy).toarray()
    earned = np.bincount(members.mdp.pair_state, policy * reward)
    for states in chains.recurrent_classes(chain):
        yield chains.stationary_distribution(chain[np.ix_(states, states)]) @ earned[states]


def value_from_the_start(members: Occupancies, policy, reward) -> float:
    """Returns <reward, d> of a policy by following the distribution of states step by step."""
    mdp = members.mdp
    assert members.start is not None
    state, total = members.start.copy(), 0.0
    num_steps = members.num_steps or 200  # 0.3^200 is zero
    for t in range(num_steps):
        weight = 1 / num_steps if members.num_steps else (1 - members.discount) * members.discount**t
        now = members.step == t if members.num_steps else np.ones(members.num_pairs, bool)
        mass = np.zeros(mdp.num_pairs)
        mass[members.pair[now]] = state[mdp.pair_state[members.pair[now]]] * policy[now]
        total += weight * float(mass[members.pair[now]] @ reward[now])
        state = mass @ mdp.transitions
    return total


# Against every policy tried in turn.


@pytest.mark.thorough
@reproducible
@given(seeds)
def test_the_best_average_response_is_the_best_class_of_any_policy(seed):
    members = Occupancies.average(random_model(seed))
    reward = random_reward(members, seed)
    assume(np.prod(np.bincount(members.node), dtype=float) <= 300)
    best = max(g for policy in deterministic_policies(members) for g in class_gains(members, policy, reward))
    for method in METHODS:
        answer = best_response(members, reward, method=method)
        assert answer.value == pytest.approx(best, abs=AGREE * size_of(reward))


@pytest.mark.parametrize("options", tiered([{"discount": 0.3}, {"horizon": 1}, {"horizon": 3}]), ids=str)
@pytest.mark.parametrize("seed", tiered(range(6)))
def test_the_best_response_from_a_start_is_the_best_policy(options, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(2), size=(2, 2))
    members = Occupancies.of(MDP(P, start=rng.dirichlet(np.ones(2))), **options)
    reward = rng.normal(size=members.num_pairs)
    best = max(value_from_the_start(members, policy, reward) for policy in deterministic_policies(members))
    for method in METHODS:
        answer = best_response(members, reward, method=method)
        assert answer.value == pytest.approx(best, abs=AGREE * size_of(reward))


# Against each other.


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@reproducible
@given(seed=seeds)
def test_the_methods_agree_and_certify_themselves(criterion, seed):
    members = members_of(random_model(seed), criterion, seed)
    reward = random_reward(members, seed)
    answers = [best_response(members, reward, method=method) for method in METHODS]
    for answer in answers:
        check(members, reward, answer)
    values = [answer.value for answer in answers]
    assert max(values) - min(values) <= AGREE * size_of(reward)


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@reproducible
@given(seed=seeds)
def test_a_warm_start_changes_no_value_whatever_was_asked_before(criterion, seed):
    members = members_of(random_model(seed), criterion, seed)
    before, reward = random_reward(members, seed + 1), random_reward(members, seed)
    for method in METHODS:
        oracle = make_oracle(members, method)
        warm = oracle.respond(reward, warm=oracle.respond(before))
        check(members, reward, warm)
        cold = oracle.respond(reward)
        assert warm.value == pytest.approx(cold.value, abs=AGREE * size_of(reward))


@pytest.mark.parametrize("name", envs.names())
def test_policy_iteration_and_the_linear_program_agree_on_every_environment(name):
    members = Occupancies.average(envs.make(name))
    rng = np.random.default_rng(0)
    program, iteration = make_oracle(members, "lp"), make_oracle(members)
    warm = None
    for reward in (rng.normal(size=members.num_pairs), np.exp(4 * rng.normal(size=members.num_pairs))):
        warm = iteration.respond(reward, warm=warm)
        check(members, reward, warm)
        assert warm.value == pytest.approx(program.respond(reward).value, abs=AGREE * size_of(reward))


# Closed forms.


@pytest.mark.parametrize("method", METHODS)
def test_when_actions_do_not_matter_each_state_takes_its_best_reward(method):
    q = np.array([0.5, 0.3, 0.2])
    members = Occupancies.average(MDP(np.tile(q, (3, 2, 1))))
    reward = np.array([1.0, 2.0, -1.0, 4.0, 0.0, 3.0])
    answer = best_response(members, reward, method=method)
    assert answer.value == pytest.approx(0.5 * 2 + 0.3 * 4 + 0.2 * 3, abs=AGREE * 4)
    assert answer.occupancy == pytest.approx([0, 0.5, 0, 0.3, 0, 0.2], abs=AGREE)


@pytest.mark.parametrize("method", METHODS)
def test_a_cycle_of_two_states_is_no_obstacle(method):
    members = Occupancies.average(MDP([[[0.0, 1.0]], [[1.0, 0.0]]]))
    answer = best_response(members, [3.0, 1.0], method=method)
    assert answer.value == pytest.approx(2, abs=AGREE * 3)


@pytest.mark.parametrize("method", METHODS)
def test_one_state_with_one_action_has_one_answer(method):
    answer = best_response(Occupancies.average(MDP([[[1.0]]])), [-7.0], method=method)
    assert (answer.value, answer.occupancy.tolist()) == (-7.0, [1.0])


@pytest.mark.parametrize("method", METHODS)
def test_of_two_closed_rooms_the_better_one_is_taken_and_the_door_never(method):
    # State 0 may go to either of two rooms, which nothing leaves; passing the door pays best.
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1
    members = Occupancies.average(MDP(P))
    answer = best_response(members, [[9.0, 9.0], [1.0, 2.0], [4.0, 3.0]], method=method)
    assert answer.value == 4.0
    assert answer.upper_bound == pytest.approx(4, abs=AGREE * 9)
    assert members.table(answer.occupancy).tolist() == [[0, 0], [0, 0], [1, 0]]
    assert members.table(answer.policy)[0].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_reward_is_its_own_value(method):
    for criterion in CRITERIA:
        mdp = envs.river_swim(num_states=4)
        members = members_of(mdp, criterion, 2)
        answer = best_response(members, np.full(members.num_pairs, 5.0), method=method)
        assert answer.value == pytest.approx(5, abs=AGREE * 5)


# Where textbook policy iteration fails.


def test_far_corners_that_no_policy_connects_in_1e14_steps_are_told_apart():
    members = Occupancies.average(envs.grid_world(num_rows=30, success=0.8))
    reward = np.exp(np.random.default_rng(0).normal(size=members.num_pairs))
    answer = best_response(members, reward)
    check(members, reward, answer)
    other = best_response(members, reward, method="value_iteration")
    assert answer.value == pytest.approx(other.value, abs=AGREE * reward.max())


@pytest.mark.parametrize("rho", [0.5, 2.0, 8.0])
def test_rooms_that_earn_the_same_are_certified_though_their_bias_is_rounding(rho):
    members = Occupancies.average(envs.n_room())
    d = members.from_policy(1 / np.bincount(members.node)[members.node])
    reward = Coverage(rho, np.ones(members.num_pairs)).reward(d)
    answer = best_response(members, reward)
    check(members, reward, answer)


def test_rewards_with_ties_on_a_grid_without_slips_are_certified():
    members = Occupancies.average(envs.grid_world(num_rows=20, success=1.0))
    rng = np.random.default_rng(0)
    reward = np.where(rng.random(members.num_pairs) < 0.1, 1.0, 1e-8)
    check(members, reward, best_response(members, reward))


def test_a_long_river_with_nearly_equal_rewards_is_solved_in_every_place_in_turn():
    # Rewards near those that make every policy earn the same: the best class jumps up and down the river.
    mdp = envs.river_swim(num_states=20)
    members = Occupancies.average(mdp)
    left = mdp.pair_action == 0
    rng = np.random.default_rng(0)
    oracle, program, warm = make_oracle(members), make_oracle(members, "lp"), None
    for _ in range(20):
        reward = np.where(left, 2.16, 0.65) + 0.02 * rng.normal(size=members.num_pairs)
        warm = oracle.respond(reward, warm=warm)
        check(members, reward, warm)
        assert warm.value == pytest.approx(program.respond(reward).value, abs=AGREE * reward.max())


def drifting_chain(num_states: int, right: float) -> sp.csr_array:
    """Returns a walk that goes right, else left: its first state has mass (left/right)^(S-1) of the last."""
    place = np.arange(num_states)
    chain = np.zeros((num_states, num_states))
    chain[place, np.minimum(place + 1, num_states - 1)] += right
    chain[place, np.maximum(place - 1, 0)] += 1 - right
    return sp.csr_array(chain)


@pytest.mark.parametrize("num_states", [5, 20, 60])
def test_an_anchor_that_is_never_seen_again_is_exchanged(num_states):
    chain, reward = drifting_chain(num_states, 0.9), np.sin(np.arange(num_states))
    mass = (1 / 9) ** np.arange(num_states)[::-1]
    result = evaluate(chain, reward, 0, 1e-13)
    assert result.gain == pytest.approx(mass @ reward / mass.sum(), abs=1e-11)  # 1e-13 times the bias
    poisson = result.bias - chain @ result.bias - (reward - result.gain)
    assert np.abs(poisson).max() <= 1e-11


@pytest.mark.parametrize("num_states", [5, 20, 60, 400])
def test_the_stationary_distribution_does_not_hang_on_the_anchor(num_states):
    mass = (1 / 9) ** np.arange(num_states)[::-1].astype(float)
    first_is_highest = -np.arange(float(num_states))
    found = best_class(drifting_chain(num_states, 0.9), np.zeros(num_states), first_is_highest)
    assert found == pytest.approx(mass / mass.sum(), abs=1e-12)


def test_of_several_classes_the_one_that_earns_most_is_taken():
    chain = sp.csr_array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0.5, 0, 0.5, 0]])
    assert best_class(chain, np.array([1.0, 4, 2, 9]), np.zeros(4)).tolist() == [0.5, 0.5, 0, 0]
    assert best_class(chain, np.array([1.0, 2, 2, 9]), np.zeros(4)).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("power", [-200, -20, 13, 20, 200])
@pytest.mark.parametrize("method", METHODS)
def test_a_value_scales_with_its_reward(method, power):
    members = Occupancies.average(envs.garnet(num_states=8, num_actions=2))
    reward = np.random.default_rng(3).normal(size=members.num_pairs)
    answer = best_response(members, reward, method=method)
    scaled = best_response(members, reward * 10.0**power, method=method)
    assert scaled.value * 10.0**-power == pytest.approx(answer.value, abs=AGREE * size_of(reward))


# The bound.


@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@reproducible
@given(seed=seeds)
def test_any_potential_gives_an_upper_bound(criterion, seed):
    members = members_of(random_model(seed), criterion, seed)
    reward = random_reward(members, seed)
    question = ScaledReward.of(Choices(members), reward)
    h = np.random.default_rng(seed).normal(size=members.flow.shape[0]) * 10.0 ** (seed % 12)
    best = best_response(members, reward, method="lp").value
    assert size_of(reward) * question.upper_bound(h) >= best - 1e-12 * size_of(reward)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_not_below_the_same_bound_in_exact_arithmetic(seed):
    members = Occupancies.average(envs.garnet(num_states=5, num_actions=2, num_successors=3, seed=seed))
    rng = np.random.default_rng(seed)
    reward = rng.random(members.num_pairs)
    reward[0] = 1.0  # the largest: scaling is exact
    h = rng.normal(size=members.mdp.num_states) * 1e9
    exact = []
    for pair, row in enumerate(members.mdp.transitions.toarray()):
        onward = sum(Fraction(p) * Fraction(v) for p, v in zip(row.tolist(), h.tolist(), strict=True))
        exact.append(Fraction(reward[pair]) + onward - Fraction(h[members.node[pair]]))
    assert Fraction(ScaledReward.of(Choices(members), reward).upper_bound(h)) >= max(exact)


def test_the_bound_of_a_set_with_a_floor_counts_what_the_floor_gives_away():
    members = Occupancies.average(envs.river_swim(), eta=0.01)
    reward = np.random.default_rng(1).normal(size=members.num_pairs)
    answer = best_response(members, reward)
    free = best_response(Occupancies.average(members.mdp), reward)
    assert answer.upper_bound == pytest.approx(answer.value, abs=1e-9 * size_of(reward))
    assert answer.upper_bound < free.value - 0.1 * size_of(reward)


# Floors.


@pytest.mark.parametrize("part", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("make", [envs.river_swim, envs.six_arms, envs.garnet])
def test_with_a_floor_the_answer_is_the_linear_programs_optimum(make, part):
    mdp = make()
    t_star, _ = Occupancies.average(mdp).max_floor()
    members = Occupancies.average(mdp, eta=part * t_star / 2)
    reward = np.random.default_rng(4).normal(size=members.num_pairs)
    answer = best_response(members, reward)
    matrix, right_side = members.equations()
    direct = linprog(-reward, A_eq=matrix, b_eq=right_side, bounds=(members.floor, None), method="highs")
    check(members, reward, answer)
    assert (answer.occupancy >= members.floor).all()
    assert answer.value == pytest.approx(-direct.fun, abs=1e-6)  # HiGHS at its own tolerance of 1e-7


@pytest.mark.parametrize("method", POLICY_METHODS)
def test_policy_methods_refuse_a_floor_and_say_what_to_use(method):
    members = Occupancies.average(envs.river_swim(), eta=0.01)
    with pytest.raises(InvalidArgumentError, match=r"couples the states\. Use method='lp'"):
        best_response(members, np.ones(members.num_pairs), method=method)


def test_a_floor_that_nothing_satisfies_is_named_with_the_largest_one():
    members = Occupancies.average(envs.river_swim(), eta=0.03)
    with pytest.raises(InfeasibleFloorError, match=r"at most 0\.0433\d* \(eta <= 0\.0216"):
        best_response(members, np.ones(members.num_pairs))


# The door.


def test_automatic_takes_the_linear_program_only_with_a_floor():
    free, floored = (Occupancies.average(envs.river_swim(), eta=eta) for eta in (0.0, 0.01))
    assert best_response(free, np.ones(12)).method == "policy_iteration"
    assert best_response(floored, np.ones(12)).method == "lp"


def test_a_reward_may_be_a_table():
    members = Occupancies.average(envs.river_swim())
    reward = np.random.default_rng(5).normal(size=members.num_pairs)
    assert best_response(members, members.table(reward)).value == best_response(members, reward).value


def test_what_cannot_be_answered_is_refused_by_name():
    members = Occupancies.average(envs.river_swim())
    with pytest.raises(InvalidArgumentError, match=r"`reward` must be finite, got reward\[3\] = nan"):
        best_response(members, np.where(np.arange(12) == 3, np.nan, 1.0))
    with pytest.raises(InvalidArgumentError, match="`reward` must have shape"):
        best_response(members, np.ones(5))
    other = best_response(Occupancies.average(envs.river_swim(num_states=3)), np.ones(6))
    with pytest.raises(InvalidArgumentError, match="`warm` must be a response over the same set, of 12"):
        best_response(members, np.ones(12), warm=other)
    with pytest.raises(UnknownNameError, match="Known: auto, lp, policy_iteration, value_iteration"):
        best_response(members, np.ones(12), method="simplex")


def test_value_iteration_that_runs_out_of_sweeps_says_how_far_it_came():
    members = Occupancies.discounted(envs.river_swim(), 0.999999, start=0)
    reward = np.random.default_rng(6).normal(size=members.num_pairs)
    with pytest.raises(SolverError, match="stopped after 3 sweeps with a gap of"):
        ValueIteration(members, max_sweeps=3).respond(reward)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_question_has_the_same_bits(method):
    members = Occupancies.average(envs.grid_world(num_rows=5))
    reward, other = np.random.default_rng(7).normal(size=(2, members.num_pairs))
    oracle = make_oracle(members, method)
    first = oracle.respond(reward)
    oracle.respond(other)
    again = oracle.respond(reward)
    assert np.array_equal(first.occupancy, again.occupancy)
    assert (first.value, first.upper_bound) == (again.value, again.upper_bound)
