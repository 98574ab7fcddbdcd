"""What oracles are made of, piece by piece: solves, evaluations, improvements, rounding, and how long they take.

The answers of the oracles are tested elsewhere. A broken piece may still lead to the right answer, later, because
another piece repairs it; here each one is compared with dense linear algebra on chains of a few states, whose
systems have condition numbers below 1e4: 1e-11 is some ten thousand roundings.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from rhocover import MDP, Occupancies, envs
from rhocover.linear_program import InfeasibleProgramError
from rhocover.oracles import (
    LPOracle,
    PolicyIteration,
    ValueIteration,
    best_response,
    comes_apart,
    evaluation,
    policy_iteration,
)
from rhocover.oracles.evaluation import (
    Factor,
    _highest,
    _visits,
    best_class,
    evaluate,
    values_by_sweeps,
    visits_by_sweeps,
)
from rhocover.oracles.policy_iteration import first_look, improved, settled, swept
from rhocover.oracles.response import EPSILON, Choices, ScaledReward, centred
from small_models import random_model

CLOSE = {"rtol": 1e-11, "atol": 1e-12}


def chain_of(seed: int, size: int = 6) -> np.ndarray:
    P = np.random.default_rng(seed).dirichlet(np.full(size, 0.5), size=size)
    P[np.arange(size), (np.arange(size) + 1) % size] += 0.1
    return P / P.sum(axis=1, keepdims=True)


def stationary(P: np.ndarray) -> np.ndarray:
    size = P.shape[0]
    return np.linalg.solve(np.vstack([(np.eye(size) - P).T[:-1], np.ones(size)]), np.eye(size)[-1])


def choices_of(seed: int = 0, **options) -> Choices:
    return Choices(Occupancies.of(random_model(seed), **options))


# --- solves and evaluations -----------------------------------------------------------------------------


@pytest.mark.parametrize(("restart", "anchors"), [(0.2, None), (0.2, [2]), (0.0, [2]), (0.0, [0, 4])])
def test_a_factor_solves_with_the_matrix_and_its_transpose(restart, anchors):
    P = chain_of(1)
    M = np.eye(6) - (1 - restart) * P
    for a in anchors or []:
        M[a], M[:, a] = 0.0, 0.0
        M[a, a] = 1.0
    right = np.random.default_rng(0).normal(size=(6, 2))
    factor = Factor(sp.csr_array(P), restart, None if anchors is None else np.array(anchors))
    np.testing.assert_allclose(factor.solve(right), np.linalg.solve(M, right), **CLOSE)
    np.testing.assert_allclose(
        factor.solve_transposed(right[:, 0]), np.linalg.solve(M.T, right[:, 0]), **CLOSE
    )


@pytest.mark.parametrize("restart", [0.0, 0.1])
@pytest.mark.parametrize("anchor", [0, 3])
def test_an_evaluation_is_the_renewal_theorem(anchor, restart):
    P, reward = chain_of(2), np.random.default_rng(2).normal(size=6)
    jumping = (1 - restart) * P + restart * np.eye(6)[anchor]
    pi = stationary(jumping)
    found = evaluate(sp.csr_array(P), reward, anchor, restart)
    assert found.anchor == anchor
    assert found.gain == pytest.approx(pi @ reward, rel=1e-12)
    assert found.cycle == pytest.approx(1 / pi[anchor], rel=1e-12)
    assert found.bias[anchor] == 0
    np.testing.assert_allclose(found.bias, reward - found.gain + jumping @ found.bias, **CLOSE)
    assert found.likeliest() == np.argmax(pi)
    expected = (1 - restart) * P[anchor] * (np.arange(6) != anchor)
    np.testing.assert_allclose(found.leaving, expected, rtol=1e-15)
    M = np.eye(6) - (1 - restart) * P
    M[anchor], M[:, anchor], M[anchor, anchor] = 0.0, 0.0, 1.0
    others = np.arange(6) != anchor
    earned, lasted = np.linalg.solve(M, reward * others), np.linalg.solve(M, 1.0 * others)
    np.testing.assert_allclose(found.noise, EPSILON * (np.abs(earned) + abs(found.gain) * lasted), rtol=1e-10)


def test_an_anchor_is_exchanged_only_if_it_is_back_later_than_ten_times_the_number_of_states():
    size = 4

    def cycle_time(rare: float) -> tuple[int, float]:
        P = np.full((size, size), (1 - rare) / (size - 1))
        P[:, 0] = rare
        found = evaluate(sp.csr_array(P), np.arange(4.0), 0, 0.0)
        return found.anchor, found.cycle

    assert cycle_time(1 / 39.5) == (0, pytest.approx(39.5))
    anchor, cycle = cycle_time(1 / 40.5)
    assert anchor != 0
    assert cycle < 4


@pytest.mark.parametrize("seed", range(4))
def test_visits_between_anchors_are_those_of_the_stationary_distributions(seed):
    blocks = [chain_of(seed, 4), chain_of(seed + 9, 3)]
    label = np.repeat([0, 1], [4, 3])
    visits = _visits(sp.csr_array(sp.block_diag(blocks)), label, np.array([1, 6]))
    for k, anchor in ((0, 1), (1, 6)):
        pi = stationary(blocks[k])
        np.testing.assert_allclose(visits[label == k], pi / pi[anchor - 4 * k], **CLOSE)


def test_a_rare_anchor_is_exchanged_for_the_likeliest_state_of_its_class():
    P = np.full((3, 3), 0.5 * (1 - 1e-4))
    P[:, 0] = 1e-4
    visits = _visits(sp.csr_array(P), np.zeros(3, np.int64), np.array([0]))
    assert visits.max() == pytest.approx(1.0, rel=1e-9)  # in units of the likeliest state
    kept = _visits(sp.csr_array(P), np.zeros(3, np.int64), np.array([0]), tries=1)
    assert kept[0] == 1.0
    assert kept[1] == pytest.approx((1 - 1e-4) / 2 / 1e-4, rel=1e-9)
    P[:, 0], P[:, 1:] = 2e-3, 0.5 * (1 - 2e-3)  # visited 250 times less than the others: not rare
    assert _visits(sp.csr_array(P), np.zeros(3, np.int64), np.array([0]))[0] == 1.0


def test_the_highest_of_each_class():
    values, label = np.array([1.0, 5.0, 5.0, -2.0, -1.0, 7.0]), np.array([0, 0, 0, 1, 1, 2])
    np.testing.assert_array_equal(_highest(values, label), [1, 4, 5])


def test_the_best_class_is_the_one_that_earns_most_and_transient_states_have_nothing():
    rooms = sp.block_diag([chain_of(3, 3), chain_of(4, 2), [[0.0]]]).toarray()
    rooms[5] = [0.1, 0, 0, 0.9, 0, 0]
    reward = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 9.0])
    for sign, states in ((1, [3, 4]), (-1, [0, 1, 2])):
        mass = best_class(sp.csr_array(rooms), sign * reward, np.zeros(6))
        expected = np.zeros(6)
        expected[states] = stationary(rooms[np.ix_(states, states)])
        np.testing.assert_allclose(mass, expected, **CLOSE)


# --- choices and improvement ----------------------------------------------------------------------------


def test_greedy_takes_the_first_of_the_best_entries():
    choices = choices_of()
    q = np.zeros(choices.node.size)
    np.testing.assert_array_equal(choices.greedy(q), choices.first)
    np.testing.assert_array_equal(choices.greedy(-q - np.arange(q.size)), choices.first)
    last = np.append(choices.first[1:], q.size) - 1
    np.testing.assert_array_equal(choices.greedy(np.arange(q.size) * 1.0), last)
    np.testing.assert_array_equal(choices.best(np.arange(q.size) * 1.0), last)


def test_an_entry_replaces_another_only_if_it_is_better_by_more_than_both_errors():
    choices = choices_of()
    entry = int(np.flatnonzero(np.diff(choices.node) == 0)[0])  # two entries of one node
    chosen = choices.first.copy()
    advantage, error = np.full(choices.node.size, -9.0), np.zeros(choices.node.size)
    advantage[chosen] = 0.0
    chosen[choices.node[entry]] = entry
    advantage[entry], advantage[entry + 1] = 1.0, 1.5
    error[entry], error[entry + 1] = 0.25, 0.25
    np.testing.assert_array_equal(choices.better(advantage, error, chosen), chosen)  # equal is not better
    for one, other in ((0.2, 0.25), (0.25, 0.2)):
        error[entry], error[entry + 1] = one, other
        assert choices.better(advantage, error, chosen)[choices.node[entry]] == entry + 1
    error[entry], error[entry + 1] = 0.0, 0.6
    assert choices.better(advantage, error, chosen)[choices.node[entry]] == entry
    error[entry], error[entry + 1] = 0.6, 0.0
    assert choices.better(advantage, error, chosen)[choices.node[entry]] == entry


def test_the_rounding_that_an_improvement_must_beat_is_that_of_its_terms(monkeypatch):
    choices, rng, seen = choices_of(), np.random.default_rng(0), []
    transitions, node = choices.members.mdp.transitions, choices.node
    reward, h = rng.normal(size=node.size), rng.normal(size=choices.num_nodes)
    noise = EPSILON * rng.random(choices.num_nodes)
    monkeypatch.setattr(Choices, "better", lambda self, *given: seen.append(given) or given[-1] * 0)
    improved(choices, reward, h, 0.9, noise, choices.first)
    size = np.abs(reward) + np.abs(h)[node] + transitions @ np.abs(h)
    for advantage, error, _ in seen:
        np.testing.assert_allclose(
            error, choices.num_terms * EPSILON * size + noise[node] + transitions @ noise
        )
        np.testing.assert_allclose(advantage, reward + 0.9 * (transitions @ h) - h[node], rtol=1e-12)
        h = swept(choices, reward, h, 0.9, 30)
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[0][2], choices.first)
    assert choices.num_terms == np.diff(transitions.indptr).max() + 4


def test_an_improvement_earns_at_least_as_much_and_the_best_policy_is_its_own():
    choices, rng = choices_of(3), np.random.default_rng(1)
    reward, P = rng.normal(size=choices.node.size), choices.members.mdp.transitions.toarray()

    def value(chosen):
        return np.linalg.solve(np.eye(choices.num_nodes) - 0.9 * P[chosen], reward[chosen])

    chosen, exact = choices.first, np.zeros(choices.num_nodes)
    better = improved(choices, reward, value(chosen), 0.9, exact, chosen)
    assert (value(better) >= value(chosen) - 1e-12).all()
    assert value(better).sum() > value(chosen).sum() + 0.1
    end = settled(choices, reward, 0.1, chosen)
    best, h = end.chosen, end.values
    assert 1 < end.iterations < 6
    np.testing.assert_allclose(h, value(best), **CLOSE)
    np.testing.assert_allclose(h, choices.best(reward + 0.9 * P @ h), rtol=1e-10)  # Bellman's equation
    assert improved(choices, reward, h, 0.9, exact, best) is best
    assert settled(choices, reward, 0.1, best).iterations == 1


def test_sweeps_are_bellmans_operator_again_and_again():
    choices = choices_of()
    reward, h = np.arange(choices.node.size) / 7, np.ones(choices.num_nodes)
    P = choices.members.mdp.transitions
    once = choices.best(reward + 0.8 * P @ h)
    np.testing.assert_allclose(swept(choices, reward, h, 0.8, 1), once, rtol=1e-14)
    np.testing.assert_allclose(
        swept(choices, reward, h, 0.8, 2), choices.best(reward + 0.8 * P @ once), rtol=1e-14
    )
    chosen, after = first_look(choices, reward, 0.8)
    np.testing.assert_array_equal(after, swept(choices, reward, 0 * h, 0.8, choices.num_nodes))
    np.testing.assert_array_equal(chosen, choices.greedy(reward + 0.8 * P @ after))


# --- bounds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"discount": 0.9}, {"horizon": 3}, {"eta": 0.01}], ids=str)
def test_an_advantage_is_what_the_flow_leaves_of_a_reward_and_its_rounding_counts_every_term(options):
    choices, rng = choices_of(2, **options), np.random.default_rng(5)
    members = choices.members
    question = ScaledReward.of(choices, 8 * rng.normal(size=members.num_pairs))
    assert np.abs(question.reward).max() == 1
    h = rng.normal(size=choices.num_nodes)
    advantage, error = question.advantage(h)
    np.testing.assert_allclose(advantage, question.reward - members.flow.T @ h, atol=1e-14)
    size = np.abs(question.reward) + choices.onward @ np.abs(h) + np.abs(h)[choices.node]
    np.testing.assert_allclose(error, choices.num_terms * EPSILON * size, rtol=1e-14)


@pytest.mark.parametrize("options", [{"discount": 0.05}, {"horizon": 3}, {"eta": 0.004}], ids=str)
def test_a_bound_adds_the_rounding_of_its_sums(options):
    choices = Choices(Occupancies.of(random_model(2, 40), **options))
    members, rng = choices.members, np.random.default_rng(5)
    question = ScaledReward.of(choices, rng.random(members.num_pairs))
    h = 1e6 * (rng.random(choices.num_nodes) + 0.5)
    wide = np.longdouble  # 11 bits more: what is left is the bound's own allowance
    most = wide(0) + sum(question.advantage(h))
    floor, count, inflow = members.floor, members.num_pairs, wide(1) * members.inflow
    nominal = inflow @ h + floor * most.sum() + max(0.0, 1 - wide(floor) * count) * most.max()
    allowance = choices.num_nodes * EPSILON * float(inflow @ np.abs(h))
    allowance += floor * count * EPSILON * float(np.abs(most).sum())
    found = float(question.upper_bound(h) - nominal)
    assert found == pytest.approx(
        allowance, rel=0.4
    )  # dozens of units in the last place, of which few are lost


def test_a_centred_potential_has_the_smallest_magnitude():
    np.testing.assert_array_equal(centred(np.array([1.0, 2.0, 7.0])), [-3.0, -2.0, 3.0])


# --- how long it takes ----------------------------------------------------------------------------------


@pytest.fixture
def grid(monkeypatch):
    """Returns a set that Howard's iteration has to solve: sweeps alone are not tried."""
    monkeypatch.setattr(policy_iteration, "_swept", lambda question, warm: None)
    return Occupancies.average(envs.grid_world(num_rows=8))


