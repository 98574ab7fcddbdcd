"""One process at a time in a folder, and always the same folder.

    with hold_folder("run") as folder:
        ...  # others are refused; whatever `files` writes below folder.path is checked first

The lock is on the folder itself, so nothing is written for it, and it ends with the process. What is held is
the folder that was found in the beginning: if its name leads to another one later, or nowhere, because
somebody moved or removed it, writing stops. A verb that is given a `Hold` for its `out` works under it, so
that a command holds a folder from what it clears to the last picture.

A process that was copied (fork) holds nothing: the folder stays with the one that took it.

Names for what is being written, and what a killed process leaves under them.

A file or a folder is put together as `.NAME.XXXXXXXX.tmp` beside its place, X one of 0-9 and a-f, and
locked as long as somebody works on it. What has such a name for a NAME of ours, is no link, and is locked
by nobody was left behind, and can be removed. Everything else that begins with a dot is somebody else's.
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

    def saying(self, text: str) -> Text:
        """Returns a message: the argument, the name, and what is said of it."""
        return Argument(self._name), f" {self.shown!r} {text}"

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

    def __exit__(self, *error: object) -> None:
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
            copied = "is written by the process that this one is a copy of. Let that one go on."
            raise CheckpointError(self.saying(copied))
        is_there, is_same = self._look()
        if is_same:
            return
        now = "leads to another folder now" if is_there else "is gone"
        raise CheckpointError(
            self.saying(
                f"{now}: the folder that was written to was moved or deleted meanwhile. Nothing was written "
                "in its place. Move it back and go on, or begin anew."
            )
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
    raise CheckpointError(found.saying("is replaced again and again. Name another folder."))


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
            raise InvalidArgumentError.of(
                place._name,
                f"{place.shown!r} is in use by another process",
                remedy="Wait for it, or stop it.",
            )
    except BaseException:
        os.close(handle)
        raise
    if is_ours is None:
        warnings.warn(
            f"`{place._name}` {place.shown!r} is on a file system without locks. The work goes on; see to it "
            "that no other process writes to the folder meanwhile.", LockWarning, stacklevel=4,
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


# Names for what is being written, and what a killed process leaves under them.

LONGEST = 40  # letters of NAME that are kept: names end at 255 bytes, and a letter has up to four
PATTERN = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

IsOurs = Callable[[str], bool]  # of a NAME, cut after LONGEST letters


def temporary_path(path: Path) -> Path:
    """Returns a name beside `path` under which it can be put together."""
    return path.with_name(f".{path.name[:LONGEST]}.{secrets.token_hex(4)}.tmp")


def written_name(name: str) -> str | None:
    """Returns the NAME of something that was being written, cut; None for any other name."""
    found = PATTERN.fullmatch(name)
    return found["name"] if found else None


def is_temporary_of(name: str, is_ours: IsOurs) -> bool:
    """Whether a name is that of something of ours that was being written."""
    written = written_name(name)
    return written is not None and is_ours(written)


def is_called(path: Path) -> IsOurs:
    """Returns whether NAME is that of one path."""
    return lambda name: name == path.name[:LONGEST]


@contextmanager
def temporary_file(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yields (place, file) of a new file beside `path`, locked; removes it if what follows fails.

    Its permissions are those that the system gives to new files: nothing of the process is changed for it.
    """
    place = temporary_path(path)
    try:
        with _opened(_locked_file(place)) as file:
            yield place, file
    except BaseException:
        with suppress(OSError):  # what went wrong before is what matters
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
    """Yields a new folder beside `path`, locked; removes it in the end if it is still there."""
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
    """Whether a file has a name that an interrupted write of ours leaves; links and folders never do."""
    return is_temporary_of(path.name, is_ours) and _kind(path) == stat.S_IFREG


def is_left_folder(path: Path, is_ours: IsOurs, is_inside: Callable[[str], bool] = lambda name: True) -> bool:
    """Whether a folder has such a name, and no link and no file in it but those that `is_inside` knows.

    `is_inside` is told the names of files relative to the folder, with slashes.
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
            with suppress(OSError):  # one that cannot be removed does no harm
                path.unlink()


def remove_left_folders(
    folder: Path, is_ours: IsOurs, is_inside: Callable[[str], bool] = lambda name: True
) -> None:
    """Removes the folders that killed processes were putting together in a folder."""
    for path in _entries(folder):
        if is_left_folder(path, is_ours, is_inside) and _is_unused(path):
            shutil.rmtree(path, ignore_errors=True)


def _entries(folder: Path) -> list[Path]:
    """Returns what is in a folder under a temporary name; nothing of one that cannot be read."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if written_name(name) is not None]
    except OSError:
        return []


def _kind(path: Path) -> int:
    """Returns what a path is, a link as such; 0 if it is gone."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return 0


def _is_unused(path: Path) -> bool:
    """Whether nobody works on a file or a folder; where there are no locks that is never known."""
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
