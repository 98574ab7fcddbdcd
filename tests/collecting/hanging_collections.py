"""A process that collects in an environment which hangs in one of its steps, and says when it does.

python hanging_collections.py OUT HOW
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.vector import SyncVectorEnv
from toy_environments import limited

import rhocover as rc
from patience import PATIENCE

NUM_STEPS, AT = 60, 20


def sleep() -> None:
    time.sleep(PATIENCE)


def spin() -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pass


def compute() -> None:
    """Stays in C code, which lets other threads run and never looks for signals."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)


def swallow() -> None:
    """Catches every exception and goes on waiting."""
    while True:
        try:
            time.sleep(PATIENCE)
        except Exception:
            continue


HANGS = {"sleep": sleep, "spin": spin, "compute": compute, "swallow": swallow}


class Hanging(gym.Wrapper):
    """Hangs in its step number `AT`, or in the first reset after so many; says so first."""

    def __init__(self, env: gym.Env, how: str, *, in_reset: bool = False) -> None:
        super().__init__(env)
        self.how, self.in_reset, self.num_steps = how, in_reset, 0

    def hang(self) -> None:
        print("hanging", flush=True)
        HANGS[self.how]()

    def reset(self, **named: Any) -> Any:
        if self.in_reset and self.num_steps >= AT:
            self.hang()
        return self.env.reset(**named)

    def step(self, action: Any) -> Any:
        self.num_steps += 1
        if not self.in_reset and self.num_steps == AT:
            self.hang()
        return self.env.step(action)


def hanging(how: str) -> Any:
    """Returns the environment that a name says: how it hangs, in a reset, in a copy of many, in `states`."""
    how, _, where = how.partition(" in ")
    if where == "a copy":
        return SyncVectorEnv([lambda: limited(6), lambda: Hanging(limited(6), how)])
    return Hanging(limited(6), how, in_reset=where == "a reset")


def collect(env: Any, out: Path | str, **more: Any) -> Any:
    return rc.collect(env, 2.0, NUM_STEPS, out=out, dataset_id="test/set-v0", model="learned", **more)


if __name__ == "__main__":
    try:
        collect(hanging(sys.argv[2]), sys.argv[1])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(3)
