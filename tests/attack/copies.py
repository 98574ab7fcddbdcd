"""Copies of this process that may be killed, hang, or take too much memory, without harm to the one that watches.

A copy has everything imported and compiled already, so that beginning one takes some hundredths of a second. It is
the leader of a session of its own: whatever it begins is found again, and ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_limit import MOST_MEMORY, limit_memory
from watched_place import Place

PATIENCE = 90  # seconds: nothing here takes two alone, but a machine may be busy
AFTERWARDS = 20  # seconds in which what a killed process began has to notice it


@dataclass(frozen=True)
class Ended:
    """How a copy ended: its exit code (-9: killed), and what its work returned, as JSON has it."""

    code: int
    value: Any
    is_hung: bool
    resident: int  # bytes, at most
    seconds: float
    left: tuple[int, ...]  # processes that it began and that did not end

    @property
    def is_killed(self) -> bool:
        return self.code == -signal.SIGKILL and not self.is_hung

    @property
    def wrong(self) -> str | None:
        """What is wrong whatever the work was; None if nothing is."""
        if self.is_hung:
            return f"hung: {self.value or 'no word'}"
        if self.resident > MOST_MEMORY:
            return f"took {self.resident >> 20} MB"
        return f"left processes behind: {len(self.left)}" if self.left else None


@dataclass(frozen=True)
class Running:
    """A copy that is at work; `end` waits for it."""

    pid: int
    reader: int
    began: float

    def end(self, *, kill_after: float | None = None, patience: float = PATIENCE) -> Ended:
        """Returns how it ended; it is killed after so many seconds, if told to."""
        with os.fdopen(self.reader, "rb", buffering=0) as pipe:
            said, is_late = _heard(pipe, patience if kill_after is None else kill_after)
        if is_late:
            os.kill(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        return Ended(
            os.waitstatus_to_exitcode(status), json.loads(said) if said else None, is_late and kill_after is None,
            usage.ru_maxrss << 10, time.monotonic() - self.began, _ended_with(self.pid),
        )  # fmt: skip


def begin_copy(work: Callable[[], Any], place: Place) -> Running:
    """Returns a copy of this process that has begun with the work."""
    reader, writer = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_the_copy(work, place, writer)
    os.close(writer)
    return Running(child, reader, began)


def in_a_copy(
    work: Callable[[], Any], place: Place, *, kill_after: float | None = None, patience: float = PATIENCE
) -> Ended:
    """Returns how a copy of this process ended that did the work; it is killed after so many seconds, if told to."""
    return begin_copy(work, place).end(kill_after=kill_after, patience=patience)


def _be_the_copy(work: Callable[[], Any], place: Place, writer: int) -> None:
    code = 1
    try:
        os.setsid()
        place.enter()
        tempfile.tempdir = None  # asks the surroundings again
        limit_memory()
        value = work()
        os.write(writer, json.dumps(value).encode())  # short enough for a pipe
        code = 0
    finally:
        os._exit(code)


def _heard(pipe: Any, seconds: float) -> tuple[bytes, bool]:
    """Returns what came through a pipe until its end, and whether the time was up before."""
    end, said = time.monotonic() + seconds, b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return said, True
        piece = pipe.read(1 << 16)
        if not piece:
            return said, False
        said += piece


def _ended_with(session: int) -> tuple[int, ...]:
    """Returns what is left of a session though its leader is gone; and ends that."""
    end = time.monotonic() + AFTERWARDS
    while (left := members(session)) and time.monotonic() < end:
        time.sleep(0.02)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return left


def members(session: int) -> tuple[int, ...]:
    """Returns the processes of a session that still run."""
    return tuple(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_in(pid, session))


def _is_in(pid: int, session: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(words[3]) == session and words[0] != "Z"
