"""The model of an environment's table is the chain that the environment walks, and says what it leaves out."""

from __future__ import annotations

import copy
import itertools
import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rhocover as rc
from rhocover.chains import is_communicating, policy_chain, stationary_distribution
from rhocover.environments.table_model import read_table, table_model
from rhocover.errors import InvalidArgumentError, InvalidModelError
from rhocover.report.figures.drawing import cells_of
from tiers import tiered

TABLES = {  # recurrent states, of all; the best worst ratio; that of a uniform random policy
    "FrozenLake-v1": (11, 16, 4.068, 12.5),
    "FrozenLake8x8-v1": (53, 64, 14.757, 1785),
    "CliffWalking-v1": (37, 48, 1.520, 43.6),
    "Taxi-v4": (400, 500, 1.020, 4.1),
}


class Tabled(gym.Env):
    """An environment that is its table, with the numbers of states and actions from `first` on."""

    def __init__(self, table, start, *, num_states, num_actions=1, first=0):
        self.observation_space = spaces.Discrete(num_states, start=first)
        self.action_space = spaces.Discrete(num_actions, start=first)
        self.P = table
        if start is not None:
            self.initial_state_distrib = start


def uniform_worst_ratio(model: rc.MDP) -> float:
    policy = np.full((model.num_states, model.num_actions), 1 / model.num_actions)
    d = stationary_distribution(policy_chain(model, policy)) / model.num_actions
    return 1 / (model.num_pairs * float(d.min()))


# The bars.


@pytest.mark.parametrize("name", TABLES)
def test_the_recurrent_states_and_the_best_worst_ratio_are_the_known_ones(name) -> None:
    num_kept, num_states, best, uniform = TABLES[name]
    model = table_model(gym.make(name))
    assert model.num_states == num_kept
    assert is_communicating(model)
    assert model.name == name
    assert model.note.startswith(f"{num_kept} of {num_states} states")
    assert round(rc.plan(model, rho=math.inf).worst_ratio, 3) == best
    assert float(f"{uniform_worst_ratio(model):.{len(str(uniform).replace('.', ''))}g}") == uniform


def test_the_public_door_leads_here() -> None:
    env = gym.make("FrozenLake-v1")
    assert rc.MDP.from_gymnasium(env).fingerprint == table_model(env).fingerprint
    assert rc.MDP.from_gymnasium(env, ends="stay").num_states == 16


# The model is the environment.


@pytest.mark.parametrize("name", tiered(["FrozenLake-v1", "CliffWalkingSlippery-v1"]))
def test_the_environment_walks_as_the_model_says(name) -> None:
    """Every pair is stepped 300 times, an end followed by the environment's own reset.

    Fewer than 800 entries of P are positive. By Hoeffding's inequality one of their counts is off by more
    than t = sqrt(n log(2 * 800 / 1e-6) / 2) = 56 with probability below 1e-6; a slip is 100.
    """
    env, n = gym.make(name).unwrapped, 300
    table = read_table(env)
    model, number = table.model, {int(state): k for k, state in enumerate(table.states)}
    counts, P = np.zeros((*model.dense().shape[:2], model.num_states)), model.dense()
    env.reset(seed=0)
    for state, action in itertools.product(number, range(model.num_actions)):
        for _ in range(n):
            env.s = state
            landed, _, terminated, _, _ = env.step(action)
            landed = env.reset()[0] if terminated else landed
            counts[number[state], action, number[int(landed)]] += 1
    assert (P > 0).sum() < 800
    assert (counts[P == 0] == 0).all()
    assert (np.abs(counts - n * P) <= math.sqrt(n * math.log(2 * 800 / 1e-6) / 2)).all()


def test_successors_that_stand_in_the_table_twice_are_added_up() -> None:
    model = table_model(gym.make("FrozenLake-v1"))
    corner = model.dense()[0]  # left from the upper left corner: slips up and left stay
    assert corner[0] == pytest.approx([2 / 3, 0, 0, 0, 1 / 3] + [0] * 6)
    assert model.transitions.has_canonical_format


def test_an_end_leads_to_the_start_distribution() -> None:
    table = {
        0: {0: [(0.5, 1, 0, False), (0.5, 2, 1, True)]},
        1: {0: [(1.0, 2, 1, True)]},
        2: {0: [(1.0, 2, 0, True)]},
    }
    found = read_table(Tabled(table, [0.25, 0.75, 0.0], num_states=3))
    assert found.states.tolist() == [0, 1]
    assert found.model.dense()[:, 0].tolist() == [[0.125, 0.875], [0.25, 0.75]]
    assert found.model.start is not None
    assert found.model.start.tolist() == [0.25, 0.75]
    assert found.model.name == "Tabled"


