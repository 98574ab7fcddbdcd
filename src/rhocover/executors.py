"""Work in other processes or on other machines, through an executor that the caller brings.

An executor is anything with `submit(function, *args)` that returns a future with `result` and
`add_done_callback`: those of `concurrent.futures`, loky's, `client.get_executor()` of Dask, `mpi4py.futures`.
What travels is a function of a module and plain arguments, such as a path and two row numbers, so that every
kind of transport can carry it, and a call can be repeated anywhere.

A call that fails is submitted again, at most three times; its value is that of the first call that returned,
so nothing is done twice. An error of this library is about the data, and another try would not change it. The
executor is the caller's: it is neither started nor shut down here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

from rhocover.errors import InvalidArgumentError, RhocoverError, WorkerError, shortened

MOST_RETRIES = 3  # of one call: what fails as often has a cause that another try does not remove


def check_executor(executor: Any) -> Any:
    """Returns the executor; raises if it has no `submit`."""
    if not callable(getattr(executor, "submit", None)):
        raise InvalidArgumentError.of(
            "executor",
            "must have a method submit(function, *args) that returns a future",
            type(executor).__name__,
            remedy="concurrent.futures.ProcessPoolExecutor() is one, client.get_executor() of Dask another.",
        )
    return executor


def run_calls(
    executor: Any, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> Iterator[tuple[int, Any]]:
    """Yields (k, function(*calls[k])) for every k, in the order in which they finish.

    `names[k]` says in an error what could not be done. If a call fails for good, or the caller stops, the
    calls that have not begun are cancelled.
    """
    finished: SimpleQueue[int] = SimpleQueue()
    waiting: dict[int, Any] = {}
    retries = dict.fromkeys(range(len(calls)), 0)
    try:
        for k in range(len(calls)):
            waiting[k] = _submitted(executor, function, calls[k], (names[k], retries[k]), k, finished)
        while waiting:
            k = finished.get()
            try:
                value = waiting.pop(k).result()
            except RhocoverError:
                raise
            except Exception as error:  # whatever a worker or its transport raises
                if retries[k] == MOST_RETRIES:
                    raise _failed(names[k], retries[k], error) from error
                retries[k] += 1
                waiting[k] = _submitted(executor, function, calls[k], (names[k], retries[k]), k, finished)
                continue
            yield k, value
    finally:
        for future in waiting.values():
            future.cancel()


def _submitted(
    executor: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    about: tuple[str, int],
    k: int,
    finished: SimpleQueue[int],
) -> Any:
    """Returns the future of a call, which puts k into `finished` when it is done, failed or cancelled."""
    try:
        future = executor.submit(function, *args)
    except Exception as error:  # a pool whose process was killed accepts nothing any more
        raise _failed(*about, error) from error
    future.add_done_callback(lambda _: finished.put(k))
    return future


def _failed(name: str, retries: int, error: Exception) -> WorkerError:
    times = f"{retries + 1} times" if retries else "once"
    cause = f"{type(error).__name__}: {shortened(error)}" if str(error) else type(error).__name__
    return WorkerError(f"{name} failed in the executor; it was tried {times}, the last time: {cause}.")