def place(members: Occupancies, state: int) -> np.ndarray:
    return 1.0 * (members.mdp.pair_state == state) + 0.01 * (members.mdp.pair_state % 7)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e6])
def test_asked_the_same_again_one_evaluation_is_enough(grid, size):
    oracle = PolicyIteration(grid)
    reward = size * np.random.default_rng(0).random(grid.num_pairs)
    assert policy_iteration._warm(ScaledReward.of(oracle.choices, reward), oracle.respond(reward)) is not None
    first = oracle.respond(reward)
    again = oracle.respond(reward, warm=first)
    assert first.iterations > again.iterations == 1
    assert again.value == pytest.approx(first.value, rel=1e-12)
    np.testing.assert_array_equal(again.policy, first.policy)


def test_an_answer_far_from_the_best_is_no_start(grid, monkeypatch):
    oracle = PolicyIteration(grid)
    far = oracle.respond(place(grid, 0))
    begun = []
    howard = policy_iteration._howard
    monkeypatch.setattr(policy_iteration, "_howard", lambda *given: begun.append(given[-1]) or howard(*given))
    oracle.respond(place(grid, 0), warm=far)
    assert begun == [policy_iteration.WARM_ITERATIONS]
    begun.clear()
    oracle.respond(place(grid, 63) - place(grid, 0), warm=far)
    assert begun == [policy_iteration.MAX_ITERATIONS]


