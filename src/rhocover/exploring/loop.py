"""explore(): act in a world so that the visits themselves become the best coverage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.beliefs import check_model, make_belief
from rhocover.exploring.explorer import Explorer
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_document, explorer_name, make_explorer
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Runner, Standing, begin
from rhocover.exploring.simulator import Simulator
from rhocover.exploring.trace import grid_of_steps, make_trace
from rhocover.mdp import MDP
from rhocover.planning.threads import one_blas_thread

Report = Callable[[int, int], None]

MOST_STEPS = 1 << 60  # counts are 64-bit integers


@dataclass(frozen=True, eq=False)
class Settings:
    """Everything that decides what a run does, checked."""

    mdp: MDP
    rho: float
    mu: FloatArray | None
    num_steps: int
    explorer: Explorer
    model: str
    seed: int
    start: FloatArray | None
    discount: float | None
    horizon: int | None
    restrict: bool
    num_chains: int
    trace_points: int

    def problem(self) -> Problem:
        """Returns the problem to explore."""
        return make_problem(
            self.mdp, self.rho, self.mu,
            discount=self.discount, horizon=self.horizon, start=self.start, restrict=self.restrict,
        )  # fmt: skip


def explore(
    world: MDP,
    rho: float,
    num_steps: int,
    mu: Any = None,
    *,
    explorer: Any = "feedback",
    model: str = "known",
    schedule: Any = None,
    seed: int = 0,
    start: Any = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    num_chains: int = 1,
    trace_points: int = 10,
    out: Path | str | None = None,
    report: Report | None = None,
) -> Run:
    """Returns the run of an explorer in a world for `num_steps` steps.

    `world` is a model to simulate; `rho`, `mu`, `discount`, `horizon` and `restrict` are those of `plan`.
    Without restarts the run begins in `start` (a state or a distribution; the model's own by default).
    `explorer` is a name or an object: "feedback", "tracking", "stationary", "algorithm1",
    "algorithm1_short", "algorithm1_adaptive"; `schedule` sets Algorithm 1's episodes. `num_chains` act at
    once and share the counts; `num_steps` counts over all of them. The trace has `trace_points` rows for
    each factor of ten. `out` is a new folder for checkpoints: `resume(out)` goes on after any
    interruption. `report(steps, num_steps)` is called now and then.

    >>> import rhocover as rc
    >>> run = rc.explore(rc.envs.river_swim(), rho=2, num_steps=30_000, seed=0)
    >>> run.coverage_text, run.regret < 1e-5
    ('complete', True)
    """
    settings = read_settings(
        world, rho, num_steps, mu, explorer, model, schedule, seed, start, discount, horizon, restrict,
        num_chains, trace_points,
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


def _beginning(settings: Settings, problem: Problem) -> Standing:
    """Returns where the run begins."""
    with one_blas_thread():
        belief = make_belief(settings.model, problem)
        return begin(problem, settings.explorer, belief, _world(settings, problem), settings.seed)


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
        runner = Runner(problem, settings.explorer, _world(settings, problem), grid, standing)
        _run(runner, settings, folder, report)
        run = _finished(runner, settings, time.perf_counter() - began)
    if folder is not None:
        folder.save_result(run)
    return run


def _run(runner: Runner, settings: Settings, folder: Any, report: Report | None) -> None:
    """Runs to the end; after Ctrl-C the folder has where it stood."""

    def after(standing: Standing) -> None:
        if folder is not None:
            folder.save_if_due(standing)
        if report is not None:
            report(standing.num_steps, settings.num_steps)

    try:
        runner.run(after)
    except KeyboardInterrupt:
        if folder is not None:
            folder.save(runner.standing)
        raise
    if folder is not None:
        folder.save(runner.standing)


def _finished(runner: Runner, settings: Settings, seconds: float) -> Run:
    standing, problem = runner.standing, runner.problem
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
        episodes=(*standing.episodes, *([last] if last else [])),
        seconds=seconds,
    )


def read_settings(
    world: Any, rho: Any, num_steps: Any, mu: Any, explorer: Any, model: Any, schedule: Any, seed: Any,
    start: Any, discount: Any, horizon: Any, restrict: Any, num_chains: Any, trace_points: Any,
) -> Settings:  # fmt: skip
    """Returns the settings, checked one by one."""
    if not isinstance(world, MDP):
        raise InvalidArgumentError(f"`world` must be an MDP, got {type(world).__name__}. Build one: MDP(P).")
    start = None if start is None else checks.distribution(start, "start", world.num_states)
    settings = Settings(
        mdp=world,
        rho=checks.number(rho, "rho"),
        mu=None if mu is None else checks.float_array(mu, "mu"),
        num_steps=checks.integer(num_steps, "num_steps", least=1),
        explorer=make_explorer(explorer, schedule),
        model=check_model(model),
        seed=checks.integer(seed, "seed", least=0),
        start=start,
        discount=None if discount is None else checks.probability(discount, "discount", open_ends=True),
        horizon=None if horizon is None else checks.integer(horizon, "horizon", least=1),
        restrict=bool(restrict),
        num_chains=checks.integer(num_chains, "num_chains", least=1),
        trace_points=checks.integer(trace_points, "trace_points", least=1),
    )
    if settings.num_steps > MOST_STEPS:
        raise InvalidArgumentError(
            f"`num_steps` must be at most 2**60, got a number of {len(str(settings.num_steps))} digits."
        )
    if settings.num_steps % settings.num_chains:
        more = -(-settings.num_steps // settings.num_chains) * settings.num_chains
        raise InvalidArgumentError(
            f"`num_steps` must be a multiple of num_chains={settings.num_chains}, got "
            f"{settings.num_steps}. The next one is {more}."
        )
    return settings


def check_budget(settings: Settings) -> None:
    """Refuses a budget that ends within the first episode of Algorithm 1."""
    if not isinstance(settings.explorer, Algorithm1):
        return
    first = settings.explorer.schedule.length(1, 0)
    if settings.num_steps < first:
        raise InvalidArgumentError(
            f"`num_steps` must cover the first episode of {first} steps, got {settings.num_steps}. "
            "Allow more steps, or shorten the schedule."
        )
