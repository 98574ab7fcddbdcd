"""explore(): act in a world so that the visits themselves become the best coverage."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rhocover import checks
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.exploring.models import model_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.registry import explorer_document, explorer_name
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Runner, Standing, begin
from rhocover.exploring.settings import Settings, belief_of, check_budget, read_settings
from rhocover.exploring.simulator import Simulator, Visits
from rhocover.exploring.trace import grid_of_steps, make_trace, measure
from rhocover.folders import locate
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP
from rhocover.plugins import WORLDS, load, members

Report = Callable[[int, int], None]


def explore(
    world: Any,
    rho: float,
    num_steps: int,
    mu: Any = None,
    *,
    states: Any = None,
    actions: Any = None,
    explorer: Any = "feedback",
    model: Any = "known",
    schedule: Any = None,
    seed: int = 0,
    start: Any = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    num_chains: int = 1,
    until: Any = None,
    trace_points: int = 10,
    out: os.PathLike[str] | str | None = None,
    step_timeout: float | None = None,
    report: Report | None = None,
) -> Run:
    """Returns the run of an explorer in a world for `num_steps` steps.

    `world` is a model to simulate, or a Gymnasium environment to act in: then `model="known"` needs a table
    of its transitions (see `MDP.from_gymnasium`), `model="learned"` does not, and `states` and `actions` say
    how observations and actions are counted if they are not discrete (see `Bins`).
    `rho`, `mu`, `discount`, `horizon` and `restrict` are those of `plan`.
    Without restarts the run begins in `start` (a state or a distribution; the model's own by default).
    `model` says what the explorer knows: "known", "learned" (states and actions, not the transitions),
    "from_scratch" (not even the states), "posterior", or a `Learned`. `mu` may be a rule, by name or as a
    function of an `Estimate`: then it is evaluated again with each new plan. `until` ends the run early.
    `explorer` is a name or an object: "feedback", "tracking", "stationary", "algorithm1",
    "algorithm1_short", "algorithm1_adaptive"; `schedule` sets Algorithm 1's episodes. `num_chains` act at
    once and share the counts; `num_steps` counts over all of them. The trace has `trace_points` rows for
    each factor of ten. `out` is a new folder for checkpoints: `resume(out)` goes on after any
    interruption. `report(steps, num_steps)` is called now and then.
    An environment whose step or reset takes longer than `step_timeout` seconds has failed: what was seen
    before is kept. Python must be running in it for that: a hang in C code is not noticed. It needs the main
    thread, and a system other than Windows. Ctrl-C waits for the step that is being taken; pressed a second
    time it ends that step.
    The same `seed` gives the same bits on one machine with the same versions. Another processor, BLAS or
    target of Numba rounds last bits differently: there the run is statistically the same, but not identical.

    >>> import rhocover as rc
    >>> run = rc.explore(rc.envs.river_swim(), rho=2, num_steps=30_000, seed=0)
    >>> run.coverage_text, run.regret < 1e-5
    ('complete', True)
    """
    checks.function_or_none(report, "report")
    out = None if out is None else locate(out)  # what is called on the way may change the working directory
    if not isinstance(world, MDP) and (enter := _other_world(world)) is not None:
        return enter(
            world, rho, num_steps, mu, explorer=explorer, model=model, schedule=schedule, seed=seed,
            start=start, discount=discount, horizon=horizon, restrict=restrict, num_chains=num_chains,
            until=until, trace_points=trace_points, out=out, report=report, states=states, actions=actions,
            step_timeout=step_timeout,
        )  # fmt: skip
    if states is not None or actions is not None:
        raise InvalidArgumentError.of(
            "states", parse_text("and `actions` are for environments: a model has its own")
        )
    if step_timeout is not None:
        raise InvalidArgumentError.of(
            "step_timeout", "is for environments: a model never hangs", remedy="Leave it out."
        )
    settings = read_settings(
        world, rho, num_steps, mu, explorer, model, schedule, seed, start, discount, horizon, restrict,
        num_chains, trace_points, until,
    )  # fmt: skip
    problem = settings.problem()
    check_budget(settings)
    problem.check_plan()
    standing = _beginning(settings, problem)  # what an explorer refuses is refused before a folder is made
    if out is None:
        return drive(settings, problem, standing, None, report)
    from rhocover.exploring.checkpoints import Folder

    with Folder.create(out, settings) as folder:
        return drive(settings, problem, standing, folder, report)


def _other_world(world: Any) -> Any:
    """Returns how to explore a world whose class is from a package that joined; None for another."""
    packages = {kind.__module__.partition(".")[0] for kind in type(world).__mro__}
    names = [name for name in members(WORLDS) if name in packages]
    return load(WORLDS, names[0]) if names else None


def _beginning(settings: Settings, problem: Problem) -> Standing:
    """Returns where the run begins."""
    with one_blas_thread():
        world = _world(settings, problem)
        position = world.begin(settings.seed)
        belief = belief_of(settings, problem, position.states)
        return begin(settings.actor, belief, position, Visits.none(problem.mdp))


def _world(settings: Settings, problem: Problem) -> Simulator:
    return Simulator(problem.mdp, problem.start, settings.num_chains)


def drive(
    settings: Settings, problem: Problem, standing: Standing | None, folder: Any, report: Report | None
) -> Run:
    """Runs from where a run stands, or from its beginning, to its end; stores it in `folder` now and then."""
    began = time.perf_counter()
    grid = grid_of_steps(settings.num_steps, settings.trace_points, settings.num_chains)
    with one_blas_thread():
        if standing is None:
            standing = _beginning(settings, problem)
        runner = Runner(
            partial(measure, problem), settings.actor, _world(settings, problem), grid, standing,
            settings.until, problem,
        )  # fmt: skip
        _run(runner, settings, folder, report)
        run = finished(runner, settings, problem, time.perf_counter() - began)
    if folder is not None:
        folder.save_result(run)
    return run


def _run(runner: Runner, settings: Settings, folder: Any, report: Report | None) -> None:
    """Runs to the end; after Ctrl-C the folder has where it stood."""

    def pause() -> None:
        if folder is not None:
            folder.save_if_due(runner.standing)

    try:
        keep_going(runner, settings.num_steps, report, pause)
    except (KeyboardInterrupt, InvalidArgumentError):  # a rule or an explorer of the caller's may be wrong
        if folder is not None:
            folder.save(runner.standing)
        raise
    if folder is not None:
        folder.save(runner.standing)


def keep_going(
    runner: Runner, num_steps: int, report: Report | None, pause: Callable[[], None] | None
) -> None:
    """Runs to the end; whenever everything stands still `pause` is called, and progress reported."""

    def after(standing: Standing) -> None:
        if pause is not None:
            pause()
        if report is not None:
            report(standing.num_steps, num_steps)

    runner.run(after)


def finished(runner: Runner, settings: Settings, problem: Problem, seconds: float) -> Run:
    """Returns the run of a problem that a runner has come to the end of."""
    standing = runner.standing
    last = runner.last_episode()
    return Run(
        mdp=settings.mdp,
        problem=problem,
        explorer=explorer_name(settings.explorer),
        explorer_settings=explorer_document(settings.explorer),
        seed=settings.seed,
        num_steps=standing.num_steps,
        visits=checks.frozen(standing.counts),
        moves=checks.frozen(standing.seen.moves),
        first_states=checks.frozen(standing.first_states),
        last_states=checks.frozen(standing.position.states),
        trace=make_trace(standing.rows, problem),
        belief=standing.state.belief,
        model=model_name(settings.model),
        is_enough=standing.is_enough,
        episodes=(*standing.episodes, *([last] if last else [])),
        seconds=seconds,
    )
