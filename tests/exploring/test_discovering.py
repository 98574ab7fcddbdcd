"""Discovery finds everything soon, wastes nothing, and begins again when the world turns out larger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exploring_models import INF

import rhocover as rc
from rhocover import MDP
from rhocover.exploring import Algorithm1, Tracking
from rhocover.exploring.belief import discovery
from rhocover.exploring.belief.discovery import (
    Discovering,
    discovery_block,
    has_missing,
    is_discovering,
    trials_due,
)
from rhocover.exploring.belief.learned import Frame, Learned, LearnedModel
from rhocover.exploring.explorers import renewed
from rhocover.exploring.explorers.algorithm1 import Constant, Quadratic
from rhocover.exploring.worlds import SamplePolicy, Visits
from rhocover.exploring.worlds.simulator import Simulator
from small_models import random_model
from tiers import tiered

HARD = {
    "RiverSwim(20)": rc.envs.river_swim(num_states=20),
    "DeepSea(10)": rc.envs.deep_sea(size=10),
    "DoubleChain(31)": rc.envs.double_chain(num_states=31),
}


def with_rare_state(p: float = 1 / 300) -> MDP:
    """Returns three states in a ring and a fourth with actions of its own, found once in 1/p tries of (2, 1)."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[1, 0, 2] = P[2, 0, 0] = 1.0
    P[0, 1, [0, 2]] = P[1, 1, [0, 1]] = 0.5
    P[2, 1, [0, 3]] = 1 - p, p
    P[3, 0, [0, 3]] = 0.5
    P[3, 1, 1] = 1.0
    return MDP(P, start=0)


def first_belief(world: MDP, settings: Learned) -> LearnedModel:
    frame = Frame(world, None, 2.0, np.ones(world.num_pairs), None, np.array([0]), 0)  # pyright: ignore
    return LearnedModel(settings, frame, "met", np.zeros(world.transitions.nnz, np.int64))


@pytest.fixture
def targets(monkeypatch):
    """Returns the beliefs that led to discovery targets."""
    beliefs = []

    def recorded(belief):
        beliefs.append(belief)
        return discovery_block(belief)

    monkeypatch.setattr(discovery, "discovery_block", recorded)
    return beliefs


# --- everything is found soon -------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("model", tiered(["learned", "from_scratch"]))
@pytest.mark.parametrize("world", tiered(HARD))
def test_hard_worlds_are_complete_within_twenty_times_what_the_model_would_allow(world, model):
    """Random acting takes 2^20 steps in RiverSwim(20) and 2^10 episodes in DeepSea(10)."""
    mdp = HARD[world]
    most = int(20 * rc.budget(mdp, visits=1).expected_steps)
    for seed in range(5):
        run = rc.explore(mdp, 2, most, explorer="tracking", model=model, seed=seed, trace_points=1)
        assert run.is_complete, f"seed {seed}: {run.coverage_text} after {most} steps"


def test_acting_at_random_does_not_find_everything_by_then():
    """So the theorem above says something."""
    mdp = HARD["RiverSwim(20)"]
    most = int(20 * rc.budget(mdp, visits=1).expected_steps)
    simulator, seen = Simulator(mdp, np.eye(20)[0]), Visits.none(mdp)
    simulator.advance(simulator.begin(0), simulator.follow(SamplePolicy(np.ones(mdp.num_pairs))), seen, most)
    assert (seen.pairs == 0).any()


# --- nothing is wasted --------------------------------------------------------------------------------


@pytest.mark.parametrize("know_states", tiered([True, False]))
@pytest.mark.parametrize("seed", tiered(range(4)))
def test_discovery_takes_no_visited_pair_where_an_untried_one_is_at_hand(seed, know_states):
    """Step by step, with the visits of the step before; also in states that discovery itself found."""
    world = [random_model(seed, 8, 4, holes=0.6), HARD["DeepSea(10)"]][seed % 2]
    simulator, seen = Simulator(world, np.eye(world.num_states)[0]), Visits.none(world)
    actor, position = Discovering(Tracking()), simulator.begin(seed)
    position.states[:] = 0
    state = actor.init(first_belief(world, Learned(know_states=know_states)))
    visits, steps = np.zeros(world.num_pairs, int), 0
    while is_discovering(state.belief) and steps < 1500:
        block = actor.policy(state)
        assert block.in_world
        act = simulator.follow(block.behaviour)
        for _ in range(block.num_steps):
            untried = (world.pair_state == position.states[0]) & (visits == 0)
            before = seen.pairs.copy()
            simulator.advance(position, act, seen, 1)
            pair = int(np.flatnonzero(seen.pairs - before)[0])
            assert visits[pair] == 0 or not untried.any()
            visits[pair] += 1
            steps += 1
        state = actor.update(state, state.belief.own(seen))
        state = renewed(actor, state) if state.belief.is_due else state
        seen.next_block()
    assert (visits > 0).all()


