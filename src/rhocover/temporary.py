"""Names for what is being written, and what a killed process leaves under them.

A file or a folder is put together as `.NAME.XXXXXXXX.tmp` beside its place, X one of 0-9 and a-f, and locked
as long as somebody works on it. What has such a name for a NAME of ours, is no link, and is locked by nobody
was left behind, and can be removed. Everything else that begins with a dot is somebody else's.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rhocover.locks import try_lock

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
