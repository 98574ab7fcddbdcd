"""Sweeps instead of factorisations: the same answers where models mix fast, and given up where they do not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover.oracles import best_response, evaluation, make_oracle
from rhocover.oracles.evaluation import values_by_sweeps, visits_by_sweeps
from rhocover.oracles.policy_iteration import swept
from rhocover.oracles.response import Choices


def random_graph(num_states: int = 400) -> rc.MDP:
    return rc.envs.garnet(num_states=num_states, num_actions=3, num_successors=5)


def sets(mdp: rc.MDP) -> dict[str, rc.Occupancies]:
    return {
        "average": rc.Occupancies.average(mdp),
        "discounted": rc.Occupancies.discounted(mdp, 0.97, start=0),
    }


def rewards(mdp: rc.MDP, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(mdp.num_pairs)


@pytest.mark.parametrize("keep", [1.0, 0.9])
def test_compiled_sweeps_have_the_bits_of_matrix_products(keep):
    mdp = random_graph()
    choices, reward = Choices(rc.Occupancies.average(mdp)), rewards(mdp)
    h = expected = rewards(mdp, 1)[: mdp.num_states]
    for _ in range(7):
        expected = choices.best(reward + keep * (mdp.transitions @ expected))
    assert np.array_equal(swept(choices, reward, h, keep, 7), expected)


@pytest.mark.parametrize("criterion", ["average", "discounted"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_graph_is_answered_without_a_factorisation_as_well_as_with_one(criterion, seed, monkeypatch):
    mdp = random_graph()
    members, reward = sets(mdp)[criterion], rewards(mdp, seed)
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "splu", None)  # a factorisation would fail
        oracle = make_oracle(members)
        answer = oracle.respond(reward)
        again = oracle.respond(rewards(mdp, seed + 10), warm=answer)
    monkeypatch.setattr(evaluation, "SMALL", mdp.num_states + 1)
    factorised = best_response(members, reward)
    # Both certify 1e-11 of rewards below 1.
    assert answer.gap <= 1e-11
    assert abs(answer.value - factorised.value) <= 2e-11
    assert again.gap <= 1e-11
    assert abs(again.value - best_response(members, rewards(mdp, seed + 10)).value) <= 2e-11
    assert np.abs(answer.occupancy - factorised.occupancy).sum() <= 1e-10
    assert members.contains(answer.occupancy, 1e-13)  # sweeps stop at 1e-15 of all visits


def test_sweeps_are_given_up_on_a_grid():
    mdp = rc.envs.grid_world(num_rows=12, num_columns=12, success=0.9)
    choices = Choices(rc.Occupancies.average(mdp))
    assert values_by_sweeps(choices, rewards(mdp), np.zeros(mdp.num_states), 1.0) is None
    walk = sp.csr_array(mdp.transitions[choices.first])
    assert visits_by_sweeps(walk, np.zeros(mdp.num_states), 1.0) is None


def test_sweeps_are_given_up_on_a_cycle_which_never_forgets():
    size = 80
    cycle = sp.csr_array((np.ones(size), (np.arange(size), (np.arange(size) + 1) % size)))
    even = visits_by_sweeps(cycle, np.zeros(size), 1.0)
    assert even is not None
    assert np.allclose(even, 1 / size)
    start = np.zeros(size)
    start[0] = 0.1
    assert visits_by_sweeps(cycle, start, 0.9) is None


@pytest.mark.parametrize("keep", [1.0, 0.95])
def test_swept_visits_balance_and_sum_to_one(keep):
    mdp = random_graph()
    chain = sp.csr_array(mdp.transitions[::3])
    inflow = (1 - keep) * np.full(mdp.num_states, 1 / mdp.num_states)
    x = visits_by_sweeps(chain, inflow, keep)
    assert x is not None
    assert np.abs(inflow + keep * (x @ chain) - x).sum() <= 1e-14
    assert abs(x.sum() - 1) <= 1e-13
