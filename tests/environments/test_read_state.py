"""`ReadState`: what a simulator knows as the observation."""

from __future__ import annotations

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from simulators import Console, KeyRoom, Slider

import rhocover as rc
from rhocover.errors import InvalidArgumentError, RhocoverWarning, UnknownNameError

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)


def test_a_minigrid_state_has_position_direction_carried_object_and_doors() -> None:
    env = rc.ReadState(KeyRoom(is_drawn=False), "minigrid", level=0)
    assert env.observation_space == spaces.MultiDiscrete([8, 3, 4, 9, 7, 3])
    assert env.reset()[0].tolist() == [1, 1, 0, 0, 0, 2]  # the only door is locked
    assert env.step(PICK_UP)[0].tolist() == [1, 1, 0, 4, 5, 2]  # a yellow key
    for _ in range(3):
        seen = env.step(FORWARD)[0]
    assert env.step(TOGGLE)[0].tolist() == [*seen[:5], 1]
    assert env.step(TOGGLE)[0].tolist() == [*seen[:5], 0]
    assert env.step(LEFT)[0].tolist() == [4, 1, 3, 4, 5, 0]
    assert env.observation_space.contains(env.step(RIGHT)[0])


def test_exploration_from_scratch_finds_every_code_of_a_level() -> None:
    run = rc.explore(rc.ReadState(KeyRoom(), "minigrid", level=3), 2, 3_000, model="from_scratch")
    env = KeyRoom()
    env.reset(seed=3)
    door, width = env.at_door, env.width
    # Cells in front of the key, then with it up to the locked door, then all but that of the closed door, then all.
    expected = 4 * (1 + (door - 1) + (width - 3) + (width - 2))
    assert run.tally.num_states == expected
    assert run.coverage_text.startswith(f"{7 * expected} of {7 * expected} pairs")


@pytest.mark.parametrize("what", ["minigrid", lambda grid: grid.agent_dir])
def test_a_copy_reads_its_own_simulator(what) -> None:
    """Not that of the original: searches through a simulator step copies of it."""
    env = rc.ReadState(KeyRoom(), what, level=3)
    before, _ = env.reset()
    other = copy.deepcopy(env)
    assert (other.step(RIGHT)[0] != before).any()
    assert (env.observation(None) == before).all()


def test_a_copy_reads_its_own_coordinates() -> None:
    env = rc.ReadState(Slider(), "positions")
    before, _ = env.reset()
    assert (copy.deepcopy(env).step(RIGHT)[0] != before).any()
    assert (env.observation(None) == before).all()


def test_levels_that_change_are_told_once_and_a_fixed_level_does_not_change() -> None:
    drawn = rc.ReadState(KeyRoom(30), "minigrid")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for seed in range(8):
            drawn.reset(seed=seed)
    assert [warning.category for warning in told] == [RhocoverWarning]
    assert "draws a new level at each reset" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fixed, same = rc.ReadState(KeyRoom(30), "minigrid", level=5), rc.ReadState(Slider(), "positions")
        doors = {(fixed.reset(seed=seed), fixed.unwrapped.at_door)[1] for seed in range(8)}
        same.reset(), same.reset()
    assert len(doors) == 1


def test_atari_memory_is_read_whole_or_as_room_cell_and_inventory() -> None:
    whole = rc.ReadState(Console(), "ram")
    assert whole.observation_space == spaces.Box(0, 255, (128,), np.uint8)
    assert whole.reset()[0][[3, 42, 43]].tolist() == [1, 80, 148]
    game = rc.ReadState(Console(), "ram:montezuma_revenge")
    assert game.reset()[0].tolist() == [1, 5, 9, 0, 0]
    run = rc.explore(game, 2, 4_000, model="from_scratch")
    assert run.tally.num_states == 3 * 10 + 3 * 10  # three rooms of ten cells, without and with the key
    assert {name[1] for name in run.tally.state_names} == {"0", "1", "2"}


def test_mujoco_positions_and_joints_are_real_numbers() -> None:
    env = rc.ReadState(Slider(), "positions")
    assert env.observation_space.shape == (2,)
    assert env.reset()[0].tolist() == [0, 0]
    assert env.step(2)[0].tolist() == [0, 0.1]
    assert rc.ReadState(Slider(), "joints").observation_space.shape == (3,)
    run = rc.explore(env, 2, 2_000, states=rc.Net(0.15), model="from_scratch")
    assert run.tally.num_states > 20


def test_a_functions_whole_numbers_are_states_and_its_real_numbers_need_a_code(tmp_path) -> None:
    cells = rc.ReadState(Slider(), lambda point: np.round(point.data.qpos[:2] * 10).astype(int))
    run = rc.explore(cells, 2, 1_500, model="from_scratch")
    assert run.tally.num_states == 11 * 11
    assert "(-5, 5)" in run.tally.state_names
    found = rc.collect(cells, 2, 200, model="from_scratch", out=tmp_path / "slider")
    assert rc.audit(tmp_path / "slider").counts.tolist() == found.audit.counts.tolist()
    real = rc.ReadState(Slider(), lambda point: point.data.qpos[0])
    assert real.observation_space.shape == (1,)
    with pytest.raises(InvalidArgumentError, match=r"Pass states=rc\.QuantileBins"):
        rc.explore(real, 2, 100, model="from_scratch")


@pytest.mark.parametrize(
    ("env", "what", "message"),
    [
        (Slider(), "minigrid", "`env` must be a MiniGrid environment to read 'minigrid', got Slider"),
        (Slider(), "ram", "`env` must be an Atari environment"),
        (KeyRoom(), "joints", "`env` must be a MuJoCo environment"),
        (Slider(), lambda point: point.nothing, "failed on Slider: AttributeError"),
        (Slider(), lambda point: "text", "must return a number"),
        (gym.make_vec("CartPole-v1", 2), "ram", r"Wrap each copy: gymnasium.make_vec"),
        (3, "ram", "`env` must be a gymnasium.Env, got int"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(env, what, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rc.ReadState(env, what)


@pytest.mark.parametrize("what", ["nothing", "ram:pong_2600", 3, None])
def test_an_unknown_choice_lists_those_there_are(what) -> None:
    with pytest.raises(UnknownNameError, match="montezuma_revenge"):
        rc.ReadState(Console(), what)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "actions"), [("FourRooms", None), ("DoorKey-8x8", [0, 1, 2, 3, 5])])
def test_every_code_of_a_minigrid_level_is_found(name, actions) -> None:
    pytest.importorskip("minigrid")
    env = rc.ReadState(gym.make(f"minigrid:MiniGrid-{name}-v0"), "minigrid", level=0)
    run = rc.explore(env, 2, 15_000, actions=actions, model="from_scratch")
    assert run.tally.num_states == {"FourRooms": 1036, "DoorKey-8x8": 424}[name]
