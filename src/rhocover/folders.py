"""Locks on folders, so that one process at a time writes to them, and temporary files in them.

    with hold_folder("run") as folder:
        ...  # other processes are refused; writing below folder.path (see `files`) checks the lock

The lock is on the folder itself, so it needs no file, and it ends with the process. It is on the folder that
was found in the beginning: if its name later leads to another folder, or to none, because the folder was
moved or removed, writing stops. A function that is given a `Hold` as its `out` uses that lock, so that a
command can hold a folder from the first file to the last. A forked copy of a process does not have its locks.

**Temporary names.** A file or folder is written as `.NAME.XXXXXXXX.tmp` next to its final place, where X is
one of 0-9 and a-f, and is locked while it is being written. If something has such a name, for a NAME of this
library, is not a link and is not locked, then a killed process left it, and it can be removed. Other names
that begin with a dot are not touched.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rhocover import checks
from rhocover.errors import Argument, CheckpointError, InvalidArgumentError, LockWarning, Text

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}  # another process has the lock
NO_LOCKS = {  # errors of file systems without locks, mostly network ones
    errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.EBADF,
}  # fmt: skip
TRIES = 5  # to lock a folder that is being replaced; even one replacement is rare
BETWEEN = 0.05  # seconds between two attempts to lock a folder
_held: set[Hold] = set()  # by this process


class Location(os.PathLike[str]):
    """The absolute path of a folder or file, and the name that the caller gave."""

    def __init__(self, path: Path, typed: str, name: str) -> None:
        self.path, self._typed, self._name = path, typed, name

    def __fspath__(self) -> str:
        return str(self.path)

    def saying(self, text: str) -> Text:
        """Returns a message: the argument, the name, and the text."""
        return Argument(self._name), f" {self.shown!r} {text}"

    @property
    def shown(self) -> str:
        """The name for messages: as the caller gave it, if it still leads there."""
        try:
            return self._typed if Path(self._typed).absolute() == self.path else str(self.path)
        except OSError:  # the working directory is gone
            return str(self.path)

    __str__ = __fspath__


class Hold(Location):
    """A folder that this process has locked until `release`; a context manager, and a path."""

    def __init__(self, place: Location, handle: int | None) -> None:
        super().__init__(place.path, place._typed, place._name)
        self._handle, self._uses, self._is_copy = handle, 1, False
        self._identity = _identity(os.stat(self.path) if handle is None else os.fstat(handle))
        _held.add(self)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def again(self) -> Hold:
        """Returns the same lock for one more user, who must release it, too."""
        self._uses += 1
        return self

    def release(self) -> None:
        """Unlocks the folder when all its users have released it."""
        self._uses -= 1
        if self._uses == 0:
            _held.discard(self)
            _unlock(self._handle)
            self._handle = None

    def check(self) -> None:
        """Raises if the name of the folder leads to another folder, or to none."""
        if self._is_copy:
            copied = "is locked by the process that this one was forked from. Write from that process."
            raise CheckpointError(self.saying(copied))
        is_there, is_same = self._look()
        if is_same:
            return
        now = "leads to another folder now" if is_there else "is gone"
        raise CheckpointError(
            self.saying(
                f"{now}: the folder that was written to was moved or deleted meanwhile. Nothing was written "
                "to a new one. Move it back and resume, or start again."
            )
        )

    def _look(self) -> tuple[bool, bool]:
        """Returns whether the name leads to something, and whether that is the locked folder."""
        try:
            return True, _identity(os.stat(self.path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False, False

    def _leave(self) -> None:
        """Closes the handle in a forked process; this does not unlock the folder for the first one."""
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
    """Returns the location of a folder or file from argument `name`; a `Location` or `Hold` is returned."""
    if isinstance(place, Location):
        return place
    return Location(checks.absolute_place(place, name, what), os.fspath(place), name)


def hold_folder(place: Any, name: str = "out", *, patience: float = 0.0) -> Hold:
    """Returns the lock on an existing folder; refuses one that is still in use after `patience` seconds.

    On a file system without locks there is a `LockWarning`, and other processes are not kept out.
    """
    if isinstance(place, Hold):
        return place.again()
    found, end = locate(place, name), time.monotonic() + patience
    for _ in range(TRIES):
        hold = Hold(found, _locked(found, end))
        if all(hold._look()):
            return hold
        hold.release()  # it was replaced between opening and locking
    raise CheckpointError(found.saying("is being replaced repeatedly. Name another folder."))


def check_unused(place: Location) -> None:
    """Refuses a folder that another process has locked."""
    if place.path.is_dir():
        hold_folder(place).release()


def holder_of(path: Path) -> Hold | None:
    """Returns the lock of this process on the innermost folder that contains a path."""
    holds = [hold for hold in tuple(_held) if path.is_relative_to(hold.path)]
    return max(holds, key=lambda hold: len(hold.path.parts), default=None)


def make_folder(folder: Path) -> None:
    """Makes a folder and its parents; one that this process has locked is not made again."""
    hold = holder_of(folder.absolute())
    if hold is None:
        folder.mkdir(parents=True, exist_ok=True)
        return
    hold.check()
    below = folder.absolute().relative_to(hold.path).parts
    for depth in range(1, len(below) + 1):
        hold.path.joinpath(*below[:depth]).mkdir(exist_ok=True)


def try_lock(handle: int) -> bool | None:
    """Returns whether an open file could be locked; None on systems without locks."""
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
    """Returns a handle of the folder, locked; None on a system without locks."""
    if fcntl is None:
        return None
    handle = os.open(place.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while (is_ours := try_lock(handle)) is False and time.monotonic() < end:
            time.sleep(BETWEEN)
        if is_ours is False:
            raise InvalidArgumentError.of(
                place._name,
                f"{place.shown!r} is in use by another process",
                remedy="Wait for it to end, or stop it.",
            )
    except BaseException:
        os.close(handle)
        raise
    if is_ours is None:
        warnings.warn(
            f"`{place._name}` {place.shown!r} is on a file system without locks. The call continues; make "
            "sure that no other process writes to the folder meanwhile.", LockWarning, stacklevel=4,
        )  # fmt: skip
    return handle


def _unlock(handle: int | None) -> None:
    """Unlocks a folder, even if a process that was forked by C code still has its handle."""
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


# Temporary names.

LONGEST = 40  # characters of NAME that are kept: names have up to 255 bytes, characters up to four
PATTERN = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

IsOurs = Callable[[str], bool]  # of a NAME, cut after LONGEST characters


def temporary_path(path: Path) -> Path:
    """Returns a temporary name next to `path`."""
    return path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(4)}.tmp")


def written_name(name: str) -> str | None:
    """Returns the NAME, cut, in a temporary name; None for any other name."""
    found = PATTERN.fullmatch(name)
    return found["name"] if found else None


def is_temporary_of(name: str, is_ours: IsOurs) -> bool:
    """Whether a name is the temporary name of a file of this library."""
    written = written_name(name)
    return written is not None and is_ours(written)


def is_called(path: Path) -> IsOurs:
    """Returns a function that tells whether NAME is that of `path`."""
    return lambda name: name == path.name[:LONGEST]


@contextmanager
def temporary_file(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yields (place, file) of a new, locked file next to `path`; removes it if the body fails.

    It has the system's permissions for new files; no setting of the process is changed.
    """
    place = temporary_path(path)
    try:
        with _opened(_locked_file(place)) as file:
            yield place, file
    except BaseException:
        with suppress(OSError):  # the first error matters
            place.unlink()
        raise


