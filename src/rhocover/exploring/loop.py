"""explore(): act in a world so that the visits themselves become the best coverage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Explorer
from rhocover.exploring.models import KNOWN, actor, check_model, is_self_reliant, make_belief, model_name
from rhocover.exploring.problem import Problem, make_problem
from rhocover.exploring.registry import explorer_document, explorer_name, make_explorer
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Runner, Standing, begin
from rhocover.exploring.simulator import Simulator, Visits
from rhocover.exploring.stopping import CertifiedGap, Stop, check_stop
from rhocover.exploring.trace import grid_of_steps, make_trace, measure
from rhocover.learning.rules import Rule, read_rule, weights_in_the_end
from rhocover.mdp import MDP
from rhocover.planning.threads import one_blas_thread
from rhocover.plugins import WORLDS, load, members

Report = Callable[[int, int], None]

MOST_STEPS = 1 << 60  # counts are 64-bit integers


@dataclass(frozen=True, eq=False)
class Settings:
    """Everything that decides what a run does, checked."""

    mdp: MDP
    rho: float
    mu: FloatArray | Rule | None
    num_steps: int
    explorer: Explorer
    model: Any  # "known", or a Learned
    seed: int
    start: FloatArray | None
    discount: float | None
    horizon: int | None
    restrict: bool
    num_chains: int
    trace_points: int
    until: Stop | None

    @property
    def rule(self) -> Rule | None:
        """The rule that says the weights, if one does."""
        return self.mu if callable(self.mu) else None

    @property
    def actor(self) -> Explorer:
        """Who acts."""
        return actor(self.model, self.explorer)

    def problem(self) -> Problem:
        """Returns the problem to explore; a rule for the weights is evaluated on the model itself."""
        mu = self.mu if self.rule is None else weights_in_the_end(self.rule, self.mdp)
        return make_problem(
            self.mdp, self.rho, mu,
            discount=self.discount, horizon=self.horizon, start=self.start, restrict=self.restrict,
        )  # fmt: skip


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
    out: Path | str | None = None,
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

    >>> import rhocover as rc
    >>> run = rc.explore(rc.envs.river_swim(), rho=2, num_steps=30_000, seed=0)
    >>> run.coverage_text, run.regret < 1e-5
    ('complete', True)
    """
    if not isinstance(world, MDP) and (enter := _other_world(world)) is not None:
        return enter(
            world, rho, num_steps, mu, explorer=explorer, model=model, schedule=schedule, seed=seed,
            start=start, discount=discount, horizon=horizon, restrict=restrict, num_chains=num_chains,
            until=until, trace_points=trace_points, out=out, report=report, states=states, actions=actions,
        )  # fmt: skip
    if states is not None or actions is not None:
        raise InvalidArgumentError("`states` and `actions` are for environments: a model has its own.")
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


def belief_of(settings: Settings, problem: Problem, roots: IntArray) -> Belief:
    """Returns the belief before the first step of a run that begins in `roots`."""
    return make_belief(settings.model, problem, settings.rule, settings.explorer, roots, settings.seed)


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


def read_settings(
    world: Any, rho: Any, num_steps: Any, mu: Any, explorer: Any, model: Any, schedule: Any, seed: Any,
    start: Any, discount: Any, horizon: Any, restrict: Any, num_chains: Any, trace_points: Any, until: Any,
) -> Settings:  # fmt: skip
    """Returns the settings, checked one by one."""
    if not isinstance(world, MDP):
        way = f"gymnasium.make({world!r})" if isinstance(world, str) else "MDP(P), envs.river_swim()"
        raise InvalidArgumentError(
            f"`world` must be an MDP or a Gymnasium environment, got {type(world).__name__}. Make one: {way}."
        )
    start = None if start is None else checks.distribution(start, "start", world.num_states)
    settings = Settings(
        mdp=world,
        rho=checks.number(rho, "rho"),
        mu=_read_mu(mu),
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
        until=check_stop(until),
    )
    if settings.rule is not None and (settings.discount is not None or settings.horizon is not None):
        raise InvalidArgumentError(
            "`mu` as a rule goes with runs without restarts. Leave `discount` and `horizon` out, or pass "
            "weights."
        )
    check_knowledge(settings)
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


def _read_mu(mu: Any) -> FloatArray | Rule | None:
    """Returns weights, a rule that makes them, or None."""
    if mu is None:
        return None
    return read_rule(mu) if isinstance(mu, str) or callable(mu) else checks.float_array(mu, "mu")


def check_knowledge(settings: Settings) -> None:
    """Refuses what cannot be had with so little known beforehand."""
    is_open = settings.model != KNOWN and not settings.model.know_states
    if is_open and is_self_reliant(settings.explorer):
        raise InvalidArgumentError(
            f"`explorer` {explorer_name(settings.explorer)!r} knows all states from the start, as in its "
            'paper. Pass model="learned".'
        )
    if isinstance(settings.until, CertifiedGap) and (is_open or (settings.rule and settings.model != KNOWN)):
        raise InvalidArgumentError(
            "`until`=CertifiedGap needs weights and states that are known: nothing certifies coverage of "
            "states never met, or for weights still to be learned. Use EveryPair or SmallModelError."
        )


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
