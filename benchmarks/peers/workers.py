"""Work under a time limit, and a clock that is fair on a busy machine.

A worker is a process that is ended when a piece of work takes too long, whatever it hangs in; a new one
takes its place for the next. It keeps what it was given at its start: models, and what was made of them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Begins to run when it is made.

    A busy machine makes the clock on the wall say more than was done; threads that share the work make the
    processor's say more than was waited for. So the lesser of the two is read, for everyone.
    """

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        """Seconds on the wall so far."""
        return time.perf_counter() - self._began[0]

    @property
    def seconds(self) -> float:
        """Seconds on the wall or of the processor so far, whichever are fewer."""
        return min(self.wall, time.process_time() - self._began[1])


class Worker:
    """A process that does one job after the other; use it in a `with` statement.

    `prepare(*given)` runs in the process at its start, untimed, and returns the function that does jobs.
    """

    def __init__(self, prepare: Callable[..., Callable[..., Any]], *given: Any) -> None:
        self._given = prepare, given
        self._process: Any = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def do(self, limit: float, *job: Any) -> Any:
        """Returns what the function makes of a job; a sentence if it took too long or the process died."""
        if self._process is None:
            self._begin()
        try:
            self._pipe.send(job)
            if self._pipe.poll(1.1 * limit + 1):
                return self._pipe.recv()
            failure = f"no answer in {limit:g} s"
        except (EOFError, OSError):
            failure = "the process died"
        self._end()
        return failure

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *self._given), daemon=True)
        self._process.start()
        other.close()
        self._pipe.recv()  # it is prepared

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _serve(pipe: Any, prepare: Callable[..., Callable[..., Any]], given: tuple[Any, ...]) -> None:
    """Does what is asked for until the pipe ends."""
    work = prepare(*given)
    pipe.send("prepared")
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(work(*job))
