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
from rhocover.errors import Call, InvalidArgumentError

LONGEST = 10**6  # steps of a decision, longer than most episodes; a run only pauses between decisions


class RepeatAction(RecordConstructorArgs, gym.Wrapper):
    """Holds every action for `repeat` steps, until the end of the episode at most.

    `repeat=` of `explore` and `collect` does that for a single environment. The copies of a vector are
    wrapped one by one:

    >>> import gymnasium as gym
    >>> import rhocover as rc
    >>> envs = gym.make_vec("CliffWalking-v1", 2, wrappers=[lambda env: rc.RepeatAction(env, 3)])
    >>> rc.explore(envs, num_steps=200, model="learned").num_steps
    200
    """

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
        one = f"lambda env: rc.RepeatAction(env, {repeat})"
        raise InvalidArgumentError.of(
            "repeat",
            "is for a single environment: the copies of a vector end their episodes at different steps",
            f"{repeat}",
            remedy=(
                Call(f"Hold actions in each copy: gymnasium.make_vec(..., wrappers=[{one}])", "Leave it out"),
                ", or pass a single environment.",
            ),
        )
    return RepeatAction(env, repeat)
