"""Commands on the frozen lake, the steps they read, and one that is stopped at its first report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from patience import PATIENCE

LAKE = "FrozenLake-v1"
COLLECT = f"collect {LAKE} --rho 2 --steps 1500"


def read(text: str) -> dict:
    return json.loads(text, parse_constant=pytest.fail)


def random_steps(num_steps: int = 3000) -> np.ndarray:
    """Returns s, a, s_next, done, cut of uniformly random steps on the frozen lake, `[T, 5]`."""
    env, rng, rows = gym.make(LAKE), np.random.default_rng(0), []
    state, _ = env.reset(seed=0)
    for _ in range(num_steps):
        action = int(rng.integers(4))
        after, _, ended, cut, _ = env.step(action)
        rows.append((state, action, after, int(ended), int(cut)))
        state = env.reset()[0] if ended or cut else after
    return np.array(rows)


def write_steps(
    path: str = "steps.csv", rows: np.ndarray | None = None, header: str = "s,a,s_next,terminated,truncated"
):
    np.savetxt(path, random_steps() if rows is None else rows, "%d", ",", header=header, comments="")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stopped_at_its_first_report(line: str, name: str) -> subprocess.CompletedProcess:
    """Returns the end of a command whose first report sends the signal of Ctrl-C."""
    code = (
        "import os, signal, sys\n"
        "from rhocover.cli import main\n"
        "from rhocover import collecting\n"
        f"original = collecting.{name}\n"
        "def stopping(*args, report, **given):\n"
        "    return original(*args, report=lambda *_: os.kill(os.getpid(), signal.SIGINT), **given)\n"
        f"collecting.{name} = stopping\n"
        "main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *line.split()]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
