"""Learners of Stable-Baselines3 explore with CoverageReward, and their logs say how far they got.

Needs torch, so it is not among the tests that everybody runs.
"""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import prose
from rhocover.environments.encoding.bins import Bins
from rhocover.environments.sb3 import CoverageCallback
from rhocover.environments.wrappers import CountVisits, CoverageReward
from rhocover.errors import InvalidArgumentError

SIZE, NUM_STEPS = 40, 20_480
PPO_SETTINGS = {"n_steps": 1024, "batch_size": 128, "n_epochs": 5, "learning_rate": 1e-3, "ent_coef": 0.01}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small networks are slower on several threads, and the machine has other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def sparse_grid(size: int = SIZE) -> gym.Env:
    """Returns a field of `size` by `size`, the start in one corner and the only reward in the other.

    An episode has two and a half times as many steps as a side: the far corner takes four fifths of one.
    """
    field = ["S" + "F" * (size - 1), *["F" * size] * (size - 2), "F" * (size - 1) + "G"]
    return gym.make("FrozenLake-v1", desc=field, is_slippery=False, max_episode_steps=size * 5 // 2)


def learn(env: gym.Env, seed: int, **arguments) -> int:
    """Trains PPO, and returns how many pairs it visited on the way."""
    PPO("MlpPolicy", env, seed=seed, device="cpu", **PPO_SETTINGS).learn(NUM_STEPS, **arguments)
    return env.get_wrapper_attr("visits").num_pairs


class Recorded(KVWriter):
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))


def test_ppo_visits_at_least_twice_as_many_pairs_with_the_coverage_reward():
    """Same steps, settings and seeds, added up over two seeds, because PPO without a reward drifts about.

    The sums differ by a factor of about 3, which leaves room for another machine's rounding; benchmarks/ppo.py
    has more seeds and steps.
    """
    without = sum(learn(CountVisits(sparse_grid()), seed) for seed in range(2))
    assert sum(learn(CoverageReward(sparse_grid()), seed) for seed in range(2)) >= 2 * without


def test_dqn_learns_from_it_as_well():
    def visited(env: gym.Env) -> int:
        model = DQN(
            "MlpPolicy", env, seed=0, device="cpu", learning_rate=1e-3, learning_starts=500, batch_size=64
        )
        model.learn(6_000)
        return env.visits.num_pairs

    assert visited(CoverageReward(sparse_grid())) > visited(CountVisits(sparse_grid()))


def test_the_callback_logs_what_was_visited():
    env, callback, recorded = (
        CoverageReward(sparse_grid(8), rho=1.0),
        CoverageCallback(log_every=100),
        Recorded(),
    )
    model = PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=256)
    model.set_logger(Logger(None, [recorded]))
    model.learn(1_024, callback=callback)
    visits, last = env.visits, callback.history[-1]
    assert last["steps"] == visits.num_steps == 1_024
    assert last["pairs_visited"] == visits.num_pairs
    assert last["states_met"] == len(visits.keys)
    assert last["divergence"] == visits.divergence(1.0)
    assert last["worst_ratio"] == visits.worst_ratio()
    assert -1 / 9 <= last["coverage_reward"] < 1
    assert last["task_reward"] == 0
    assert [record["steps"] for record in callback.history] == [*range(100, 1_024, 100), 1_024]
    names = {"pairs_visited", "states_met", "divergence", "worst_ratio", "task_reward", "coverage_reward"}
    assert {f"rhocover/{name}" for name in names} <= set(recorded.rows[-1])


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_the_callback_adds_up_the_sub_environments(vector):
    envs = vector([lambda: Monitor(CountVisits(sparse_grid(8)))] * 2)
    callback = CoverageCallback()
    PPO("MlpPolicy", envs, seed=0, device="cpu", n_steps=128).learn(512, callback=callback)
    first, second = envs.get_attr("visits")
    envs.close()
    assert first.num_steps == second.num_steps == 256
    assert callback.visits is not None
    assert callback.visits.num_steps == 512
    assert callback.history[-1]["pairs_visited"] == len({*first.as_dict(), *second.as_dict()})
    assert callback.history[-1]["divergence"] == (first + second).divergence(2.0)
    assert "task_reward" not in callback.history[-1]


def test_the_callback_measures_with_the_weights_of_the_reward():
    mu = np.random.default_rng(0).random((16, 4))
    env, callback = CoverageReward(gym.make("FrozenLake-v1"), rho=2.0, mu=mu), CoverageCallback()
    PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=128).learn(256, callback=callback)
    visits = env.visits
    assert callback.history[-1]["divergence"] == visits.divergence(2.0, mu[list(visits.keys)])


def test_an_environment_that_does_not_count_is_refused():
    model = PPO("MlpPolicy", gym.make("FrozenLake-v1"), device="cpu", n_steps=64)
    with pytest.raises(InvalidArgumentError, match="Wrap each sub-environment in"):
        model.learn(64, callback=CoverageCallback())


@pytest.mark.parametrize("wrapper", [CountVisits, CoverageReward])
def test_the_environment_checker_of_stable_baselines3_is_content(wrapper):
    check_env(wrapper(gym.make("FrozenLake-v1")))
    check_env(wrapper(gym.make("MountainCar-v0"), states=Bins((12, 11))))


def test_the_tutorial_runs_with_a_real_learner(tmp_path, monkeypatch):
    """All blocks of the page in one namespace, those with Stable-Baselines3 too."""
    page = Path(__file__).resolve().parents[2] / "docs" / "rewards.md"
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```\s*$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "rewards.md", "exec"), names)
    assert "stable_baselines3" in "".join(blocks)


def test_the_recipe_of_the_cookbook_reads_the_buffer_of_a_real_learner(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"
    blocks = prose.fenced_blocks(page.read_text("utf-8"))
    opening, *recipes = [body for _, language, body in blocks if language.startswith("python")]
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    exec(compile(opening, "cookbook.md", "exec"), names)
    (recipe,) = [body for body in recipes if "stable_baselines3" in body]
    exec(compile(recipe, "cookbook.md", "exec"), names)
