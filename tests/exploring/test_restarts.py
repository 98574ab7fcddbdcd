"""Runs that restart are long runs of the acting model: one criterion serves all three."""

from __future__ import annotations

import numpy as np
import pytest
from exploring_models import INF, problem_of, random_model

import rhocover as rc
from rhocover import Occupancies
from rhocover.exploring.problem import acting_model, node_start
from small_models import random_weights
from tiers import tiered

CRITERIA = {"discounted": {"discount": 0.8}, "nearly one": {"discount": 0.999}, "horizon": {"horizon": 6}}
MODELS = {
    "river": (rc.envs.river_swim(), {"start": 0}),
    "actions by state": (random_model(1), {}),
    "more states": (random_model(2, 8, 4), {}),
}


def sets_of(model: str, criterion: str) -> tuple[Occupancies, Occupancies]:
    """Returns the occupancies of a criterion, and the stationary ones of its acting model."""
    mdp, start = MODELS[model]
    members = Occupancies.of(mdp, **CRITERIA[criterion], **start)
    return members, Occupancies.average(acting_model(members))


def random_policy(members: Occupancies, seed: int) -> np.ndarray:
    policy = np.random.default_rng(seed).random(members.num_pairs) + 0.05
    return policy / np.bincount(members.node, policy)[members.node]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("model", MODELS)
def test_the_occupancy_of_a_policy_is_its_stationary_one_in_the_acting_model(model, criterion):
    # Mutants: a start that is not weighted, a last step that goes on, pairs in another order.
    members, acting = sets_of(model, criterion)
    assert acting.num_pairs == members.num_pairs
    for seed in range(5):
        policy = random_policy(members, seed)
        # Both are direct solves; a discount of 0.999 costs three digits of 1e-15.
        assert acting.from_policy(policy) == pytest.approx(members.from_policy(policy), abs=1e-11)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("model", MODELS)
def test_every_row_of_an_acting_model_restarts_as_often_as_the_criterion_says(model, criterion):
    members, acting = sets_of(model, criterion)
    P = acting.mdp.transitions.toarray()
    start = node_start(members, members.start)
    assert start.sum() == pytest.approx(1, abs=1e-15)
    if members.criterion == "discounted":
        expected = members.discount * members.mdp.transitions.toarray() + (1 - members.discount) * start
        np.testing.assert_allclose(P, expected, atol=1e-15)
        return
    last = members.step == members.num_steps - 1
    np.testing.assert_allclose(P[last], np.broadcast_to(start, P[last].shape), atol=1e-15)
    step = np.zeros(acting.mdp.num_states, int)
    step[members.node] = members.step
    source, target = P[~last].nonzero()
    np.testing.assert_array_equal(step[target], members.step[~last][source] + 1)


def test_one_step_episodes_always_are_at_the_start():
    mdp, _ = MODELS["actions by state"]
    run = rc.explore(mdp, 1, 2000, horizon=1, start=[0.25, 0, 0, 0.75, 0], restrict=True)
    assert run.counts.shape == (1, 5, 3)
    assert run.counts[0].sum(axis=1)[[1, 2, 4]].sum() == 0
    assert run.is_complete


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
@pytest.mark.parametrize("criterion", tiered(CRITERIA))
@pytest.mark.parametrize("model", tiered(MODELS))
def test_the_best_plan_of_a_criterion_is_that_of_the_acting_model(model, criterion, rho):
    mdp, start = MODELS[model]
    mu = random_weights(mdp, 5)
    asked = rc.plan(mdp, rho, mu, **CRITERIA[criterion], **start, restrict=True)
    problem = problem_of(mdp, rho, mu, **CRITERIA[criterion], **start, restrict=True)
    assert problem.best.divergence == pytest.approx(asked.divergence, abs=1e-7)  # two gaps of up to 1e-8
    table = problem.table(problem.d_star)
    assert table.shape == asked.occupancy.shape
    assert asked.coverage.divergence(problem.question.members.flatten(table, "d")) == pytest.approx(
        asked.divergence, abs=1e-7
    )


@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking", "stationary", "algorithm1"]))
def test_a_discounted_run_has_its_counts_in_the_callers_shape_and_restarts_at_the_rate_asked_for(explorer):
    mdp, num_steps = rc.envs.river_swim(), 20_000
    run = rc.explore(mdp, 2, num_steps, discount=0.9, start=2, explorer=explorer, trace_points=3)
    assert run.counts.shape == run.occupancy.shape == (6, 2)
    assert run.counts.sum() == num_steps
    assert run.first_states.tolist() == [2]
    assert run.is_complete
    assert run.identity_error() <= 1e-10
    # Only a restart leads from state 0 or 4, 5 to state 2: the rate is 0.1, here with 6 standard errors
    # of a binomial, which chance exceeds once in 5e8.
    seen = run.transitions.toarray()
    far = np.isin(run.problem.mdp.pair_state, [0, 4, 5])
    restarts, chances = seen[far, 2].sum(), seen[far].sum()
    assert abs(restarts - 0.1 * chances) <= 6 * np.sqrt(0.09 * chances)


@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking", "stationary", "algorithm1"]))
def test_every_episode_of_a_run_with_a_horizon_begins_at_the_start_and_has_all_its_steps(explorer):
    mdp, horizon, episodes = rc.envs.river_swim(), 7, 2000
    run = rc.explore(
        mdp, 1, horizon * episodes, horizon=horizon, start=0, restrict=True, explorer=explorer, trace_points=3
    )
    assert run.counts.shape == (horizon, 6, 2)
    np.testing.assert_array_equal(run.counts.sum(axis=(1, 2)), episodes)  # every step of every episode
    assert run.counts[0, 0].sum() == episodes  # in the start state
    assert not run.counts[0, 1:].any()
    assert run.is_complete
    assert run.identity_error() <= 1e-10
    name, count = run.least_visited
    assert " at step " in name
    assert count == run.counts[run.counts > 0].min()


def test_counts_flow_from_step_to_step_of_an_episode():
    run = rc.explore(rc.envs.river_swim(), 2, 7 * 500, horizon=7, start=0, restrict=True)
    counts, P = run.counts, rc.envs.river_swim().dense()
    allowed = np.einsum("sat,hsa->ht", P > 0, counts > 0) > 0
    for h in range(6):
        assert not counts[h + 1].sum(axis=1)[~allowed[h]].any()
    assert run.trace["divergence"][-1] == pytest.approx(
        run.coverage.divergence(run.problem.question.members.flatten(run.occupancy, "d")), abs=1e-12
    )


def test_several_chains_restart_each_for_itself():
    run = rc.explore(rc.envs.river_swim(), 2, 7 * 400, horizon=7, start=0, restrict=True, num_chains=4)
    np.testing.assert_array_equal(run.counts.sum(axis=(1, 2)), 400)
    assert run.first_states.tolist() == [0, 0, 0, 0]