def _locked_file(place: Path) -> int:
    """Returns a handle of a new file, locked."""
    handle = os.open(place, NEW, 0o666)
    try:
        if try_lock(handle) is False or os.fstat(handle).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "removed by another process", str(place))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _opened(handle: int) -> IO[bytes]:
    try:
        return os.fdopen(handle, "wb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yields a new, locked folder next to `path`; removes it at the end if it is still there."""
    place = temporary_path(path)
    place.mkdir()
    handle = -1
    try:
        with suppress(OSError):  # folders cannot be opened on every system
            handle = os.open(place, os.O_RDONLY)
            try_lock(handle)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def is_left(path: Path, is_ours: IsOurs) -> bool:
    """Whether a path is a file with a temporary name of this library; not a link or a folder."""
    return is_temporary_of(path.name, is_ours) and _kind(path) == stat.S_IFREG


def is_left_folder(path: Path, is_ours: IsOurs, is_inside: Callable[[str], bool] = lambda name: True) -> bool:
    """Whether a folder has such a name, and contains no links and no files except those of `is_inside`.

    `is_inside` gets the names of files relative to the folder, with slashes.
    """
    if not is_temporary_of(path.name, is_ours) or _kind(path) != stat.S_IFDIR:
        return False
    for place, folders, names in os.walk(path):
        if any(_kind(Path(place, name)) != stat.S_IFDIR for name in folders):
            return False
        for found in (Path(place, name) for name in names):
            if _kind(found) != stat.S_IFREG or not is_inside(found.relative_to(path).as_posix()):
                return False
    return True


def remove_left(folder: Path, is_ours: IsOurs) -> None:
    """Removes the files that killed processes were writing in a folder."""
    for path in _entries(folder):
        if is_left(path, is_ours) and _is_unused(path):
            with suppress(OSError):  # a file that cannot be removed does no harm
                path.unlink()


def remove_left_folders(
    folder: Path, is_ours: IsOurs, is_inside: Callable[[str], bool] = lambda name: True
) -> None:
    """Removes the folders that killed processes were writing in a folder."""
    for path in _entries(folder):
        if is_left_folder(path, is_ours, is_inside) and _is_unused(path):
            shutil.rmtree(path, ignore_errors=True)


def _entries(folder: Path) -> list[Path]:
    """Returns the paths in a folder with a temporary name; none if it cannot be read."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if written_name(name) is not None]
    except OSError:
        return []


def _kind(path: Path) -> int:
    """Returns the file type of a path, without following links; 0 if it is gone."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return 0


def _is_unused(path: Path) -> bool:
    """Whether no process has locked a file or folder; False if there are no locks."""
    try:
        handle = os.open(path, LOOK)
    except OSError:
        return False
    try:
        return try_lock(handle) is True
    except OSError:
        return False
    finally:
        os.close(handle)
