"""Stable-Baselines3's PPO, paid by an intrinsic reward.

Stable-Baselines3 computes returns and advantages at the end of each rollout; the callback below replaces the
rewards and has them computed again, before the update. The task's reward is dropped. If the reward is
*episodic* (a novelty within the episode), its return ends with the episode, as usual. If not, it goes on
beyond the end, as in RND: an agent that finds something new is not afraid of the end that follows.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rhocover.baselines.deep import TASK, PPOExplorer
from rhocover.baselines.deep.networks import IntrinsicReward, ReturnScale, Rollout, load_torch
from rhocover.baselines.deep.novelty import APT, E3B, NGU, CodeCounts
from rhocover.baselines.deep.prediction import ICM, RND
from rhocover.errors import missing_extra

KINDS: dict[str, Any] = {"rnd": RND, "icm": ICM, "apt": APT, "e3b": E3B, "ngu": NGU, "counts": CodeCounts}
FLAT = "flat"  # the entry of `info` with the observation as it is
FOR_EVER = 2**62  # steps: the callback ends the training


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"stable_baselines3{name}")
    except ModuleNotFoundError as error:
        raise missing_extra("stable_baselines3", "sb3") from error


def train(
    settings: PPOExplorer,
    make: Callable[[], Any],
    code: str,
    is_done: Callable[[], bool],
    seed: int,
    own: Any,
) -> None:
    """Trains PPO until `is_done()`; see `PPOExplorer.train`."""
    PPO, vectors = _module("").PPO, _module(".common.vec_env")
    with _undisturbed():
        copies = vectors.DummyVecEnv([make] * settings.num_envs)
        copies.seed(seed)
        normalised = vectors.VecNormalize(copies, norm_obs=True, norm_reward=False)
        model = PPO(
            "MlpPolicy", normalised, seed=seed, device="cpu", n_steps=settings.num_steps,
            batch_size=min(settings.batch_size, settings.num_envs * settings.num_steps),
            n_epochs=settings.num_epochs, learning_rate=settings.learning_rate, ent_coef=settings.entropy,
            gamma=settings.discount,
        )  # fmt: skip
        size, num_actions = copies.observation_space.shape[0], int(copies.action_space.n)
        reward = own or (None if settings.reward == TASK else KINDS[settings.reward](size, num_actions))
        payer = None if reward is None else Payer(reward, copies, code, settings.discount)
        model.learn(FOR_EVER, callback=_callback(payer, is_done))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Trains on one thread, and restores the random states that a seeded training sets."""
    torch = load_torch()
    threads, python_state = torch.get_num_threads(), random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002  # the state that Stable-Baselines3 sets
    torch.set_num_threads(1)  # small networks are slower on several
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


class Payer:
    """Collects the steps of a rollout, and replaces its rewards."""

    def __init__(self, reward: IntrinsicReward, copies: Any, code: str, discount: float) -> None:
        self._reward, self._copies, self._code = reward, copies, code
        self._scale = ReturnScale(copies.num_envs, discount) if reward.is_scaled else None
        self._steps: list[tuple[Any, ...]] = []
        self._now: list[dict[str, Any]] = []
        self._starts = np.ones(copies.num_envs, bool)

    def note(self, actions: Any, dones: Any, infos: list[dict[str, Any]]) -> None:
        """Notes one step of all copies."""
        before = self._now or list(self._first)
        self._steps.append((before, infos, np.ravel(actions), self._starts))
        self._now = [self._copies.reset_infos[n] if done else infos[n] for n, done in enumerate(dones)]
        self._starts = np.array(dones, bool)

    def begin(self) -> None:
        """Notes the first observations, before the first step."""
        self._first = [dict(info) for info in self._copies.reset_infos]

    def pay(self, buffer: Any, values: Any, dones: Any) -> None:
        """Puts the rewards of the rollout into the buffer, and computes its advantages again."""
        rewards = self._reward.of(self._rollout())
        self._steps = []
        buffer.rewards[:] = rewards if self._scale is None else self._scale(rewards)
        starts = buffer.episode_starts.copy()
        if not self._reward.is_episodic:
            buffer.episode_starts[:] = 0
            dones = np.zeros_like(dones)
        buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        buffer.episode_starts[:] = starts

    def _rollout(self) -> Rollout:
        before, after, actions, starts = zip(*self._steps, strict=True)

        def column(infos: Any, name: str) -> list[Any]:
            return [[info[name] for info in row] for row in infos]

        def codes(infos: Any) -> Any:
            found = np.empty((len(infos), len(infos[0])), object)
            for place in np.ndindex(*found.shape):
                found[place] = infos[place[0]][place[1]][self._code]
            return found

        return Rollout(
            np.array(column(before, FLAT), float), np.array(column(after, FLAT), float),
            np.array(actions), np.array(starts), codes(before), codes(after),
        )  # fmt: skip


def _callback(payer: Payer | None, is_done: Callable[[], bool]) -> Any:
    """Returns the callback that pays, and ends the training."""
    Base: Any = _module(".common.callbacks").BaseCallback

    class Paying(Base):
        def _on_training_start(self) -> None:
            if payer is not None:
                payer.begin()

        def _on_step(self) -> bool:
            if payer is not None:
                payer.note(self.locals["actions"], self.locals["dones"], self.locals["infos"])
            return not is_done()

        def _on_rollout_end(self) -> None:
            if payer is not None:
                payer.pay(self.locals["rollout_buffer"], self.locals["values"], self.locals["dones"])

    return Paying()
