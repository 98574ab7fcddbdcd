"""What the tests of interrupted runs share: cases, children that run them, and what a folder holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import rhocover as rc
from patience import PATIENCE

RIVER, INF = rc.envs.river_swim(), float("inf")
CASES = {
    "feedback": {"rho": 2.0, "num_steps": 400_000, "explorer": "feedback"},
    "feedback, worst case": {"rho": float("inf"), "num_steps": 60_000, "explorer": "feedback"},
    "algorithm1": {"rho": 2.0, "num_steps": 12_000, "explorer": "algorithm1", "schedule": "constant:100"},
    "tracking": {"rho": 1.0, "num_steps": 400_000, "explorer": "tracking", "num_chains": 4},
}
SHORT = {
    "rho": 2.0,
    "num_steps": 3000,
    "explorer": "algorithm1",
    "schedule": "constant:500",
    "trace_points": 2,
}
TINY = {"rho": 2.0, "num_steps": 1200, "explorer": "tracking", "trace_points": 1}

CHILD = """
import json, os, signal, sys, time
import rhocover as rc
from rhocover import files
from rhocover.exploring.runs import checkpoint
from rhocover.exploring.worlds import simulator

out, options = sys.argv[1], json.loads(sys.argv[2])
checkpoint.SECONDS, simulator.Simulator.batch_steps = options["seconds"], options["stretch"]
left = options["operations"]  # file operations until the end

def counted(real):
    def operation(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **named)
    return operation

def open_counted(path, flags, *more, **named):
    return (made if flags & os.O_CREAT else opened)(path, flags, *more, **named)

for name in ("fsync", "replace", "fdopen"):
    setattr(files.os, name, counted(getattr(os, name)))
opened, made = os.open, counted(os.open)
files.os.open = open_counted

def report(steps, num_steps):
    print(steps, flush=True)
    if steps >= options["until"]:
        while True:  # so that no child ends before it is stopped, however late that comes
            time.sleep(0.1)  # signal.pause() would miss a signal that comes just before it

options["run"]["rho"] = float(options["run"]["rho"])
print("ready", flush=True)
if os.path.exists(os.path.join(out, checkpoint.SETTINGS)):
    rc.resume(out, report=report)
else:
    rc.explore(rc.envs.river_swim(), **options["run"], out=out, report=report)
"""


def child(
    out: Path,
    case: dict,
    *,
    operations: int = -1,
    seconds: float = 0.0,
    stretch: int = 5000,
    until: float = INF,
):
    """Returns a process that explores or resumes in `out`; it says "ready", and then where it is.

    From step `until` on it waits for the signal that stops it.
    """
    run = case | {"rho": repr(case["rho"])}
    options = {
        "run": run, "operations": operations, "seconds": seconds, "stretch": stretch, "until": until
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(out), json.dumps(options)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen) -> str:
    """Waits for a child to end; returns what it wrote to stderr."""
    try:
        return process.communicate(timeout=PATIENCE)[1]
    finally:
        process.kill()


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir())


def temporary(out: Path) -> list[str]:
    return [name for name in names(out) if name.startswith(".")]


class StoppedError(Exception):
    """What a report raises to leave a run in the middle."""


def stopped_after(step: int):
    def report(steps, num_steps):
        if steps >= step:
            raise StoppedError

    return report
