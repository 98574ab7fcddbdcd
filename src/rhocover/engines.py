"""Executors for `explore`, `compare` and `audit`: processes of this machine, and a Ray cluster.

Anything with `submit(function, *args)` that returns a future is an executor (see `executors`), so none of
these is needed. `process` replaces workers that were killed, which `concurrent.futures` alone does not. `ray`
makes an executor of Ray Core's tasks; it needs the extra `ray`.

**What listens.** Processes talk to their parent through pipes. Ray talks over TCP, and on Linux its servers
listen on the address by which the machine is reached, not on loopback. So nothing here starts Ray unless it
is asked to with `address="local"`. That cluster takes commands only from those who know a token, which is
drawn anew and in a file that only the user can read; it has no dashboard and sends no usage statistics. The
token is not encrypted on its way: run clusters in networks that you trust.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError, RhocoverError, WorkerWarning, missing_extra
from rhocover.progress import silence_process

LOCAL = "local"  # the address that asks for a cluster of one's own
REPLACED = "a worker process was killed (perhaps out of memory). New workers continue."


class Engine:
    """An executor that is closed at the end of a `with` block."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Returns the future of `function(*args)`."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends what this engine started."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Processes.


def process(processes: int | None = None) -> Engine:
    """Returns an engine of this many processes of this machine, by default one per core.

    A script that uses it needs the usual `if __name__ == "__main__":`.

    >>> import rhocover as rc
    >>> with rc.engines.process(2) as engine:  # doctest: +SKIP
    ...     run = rc.explore(rc.envs.river_swim(), num_steps=64_000, workers=16, executor=engine)
    """
    number = (os.cpu_count() or 1) if processes is None else checks.integer(processes, "processes", least=1)
    return Processes(number)


