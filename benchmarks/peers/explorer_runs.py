"""The runs behind the comparison of explorers: from systems and environments to coverage over time.

One trajectory is what `rc.compare` runs, and what it is measured by. Episodes, draws at a desk and rlberry's
agents are none: their visits of pairs are taken down at the same steps and judged by the same two numbers.
Everything finished is kept in a folder, so that an interrupted measurement goes on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import seeds
from benchmarks.peers.explorer_systems import (
    ENVIRONMENTS,
    HORIZON,
    KNOWN,
    OURS,
    SYSTEMS,
    UNKNOWN,
    System,
)
from rhocover.baselines.episodic import episodic_world
from rhocover.baselines.generative_sampling import generative_world
from rhocover.exploring.runs.result import grid_of_steps
from rhocover.files import write_atomically
from tools.bars import rlberry_yardstick

WORST, DIVERGENCE = "worst ratio", "divergence"
ORDERS = {WORST: float("inf"), DIVERGENCE: 2.0}  # of ours, for each criterion
PER_DECADE = 5
MODELS = {KNOWN: "known", UNKNOWN: "learned"}
STEPS_OF_A_DRAW = 2  # in a generative world: to the outcome, and back to the desk


@dataclass(frozen=True)
class Plan:
    """What is measured: how long, how often, where, and in which folder it is kept."""

    num_steps: int
    num_seeds: int
    environments: tuple[str, ...]
    folder: Path
    workers: int

    @property
    def marks(self) -> list[int]:
        """The steps at which coverage is taken down."""
        return grid_of_steps(self.num_steps, PER_DECADE)


Values = dict[str, np.ndarray]  # criterion: [seeds, marks], nan before every pair was visited


def coverage_over_time(plan: Plan, labels: Sequence[str]) -> dict[tuple[str, str], Values]:
    """Returns both criteria of each (environment, system) over time."""
    found = _trajectories(plan, labels)
    for environment in plan.environments:
        for label in labels:
            if SYSTEMS[label].play != "trajectory":
                found[environment, label] = _kept(plan, environment, label)
    return found


# One trajectory: rc.compare.


def _trajectories(plan: Plan, labels: Sequence[str]) -> dict[tuple[str, str], Values]:
    """Returns what compare says: ours at the order of each criterion, the others once."""
    found: dict[tuple[str, str], Values] = {}
    aimed = set(OURS.values()) | {"Algorithm 1 of the paper"}  # these go for the order that is asked
    for group, model in MODELS.items():
        here = [x for x in labels if SYSTEMS[x].play == "trajectory" and SYSTEMS[x].group == group]
        for name, members, orders in (
            ("aimed", [x for x in here if x in aimed], list(ORDERS.values())),
            ("cited", [x for x in here if x not in aimed], [ORDERS[DIVERGENCE]]),
        ):
            if members:
                comparison = rc.compare(
                    {x: ENVIRONMENTS[x]() for x in plan.environments},
                    {x: SYSTEMS[x].explorer for x in members},
                    rho=orders, num_steps=plan.num_steps, model=model, seeds=plan.num_seeds,
                    trace_points=PER_DECADE, workers=plan.workers, out=plan.folder / f"{group}-{name}",
                )  # fmt: skip
                found |= _read(comparison, members, orders)
    return found


def _read(comparison: rc.Comparison, members: Sequence[str], orders: list[float]) -> dict[Any, Values]:
    """Returns worst ratio and divergence of each, at the order that goes for it where there are two."""
    return {
        (env, x): {
            WORST: comparison.values(env, orders[0], x, "worst_ratio"),
            DIVERGENCE: comparison.values(env, orders[-1], x, "divergence"),
        }
        for env in comparison.envs
        for x in members
    }


# The others: visits taken down at the marks.


def _kept(plan: Plan, environment: str, label: str) -> Values:
    """Returns the runs of one system in one environment, from its file where it has one."""
    path = plan.folder / f"{environment}-{label}.json".replace(" ", "_")
    if not path.exists():
        play = partial(one_run, environment, label, plan.num_steps)
        runs = over(play, range(plan.num_seeds), plan.workers)
        write_atomically(path, json.dumps(runs).encode())
    runs = json.loads(path.read_text("utf-8"))
    return {name: np.array([run[name] for run in runs], float) for name in ORDERS}


def over(play: Any, numbers: range, workers: int) -> list[Any]:
    """Returns play(number) for each number; in this process where one worker is enough."""
    if workers == 1:
        return [play(number) for number in numbers]
    return seeds.over(play, [(number,) for number in numbers])


def one_run(environment: str, label: str, num_steps: int, seed: int) -> dict[str, list[float]]:
    """Returns both criteria of one run at the marks."""
    counts = PLAYS[SYSTEMS[label].play](environment, SYSTEMS[label], num_steps, seed)
    return {name: [criterion(name, row) for row in counts] for name in ORDERS}


def criterion(name: str, counts: np.ndarray) -> float:
    """Returns the worst ratio, or D_2, of visits of pairs under even weights; nan if a pair has none."""
    if counts.min() == 0:
        return float("nan")
    coverage, d = rc.Coverage(ORDERS[name], np.ones(counts.size)), counts / counts.sum()
    return coverage.worst_ratio(d) if name == WORST else coverage.divergence(d)


@dataclass
class Watched:
    """An explorer that does what another one does, and has its visits taken down at the marks."""

    inner: Any
    marks: list[int]
    pooled: Any  # a function of a state: the visits of pairs that are judged
    kept: list[np.ndarray] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # what else the library asks an explorer

    def init(self, belief: Any) -> Any:
        """Returns the other's state before the first step."""
        return self.inner.init(belief)

    def policy(self, state: Any) -> Any:
        """Returns the other's block."""
        return self.inner.policy(state)

    def update(self, state: Any, visits: Any) -> Any:
        """Returns the other's state after a block; visits are taken down when a mark was reached."""
        state = self.inner.update(state, visits)
        while len(self.kept) < len(self.marks) and state.num_steps >= self.marks[len(self.kept)]:
            self.kept.append(self.pooled(state))
        return state


