"""A process that kills copies of itself in the middle of collections, and what they leave behind.

    python interrupted_collections.py FOLDER CASE EVERY STEPS

collects whole once, then forks a copy for each moment of a list, which collects the same into a folder of
its own and is killed there: before its k-th file operation (one in EVERY), or before one of STEPS. Another copy goes on.
One line of JSON a moment: what was there after the kill, what went wrong afterwards, whether all is as in
the whole one. Forking spares the second that a new process needs to begin.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from toy_environments import CAR, Failing, contents, limited, nested_ring, place

import rhocover as rc
from rhocover.collecting import log, stepping

NUM_STEPS = 40
LEARNED = {"model": "learned"}
FILE_OPERATIONS = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir")  # and opening to write
CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "a ring": (lambda: Failing(limited(6)), LEARNED),
    "FrozenLake, known": (lambda: Failing(gym.make("FrozenLake-v1", max_episode_steps=15)), {}),
    "a car": (lambda: Failing(gym.make("MountainCar-v0", max_episode_steps=20)), {"states": CAR} | LEARNED),
    "a Dict": (lambda: Failing(nested_ring()), {"states": place} | LEARNED),
    "rings": (lambda: rings(AutoresetMode.NEXT_STEP), LEARNED),
    "rings, same step": (lambda: rings(AutoresetMode.SAME_STEP), LEARNED),
}


def rings(mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Failing(limited(6)), lambda: limited(6)], autoreset_mode=mode)


def settle() -> None:
    """Makes logs of many small parts, and no pages."""
    log.ROUND, log.SECONDS, stepping.BETWEEN = 16, 1e9, 9
    os.fsync = lambda handle: (
        None
    )  # a killed process leaves what it wrote to the system; a fallen one may not
    module = importlib.import_module("rhocover.collecting.collect")  # the package has a function of that name
    module.page_of_collection = lambda found: "a page"  # type: ignore[attr-defined]
    module.write_page = lambda page, path, overwrite: path.write_text(page)  # type: ignore[attr-defined]


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_at_operation(k: int) -> Callable[[], int]:
    """Has this process end before its k-th file operation; returns how to ask how many there were."""
    count = 0

    def counted(real: Callable) -> Callable:
        def operation(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == k:
                end()
            return real(*arguments, **named)

        return operation

    for name in FILE_OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    opened, made = os.open, counted(os.open)

    def open_counted(path: Any, flags: int, *more: Any, **named: Any) -> int:
        return (made if flags & os.O_CREAT else opened)(path, flags, *more, **named)

    os.open = open_counted  # type: ignore[assignment]
    return lambda: count


def end_at_step(env: Any, k: int) -> None:
    """Has this process end before the k-th step of an environment, or of the first copy of many."""
    failing = env.envs[0] if hasattr(env, "envs") else env
    real, count = failing.step, 0

    def step(action: Any) -> Any:
        nonlocal count
        count += 1
        if count == k:
            end()
        return real(action)

    failing.step = step


def forked(work: Callable[[], Any]) -> tuple[bool, Any]:
    """Returns (was it killed, what `work` returned) of a copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), json.loads(text) if text else None


def collect(case: str, out: Path, *, resume: bool, before: Callable[[Any], None] | None = None) -> str | None:
    make, settings = CASES[case]
    env = make()
    if before is not None:
        before(env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rc.collect(env, 2.0, NUM_STEPS, out=out, resume=resume, dataset_id="test/set-v0", **settings)
    return None


def trial(case: str, folder: Path, whole: dict[str, str], kind: str, k: int) -> dict[str, Any]:
    """Kills a collection at a moment and goes on with it; returns what happened."""
    out = folder / f"{kind}-{k}"

    def first() -> str | None:
        if kind == "step":
            return collect(case, out, resume=False, before=lambda env: end_at_step(env, k))
        return collect(case, out, resume=False, before=lambda env: [end_at_operation(k)][:0])

    killed, _ = forked(first)
    left = sorted(contents(out)) if out.exists() else None
    begun = (out / "manifest.json").exists()
    _, problem = forked(lambda: collect(case, out, resume=begun))
    now = contents(out)
    shutil.rmtree(out)
    return {
        "moment": f"{kind} {k}", "killed": killed, "left": left, "problem": problem, "same": now == whole,
        "extra": sorted(set(now) - set(whole)), "missing": sorted(set(whole) - set(now)),
    }  # fmt: skip


def main(folder: Path, case: str, every: int, steps: list[int]) -> None:
    settle()
    collect(case, folder / "whole", resume=False)
    whole = contents(folder / "whole")
    num_operations = forked(lambda: _operations(case, folder / "counted"))[1]
    moments = [("operation", k) for k in range(1, num_operations + 1, every)]
    moments += [("step", k) for k in steps]
    for kind, k in moments:
        print(json.dumps(trial(case, folder, whole, kind, k)), flush=True)


def _operations(case: str, out: Path) -> int:
    asked = end_at_operation(0)
    collect(case, out, resume=False)
    return asked()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
