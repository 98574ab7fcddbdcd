"""Everything that keeps its results in a folder, each as small as it can be, and what the tests ask of one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rhocover as rc

RIVER = rc.envs.river_swim(num_states=4)
RUN = {"rho": 2.0, "num_steps": 600, "explorer": "tracking", "trace_points": 1}
COMPARED = {"rho": 2.0, "num_steps": 60, "seeds": 3, "explorers": ["tracking"], "workers": 1}
COLLECTED = {"model": "learned", "dataset_id": "small/set-v0"}
STEPS = {"s": [0, 0, 4], "a": [0, 3, 3], "s_next": [4, 0, 4], "done": [False] * 3}


def lake() -> Any:
    return gym.make("FrozenLake-v1", max_episode_steps=15)


def explore(out: Any, report: Any = None, **more: Any) -> Any:
    return rc.explore(RIVER, **RUN | more, out=out, report=report)


def compare(out: Any, report: Any = None, **more: Any) -> Any:
    return rc.compare({"river": RIVER}, **COMPARED | more, out=out, report=report)


def collect(out: Any, report: Any = None, env: Any = None, **more: Any) -> Any:
    return rc.collect(env or lake(), 2.0, 60, out=out, report=report, **COLLECTED | more)


def top_up(out: Any, report: Any = None, env: Any = None, **more: Any) -> Any:
    return rc.top_up(STEPS, env or lake(), 60, out=out, report=report, dataset_id="small/more-v0", **more)


@dataclass(frozen=True)
class Writer:
    """A verb with a folder, how it goes on with one, and a file that it writes first."""

    call: Callable[..., Any]
    again: Callable[..., Any]
    first: str


WRITERS = {
    "explore": Writer(explore, lambda out, report=None: rc.resume(out, report=report), "run.safetensors"),
    "compare": Writer(compare, compare, "comparison.safetensors"),
    "collect": Writer(collect, lambda out, report=None: collect(out, report, resume=True), "manifest.json"),
    "top_up": Writer(top_up, lambda out, report=None: top_up(out, report, resume=True), "manifest.json"),
}


@pytest.fixture
def often(monkeypatch):
    """Has every verb write at each of its pauses."""
    from rhocover.collecting import log, stepping
    from rhocover.experiments import finished_runs
    from rhocover.exploring.runs import checkpoint
    from rhocover.exploring.worlds import simulator

    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(simulator.Simulator, "batch_steps", 100)
    monkeypatch.setattr(finished_runs, "SECONDS", 0.0)
    monkeypatch.setattr(log, "SECONDS", 0.0)
    monkeypatch.setattr(stepping, "BETWEEN", 9)


def contents(folder: Path) -> dict[str, bytes]:
    """Returns every file below a folder, links not followed."""
    places = (path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink())
    return {
        path.relative_to(folder).as_posix(): b"a link" if path.is_symlink() else path.read_bytes()
        for path in places
    }


@contextlib.contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Holds a folder as another process would."""
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        os.close(handle)


def make_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every operation that changes a disk fail as on one that is mounted to read only."""
    opened = os.open

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_to_read(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        return refuse() if flags & os.O_CREAT else opened(path, flags, *arguments, **named)

    for name in ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "chmod"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(os, "open", open_to_read)
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode, **named: not mode & os.W_OK and real(path, mode, **named)
    )
