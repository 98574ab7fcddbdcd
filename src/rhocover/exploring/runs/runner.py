r"""The loop: ask the explorer, act, count, report. One object that stands still at any step.

Everything that goes on is in a few values (`RunState`): the explorer's state, the block's visits so
far, the world's position, the rows reported. The block itself is not among them: the explorer gives
the same one again for the same state.

`Interrupts` takes the place of the Ctrl-C handler for the length of a run. While `held` is true an
interrupt waits; otherwise it comes through at once, in the middle of planning if need be.

What is held is short, except for what somebody else wrote: a step of an environment may never end. So the
second Ctrl-C comes through inside of it (`is_foreign` says whether that is where we are), and what was done
before that step is kept. Where even that is not heard, because the step is in C code that does not come back
to Python, a thread ends the process with the code of an interrupt, 130: what is on disk is whole at any time.
C code that also keeps Python's lock stops every thread; then only Ctrl-\ or `kill` is left.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief import NEVER, Belief
from rhocover.exploring.explorers import Block, Explorer, State, renewed
from rhocover.exploring.explorers.registry import explorer_document, explorer_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.runs.result import Episode, Run, make_trace
from rhocover.exploring.runs.spec import RunSpec, model_name
from rhocover.exploring.runs.stopping import RunSoFar, Stop, next_look
from rhocover.exploring.worlds import Behaviour, Position, Visits, World
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP

INTERRUPTED = 130  # what shells say of a process that Ctrl-C ended
DEAF = 1.0  # seconds in which Python code would have heard, also on a busy machine; pressed twice in vain
LAST_WORDS = b"\nrhocover: interrupted in code that does not come back; what is on disk is whole.\n"


class Interrupts:
    """Lets Ctrl-C through only where everything stands still, or inside code of others if pressed twice."""

    def __init__(self, is_foreign: Callable[[FrameType | None], bool] | None = None) -> None:
        self.held = False
        self._is_foreign = is_foreign
        self._waiting: tuple[Any, ...] | None = None
        self._before: Any = None
        self._watch: _Watch | None = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is not None:  # one set from C could not be put back
            self._before = signal.signal(signal.SIGINT, self._caught)
            if self._is_foreign is not None and self._before is not signal.SIG_IGN:
                self._watch = _Watch(lambda: self.held)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self._pass_on()

    def together(self, action: Callable[[], None]) -> None:
        """Does `action` as a whole, and then lets an interrupt through that came meanwhile."""
        self.held = True
        try:
            action()
        finally:
            self.held = False
        self._pass_on()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self._watch is not None:
            self._watch.answered.set()
        is_second, self._waiting = self._waiting is not None, (number, frame)
        if not self.held or (is_second and self._is_foreign is not None and self._is_foreign(frame)):
            self._pass_on()

    def _pass_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._before is signal.SIG_IGN:
            return
        if not callable(self._before):  # SIG_DFL would end the process: so does this, checkpoint first
            raise KeyboardInterrupt
        self._before(*waiting)


class _Watch:
    """A thread that hears of each Ctrl-C from the system, and ends a process that was deaf to two of them."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        self._is_held, self.answered = is_held, threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._is_ours = before == -1
        if not self._is_ours:  # somebody else listens, an event loop for one: leave it to them
            signal.set_wakeup_fd(before)
        self._thread = threading.Thread(target=self._listen, daemon=True, name="rhocover-interrupts")
        self._thread.start()

    def _listen(self) -> None:
        in_vain = 0
        while heard := self._reader.recv(1):
            if heard[0] != signal.SIGINT:
                continue
            is_heard = self.answered.wait(DEAF)
            self.answered.clear()
            in_vain = 0 if is_heard or not self._is_held() else in_vain + 1
            if in_vain == 2:
                os.write(2, LAST_WORDS)
                os._exit(INTERRUPTED)

    def close(self) -> None:
        """Ends the thread."""
        if self._is_ours:
            signal.set_wakeup_fd(-1)
        self._writer.close()  # which the thread hears as the end
        self._thread.join()
        self._reader.close()


KEPT = 1 << 22  # numbers of directions; later episodes are recorded without theirs
NOTHING = np.zeros(0)

