"""A function of many items in several processes, its values handed back as they finish.

Every process starts afresh ("spawn"): it shares nothing with the caller but the function, so it does not
matter what the caller has loaded, locked or started. Ctrl-C is the caller's to answer: the processes do not
hear it, and are ended before the caller goes on. If the caller itself is killed, each of them notices and
ends.

Knows nothing of what the items are. What goes wrong with one of them the function hands back as a value.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from rhocover.errors import RhocoverError

Item = TypeVar("Item")
Value = TypeVar("Value")
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
    """Yields the answers as they come, from this many processes."""
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, context, _begin, (function,))
    try:
        with _unheard():
            waiting = {pool.submit(_answer, item): k for k, item in enumerate(items)}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool as error:
        raise RhocoverError(
            "a worker process ended without an answer. Either the memory ran out: use fewer `workers`; or "
            f'the script calls {caller}() outside of `if __name__ == "__main__":`, which it needs. '
            "Typed in or read from a pipe there is no script: pass workers=1."
        ) from error
    except BaseException:  # also when the caller stops listening: nobody waits for what still runs
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(function: Callable[[Any], Any]) -> None:
    """Prepares a worker: keeps the function, and ends the process when its parent is gone."""
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