def test_an_end_that_stays_is_never_left() -> None:
    found = read_table(gym.make("CliffWalking-v1"), ends="stay")
    goal = found.states.tolist().index(47)
    assert found.model.num_states == 38
    assert (found.model.dense()[goal, :, goal] == 1).all()
    assert read_table(gym.make("Taxi-v4"), ends="stay").model.num_states == 404  # as Gymnasium's docs count


def test_plans_with_a_discount_or_a_horizon_take_the_ends_that_stay() -> None:
    model = table_model(gym.make("FrozenLake-v1"), ends="stay")
    assert np.isfinite(rc.plan(model, rho=1.0, discount=0.95, restrict=True).divergence)
    assert np.isfinite(rc.plan(model, rho=1.0, horizon=20, restrict=True).divergence)


def test_a_state_that_ends_some_episodes_only_cannot_stay() -> None:
    table = {0: {0: [(0.5, 1, 0, True), (0.5, 1, 0, False)]}, 1: {0: [(1.0, 0, 0, False)]}}
    env = Tabled(table, [1.0, 0.0], num_states=2)
    assert read_table(env).model.dense()[0, 0].tolist() == [0.5, 0.5]
    with pytest.raises(InvalidArgumentError, match=r'into state 1 .*Use ends="restart"'):
        read_table(env, ends="stay")


def test_spaces_that_begin_elsewhere_keep_their_numbers() -> None:
    table = {5: {5: [(1.0, 6, 0, False)]}, 6: {5: [(1.0, 7, 0, True)]}, 7: {5: [(1.0, 7, 0, True)]}}
    found = read_table(Tabled(table, [1.0, 0.0, 0.0], num_states=3, first=5))
    assert found.states.tolist() == [5, 6]
    assert found.model.state_labels == ("5", "6")


# What was left out.


def test_the_note_says_what_was_dropped_and_why() -> None:
    note = table_model(gym.make("FrozenLake-v1")).note
    assert note == (
        "11 of 16 states are in the model. In 5 the episode ends and the run goes on at the start: "
        "r1c1, r1c3, r2c3, r3c0, r3c3. The time limit of 100 steps is not part of the model."
    )
    note = table_model(gym.make("CliffWalking-v1")).note
    assert "10 cannot be reached from the start: r3c1, r3c2" in note
    assert "time limit" not in note
    assert "limit of 7 steps" in table_model(gym.make("CliffWalking-v1", max_episode_steps=7)).note


def test_what_no_run_visits_for_ever_is_dropped_and_said() -> None:
    """From 0 one slides to 1 and never returns; 1 may fall into 2, which is never left."""
    table = {
        0: {0: [(1.0, 1, 0, False)], 1: [(1.0, 1, 0, False)]},
        1: {0: [(1.0, 1, 0, False)], 1: [(1.0, 2, 0, False)]},
        2: {0: [(1.0, 2, 0, False)], 1: [(1.0, 2, 0, False)]},
    }
    found = read_table(Tabled(table, [1.0, 0.0, 0.0], num_states=3, num_actions=2))
    assert found.states.tolist() == [1, 2]
    assert found.model.num_pairs == 3
    assert "1 cannot be visited in the long run: 0." in found.note
    assert "may leave these states for good: 1 pair, (1, 1)" in found.note


def test_a_hole_that_nobody_can_fall_into_is_out_of_reach_rather_than_an_end() -> None:
    env = gym.make("FrozenLake-v1", desc=["SFG", "HHH", "HHH"], is_slippery=False)
    note = table_model(env).note
    assert "In 3 the episode ends and the run goes on at the start: r0c2, r1c0, r1c1." in note
    assert "4 cannot be reached from the start: r1c2, r2c0, r2c1, r2c2." in note


# Looks.


@pytest.mark.parametrize("name", tiered(["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"]))
def test_an_action_points_where_it_leads(name) -> None:
    """Undisturbed, a move that changes the cell changes it in the direction that is drawn."""
    kwargs = {"is_slippery": False} if name == "FrozenLake-v1" else {}
    env = gym.make(name, **kwargs)
    model = table_model(env, ends="stay")
    layout = model.layout
    assert layout is not None
    assert layout.directions is not None
    moved = 0
    for pair in range(model.num_pairs):
        row = model.transitions[[pair]]
        step = layout.positions[row.indices[0]] - layout.positions[model.pair_state[pair]]
        direction = layout.directions[model.pair_action[pair]]
        if np.abs(step).sum() == 1 and direction.any():
            assert step.tolist() == direction.tolist()
            moved += 1
    assert moved > model.num_states
    assert cells_of(model).is_lattice
    assert len({tuple(place) for place in layout.positions.tolist()}) == model.num_states


