"""One result of every class that shows itself, and some that are hard to show."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from read_pages import EVIL, evil_model, walked

import rhocover as rc
from rhocover.datasets import read_tally

RIVER = rc.envs.river_swim()
CAR = "MountainCar-v0"


@functools.cache
def collection() -> rc.Collection:
    out = Path(tempfile.mkdtemp(), "lake")
    return rc.collect(gym.make("FrozenLake-v1"), 2.0, 400, out=out)


@functools.cache
def car_run() -> rc.Run:
    bins = rc.Bins((6, 5), names=("position (m)", "velocity"))
    return rc.explore(gym.make(CAR), 2.0, 600, model="learned", states=bins)


RESULTS: dict[str, Callable[[], Any]] = {
    "MDP": lambda: RIVER,
    "Plan": lambda: rc.plan(RIVER, 2.0),
    "Tradeoff": lambda: rc.tradeoff(RIVER, 2.0, [0, 0, 0, 0, 0, 1], num_points=3),
    "Run": lambda: rc.explore(RIVER, 2.0, 3000),
    "Budget": lambda: rc.budget(RIVER, visits=10, policy=np.full((6, 2), 0.5)),
    "Tally": lambda: read_tally(walked(RIVER, 500)),
    "Audit": lambda: rc.audit(walked(RIVER, 2000)),
    "Collection": collection,
    "TopUp": lambda: rc.top_up(collection(), num_steps=100),
    "Comparison": lambda: rc.compare(
        "river_swim", ["feedback", "tracking"], num_steps=300, seeds=2, workers=1
    ),
    "EnvComparison": lambda: rc.compare(
        "FrozenLake-v1", ["feedback", "counts"], num_steps=60, seeds=2, workers=1
    ),
}
HARD: dict[str, Callable[[], Any]] = {  # results of the same classes that have no layout, no number, no end
    "a model without a layout": lambda: rc.envs.garnet(num_states=20),
    "a model of one state": lambda: rc.MDP([[[1.0]]]),
    "a plan that is not communicating": lambda: rc.plan(trap(), 2.0, restrict=True),
    "a model that is not communicating": lambda: trap(),
    "a plan of states": lambda: rc.plan(RIVER, 2.0, cover="states", subject_to=rc.at_most([[0, 1]] * 6, 0.7)),
    "a plan of transitions": lambda: rc.plan(rc.envs.garnet(num_states=20), 2.0, cover="transitions"),
    "a plan at rho = 0": lambda: rc.plan(RIVER, 0.0),
    "a plan of episodes": lambda: rc.plan(RIVER, 2.0, horizon=3, start=0, restrict=True),
    "an incomplete run": lambda: rc.explore(rc.envs.four_rooms(), 2.0, 100),
    "a run of one step": lambda: rc.explore(RIVER, np.inf, 1),
    "a run of episodes": lambda: rc.explore(RIVER, 2.0, 300, horizon=6, restrict=True),
    "a run that learned": lambda: rc.explore(RIVER, 2.0, 1000, model="learned"),
    "a run in bins": car_run,
    "an audit of bins": lambda: rc.audit(car_run().tally),
    "an audit without a best": lambda: rc.audit(walked(RIVER, 50), best=False),
    "a budget that is never reached": lambda: rc.budget(RIVER, visits=3, policy=np.tile([1.0, 0.0], (6, 1))),
    "hostile names": lambda: rc.explore(evil_model(), 2.0, 300),
    "a hostile model": evil_model,
    "a hostile tally": lambda: evil_tally(),
}  # fmt: skip


def trap() -> rc.MDP:
    """Returns a model whose last state is never left."""
    return rc.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]], name="trap")


def evil_tally() -> Any:
    found = read_tally(walked(RIVER, 300))
    names = tuple(f"{EVIL}{k}" for k in range(found.num_states))
    return replace(found, state_names=names, action_names=(EVIL, "b"), source=EVIL)


@functools.cache
def card(name: str) -> str:
    """Returns the card of a result by its name, made once."""
    return result(name)._repr_html_()


@functools.cache
def result(name: str) -> Any:
    """Returns a result by its name, made once."""
    return (RESULTS | HARD)[name]()
