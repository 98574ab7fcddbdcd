"""Buffers of Stable-Baselines3 hold the steps that were played, however full they are and of however many environments.

Needs torch, so it is not among the tests that everybody runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import rhocover as rc
import same_steps as same
from rhocover.datasets import read_tally, tables
from rhocover.datasets.forms.buffers import table_of_buffer
from rhocover.environments.wrappers import CountVisits
from rhocover.errors import InvalidDataError
from same_steps import Walk

SEEN, ACTED = spaces.Discrete(same.END + 1), spaces.Discrete(same.NUM_ACTIONS)
NUM_STEPS = 60  # of each environment


def part(walks: list[Walk], begin: int, end: int) -> list[Walk]:
    """Returns the steps from `begin` to before `end` of episodes; one that is divided is cut off there."""
    found, done = [], 0
    for walk in walks:
        first, last = max(begin - done, 0), min(end - done, len(walk))
        if first < last:
            found.append(
                Walk(
                    walk.states[first : last + 1],
                    walk.actions[first:last],
                    walk.is_ended and last == len(walk),
                )
            )
        done += len(walk)
    return found


def streams(num_envs: int) -> list[list[Walk]]:
    """Returns the same number of steps for each environment."""
    return [part(same.walks(30, seed=k), 0, NUM_STEPS) for k in range(num_envs)]


def rows_of(walks: list[Walk]) -> dict[str, Any]:
    return same.columns(walks)


def fill(buffer: Any, played: list[list[Walk]], observe: Any = lambda s: s) -> Any:
    """Adds the steps of all environments, as an algorithm does."""
    rows = [rows_of(walks) for walks in played]
    for t in range(NUM_STEPS):
        now = {name: np.array([row[name][t] for row in rows]) for name in rows[0]}
        done = now["terminated"] | now["truncated"]
        infos = [{"TimeLimit.truncated": bool(cut)} for cut in now["truncated"]]
        buffer.add(observe(now["s"]), observe(now["s_next"]), now["a"], np.zeros(len(rows)), done, infos)
    return buffer


def joined(played: list[list[Walk]], begin: int = 0) -> list[Walk]:
    """Returns the episodes of one environment after another, from step `begin` on."""
    return [walk for walks in played for walk in part(walks, begin, NUM_STEPS)]


def same_counts(tally: Any, kind: str, walks: list[Walk]) -> bool:
    found, expected = same.counts_of(tally), same.counted(kind, walks)
    return (found.visits, found.moves, found.ends, found.starts) == (
        expected.visits, expected.moves, expected.ends, expected.starts,
    )  # fmt: skip


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("size", [200, 60, 61, 37, 59])
def test_a_replay_buffer_is_read_from_its_oldest_step_on(
    num_envs: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SIZE", 13)
    played = streams(num_envs)
    buffer = fill(ReplayBuffer(size * num_envs, SEEN, ACTED, "cpu", num_envs), played)
    assert buffer.full == (size <= NUM_STEPS)
    expected = joined(played, max(NUM_STEPS - size, 0))
    assert same_counts(read_tally(buffer), "whole", expected)
    assert same_counts(rc.audit(buffer).tally, "whole", expected)
    assert same_counts(rc.top_up(buffer, num_steps=20).before.tally, "whole", expected)


@pytest.mark.parametrize("size", [200, 60, 37])
def test_a_buffer_that_shares_observations_loses_its_oldest_step(size: int) -> None:
    played = streams(2)
    settings = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    buffer = fill(ReplayBuffer(size * 2, SEEN, ACTED, "cpu", 2, **settings), played)
    begin = NUM_STEPS - size + 1 if size <= NUM_STEPS else 0
    ends = [
        Walk(walk.states, walk.actions, True) for walk in joined(played, begin)
    ]  # time limits are not marked
    tally = read_tally(buffer)
    assert same_counts(tally, "whole", ends)
    assert "does not mark time limits" in tally.remarks[0]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("size", [NUM_STEPS, 45])
def test_a_rollout_buffer_knows_where_episodes_begin_and_not_how_they_end(
    num_envs: int, is_flat: bool, size: int
) -> None:
    import torch

    played = streams(num_envs)
    buffer = RolloutBuffer(NUM_STEPS, SEEN, ACTED, "cpu", n_envs=num_envs)
    rows = [rows_of(walks) for walks in played]
    starts = np.ones(num_envs)
    for t in range(size):
        now = {name: np.array([row[name][t] for row in rows]) for name in rows[0]}
        buffer.add(
            now["s"], now["a"], np.zeros(num_envs), starts, torch.zeros(num_envs), torch.zeros(num_envs)
        )
        starts = (now["terminated"] | now["truncated"]).astype(float)
    if is_flat and size == NUM_STEPS:
        next(iter(buffer.get(7)))
        assert buffer.observations.shape[0] == NUM_STEPS * num_envs
    expected = [walk for walks in played for walk in part(walks, 0, size)]
    tally = read_tally(buffer)
    assert same_counts(tally, "bare", expected)
    assert any("do not say how episodes end" in remark for remark in tally.remarks)
    assert any(f"{len(expected)} steps are left out" in remark for remark in tally.remarks)


def test_dictionaries_of_observations_need_a_code() -> None:
    played = streams(2)
    space = spaces.Dict(cell=SEEN, far=spaces.Box(-1, 1, (2,)))

    def observe(s: Any) -> dict[str, Any]:
        return {"cell": s[:, None], "far": np.zeros((len(s), 2))}

    buffer = fill(DictReplayBuffer(90, space, ACTED, "cpu", 2), played, observe)
    tally = read_tally(buffer, states=lambda seen: int(seen["cell"][0]))
    assert same_counts(tally, "whole", joined(played, NUM_STEPS - 45))
    with pytest.raises(InvalidDataError, match="`observations` must hold whole numbers"):
        read_tally(buffer)


def test_an_empty_buffer_has_nothing_to_count() -> None:
    with pytest.raises(InvalidDataError, match="the ReplayBuffer has zero steps"):
        read_tally(ReplayBuffer(10, SEEN, ACTED, "cpu"))


def test_real_actions_are_scaled_back() -> None:
    box = spaces.Box(-2.0, 6.0, (1,))
    buffer = ReplayBuffer(10, SEEN, box, "cpu", handle_timeout_termination=False)
    for action in (-1.0, 0.0, 0.5):
        buffer.add(np.array([0]), np.array([0]), np.array([[action]]), np.zeros(1), np.zeros(1), [{}])
    table = table_of_buffer(buffer)
    assert next(table.pieces(["actions"]))["actions"].tolist() == [[-2.0], [2.0], [4.0]]
    assert any("scaled back from [-1, 1]" in remark for remark in table.remarks)
    buffer.add(
        np.array([0]), np.array([0]), np.array([[5.0]]), np.zeros(1), np.zeros(1), [{}]
    )  # as it was played
    assert next(table_of_buffer(buffer).pieces(["actions"]))["actions"][-1].tolist() == [5.0]
    assert read_tally(buffer, actions=2).num_actions == 2


def lake() -> gym.Env:
    return CountVisits(gym.make("FrozenLake-v1", max_episode_steps=20))


def test_what_dqn_kept_is_what_it_played() -> None:
    env = lake()
    model = DQN("MlpPolicy", env, learning_starts=10_000, buffer_size=5_000, seed=0, device="cpu")
    model.learn(600)
    played, kept = env.visits, read_tally(model.replay_buffer)
    assert kept.as_dict() == played.as_dict()
    assert (kept.num_episodes, kept.num_truncated, kept.ends.sum()) == (played.num_episodes, played.num_truncated, played.ends.sum())  # fmt: skip


class Kept(BaseCallback):
    """Audits the rollout before it is trained on."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.tally = read_tally(self.model.rollout_buffer)


