"""Autoreset: in every mode a call is a visit exactly where the sub-environment itself took a step in it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from wrapper_worlds import NUM_ACTIONS, ByHand, limited

import rhocover as rc
from rhocover.environments.autoreset import MODES, NOT_SHOWN, SubStep, autoreset_mode, sub_steps
from rhocover.environments.wrappers import CountVisitsVector
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError

NUM_ENVS, SEED = 3, 4


class Logged(gym.Wrapper):
    """Writes down what happens to a single environment, in its own words."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.log: list[tuple] = []

    def get_log(self) -> list[tuple]:
        return self.log

    def reset(self, **options: Any) -> tuple[Any, dict]:
        observation, info = super().reset(**options)
        self.log.append(("reset", int(observation)))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.log.append(("step", int(action), int(observation), terminated, truncated))
        return observation, reward, terminated, truncated, info


def logged() -> gym.Env:
    return Logged(limited())


def counted_by_hand(logs: list[list[tuple]]) -> ByHand:
    """Returns the counts of what the single environments wrote down."""
    hand = ByHand()
    for log in logs:
        state = None
        for event in log:
            if event[0] == "reset":
                state = event[1]
                hand.start(state)
            else:
                hand.step(state, *event[1:])
                state = event[2]
    return hand


def expected(events: list[tuple]) -> tuple[bool, Any, Any]:
    """Returns whether a sub-environment stepped in a call, to what that led, and what a reset showed."""
    steps = [event[2] for event in events if event[0] == "step"]
    resets = [event[1] for event in events if event[0] == "reset"]
    assert len(steps) <= 1
    assert len(resets) <= 1
    return bool(steps), (*steps, NOT_SHOWN)[0], (*resets, NOT_SHOWN)[0]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_every_call_says_of_each_sub_environment_what_that_one_did(vector, mode):
    envs = vector([logged] * NUM_ENVS, autoreset_mode=mode)
    rng, was_over, visits = np.random.default_rng(0), np.zeros(NUM_ENVS, bool), 0
    envs.reset(seed=SEED)
    for _ in range(60):
        before = [len(log) for log in envs.call("get_log")]
        observations, _, terminated, truncated, infos = envs.step(rng.integers(NUM_ACTIONS, size=NUM_ENVS))
        events = [log[start:] for log, start in zip(envs.call("get_log"), before, strict=True)]
        over = terminated | truncated
        steps = sub_steps(autoreset_mode(envs), was_over, observations, over, infos)
        assert [(step.is_visit, step.led_to, step.begins) for step in steps] == [*map(expected, events)]
        visits += sum(step.is_visit for step in steps)
        was_over = over
        if mode == AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
            was_over = np.zeros(NUM_ENVS, bool)
    envs.close()
    assert (visits < 60 * NUM_ENVS) == (mode == AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_wrappers_and_runs_agree_with_the_single_environment_after_every_step(mode):
    """A run steps the wrapped vector of one; both say what the environment in it wrote down.

    The episodes of a run have a step or more, and its end cuts the last one; a wrapper cannot know either.
    """
    has_ended = has_been_cut = False
    for num_steps in range(1, 25):
        envs = CountVisitsVector(SyncVectorEnv([logged], autoreset_mode=mode))
        run = rc.explore(envs, 2.0, num_steps, model="learned", explorer="uniform_random", seed=SEED)
        (log,) = envs.unwrapped.call("get_log")
        assert counted_by_hand([log]).agrees_with(envs.visits)
        log = log[:-1] if log[-1][0] == "reset" else log
        log[-1] = log[-1] if log[-1][3] else (*log[-1][:4], True)
        hand = counted_by_hand([log])
        assert hand.agrees_with(run.tally)
        has_ended, has_been_cut = has_ended or bool(hand.ends), has_been_cut or hand.num_truncated > 1
    assert has_ended
    assert has_been_cut


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_wrappers_and_runs_agree_on_many_sub_environments(mode):
    """A run may end in the middle of a round; what it has not counted then are at most n - 1 steps."""
    envs = CountVisitsVector(SyncVectorEnv([logged] * NUM_ENVS, autoreset_mode=mode))
    run = rc.explore(envs, 2.0, 200, model="learned", explorer="uniform_random", seed=SEED)
    assert counted_by_hand(envs.unwrapped.call("get_log")).agrees_with(envs.visits)
    more, less = envs.visits.as_dict(), run.tally.as_dict()
    assert all(more[pair] >= count for pair, count in less.items())
    assert sum(more.values()) - sum(less.values()) < NUM_ENVS


def test_a_sub_environment_that_nobody_has_reset_is_not_visited():
    steps = sub_steps("disabled", np.array([True, False]), [1, 2], np.zeros(2, bool), {})
    assert [step.is_visit for step in steps] == [False, True]
    assert steps[0].begins is NOT_SHOWN


def test_a_final_observation_is_found_under_both_names_and_missed_only_when_it_is_asked_for():
    over = np.array([True])
    for name in ("final_obs", "final_observation"):
        (step,) = sub_steps("same_step", ~over, [3], over, {name: np.array([7], object)})
        assert (step.last, step.begins) == (7, 3)
    (step,) = sub_steps("same_step", ~over, [3], over, {})
    assert (step.is_visit, step.begins) == (True, 3)
    with pytest.raises(EnvironmentFailedError, match="final_obs"):
        _ = step.last
    assert SubStep(True, None).last is None


@pytest.mark.parametrize("mode", [*AutoresetMode, *MODES, "next-step", "NextStep", "SameStep", "Disabled"])
def test_a_mode_is_read_in_every_spelling(mode):
    envs = SyncVectorEnv([limited])
    envs.metadata = {"autoreset_mode": mode}
    assert autoreset_mode(envs) in MODES


@pytest.mark.parametrize("metadata", [{}, {"autoreset_mode": "sometimes"}])
def test_a_mode_that_is_not_said_is_never_guessed(metadata):
    envs = SyncVectorEnv([limited])
    envs.metadata = metadata
    for use in (CountVisitsVector, lambda env: rc.explore(env, 2.0, 10, model="learned")):
        with pytest.raises(
            InvalidArgumentError, match=r"next_step, same_step, disabled, got .*AutoresetMode"
        ):
            use(envs)