def test_far_is_relative_to_what_can_be_earned_at_all():
    rings = np.zeros((11, 2, 11))  # from 0 round 1 to 5 or round 6 to 10: a place is seen every sixth step
    rings[0, 0, 1] = rings[0, 1, 6] = rings[5, :, 0] = rings[10, :, 0] = 1.0
    for s in (*range(1, 5), *range(6, 10)):
        rings[s, :, s + 1] = 1.0
    members = Occupancies.average(MDP(rings))
    oracle = PolicyIteration(members)
    there = oracle.respond(1.0 * (members.mdp.pair_state == 3))
    assert there.value == pytest.approx(1 / 6, rel=1e-12)
    for share, is_far in ((0.0, True), (0.7, True), (0.8, False), (1.0, False)):
        reward = 1.0 * (members.mdp.pair_state == 8) + share * (members.mdp.pair_state == 3)
        found = policy_iteration._warm(ScaledReward.of(oracle.choices, reward), there)
        assert (found is None) == is_far


def test_an_answer_to_losses_is_a_start_for_the_same_losses(grid):
    oracle, losses = PolicyIteration(grid), place(grid, 5) - 2.0
    answer = oracle.respond(losses)
    assert answer.value < 0
    assert policy_iteration._warm(ScaledReward.of(oracle.choices, losses), answer) is not None


