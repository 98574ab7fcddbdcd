"""A world made from a vector environment: many copies that step together and share the counts.

Actions of a round are chosen one copy after the other, as each choice counts at once. What the round did is
then handed out step by step, so that a run may pause, turn to a new plan or end between two copies.

Gymnasium has three ways to begin anew, told apart by `metadata["autoreset_mode"]`:

- next step: after an end the next call ignores the action and only resets; that is no visit;
- same step: the call that ends an episode already shows the next one; the last observation is in the infos;
- disabled: the caller resets the copies that have ended.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.collecting.choosing import Chooser
from rhocover.collecting.environment_world import EnvironmentWorld
from rhocover.collecting.naming import RAISED, Naming, failed, read_ends, read_reward
from rhocover.collecting.records import Recorder, Reset
from rhocover.collecting.seeding import first_seed
from rhocover.collecting.stretch import Stretch
from rhocover.errors import InvalidArgumentError, RhocoverError
from rhocover.exploring.simulator import Position

NEXT_STEP, SAME_STEP, DISABLED = MODES = ("next_step", "same_step", "disabled")


@dataclass(frozen=True, eq=False)
class Event:
    """What one copy did in a round; `begins` is what the next episode begins with, if it ended."""

    env: int
    pair: int
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    begins: Any = None


class VectorWorld(EnvironmentWorld):
    """Acts in a vector environment; steps are counted over all copies."""

    def __init__(
        self, env: Any, naming: Naming, values: list[Any], seed: int, recorder: Recorder | None = None
    ) -> None:
        super().__init__(env, naming, values, seed, recorder)
        self._actions = np.array(values).astype(env.single_action_space.dtype)
        self._mode = autoreset_mode(env)
        self._queue: deque[Event] = deque()
        self._held: dict[int, Event] = {}  # ends whose copy begins anew with the next call

    def begin(self) -> Position:
        """Returns the first position: every copy reset with a seed of its own."""
        try:
            observations, _ = self._env.reset(seed=first_seed(self._seed))
        except RAISED as error:
            raise failed("raised while being reset", 0, error) from error
        self._naming.look(one(observations, 0))
        seeds = self._seeds()
        states = [self._begun(env, one(observations, env), seeds[env]) for env in range(self._env.num_envs)]
        return Position(np.array(states, np.int64), self._generator)

    def _seeds(self) -> list[int | None]:
        """Returns the seed of each copy, where each has one of its own."""
        from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

        is_many = isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        return [first_seed(self._seed) + env if is_many else None for env in range(self._env.num_envs)]

    def _begun(self, env: int, observation: Any, seed: int | None = None) -> int:
        """Returns the number of the state in which an episode of a copy begins."""
        state = self._naming.number(observation, self._num_steps)
        self._chart.begins(state)
        if self._recorder is not None:
            self._recorder.begin(Reset(self._num_steps, observation, seed, env))
        return state

    def _go(self, position: Position, act: Chooser, before: int, stretch: Stretch, num_steps: int) -> None:
        """Hands out one step of the last round, or takes the next round."""
        if self._queue:
            self._take(self._queue.popleft(), position, act, stretch)
        else:
            self._round(position, act, before + len(stretch.nexts))

    def _round(self, position: Position, act: Chooser, done: int) -> None:
        """Steps every copy once, and queues what they did."""
        chosen = self._chosen(position, act, done)
        actions = self._actions[np.asarray(self._chart.index.pair_action)[chosen]]
        try:
            observations, rewards, terminated, truncated, infos = self._env.step(actions)
            shown = [one(observations, env) for env in range(len(chosen))]  # before a reset uses them again
            ends = [read_ends(*flags) for flags in zip(terminated, truncated, strict=True)]
            terminated, truncated = (np.array(flags, bool) for flags in zip(*ends, strict=True))
            paid = [read_reward(reward) for reward in rewards]
            begins = self._begins(observations, terminated, truncated)
        except RhocoverError:
            raise
        except RAISED as error:
            raise failed("raised while stepping", self._num_steps, error) from error
        for env, pair in enumerate(chosen):
            if env in self._held:  # this call has only begun its next episode
                self._queue.append(replace(self._held.pop(env), begins=shown[env]))
                continue
            over = bool(terminated[env] or truncated[env])
            is_next = over and self._mode == SAME_STEP
            last = final_observation(infos, env) if is_next else shown[env]
            event = Event(
                env, pair, last, paid[env], bool(terminated[env]), bool(truncated[env]),
                begins.get(env),
            )  # fmt: skip
            if over and self._mode == NEXT_STEP:
                self._held[env] = event
            else:
                self._queue.append(event)

    def _chosen(self, position: Position, act: Chooser, done: int) -> list[int]:
        """Returns a pair for each copy; each choice knows of those before it, and none is counted yet."""
        chosen = []
        for env, state in enumerate(position.states.tolist()):
            chosen.append(0 if env in self._held else act.choose(state, done + env))
        for env, pair in enumerate(chosen):
            if env not in self._held:
                act.visits[pair] -= 1
        return chosen

    def _begins(self, observations: Any, terminated: Any, truncated: Any) -> dict[int, Any]:
        """Returns the first observations of the episodes that have begun with this call already."""
        if self._mode == NEXT_STEP:
            return {}
        over = np.asarray(terminated | truncated, bool)
        if self._mode == DISABLED and over.any():
            observations, _ = self._env.reset(options={"reset_mask": over})
        return {int(env): one(observations, int(env)) for env in np.flatnonzero(over)}

    def _take(self, event: Event, position: Position, act: Chooser, stretch: Stretch) -> None:
        """Counts one step of one copy, and begins its next episode if it ended."""
        act.visits[event.pair] += 1
        stretch.pairs.append(event.pair)
        stretch.rewards.append(event.reward)
        stretch.envs.append(event.env)
        if stretch.shelf is not None:
            stretch.shelf.put(event.observation)
        self._num_steps += 1
        name = self._naming.number
        cut = None if event.terminated else name(event.observation, self._num_steps)
        state = cut
        if event.terminated or event.truncated:
            stretch.ends[len(stretch.pairs) - 1] = (event.terminated, event.truncated)
            if event.terminated:
                self._note_end(event.observation)
            state = self._begun(event.env, event.begins)
        assert state is not None
        stretch.nexts.append(state if cut is None else cut)
        position.states[event.env] = state

    _callers = (begin.__code__, _round.__code__, _begins.__code__)


def one(observations: Any, env: int) -> Any:
    """Returns a copy of what one copy of the environment showed, whatever the nesting."""
    if isinstance(observations, dict):
        return {key: one(part, env) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(one(part, env) for part in observations)
    return copy.copy(observations[env])


def autoreset_mode(env: Any) -> str:
    """Returns how a vector environment begins its episodes anew: next_step, same_step or disabled."""
    mode = env.metadata.get("autoreset_mode", NEXT_STEP)
    text = str(getattr(mode, "value", mode)).replace("-", "_").lower()
    text = {"nextstep": NEXT_STEP, "samestep": SAME_STEP}.get(text, text)
    if text not in MODES:
        raise InvalidArgumentError.of(
            'env.metadata["autoreset_mode"]', f"must be one of {', '.join(MODES)}", repr(mode)
        )
    return text


def final_observation(infos: Any, env: int) -> Any:
    """Returns the last observation of an episode that ended in a call which shows the next one already."""
    for name in ("final_obs", "final_observation"):
        if name in infos:
            return copy.deepcopy(infos[name][env])
    raise KeyError("final_obs is not among the infos of an environment that resets within the same step")
