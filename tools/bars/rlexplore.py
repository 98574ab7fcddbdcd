"""The rewards of RLeXplore (package rllte-core) as rows: their code, paid to the same PPO as ours.

rllte-core pins packages that do not go with this library, so it is installed in an environment of its own,
without what it asks for: `pip install --no-deps rllte-core==1.0.1 termcolor nvidia-ml-py`, beside torch and
Stable-Baselines3. Where it is missing, the rows are left out. Their rewards are scaled by their own running
deviation; observations are normalised here, because theirs would take 20,000 steps that nobody counts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np

from rhocover.baselines.deep import PPOExplorer
from rhocover.baselines.deep.networks import Moments, Rollout

PREFIX = "rlexplore_"
CLASSES = {
    "rnd": "RND",
    "icm": "ICM",
    "re3": "RE3",
    "e3b": "E3B",
}  # NGU of 1.0.1 lacks a setting that it reads
NAMES = tuple(PREFIX + name for name in CLASSES)
EPISODIC = ("E3B",)  # novelty within the episode


def is_installed() -> bool:
    """Whether RLeXplore's rewards can be imported."""
    return importlib.util.find_spec("rllte") is not None


@dataclass(frozen=True)
class RLeXploreExplorer(PPOExplorer):
    """PPO that is paid by a reward of RLeXplore."""

    kind: str = "RND"

    @property
    def name(self) -> str:
        """The name of the row."""
        return PREFIX + self.kind.lower()

    def train(
        self, make: Callable[[], Any], code: str, is_done: Callable[[], bool], seed: int, own: Any = None
    ) -> None:
        """Trains as PPO does; the reward is made from the spaces of one copy."""
        first = make()
        reward = Reward(self.kind, first.observation_space, first.action_space, self.num_envs)
        super().train(make, code, is_done, seed, own or reward)


class Reward:
    """A reward of RLeXplore, asked for a rollout at a time."""

    is_scaled = False  # it scales itself

    def __init__(self, kind: str, space: Any, actions: Any, num_envs: int) -> None:
        rewards = importlib.import_module("rllte.xplore.reward")
        size = int(np.prod(space.shape))
        box = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        place = SimpleNamespace(num_envs=num_envs)
        envs = SimpleNamespace(observation_space=box, action_space=actions, unwrapped=place)
        self._reward = getattr(rewards, kind)(envs, obs_norm_type="none")
        self._moments = Moments(size)
        self.is_episodic = kind in EPISODIC

    def of(self, rollout: Rollout) -> Any:
        """Returns the rewards; the reward learns from the rollout in the same call."""
        import torch

        rows = rollout.following.reshape(-1, rollout.following.shape[-1])
        self._moments.add(rows)
        here, there = (
            torch.as_tensor(self._moments.normalised(x), dtype=torch.float32)
            for x in (rollout.observations, rollout.following)
        )
        ends = torch.as_tensor(np.roll(rollout.starts, -1, 0).astype(np.float32))
        ends[-1] = 0.0
        none = torch.zeros_like(ends)
        samples = {
            "observations": here, "actions": torch.as_tensor(rollout.actions), "rewards": none,
            "terminateds": ends, "truncateds": none, "next_observations": there,
        }  # fmt: skip
        for step in zip(*samples.values(), strict=True):  # some remember what they see
            self._reward.watch(*step)
        return self._reward.compute(samples).detach().cpu().numpy().astype(float)


EXPLORERS = {PREFIX + name: RLeXploreExplorer(kind=kind) for name, kind in CLASSES.items()}
