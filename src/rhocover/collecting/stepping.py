"""What single and vector environments share as worlds: choosing actions, seeding, batches of steps.

An environment cannot be stepped inside a compiled loop, so actions are chosen one at a time, by the same
rules as in the simulator (`Chooser`). Each choice is counted at once, so that the next one takes it into
account. Arrays have room for states that are met during a block; in such a state actions are chosen uniformly
or in turn.

An environment is seeded at its first reset, and again at the beginning of an episode once enough steps have
passed (`Seeds`). This does not change what can happen, and it makes long collections resumable: an
environment cannot be stored, but it can be brought back to the same point from the last seed and the actions
since.

Steps are taken in batches of a tenth of a second (`StepBatch`). A batch is counted as a whole when it ends,
also if it ends with an error; a step that failed is not counted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import CodeType, FrameType
from typing import Any

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.collecting.env_run import EnvRun, is_learner
from rhocover.collecting.log import ObservationBuffer, Recorder, Steps, rows_within
from rhocover.collecting.refits import History, refit, restart
from rhocover.collecting.state_index import (
    EpisodeCounts,
    GrowingStateIndex,
    StateIndex,
    StateReader,
    read_reward,
)
from rhocover.collecting.tallied import TalliedWorld
from rhocover.compiling import compiled
from rhocover.environments.encoding.base import ask
from rhocover.environments.encoding.watching import Watch
from rhocover.errors import EnvironmentFailedError, RhocoverError
from rhocover.exploring.runs.runner import RunState
from rhocover.exploring.worlds import (
    Behaviour,
    BlockBehaviour,
    FlowCorrectedScore,
    Index,
    LowestScore,
    OpenIndex,
    Position,
    SamplePolicy,
    SeekNew,
    Visits,
    checked_behaviour,
    choice_cdf,
    cumulative,
    refresh,
)
from rhocover.exploring.worlds.simulator import find, lowest
from rhocover.learning.search import Search
from rhocover.mdp import MDP

Choose = Callable[[int, int], int]  # (state, steps of the block before) -> pair

DRAWS = 256  # uniform numbers drawn at a time
NEVER = 1 << 62


@compiled
def take_sampled(first, cdf, visits, s, u):
    """Returns the pair of state s drawn by the uniform number u, and counts it."""
    i = find(cdf, first[s], first[s + 1] - 1, u)
    visits[i] += 1
    return i


@compiled
def take_lowest(first, table, visits, s, done):
    """Returns the pair of state s with the lowest score, and counts it; rows are base, rate and scale."""
    i = lowest(first, s, table[0], visits, done, table[1], table[2])
    visits[i] += 1
    return i


class Chooser:
    """A behaviour as a function of the state, with room for states that are met during the block.

    It holds the visits and scores of the block; `fit` makes those of the run views of them. The scores of a
    `FlowCorrectedScore` are updated by `refresh`, which is due when `until_refresh` returns 0.
    """

    def __init__(self, behaviour: Behaviour | None, index: Index, generator: np.random.Generator) -> None:
        self._behaviour = checked_behaviour(behaviour, index) if isinstance(index, MDP) else behaviour
        self._generator = generator
        self._num_pairs = index.num_pairs
        self._uniforms: list[float] = []
        self._flow, self._period = None, NEVER
        if isinstance(behaviour, FlowCorrectedScore):
            self._flow, self._period = behaviour.flow_arrays(), behaviour.period
        self._refreshed = -1
        self.room = 0  # pairs
        self.learn: Callable[[int, int], None] | None = None  # what to call with every pair and next state
        self.begin: Callable[[int], None] | None = None  # and with every copy whose next episode begins

    def fit(self, seen: Visits, index: Index) -> None:
        """Makes room for twice the pairs known now, and makes the arrays of `seen` views of them."""
        n = index.num_pairs
        if self.room < n:
            self.room = 2 * n if isinstance(index, OpenIndex) else n
            self.visits, self.scores = np.zeros(self.room, np.int64), np.zeros(self.room)
            self.visits[: seen.pairs.size] = seen.pairs
            self._bind(index)
            self._refreshed = -1
        seen.pairs, seen.scores, seen.index = self.visits[:n], self.scores[:n], index

    def _bind(self, index: Index) -> None:
        """Sets `take`, the choice over all pairs there is room for; pairs met later are chosen in turn."""
        rule, first = self._behaviour, _first_pairs(index, self.room)
        assert rule is not None  # a search binds itself
        allowed = index.allowed if isinstance(index, OpenIndex) else None
        forbidden = np.zeros(0, np.int64) if allowed is None else np.flatnonzero(~allowed)
        if isinstance(rule, SamplePolicy):
            policy = self._roomy(rule.policy, 1.0)
            policy[forbidden] = 0.0
            self.take: Choose = self._sampling(first, _cdf(policy, index, first))
            return
        base = self._roomy(rule.base, 0.0) if isinstance(rule, LowestScore) else self.scores
        table = np.stack([base, self._roomy(rule.rate, 0.0), self._roomy(rule.scale, 1.0)])
        table[2, forbidden] = np.inf  # no score of theirs, infinite or not a number, is the lowest
        self.scores = table[0]
        self.take = partial(take_lowest, first, table, self.visits)

    def _roomy(self, values: FloatArray, rest: float) -> FloatArray:
        result = np.full(self.room, rest)
        result[: self._num_pairs] = values
        return result

    def _sampling(self, first: IntArray, cdf: FloatArray) -> Choose:
        uniforms, visits = self._uniforms, self.visits

        def take(state: int, done: int) -> int:
            if not uniforms:
                uniforms.extend(self._generator.random(DRAWS).tolist())
            return take_sampled(first, cdf, visits, state, uniforms.pop())

        return take

    def until_refresh(self, done: int) -> int:
        """Returns how many steps may be taken before the scores must be updated."""
        if self._flow is None:
            return NEVER
        last, period = self._refreshed, self._period
        return 0 if last < 0 or done % period == 0 != done - last else period - done % period

    def refresh(self, done: int) -> None:
        """Updates the scores after `done` steps of the block."""
        refresh(self._flow, done, self.visits, self.scores)
        self._refreshed = done

    def instead(self, pair: int, mask: BoolArray) -> int:
        """Returns the chosen pair, or if it is not allowed now, that of its state which was played least."""
        if mask[pair % mask.size]:
            return pair
        first = pair - pair % mask.size
        own = first + np.flatnonzero(mask)
        other = int(own[np.argmin(self.visits[own])])
        self.visits[pair] -= 1
        self.visits[other] += 1
        return other

    def choose(self, state: int, done: int, copy: int = 0) -> int:
        """Returns the pair that a copy of the environment plays in a state, and counts it."""
        if self.until_refresh(done) == 0:
            self.refresh(done)
        return self.take(state, done)


class Seeker(Chooser):
    """Chooses by a search for something new, which learns of every step at once."""

    def __init__(
        self, index: Index, generator: np.random.Generator, find: Callable[[Visits], Search]
    ) -> None:
        super().__init__(None, index, generator)
        self._find = find

    def fit(self, seen: Visits, index: Index) -> None:
        """Makes room as `Chooser` does, and finds the search."""
        super().fit(seen, index)
        self._search: Search = self._find(seen)
        self.learn, self.begin = self._search.observe, self._search.begin_episode

    def _bind(self, index: Index) -> None:
        self.take = self._take

    def _take(self, state: int, done: int) -> int:
        return self.choose(state, done)

    def choose(self, state: int, done: int, copy: int = 0) -> int:
        """Returns the pair that a copy of the environment plays in a state, and counts it."""
        pair = self._search.choose(state, copy)
        self.visits[pair] += 1
        return pair


def _first_pairs(index: Index, room: int) -> IntArray:
    """Returns the first pair of each state, including states for which there is only room yet."""
    if isinstance(index, OpenIndex):
        return np.arange(0, room + 1, index.num_actions, dtype=np.int64)
    return np.searchsorted(index.pair_state, np.arange(index.num_states + 1)).astype(np.int64)


def _cdf(policy: FloatArray, index: Index, first: IntArray) -> FloatArray:
    if isinstance(index, MDP):
        return choice_cdf(policy, index)
    total = np.add.reduceat(policy, first[:-1])
    return cumulative(policy / np.repeat(total, index.num_actions), first)


BETWEEN = 1 << 14  # least number of steps from one seed to the next
LARGEST_SEED = 2**63 - 2**32  # so that int64 holds it, also after adding the number of a copy


class Seeds:
    """The seeds of one run, in order; the first is the seed of the run itself, if files can hold it."""

    def __init__(self, seed: int) -> None:
        self._seed, self._number, self._since = seed, 0, 0

    def next(self, num_steps: int) -> int | None:
        """Returns the seed for the episode that begins after `num_steps` steps; None for no new seed."""
        if self._number and num_steps - self._since < BETWEEN:
            return None
        self._since, self._number = num_steps, self._number + 1
        return first_seed(self._seed) if self._number == 1 else _derived(self._seed, self._number)


def first_seed(seed: int) -> int:
    """Returns the first seed of an environment: that of the run, or one derived from it if too large."""
    return seed if seed < LARGEST_SEED else _derived(seed, 1)


def _derived(seed: int, number: int) -> int:
    """Returns a seed of 31 bits, which every environment accepts."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)


