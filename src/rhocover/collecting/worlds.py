"""Worlds made from one Gymnasium environment, and from a vector of them.

If a step terminates its episode, the counted transition leads to the first state of the next episode, as in
`MDP.from_gymnasium`. A time limit truncates an episode independently of the state: the transition is counted
as observed, and the next step begins elsewhere.

The copies of a vector environment step together and share the counts. In each round, actions are chosen one
copy after the other, because each choice counts at once. The steps of the round are then processed one by
one, so that a run may pause, re-plan or end between two copies. Gymnasium has three ways to reset copies that
have ended, distinguished by `metadata["autoreset_mode"]`:

- next step: after an end the next call ignores the action and only resets; it is not a visit;
- same step: the call that ends an episode already returns the first observation of the next one; the last
  observation is in the infos;
- disabled: the caller resets the copies that have ended.

A single environment may say in `info["action_mask"]` which actions are allowed now. In runs that learn its
dynamics only these are played, and a pair that was never allowed is none of those to cover.
"""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import BoolArray
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.log import Recorder, Reset
from rhocover.collecting.state_index import (
    RAISED,
    GrowingStateIndex,
    failed,
    read_ends,
    read_reward,
    refused,
    shown_as,
)
from rhocover.collecting.stepping import Chooser, EnvironmentWorld, Seeds, StepBatch, first_seed
from rhocover.environments.autoreset import DISABLED, NEXT_STEP, NOT_SHOWN, autoreset_mode, sub_steps
from rhocover.errors import EnvironmentFailedError, RhocoverError
from rhocover.exploring.runs.spec import is_self_reliant
from rhocover.exploring.worlds import OpenIndex, Position


