"""A disk that breaks at its n-th operation: opening to write, writing, syncing, renaming, making, removing.

once   that operation fails (no space, an error of the device, no permission: in turn), the next ones do not
full   that operation fails for want of space, and so does every later one that needs some
death  the process is killed there, as if the plug had been pulled
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
NEED_NO_ROOM = ("unlink", "remove", "rmdir", "rename", "replace", "chmod")
OPERATIONS = (
    "fsync",
    "replace",
    "rename",
    "chmod",
    "mkdir",
    "unlink",
    "remove",
    "rmdir",
    "symlink",
    "link",
    "truncate",
)


class Disk:
    """Counts operations, and breaks at the n-th of them; 0 is never."""

    def __init__(self, n: int = 0, mode: str = "once") -> None:
        self.n, self.mode, self.count = n, mode, 0

    def touch(self, name: str, path: Any = None) -> None:
        """Takes one operation; as of the system, an error names a path that was given, and no handle."""
        self.count += 1
        is_now = self.count == self.n
        if is_now and self.mode == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        if is_now or (self.mode == "full" and 0 < self.n < self.count and name not in NEED_NO_ROOM):
            number = ERRORS[self.n % 3] if self.mode == "once" else errno.ENOSPC
            names = () if path is None or isinstance(path, int) else (os.fspath(path),)
            raise OSError(number, os.strerror(number), *names)


class Watched:
    """A file whose writes are operations of a disk."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: Any) -> Any:
        self._disk.touch("write")
        return self._file.write(data)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *details: Any) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextlib.contextmanager
def breaking(disk: Disk) -> Iterator[Disk]:
    """Has every file operation of this process go through the disk."""
    real = {name: getattr(os, name) for name in OPERATIONS}
    opened, in_io, fdopen, made = builtins.open, io.open, os.fdopen, os.open

    def watched(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            disk.touch(name, arguments[0])
            return real[name](*arguments, **named)

        return operation

    def open_watched(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+"):
            return opened(file, mode, *arguments, **named)
        disk.touch("open", file)
        return Watched(opened(file, mode, *arguments, **named), disk)

    def fdopen_watched(handle: int, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        file = fdopen(handle, mode, *arguments, **named)
        return Watched(file, disk) if set(mode) & set("wax+") else file

    def os_open_watched(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            disk.touch("open", path)
        return made(path, flags, *arguments, **named)

    for name in OPERATIONS:
        setattr(os, name, watched(name))
    builtins.open = io.open = open_watched  # type: ignore[assignment]
    os.fdopen, os.open = fdopen_watched, os_open_watched  # type: ignore[assignment]
    try:
        yield disk
    finally:
        for name in OPERATIONS:
            setattr(os, name, real[name])
        builtins.open, io.open = opened, in_io  # type: ignore[assignment]
        os.fdopen, os.open = fdopen, made  # type: ignore[assignment]
