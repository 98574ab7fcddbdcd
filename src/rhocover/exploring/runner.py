"""The loop: ask the explorer, act, count, report. One object that stands still at any step.

Everything that goes on is in a handful of values (`Standing`): the explorer's state, the block's visits so
far, the world's position, the rows reported. The block itself is not among them: the explorer gives
the same one again for the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.behaviours import Behaviour
from rhocover.exploring.beliefs import NEVER, Belief
from rhocover.exploring.explorer import Block, Explorer, State, renewed
from rhocover.exploring.interrupts import Interrupts
from rhocover.exploring.problem import Problem
from rhocover.exploring.simulator import Position, Visits, World
from rhocover.exploring.stopping import Sight, Stop, next_look

KEPT = 1 << 22  # numbers of directions; later episodes are recorded without theirs
NOTHING = np.zeros(0)

Measure = Callable[[IntArray, int], list[float]]  # a row of the trace from counts and steps


@dataclass(frozen=True, eq=False)
class Episode:
    """One Frank-Wolfe episode: psi was aimed at for tau steps from step t on, psi_hat was visited.

    After some million numbers psi and psi_hat are left out, and empty.
    """

    k: int
    t: int  # steps before it
    tau: int
    beta: float  # tau over all steps so far, the step size
    gap: float  # of Frank-Wolfe before it, <grad U(d_hat), psi - d_hat>
    psi: FloatArray  # per pair
    psi_hat: FloatArray


@dataclass(eq=False)
class Standing:
    """Where a run stands; what a checkpoint stores."""

    state: State
    position: Position
    seen: Visits
    rows: list[list[float]]
    episodes: list[Episode]
    first_states: IntArray
    is_enough: bool = False  # a stopping rule was met

    @property
    def num_steps(self) -> int:
        """Steps taken so far."""
        return self.state.num_steps + self.seen.num_steps

    @property
    def counts(self) -> IntArray:
        """Visits of each pair of the world so far."""
        return self.seen.total


def begin(explorer: Explorer, belief: Belief, position: Position, seen: Visits) -> Standing:
    """Returns where a run stands before its first step."""
    return Standing(checked_state(explorer.init(belief), 0), position, seen, [], [], position.states.copy())


def checked_state(state: Any, num_steps: int) -> State:
    """Returns what an explorer made of a block, if it is a state after this many steps that can be stored."""
    if not isinstance(state, State):
        raise InvalidArgumentError.of(
            "init",
            "and `update` must return a State",
            type(state).__name__,
            remedy="Begin with initial_state(belief), go on with state.after(visits).",
        )
    if state.num_steps != num_steps:
        raise InvalidArgumentError.of(
            "update",
            f"must return a state after {num_steps} steps",
            f"one after {state.num_steps}",
            remedy="Return state.after(visits).",
        )
    for name, value in state.memory.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or value.ndim == 0:
            raise InvalidArgumentError.of(
                f"memory[{name!r}]",
                "must be an array of numbers, so that it can be stored",
                type(value).__name__,
                remedy="Wrap it: np.array([value]).",
            )
    return state


class Runner:
    """Drives an explorer in a world from where it stands to the end of the grid of steps.

    `problem` is the true one, for stopping rules, where there is one.
    """

    def __init__(
        self, measure: Measure, explorer: Explorer, world: World, grid: list[int], standing: Standing,
        until: Stop | None = None, problem: Problem | None = None,
    ) -> None:  # fmt: skip
        self.measure = measure
        self.problem = problem
        self.explorer = explorer
        self.world = world
        self.grid = grid
        self.standing = standing
        self.until = until
        self._next_look = self._find_next_look(max(standing.num_steps - 1, 0))
        self._interrupts = Interrupts(getattr(world, "is_foreign", None))
        self._block: Block | None = None
        self._act: Any = None

    @property
    def is_done(self) -> bool:
        """Whether the last step was taken and reported."""
        return self.standing.is_enough or len(self.standing.rows) == len(self.grid)

    def run(self, after: Callable[[Standing], None]) -> None:
        """Goes on to the end; calls `after` whenever everything stands still."""
        with self._interrupts:
            while not self.is_done:
                mark = self.grid[len(self.standing.rows)]
                if self.standing.num_steps == self._next_look:
                    self._look()
                elif self.standing.num_steps == mark:
                    self._report(mark)
                else:
                    self._advance(min(mark, self._next_look))
                after(self.standing)

    def _report(self, step: int) -> None:
        """Adds a row to the trace."""
        self.standing.rows.append(self.measure(self.standing.counts, step))

    def _look(self) -> None:
        """Asks the stopping rule; if it is met, this is where the run ends."""
        standing = self.standing
        assert self.until is not None
        sight = Sight(self.problem, standing.state.belief, standing.seen, standing.num_steps)
        if sight.is_ready and self.until.is_met(sight):
            if not standing.rows or int(standing.rows[-1][0]) < standing.num_steps:
                self._report(standing.num_steps)
            standing.is_enough = True
        self._next_look = self._find_next_look(standing.num_steps)

    def _find_next_look(self, num_steps: int) -> int:
        if self.until is None:
            return NEVER
        return next_look(self.until, num_steps, self.world.num_chains)

    def _advance(self, mark: int) -> None:
        """Acts until the block ends or the mark is reached, whichever comes first."""
        standing = self.standing
        block, act = self._current()
        left = block.num_steps - standing.seen.num_steps
        left = -(-left // self.world.num_chains) * self.world.num_chains
        stretch = -(-self.world.stretch // self.world.num_chains) * self.world.num_chains
        steps = min(left, mark - standing.num_steps, stretch)
        self._interrupts.together(lambda: self.world.advance(standing.position, act, standing.seen, steps))
        if steps == left:
            self._end_block(block)

    def _current(self) -> tuple[Block, Any]:
        if self._block is None or self._act is None:
            block = self.explorer.policy(self.standing.state)
            if not isinstance(block, Block):
                raise InvalidArgumentError.of("policy", "must return a Block", type(block).__name__)
            checks.integer(block.num_steps, "Block.num_steps", least=1)  # none would never end
            self._act, self._block = self.world.follow(self._placed(block)), self._cut(block)
        return self._block, self._act

    def _placed(self, block: Block) -> Behaviour:
        """Returns the block's behaviour over the world's pairs."""
        return block.behaviour if block.in_world else self.standing.state.belief.place(block.behaviour)

    def _cut(self, block: Block) -> Block:
        """Returns the block, ended early where the belief wants to look, unless it is an episode."""
        patience = self.standing.state.belief.patience
        if block.direction is not None or block.whole or block.num_steps <= patience:
            return block
        return replace(block, num_steps=patience)

    def _end_block(self, block: Block) -> None:
        """Hands the block's visits to the explorer."""
        standing = self.standing
        seen = standing.state.belief.own(standing.seen)
        state = checked_state(self.explorer.update(standing.state, seen), standing.num_steps)
        if state.belief.is_due:
            state = renewed(self.explorer, state)
        episode = episode_of(standing, block)
        if episode is not None and len(standing.episodes) * episode.psi.size > KEPT:
            episode = replace(episode, psi=NOTHING, psi_hat=NOTHING)

        def turn() -> None:
            standing.state = state
            standing.seen.next_block()
            self._block = self._act = None
            if episode is not None:
                standing.episodes.append(episode)

        self._interrupts.together(turn)

    def last_episode(self) -> Episode | None:
        """Returns the episode that the end of the run cut short, if there is one."""
        if self.standing.seen.num_steps == 0:
            return None
        return episode_of(self.standing, self._current()[0])


def episode_of(standing: Standing, block: Block) -> Episode | None:
    """Returns the record of a block that had a Frank-Wolfe direction."""
    if block.direction is None:
        return None
    seen, before = standing.seen, standing.state.num_steps
    return Episode(
        k=standing.state.num_blocks + 1,
        t=before,
        tau=seen.num_steps,
        beta=seen.num_steps / (before + seen.num_steps),
        gap=block.gap,
        psi=standing.state.belief.spread(block.direction),
        psi_hat=np.asarray(seen.pairs / seen.num_steps),
    )
