"""Rounds of several workers in environments: what their legs met is numbered, counted and committed.

A round is one leg of every worker (`legs`), here or through an executor. When all of them are there, their
parts are named in the manifest, all at once, and then what they met is added in the order of the workers:
states get their numbers by worker, then in order of appearance. So no bit depends on where and in which order
the legs were taken; a part that the manifest does not name does not exist, and a leg that ran twice counts
once. A resumed run reads the rounds in the manifest instead of taking them again; at most the round that was
interrupted is stepped anew.

**How long is a leg?** An eighth of the steps so far, shared by the workers: what they do not know of each
other is soon known. But a leg begins with a reset and must get somewhere: it has at least 256 steps, if the
run has as many for each worker. Towards the end of the run a round has at most half of the steps that are
left, so that the last deviations are measured and made up for. Observations of a leg take at most about 8 MB.

While something untried is sought, every leg goes to discovery targets by itself, with what was known before
the round and what it learns on its way.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.collecting.env_run import EnvRun
from rhocover.collecting.legs import EnvLeg, EnvRound, LegSettings, Transitions, read_leg, take_env_leg
from rhocover.collecting.log import differs, round_steps
from rhocover.collecting.state_index import (
    RAISED,
    FixedStateIndex,
    GrowingStateIndex,
    StateReader,
    failed,
)
from rhocover.collecting.tallied import TalliedWorld
from rhocover.collecting.workers import Workers
from rhocover.datasets.collection.manifest import Manifest, Part, load_part, with_parts, write_manifest
from rhocover.datasets.collection.rows import Spaces
from rhocover.environments.encoding.nets import NetCode
from rhocover.errors import RhocoverError
from rhocover.exploring.explorers import Block
from rhocover.exploring.runs.rounds import RoundRunner, legs_of
from rhocover.exploring.runs.runner import RunState, Storage, run
from rhocover.exploring.worlds import BlockBehaviour, OpenIndex, Position, SeekNew, Visits
from rhocover.exploring.worlds.legs import leg_generator, leg_seed, share_of

SHORTEST_LEG = 256
LONGEST_ROUND = 8  # t over this
SEARCHED = 16  # t over this, while something untried is sought
PART_OF_THE_REST = 2


class RoundLog:
    """The rounds of a collection: those that its manifest has, and those that are added to it."""

    def __init__(self, folder: Path, spaces: Spaces, manifest: Manifest) -> None:
        self.folder, self.manifest, self._spaces = folder, manifest, spaces

    def stored(self, number: int) -> list[Part]:
        """Returns the parts of a round in the order of the workers; none if it is not there."""
        return [part for part in self.manifest.parts if part.round == number]

    def read(self, part: Part, round_: EnvRound, actions: Any) -> EnvLeg:
        """Returns what the leg of a part has met; raises if it is not the leg that the run would take."""
        rows = load_part(self.folder, part, self._spaces)
        if len(rows) != round_.num_steps or int(rows.t[0]) != round_.before + part.env * len(rows):
            raise differs("t", int(rows.t[0]))
        return read_leg(rows, round_, actions, self._spaces, part)

    def commit(self, parts: list[Part]) -> None:
        """Names the parts of a round in the manifest."""
        self.manifest = with_parts(self.manifest, parts)
        write_manifest(self.folder, self.manifest)


def run_shared(asked: EnvRun, workers: Workers, storage: Storage, log: RoundLog | None = None) -> Any:
    """Returns the finished run of several workers in environments."""
    return run(SharedEnvironments(asked, workers, log), asked.spec, storage, RoundRunner)


class SharedEnvironments(TalliedWorld):
    """Environments that several workers act in; `num_chains` is their number."""

    is_foreign = None  # a leg is not counted before it has ended, so that it may be interrupted anywhere

    def __init__(self, asked: EnvRun, workers: Workers, log: RoundLog | None = None) -> None:
        super().__init__(asked)
        self.num_chains, self._workers, self._log = workers.number, workers, log
        self._num_rounds = 0
        self._settings = LegSettings(
            workers.source, workers.actions, asked.repeat, asked.held_out, asked.step_timeout, self._seed,
            workers.number,            None if log is None else str(log.folder),
        )  # fmt: skip

    def begin(self) -> Position:
        """Returns the first position: where the first leg of the first worker begins."""
        try:
            observation, _ = self._asked.acting.reset(seed=leg_seed(self._seed, 0, 0))
        except RhocoverError:
            raise
        except RAISED as error:
            raise failed("raised while being reset", 0, error) from error
        reader: StateReader = self._reader
        reader.adapt_to(observation)
        state = reader.number(observation, 0)
        self._index.note_start(state)
        return Position(np.full(self.num_chains, state), leg_generator(self._seed, 0, 0))

    def refit(self, now: RunState) -> bool:
        """Does nothing: the code stays as it is."""
        return False

    def round_steps(self, block: Block, num_steps: int, left: int) -> int:
        """Returns how many steps the next round has, over all workers."""
        workers, least = self.num_chains, self.num_chains * SHORTEST_LEG
        steps = num_steps // LONGEST_ROUND if block.direction is None else block.num_steps
        if block.in_world:
            steps = num_steps // SEARCHED
        steps = max(min(steps, left // PART_OF_THE_REST), least)
        if block.whole:
            steps = workers * block.num_steps
        length = min(-(-steps // workers), round_steps(self._asked.space))
        rest = left - workers * length
        return left if rest < (0 if block.whole else least) else workers * length

    def take_round(self, now: RunState, behaviour: Any, is_shared: bool, num_steps: int) -> list[EnvLeg]:
        """Returns the leg of every worker: read from its part, or taken now and committed."""
        round_ = self._round(now, behaviour, is_shared, num_steps // self.num_chains)
        if self._log is not None and (stored := self._log.stored(self._num_rounds)):
            return [self._log.read(part, round_, self._asked.actions) for part in stored]
        calls = [(round_, slot) for slot in range(self.num_chains)]
        legs = legs_of(self._workers.executor, take_env_leg, calls, now.num_steps)
        if self._log is not None:
            self._log.commit([leg.part for leg in legs if leg.part is not None])
        return legs

    def _round(self, now: RunState, behaviour: Any, is_shared: bool, length: int) -> EnvRound:
        """Returns what the legs of the next round have in common."""
        index, behaviour = self._index, self._played(behaviour, is_shared)
        is_fixed = isinstance(index, FixedStateIndex)
        return EnvRound(
            settings=self._settings, states=self._asked.states,
            known=index if is_fixed else tuple(index.numbers),
            transitions=self._transitions(now.seen) if isinstance(behaviour, SeekNew) else None,
            behaviour=behaviour, is_shared=is_shared, number=self._num_rounds, before=now.num_steps,
            num_steps=length, first_row=now.num_steps // self.num_chains,
            stride=None if self._watch is None else self._watch.stride,
        )  # fmt: skip

    def _played(self, behaviour: Any, is_shared: bool) -> BlockBehaviour:
        """Returns what each leg plays: its share of a deficit; `SeekNew` for discovery of its own."""
        if is_shared:
            return share_of(behaviour, self.num_chains)
        return SeekNew() if isinstance(self._index.index, OpenIndex) else behaviour

    def _transitions(self, seen: Visits) -> Transitions:
        """Returns the transitions seen so far."""
        index = self._index.index
        assert isinstance(index, OpenIndex)
        num = seen.moves.size
        return index.leaves[:num].copy(), index.arrives[:num].copy(), seen.moves.copy()

    # What legs have met.

    def add(self, legs: list[EnvLeg], now: RunState, num_steps: int) -> None:
        """Adds the legs of a round in the order of the workers."""
        seen, played = now.seen, []
        for slot, leg in enumerate(legs):
            states = self._numbers_of(leg)
            left, nexts = states[leg.met[leg.before]], states[leg.met[leg.followed_by]]
            pairs = self._pairs(left, leg.actions)
            for state in dict.fromkeys(left[leg.begins].tolist()):
                self._index.note_start(state)
            seen.moves = self._index.count(pairs, nexts, seen.moves)
            copies = np.full(pairs.size, slot)
            self.episodes.add(left, leg.actions, pairs, nexts, leg.ended, leg.cut, copies)
            if now.num_steps == 0:
                now.first_states[slot] = left[0]
            now.position.states[slot] = nexts[-1]
            played.append(pairs)
        index = self._index.index
        seen.pairs = np.bincount(np.concatenate(played), minlength=index.num_pairs)
        seen.scores, seen.index, seen.num_steps = np.zeros(index.num_pairs), index, num_steps
        self._num_rounds += 1

    def _numbers_of(self, leg: EnvLeg) -> IntArray:
        """Returns the number of the state of each key of a leg; new states are added as they appear.

        The last observation of a terminated episode is no state; its key is noted.
        """
        keys = self._all_keys(leg)
        if self._watch is not None and leg.watched is not None:
            self._watch.add(leg.watched)
        is_state = np.ones(leg.met.size, bool)
        is_state[leg.before[leg.ended] + 1] = False
        numbers, known = np.full(len(keys), -1), self._index.numbers
        for place in dict.fromkeys(leg.met[is_state].tolist()):
            number = known.get(keys[place])
            numbers[place] = self._index.add(keys[place]) if number is None else number
        self.episodes.end_keys.update(dict.fromkeys(keys[k] for k in leg.met[~is_state].tolist()))
        return numbers

    def _all_keys(self, leg: EnvLeg) -> list[Hashable]:
        """Returns the keys of a leg; what is beyond a net is filed now, and the net grows."""
        if leg.points is None:
            return leg.keys
        code = self._asked.states
        assert isinstance(code, NetCode)
        return [*leg.keys, *code.keys_of(leg.points).tolist()]

    def _pairs(self, states: IntArray, actions: IntArray) -> IntArray:
        """Returns the numbers of pairs."""
        index = self._index
        if isinstance(index, GrowingStateIndex):
            return states * index.num_actions + actions
        return self._pairs_of_model[states, actions]

    @cached_property
    def _pairs_of_model(self) -> IntArray:
        """The number of each pair of the known model, `[S, A]`; -1 where there is none."""
        model = self._index.index
        table = np.full((model.num_states, model.num_actions), -1)
        table[model.pair_state, model.pair_action] = np.arange(model.num_pairs)
        return table