class Processes(Engine):
    """Several processes; if one is killed, all are replaced, and what they were doing fails once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Returns the future of `function(*args)` in one of the processes."""
        with self._lock:
            try:
                return self._ready().submit(function, *args)
            except BrokenProcessPool:
                warnings.warn(REPLACED, WorkerWarning, stacklevel=4)
                self._end()
                return self._ready().submit(function, *args)

    def _ready(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.number, context, begin_process)
            with blocked_interrupts():  # processes start with the first call, and inherit this
                self._pool.submit(os.getpid)
        return self._pool

    def close(self) -> None:
        """Ends the processes; what they have not begun is cancelled."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def begin_process() -> None:
    """Prepares a worker: it prints nothing, ignores Ctrl-C, and exits when its parent is gone."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    silence_process()
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Blocks Ctrl-C; processes started meanwhile inherit this and never receive it."""
    if not hasattr(signal, "pthread_sigmask"):  # not available on every system
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Ray.


def ray(address: str | None = None) -> Engine:
    """Returns an engine of the Ray cluster at this address, such as "head:6379" or "ray://head:10001".

    None is the cluster that this process is connected to already. "local" starts one on this machine, with as
    many workers as there are cores, and `close` ends it. Nothing else is ever started. The workers need the
    same version of this package and of Python. A cluster with a token finds it as Ray says:
    RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH.
    """
    if address is not None and not isinstance(address, str):
        raise InvalidArgumentError.of("address", "must be text, such as head:6379", type(address).__name__)
    if address is None:
        return RayTasks(_connected())
    if getattr(sys.modules.get("ray"), "is_initialized", bool)():
        raise InvalidArgumentError.of(
            "address",
            "must be None: this process is connected to a Ray cluster already",
            repr(address),
            remedy="Leave it out to use that one, or call ray.shutdown() first.",
        )
    return _start_ray() if address == LOCAL else _connect(_import_ray(), address)


def _connected() -> Any:
    """Returns the package, if this process has connected to a cluster with it."""
    found = sys.modules.get("ray")  # not imported here: a later cluster of one's own reads settings first
    if found is None and not _is_installed():
        raise missing_extra("ray", "ray")
    if found is None or not found.is_initialized():
        raise InvalidArgumentError.of(
            "address",
            "is needed: this process is not connected to a Ray cluster",
            remedy='Pass the address of yours, or "local" to start one on this machine.',
        )
    return found


def _is_installed() -> bool:
    return "ray" not in sys.modules and find_spec("ray") is not None


def _import_ray() -> Any:
    try:
        return import_module("ray")
    except ImportError:
        raise missing_extra("ray", "ray") from None


def _connect(found: Any, address: str) -> Engine:
    try:
        found.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:  # whatever Ray raises: the cluster is not there, or the token is wrong
        raise InvalidArgumentError.of(
            "address", f"{address!r} cannot be reached: {type(error).__name__}: {error}",
            remedy='Start a cluster there with `ray start --head`, or pass "local".',
        ) from error  # fmt: skip
    return RayTasks(found, found.shutdown)


def _start_ray() -> Engine:
    """Returns an engine of a new cluster on this machine, which only this user can command."""
    if sys.modules.get("ray") is None and not _is_installed():
        raise missing_extra("ray", "ray")
    _check_mode()
    changed = ExitStack()  # what it changes in the environment is as before when it ends, or cannot start
    try:
        changed.enter_context(_settings())
        found = _import_ray()
        found.init(address=LOCAL, include_dashboard=False, log_to_driver=False, configure_logging=False)
    except BaseException:
        changed.close()
        raise
    changed.callback(found.shutdown)
    return RayTasks(found, changed.close)


def _check_mode() -> None:
    """Refuses to start Ray if it was loaded without tokens: it reads that setting once, when it is loaded."""
    is_ours = _token.cache_info().currsize > 0
    if sys.modules.get("ray") is not None and os.environ.get("RAY_AUTH_MODE") != "token" and not is_ours:
        raise InvalidArgumentError.of(
            "address",
            "cannot be local: Ray was imported before, and would let everybody in",
            remedy='Call rc.engines.ray("local") first, or set RAY_AUTH_MODE=token before the import.',
        )


@contextmanager
def _settings() -> Iterator[None]:
    """Sets what Ray and its processes read from the environment; restores it at the end."""
    wanted = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": None,  # it would be used instead of the file
        "RAY_AUTH_TOKEN_PATH": str(_token()),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@cache
def _token() -> Path:
    """Returns the file of this process's token: Ray reads it once, so all its clusters have the same."""
    folder = Path(tempfile.mkdtemp(prefix="rhocover-ray-"))  # only the user can enter it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_token(folder / "token")


def write_token(path: Path) -> Path:
    """Returns the path, after writing a new secret to it that only the user can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return path


def _apply(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


class RayTasks(Engine):
    """Ray Core's tasks as an executor; one that was lost with its node is run again by Ray."""

    def __init__(self, found: Any, end: Callable[[], None] | None = None) -> None:
        self._ray, self._end = found, end
        self._remote = found.remote(_apply)

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Returns the future of `function(*args)` somewhere in the cluster."""
        return RayFuture(self._ray, self._remote.remote(function, *args))

    def close(self) -> None:
        """Ends the cluster if this engine started it, or leaves the one that it connected to."""
        if self._end is not None:
            self._end()
            self._end = None


class RayFuture(Future[Any]):
    """The future of a Ray task. Errors of this library come as they were raised."""

    def __init__(self, found: Any, task: Any) -> None:
        super().__init__()
        self._ray, self._task = found, task
        task.future().add_done_callback(self._settle)

    def _settle(self, done: Future[Any]) -> None:
        error = done.exception()
        if not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(done.result())
            return
        cause = getattr(error, "cause", None)
        self.set_exception(cause if isinstance(cause, RhocoverError) else error)

    def cancel(self) -> bool:
        """Whether the task had not ended; it is not begun any more."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._ray.cancel(self._task, force=False)
        return is_cancelled
