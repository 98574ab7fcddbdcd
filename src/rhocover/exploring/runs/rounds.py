"""Rounds of several workers, who act in one world at the same time.

A round is one leg of every worker, here or through an executor, and the results are added in the order of the
workers. So no bit depends on where and in which order the legs were taken. Nothing changes before all legs of
a round are there: whatever ends a round, the run stands where it began. `SharedWorld` is a simulated model
that workers act in (its legs: `worlds.legs`); `rhocover.collecting` makes one of environments.

**How long is a leg?** An explorer says how many steps its block has; the workers share them. But a round has
at least 1/64 of the steps so far, so that there are few of them (a factor of two in t takes at most 45), and
at most 1/8, so that what the workers do not know of each other is soon known. A leg has at least 16 steps. A
block that must not be cut is taken by every worker as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from rhocover.executors import run_calls
from rhocover.exploring.explorers import Block
from rhocover.exploring.runs.explore import ModelWorld
from rhocover.exploring.runs.runner import Runner, RunState
from rhocover.exploring.runs.spec import ModelRun
from rhocover.exploring.worlds import Behaviour, RunWorld, visits_of_moves
from rhocover.exploring.worlds.legs import Leg, Round, share_of, take_leg

SHORTEST_LEG = 16
SHORTEST_ROUND, LONGEST_ROUND = 64, 8  # t over these
PART_OF_THE_REST = 2  # of the steps left: in halves the last deviations are measured and made up for


class RoundWorld(RunWorld, Protocol):
    """A world that several workers act in at the same time; `num_chains` is their number."""

    def round_steps(self, block: Block, num_steps: int, left: int) -> int:
        """Returns how many steps the next round has, over all workers."""
        ...

    def take_round(self, now: RunState, behaviour: Any, is_shared: bool, num_steps: int) -> list[Any]:
        """Returns the leg of every worker in a round of `num_steps` steps in all."""
        ...

    def add(self, legs: list[Any], now: RunState, num_steps: int) -> None:
        """Adds the legs of a round in the order of the workers."""
        ...


def legs_of(executor: Any, leg: Callable[..., Any], calls: Sequence[Any], num_steps: int) -> list[Any]:
    """Returns `leg(*call)` of every worker, in their order; without an executor they are taken here."""
    if executor is None:
        return [leg(*call) for call in calls]
    names = [f"leg {slot} of the round after step {num_steps}" for slot in range(len(calls))]
    return [found for _, found in sorted(run_calls(executor, leg, calls, names), key=_slot)]


def _slot(found: tuple[int, Any]) -> int:
    return found[0]


class SharedWorld(ModelWorld):
    """A simulated model that several workers act in at the same time."""

    def __init__(self, asked: ModelRun, executor: Any = None) -> None:
        super().__init__(asked)
        self.executor = executor

    def round_steps(self, block: Block, num_steps: int, left: int) -> int:
        """Returns how many steps the next round has, over all workers."""
        workers = self.num_chains
        if block.whole:
            return min(block.num_steps * workers, left)
        steps = block.num_steps
        if block.direction is None:
            steps = max(steps, num_steps // SHORTEST_ROUND)
            steps = min(steps, num_steps // LONGEST_ROUND, left // PART_OF_THE_REST)
        return min(workers * max(SHORTEST_LEG, -(-steps // workers)), left)

    def take_round(self, now: RunState, behaviour: Behaviour, is_shared: bool, num_steps: int) -> list[Leg]:
        """Returns what every worker counts in a round of `num_steps` steps in all."""
        if is_shared:
            behaviour = share_of(behaviour, self.num_chains)
        seed, length = self.asked.spec.seed, num_steps // self.num_chains
        round_ = Round(self.arrays, self.rule_of(behaviour), is_shared, seed, now.num_steps, length)
        calls = [(round_, slot, int(state)) for slot, state in enumerate(now.position.states)]
        return legs_of(self.executor, take_leg, calls, now.num_steps)

    def add(self, legs: list[Leg], now: RunState, num_steps: int) -> None:
        """Adds the legs of a round in the order of the workers."""
        seen, moves = now.seen, np.zeros_like(now.seen.moves)
        for slot, leg in enumerate(legs):
            moves[leg.places] += leg.times
            now.position.states[slot] = leg.state
        seen.moves += moves
        seen.pairs += visits_of_moves(self.mdp, moves)
        seen.num_steps += num_steps


class RoundRunner(Runner):
    """Runs an explorer in rounds of several workers; blocks are not cut for reports.

    A round that is counted has all its steps. So a block with any steps is done, and was interrupted only
    before the explorer's update.
    """

    world: RoundWorld  # pyright: ignore[reportIncompatibleVariableOverride]

    def _reported(self) -> int:
        """Returns the step of the last row of the trace, which may be beyond its mark."""
        return int(self.now.rows[-1][0]) if self.now.rows else 0

    def _advance(self, mark: int) -> None:
        """Takes one round, or ends the block that an interruption left."""
        now = self.now
        block, (behaviour, is_shared) = self._current()
        if now.seen.num_steps == 0:
            steps = self.world.round_steps(block, now.num_steps, self.grid[-1] - now.num_steps)
            legs = self.world.take_round(now, behaviour, is_shared, steps)
            self._interrupts.together(lambda: self.world.add(legs, now, steps))
        self._end_block(block)

    def _act_of(self, block: Block) -> Any:
        """Returns the block's behaviour over the world's pairs, and whether it is a deficit to be shared."""
        return self._placed(block), not block.in_world