def test_states_are_named_by_their_place() -> None:
    lake = read_table(gym.make("FrozenLake-v1"))
    assert lake.model.action_labels == ("left", "down", "right", "up")
    assert lake.model.state_labels is not None
    assert lake.model.state_labels[lake.states.tolist().index(9)] == "r2c1"
    env = gym.make("Taxi-v4")
    taxi = read_table(env)
    number = env.unwrapped.encode(2, 3, 4, 1)
    assert taxi.model.state_labels is not None
    assert taxi.model.state_labels[taxi.states.tolist().index(number)] == "r2c3 aboard to G"


# What has no table, or a wrong one.


@pytest.mark.parametrize("name", ["Blackjack-v1", "MountainCar-v0"])
def test_an_environment_without_a_table_points_to_learning(name) -> None:
    with pytest.raises(InvalidArgumentError, match=r'no table.*model="learned"'):
        rc.MDP.from_gymnasium(gym.make(name))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("FrozenLake-v1", r"gymnasium\.make\('FrozenLake-v1'\)"),
        (None, "`env` must be a Gymnasium environment"),
        (rc.envs.river_swim(), "`env` must be a Gymnasium environment"),
    ],
)
def test_what_is_no_environment_is_refused(env, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rc.MDP.from_gymnasium(env)


def test_a_passenger_who_changes_its_mind_is_not_in_the_table() -> None:
    with pytest.raises(InvalidArgumentError, match="fickle_passenger=False"):
        table_model(gym.make("Taxi-v4", fickle_passenger=True))


def test_a_wrapper_that_changes_the_observations_is_refused() -> None:
    env = gym.wrappers.TransformObservation(gym.make("FrozenLake-v1"), lambda s: s // 4, spaces.Discrete(4))
    with pytest.raises(InvalidArgumentError, match="observation_space"):
        table_model(env)


def test_ends_are_restart_or_stay() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'restart'"):
        table_model(gym.make("FrozenLake-v1"), ends="restarts")


def test_a_table_that_does_not_say_how_episodes_begin_is_refused() -> None:
    env = Tabled({0: {0: [(1.0, 0, 0, False)]}}, None, num_states=1)
    with pytest.raises(InvalidArgumentError, match="initial_state_distrib to 1 probabilities"):
        table_model(env)
    env.initial_state_distrib = [0.5]
    with pytest.raises(InvalidArgumentError, match="initial_state_distrib"):
        table_model(env)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([(0.98, 2, 0, False)], r"P\[1\]\[0\] sums to 0.98, expected 1"),
        ([], r"P\[1\]\[0\] sums to 0"),
        ([(1.5, 2, 0, False), (-0.5, 2, 0, False)], r"P\[1\]\[0\] has the probability 1.5"),
        ([(-0.5, 2, 0, False), (1.0, 2, 0, False)], r"P\[1\]\[0\] has the probability -0.5"),
        ([(float("nan"), 2, 0, False)], r"P\[1\]\[0\] has the probability nan"),
        ([(1.0, 3, 0, False)], r"P\[1\]\[0\] leads to state 3, expected 0 to 2"),
        ([(1.0, -1, 0, False)], r"P\[1\]\[0\] leads to state -1"),
        ([(1.0, 1.5, 0, False)], r"P\[1\]\[0\] leads to state 1.5"),
        ([(1.0, 2, 0)], r"P\[1\]\[0\] holds \(1.0, 2, 0\), expected"),
        ([1.0], r"P\[1\]\[0\] holds 1.0"),
        ([("a", 2, 0, False)], r"P\[1\]\[0\] holds"),
        (None, r"P\[1\]\[0\] must be a list"),
        ("drop the action", r"no entry P\[1\]\[0\]; every action"),
        ("drop the state", r"no entry P\[1\]; every state"),
    ],
)
def test_a_wrong_table_is_refused_with_the_place(entries, message) -> None:
    table = {s: {0: [(1.0, (s + 1) % 3, 0, False)]} for s in range(3)}
    assert table_model(Tabled(table, [1, 0, 0], num_states=3)).num_states == 3
    wrong = copy.deepcopy(table)
    if entries == "drop the action":
        del wrong[1][0]
    elif entries == "drop the state":
        del wrong[1]
    else:
        wrong[1][0] = entries
    with pytest.raises(InvalidModelError, match=message):
        table_model(Tabled(wrong, [1, 0, 0], num_states=3))
