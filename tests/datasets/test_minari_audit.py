"""Minari data sets: what was collected is what is counted, and foreign data is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from rhocover.datasets import Tallier, audit, read_tally
from rhocover.datasets.minari.files import EpisodeColumns, open_minari
from rhocover.environments.encoding import Bins, read_action_code, read_state_code
from rhocover.errors import InvalidArgumentError, InvalidDataError
from written_sets import write_minari

EPISODES = 30


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def collect(env: gym.Env, num_episodes: int = EPISODES) -> list[EpisodeColumns]:
    """Returns episodes of random actions."""
    env.action_space.seed(0)
    episodes = []
    for number in range(num_episodes):
        seen, rows = [env.reset(seed=number)[0]], []
        while not rows or not (rows[-1][2] or rows[-1][3]):
            action = env.action_space.sample()
            observation, reward, ended, cut, _ = env.step(action)
            seen.append(observation)
            rows.append((action, reward, ended, cut))
        actions, rewards, ended, cut = (np.array(column) for column in zip(*rows, strict=True))
        episodes.append(EpisodeColumns(np.array(seen), actions, rewards.astype(float), ended, cut))
    return episodes


def written(env: gym.Env, episodes: list[EpisodeColumns], path: Path) -> Path:
    write_minari(
        path, "test/lake/random-v0", episodes, observation_space=env.observation_space,
        action_space=env.action_space, metadata={},
    )  # fmt: skip
    return path


def test_a_data_set_is_counted_as_it_was_collected(tmp_path: Path) -> None:
    """Episodes one after the other, by folder, as text and opened; holes and the goal are only ends."""
    env = gym.make("FrozenLake-v1", max_episode_steps=7)
    episodes = collect(env)
    path = written(env, episodes, tmp_path / "lake")
    tallier = Tallier(4)
    for e in episodes:
        first = np.arange(len(e)) == 0
        tallier.add(e.observations[:-1], e.actions, e.observations[1:], e.terminations, e.truncations, first)
    expected = tallier.tally()
    for data in (path, str(path), open_minari(path)):
        tally = read_tally(data)
        assert tally.keys == expected.keys
        assert np.array_equal(tally.moves.toarray(), expected.moves.toarray())
        assert np.array_equal(tally.ends, expected.ends)
        assert np.array_equal(tally.starts, expected.starts)
        assert np.array_equal(tally.batches.toarray(), expected.batches.toarray())
        cut = sum(bool(e.truncations[-1] and not e.terminations[-1]) for e in episodes)
        assert (tally.num_episodes, tally.num_truncated) == (EPISODES, cut)
        assert tally.num_truncated > 0
        assert tally.source == "test/lake/random-v0"
    assert audit(path).tally.end_keys == expected.end_keys


def test_real_observations_are_read_by_bins_or_a_function(tmp_path: Path) -> None:
    env = gym.make("MountainCar-v0", max_episode_steps=50)
    path = written(env, collect(env, 5), tmp_path / "car")
    with pytest.raises(InvalidArgumentError, match=r"Pass states=rc\.Bins"):
        audit(path)
    bins = read_tally(path, states=Bins((12, 11)))
    assert bins.num_steps == 250
    assert bins.layout is not None
    assert len(bins.layout.positions) == bins.num_states
    side = read_tally(path, states=lambda x: "left" if x[0] < -0.5 else "right")
    assert set(side.keys) == {"left", "right"}
    assert side.counts.sum() == 250
    found = audit(path, states=Bins((12, 11)))
    assert found.counts.sum() == 250
    assert "position" in found.verdict or "x0" in found.verdict


def test_a_datasheet_says_how_states_were_made(tmp_path: Path) -> None:
    env = gym.make("MountainCar-v0", max_episode_steps=50)
    code = read_state_code(Bins((12, 11)), env.observation_space)
    episodes = collect(env, 3)
    for name, document in (("own", code.document()), ("wrong", {"kind": "discrete", "count": 3, "start": 0})):
        write_minari(
            tmp_path / name, f"test/{name}/bins-v0", episodes, observation_space=env.observation_space,
            action_space=env.action_space, metadata={"rhocover": {"settings": {"states": document}}},
        )  # fmt: skip
    mine = read_tally(tmp_path / "own")
    assert mine.keys == read_tally(tmp_path / "own", states=Bins((12, 11))).keys
    assert read_tally(tmp_path / "own", states=lambda x: 0).num_states == 1
    with pytest.raises(InvalidDataError, match="the state code is damaged or belongs to another space"):
        read_tally(tmp_path / "wrong")


@pytest.mark.parametrize("actions", [3, [[-2.0], [0.5]]])
def test_a_datasheet_says_which_actions_there_were(actions, tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    said = read_action_code(actions, env.action_space)
    torques = np.array([said.values[k % len(said.values)] for k in range(20)], np.float32)
    episode = replace(collect(env, 1)[0], actions=torques)
    for name, document in (("own", said.document()), ("wrong", said.document() | {"more": 1})):
        write_minari(
            tmp_path / name, f"test/{name}/torques-v0", [episode], observation_space=env.observation_space,
            action_space=env.action_space, metadata={"rhocover": {"settings": {"actions": document}}},
        )  # fmt: skip
    tally = read_tally(tmp_path / "own", states=lambda x: 0)
    assert tally.counts.tolist() == [np.bincount(np.arange(20) % len(said.values)).tolist()]
    with pytest.raises(InvalidDataError, match="not those of its action space"):
        read_tally(tmp_path / "wrong", states=lambda x: 0)


def test_numbers_that_do_not_begin_at_zero_keep_their_names(tmp_path: Path) -> None:
    """Discrete(3, start=5) has the states 5, 6, 7 and Discrete(2, start=-1) the actions -1, 0."""
    spaces = {
        "observation_space": gym.spaces.Discrete(3, start=5),
        "action_space": gym.spaces.Discrete(2, start=-1),
    }
    flags = np.zeros(3, bool)
    episode = EpisodeColumns(
        np.array([5, 7, 5, 5]), np.array([-1, 0, 0]), np.zeros(3), flags, np.array([False, False, True])
    )
    write_minari(tmp_path / "set", "test/set/own-v0", [episode], **spaces, metadata={})
    tally = read_tally(tmp_path / "set")
    assert tally.keys == (5, 7)
    assert tally.counts.tolist() == [[1, 1], [0, 1]]
    assert tally.pair_name(3).startswith("(7, ")


def test_data_of_another_environment_is_refused_by_its_spaces(tmp_path: Path) -> None:
    env = gym.make("FrozenLake-v1")
    path = written(env, collect(env, 3), tmp_path / "lake")
    assert audit(path, model=env).is_exact
    with pytest.raises(
        InvalidDataError, match=r"observation space Discrete\(16\), but `model` has Discrete\(64\)"
    ):
        audit(path, model=gym.make("FrozenLake-v1", map_name="8x8"))
    with pytest.raises(InvalidDataError, match="`num_actions` is 3"):
        audit(path, num_actions=3)


@pytest.mark.parametrize("name", ["test/nothing/here-v0", "no such thing"])
def test_an_id_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        audit(name)
    assert name in str(refused.value)
