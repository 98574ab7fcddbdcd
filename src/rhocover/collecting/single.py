"""A world made from one Gymnasium environment, stepped from Python with as little beside it as can be.

A step that ends an episode by termination leads to where the next one begins: that is the transition that
is counted, as in `MDP.from_gymnasium`. A time limit cuts an episode without saying anything about the
state: the transition is counted as it was seen, and the next step begins elsewhere.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rhocover.collecting.choosing import Chooser
from rhocover.collecting.environment_world import EnvironmentWorld
from rhocover.collecting.naming import RAISED, Naming, failed, read_ends, refused
from rhocover.collecting.records import Recorder, Reset
from rhocover.collecting.seeding import Seeds
from rhocover.collecting.stretch import Stretch
from rhocover.errors import EnvironmentFailedError, RhocoverError
from rhocover.exploring.index import OpenIndex
from rhocover.exploring.simulator import Position


class SingleWorld(EnvironmentWorld):
    """Acts in one environment."""

    def __init__(
        self, env: Any, naming: Naming, values: list[Any], seed: int, recorder: Recorder | None = None
    ) -> None:
        super().__init__(env, naming, values, seed, recorder)
        self._seeds = Seeds(seed)
        self._action_of_pair: list[Any] = []

    def begin(self) -> Position:
        """Returns the first position; the environment is reset with the seed."""
        return Position(np.array([self._reset(is_first=True)], np.int64), self._generator)

    def _go(self, position: Position, act: Chooser, before: int, stretch: Stretch, num_steps: int) -> None:
        """Steps until all are done, scores are due, or a state is met that `act` has no room for."""
        step, find, take = self._env.step, self._naming.find, act.take
        state, actions = int(position.states[0]), self._actions(act.room)
        add_pair, add_next, add_reward = stretch.pairs.append, stretch.nexts.append, stretch.rewards.append
        put = None if stretch.shelf is None else stretch.shelf.put
        room, done = act.room // self._chart.index.num_actions, before + len(stretch.pairs)
        earlier = self._num_steps - len(stretch.pairs)
        if act.until_refresh(done) == 0:
            act.refresh(done)
        try:
            for _ in range(min(num_steps - len(stretch.pairs), act.until_refresh(done))):
                pair = take(state, done)
                add_pair(pair)
                observation, reward, terminated, truncated, _ = step(actions[pair])
                add_reward(reward)
                if put is not None:
                    put(observation)
                done += 1
                is_plain = terminated is False and truncated is False
                if not is_plain and any(ends := read_ends(terminated, truncated)):
                    self._num_steps = earlier + len(stretch.pairs)
                    state = self._end(stretch, observation, *ends)
                else:
                    state = find(observation)
                    if state is None:
                        state = self._naming.number(observation, earlier + len(stretch.pairs))
                    add_next(state)
                if state >= room:
                    return
        except EnvironmentFailedError:
            raise
        except RhocoverError as error:
            raise refused(error, earlier + len(stretch.pairs)) from error
        except RAISED as error:
            if len(stretch.rewards) == len(stretch.pairs):  # the step is done: what it showed is no state
                raise refused(error, earlier + len(stretch.pairs)) from error
            raise failed("raised while stepping", earlier + len(stretch.pairs) - 1, error) from error
        finally:
            self._num_steps = earlier + len(stretch.pairs)
            if state is not None:
                position.states[0] = state

    def _actions(self, room: int) -> list[Any]:
        """Returns the environment's action for each pair there is room for; made once for a size."""
        if len(self._action_of_pair) != room:
            index = self._chart.index
            if isinstance(index, OpenIndex):
                self._action_of_pair = self._values * (room // index.num_actions)
            else:
                self._action_of_pair = [self._values[k] for k in index.pair_action.tolist()]
        return self._action_of_pair

    def _end(self, stretch: Stretch, observation: Any, terminated: bool, truncated: bool) -> int:
        """Begins the next episode; a time limit leaves the transition as it was seen."""
        stretch.ends[len(stretch.pairs) - 1] = (terminated, truncated)
        cut = None if terminated else self._naming.number(observation, self._num_steps)
        if terminated:
            self._note_end(observation)
        state = self._reset()
        stretch.nexts.append(state if cut is None else cut)
        return state

    def _reset(self, *, is_first: bool = False) -> int:
        """Begins an episode, and returns the number of its first state."""
        seed = self._seeds.next(self._num_steps)
        try:
            observation, _ = self._env.reset(seed=seed)
        except RhocoverError:
            raise
        except RAISED as error:
            raise failed("raised while being reset", self._num_steps, error) from error
        if is_first:
            self._naming.look(observation)
        state = self._naming.number(observation, self._num_steps)
        self._chart.begins(state)
        if self._recorder is not None:
            self._recorder.begin(Reset(self._num_steps, copy.deepcopy(observation), seed))
        return state

    _callers = (_go.__code__, _reset.__code__)