def test_what_ppo_kept_is_what_it_played_but_for_last_steps() -> None:
    envs: list[Any] = []

    def make() -> gym.Env:
        envs.append(lake())
        return envs[-1]

    kept = Kept()
    model = PPO(
        "MlpPolicy", DummyVecEnv([make, make]), n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu"
    )
    model.learn(128, callback=kept)
    played = envs[0].visits.as_dict(), envs[1].visits.as_dict()
    both = {pair: played[0].get(pair, 0) + played[1].get(pair, 0) for pair in {*played[0], *played[1]}}
    assert all(count <= both[pair] for pair, count in kept.tally.as_dict().items())
    num_last = (
        sum(env.visits.ends.sum() + env.visits.num_truncated for env in envs) + 2
    )  # and of each rollout
    is_last_done = model.rollout_buffer.n_envs * 64 - kept.tally.num_steps
    assert num_last - 2 <= is_last_done <= num_last


def test_a_buffer_on_disk_is_a_pickle_and_refused(tmp_path: Path) -> None:
    model = DQN("MlpPolicy", lake(), buffer_size=50, seed=0, device="cpu")
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    with pytest.raises(
        InvalidDataError, match=r"never opened. If you trust it, load it in Python"
    ) as refused:
        read_tally(tmp_path / "buffer.pkl")
    assert "rc.audit(load_from_pkl(path))" in str(refused.value)
