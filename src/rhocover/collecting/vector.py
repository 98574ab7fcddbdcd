"""A world made from a vector environment: many copies that step together and share the counts.

Actions of a round are chosen one copy after the other, as each choice counts at once. What the round did is
then handed out step by step, so that a run may pause, turn to a new plan or end between two copies. Which
calls are visits, and what they show of the episodes before and after, is read in `adapters.autoreset`.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import BoolArray
from rhocover.collecting.choosing import Chooser
from rhocover.collecting.environment_world import EnvironmentWorld
from rhocover.collecting.naming import RAISED, Naming, failed, read_ends, read_reward
from rhocover.collecting.records import Recorder, Reset
from rhocover.collecting.seeding import first_seed
from rhocover.collecting.stretch import Stretch
from rhocover.environments.autoreset import DISABLED, NEXT_STEP, NOT_SHOWN, autoreset_mode, sub_steps
from rhocover.errors import RhocoverError
from rhocover.exploring.simulator import Position


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
            held = np.isin(np.arange(len(chosen)), list(self._held))
            steps = sub_steps(self._mode, held, shown, terminated | truncated, infos)
            reset = self._reset(terminated | truncated)
        except RhocoverError:
            raise
        except RAISED as error:
            raise failed("raised while stepping", self._num_steps, error) from error
        for env, (pair, step) in enumerate(zip(chosen, steps, strict=True)):
            if not step.is_visit:  # this call has only begun its next episode
                self._queue.append(replace(self._held.pop(env), begins=step.begins))
                continue
            begins = reset.get(env) if step.begins is NOT_SHOWN else step.begins
            ends = bool(terminated[env]), bool(truncated[env])
            event = Event(env, pair, step.last, paid[env], *ends, begins)
            if any(ends) and self._mode == NEXT_STEP:
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

    def _reset(self, over: BoolArray) -> dict[int, Any]:
        """Resets the copies that are over, where nobody else does, and returns what they show."""
        if self._mode != DISABLED or not over.any():
            return {}
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

    _callers = (begin.__code__, _round.__code__, _reset.__code__)


def one(observations: Any, env: int) -> Any:
    """Returns a copy of what one copy of the environment showed, whatever the nesting."""
    if isinstance(observations, dict):
        return {key: one(part, env) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(one(part, env) for part in observations)
    return copy.copy(observations[env])
