"""Vector environments are counted exactly like their sub-environments stepped by hand, however they reset."""

from __future__ import annotations

import functools
import operator

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from wrapper_worlds import NUM_ACTIONS, ByHand, Scripted, Wanderer, limited, same_visits

from rhocover.environments.encoding.bins import Bins
from rhocover.environments.wrappers import (
    CountVisits,
    CountVisitsVector,
    CoverageReward,
    CoverageRewardVector,
)
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

MODES = list(AutoresetMode)
NUM_ENVS, NUM_STEPS, SEED = 3, 200, 11
ACTIONS = np.random.default_rng(0).integers(NUM_ACTIONS, size=(NUM_STEPS, NUM_ENVS))


def drive(envs, actions=ACTIONS):
    """Steps a vector environment through `actions`, resetting what has ended if nobody else does; yields results."""
    envs.reset(seed=SEED)
    for row in actions:
        result = envs.step(row)
        yield result
        done = result[2] | result[3]
        if envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED and done.any():
            envs.reset(options={"reset_mask": done})


def step_by_hand(env: gym.Env, lane: int, mode: AutoresetMode) -> list[float]:
    """Steps one sub-environment as the vector environment does, and returns its rewards."""
    env.reset(seed=SEED + lane)
    rewards, must_reset = [], False
    for action in ACTIONS[:, lane]:
        if must_reset:  # this step only resets: its action is not taken
            env.reset()
            rewards.append(0.0)
            must_reset = False
            continue
        _, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        if terminated or truncated:
            if mode == AutoresetMode.NEXT_STEP:
                must_reset = True
            else:
                env.reset()
    return rewards


@pytest.mark.parametrize("mode", tiered(MODES))
@pytest.mark.parametrize("vector", tiered([SyncVectorEnv, AsyncVectorEnv]))
@pytest.mark.parametrize("wrapper", tiered([CountVisitsVector, CoverageRewardVector]))
def test_counts_are_those_of_the_sub_environments_stepped_by_hand(vector, mode, wrapper):
    envs = wrapper(vector([limited] * NUM_ENVS, autoreset_mode=mode))
    steps = sum(1 for _ in drive(envs))
    visits = envs.visits
    envs.close()
    singles = [CountVisits(limited()) for _ in range(NUM_ENVS)]
    for lane, single in enumerate(singles):
        step_by_hand(single, lane, mode)
    assert same_visits(visits, functools.reduce(operator.add, [single.visits for single in singles]))
    finished = visits.ends.sum() + visits.num_truncated
    assert visits.num_truncated > 10
    assert visits.ends.sum() > 10
    if mode == AutoresetMode.NEXT_STEP:  # a finished episode costs a step, except on the last step
        assert steps * NUM_ENVS - finished <= visits.num_steps <= steps * NUM_ENVS - finished + NUM_ENVS
    else:
        assert visits.num_steps == steps * NUM_ENVS


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rho", [0.5, 2.0, np.inf])
def test_one_sub_environment_is_paid_like_a_single_environment(mode, rho):
    envs = CoverageRewardVector(SyncVectorEnv([limited], autoreset_mode=mode), rho, task_share=0.25)
    rewards = [float(result[1][0]) for result in drive(envs, ACTIONS[:, :1])]
    assert rewards == step_by_hand(CoverageReward(limited(), rho, task_share=0.25), 0, mode)


def test_a_step_that_only_resets_is_paid_nothing():
    envs = CoverageRewardVector(SyncVectorEnv([limited] * NUM_ENVS), task_share=0.5)
    was_done, num_resets = np.zeros(NUM_ENVS, bool), 0
    for _, rewards, terminated, truncated, infos in drive(envs):
        assert (infos["coverage_reward"][was_done] == 0).all()
        assert (rewards[was_done] == 0).all()
        assert np.array_equal(rewards, 0.5 * infos["coverage_reward"] + 0.5 * infos["task_reward"])
        num_resets += was_done.sum()
        was_done = terminated | truncated
    assert num_resets > 10


def test_all_rewards_of_a_step_are_those_of_the_counts_before_it():
    """Three copies in one untried pair are all paid in full; the next time all know it."""
    envs = CoverageRewardVector(SyncVectorEnv([lambda: Scripted(0, [(0, False, False)] * 4)] * 3), cap=11.0)
    envs.reset()
    assert envs.step(np.array([0, 0, 0]))[1].tolist() == [1, 1, 1]
    assert envs.step(np.array([0, 0, 1]))[1].tolist() == [0, 0, 1]
    # T = (5, 1), rho = 2: W = 1/5 + 1, and r = t/(T^2 W) = 6/(25 W), 6/W
    worth = 1 + 10 * envs.step(np.array([0, 0, 1]))[1]
    assert worth == pytest.approx([6 / 25 / 1.2, 6 / 25 / 1.2, 6 / 1.2], rel=1e-12)
    # T = (7, 2): the sum follows two visits of one pair in one step
    r = 9 / np.array([49, 4]) / (1 / 7 + 1 / 2)
    assert 1 + 10 * envs.step(np.array([0, 1, 2]))[1] == pytest.approx([*r, 11], rel=1e-12)


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_the_wrapper_changes_nothing(vector):
    bare, counted = vector([limited] * 2), CountVisitsVector(vector([limited] * 2))
    for expected, got in zip(drive(bare, ACTIONS[:40, :2]), drive(counted, ACTIONS[:40, :2]), strict=True):
        for a, b in zip(expected[:4], got[:4], strict=True):
            assert np.array_equal(a, b)
        assert expected[4].keys() == got[4].keys()
    bare.close(), counted.close()


