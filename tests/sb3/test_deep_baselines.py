"""Intrinsic rewards pay for what is new, and PPO that is paid by them finds more than chance does.

Needs torch, so it is not among the tests that everybody runs.
"""

from __future__ import annotations

import random

import gymnasium as gym
import numpy as np
import pytest
import torch

import rhocover as rc
from rhocover.baselines.deep import PPO_EXPLORERS, PPOExplorer
from rhocover.baselines.deep.networks import Moments, ReturnScale, Rollout
from rhocover.baselines.deep.ppo import KINDS
from rhocover.environments.encoding import read_action_code
from rhocover.environments.learners import CoverageBonus, LearnerEnv
from rhocover.errors import InvalidArgumentError

LENGTH, NUM_STEPS = 100, 12_000


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small networks are slower on several threads, and the machine has other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Corridor(gym.Env):
    """A point on a line; it starts at the left end and moves by one to the left or the right."""

    observation_space = gym.spaces.Box(0, LENGTH, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.5
        return np.array([self.x]), {}

    def step(self, action):
        self.x = min(max(self.x + 2 * int(action) - 1, 0.5), LENGTH - 0.5)
        return np.array([self.x]), 0.0, False, False, {}


def corridor() -> gym.Env:
    """Episodes of 150 steps: chance goes a third of the way, a policy all of it."""
    return gym.wrappers.TimeLimit(Corridor(), 150)


def rollout_at(places: np.ndarray, rng: np.random.Generator, *, is_new: bool = True) -> Rollout:
    """Returns a rollout `[T, N]` in which each step leads to about these places, one dimension."""
    following = places[..., None] + 0.01 * rng.normal(size=(*places.shape, 1))
    starts = np.zeros(places.shape, bool)
    starts[0] = is_new
    codes = np.floor(places).astype(int).astype(object)
    actions = rng.integers(2, size=places.shape)
    return Rollout(following - 0.1 * (2 * actions - 1)[..., None], following, actions, starts, codes, codes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_was_never_seen_is_paid_more(kind):
    """Twenty rollouts at 0 and 1, then one with a single step to 8: it is paid the most."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    reward = KINDS[kind](1, 2)
    known = np.tile([0.0, 1.0], (64, 1))
    for _ in range(20):
        reward.of(rollout_at(known, rng))
    places = known.copy()
    places[40, 0] = 8.0
    paid = reward.of(rollout_at(places, rng))
    assert np.isfinite(paid).all()
    assert paid[40, 0] == paid[20:].max() > 1.2 * np.median(paid[20:])


def test_the_coverage_bonus_is_that_of_the_wrapper():
    """One copy, the same steps: the same rewards to the last bit."""
    env = rc.CoverageReward(corridor(), 2.0, states=rc.Bins(LENGTH))
    actions = np.random.default_rng(0).integers(2, size=149)
    codes, paid = [int(env.reset(seed=0)[0][0])], []
    for action in actions.tolist():
        observation, reward, *_ = env.step(action)
        codes.append(int(observation[0]))
        paid.append(reward)
    column = np.array(codes, object)[:, None]
    empty = np.zeros((149, 1, 1))
    rollout = Rollout(empty, empty, actions[:, None], np.zeros((149, 1), bool), column[:-1], column[1:])
    found = CoverageBonus(2.0, read_action_code(None, env.action_space)).of(rollout)
    assert found[:, 0].tolist() == paid


@pytest.mark.parametrize("name", [name for name in PPO_EXPLORERS if name != "ppo"])
def test_ppo_finds_at_least_half_more_than_chance(name):
    """Chance finds 34 to 38 cells of 100, the learners 83 or more with two seeds each."""
    found = rc.compare(
        corridor, ["uniform_random", name], states=rc.Bins(LENGTH), num_steps=NUM_STEPS, seeds=1, workers=1
    )
    chance, learner = found.table()
    assert learner.codes.mean >= 1.5 * chance.codes.mean


def test_the_budget_and_the_seed_are_kept_and_nothing_else_is_touched():
    explorer = PPOExplorer("rnd", num_envs=2, num_steps=32)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    runs = [
        rc.compare(corridor, explorer, states=rc.Bins(LENGTH), num_steps=401, seeds=[3], workers=1)
        for _ in range(2)
    ]
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    assert before == after
    first, second = (run.found("corridor", "ppo_rnd", "codes")[0] for run in runs)
    assert first.tolist() == second.tolist()
    assert first.max() <= 401
    assert runs[0].question["explorer_settings"][0]["settings"]["num_envs"] == 2


def test_any_observation_becomes_a_vector():
    space = gym.spaces.Dict(
        {"a": gym.spaces.Box(0, 1, (2, 2)), "b": gym.spaces.Discrete(3), "c": gym.spaces.Text(5)}
    )

    class Shown(Corridor):
        observation_space = space

        def reset(self, *, seed=None, options=None):
            return {"a": np.eye(2), "b": 2, "c": "text"}, {}

    env = LearnerEnv(Shown(), read_action_code(None, Corridor.action_space))
    vector, info = env.reset()
    assert vector.tolist() == [1, 0, 0, 1, 0, 0, 1] == info["flat"].tolist()
    assert env.observation_space.shape == (7,)


def test_moments_are_those_of_all_rows_and_returns_have_deviation_one():
    rng = np.random.default_rng(0)
    rows, moments = rng.normal(3, 2, (1000, 2)), Moments(2)
    for part in np.split(rows, [1, 10, 500]):
        moments.add(part)
    assert moments.mean == pytest.approx(rows.mean(axis=0), rel=1e-12)
    assert moments.deviation == pytest.approx(rows.std(axis=0), rel=1e-12)
    scaled = ReturnScale(4, 0.9)(rng.random((2000, 4)))
    sums = [np.zeros(4)]
    for row in scaled:
        sums.append(0.9 * sums[-1] + row)
    assert np.std(sums[1:]) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(
    "settings", [{"reward": "rdn"}, {"num_envs": 0}, {"learning_rate": -1}, {"discount": 2}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidArgumentError, match=next(iter(settings))):
        PPOExplorer(**settings)