def test_a_response_over_several_rooms_is_that_of_the_best_and_zero_outside():
    P = np.zeros((5, 2, 5))
    P[0, :, 0] = P[1, 0, 2] = P[1, 1, 1] = P[2, 0, 1] = P[2, 1, 2] = 1.0  # rooms {0} and {1, 2}
    P[3, 0, 0] = P[3, 1, 1] = 1.0  # a hall that leads to either
    P[4, :, 3] = 1.0
    members = Occupancies.average(MDP(P))
    reward = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 1.0], [9.0, 9.0], [9.0, 9.0]])
    answer = best_response(members, reward)
    np.testing.assert_allclose(members.table(answer.occupancy)[1:3, 0], 0.5, rtol=1e-12)
    assert answer.value == pytest.approx(4.0, rel=1e-12)
    assert 4.0 <= answer.upper_bound <= 4.0 + 1e-8
    assert not answer.potential[3:].any()
    assert answer.iterations >= 2
    policy = members.table(answer.policy)
    np.testing.assert_array_equal(policy[3:], 0.5)
    np.testing.assert_array_equal(policy[0], [0, 1])
    again = best_response(members, reward, warm=answer)
    np.testing.assert_array_equal(again.occupancy, answer.occupancy)
    assert best_response(members, -reward).value == pytest.approx(0.0, abs=1e-12)


