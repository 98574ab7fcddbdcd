"""Runs in several processes, handed back as they finish.

Every process starts afresh ("spawn"): it shares nothing with the caller but the question, so it does not
matter what the caller has loaded, locked or started. BLAS has one thread in each. Ctrl-C is the caller's to
answer: the processes do not hear it, and are ended before the caller goes on. If the caller itself is
killed, each of them notices and ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from rhocover.errors import RhocoverError
from rhocover.experiments.question import Place, Question
from rhocover.experiments.runs import Failure, Outcome, run_one

Answer = tuple[Place, Outcome | Failure]
_asked: dict[str, Question] = {}  # in a worker: the question, read once when the process begins


def run_here(question: Question, places: Sequence[Place]) -> Generator[Answer]:
    """Yields the outcome of each run, one after the other in this process."""
    for place in places:
        yield place, run_one(question, place)


def run_in_processes(question: Question, places: Sequence[Place], workers: int) -> Generator[Answer]:
    """Yields the outcome of each run as it finishes, from this many processes."""
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, context, _begin, (question.plain(),))
    try:
        with _unheard():
            waiting = {pool.submit(_answer, place): place for place in places}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool as error:
        raise RhocoverError(
            "a worker process ended without an answer. Either the memory ran out: use fewer `workers`; or "
            'the script calls compare() outside of `if __name__ == "__main__":`, which it needs. '
            "Typed in or read from a pipe there is no script: pass workers=1."
        ) from error
    except BaseException:  # also when the caller stops listening: nobody waits for what still runs
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(plain: dict[str, Any]) -> None:
    """Prepares a worker: reads the question, and ends the process when its parent is gone."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    _asked["question"] = Question.from_plain(plain)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer(place: Place) -> Outcome | Failure:
    return run_one(_asked["question"], place)


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
