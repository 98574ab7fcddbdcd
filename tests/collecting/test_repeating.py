"""`repeat=k`: an action is held for k steps of the environment, and counts as one decision."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rhocover as rc
from rhocover.environments.repeating import RepeatAction
from rhocover.errors import InvalidArgumentError


class Corridor(gym.Env):
    """Ten places in a row; each step moves one to the left or right and pays 1. The right end is the end."""

    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.at, self.num_steps, self.played = 0, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.num_steps += 1
        self.played.append(int(action))
        self.at = min(max(self.at + 2 * int(action) - 1, 0), 9)
        return self.at, 1.0, self.at == 9, False, {}


def test_an_action_is_held_until_the_episode_ends_and_rewards_are_summed() -> None:
    env = RepeatAction(Corridor(), 4)
    env.reset()
    assert env.step(1)[:4] == (4, 4.0, False, False)
    assert env.step(1)[:4] == (8, 4.0, False, False)
    assert env.step(1)[:4] == (9, 1.0, True, False)
    assert env.unwrapped.num_steps == 9


def test_a_run_with_repeat_counts_decisions() -> None:
    env = Corridor()
    run = rc.explore(env, 2, 300, model="from_scratch", repeat=3)
    assert run.num_steps == 300 == run.counts.sum()
    assert 600 < env.num_steps <= 900
    met = {int(name) for name in run.tally.state_names}
    assert met == {0, 3, 6}  # the places that macro-actions of three steps reach, and the end is none


def test_repeat_is_part_of_a_collection_and_resuming_with_another_value_is_refused(tmp_path) -> None:
    found = rc.collect(Corridor(), 2, 200, model="learned", repeat=3, out=tmp_path / "a")
    assert found.datasheet["settings"]["repeat"] == 3
    assert "repeat=3" in found.datasheet["repeat"]
    rewards = np.concatenate([episode.rewards for episode in found.to_minari().iterate_episodes()])
    assert rewards.size == 200
    assert set(rewards.tolist()) == {3.0}
    with pytest.raises(InvalidArgumentError, match="repeat"):
        rc.collect(Corridor(), 2, 200, model="learned", repeat=2, out=tmp_path / "a", resume=True)
    plain = rc.collect(Corridor(), 2, 50, model="learned", out=tmp_path / "b")
    assert "repeat" not in plain.datasheet["settings"]


def test_a_top_up_repeats_actions_as_in_the_data(tmp_path) -> None:
    found = rc.collect(Corridor(), 2, 100, model="learned", repeat=3, out=tmp_path / "a")
    for number, data in enumerate((found, tmp_path / "a")):
        more = rc.top_up(data, Corridor(), 50, out=tmp_path / f"more{number}")
        assert more.collection.datasheet["settings"]["repeat"] == 3
        assert set(more.collection.tally.keys) <= {0, 3, 6}
    lake = gym.make("FrozenLake-v1")
    rc.collect(lake, 2, 100, model="learned", repeat=2, out=tmp_path / "lake")
    with pytest.raises(InvalidArgumentError, match="table of single steps"):
        rc.top_up(tmp_path / "lake", lake, 50)


@pytest.mark.parametrize(
    ("env", "given", "message"),
    [
        (gym.make("FrozenLake-v1"), {"repeat": 2}, "with `repeat` has no table of its transitions"),
        (gym.make("FrozenLake-v1"), {"repeat": 0, "model": "learned"}, "`repeat` must be at least 1"),
        (gym.make_vec("FrozenLake-v1", 2), {"repeat": 2, "model": "learned"}, r"wrappers=\[lambda env: rc.RepeatAction\(env, 2\)\]\), or pass a single environment"),
        (rc.envs.river_swim(), {"repeat": 2}, "`repeat` is for environments"),
    ],
    ids=["known", "zero", "vector", "model"],
)  # fmt: skip
def test_repeat_is_refused_where_it_cannot_be(env, given, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rc.explore(env, 2, 100, **given)


def test_the_way_out_for_vectors_works() -> None:
    envs = gym.make_vec("CliffWalking-v1", 2, wrappers=[lambda env: rc.RepeatAction(env, 2)])
    assert rc.explore(envs, 2, 200, model="learned").num_steps == 200
