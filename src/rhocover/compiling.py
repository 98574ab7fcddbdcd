"""Loops compiled by Numba, and the cache of compiled code for later processes.

Every compiled loop of the library is decorated with `compiled`. The cache saves time and is never needed:
whatever is wrong with its folder, the loops are compiled again and the results are the same. One
`CacheWarning` per process says so.

- If no folder can be written to, every process compiles for itself.
- A folder that other users can write to is not used: Numba stores pickles, and reading a pickle can run code.
- Each file contains a key, for what it was compiled, and a SHA-256: a file that is damaged or truncated, or
  that two processes wrote at once, is replaced.

Before the first loop of a process is compiled, whoever is watching is told that it takes a while, and the
bar of progress names each loop. `rhocover doctor --warm` compiles them ahead.

Numba chooses the folder: NUMBA_CACHE_DIR, else `__pycache__` next to the source, else the user's cache.

**Who can write to a folder** (`others_may_write`). Root can change everything, and so can the owner of the
root folder (inside a container root may have another number). Many systems give each user a group of the same
name without other members; such a group counts as the user. On systems without these permissions, no folder
counts as writable by others.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from rhocover import progress
from rhocover.errors import CacheWarning

# Who can write to a folder.

ROOT = 0  # the number of the root user, and of its group


def others_may_write(path: str | os.PathLike[str], *, trusted: int = ROOT) -> bool:
    """Whether another user can write to a path; the user with the number `trusted` does not count."""
    if not hasattr(os, "geteuid"):
        return False
    found = os.stat(path)
    if found.st_uid not in (os.geteuid(), ROOT, os.stat("/").st_uid, trusted):
        return True
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    return bool(by_group or found.st_mode & stat.S_IWOTH)


def others_may_replace(folder: str | os.PathLike[str]) -> bool:
    """Whether another user can replace files in a folder.

    In a folder like /tmp users can add files and folders, but remove only their own.
    """
    return others_may_write(folder) and not (
        os.stat(folder).st_mode & stat.S_ISVTX and os.stat(folder).st_uid in (os.geteuid(), ROOT)
    )


@cache
def _is_own_group(number: int) -> bool:
    """Whether a group has only this user, by its name and members, or is the root group."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid()).pw_name
    except (
        ImportError,
        KeyError,
    ):  # in containers, numbers may have no names
        return number == ROOT
    return not set(group.gr_mem) - {user} and (number == ROOT or group.gr_name == user)


# Compiled loops and their cache.

COUNTED = "NUMBA_NUM_THREADS"
NO_FOLDER = "no folder for compiled code can be written to"
COST = (
    "Every process compiles its loops again, which takes up to a minute; the results are the same. To cache "
    "compiled code, set NUMBA_CACHE_DIR=FOLDER to a folder that only you can write to"
)
FIRST = (
    "compiling loops for this processor: this can take a minute, later processes load what was compiled "
    "(rhocover doctor --warm does it ahead)"
)
DIGEST = hashlib.sha256().digest_size
_told = threading.Event()
_announced = threading.Event()
_compiled: list[str] = []  # in this process, by name


def tell(text: str) -> None:
    """Warns about the compiler's settings or cache."""
    warnings.warn(text, CacheWarning, stacklevel=3)


@contextmanager
def _sound_count() -> Iterator[None]:
    """Hides an invalid NUMBA_NUM_THREADS while Numba is imported, which would fail: no loop uses threads."""
    text = os.environ.get(COUNTED)
    if text is None or "numba" in sys.modules or (text.strip().isdecimal() and int(text) > 0):
        yield
        return
    tell(f"{COUNTED} must be a whole number above 0, got {text!r}. It is ignored.")
    del os.environ[COUNTED]
    try:
        yield
    finally:
        os.environ[COUNTED] = text


with _sound_count():
    from numba import njit
    from numba.core.caching import FunctionCache, IndexDataCacheFile
    from numba.core.dispatcher import Dispatcher


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Returns a function that is compiled on its first call, or loaded from the cache.

    Options are those of Numba's `njit`. With NUMBA_DISABLE_JIT=1 it is the plain function.
    """
    if function is None:
        return lambda given: compiled(given, **options)
    found = njit(**options)(function)
    if isinstance(found, Dispatcher):
        _keep(found, function)
    return found


def _keep(loop: Any, function: Callable[..., Any]) -> None:
    """Gives a loop a cache, if there is a folder that can be trusted."""
    try:
        kept = _Kept(function)
    except (RuntimeError, OSError):  # raised by Numba if it finds no folder, or the source file is gone
        return tell_once(NO_FOLDER)
    if _is_trusted(kept.cache_path, function.__code__.co_filename):
        loop._cache = kept
    else:
        tell_once(f"{kept.cache_path} is not used for compiled code, because other users can write to it")


def _is_trusted(folder: str, source: str) -> bool:
    """Whether only users who could change the source or the whole system can write to the folder."""
    beside = Path(source).parent
    if Path(folder).parent == beside:  # the owner of the folder of the source can change the source
        return not others_may_write(folder, trusted=beside.stat().st_uid)
    real = Path(folder).resolve()
    return not (others_may_write(real) or any(map(others_may_replace, real.parents)))


def tell_once(reason: str) -> None:
    """Warns once that compiled code is not cached; child processes do not warn again."""
    if not _told.is_set() and multiprocessing.parent_process() is None:
        _told.set()
        tell(f"{reason}. {COST}")


def compiled_here() -> tuple[str, ...]:
    """Returns the names of the loops that this process has compiled, because they were not in the cache."""
    return tuple(_compiled)


def _announce(name: str) -> None:
    """Says that a loop is about to be compiled; in child processes nobody is watching."""
    _compiled.append(name)
    if not _announced.is_set() and multiprocessing.parent_process() is None:
        _announced.set()
        progress.say(FIRST)
    progress.note(f"compiling {name}")


class _SealedFile(IndexDataCacheFile):
    """The files of one loop, each with a SHA-256 at its end, which Numba does not read."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """Returns the code compiled for the key; None if it is missing, or was compiled for another key."""
        found = super().load(key)
        return None if found is None or found[0] != key else found[1]

    def _dump(self, obj: Any) -> bytes:
        body = super()._dump(obj)
        return body + self._seal(body)

    def _load_index(self) -> Any:
        return {} if _is_foreign(self._index_path) else super()._load_index()

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        content = Path(path).read_bytes()
        if _is_foreign(path) or content[-DIGEST:] != self._seal(content[:-DIGEST]):
            raise ValueError(f"{path} is damaged")
        return super()._load_data(name)

    def _seal(self, body: bytes) -> bytes:
        """Returns the SHA-256 of the compiled code and of the stamp of its source."""
        return hashlib.sha256(repr(self._source_stamp).encode() + body).digest()


def _is_foreign(path: str) -> bool:
    """Whether a file exists that others can write to, although they cannot write to the folder."""
    return os.path.exists(path) and others_may_write(path)


class _Kept(FunctionCache):
    """The cache of one loop; errors in reading or writing it do not make the loop fail."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _SealedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns the compiled loop, or None, in which case it is compiled."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle may raise anything
            self._begin_anew()
            found = None
        if found is None:
            _announce(self._py_func.__name__)
        return found

    def _begin_anew(self) -> None:
        try:
            self.flush()
        except OSError as error:
            tell_once(f"{self.cache_path} cannot be written to ({error.strerror})")

    def save_overload(self, sig: Any, data: Any) -> None:
        """Writes the compiled loop, if that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            tell_once(f"{self.cache_path} cannot be written to ({error.strerror})")
