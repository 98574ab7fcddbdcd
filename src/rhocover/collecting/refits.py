"""A state code that is fitted again during a run: everything so far is counted under the new code.

A `Net` of `LearnedFeatures` is fitted to a random rollout before the first step, and again on everything
collected whenever the number of steps has doubled. Between two steps of the run then

1. the encoder is trained on all observations so far (`History` keeps them, as the recorder of the run);
2. all of them are encoded again, in the order in which they were met;
3. states, transitions, episodes, the counts of the trace and the position are counted again from nothing.

Any other `Net` with the radius "auto" is looked at when the number of steps has doubled. Where codes are too
fine, a run passes through more of them than it can try the actions of, and hardly ever comes back to one: of
the pairs of the codes met, more than half were never tried. (After 1,000 steps it was a third in a maze with
moves of one length, and seven eighths in PointMaze, where a pushed ball rolls on.) Then the radius is doubled
until half of them were, or until few codes are left; all of it is encoded again as above. If there are few
codes, although their actions were tried, a code may hide most of the world, and the run might never leave it.
Then the radius is halved until there are more, or too many. It is halved once, too, where codes are no longer
found and there are steps enough for those of half the radius: what an action does then depends less on where
inside a code it is taken. (A car that has to turn has a heading; codes as wide as a bend hide it.)

The explorer begins anew with these counts, as it would with earlier data of the same steps, and so does the
search for something new. Afterwards no number of the run refers to the old code: applying the last one to the
stored observations gives the same counts. The environment notices nothing. Training depends on the steps and
the seed only, so a collection that is resumed trains the same encoders again while it repeats its log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.collecting.env_run import EnvRun, is_learner
from rhocover.collecting.log import Recorder, Reset, Steps
from rhocover.collecting.state_index import EpisodeCounts, GrowingStateIndex
from rhocover.environments.encoding.encoders import as_array, as_arrays
from rhocover.environments.encoding.nets import NetCode
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.explorers import State, begun
from rhocover.exploring.runs.runner import NOTHING, RunState
from rhocover.exploring.worlds import Visits

MOST_KEPT = 2**32  # bytes of the observations of a run
TRIED = 0.5  # of the pairs of the codes met: if fewer were tried, the codes are too fine
FEWEST = 32  # codes: the radius is not doubled to fewer
HARDLY_ANY = 16  # codes: if there are fewer after so many steps, the radius is halved
LONG = 1_000  # steps
HALVINGS = 8  # at a time: a radius of a hundredth of a step is no place
PLENTY = 8  # steps for each pair of the finer codes, half of them still to come: then the radius is halved
GROWING = 1.25  # times the codes of half the steps: more are still being found


class History:
    """Everything that a run in one environment has met; passes it on to another recorder."""

    def __init__(self, asked: EnvRun, recorder: Recorder | None) -> None:
        self._one, self._many = as_array, as_arrays
        if is_learner(asked.learner):
            _check_size(asked)
        else:
            assert isinstance(asked.states, NetCode)
            self._one, self._many = asked.states.reader.one, asked.states.reader.many
        self._recorder = recorder
        self._resets: list[tuple[int, Any]] = []  # before which step, and its observation
        self._steps: list[tuple[Any, IntArray, BoolArray, BoolArray]] = []

    def begin(self, reset: Reset) -> None:
        """Records the reset with which an episode begins."""
        self._resets.append((reset.step, self._one(reset.observation)))
        if self._recorder is not None:
            self._recorder.begin(reset)

    def add(self, steps: Steps) -> None:
        """Records steps."""
        shown = self._many(steps.observations).copy()
        self._steps.append((shown, np.array(steps.actions, np.int64), steps.terminated, steps.truncated))
        if self._recorder is not None:
            self._recorder.add(steps)

    def met(self) -> Stream:
        """Returns it as arrays."""
        shown, actions, ended, cut = (np.concatenate(part) for part in zip(*self._steps, strict=True))
        num, own = actions.size, [(step, first) for step, first in self._resets if step <= actions.size]
        at = np.array([step for step, _ in own], np.int64)
        row_of_reset = at + np.arange(at.size)
        is_reset = np.zeros(num + at.size, bool)
        is_reset[row_of_reset] = True
        observations = np.empty((num + at.size, *shown.shape[1:]), shown.dtype)
        observations[~is_reset] = shown
        observations[is_reset] = np.array([first for _, first in own], shown.dtype)
        after = np.flatnonzero(~is_reset)
        before = after - 1
        return Stream(observations, actions, ended, cut, before, after, is_reset)


def _check_size(asked: EnvRun) -> None:
    """Raises if the observations of a run are too many to be kept."""
    shape, dtype = getattr(asked.space, "shape", None) or (), asked.space.dtype or np.float64
    size = math.prod(shape) * np.dtype(dtype).itemsize * asked.spec.num_steps
    if size > MOST_KEPT:
        raise InvalidArgumentError.of(
            "states",
            f"learned features keep all observations in memory, {size / 1e9:.3g} GB here; the limit is "
            f"{MOST_KEPT / 1e9:.3g} GB",
            remedy="Make observations smaller with a wrapper, or fit the code first and pass the result.",
        )


@dataclass(frozen=True, eq=False)
class Stream:
    """Observations in the order in which they were met, `[T + R, ...]`, and the steps between them, `[T]`."""

    observations: Any
    actions: IntArray
    ended: BoolArray
    cut: BoolArray
    before: IntArray  # the row of the observation before each step
    after: IntArray  # the row of the observation after it
    is_reset: BoolArray  # which rows began an episode, [T + R]

    @property
    def labels(self) -> IntArray:
        """The number of the action after each observation, -1 where none follows, `[T + R]`."""
        labels = np.full(len(self.observations), -1, np.int64)
        labels[self.before] = self.actions
        return labels

    @property
    def followed_by(self) -> IntArray:
        """The row of the state that each step leads to: after a termination the next start."""
        return np.where(self.ended, self.after + 1, self.after)


@dataclass(frozen=True, eq=False)
class Recount:
    """A run so far, counted under another code."""

    index: GrowingStateIndex
    episodes: EpisodeCounts
    pairs: IntArray  # of each step
    nexts: IntArray  # the state after it
    moves: IntArray
    first: int  # the state in which the run began
    last: int  # the state it is in

    def counts(self, num_steps: int) -> IntArray:
        """Returns the visits of each pair in the first steps."""
        return np.bincount(self.pairs[:num_steps], minlength=self.index.index.num_pairs)


def refit(asked: EnvRun, history: History) -> Recount | None:
    """Fits the code of the run to what it has met so far; returns the counts if it is a new one."""
    assert asked.learner is not None
    assert isinstance(asked.states, NetCode)
    met = history.met()
    if not is_learner(asked.learner):
        return _adjusted(asked, met, asked.states)
    asked.states.take_over(asked.learner.fit(met.observations, met.labels))
    return recount(asked, met, asked.states.keys(met.observations))


def _adjusted(asked: EnvRun, met: Stream, code: NetCode) -> Recount | None:
    """Doubles the radius while codes are too fine, or halves it while they are few; None if it stays."""
    first, number = code.radius, asked.actions.num_actions
    keys = code.keys_of(met.observations)
    if _is_too_fine(keys, met, number):
        keys = _doubled(code, met, keys, number)
    elif met.actions.size >= LONG:
        keys = _halved(code, met, keys, number)
        keys = _refined(code, met, keys, asked) if code.radius == first else keys
    return None if code.radius == first else recount(asked, met, keys)


def _doubled(code: NetCode, met: Stream, keys: IntArray, num_actions: int) -> IntArray:
    """Doubles the radius of a code while it is too fine; returns the keys under the last one."""
    while _is_too_fine(keys, met, num_actions):
        other = code.scaled(2.0)
        new = other.keys_of(met.observations)
        if other.num_leaders < FEWEST:
            break
        code.take_over(other)
        keys = new
    return keys


def _halved(code: NetCode, met: Stream, keys: IntArray, num_actions: int) -> IntArray:
    """Halves the radius of a code while there are hardly any codes; returns the keys under the last one.

    There may be no more of them (observations that hardly differ): then the radius stays.
    """
    other, left = code, HALVINGS
    while code.num_leaders < HARDLY_ANY and left > 0:
        other, left = other.scaled(0.5), left - 1
        new = other.keys_of(met.observations)
        if _is_too_fine(new, met, num_actions):
            break
        if other.num_leaders > code.num_leaders:
            code.take_over(other)
            keys = new
    return keys


def _refined(code: NetCode, met: Stream, keys: IntArray, asked: EnvRun) -> IntArray:
    """Halves the radius of a code once where there is time for it; returns the keys under the last one."""
    num_steps, number = met.actions.size, asked.actions.num_actions
    before = np.unique(keys[: keys.size // 2]).size
    if code.num_leaders > GROWING * before or asked.spec.num_steps - num_steps < num_steps / 2:
        return keys
    other = code.scaled(0.5)
    new = other.keys_of(met.observations)
    if num_steps < PLENTY * number * other.num_leaders or other.num_leaders == code.num_leaders:
        return keys
    code.take_over(other)
    return new


def _is_too_fine(keys: IntArray, met: Stream, num_actions: int) -> bool:
    """Whether most pairs of the codes in which actions were taken were never tried."""
    left = keys[met.before]
    num_tried = np.unique(left * num_actions + met.actions).size
    return num_tried < TRIED * np.unique(left).size * num_actions


def recount(asked: EnvRun, met: Stream, keys: IntArray) -> Recount:
    """Returns the counts of everything met, as if the code of the run had been the same all along."""
    is_state = np.ones(keys.size, bool)
    is_state[met.after[met.ended]] = False  # what ends an episode is no state
    index = asked.state_index()
    assert isinstance(index, GrowingStateIndex)
    numbers = np.full(int(keys.max()) + 1, -1, np.int64)
    for key in dict.fromkeys(keys[is_state].tolist()):
        numbers[key] = index.add(key)
    states = numbers[keys]
    for state in np.unique(states[met.is_reset]).tolist():
        index.note_start(state)
    left, nexts = states[met.before], states[met.followed_by]
    pairs = left * index.num_actions + met.actions
    moves = index.count(pairs, nexts, np.zeros(0, np.int64))
    episodes = EpisodeCounts()
    episodes.add(left, met.actions, pairs, nexts, met.ended, met.cut, np.zeros_like(pairs))
    episodes.end_keys.update(dict.fromkeys(keys[~is_state].tolist()))
    return Recount(index, episodes, pairs, nexts, moves, int(states[0]), int(states[-1]))


def restart(asked: EnvRun, now: RunState, found: Recount) -> None:
    """Changes the state of a run to the new counts; the explorer begins with them."""
    belief, steps, seen = asked.belief(found.index), now.num_steps, Visits.none(found.index.index)
    seen.moves[:] = found.moves
    belief = replace(belief, moves=found.moves.copy(), num_steps=steps).renewed()  # type: ignore[type-var]
    before = State(belief, belief.counts, steps, now.state.num_blocks)
    now.state, now.seen = begun(asked.spec.actor, before), seen
    now.position.states[:] = found.last
    now.first_states[:] = found.first
    now.episodes[:] = [replace(episode, psi=NOTHING, psi_hat=NOTHING) for episode in now.episodes]