class StepBatch:
    """The steps of one call of `advance`.

    A step is first chosen (and counted in the visits of the block), then taken, then its next state is read.
    Only steps with a next state are kept; `settle` takes back the counts of the others.
    """

    def __init__(
        self, reader: StateReader, num_steps: int, *, is_kept: bool, watch: Watch | None = None
    ) -> None:
        self.pairs: list[int] = []
        self.nexts: list[int] = []
        self.rewards: list[float] = []
        self.envs: list[int] = []  # left empty if there is only one
        self.ends: dict[int, tuple[bool, bool]] = {}  # terminated, truncated
        self.buffer: ObservationBuffer | None = None
        if is_kept:
            self.buffer = ObservationBuffer(reader.space, num_steps, is_plain=reader.is_plain)
        self.put: Callable[[Any], object] | None = self.buffer.put if self.buffer else None
        if watch is not None:
            self.put = _seeing(watch, reader, self.put)

    def settle(
        self, states: StateIndex, chooser: Chooser, seen: Visits, episodes: EpisodeCounts,
        recorder: Recorder | None,
    ) -> int:  # fmt: skip
        """Counts the steps and their episodes, records them, and returns the number of steps."""
        num = len(self.nexts)
        for pair in self.pairs[num:]:
            chooser.visits[pair] -= 1
        seen.num_steps += num
        pairs, nexts = np.array(self.pairs[:num], np.int64), np.array(self.nexts, np.int64)
        if num:
            seen.moves = states.count(pairs, nexts, seen.moves)
            chooser.fit(seen, states.index)
            index = seen.index
            state, actions = (np.asarray(column)[pairs] for column in (index.pair_state, index.pair_action))
            ended, cut = self._ends(num).T
            episodes.add(state, actions, pairs, nexts, ended, cut, self._copies(num))
            if recorder is not None:
                self._hand_over(recorder, actions, num)
        return num

    def _hand_over(self, recorder: Recorder, actions: Any, num: int) -> None:
        """Passes the steps to the recorder; raises if their observations do not fit into one array."""
        try:
            recorder.add(self._steps(actions, num))
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(error, RhocoverError):
                raise
            raise EnvironmentFailedError(
                f"the environment's observations do not fit into one array: {error}. Check that they have "
                "the shape and dtype of their space."
            ) from error

    def _steps(self, actions: Any, num: int) -> Steps:
        """Returns the steps as columns."""
        assert self.buffer is not None
        ends, rewards = self._ends(num), _numbers(self.rewards[:num])
        return Steps(actions, self.buffer.take(num), rewards, ends[:, 0], ends[:, 1], self._copies(num))

    def _ends(self, num: int) -> BoolArray:
        """Returns which steps were terminated and which truncated, `[num, 2]`."""
        ends = np.zeros((num, 2), bool)
        for k, flags in self.ends.items():
            if k < num:
                ends[k] = flags
        return ends

    def _copies(self, num: int) -> IntArray:
        """Returns which copy of the environment made each step."""
        envs = np.zeros(num, np.int64)
        envs[: len(self.envs)] = self.envs[:num]
        return envs


