"""explore() in an environment: the same explorers, one real step at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from rhocover.checks import IntArray
from rhocover.collecting.atlas import Map
from rhocover.collecting.environment_run import judged_run
from rhocover.collecting.expedition import FROM_TABLE, Expedition, read_expedition
from rhocover.collecting.naming import Naming
from rhocover.collecting.records import Recorder
from rhocover.collecting.single import SingleWorld
from rhocover.collecting.tallied_run import TalliedRun, true_tally, wired_tally
from rhocover.collecting.trail import Trail
from rhocover.collecting.vector import VectorWorld
from rhocover.errors import Call, InvalidArgumentError
from rhocover.exploring.loop import finished, keep_going
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Runner, begin
from rhocover.exploring.trace import grid_of_steps, measure
from rhocover.linalg.normal_equations import one_blas_thread

Report = Callable[[int, int], None]


class Snapshots:
    """Counts at the steps of the trace: where no model is known they are judged when the run is over."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, IntArray]] = []

    def __call__(self, counts: IntArray, num_steps: int) -> list[float]:
        """Returns a row that holds the step alone."""
        self.taken.append((num_steps, counts.copy()))
        return [float(num_steps)]


def explore_environment(
    world: Any, rho: Any, num_steps: Any, mu: Any = None, *, explorer: Any, model: Any, schedule: Any,
    seed: Any, start: Any, discount: Any, horizon: Any, restrict: Any, num_chains: Any, until: Any,
    trace_points: Any, out: Any, report: Report | None, states: Any, actions: Any, step_timeout: Any,
) -> Run:  # fmt: skip
    """Returns the run of an explorer in a Gymnasium environment; see `rhocover.explore`."""
    _refuse_what_is_the_environments(start, discount, horizon, restrict, num_chains, out)
    trip = read_expedition(
        world, rho, num_steps, mu, explorer=explorer, model=model, schedule=schedule, seed=seed, until=until,
        trace_points=trace_points, states=states, actions=actions, step_timeout=step_timeout,
    )  # fmt: skip
    return travel(trip, report=report)


def _refuse_what_is_the_environments(
    start: Any, discount: Any, horizon: Any, restrict: Any, num_chains: Any, out: Any
) -> None:
    given = {"start": start, "discount": discount, "horizon": horizon}
    named = [name for name, value in given.items() if value is not None]
    if named or restrict or num_chains != 1:
        name = (named or (["restrict"] if restrict else ["num_chains"]))[0]
        raise InvalidArgumentError.of(
            name,
            "is for models: an environment has starts and episodes of its own",
            remedy=("Leave it out, or ", FROM_TABLE, "."),
        )
    if out is not None:
        raise InvalidArgumentError.of(
            "out",
            (
                "is for models: a run in an environment is stored with its data, by ",
                Call("collect(env, out=...)", "rhocover collect"),
            ),
        )


def make_world(trip: Expedition, chart: Map, recorder: Recorder | None, env: Any = None) -> Any:
    """Returns the world of an expedition, before its first reset."""
    env = trip.acting if env is None else env
    naming = Naming(trip.space, trip.states, chart)
    kind = VectorWorld if trip.is_vector else SingleWorld
    return kind(env, naming, trip.actions.values, trip.settings.seed, recorder)


def travel(
    trip: Expedition,
    recorder: Recorder | None = None,
    report: Report | None = None,
    env: Any = None,
    pause: Callable[[], None] | None = None,
) -> Run:
    """Returns the run of an expedition; `env` may stand in for its own, `pause` is called in between."""
    began = time.perf_counter()
    settings = trip.settings
    with one_blas_thread(), trip.timing:
        if trip.problem is not None:
            trip.problem.check_plan()
        chart = trip.chart()
        world = make_world(trip, chart, recorder, env)
        position = world.begin()
        standing = begin(settings.actor, trip.belief(chart), position, world.none())
        shots = Snapshots()
        measuring = shots if trip.problem is None else partial(measure, trip.problem)
        grid = grid_of_steps(settings.num_steps, settings.trace_points)
        runner = Runner(measuring, settings.actor, world, grid, standing, settings.until, trip.problem)
        keep_going(runner, settings.num_steps, report, pause)
        if trip.problem is not None:
            run = finished(runner, settings, trip.problem, time.perf_counter() - began)
            return _tallied(trip, run, runner, chart, world.trail)
        return judged_run(trip, runner, shots.taken, chart, world.trail, began)


def _tallied(trip: Expedition, run: Run, runner: Runner, chart: Map, trail: Trail) -> TalliedRun:
    """Returns the run of a known model with what it did in the environment."""
    index, moves = chart.index, runner.standing.seen.moves
    wired = wired_tally(trip, index, list(chart.numbers), moves, trail)
    parts = {part.name: getattr(run, part.name) for part in fields(run)}
    return TalliedRun(**parts, tally=true_tally(trip, wired, index, trail), trail=trail)
