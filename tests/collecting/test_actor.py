"""What a run learned acts elsewhere: one observation at a time, in batches, and where nothing was learned."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.errors import InvalidArgumentError


@pytest.fixture(scope="module")
def lake():
    return rc.explore(gym.make("FrozenLake-v1", is_slippery=True), 2.0, 2_000, seed=0)


def visits_of(actor, num_steps: int) -> np.ndarray:
    """Returns the counts of an actor in the lake, `[16, 4]`."""
    env, counts = gym.make("FrozenLake-v1", is_slippery=True), np.zeros((16, 4))
    state, _ = env.reset(seed=1)
    for _ in range(num_steps):
        action = actor(state)
        counts[int(state), action] += 1
        state, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            state, _ = env.reset()
    return counts


def test_its_visits_approach_the_best_coverage(lake):
    """10,000 steps of the policy of the plan: within 0.1 of its divergence, about ten times the error expected."""
    counts = visits_of(lake.actor(), 10_000)
    d_hat = counts[list(lake.keys)] / counts.sum()
    assert lake.coverage.divergence(d_hat.ravel()) <= lake.best.divergence + 0.1


def test_actions_are_drawn_with_the_probabilities_of_the_policy(lake):
    """The mean of 4,000 draws has standard error at most 0.008; five are exceeded with probability 6e-7."""
    actor = lake.actor(seed=3)
    drawn = np.bincount([actor(0) for _ in range(4_000)], minlength=4) / 4_000
    assert actor.probabilities(0) == pytest.approx(lake.best.policy[lake.keys.index(0)])
    assert np.abs(drawn - actor.probabilities(0)).max() < 5 * 0.008


def test_predict_takes_one_observation_or_a_batch(lake):
    actor = lake.actor()
    actions, state = actor.predict(np.array([0, 1, 4]), state="kept", deterministic=True)
    assert actions.shape == (3,)
    assert state == "kept"
    action, _ = actor.predict(1, deterministic=True)
    assert actor.probabilities(1)[action] == actor.probabilities(1).max()


def test_the_same_seed_draws_the_same_actions(lake):
    first, second = ([actor(0) for _ in range(20)] for actor in (lake.actor(seed=5), lake.actor(seed=5)))
    assert first == second


def test_where_nothing_was_learned_actions_are_uniformly_random():
    net = rc.Net(0.05)
    run = rc.explore(gym.make("MountainCar-v0"), 2.0, 300, seed=0, states=net, model="from_scratch")
    actor = run.actor()
    assert actor.probabilities(np.array([0.5, 0.07])).tolist() == [1 / 3] * 3
    assert actor.predict(np.zeros((5, 2)))[0].shape == (5,)
    assert len({actor.predict(np.array([0.5, 0.07]), deterministic=True)[0] for _ in range(40)}) == 3


def test_a_run_on_a_model_says_where_its_policy_is():
    with pytest.raises(InvalidArgumentError, match=r"run\.best\.policy"):
        rc.explore(rc.envs.river_swim(), 2.0, 50).actor()
