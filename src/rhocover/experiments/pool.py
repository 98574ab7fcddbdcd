"""Applies a function to many items in several processes, and yields the values as they finish.

Every process is started with "spawn": it shares nothing with the caller but the function, so it does not
matter what the caller has loaded, locked or started. Ctrl-C is handled by the caller: the processes ignore
it, and are terminated before the caller continues. If the caller itself is killed, each process notices and
exits. If a process is killed, even while it starts, all are replaced and the unfinished items are run again,
with a `WorkerWarning`; the values depend only on the items, so they are the same. A process that exits by
itself before it could start would do so again, so that is an error.

This module does not depend on what the items are. The function returns its own failures as values.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rhocover.engines import begin_process, blocked_interrupts
from rhocover.errors import RhocoverError, WorkerWarning, parse_text

Item = TypeVar("Item")
Value = TypeVar("Value")
MOST_DEATHS = 3  # pools in a row that finished no item: the cause would kill the next one, too
NEVER_BEGAN = (
    "no worker process could start. Does the script call {caller}() outside of "
    '`if __name__ == "__main__":`? Move the call inside. If the code was typed in or read from a pipe, there '
    "is no script: pass workers=1."
)
DIED_AGAIN = parse_text(
    f"worker processes were killed {MOST_DEATHS} times in a row before they finished a run. The machine may "
    "be out of memory: use fewer `workers`, or `workers=1` to see what happens in this process."
)
REPLACED = "a worker process was killed (perhaps out of memory). New workers continue: "
_held: dict[str, Callable[[Any], Any]] = {}  # in a worker: the function, received when the process starts


def run_items(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, *, caller: str
) -> Generator[tuple[int, Value]]:
    """Returns an iterator of (index, function(item)) over all items, in the order in which they finish.

    With one worker, this process computes them one after the other. Several workers receive the function
    once each, pickled. `caller` is the name of the function that the user called, for error messages.
    """
    if workers <= 1:
        return ((k, function(item)) for k, item in enumerate(items))
    return _in_processes(function, items, workers, caller)


def _in_processes(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int, caller: str
) -> Generator[tuple[int, Any]]:
    """Yields the values as they finish, from this many processes; replaces them when one is killed."""
    left, deaths = dict(enumerate(items)), 0
    while left:
        start = Start(multiprocessing.get_context("spawn").Event())
        try:
            for k, answer in _in_one_pool(function, left.copy(), min(workers, len(left)), start):
                deaths = 0
                del left[k]
                yield k, answer
        except BrokenProcessPool as error:
            deaths += 1
            if start.has_failed:
                raise RhocoverError(NEVER_BEGAN.format(caller=caller)) from error
            if deaths == MOST_DEATHS:
                raise RhocoverError(DIED_AGAIN) from error
            warnings.warn(
                f"{REPLACED}{len(left)} of {len(items)} runs are left.", WorkerWarning, stacklevel=2
            )


@dataclass(eq=False)
class Start:
    """How the processes of one pool started: the first that starts sets `begun`."""

    begun: Any
    processes: set[Any] = field(default_factory=set)

    @property
    def has_failed(self) -> bool:
        """Whether none started and one exited by itself; after a signal the exit code would be negative."""
        return not self.begun.is_set() and any((process.exitcode or 0) > 0 for process in self.processes)


def _in_one_pool(
    function: Callable[[Any], Any], items: Mapping[int, Any], workers: int, start: Start
) -> Generator[tuple[int, Any]]:
    """Yields the values from one pool of processes; no process is left behind, however it ends."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (function, start.begun))
    try:
        with blocked_interrupts():
            waiting = {pool.submit(_answer, item): k for k, item in items.items()}
            start.processes |= set(multiprocessing.active_children()) - before
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:  # also if the caller stops iterating: unfinished items are not needed
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(function: Callable[[Any], Any], begun: Any) -> None:
    """Prepares a worker, and stores the function."""
    begun.set()
    begin_process()
    _held["function"] = function


def _answer(item: Any) -> Any:
    return _held["function"](item)
