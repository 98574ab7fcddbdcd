"""A list of actions of a finite space: only these are played, counted and stored."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rhocover as rc
from rhocover.environments.encoding import OutsideSpaceError, read_action_code
from rhocover.errors import InvalidArgumentError, InvalidDataError
from tiers import tiered

DOWN, RIGHT = 1, 2


def test_chosen_actions_keep_their_order_values_and_names() -> None:
    code = read_action_code([3, 1], spaces.Discrete(3, start=1))
    assert (code.values, code.names, code.chosen) == ([3, 1], ("3", "1"), (2, 0))
    assert [code.number(3), code.number(np.int64(1))] == [0, 1]
    assert code.numbers(np.array([1, 3, 3])).tolist() == [1, 0, 0]
    assert code.document() == {"kind": "chosen", "actions": [[3], [1]]}


def test_rows_of_a_multi_discrete_space_can_be_chosen() -> None:
    code = read_action_code([[1, 2], [0, 0]], spaces.MultiDiscrete([2, 3]))
    assert code.names == ("(1, 2)", "(0, 0)")
    assert code.numbers(np.array([[0, 0], [1, 2]])).tolist() == [1, 0]
    with pytest.raises(OutsideSpaceError, match=r"lists \(0, 0\), \(1, 2\), got the action \(1, 0\)"):
        code.number(np.array([1, 0]))


@pytest.mark.parametrize("model", tiered(["known", "learned", "from_scratch"]))
def test_a_run_plays_only_the_chosen_actions(model) -> None:
    class Watched(gym.Wrapper):
        def step(self, action):
            self.played.add(int(action))
            return super().step(action)

    env = Watched(gym.make("FrozenLake-v1"))
    env.played = set()
    run = rc.explore(env, 2, 1500, actions=[RIGHT, DOWN], model=model)
    assert env.played == {DOWN, RIGHT}
    assert run.counts.shape == (11, 2)  # the lake has 11 states in which one acts
    assert run.is_complete
    assert run.tally.action_names in (("2", "1"), ("right", "down"))


def test_the_known_model_of_chosen_actions_is_that_of_a_lake_with_fewer_actions() -> None:
    from rhocover.environments.table_model import read_table

    whole = rc.MDP.from_gymnasium(gym.make("FrozenLake-v1"))
    some = read_table(gym.make("FrozenLake-v1"), actions=[RIGHT, DOWN]).model
    assert np.array_equal(some.dense(), whole.dense()[:, [RIGHT, DOWN]])
    assert some.action_labels == ("right", "down")
    assert np.array_equal(some.layout.directions, whole.layout.directions[[RIGHT, DOWN]])


def test_a_collection_stores_the_chosen_actions_and_is_read_with_them(tmp_path) -> None:
    env = gym.make("FrozenLake-v1")
    found = rc.collect(env, 2, 800, actions=[RIGHT, DOWN], out=tmp_path / "lake")
    assert found.datasheet["settings"]["actions"] == {"kind": "chosen", "actions": [[RIGHT], [DOWN]]}
    assert "actions=..." in found.datasheet["repeat"]
    stored = found.load().to_table()["action"].to_numpy()
    assert set(stored.tolist()) == {DOWN, RIGHT}
    again = rc.audit(tmp_path / "lake")
    assert again.tally.action_names == ("2", "1")
    assert np.array_equal(again.counts, rc.audit(found, model=None).counts)
    exact = rc.audit(tmp_path / "lake", model=env, actions=[RIGHT, DOWN])
    assert (exact.num_pairs, exact.is_exact) == (22, True)
    with pytest.raises(InvalidDataError, match="lists 0, 1, got the action 2"):
        rc.audit(tmp_path / "lake", actions=[0, DOWN])
    added = rc.top_up(tmp_path / "lake", env, 200, out=tmp_path / "more")
    assert added.collection.datasheet["settings"]["actions"] == found.datasheet["settings"]["actions"]
    assert rc.top_up(found, env, 200, actions=[RIGHT, DOWN]).before.num_pairs == 22


def test_chosen_actions_of_a_table_count_and_others_are_refused() -> None:
    data = {"s": [0, 1, 0, 1], "a": [1, 2, 1, 1], "s_next": [1, 0, 1, 1], "done": [False] * 4}
    assert rc.audit(data, actions=[2, 1]).counts.tolist() == [[0, 2], [1, 1]]
    with pytest.raises(InvalidArgumentError, match="lists 0, 1, got the action 2"):
        rc.audit(data, actions=[0, 1])
    rows = data | {"a": np.array([[0, 1], [1, 0], [0, 1], [0, 1]])}
    assert rc.audit(rows, actions=[[1, 0], [0, 1]]).counts.tolist() == [[0, 2], [1, 1]]
    with pytest.raises(InvalidArgumentError, match="an action"):
        rc.audit(rows, actions=[[0, 1], [0, 0]])


def test_wrappers_count_chosen_actions_and_refuse_others_before_the_step() -> None:
    env = rc.CoverageReward(gym.make("CliffWalking-v1"), actions=[0, 1])
    env.reset(seed=0)
    env.step(0)
    assert env.visits.counts.tolist() == [[0, 0], [1, 0]]
    with pytest.raises(OutsideSpaceError, match="lists 0, 1, got the action 3"):
        env.step(3)
    assert env.visits.num_steps == 1