@pytest.mark.parametrize("model", tiered(["learned", "from_scratch"]))
def test_discovery_blocks_are_short_while_little_is_known_and_never_long(model, targets):
    rc.explore(HARD["DeepSea(10)"], 2, 2000, explorer="tracking", model=model, seed=0, trace_points=1)
    steps = np.array([belief.num_steps for belief in targets])
    gaps = np.diff(steps)
    assert steps[0] == 0
    assert (gaps[steps[:-1] < 128] == 1).all()
    assert gaps[steps[1:] < 400].max() <= 32


def test_each_pair_is_tried_log2_t_times_while_states_may_be_missing_and_once_otherwise():
    world = with_rare_state()
    scratch, learned = (first_belief(world, Learned(know_states=know)) for know in (False, True))
    for belief in (scratch, learned):
        assert has_missing(belief)
        assert [trials_due(replace(belief, num_steps=t)) for t in (0, 2, 6, 1022)] == [1, 2, 3, 10]
    everything = np.ones(world.transitions.nnz, np.int64)
    assert trials_due(replace(learned, moves=everything, num_steps=1022)) == 1
    assert trials_due(replace(scratch, moves=everything, num_steps=1022)) == 10


@pytest.mark.parametrize("num_steps", tiered([1000, 8000]))
def test_from_scratch_every_pair_has_been_tried_log2_t_times_whatever_the_weights(num_steps):
    """Weights of zero on most pairs: coverage alone would never take them."""
    world = rc.envs.river_swim()
    mu = np.zeros((6, 2))
    mu[0, 0] = mu[5, 1] = 1.0
    run = rc.explore(world, 2, num_steps, mu, model="from_scratch", seed=0, trace_points=1)
    # At the end discovery may be under way for the last one.
    assert run.visits.min() >= np.log2(num_steps) - 1
    known = rc.explore(world, 2, num_steps, mu, model="known", seed=0, trace_points=1)
    assert known.visits.min() < np.log2(num_steps) - 1


# --- episodes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", tiered([Quadratic(), Constant(50)]))
def test_discovery_blocks_are_not_episodes_of_algorithm_1(schedule, targets):
    run = rc.explore(
        rc.envs.river_swim(), 2, 4000, explorer=Algorithm1(schedule), model="learned", seed=0, trace_points=1
    )
    assert len(targets) > 5
    assert [episode.k for episode in run.episodes] == list(range(1, len(run.episodes) + 1))
    for episode in run.episodes[:-1]:
        assert episode.tau == schedule.length(episode.k, episode.t)
    first = run.episodes[0].t
    assert first > targets[-1].num_steps
    assert first + sum(episode.tau for episode in run.episodes) == 4000
    ends = [episode.t + episode.tau for episode in run.episodes]
    assert ends[:-1] == [episode.t for episode in run.episodes[1:]]


# --- late finds ---------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [0.0, 2.0, INF])
@pytest.mark.parametrize(
    ("explorer", "model"),
    [
        ("feedback", "learned"), ("feedback", "from_scratch"), ("tracking", "learned"),
        ("stationary", "from_scratch"), ("algorithm1_short", "learned"),
    ],
)  # fmt: skip
def test_discovery_begins_again_when_a_new_state_is_met_late(explorer, model, rho, targets):
    """The explorer had taken over; then a state turns up that its plans did not know.

    Who is there twice has tried both actions, unless the block that found it plays at random to its end.
    Mutants: a problem that is not made again, memory over the pairs of the smaller world.
    """
    late = 0
    for seed in range(3):
        targets.clear()
        run = rc.explore(
            with_rare_state(), rho, 5000, explorer=explorer, model=model, seed=seed, trace_points=1
        )
        assert run.visits.sum() == run.moves.sum() == 5000
        own = run.visits[run.problem.mdp.pair_state == 3]
        if explorer in ("feedback", "tracking") and own.sum() >= 2:
            assert own.min() >= 1
        missing, found = (
            [belief.num_steps for belief in targets if belief.known.states.size == k] for k in (3, 4)
        )
        if found:
            assert found[0] > missing[-1]
            late += found[0] > missing[-1] + 32
            assert run.belief.planned.states.size == 4
            assert run.belief.problem.mdp.num_pairs == 8
    assert late >= 1, "the state was never met late: nothing was shown"


@pytest.mark.parametrize("explorer", tiered(["feedback", "tracking"]))
def test_with_discovery_off_all_states_are_planned_for_from_the_start(explorer):
    settings = Learned(discovery=False)
    run = rc.explore(rc.envs.river_swim(), 2, 3000, explorer=explorer, model=settings, seed=0, trace_points=1)
    assert run.is_complete
    assert run.belief.scope == "all"