def _seeing(watch: Watch, reader: StateReader, keep: Callable[[Any], object] | None) -> Callable[[Any], None]:
    """Returns the function that keeps an observation, if they are kept, and shows it to the watch."""

    def put(observation: Any) -> None:
        if keep is not None:
            keep(observation)
        watch.see(reader.as_stored(observation))

    return put


def _numbers(rewards: list[Any]) -> Any:
    """Returns rewards as an array of floats; raises if one is not a number."""
    try:
        array = np.array(rewards)
    except Exception:  # rewards of different shapes, or one whose conversion raises
        array = np.zeros(0, object)
    is_plain = array.dtype.kind in "biuf" and array.shape == (len(rewards),)
    if is_plain and not any(reward is np.ma.masked for reward in rewards):
        return array.astype(float)
    return np.array([read_reward(reward) for reward in rewards])


SECONDS = 0.1  # length of one batch
LONGEST = 1 << 14  # most steps of one batch
CALLS = ("step", "reset")  # methods of an environment
FIRST_STEPS = 4  # steps of the first batch: a step may take minutes, and Ctrl-C waits for the batch
BATCH_BYTES = 1 << 23  # observations of one batch, if they are kept; a few copies exist for a moment


class EnvironmentWorld(TalliedWorld, ABC):
    """Acts in an environment; `env` may replace that of the run, `recorder` stores the steps."""

    num_chains = 1  # a run may pause after any step
    _callers: tuple[CodeType, ...] = ()  # the functions that call the environment

    def __init__(self, asked: EnvRun, recorder: Recorder | None = None, env: Any = None) -> None:
        super().__init__(asked)
        self._recorder = recorder
        self._env = asked.acting if env is None else env
        self._values = asked.actions.values
        self._generator = np.random.Generator(np.random.PCG64(self._seed))
        self._num_steps = 0
        self._search: Search | None = None  # of the transitions so far, once something new is sought
        self._longest = LONGEST if recorder is None else rows_within(BATCH_BYTES, asked.space, LONGEST)
        self.batch_steps = min(FIRST_STEPS, self._longest)
        self._history = None
        if asked.learner is not None:
            self._history = self._recorder = History(asked, recorder)
            self.next_refit = asked.learner.rollout_steps * (2 if is_learner(asked.learner) else 1)

    def refit(self, now: RunState) -> bool:
        """Fits the code of the states again; returns whether it is a new one, which all is counted under."""
        assert self._history is not None
        found = refit(self._asked, self._history)
        step, self.next_refit = self.next_refit, 2 * self.next_refit
        if found is None:
            return False
        restart(self._asked, now, found)
        self._reader = StateReader(self._asked.space, self._asked.states, found.index)
        self._reader.adapt_to(None)
        self._search, self.episodes = Search(found.index.num_actions, self._seed), found.episodes
        self._search.replay(found.pairs, found.nexts)
        self._snapshots = [(step, found.counts(step)) for step, _ in self._snapshots]
        self.refits.append(step)
        return True

    def follow(self, behaviour: BlockBehaviour) -> Chooser:
        """Returns the chooser of a behaviour."""
        if isinstance(behaviour, SeekNew):
            return Seeker(self._index.index, self._generator, self._find_search)
        return Chooser(behaviour, self._index.index, self._generator)

    def _find_search(self, seen: Visits) -> Search:
        """Returns the search over all transitions so far; it is kept up to date from its first use on."""
        if self._search is None:
            copies = getattr(self._env, "num_envs", 1)
            self._search = Search(self._index.index.num_actions, self._seed, copies)
            index, num = self._index.index, seen.moves.size
            assert isinstance(index, OpenIndex)
            self._search.observe_all(index.leaves[:num], index.arrives[:num], seen.moves)
            forbidden = [] if index.allowed is None else np.flatnonzero(~index.allowed).tolist()
            for pair in forbidden:
                self._search.allow(pair, is_allowed=False)
        return self._search

    def _note_mask(self, state: int, mask: BoolArray) -> None:
        """Notes which actions of a state are allowed; the search does without the others."""
        assert isinstance(self._index, GrowingStateIndex)
        for pair in self._index.allow(state, mask):
            if self._search is not None:
                self._search.allow(pair, is_allowed=self._index.is_allowed(pair))

    def advance(self, position: Position, act: Chooser, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps, counted over all copies."""
        began = time.perf_counter()
        batch = StepBatch(self._reader, num_steps, is_kept=self._recorder is not None, watch=self._watch)
        try:
            while len(batch.nexts) < num_steps:
                act.fit(seen, self._index.index)
                self._go(position, act, seen.num_steps, batch, num_steps)
        finally:
            done = batch.settle(self._index, act, seen, self.episodes, self._recorder)
            if self._search is not None and act.learn is None:
                self._search.observe_all(batch.pairs[:done], batch.nexts)
            pace = max(time.perf_counter() - began, 1e-6) / max(done, 1)
            self.batch_steps = min(int(np.clip(SECONDS / pace, 1, LONGEST)), self._longest)

    def is_foreign(self, frame: FrameType | None) -> bool:
        """Whether a frame is inside a call of the environment, or of a user's function."""
        while frame is not None and frame.f_back is not None:
            caller = frame.f_back.f_code
            if caller is ask.__code__ or (caller in self._callers and frame.f_code.co_name in CALLS):
                return True
            frame = frame.f_back
        return False

    def _see(self, observation: Any) -> None:
        """Shows the first observation of an episode to the watch, if there is one."""
        if self._watch is not None:
            self._watch.see(self._reader.as_stored(observation))

    def _note_end(self, observation: Any) -> None:
        """Notes the key of an episode's final observation; one that cannot be encoded is ignored."""
        with suppress(RhocoverError, TypeError, ValueError, IndexError):
            self.episodes.end_keys[self._reader.key(observation)] = None

    @abstractmethod
    def _go(self, position: Position, act: Chooser, before: int, batch: StepBatch, num_steps: int) -> None:
        """Takes some steps of the batch; `before` is the number of steps of the block before the batch."""
