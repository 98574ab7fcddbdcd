"""Wrote tests/formats/v2: collections of the second format, Parquet parts and a manifest, and what they hold.

    python tests/formats/make_v2.py FOLDER

The files in v2 stay as they are for good: later versions must read them. `lake` is finished, `left` was left
in the middle, `frames` has pictures and `rings` two environments of a vector.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from make_v1 import LeftError, digests, lake, leave

import rhocover as rc


class Frames(gym.Env):
    """Goes around five states, which it shows as pictures; an episode ends in one step of ten."""

    observation_space = spaces.Box(0, 255, (4, 6, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def _shown(self) -> np.ndarray:
        return np.full((4, 6, 3), 50 * self.state, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state = 0
        return self._shown(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.state = (self.state + int(action) + int(self.np_random.integers(2))) % 5
        return self._shown(), float(self.state), bool(self.np_random.random() < 0.1), False, {}


def corner(picture: np.ndarray) -> int:
    return int(picture[0, 0, 0])


def rings() -> Any:
    return gym.make_vec("FrozenLake-v1", num_envs=2, max_episode_steps=20)


def make(out: Path) -> dict[str, Any]:
    """Writes the collections; returns their numbers."""
    learned: Any = {"model": "learned", "seed": 5}
    found = {
        "lake": rc.collect(lake(), 2.0, 300, out=out / "lake", seed=5),
        "frames": rc.collect(Frames(), 2.0, 200, out=out / "frames", states=corner, **learned),
        "rings": rc.collect(rings(), 2.0, 200, out=out / "rings", **learned),
    }
    try:
        rc.collect(lake(), 2.0, 3000, out=out / "left", seed=5, report=leave)
        raise SystemExit("the collection was not left in the middle")
    except LeftError:
        pass
    for data in found.values():
        data.page.unlink()  # nothing reads a page but people
    return {
        name: {"digest": data.tally.digest(), "num_steps": data.num_steps} for name, data in found.items()
    }


def main(out: Path) -> None:
    if any(out.iterdir()) if out.is_dir() else False:
        raise SystemExit(f"{out} is not empty: the files of a version are written once")
    out.mkdir(parents=True, exist_ok=True)
    expected = make(out) | {"rhocover": rc.__version__}
    text = json.dumps(expected | {"files": digests(out)}, indent=1)
    (out / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
