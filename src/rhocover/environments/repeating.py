"""Macro-actions: each action is held for several steps of the environment.

With `repeat=k` a run takes *decisions*: one decision is k steps with the same action, or fewer if the episode
ends before. The observation is the last one, the reward the sum. Steps, visits, counts and data sets are then
about decisions; a time limit of the environment still counts its own steps.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from rhocover import checks
from rhocover.errors import InvalidArgumentError, parse_text

LONGEST = 10**6  # steps of a decision, longer than most episodes; a run only pauses between decisions


class RepeatAction(RecordConstructorArgs, gym.Wrapper):
    """Holds every action for `repeat` steps, until the end of the episode at most."""

    def __init__(self, env: gym.Env, repeat: int) -> None:
        checks.check_instance(
            env, gym.Env, "env", "must be a gymnasium.Env", "Make one: gymnasium.make(...)."
        )
        self.repeat = checks.integer(repeat, "repeat", least=1, most=LONGEST)
        RecordConstructorArgs.__init__(self, repeat=self.repeat)
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the environment up to `repeat` times; the reward is the sum."""
        observation, total, terminated, truncated, info = self.env.step(action)
        for _ in range(self.repeat - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = self.env.step(action)
            total = total + reward  # type: ignore[operator]
        return observation, total, terminated, truncated, info


def repeated(env: Any, repeat: int, *, is_vector: bool) -> RepeatAction:
    """Returns the environment in which each action is held for `repeat` steps; refuses a vector."""
    if is_vector:
        raise InvalidArgumentError.of(
            "repeat",
            "is for a single environment: the copies of a vector end their episodes at different steps",
            f"{repeat}",
            remedy=parse_text("Pass a single environment, or leave `repeat` out."),
        )
    return RepeatAction(env, repeat)