def test_howards_iteration_ends_where_nothing_is_better_with_a_certified_gap(grid):
    question = ScaledReward.of(Choices(grid), place(grid, 5))
    chosen, _ = first_look(question.choices, question.reward, 0.999)
    end = policy_iteration._howard(question, question.choices.first, 0, 50)
    assert 1 < end.iterations < 12
    assert abs(end.gap) <= policy_iteration.FINISHED
    assert policy_iteration._howard(question, end.chosen, 0, 50).iterations == 1
    cut = policy_iteration._howard(question, question.choices.first, 0, 1)
    assert cut.iterations == 1
    assert cut.gap > 1e-3
    advantage, error = question.advantage(cut.potential)
    assert cut.gap == float((advantage + error).max()) - cut.gain  # rounding is added, not hoped away
    assert policy_iteration._howard(question, chosen, 0, 50).gain == pytest.approx(end.gain, rel=1e-9)


def test_iterations_are_those_of_every_start(grid, monkeypatch):
    oracle, reward = PolicyIteration(grid), np.random.default_rng(0).random(grid.num_pairs)
    question = ScaledReward.of(oracle.choices, reward)
    cold = policy_iteration._cold(question).iterations
    answer = oracle.respond(reward)
    assert answer.iterations == cold
    monkeypatch.setattr(policy_iteration, "WARM_GAP", -1.0)  # no warm start is good enough
    assert oracle.respond(reward, warm=answer).iterations == cold + 1


def test_a_program_that_is_infeasible_for_another_reason_says_so(monkeypatch):
    oracle = LPOracle(Occupancies.average(random_model(0), eta=0.001))

    def refuse(reward):
        raise InfeasibleProgramError("no point")

    monkeypatch.setattr(oracle.program, "solve", refuse)
    with pytest.raises(InfeasibleProgramError, match="no point"):
        oracle.respond(np.ones(oracle.members.num_pairs))


def test_polishing_leaves_a_finished_stage_alone_and_repairs_a_potential(grid):
    question = ScaledReward.of(Choices(grid), place(grid, 5))
    end = policy_iteration._howard(question, question.choices.first, 0, 50)
    assert policy_iteration._polished(question, end) is end
    wrong = replace(end, potential=end.potential + 1e-3 * np.arange(end.potential.size) % 1.0, gap=1e-3)
    polished = policy_iteration._polished(question, wrong)
    assert polished.gap < 1e-8
    assert polished.iterations > end.iterations
    stuck = replace(end, gap=2 * policy_iteration.FINISHED)  # nothing halves such a gap: the better is kept
    assert policy_iteration._polished(question, stuck).gap <= stuck.gap


def test_a_cold_start_looks_ahead_with_runs_that_stop_and_a_warm_one_without(grid, monkeypatch):
    cold, sweeps = [], []
    look, sweep = policy_iteration.first_look, policy_iteration.swept
    monkeypatch.setattr(policy_iteration, "first_look", lambda *given: cold.append(given[2]) or look(*given))
    monkeypatch.setattr(policy_iteration, "swept", lambda *given: sweeps.append(given[3:]) or sweep(*given))
    oracle, keep = PolicyIteration(grid), 1 - policy_iteration.STOP
    answer = oracle.respond(place(grid, 5))
    assert (cold, sweeps) == ([keep], [(keep, min(policy_iteration.FIRST_LOOK, grid.mdp.num_states))])
    oracle.respond(place(grid, 5), warm=answer)
    assert (len(cold), sweeps[1:]) == (1, [(1.0, 30)])


