r"""The loop of a run: get a block from the explorer, act, count, report. It can be interrupted at any step.

The state of a run is in a few values (`RunState`): the explorer's state, the visits of the current block, the
world's position, and the reported rows. The block itself is not stored: the explorer returns the same block
again for the same state.

`Interrupts` replaces the Ctrl-C handler during a run. While `held` is true an interrupt is delayed; otherwise
it is raised at once, even in the middle of planning.

Code that holds interrupts is short, except for the code of environments: a step may never return. So a second
Ctrl-C is raised inside the step (`is_foreign` tells whether the current frame is there), and everything
before that step is kept. If even that has no effect, because the step is in C code that does not return to
Python, a thread ends the process with the exit code of an interrupt, 130; the files on disk are intact at any
time. C code that also keeps Python's lock stops every thread; then only Ctrl-\ or `kill` helps.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType, TracebackType
from typing import Any, cast

import numpy as np

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError, WorkerError
from rhocover.exploring.belief import NEVER, Belief
from rhocover.exploring.explorers import Block, Explorer, State, renewed
from rhocover.exploring.explorers.registry import explorer_document, explorer_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.runs.result import Episode, Run, make_trace
from rhocover.exploring.runs.spec import RunSpec, model_name
from rhocover.exploring.runs.stopping import RunSoFar, Stop, next_look
from rhocover.exploring.worlds import BlockBehaviour, Position, RunWorld, SeekNew, Visits, World
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP
from rhocover.printing import count_of
from rhocover.progress import Report

INTERRUPTED = 130  # the exit code of a process that Ctrl-C ended
DEAF = 1.0  # seconds within which Python code handles a signal, even on a busy machine
LAST_WORDS = b"\nrhocover: interrupted in C code that does not return; all files on disk are intact.\n"


class Interrupts:
    """Raises Ctrl-C only between steps, or inside an environment's code if it is pressed twice."""

    def __init__(self, is_foreign: Callable[[FrameType | None], bool] | None = None) -> None:
        self.held = False
        self._is_foreign = is_foreign
        self._waiting: tuple[Any, ...] | None = None
        self._before: Any = None
        self._watch: _Watch | None = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is not None:  # one set from C cannot be restored
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
        """Calls `action` without interruption, and then raises an interrupt that came meanwhile."""
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
        if not callable(self._before):  # SIG_DFL would end the process; so does this, after a checkpoint
            raise KeyboardInterrupt
        self._before(*waiting)


class _Watch:
    """A thread that receives every Ctrl-C, and ends the process if two of them were not handled."""

    def __init__(self, is_held: Callable[[], bool]) -> None:
        self._is_held, self.answered = is_held, threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._is_ours = before == -1
        if not self._is_ours:  # something else listens, such as an event loop: do not replace it
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
        self._writer.close()  # ends the thread's loop
        self._thread.join()
        self._reader.close()


KEPT = 1 << 22  # numbers stored for directions; later episodes are recorded without them
NOTHING = np.zeros(0)

Measure = Callable[[IntArray, int], list[float]]  # a row of the trace from counts and steps


@dataclass(eq=False)
class RunState:
    """The state of a run, which checkpoints store."""

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
    """Returns the explorer's state after `num_steps` steps; refuses one that cannot be stored."""
    if not isinstance(state, State):
        raise InvalidArgumentError.of(
            "init",
            "and `update` must return a State",
            type(state).__name__,
            remedy="Return initial_state(belief) from init, and state.after(visits) from update.",
        )
    if state.num_steps != num_steps:
        raise InvalidArgumentError.of(
            "update",
            f"must return a state after {count_of(num_steps, 'step')}",
            f"one after {state.num_steps}",
            remedy="Return state.after(visits).",
        )
    for name, value in state.memory.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or value.ndim == 0:
            raise InvalidArgumentError.of(
                f"memory[{name!r}]",
                "must be an array of numbers, so that it can be stored",
                type(value).__name__,
                remedy="Use np.array([value]).",
            )
    return state


