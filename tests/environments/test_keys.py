"""Whatever a user's function returns, if it is hashable, is a state: in runs, data sets, top-ups and wrappers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.environments.encoding.base import repr_of
from tiers import tiered


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


class Word(enum.StrEnum):
    LEFT = "l"
    RIGHT = "r"


@dataclass(frozen=True)
class Cell:
    x: int


KEYS: dict[str, Any] = {
    "set": lambda o: frozenset({f"x{int(o[0] > -0.5)}", f"v{int(o[1] > 0)}"}),
    "enum": lambda o: Side.LEFT if o[0] < -0.5 else Side.RIGHT,
    "word": lambda o: Word.LEFT if o[0] < -0.5 else Word.RIGHT,
    "bytes": lambda o: bytes([int(o[0] < -0.5)]),
    "none": lambda o: None if o[0] < -0.5 else (1, None),
    "real": lambda o: np.float32(round(float(o[0]), 1)),
    "dataclass": lambda o: Cell(int(o[0] < -0.5)),
}


@pytest.mark.parametrize("kind", tiered(list(KEYS), short=["set"]))
def test_a_hashable_is_a_state_everywhere(kind, tmp_path) -> None:
    states, env = KEYS[kind], gym.make("MountainCar-v0")
    run = rc.explore(env, 2, 300, states=states, model="from_scratch")
    assert run.tally.num_states >= 2
    assert str(run)
    found = rc.collect(env, 2, 200, states=states, model="learned", out=tmp_path / "a")
    assert rc.audit(tmp_path / "a", states=states).counts.tolist() == found.audit.counts.tolist()
    added = rc.top_up(tmp_path / "a", env, 50, states=states, out=tmp_path / "b")
    assert added.after.num_steps == 250
    counted = rc.CoverageReward(env, states=states)
    counted.reset(seed=0)
    counted.step(0)
    assert rc.audit(counted.visits).num_steps == 1


def test_the_text_of_a_set_does_not_depend_on_the_process() -> None:
    assert repr_of((frozenset({"b", "a"}), 1)) == "({'a', 'b'}, 1)"
    assert repr_of((1,)) == repr((1,))