@pytest.mark.parametrize("method", ["policy_iteration", "value_iteration"])
def test_backward_induction_is_one_iteration(method):
    members = Occupancies.horizon(random_model(0), 3)
    assert best_response(members, np.ones(members.num_pairs), method=method).iterations == 1


def test_only_long_run_sets_without_a_floor_come_apart():
    rooms = MDP(np.eye(2)[:, None, :], start=0)
    assert comes_apart(Occupancies.average(rooms)) is not None
    for options in ({"eta": 0.1}, {"discount": 0.5}, {"horizon": 2}):
        assert comes_apart(Occupancies.of(rooms, **options)) is None
    assert comes_apart(Occupancies.average(random_model(0))) is None


def test_value_iteration_stops_at_the_first_sweep_whose_changes_are_even():
    mdp = MDP(np.array([[[0.5, 0.5]], [[0.5, 0.5]]]), start=[1.0, 0.0])
    for discount in (None, 0.5):
        members = Occupancies.of(mdp, discount=discount)
        oracle = ValueIteration(members, tol=1e-6)
        answer = oracle.respond([1.0, -1.0])
        h, sweeps, keep = np.zeros(2), 0, discount or 1.0
        while True:
            sweeps += 1
            change = np.array([1.0, -1.0]) + keep * h.mean() - h
            if np.ptp(change) <= 1e-6:
                break
            h = centred(h + (0.9 if discount is None else 1.0) * change)
        assert answer.iterations == sweeps
        assert answer.gap <= 2e-6
        assert oracle.respond([1.0, -1.0], warm=answer).iterations == 1


def test_sweeps_alone_are_an_answer_where_they_prove_enough(crowd):
    question = ScaledReward.of(crowd, np.random.default_rng(3).random(600))
    stage = policy_iteration._swept(question, None)
    assert stage is not None
    assert stage.iterations == 1
    assert stage.gap <= policy_iteration.FINISHED
    advantage, error = question.advantage(stage.potential)
    assert stage.gain == advantage[stage.chosen].min()
    assert stage.gap == (advantage + error).max() - stage.gain
    np.testing.assert_array_equal(stage.chosen, crowd.greedy(advantage))
    answer = PolicyIteration(crowd.members).respond(question.reward)
    assert answer.value == pytest.approx(stage.gain, abs=1e-10)


@pytest.mark.parametrize("method", ["policy_iteration", "value_iteration", "lp"])
@pytest.mark.parametrize("options", [{}, {"discount": 0.7}, {"horizon": 3}], ids=str)
def test_an_answer_is_what_its_policy_visits(method, options):
    members = Occupancies.of(random_model(4), **options)
    answer = best_response(members, np.random.default_rng(0).random(members.num_pairs), method=method)
    np.testing.assert_allclose(answer.occupancy, members.from_policy(answer.policy), atol=1e-9)


def test_an_answer_says_how_much_it_may_miss():
    members = Occupancies.average(random_model(0))
    answer = best_response(members, np.arange(members.num_pairs))
    assert answer.gap == answer.upper_bound - answer.value >= 0
    assert answer.value == pytest.approx(answer.occupancy @ np.arange(members.num_pairs), rel=1e-14)


