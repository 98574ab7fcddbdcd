"""Rounds of several workers, who act in one simulated model at the same time.

`SharedWorld` has workers: a round is one leg of each (`worlds.legs`), here or through an executor, and the
results are added in the order of the workers. So no bit depends on where and in which order the legs were
taken. Nothing changes before all legs of a round are there: whatever ends a round, the run stands where it
began.

**How long is a leg?** An explorer says how many steps its block has; the workers share them. But a round has
at least 1/64 of the steps so far, so that there are few of them (a factor of two in t takes at most 45), and
at most 1/8, so that what the workers do not know of each other is soon known. A leg has at least 16 steps. A
block that must not be cut is taken by every worker as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.executors import run_calls
from rhocover.exploring.explorers import Block
from rhocover.exploring.runs.explore import ModelWorld
from rhocover.exploring.runs.runner import Runner, RunState
from rhocover.exploring.runs.spec import ModelRun
from rhocover.exploring.worlds import Behaviour, Position, Visits, visits_of_moves
from rhocover.exploring.worlds.legs import Leg, Round, share_of, take_leg

SHORTEST_LEG = 16
SHORTEST_ROUND, LONGEST_ROUND = 64, 8  # t over these
PART_OF_THE_REST = 2  # of the steps left: in halves the last deviations are measured and made up for


class SharedWorld(ModelWorld):
    """A simulated model that several workers act in at the same time; `num_chains` is their number."""

    def __init__(self, asked: ModelRun, executor: Any = None) -> None:
        super().__init__(asked)
        self.executor = executor

    def take_round(self, now: RunState, behaviour: Behaviour, is_shared: bool, num_steps: int) -> list[Leg]:
        """Returns what every worker counts in a round of `num_steps` steps in all."""
        if is_shared:
            behaviour = share_of(behaviour, self.num_chains)
        seed, length = self.asked.spec.seed, num_steps // self.num_chains
        round_ = Round(self.arrays, self.rule_of(behaviour), is_shared, seed, now.num_steps, length)
        calls = [(round_, slot, int(state)) for slot, state in enumerate(now.position.states)]
        if self.executor is None:
            return [take_leg(*call) for call in calls]
        names = [f"leg {slot} of the round after step {now.num_steps}" for slot in range(self.num_chains)]
        return [leg for _, leg in sorted(run_calls(self.executor, take_leg, calls, names), key=_slot)]

    def add(self, legs: list[Leg], position: Position, seen: Visits, num_steps: int) -> None:
        """Adds the legs of a round in the order of the workers."""
        moves = np.zeros_like(seen.moves)
        for slot, leg in enumerate(legs):
            moves[leg.places] += leg.times
            position.states[slot] = leg.state
        seen.moves += moves
        seen.pairs += visits_of_moves(self.mdp, moves)
        seen.num_steps += num_steps


def _slot(found: tuple[int, Leg]) -> int:
    return found[0]


class RoundRunner(Runner):
    """Runs an explorer in rounds of several workers; blocks are not cut for reports.

    A round that is counted has all its steps. So a block with any steps is done, and was interrupted only
    before the explorer's update.
    """

    world: SharedWorld  # pyright: ignore[reportIncompatibleVariableOverride]

    def _reported(self) -> int:
        """Returns the step of the last row of the trace, which may be beyond its mark."""
        return int(self.now.rows[-1][0]) if self.now.rows else 0

    def _advance(self, mark: int) -> None:
        """Takes one round, or ends the block that an interruption left."""
        now = self.now
        block, (behaviour, is_shared) = self._current()
        if now.seen.num_steps == 0:
            steps = self._length(block)
            legs = self.world.take_round(now, behaviour, is_shared, steps)
            self._interrupts.together(lambda: self.world.add(legs, now.position, now.seen, steps))
        self._end_block(block)

    def _act_of(self, block: Block) -> Any:
        """Returns the block's behaviour over the world's pairs, and whether it is a deficit to be shared."""
        return self._placed(block), not block.in_world

    def _length(self, block: Block) -> int:
        """Returns how many steps a round has, over all workers."""
        workers, t = self.world.num_chains, self.now.num_steps
        left = self.grid[-1] - t
        if block.whole:
            return min(block.num_steps * workers, left)
        steps = block.num_steps
        if block.direction is None:
            steps = min(max(steps, t // SHORTEST_ROUND), t // LONGEST_ROUND, left // PART_OF_THE_REST)
        return min(workers * max(SHORTEST_LEG, -(-steps // workers)), left)
