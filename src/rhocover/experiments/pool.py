"""A function of many items in several processes, its values handed back as they finish.

Every process starts afresh ("spawn"): it shares nothing with the caller but the function, so it does not
matter what the caller has loaded, locked or started. Ctrl-C is the caller's to answer: the processes do not
hear it, and are ended before the caller goes on. If the caller itself is killed, each of them notices and
ends. If one of them is killed, also while it starts, all are replaced and what they had not answered is asked
again, with a `WorkerWarning`; the answers are functions of the items, so they are the same. One that ends by
itself before it began will do so again: that is an error.

Knows nothing of what the items are. What goes wrong with one of them the function hands back as a value.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rhocover.errors import RhocoverError, WorkerWarning, parse_text

Item = TypeVar("Item")
Value = TypeVar("Value")
MOST_DEATHS = 3  # of pools in a row that answered nothing: whatever kills them will do it again
NEVER_BEGAN = (
    "no worker process could begin. Does the script call {caller}() outside of "
    '`if __name__ == "__main__":`, which it needs? Typed in or read from a pipe there is no script: pass '
    "workers=1."
)
DIED_AGAIN = parse_text(
    f"worker processes were killed {MOST_DEATHS} times in a row before they answered anything. Perhaps the "
    "memory ran out: use fewer `workers`, or `workers=1` to see what happens in this process."
)
REPLACED = "a worker process was killed (perhaps the memory ran out). The workers are replaced and go on: "
_held: dict[str, Callable[[Any], Any]] = {}  # in a worker: the function, received when the process begins


def run_items(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, *, caller: str
) -> Generator[tuple[int, Value]]:
    """Returns an iterator of (index, function(item)) over all items, in the order in which they finish.

    With one worker they come one after the other from this process. Several receive the function once each,
    pickled. `caller` is the name of what the user called, for the message if a process dies.
    """
    if workers <= 1:
        return ((k, function(item)) for k, item in enumerate(items))
    return _in_processes(function, items, workers, caller)


def _in_processes(
    function: Callable[[Any], Any], items: Sequence[Any], workers: int, caller: str
) -> Generator[tuple[int, Any]]:
    """Yields the answers as they come, from this many processes; replaces them when one is killed."""
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
            if start.is_in_vain:
                raise RhocoverError(NEVER_BEGAN.format(caller=caller)) from error
            if deaths == MOST_DEATHS:
                raise RhocoverError(DIED_AGAIN) from error
            warnings.warn(f"{REPLACED}{len(left)} of {len(items)} are left.", WorkerWarning, stacklevel=2)


@dataclass(eq=False)
class Start:
    """How the processes of one pool started: `begun` is set by the first that could."""

    begun: Any
    processes: set[Any] = field(default_factory=set)

    @property
    def is_in_vain(self) -> bool:
        """Whether none began, and one ended by itself: a signal would have left a negative code."""
        return not self.begun.is_set() and any((process.exitcode or 0) > 0 for process in self.processes)


def _in_one_pool(
    function: Callable[[Any], Any], items: Mapping[int, Any], workers: int, start: Start
) -> Generator[tuple[int, Any]]:
    """Yields the answers that one pool of processes gives; no process is left behind, however it ends."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (function, start.begun))
    try:
        with _unheard():
            waiting = {pool.submit(_answer, item): k for k, item in items.items()}
            start.processes |= set(multiprocessing.active_children()) - before
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:  # also when the caller stops listening: nobody waits for what still runs
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(function: Callable[[Any], Any], begun: Any) -> None:
    """Prepares a worker: keeps the function, and ends the process when its parent is gone."""
    begun.set()
    threading.Thread(target=_follow_parent, daemon=True).start()
    _held["function"] = function


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(item: Any) -> Any:
    return _held["function"](item)


@contextmanager
def _unheard() -> Iterator[None]:
    """Holds Ctrl-C back; processes that begin meanwhile never hear it, because they inherit that."""
    if not hasattr(signal, "pthread_sigmask"):  # not on every system
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
