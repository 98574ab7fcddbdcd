"""Density rewards in Stable-Baselines3: vector environments, replay buffers, logs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

import rhocover as rc
from rhocover.errors import InvalidArgumentError


def car(steps: int = 50) -> gym.Env:
    return gym.make("MountainCar-v0", max_episode_steps=steps)


class Places(gym.ObservationWrapper):
    """Dictionary observations."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"place": env.observation_space})

    def observation(self, observation: Any) -> Any:
        return {"place": observation}


def test_the_environment_checker_is_content():
    check_env(rc.CoverageReward(gym.make("MountainCar-v0"), density=rc.Neighbours()))


def test_a_vector_environment_is_paid_by_one_density():
    """Every step of both sub-environments is paid as by a density that saw the same; ends by their last place."""
    env = rc.CoverageVecEnv(DummyVecEnv([car] * 2), 1.0, density=rc.Neighbours())
    alone = rc.DensityReward(rc.Neighbours(), 1.0)
    env.seed(0)
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(120):
        observations, rewards, dones, infos = env.step(rng.integers(0, 3, 2))
        rows = [
            info["terminal_observation"] if over else row
            for info, over, row in zip(infos, dones, observations, strict=True)
        ]
        assert rewards == pytest.approx(alone.visit(rows), abs=1e-6)
        assert [info["task_reward"] for info in infos] == [-1.0, -1.0]
    assert (
        env.coverage_numbers()
        == alone.numbers()
        == {"visits": 240, "dimension": env.coverage_numbers()["dimension"]}
    )
    assert env.reward_of(observations) == pytest.approx(alone.reward_of(observations))


@pytest.mark.parametrize("vector", [DummyVecEnv, SubprocVecEnv])
def test_the_callback_logs_densities_where_the_learner_logs(vector, tmp_path):
    def paid() -> gym.Env:
        return rc.CoverageReward(car(), density=rc.Neighbours())

    env, callback = vector([paid] * 2), rc.CoverageCallback(log_every=64)
    model = PPO("MlpPolicy", env, device="cpu", n_steps=64, n_epochs=1)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(256, callback=callback)
    model.logger.close()
    env.close()
    last = callback.history[-1]
    assert last["visits"] == 128  # of each of the two
    assert last["dimension"] in (1, 1.5, 2)
    assert {"coverage_reward", "task_reward"} <= set(last)
    logged = [row["rhocover/visits"] for row in logged_rows(tmp_path) if row["rhocover/visits"]]
    assert 0 < float(logged[-1]) <= 128
    assert "rhocover/coverage_reward" in logged_rows(tmp_path)[0]


def logged_rows(folder: Path) -> list[dict[str, str]]:
    """Returns what Stable-Baselines3 has logged, a row per record; TensorBoard gets the same names and values."""
    with (folder / "progress.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_callback_logs_cells_where_the_learner_logs(tmp_path):
    env = rc.CoverageReward(car(), states=rc.Bins(6), density=rc.Neighbours())
    model = PPO("MlpPolicy", env, device="cpu", n_steps=64, n_epochs=1)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(128, callback=rc.CoverageCallback(log_every=64))
    model.logger.close()
    names = {"pairs_visited", "states_met", "divergence", "worst_ratio", "visits", "dimension"}
    assert {f"rhocover/{name}" for name in names} <= set(logged_rows(tmp_path)[0])


@pytest.mark.parametrize("learner", [PPO, DQN])
def test_the_last_record_is_in_the_log(learner, tmp_path):
    """Learners write their log after a rollout or some episodes, and not when training ends."""
    env = rc.CoverageReward(car(1_000), states=rc.Bins(6), density=rc.Neighbours())
    settings = {"n_steps": 64, "n_epochs": 1} if learner is PPO else {"learning_starts": 300}
    model = learner("MlpPolicy", env, device="cpu", **settings)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(192, callback=(callback := rc.CoverageCallback(log_every=100)))
    model.logger.close()
    assert [record["steps"] for record in callback.history] == [100, 192]
    assert float(logged_rows(tmp_path)[-1]["rhocover/states_met"]) == len(env.visits.keys)
    assert float(logged_rows(tmp_path)[-1]["rhocover/visits"]) == env.visits.num_steps == 192


def test_the_callback_logs_a_shared_density():
    env, callback = make_vec_env(car, n_envs=2), rc.CoverageCallback(log_every=100)
    shared = VecNormalize(rc.CoverageVecEnv(env, density=rc.Ellipse(ridge=0.0)))
    PPO("MlpPolicy", shared, device="cpu", n_steps=64, n_epochs=1).learn(256, callback=callback)
    assert callback.history[-1]["visits"] == 256
    assert callback.history[-1]["worst_ratio"] > 1


@pytest.mark.parametrize("kind", ["density", "pairs", "dictionary", "vector", "share", "normalised"])
def test_a_batch_is_paid_when_it_is_sampled(kind):
    given: Any = {"density": rc.Neighbours(of="place" if kind == "dictionary" else None), "rho": 1.0}
    env: Any = rc.CoverageReward(Places(car()) if kind == "dictionary" else car(), **given)
    if kind == "pairs":
        env = rc.CoverageReward(gym.make("CliffWalking-v1"), 1.0)
    elif kind == "share":
        env = rc.CoverageReward(car(), **given, task_share=0.5)
    elif kind == "vector":
        env = rc.CoverageVecEnv(DummyVecEnv([car] * 2), **given)
    buffer_class = rc.CoverageReplayBuffer(env)
    trained = VecNormalize(DummyVecEnv([lambda: env])) if kind == "normalised" else env
    policy = "MultiInputPolicy" if kind == "dictionary" else "MlpPolicy"
    model = DQN(policy, trained, device="cpu", learning_starts=100, replay_buffer_class=buffer_class, seed=0)
    model.learn(400)
    env_or_none = model.get_vec_normalize_env()
    assert (env_or_none is not None) == (kind == "normalised")
    batch = model.replay_buffer.sample(64)
    observations = batch.next_observations
    rows = {"place": observations["place"].numpy()} if kind == "dictionary" else observations.numpy()
    if kind == "pairs":
        expected = env.reward_of(batch.observations.numpy().ravel(), batch.actions.numpy().ravel())
    else:
        expected = env.reward_of(rows)
    share = 0.5 if kind == "share" else 0.0
    task = -1.0 if kind != "pairs" else 0.0
    assert batch.rewards.numpy().ravel() == pytest.approx((1 - share) * expected + share * task, abs=1e-6)
    stored = model.replay_buffer.rewards[:100]
    assert (stored <= -1).all()  # of the task


def test_what_pays_nothing_is_refused():
    with pytest.raises(InvalidArgumentError, match="`reward` must be a CoverageReward"):
        rc.CoverageReplayBuffer(car())
    with pytest.raises(
        InvalidArgumentError, match="`venv` must be a vector environment of Stable-Baselines3"
    ):
        rc.CoverageVecEnv(car(), density=rc.Neighbours())


def test_what_a_run_learned_is_evaluated_as_a_model():
    run = rc.explore(gym.make("FrozenLake-v1", is_slippery=False), 2.0, 2_000, seed=0)
    env = DummyVecEnv([lambda: Monitor(gym.make("FrozenLake-v1", is_slippery=False))] * 2)
    model: Any = run.actor()
    mean, _ = evaluate_policy(model, env, n_eval_episodes=40, deterministic=False)
    assert 0 < mean < 1  # it covers the lake, and so meets the goal now and then
