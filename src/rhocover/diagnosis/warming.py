"""warm(): compiles the loops of the library ahead, so that nobody waits for the compiler later.

A loop is compiled for the types that it is called with. So loops are warmed by the calls that use them, on
worlds of a few states: small and large models, known and unknown ones, tables, positions and data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rhocover import envs
from rhocover.compiling import compiled_here
from rhocover.datasets import audit
from rhocover.environments.densities.neighbours import Neighbours
from rhocover.environments.encoding.hashes import SimHash
from rhocover.environments.encoding.nets import Net
from rhocover.environments.wrappers import CoverageReward
from rhocover.exploring import explore
from rhocover.planning import plan

RHO = 2.0
STEPS = 1_500  # enough for codes to be found and planned over


@dataclass(frozen=True)
class Warmed:
    """What was compiled: how many loops, in how many seconds; the rest was in the cache."""

    num_loops: int
    seconds: float

    def __str__(self) -> str:
        if not self.num_loops:
            return f"Every loop was compiled already: loading them took {self.seconds:.0f} s."
        return (
            f"{self.num_loops} loops were compiled in {self.seconds:.0f} s, and stored for later processes."
        )


def warm(report: Callable[[int, int], None] | None = None) -> Warmed:
    """Compiles what is not in the cache; `report(done, total)` is called after each kind of call."""
    began, before = time.perf_counter(), len(compiled_here())
    for done, call in enumerate(CALLS.values(), 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about worlds that are too small to say much
            call()
        if report is not None:
            report(done, len(CALLS))
    return Warmed(len(compiled_here()) - before, time.perf_counter() - began)


def _plans() -> None:
    river, grid = envs.river_swim(num_states=6), envs.grid_world(num_rows=20)
    for mdp in (river, grid):
        for rho in (RHO, np.inf):
            plan(mdp, rho=rho)
    plan(river, rho=RHO, horizon=8)
    plan(river, rho=RHO, method="frank_wolfe", tol=1e-2)


def _runs() -> None:
    river = envs.river_swim(num_states=6)
    for explorer in ("feedback", "algorithm1"):
        explore(river, rho=RHO, num_steps=500, explorer=explorer, seed=0)
    explore(river, rho=RHO, num_steps=500, explorer="rf_ucrl", horizon=8, seed=0)


def _unknown() -> None:
    river = envs.river_swim(num_states=6)
    explore(river, rho=RHO, num_steps=500, model="from_scratch", seed=0)
    run = explore(river, rho=RHO, num_steps=500, model="learned", seed=0)
    run.certificate(delta=0.05)
    run.evidence()


def _environments() -> None:
    import gymnasium as gym

    lake, car = gym.make("FrozenLake-v1"), gym.make("MountainCar-v0")
    explore(lake, rho=RHO, num_steps=500, seed=0)
    for states in (Net(), SimHash(8)):
        explore(car, rho=RHO, num_steps=STEPS, states=states, model="from_scratch", seed=0)
    learner = CoverageReward(car, rho=RHO, density=Neighbours(k=4))
    learner.reset(seed=0)
    for action in range(30):
        learner.step(action % 3)


def _data() -> None:
    step = np.arange(40)
    columns = {"s": step % 4, "a": step % 2, "s_next": (step + 1) % 4, "done": step % 10 == 9}
    audit(columns, rho=RHO)


CALLS: Mapping[str, Callable[[], None]] = {
    "plans": _plans, "runs": _runs, "unknown dynamics": _unknown, "data": _data,
    "environments": _environments,
}  # fmt: skip