def _episodes(environment: str, system: System, num_steps: int, seed: int) -> list[np.ndarray]:
    """Returns the visits of pairs, added up over the steps of episodes."""
    mdp = ENVIRONMENTS[environment]()
    num_steps -= num_steps % HORIZON
    marks = [min(mark, num_steps) for mark in grid_of_steps(num_steps, PER_DECADE)]

    def pooled(state: Any) -> np.ndarray:
        world = episodic_world(state.belief, "the comparison")
        return np.bincount(world.pair, weights=state.counts, minlength=world.num_pairs)

    watched = Watched(system.explorer, marks, pooled)
    start = 0 if mdp.start is None else None
    rc.explore(
        mdp, ORDERS[DIVERGENCE], num_steps, explorer=watched, model="learned", seed=seed, horizon=HORIZON,
        start=start, trace_points=1,
    )  # fmt: skip
    return watched.kept


def _desk(environment: str, system: System, num_steps: int, seed: int) -> list[np.ndarray]:
    """Returns how often each pair was drawn from, a draw taken for a step."""
    mdp = ENVIRONMENTS[environment]()
    world, marks = generative_world(mdp), grid_of_steps(num_steps, PER_DECADE)
    taken = [STEPS_OF_A_DRAW * mark for mark in marks]
    watched = Watched(system.explorer, taken, lambda state: state.counts[: mdp.num_pairs].copy())
    longer = taken[-1] + taken[-1] // 16 + STEPS_OF_A_DRAW  # the block that has the last mark in it ends
    rc.explore(
        world, system.explorer.rho, longer, system.explorer.weights(world), explorer=watched,
        model="learned", seed=seed, trace_points=1,
    )  # fmt: skip
    return watched.kept


def _rlberry(environment: str, system: System, num_steps: int, seed: int) -> list[np.ndarray]:
    """Returns the visits that rlberry's agent paid; the last mark is the end of its last episode."""
    chosen = system.explorer
    form, horizon = chosen[environment] if isinstance(chosen, dict) else chosen
    marks = grid_of_steps(num_steps, PER_DECADE)[:-1]
    mdp = ENVIRONMENTS[environment]()
    horizon = min(horizon, num_steps)
    counts = rlberry_yardstick.visits_over_time(mdp, num_steps, horizon, 100 + seed, form, marks)
    return [row.ravel() for row in counts]


PLAYS = {"episodes": _episodes, "desk": _desk, "rlberry": _rlberry}


def seconds_of(environment: str, label: str, num_steps: int) -> float:
    """Returns the processor time of one run, as a user would start it."""
    system = SYSTEMS[label]
    began = time.process_time()
    if system.play == "trajectory":
        mdp, model = ENVIRONMENTS[environment](), MODELS[system.group]
        rc.explore(mdp, ORDERS[WORST], num_steps, explorer=system.explorer, model=model, trace_points=1)
    else:
        PLAYS[system.play](environment, system, num_steps, 0)
    return time.process_time() - began


def cores() -> int:
    """Returns how many processes share the runs."""
    return min(2, os.cpu_count() or 1)
