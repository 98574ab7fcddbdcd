"""Legs in environments: the steps that one of several workers takes by itself, in an environment of its own.

An environment has a state that cannot be sent. So each leg makes its environment anew, begins with a reset,
and its last step is truncated: a leg is an episode boundary. Everything random depends on (seed, slot,
round): the numbers that choose actions, and the seeds of the resets. A leg is a function of its arguments, so
it may run anywhere, in any order, and twice.

A leg first takes its steps (`take_env_leg`), by the same rules as a run in one environment; states that it
meets first are new to itself only. If steps are stored, it writes them as one part, whose name and bytes are
the same whenever it is taken. Then it reads its own rows (`read_leg`): which keys they have, in order of
appearance, and what the watch saw. That is all that is sent back, and it is a function of the rows and of
what the run knew before the round. So a resumed run reads a stored part instead of taking the leg again.

A termination at the last step leads to the start of its own leg: another start was not drawn.

**Nets.** A net grows with what it meets. A leg acts by a net that grows for itself, and sends back every
observation beyond the leaders that it began with; the run files them, first fit, in the order of the workers.
So the keys are those of one net that met all legs one after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.log import Begun, EpisodeStream, Reset, Steps, as_leaves, joined
from rhocover.collecting.state_index import FixedStateIndex, GrowingStateIndex, StateIndex, StateReader
from rhocover.collecting.stepping import Chooser, Seeds
from rhocover.collecting.worlds import SingleWorld
from rhocover.datasets.builder import rows_of
from rhocover.datasets.collection.manifest import Part, part_name, part_path
from rhocover.datasets.collection.rows import OBSERVATION, Leaves, PartRows, Spaces, rows_as_bytes
from rhocover.datasets.minari.columns import rebuild
from rhocover.environments.encoding import ActionCode, StateCode, read_action_code
from rhocover.environments.encoding.base import is_lossy
from rhocover.environments.encoding.nets import NetCode
from rhocover.environments.encoding.watching import Watch, Watched
from rhocover.environments.repeating import repeated
from rhocover.environments.sources import EnvSource
from rhocover.errors import EnvironmentFailedError
from rhocover.exploring.belief.discovery import AHEAD, discovery_block
from rhocover.exploring.belief.learned import Frame, Learned, LearnedModel
from rhocover.exploring.runs.spec import RunSpec
from rhocover.exploring.worlds import (
    BlockBehaviour,
    Index,
    LowestScore,
    OpenIndex,
    Position,
    SeekNew,
    Visits,
    no_moves,
)
from rhocover.exploring.worlds.legs import leg_generator, leg_seed, phased
from rhocover.files import write_atomically
from rhocover.planning.problem import Objective

Transitions = tuple[IntArray, IntArray, IntArray]  # the pairs left, the states reached, and how often


@dataclass(frozen=True, eq=False)
class LegSettings:
    """What the legs of all rounds have in common, as plain values."""

    source: EnvSource
    actions: Any  # as the caller gave them
    repeat: int
    held_out: StateCode | None
    step_timeout: float | None
    seed: int
    workers: int
    folder: str | None  # where parts are written; None: nowhere


@dataclass(frozen=True, eq=False)
class EnvRound:
    """What all legs of a round have in common: what the run knew before it, and how to act."""

    settings: LegSettings
    states: StateCode
    known: FixedStateIndex | tuple[Hashable, ...]  # the states numbered so far
    transitions: Transitions | None  # those seen so far, if something new is sought
    behaviour: BlockBehaviour
    is_shared: bool  # whether the scores are a deficit, which is rounded by chance
    number: int  # of the round
    before: int  # the steps that were taken before it, by all workers
    num_steps: int  # of each leg
    first_row: int  # the steps that each worker took before it
    stride: int | None  # of the sample of observations; None: they are not watched


class EnvLeg(NamedTuple):
    """What a leg has met: observation j has the key `keys[met[j]]`.

    With a net, numbers from `len(keys)` on stand for the rows of `points`, whose keys are not known yet.
    """

    keys: list[Hashable]
    points: FloatArray | None
    met: IntArray
    before: IntArray  # the observation before each step; that after it is the next one
    actions: IntArray
    ended: BoolArray
    cut: BoolArray
    watched: Watched | None
    part: Part | None

    @property
    def followed_by(self) -> IntArray:
        """The observation of the state that each step leads to: after a termination the next start."""
        found = self.before + 1 + self.ended
        if self.ended[-1]:
            found[-1] = 0
        return found

    @property
    def begins(self) -> BoolArray:
        """Which steps begin an episode."""
        return np.append(True, (self.ended | self.cut)[:-1])


def take_env_leg(round_: EnvRound, slot: int) -> EnvLeg:
    """Returns what one worker meets in a round, in an environment that it makes and closes."""
    settings = round_.settings
    env = settings.source.make()
    try:
        acting = env if settings.repeat == 1 else repeated(env, settings.repeat, is_vector=False)
        asked = _asked(round_, acting)
        rows = _stepped(asked, round_, slot)
    except EnvironmentFailedError as error:
        raise EnvironmentFailedError(
            f"{error} This was in leg {slot} of the round after step {round_.before}: the "
            "steps of that round are not kept, those before it are."
        ) from error
    finally:
        env.close()
    spaces = Spaces(asked.space, asked.action_space)
    part = None if settings.folder is None else write_part(rows, spaces, round_, slot)
    return read_leg(rows, round_, asked.actions, spaces, part)


def _asked(round_: EnvRound, env: Any) -> EnvRun:
    settings, code = round_.settings, round_.states
    spec = RunSpec(Objective(2.0, None), round_.num_steps, seed=settings.seed)
    states = code.copy() if isinstance(code, NetCode) else code
    actions = read_action_code(settings.actions, env.action_space)
    return EnvRun(env, False, spec, states, actions, None, None, settings.step_timeout)


class LegWorld(SingleWorld):
    """Acts in the environment of one leg, with its own random numbers."""

    def __init__(self, asked: EnvRun, round_: EnvRound, slot: int, recorder: LegRecorder) -> None:
        super().__init__(asked, recorder)
        key = round_.settings.seed, slot, round_.number
        self._round, self._watch = round_, None  # what was seen is read from the rows
        self._generator, self._seed = leg_generator(*key), leg_seed(*key)
        self._seeds, self._left = Seeds(self._seed), 0

    @cached_property
    def _reader(self) -> StateReader:
        return StateReader(self._asked.space, self._asked.states, index_of(self._round, self._asked))

    def _has_masks(self, info: Any) -> bool:
        """Whether the leg respects masks: no, as in a collection."""
        return False

    def take(self, num_steps: int) -> None:
        """Takes the steps of the leg."""
        position, behaviour, self._left = self.begin(), self._round.behaviour, num_steps
        seen = visits_before(self._index, self._round.transitions)
        if isinstance(behaviour, SeekNew):
            self._discover(position, seen)
            return
        if self._round.is_shared:
            behaviour = phased(behaviour, self._generator)
        self._follow(position, self.follow(behaviour), seen, num_steps)

    def _discover(self, position: Position, seen: Visits) -> None:
        """Goes to one discovery target after the other.

        What it learns on the way counts as often as there are workers: they go to the same targets. Among
        actions that were not tried each worker begins with others.
        """
        belief, before = new_belief(self._index.index), seen.moves.copy()
        while self._left:
            moves = self._round.settings.workers * seen.moves
            moves[: before.size] -= (self._round.settings.workers - 1) * before
            belief = belief.at(replace(seen, moves=moves), int(moves.sum()))
            block = discovery_block(belief)
            behaviour, steps = block.behaviour, min(block.num_steps, self._left)
            if isinstance(behaviour, LowestScore):
                order = AHEAD / 2 * self._generator.random(behaviour.base.size)
                behaviour = replace(behaviour, base=behaviour.base + order)
            else:
                steps = self._left  # a search is never out of date
            self._follow(position, self.follow(behaviour), seen, steps)
            seen.next_block()

    def _follow(self, position: Position, act: Chooser, seen: Visits, num_steps: int) -> None:
        while seen.num_steps < num_steps:
            before = seen.num_steps
            self.advance(position, act, seen, min(num_steps - before, self._longest))
            self._left -= seen.num_steps - before


def index_of(round_: EnvRound, asked: EnvRun) -> StateIndex:
    """Returns the states that the run knew before the round, for a leg to add to."""
    if isinstance(round_.known, FixedStateIndex):
        return round_.known
    index = GrowingStateIndex(asked.actions.num_actions, name=asked.name, is_coded=is_lossy(asked.states))
    for key in round_.known:
        index.add(key)
    return index


def visits_before(index: StateIndex, transitions: Transitions | None) -> Visits:
    """Returns the visits with which a leg begins: none, or for discovery those of the run so far."""
    if transitions is None:
        return Visits.none(index.index)
    assert isinstance(index, GrowingStateIndex)
    moves = index.count_earlier(*transitions)
    seen = Visits.none(index.index)
    seen.moves = moves
    return seen


def new_belief(index: Index) -> LearnedModel:
    """Returns a belief with which a leg seeks what was not tried; there may always be more states."""
    assert isinstance(index, OpenIndex)
    frame = Frame(index, None, 2.0, index.weights, None, index.roots, 0)
    return LearnedModel(Learned(know_states=False), frame, "met", no_moves(index))


def _stepped(asked: EnvRun, round_: EnvRound, slot: int) -> PartRows:
    """Returns the steps of a leg as rows."""
    recorder = LegRecorder(asked.space)
    with asked.timing:
        LegWorld(asked, round_, slot, recorder).take(round_.num_steps)
    first = round_.before + slot * round_.num_steps
    return recorder.rows(np.asarray(asked.actions.values), slot, first)


class LegRecorder:
    """Keeps the steps of one leg."""

    def __init__(self, space: Any) -> None:
        self._space, self._stream = space, EpisodeStream(space)
        self._steps: list[tuple[dict[str, np.ndarray], Leaves]] = []

    def begin(self, reset: Reset) -> None:
        """Records the reset with which an episode begins."""
        seed = -1 if reset.seed is None else reset.seed
        self._stream.resets.append(Begun(0, seed, reset.observation))

    def add(self, steps: Steps) -> None:
        """Records steps."""
        names = ("actions", "rewards", "terminated", "truncated")
        columns = {name: np.asarray(getattr(steps, name)) for name in names}
        after = as_leaves(self._space, steps.observations)
        self._steps.append((columns, {path: array.copy() for path, array in after.items()}))

    def rows(self, values: np.ndarray, slot: int, first: int) -> PartRows:
        """Returns the steps; the first is number `first` of the run, and the last one is truncated.

        An episode is numbered by its first step, because no leg knows how many episodes the others have.
        """
        columns, after = (joined(parts) for parts in zip(*self._steps, strict=True))
        columns["truncated"][-1] |= not columns["terminated"][-1]
        t = first + np.arange(columns["actions"].size)
        rows, _ = self._stream.rows(columns | {"t": t, "envs": np.full_like(t, slot)}, after, values)
        return replace(rows, episode=np.repeat(t[rows.begins], rows.lengths))


def write_part(rows: PartRows, spaces: Spaces, round_: EnvRound, slot: int) -> Part:
    """Returns the part of a leg, after writing it; a leg that is taken again writes the same bytes."""
    assert round_.settings.folder is not None
    name, content = part_name(slot, round_.number), rows_as_bytes(rows, spaces)
    write_atomically(part_path(Path(round_.settings.folder), name), content, overwrite=True)
    digest = hashlib.sha256(content).hexdigest()
    return Part(name, slot, round_.number, len(rows), round_.first_row, len(content), digest)


# What the rows of a leg say.


def read_leg(
    rows: PartRows, round_: EnvRound, actions: ActionCode, spaces: Spaces, part: Part | None
) -> EnvLeg:
    """Returns what a leg has met, from its rows."""
    shown = rows_of(rebuild(spaces.observation, (OBSERVATION,), rows.shown.__getitem__))
    keys, points, met = _keys_of(round_.states, shown)
    watched = None
    if round_.stride is not None:
        watch = Watch(round_.states, round_.settings.held_out, round_.stride)
        watch.see_all(shown)
        watched = watch.watched()
    numbers = actions.numbers(rows.action)
    return EnvLeg(
        keys, points, met, rows.before, numbers, rows.terminated, rows.truncated, watched, part
    )  # fmt: skip


def _keys_of(code: StateCode, shown: Any) -> tuple[list[Hashable], FloatArray | None, IntArray]:
    """Returns different keys in order of appearance, points without one, and the number of each's key."""
    if isinstance(code, NetCode):
        points = code.reader.many(shown)
        found = code.keys_of(points, grows=False)
        is_new = found < 0
        keys, known = _numbered(found[~is_new].tolist())
        met = np.empty(found.size, np.int64)
        met[~is_new], met[is_new] = known, len(keys) + np.arange(int(is_new.sum()))
        return keys, points[is_new], met
    found = code.keys(shown).tolist() if code.num_keys is not None else [code.key(one) for one in shown]
    keys, met = _numbered(found)
    return keys, None, met


def _numbered(found: Sequence[Hashable]) -> tuple[list[Hashable], IntArray]:
    """Returns different values in order of appearance, and the number of each value."""
    number: dict[Hashable, int] = {}
    met = np.fromiter((number.setdefault(key, len(number)) for key in found), np.int64, len(found))
    return list(number), met