class Runner:
    """Runs an explorer in a world from a state to the end of the grid of steps.

    `problem` is the true one, if there is one, for stopping rules.
    """

    def __init__(
        self, measure: Measure, explorer: Explorer, world: RunWorld, grid: list[int], now: RunState,
        until: Stop | None = None, problem: Problem | None = None,
    ) -> None:  # fmt: skip
        self.measure = measure
        self.problem = problem
        self.explorer = explorer
        self.world = cast(World, world)  # who takes steps in another way needs less of it
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
        return self.now.is_enough or self._reported() == self.grid[-1]

    def _reported(self) -> int:
        """Returns the step of the last row of the trace."""
        return self.grid[len(self.now.rows) - 1] if self.now.rows else 0

    def run(self, after: Callable[[RunState], None]) -> None:
        """Runs to the end; calls `after` whenever the state is consistent."""
        with self._interrupts:
            while not self.is_done:
                mark = self.grid[bisect_right(self.grid, self._reported())]
                if self.now.num_steps == self.world.next_refit < self.grid[-1]:
                    if self.world.refit(self.now):  # if not, the block goes on
                        self._block = self._act = None
                elif self.now.num_steps >= self._next_look:  # beyond it only in rounds of several workers
                    self._look()
                elif self.now.num_steps >= mark:
                    self._report(self.now.num_steps)
                else:
                    self._advance(min(mark, self._next_look, self.world.next_refit))
                after(self.now)

    def _report(self, step: int) -> None:
        """Adds a row to the trace."""
        self.now.rows.append(self.measure(self.now.counts, step))

    def _look(self) -> None:
        """Evaluates the stopping rule; if it is met, the run ends here."""
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
        """Acts until the block ends, the mark is reached, or a batch of steps is done."""
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
            checks.integer(block.num_steps, "Block.num_steps", least=1)  # with 0 the run would never end
            self._act, self._block = self._act_of(block), self._cut(block)
        return self._block, self._act

    def _act_of(self, block: Block) -> Any:
        """Returns how to act in the block, as the world wants it."""
        return self.world.follow(self._placed(block))

    def _placed(self, block: Block) -> BlockBehaviour:
        """Returns the block's behaviour over the world's pairs."""
        behaviour = block.behaviour
        if block.in_world or isinstance(behaviour, SeekNew):
            return behaviour
        return self.now.state.belief.place(behaviour)

    def _cut(self, block: Block) -> Block:
        """Returns the block, shortened to the belief's patience, unless it is an episode or whole."""
        patience = self.now.state.belief.patience
        if block.direction is not None or block.whole or block.num_steps <= patience:
            return block
        return replace(block, num_steps=patience)

    def _end_block(self, block: Block) -> None:
        """Updates the explorer's state with the visits of the block."""
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
        """Returns the last episode if the end of the run cut it, else None."""
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
    """Returns the fields of a finished run of a known problem."""
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
    """Where a run is stored, and how its progress is reported. This base class stores nothing.

    `now` is the state to continue from, None for a new run.
    """

    def __init__(self, report: Report | None = None, now: RunState | None = None) -> None:
        self.report, self.now = report, now

    @property
    def is_resumed(self) -> bool:
        """Whether the run may have begun before."""
        return self.now is not None

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def load(self) -> RunState | None:
        """Returns the stored state; None if there is none."""
        return self.now

    def save_if_due(self, now: RunState) -> None:
        """Stores the state if the last time was long enough ago."""

    def save(self, now: RunState) -> None:
        """Stores the state."""

    def save_result(self, run: Run) -> None:
        """Stores the finished run."""


def run(world: RunWorld, spec: RunSpec, storage: Storage, kind: type[Runner] = Runner) -> Any:
    """Returns the finished run; `kind` is the loop that runs it.

    The explorer's `init` is called before anything is written, so that its errors leave no files.
    """
    began = time.perf_counter()
    with one_blas_thread(), world.opened():
        now = None if storage.is_resumed else world.start(spec)
        with storage:
            now = now or storage.load() or world.start(spec)
            grid = world.marks(spec)
            runner = kind(world.measure, spec.actor, world, grid, now, spec.until, world.problem)
            _keep_going(runner, spec.num_steps, storage)
            result = world.result(spec, runner, time.perf_counter() - began)
            storage.save_result(result)
    return result


def _keep_going(runner: Runner, num_steps: int, storage: Storage) -> None:
    """Runs to the end; stores the state now and then, at the end, and when the run is interrupted."""

    def after(now: RunState) -> None:
        storage.save_if_due(now)
        if storage.report is not None:
            storage.report(now.num_steps, num_steps)

    try:
        runner.run(after)
    except (
        KeyboardInterrupt,
        InvalidArgumentError,
        WorkerError,
    ):  # the caller's rule or explorer may be wrong
        storage.save(runner.now)
        raise
    storage.save(runner.now)
