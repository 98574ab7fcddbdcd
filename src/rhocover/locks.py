"""One process at a time in a folder, and always the same folder.

    with hold_folder("run") as folder:
        ...  # others are refused; whatever `files` writes below folder.path is checked first

The lock is on the folder itself, so nothing is written for it, and it ends with the process. What is held is
the folder that was found in the beginning: if its name leads to another one later, or nowhere, because
somebody moved or removed it, writing stops. A verb that is given a `Hold` for its `out` works under it, so
that a command holds a folder from what it clears to the last picture.

A process that was copied (fork) holds nothing: the folder stays with the one that took it.
"""

from __future__ import annotations

import errno
import os
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

from rhocover import checks
from rhocover.errors import CheckpointError, InvalidArgumentError, LockWarning

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}  # somebody else has the lock
NO_LOCKS = {  # what file systems answer that have none, network ones above all
    errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EBADF,
}  # fmt: skip
TRIES = 5  # to lock a folder whose name keeps leading to new ones; once is rare
BETWEEN = 0.05  # seconds between two looks at a folder that is waited for
_held: set[Hold] = set()  # by this process


class Location(os.PathLike[str]):
    """Where a folder or a file is, wherever the process goes, and how the caller named it."""

    def __init__(self, path: Path, typed: str, name: str) -> None:
        self.path, self._typed, self._name = path, typed, name

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def said(self) -> str:
        """The argument and the name, for messages."""
        return f"`{self._name}` {self.shown!r}"

    @property
    def shown(self) -> str:
        """The name for messages: as it was typed, if that still leads there."""
        try:
            return self._typed if Path(self._typed).absolute() == self.path else str(self.path)
        except OSError:  # the working directory is gone
            return str(self.path)

    __str__ = __fspath__


class Hold(Location):
    """A folder that is this process's own until `release`; a context manager, and a path."""

    def __init__(self, place: Location, handle: int | None) -> None:
        super().__init__(place.path, place._typed, place._name)
        self._handle, self._uses, self._is_copy = handle, 1, False
        self._identity = _identity(os.stat(self.path) if handle is None else os.fstat(handle))
        _held.add(self)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def again(self) -> Hold:
        """Returns the same hold for one more who will release it."""
        self._uses += 1
        return self

    def release(self) -> None:
        """Gives the folder free when all who hold it have."""
        self._uses -= 1
        if self._uses == 0:
            _held.discard(self)
            _unlock(self._handle)
            self._handle = None

    def check(self) -> None:
        """Refuses to go on if the name of the folder leads to another one, or nowhere."""
        if self._is_copy:
            raise CheckpointError(
                f"{self.said} is written by the process that this one is a copy of. Let that one go on."
            )
        is_there, is_same = self._look()
        if is_same:
            return
        now = "leads to another folder now" if is_there else "is gone"
        raise CheckpointError(
            f"{self.said} {now}: the folder that was written to was moved or deleted "
            "meanwhile. Nothing was written in its place. Move it back and go on, or begin anew."
        )

    def _look(self) -> tuple[bool, bool]:
        """Returns whether there is something of that name, and whether it is the folder that is held."""
        try:
            return True, _identity(os.stat(self.path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False, False

    def _leave(self) -> None:
        """Lets go of a folder in a copy of the process; closing does not unlock it for the first one."""
        self._is_copy = True
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _leave_all() -> None:
    for hold in tuple(_held):
        hold._leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def locate(place: Any, name: str = "out", what: str = "folder") -> Location:
    """Returns where a folder or a file is, from argument `name`; a location, or what is held, as it is."""
    if isinstance(place, Location):
        return place
    return Location(checks.absolute_place(place, name, what), os.fspath(place), name)


def hold_folder(place: Any, name: str = "out", *, patience: float = 0.0) -> Hold:
    """Returns the hold on a folder that is there; refuses one in use, after `patience` seconds.

    On a file system without locks there is a `LockWarning`, and nothing keeps others out.
    """
    if isinstance(place, Hold):
        return place.again()
    found, end = locate(place, name), time.monotonic() + patience
    for _ in range(TRIES):
        hold = Hold(found, _locked(found, end))
        if all(hold._look()):
            return hold
        hold.release()  # it was replaced between opening and locking
    raise CheckpointError(f"{found.said} is replaced again and again. Name another folder.")


def check_unused(place: Location) -> None:
    """Refuses a folder that another process holds."""
    if place.path.is_dir():
        hold_folder(place).release()


def holder_of(path: Path) -> Hold | None:
    """Returns the hold of this process on the nearest folder that a path is in."""
    holds = [hold for hold in tuple(_held) if path.is_relative_to(hold.path)]
    return max(holds, key=lambda hold: len(hold.path.parts), default=None)


def make_folder(folder: Path) -> None:
    """Makes a folder and those above it; one that this process holds is not made a second time."""
    hold = holder_of(folder.absolute())
    if hold is None:
        folder.mkdir(parents=True, exist_ok=True)
        return
    hold.check()
    below = folder.absolute().relative_to(hold.path).parts
    for depth in range(1, len(below) + 1):
        hold.path.joinpath(*below[:depth]).mkdir(exist_ok=True)


def try_lock(handle: int) -> bool | None:
    """Returns whether an open file could be locked; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        if error.errno in NO_LOCKS:
            return None
        raise
    return True


def _locked(place: Location, end: float) -> int | None:
    """Returns a handle of the folder, locked; None on a system that cannot."""
    if fcntl is None:
        return None
    handle = os.open(place.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while (is_ours := try_lock(handle)) is False and time.monotonic() < end:
            time.sleep(BETWEEN)
        if is_ours is False:
            raise InvalidArgumentError(f"{place.said} is in use by another process. Wait for it, or stop it.")
    except BaseException:
        os.close(handle)
        raise
    if is_ours is None:
        warnings.warn(
            f"{place.said} is on a file system without locks. The work goes on; see to it that no "
            "other process writes to the folder meanwhile.", LockWarning, stacklevel=4,
        )  # fmt: skip
    return handle


def _unlock(handle: int | None) -> None:
    """Gives a folder free, also where a process that C code forked still has its handle."""
    if handle is None:
        return
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError:  # there was no lock
        pass
    finally:
        os.close(handle)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
