"""Loops compiled by Numba, and the folder that keeps the machine code for the next process.

`compiled` stands above every loop of the library. Keeping what was compiled saves time and is never needed:
whatever is wrong with the folder, the loops are compiled anew and the results are the same. One
`CacheWarning` in a process says so.

- Where no folder can be written to, every process compiles for itself.
- A folder that other users can write to is not used: Numba keeps pickles, and reading one runs what it says.
- Each file carries what it was compiled for and a SHA-256: one that is damaged, that was cut short, or that
  two processes wrote at once, is replaced.

Numba chooses the folder: NUMBA_CACHE_DIR, else `__pycache__` beside the source, else the user's cache.

Who besides this user can change a file or a folder.

The system's own user can change everything, and so can whoever owns the root folder (inside a container
the system's user may have another number). Many systems give each user a group of the same name with
nobody else in it; such a group is the user. Where the system knows no such rights, nothing is said to be
open to others.
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

from rhocover.errors import CacheWarning

# Who besides this user can change a file or a folder.

ROOT = 0  # the number of the system's own user, and of its group


def others_may_write(path: str | os.PathLike[str], *, trusted: int = ROOT) -> bool:
    """Whether another user can put something there; the user of number `trusted` is none."""
    if not hasattr(os, "geteuid"):
        return False
    found = os.stat(path)
    if found.st_uid not in (os.geteuid(), ROOT, os.stat("/").st_uid, trusted):
        return True
    by_group = found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid)
    return bool(by_group or found.st_mode & stat.S_IWOTH)


def others_may_replace(folder: str | os.PathLike[str]) -> bool:
    """Whether another user can put something else in the place of what is in a folder.

    In a folder like /tmp they can add files and folders, but take away only their own.
    """
    return others_may_write(folder) and not (
        os.stat(folder).st_mode & stat.S_ISVTX and os.stat(folder).st_uid in (os.geteuid(), ROOT)
    )


@cache
def _is_own_group(number: int) -> bool:
    """Whether a group is this user's alone, by its name and members; or that of the system's own user."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid()).pw_name
    except (
        ImportError,
        KeyError,
    ):  # containers have numbers without names
        return number == ROOT
    return not set(group.gr_mem) - {user} and (number == ROOT or group.gr_name == user)


# Loops compiled by Numba, and the folder that keeps the machine code for the next process.

COUNTED = "NUMBA_NUM_THREADS"
NO_FOLDER = "there is no folder for compiled code that can be written to"
COST = (
    "Every process compiles its loops anew, which takes up to a minute; the results are the same. To keep "
    "what is compiled, name a folder that is yours alone: NUMBA_CACHE_DIR=FOLDER"
)
DIGEST = hashlib.sha256().digest_size
_told = threading.Event()


def tell(text: str) -> None:
    """Warns about what surrounds the compiler."""
    warnings.warn(text, CacheWarning, stacklevel=3)


@contextmanager
def _sound_count() -> Iterator[None]:
    """Hides a number of threads that Numba would fail at while it is loaded: no loop here uses several."""
    text = os.environ.get(COUNTED)
    if text is None or "numba" in sys.modules or (text.strip().isdecimal() and int(text) > 0):
        yield
        return
    tell(f"{COUNTED} must be a whole number above 0, got {text!r}: it is left out.")
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
    """Returns a function compiled on its first call, or taken from the folder where it was compiled before.

    Options are those of Numba's `njit`. With NUMBA_DISABLE_JIT=1 it is the plain function.
    """
    if function is None:
        return lambda given: compiled(given, **options)
    found = njit(**options)(function)
    if isinstance(found, Dispatcher):
        _keep(found, function)
    return found


def _keep(loop: Any, function: Callable[..., Any]) -> None:
    """Gives a loop its place in the folder for compiled code, where there is one to be trusted."""
    try:
        kept = _Kept(function)
    except (RuntimeError, OSError):  # Numba's, where it finds no folder; the file of the source is gone
        return tell_once(NO_FOLDER)
    if _is_trusted(kept.cache_path, function.__code__.co_filename):
        loop._cache = kept
    else:
        tell_once(f"{kept.cache_path} is not used for compiled code, because other users can write to it")


def _is_trusted(folder: str, source: str) -> bool:
    """Whether only those can write to the folder who can change the source itself, or the whole system."""
    beside = Path(source).parent
    if Path(folder).parent == beside:  # whoever owns the folder of the source can change the source
        return not others_may_write(folder, trusted=beside.stat().st_uid)
    real = Path(folder).resolve()
    return not (others_may_write(real) or any(map(others_may_replace, real.parents)))


def tell_once(reason: str) -> None:
    """Warns that compiled code is not kept; once, and not again in the processes that this one starts."""
    if not _told.is_set() and multiprocessing.parent_process() is None:
        _told.set()
        tell(f"{reason}. {COST}")


class _SealedFile(IndexDataCacheFile):
    """The files of one loop, each with a SHA-256 behind it that Numba, reading from the front, never sees."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """Returns what was compiled for the key; None if it is missing, or was compiled for another."""
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
        """Returns the SHA-256 of what was compiled and of the source that it was compiled from."""
        return hashlib.sha256(repr(self._source_stamp).encode() + body).digest()


def _is_foreign(path: str) -> bool:
    """Whether a file is there that others may have written, from before the folder was closed to them."""
    return os.path.exists(path) and others_may_write(path)


class _Kept(FunctionCache):
    """What was compiled of one loop, in files; failing to read or to write them is no failure of the loop."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _SealedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Returns the compiled loop, or None: it is compiled then."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged pickle raises whatever its bytes happen to say
            self._begin_anew()
            return None

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