def test_an_environment_that_is_vectorised_natively_is_counted_as_its_stream_says():
    """CartPole has its own vector environment, with one generator for all; the stream is tallied by hand."""
    envs = CountVisitsVector(
        gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point"),
        states=Bins(3, low=-1.0, high=1.0),
    )
    assert isinstance(envs.unwrapped, gym.envs.classic_control.cartpole.CartPoleVectorEnv)
    edges, hand, rng = [-1 / 3, 1 / 3], ByHand(), np.random.default_rng(1)

    def keys(observations):
        return (np.digitize(observations.astype(float), edges) @ [27, 9, 3, 1]).tolist()

    observations, _ = envs.reset(seed=SEED)
    before, was_done = keys(observations), np.zeros(4, bool)
    for key in before:
        hand.start(key)
    for _ in range(300):
        actions = rng.integers(2, size=4)
        observations, _, terminated, truncated, _ = envs.step(actions)
        after = keys(observations)
        for k in range(4):
            if was_done[k]:
                hand.start(after[k])
            else:
                hand.step(before[k], actions[k], after[k], terminated[k], truncated[k])
        before, was_done = after, terminated | truncated
    assert hand.agrees_with(envs.visits)
    assert envs.visits.ends.sum() > 20


@pytest.mark.parametrize("mode", MODES)
def test_resetting_some_sub_environments_early_starts_only_those(mode):
    envs = CountVisitsVector(SyncVectorEnv([limited] * 3, autoreset_mode=mode))
    envs.reset(seed=SEED)
    options = {"reset_mask": np.array([True, False, True])}
    envs.reset(options=options)
    assert envs.visits.num_episodes == 5
    envs.step(np.zeros(3, int))
    assert envs.visits.num_steps == 3


@pytest.mark.parametrize("mode", MODES)
def test_a_step_that_raised_is_no_visit(mode):
    scripts = [[(1, False, False)] * 3, [(1, False, False), None, (2, False, False)]]
    envs = CountVisitsVector(
        SyncVectorEnv([lambda script=script: Scripted(0, script) for script in scripts], autoreset_mode=mode)
    )
    envs.reset()
    envs.step(np.array([0, 0]))
    with pytest.raises(RuntimeError, match="simulator"):
        envs.step(np.array([1, 1]))
    assert envs.visits.as_dict() == {(0, 0): 2}


def test_an_observation_that_cannot_be_read_is_refused_and_nothing_counts_until_a_reset():
    scripts = [[(1, False, False)] * 4, [(1, False, False), (9, False, False), *[(2, False, False)] * 2]]
    envs = CountVisitsVector(SyncVectorEnv([lambda script=script: Scripted(0, script) for script in scripts]))
    envs.reset()
    envs.step(np.array([0, 0]))
    with pytest.raises(InvalidArgumentError, match="9"):
        envs.step(np.array([1, 1]))
    for _ in range(2):
        envs.step(np.array([1, 1]))
    assert envs.visits.as_dict() == {(0, 0): 2}
    assert envs.visits.num_episodes == 2


@pytest.mark.parametrize("ended", [False, True])
def test_a_reset_that_raised_leaves_no_state_behind(ended):
    envs = CountVisitsVector(SyncVectorEnv([lambda: Scripted(0, [(1, ended, False), (2, False, False)])]))
    envs.reset()
    envs.step(np.array([0]))
    envs.unwrapped.envs[0].start = None
    with pytest.raises(RuntimeError, match="simulator"):
        envs.reset()
    envs.step(np.array([1]))
    assert envs.visits.as_dict() == {(0, 0): 1}
    assert envs.visits.num_episodes == 1


def test_what_was_returned_at_an_end_need_not_be_readable():
    """As with a single environment: it is no state."""
    script = [(9, True, False), (1, False, False)]
    envs = CountVisitsVector(SyncVectorEnv([lambda: Scripted(0, script)]))
    envs.reset()
    for _ in range(3):
        envs.step(np.array([2]))
    assert envs.visits.as_dict() == {(0, 2): 2}
    assert envs.visits.starts.tolist() == [2, 0]


def test_a_function_of_the_users_sees_one_observation_at_a_time():
    envs = CountVisitsVector(
        SyncVectorEnv([limited] * NUM_ENVS), states=lambda s: ("even", "odd")[int(s) % 2]
    )
    for _ in drive(envs):
        pass
    assert set(envs.visits.keys) == {"even", "odd"}


def test_the_wrappers_say_what_is_wrong():
    with pytest.raises(InvalidArgumentError, match="without `Vector`"):
        CountVisitsVector(limited())
    silent = SyncVectorEnv([limited])
    del silent.metadata["autoreset_mode"]
    with pytest.raises(InvalidArgumentError, match="AutoresetMode"):
        CoverageRewardVector(silent)


def test_a_same_step_environment_without_its_final_observation_broke_its_contract():
    class Forgetful(SyncVectorEnv):
        def step(self, actions):
            *rest, infos = super().step(actions)
            infos.pop("final_obs", None)
            return *rest, infos

    envs = CountVisitsVector(
        Forgetful([lambda: gym.wrappers.TimeLimit(Wanderer(), 1)], autoreset_mode=AutoresetMode.SAME_STEP)
    )
    with pytest.raises(EnvironmentFailedError, match="final_obs"):
        list(drive(envs, ACTIONS[:20, :1]))  # one in seven steps ends, all others are cut