# --- sweeps ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd():
    """Returns the choices of a model of 300 states that forgets where it was at once."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(300), size=(300, 2))
    return Choices(Occupancies.average(MDP(P, start=0)))


@pytest.mark.parametrize("keep", [1.0, 0.9])
def test_sweeps_settle_the_values_of_a_model_that_mixes_fast(crowd, keep):
    reward = np.random.default_rng(1).random(600)
    h = values_by_sweeps(crowd, reward, np.zeros(300), keep)
    assert h is not None
    change = crowd.best(reward + keep * (crowd.members.mdp.transitions @ h)) - h
    assert np.ptp(change) <= 1e-12
    assert h.max() == pytest.approx(-h.min(), rel=1e-12)  # centred: only differences matter


@pytest.mark.parametrize("keep", [1.0, 0.9])
def test_sweeps_settle_the_visits_of_a_chain_that_mixes_fast(crowd, keep):
    P = crowd.members.mdp.transitions[crowd.first]
    start = np.random.default_rng(2).dirichlet(np.ones(300))
    x = visits_by_sweeps(P, (1 - keep) * start, keep)
    assert x is not None
    assert x.sum() == pytest.approx(1, abs=1e-13)
    np.testing.assert_allclose(x, (1 - keep) * start + keep * (x @ P.toarray()), atol=1e-16)


@pytest.mark.parametrize("seed", range(6))
def test_compiled_sweeps_are_those_of_numpy(seed):
    choices, rng = choices_of(seed), np.random.default_rng(seed)
    P = choices.members.mdp.transitions
    rows = (P.indptr, P.indices, P.data)
    reward, h = rng.normal(size=choices.node.size), rng.normal(size=choices.num_nodes)
    expected = h
    for sweeps in range(3):
        found = evaluation.best_values(*rows, choices.first, reward, 0.7, h, sweeps)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        expected = choices.best(reward + 0.7 * (P @ expected))
    q = reward + 0.7 * (P @ h)
    chosen, expected = choices.greedy(q), choices.best(q)
    uneven = np.ptp(expected - h)
    for sweeps in range(3):
        found, spread = evaluation.improved_values(*rows, choices.first, reward, 0.7, h, sweeps)
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        assert spread == pytest.approx(uneven, rel=1e-13)
        expected = reward[chosen] + 0.7 * (P[chosen] @ expected)
    chain = P[choices.first]
    inflow, x = rng.random(choices.num_nodes), rng.random(choices.num_nodes)
    before = expected = x
    for sweeps in range(3):
        found, moved = evaluation.moved_visits(
            chain.indptr, chain.indices, chain.data, inflow, 0.7, x, sweeps
        )
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert moved == pytest.approx(np.abs(expected - before).sum(), rel=1e-12)
        before, expected = expected, inflow + 0.7 * (chain.T @ expected)


def test_sweeps_of_values_go_on_while_each_batch_leaves_little(crowd, monkeypatch):
    def trial(*unevenness: float):
        script = iter(unevenness)
        monkeypatch.setattr(evaluation, "improved_values", lambda *given: (given[6] + 1.0, next(script)))
        found = values_by_sweeps(crowd, np.zeros(600), np.zeros(300), 1.0)
        assert next(script, None) is None  # every batch of the script was taken
        return found

    fast = evaluation.FAST
    assert trial(1.0, 0.99 * fast, 0.98 * fast**2, evaluation.ALIKE) is not None
    assert trial(9.0, fast * 9.0, 0.0) is not None
    assert trial(1.0, 1.01 * fast) is None
    assert trial(0.5, 0.49) is None
    assert trial(np.nan) is None
    assert trial(evaluation.ALIKE) is not None


def test_sweeps_of_visits_go_on_while_each_batch_leaves_little_and_end_at_rounding(crowd, monkeypatch):
    chain = crowd.chain(crowd.first)

    def trial(*moves: float):
        script = iter(moves)
        monkeypatch.setattr(evaluation, "moved_visits", lambda *given: (given[5], next(script)))
        found = visits_by_sweeps(chain, np.zeros(300), 1.0)
        assert next(script, None) is None
        return found

    keep = evaluation.FORGETFUL
    np.testing.assert_array_equal(trial(keep, 0.9 * keep**2, evaluation.STILL), np.full(300, 1 / 300))
    assert trial(2.01 * keep) is None  # at most 2 can move to begin with
    assert trial(1.99 * keep, 2.0 * keep**2) is None
    assert trial(keep, 0.5 * keep**2, 1e-13, 2e-15, 2e-15) is not None  # rounding leaves more
    assert trial(keep, 0.5 * keep**2, 1e-13, 2e-14) is None
    assert trial(np.nan) is None


def test_sweeps_are_not_tried_on_small_models_and_given_up_on_slow_ones():
    small = choices_of()
    assert values_by_sweeps(small, np.ones(small.node.size), np.zeros(5), 1.0) is None
    assert visits_by_sweeps(small.chain(small.first), np.zeros(5), 1.0) is None
    slow = Choices(Occupancies.average(envs.river_swim(num_states=300)))  # drifts from one end to the other
    reward = np.arange(slow.node.size) % 5 / 5
    assert values_by_sweeps(slow, reward, np.zeros(300), 1.0) is None
    assert visits_by_sweeps(slow.chain(slow.first), np.zeros(300), 1.0) is None