class SingleWorld(EnvironmentWorld):
    """Acts in one environment."""

    def __init__(self, asked: EnvRun, recorder: Recorder | None = None, env: Any = None) -> None:
        super().__init__(asked, recorder, env)
        self._seeds = Seeds(self._seed)
        self._action_of_pair: list[Any] = []
        self._mask: BoolArray | None = None  # of the current state; None for an environment without masks

    def begin(self) -> Position:
        """Returns the first position; the environment is reset with the seed."""
        return Position(np.array([self._reset(is_first=True)], np.int64), self._generator)

    def _go(self, position: Position, act: Chooser, before: int, batch: StepBatch, num_steps: int) -> None:
        """Steps until the batch is done, or a state is met that `act` has no room for."""
        step, find, take = self._env.step, self._reader.find, act.take
        state, actions = int(position.states[0]), self._actions(act.room)
        add_pair, add_next, add_reward = batch.pairs.append, batch.nexts.append, batch.rewards.append
        put, learn = batch.put, act.learn
        room, done = act.room // self._index.index.num_actions, before + len(batch.pairs)
        earlier = self._num_steps - len(batch.pairs)
        due = done + act.until_refresh(done)
        try:
            for _ in range(num_steps - len(batch.pairs)):
                if done == due:
                    act.refresh(done)
                    due = done + act.until_refresh(done)
                pair = take(state, done) if self._mask is None else act.instead(take(state, done), self._mask)
                add_pair(pair)
                observation, reward, terminated, truncated, info = step(actions[pair])
                add_reward(reward)
                if put is not None:
                    put(observation)
                done += 1
                is_plain = terminated is False and truncated is False
                if not is_plain and any(ends := read_ends(terminated, truncated)):
                    self._num_steps = earlier + len(batch.pairs)
                    state = self._end(batch, observation, *ends)
                else:
                    state = find(observation)
                    if state is None:
                        state = self._reader.number(observation, earlier + len(batch.pairs))
                    add_next(state)
                    if self._mask is not None:
                        self._read_mask(state, info)
                if learn is not None:
                    learn(pair, batch.nexts[-1])
                    if len(batch.pairs) - 1 in batch.ends and act.begin is not None:
                        act.begin(0)
                if state >= room:
                    return
        except EnvironmentFailedError:
            raise
        except RhocoverError as error:
            raise refused(error, earlier + len(batch.pairs)) from error
        except RAISED as error:
            if len(batch.rewards) == len(batch.pairs):  # the step returned; its observation is not a state
                if isinstance(error, MemoryError):  # or there was no memory to keep it
                    raise
                raise refused(error, earlier + len(batch.pairs)) from error
            raise failed("raised while stepping", earlier + len(batch.pairs) - 1, error) from error
        finally:
            self._num_steps = earlier + len(batch.pairs)
            if state is not None:
                position.states[0] = state

    def _actions(self, room: int) -> list[Any]:
        """Returns the environment's action for each pair there is room for; made once per size."""
        if len(self._action_of_pair) != room:
            index = self._index.index
            if isinstance(index, OpenIndex):
                self._action_of_pair = self._values * (room // index.num_actions)
            else:
                self._action_of_pair = [self._values[k] for k in index.pair_action.tolist()]
        return self._action_of_pair

    def _end(self, batch: StepBatch, observation: Any, terminated: bool, truncated: bool) -> int:
        """Begins the next episode and returns its state; after a truncation the transition is as observed."""
        batch.ends[len(batch.pairs) - 1] = (terminated, truncated)
        cut = None if terminated else self._reader.number(observation, self._num_steps)
        if terminated:
            self._note_end(observation)
        state = self._reset()
        batch.nexts.append(state if cut is None else cut)
        return state

    def _reset(self, *, is_first: bool = False) -> int:
        """Begins an episode and returns the number of its first state."""
        seed = self._seeds.next(self._num_steps)
        try:
            observation, info = self._env.reset(seed=seed)
        except RhocoverError:
            raise
        except RAISED as error:
            raise failed("raised while being reset", self._num_steps, error) from error
        if is_first:
            self._reader.adapt_to(observation)
        state = self._reader.number(observation, self._num_steps)
        self._see(observation)
        if self._mask is not None or (is_first and self._has_masks(info)):
            self._read_mask(state, info)
        self._index.note_start(state)
        if self._recorder is not None:
            kept = observation if self._reader.is_plain else copy.deepcopy(observation)
            self._recorder.begin(Reset(self._num_steps, kept, seed))
        return state

    def _has_masks(self, info: Any) -> bool:
        """Whether the run respects masks.

        Not with a table, nor in a collection, whose log has none, nor with an explorer that knows all pairs
        before its first step.
        """
        from gymnasium.spaces import Discrete

        if not isinstance(info, dict) or MASK not in info or self._recorder is not None:
            return False
        is_open = isinstance(self._index, GrowingStateIndex) and not is_self_reliant(
            self._asked.spec.explorer
        )
        return is_open and isinstance(self._env.action_space, Discrete)

    def _read_mask(self, state: int, info: dict[str, Any]) -> None:
        """Reads which actions are allowed in the current state; all if the environment does not say."""
        self._mask = read_mask(info.get(MASK), self._env.action_space.n, self._asked.actions.chosen)
        self._note_mask(state, self._mask)

    _callers = (_go.__code__, _reset.__code__)


MASK = "action_mask"  # in the info of a reset or step: 1 for each action that is allowed now, as in Taxi


def read_mask(mask: Any, num_actions: int, chosen: tuple[int, ...] | None) -> BoolArray:
    """Returns which of the run's actions are allowed; raises if there is none."""
    flags = np.ones(num_actions, bool) if mask is None else np.asarray(mask)
    if flags.shape != (num_actions,) or flags.dtype.kind not in "biu":
        raise EnvironmentFailedError(
            f"info[{MASK!r}] must hold 0 or 1 for each of the {num_actions} actions, got {shown_as(mask)}. "
            "Correct the environment."
        )
    found = flags.astype(bool) if chosen is None else flags.astype(bool)[list(chosen)]
    if not found.any():
        raise EnvironmentFailedError(
            f"info[{MASK!r}] allows no action, but the episode goes on. Correct the environment, or list "
            "more `actions`."
        )
    return found


@dataclass(frozen=True, eq=False)
class Event:
    """The step of one copy in a round; `begins` is the first observation of the next episode, if it ended."""

    env: int
    pair: int
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    begins: Any = None


class VectorWorld(EnvironmentWorld):
    """Acts in a vector environment; steps are counted over all copies."""

    def __init__(self, asked: EnvRun, recorder: Recorder | None = None, env: Any = None) -> None:
        super().__init__(asked, recorder, env)
        self._actions = np.array(self._values).astype(self._env.single_action_space.dtype)
        self._mode = autoreset_mode(self._env)
        self._queue: deque[Event] = deque()
        self._held: dict[int, Event] = {}  # ends of copies that are reset by the next call

    def begin(self) -> Position:
        """Returns the first position, after resetting every copy with its own seed."""
        try:
            observations, _ = self._env.reset(seed=first_seed(self._seed))
        except RAISED as error:
            raise failed("raised while being reset", 0, error) from error
        self._reader.adapt_to(one(observations, 0))
        seeds = self._seeds()
        states = [self._begun(env, one(observations, env), seeds[env]) for env in range(self._env.num_envs)]
        return Position(np.array(states, np.int64), self._generator)

    def _seeds(self) -> list[int | None]:
        """Returns the seed of each copy; None if the copies do not have their own seeds."""
        from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

        is_many = isinstance(self._env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        return [first_seed(self._seed) + env if is_many else None for env in range(self._env.num_envs)]

    def _begun(self, env: int, observation: Any, seed: int | None = None) -> int:
        """Returns the number of the state in which an episode of a copy begins."""
        state = self._reader.number(observation, self._num_steps)
        self._see(observation)
        self._index.note_start(state)
        if self._recorder is not None:
            self._recorder.begin(Reset(self._num_steps, observation, seed, env))
        return state

    def _go(self, position: Position, act: Chooser, before: int, batch: StepBatch, num_steps: int) -> None:
        """Processes one step of the last round, or takes the next round."""
        if self._queue:
            self._take(self._queue.popleft(), position, act, batch)
        else:
            self._round(position, act, before + len(batch.nexts))

    def _round(self, position: Position, act: Chooser, done: int) -> None:
        """Steps every copy once and queues the steps."""
        chosen = self._chosen(position, act, done)
        actions = self._actions[np.asarray(self._index.index.pair_action)[chosen]]
        try:
            observations, rewards, terminated, truncated, infos = self._env.step(actions)
            shown = [one(observations, env) for env in range(len(chosen))]  # before a reset overwrites them
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
            if not step.is_visit:  # this call only reset the copy
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
        """Returns a pair per copy; each choice takes earlier ones into account, but none is counted yet."""
        chosen = []
        for env, state in enumerate(position.states.tolist()):
            chosen.append(0 if env in self._held else act.choose(state, done + env, env))
        for env, pair in enumerate(chosen):
            if env not in self._held:
                act.visits[pair] -= 1
        return chosen

    def _reset(self, over: BoolArray) -> dict[int, Any]:
        """Resets the copies that have ended, if autoreset is disabled; returns their first observations."""
        if self._mode != DISABLED or not over.any():
            return {}
        observations, _ = self._env.reset(options={"reset_mask": over})
        return {int(env): one(observations, int(env)) for env in np.flatnonzero(over)}

    def _take(self, event: Event, position: Position, act: Chooser, batch: StepBatch) -> None:
        """Counts one step of one copy, and begins its next episode if this one ended."""
        act.visits[event.pair] += 1
        batch.pairs.append(event.pair)
        batch.rewards.append(event.reward)
        batch.envs.append(event.env)
        self._num_steps += 1
        self._put(event.observation, batch)
        name = self._reader.number
        cut = None if event.terminated else name(event.observation, self._num_steps)
        state = cut
        if event.terminated or event.truncated:
            batch.ends[len(batch.pairs) - 1] = (event.terminated, event.truncated)
            if event.terminated:
                self._note_end(event.observation)
            state = self._begun(event.env, event.begins)
        assert state is not None
        batch.nexts.append(state if cut is None else cut)
        position.states[event.env] = state
        if act.learn is not None:
            act.learn(event.pair, batch.nexts[-1])
        if act.begin is not None and (event.terminated or event.truncated):
            act.begin(event.env)

    def _put(self, observation: Any, batch: StepBatch) -> None:
        """Keeps an observation; raises if it is not one of its space."""
        try:
            if batch.put is not None:
                batch.put(observation)
        except MemoryError:
            raise
        except RAISED as error:
            raise refused(error, self._num_steps) from error

    _callers = (begin.__code__, _round.__code__, _reset.__code__)


def one(observations: Any, env: int) -> Any:
    """Returns a copy of the observation of one copy of the environment, nested or not."""
    if isinstance(observations, dict):
        return {key: one(part, env) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(one(part, env) for part in observations)
    return copy.copy(observations[env])


def open_environment(asked: EnvRun, recorder: Recorder | None = None, env: Any = None) -> EnvironmentWorld:
    """Returns the world of a run in an environment, before its first reset."""
    return (VectorWorld if asked.is_vector else SingleWorld)(asked, recorder, env)