Report = Callable[[int, int], None]  # of the steps so far, and how many there will be
Measure = Callable[[IntArray, int], list[float]]  # a row of the trace from counts and steps


@dataclass(eq=False)
class RunState:
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


def begin(explorer: Explorer, belief: Belief, position: Position, seen: Visits) -> RunState:
    """Returns the state of a run before its first step."""
    return RunState(checked_state(explorer.init(belief), 0), position, seen, [], [], position.states.copy())


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
        self, measure: Measure, explorer: Explorer, world: World, grid: list[int], now: RunState,
        until: Stop | None = None, problem: Problem | None = None,
    ) -> None:  # fmt: skip
        self.measure = measure
        self.problem = problem
        self.explorer = explorer
        self.world = world
        self.grid = grid
        self.now = now
        self.until = until
        self._next_look = self._find_next_look(max(now.num_steps - 1, 0))
        self._interrupts = Interrupts(world.is_foreign)
        self._block: Block | None = None
        self._act: Any = None

    @property
    def is_done(self) -> bool:
        """Whether the last step was taken and reported."""
        return self.now.is_enough or len(self.now.rows) == len(self.grid)

    def run(self, after: Callable[[RunState], None]) -> None:
        """Goes on to the end; calls `after` whenever nothing is half done."""
        with self._interrupts:
            while not self.is_done:
                mark = self.grid[len(self.now.rows)]
                if self.now.num_steps == self._next_look:
                    self._look()
                elif self.now.num_steps == mark:
                    self._report(mark)
                else:
                    self._advance(min(mark, self._next_look))
                after(self.now)

    def _report(self, step: int) -> None:
        """Adds a row to the trace."""
        self.now.rows.append(self.measure(self.now.counts, step))

    def _look(self) -> None:
        """Asks the stopping rule; if it is met, this is where the run ends."""
        now = self.now
        assert self.until is not None
        so_far = RunSoFar(self.problem, now.state.belief, now.seen, now.num_steps)
        if so_far.is_ready and self.until.is_met(so_far):
            if not now.rows or int(now.rows[-1][0]) < now.num_steps:
                self._report(now.num_steps)
            now.is_enough = True
        self._next_look = self._find_next_look(now.num_steps)

    def _find_next_look(self, num_steps: int) -> int:
        if self.until is None:
            return NEVER
        return next_look(self.until, num_steps, self.world.num_chains)

    def _advance(self, mark: int) -> None:
        """Acts until the block ends or the mark is reached, whichever comes first."""
        now = self.now
        block, act = self._current()
        left = block.num_steps - now.seen.num_steps
        left = -(-left // self.world.num_chains) * self.world.num_chains
        batch = -(-self.world.batch_steps // self.world.num_chains) * self.world.num_chains
        steps = min(left, mark - now.num_steps, batch)
        self._interrupts.together(lambda: self.world.advance(now.position, act, now.seen, steps))
        if steps == left:
            self._end_block(block)

    def _current(self) -> tuple[Block, Any]:
        if self._block is None or self._act is None:
            block = self.explorer.policy(self.now.state)
            if not isinstance(block, Block):
                raise InvalidArgumentError.of("policy", "must return a Block", type(block).__name__)
            checks.integer(block.num_steps, "Block.num_steps", least=1)  # none would never end
            self._act, self._block = self.world.follow(self._placed(block)), self._cut(block)
        return self._block, self._act

    def _placed(self, block: Block) -> Behaviour:
        """Returns the block's behaviour over the world's pairs."""
        return block.behaviour if block.in_world else self.now.state.belief.place(block.behaviour)

    def _cut(self, block: Block) -> Block:
        """Returns the block, ended early where the belief wants to look, unless it is an episode."""
        patience = self.now.state.belief.patience
        if block.direction is not None or block.whole or block.num_steps <= patience:
            return block
        return replace(block, num_steps=patience)

    def _end_block(self, block: Block) -> None:
        """Hands the block's visits to the explorer."""
        now = self.now
        seen = now.state.belief.own(now.seen)
        state = checked_state(self.explorer.update(now.state, seen), now.num_steps)
        if state.belief.is_due:
            state = renewed(self.explorer, state)
        episode = episode_of(now, block)
        if episode is not None and len(now.episodes) * episode.psi.size > KEPT:
            episode = replace(episode, psi=NOTHING, psi_hat=NOTHING)

        def turn() -> None:
            now.state = state
            now.seen.next_block()
            self._block = self._act = None
            if episode is not None:
                now.episodes.append(episode)

        self._interrupts.together(turn)

    def last_episode(self) -> Episode | None:
        """Returns the episode that the end of the run cut short, if there is one."""
        if self.now.seen.num_steps == 0:
            return None
        return episode_of(self.now, self._current()[0])


def episode_of(now: RunState, block: Block) -> Episode | None:
    """Returns the record of a block that had a Frank-Wolfe direction."""
    if block.direction is None:
        return None
    seen, before = now.seen, now.state.num_steps
    return Episode(
        k=now.state.num_blocks + 1,
        t=before,
        tau=seen.num_steps,
        beta=seen.num_steps / (before + seen.num_steps),
        gap=block.gap,
        psi=now.state.belief.spread(block.direction),
        psi_hat=np.asarray(seen.pairs / seen.num_steps),
    )


def run_fields(mdp: MDP, spec: RunSpec, runner: Runner, seconds: float) -> dict[str, Any]:
    """Returns the fields of the run of a known problem that has come to its end."""
    now, problem, last = runner.now, runner.problem, runner.last_episode()
    assert problem is not None
    return {
        "mdp": mdp,
        "problem": problem,
        "explorer": explorer_name(spec.explorer),
        "explorer_settings": explorer_document(spec.explorer),
        "seed": spec.seed,
        "num_steps": now.num_steps,
        "visits": checks.frozen(now.counts),
        "moves": checks.frozen(now.seen.moves),
        "first_states": checks.frozen(now.first_states),
        "last_states": checks.frozen(now.position.states),
        "trace": make_trace(now.rows, problem),
        "belief": now.state.belief,
        "model": model_name(spec.model),
        "is_enough": now.is_enough,
        "episodes": (*now.episodes, *([last] if last else [])),
        "seconds": seconds,
    }


class Storage:
    """Where a run is kept while it goes on, and who hears of its progress. This one keeps nothing.

    `now` is where the run goes on from, None at its beginning.
    """

    def __init__(self, report: Report | None = None, now: RunState | None = None) -> None:
        self.report, self.now = report, now

    @property
    def is_resumed(self) -> bool:
        """Whether the run may have been begun before."""
        return self.now is not None

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def load(self) -> RunState | None:
        """Returns where the run stood; None if it is not begun."""
        return self.now

    def save_if_due(self, now: RunState) -> None:
        """Keeps where the run is, if that was not done for some time."""

    def save(self, now: RunState) -> None:
        """Keeps where the run is."""

    def save_result(self, run: Run) -> None:
        """Keeps the finished run."""


def run(world: World, spec: RunSpec, storage: Storage) -> Any:
    """Returns what the world makes of a run that has come to its end: a `Run`.

    What an explorer refuses is refused before anything is written.
    """
    began = time.perf_counter()
    with one_blas_thread(), world.opened():
        now = None if storage.is_resumed else world.start(spec)
        with storage:
            now = now or storage.load() or world.start(spec)
            grid = world.marks(spec)
            runner = Runner(world.measure, spec.actor, world, grid, now, spec.until, world.problem)
            _keep_going(runner, spec.num_steps, storage)
            result = world.result(spec, runner, time.perf_counter() - began)
            storage.save_result(result)
    return result


def _keep_going(runner: Runner, num_steps: int, storage: Storage) -> None:
    """Runs to the end; it is kept now and then, at the end, and where the caller stops it."""

    def after(now: RunState) -> None:
        storage.save_if_due(now)
        if storage.report is not None:
            storage.report(now.num_steps, num_steps)

    try:
        runner.run(after)
    except (KeyboardInterrupt, InvalidArgumentError):  # a rule or an explorer of the caller's may be wrong
        storage.save(runner.now)
        raise
    storage.save(runner.now)
