"""explore(): act in a world so that the visit counts match the best coverage. resume(): continue a run."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.errors import FileFormatError, InvalidArgumentError, naming, shortened
from rhocover.exploring.explorers.registry import explorer_document, make_explorer
from rhocover.exploring.runs.checkpoint import MODEL, SETTINGS, Folder, settings_from_file
from rhocover.exploring.runs.result import Run, grid_of_steps, measure
from rhocover.exploring.runs.runner import Runner, RunState, Storage, begin, run, run_fields
from rhocover.exploring.runs.spec import (
    Crew,
    Encoding,
    ModelRun,
    RunSpec,
    make_belief,
    read_executor,
    read_model_run,
)
from rhocover.exploring.worlds import Visits
from rhocover.exploring.worlds.simulator import Simulator
from rhocover.files import load_tensors
from rhocover.folders import locate
from rhocover.learning.rules import rule_document
from rhocover.mdp import MDP
from rhocover.planning.problem import Criterion, Objective
from rhocover.plugins import WORLDS, load, members
from rhocover.progress import Report, progress

if TYPE_CHECKING:
    from rhocover.arguments import (
        Actions,
        Environment,
        Knowledge,
        Location,
        Maker,
        NamedExplorer,
        Start,
        States,
        WeightsOrRule,
        Whole,
    )  # fmt: skip
    from rhocover.exploring.explorers.algorithm1 import Schedule
    from rhocover.exploring.runs.stopping import Stop
    from rhocover.learning.rules import Rule


MADE_BY = "gymnasium"  # the package of the environments that ids and functions make


def explore(
    world: MDP | Environment | Maker,
    rho: float = 2.0,
    num_steps: Whole = 30_000,
    mu: WeightsOrRule | None = None,
    *,
    states: States | None = None,
    actions: Actions | None = None,
    repeat: int = 1,
    explorer: NamedExplorer = "feedback",
    model: Knowledge = "known",
    schedule: Schedule | None = None,
    seed: int | None = 0,
    start: Start | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    num_chains: int = 1,
    workers: int | None = None,
    executor: Any = None,
    until: Stop | None = None,
    trace_points: int = 10,
    out: Location | None = None,
    step_timeout: float | None = None,
    held_out: States | None = None,
    report: Report | None = None,
) -> Run:
    """Returns the run of an explorer in a world for `num_steps` steps.

    `world` is a model to simulate, or a Gymnasium environment to act in. With an environment, `model="known"`
    needs a table of its transitions (see `MDP.from_gymnasium`), `model="learned"` does not, and `states` and
    `actions` are the encodings of observations and actions that are not discrete (see `Bins`); a list of
    actions restricts a discrete space to those. With `repeat=k` each action is held for k steps of the
    environment, or until its episode ends, and all steps of the run are such decisions. `rho`, `mu`,
    `discount`, `horizon` and `restrict` are as in `plan`. Without restarts the run begins in `start` (a state
    or a distribution; by default that of the model). `model` says what the explorer knows: "known", "learned"
    (states and actions, not the transitions), "from_scratch" (not even the states), "posterior", or a
    `Learned`. `mu` may be a rule, by name or as a function of an `Estimate`: then it is evaluated again with
    each new plan. `until` ends the run early. `explorer` is a name or an object: "feedback", "tracking",
    "stationary", "algorithm1", "algorithm1_short", "algorithm1_adaptive"; `schedule` sets Algorithm 1's
    episodes. `num_chains` chains act at the same time and share the counts; `num_steps` is their total.
    `workers` actors act at the same time, too, but know of each other only between rounds: so they may be
    anywhere. For environments `world` is then what makes one: an id, `module:function`, or a function
    without arguments; each leg of a worker begins with a reset. `executor` runs them: anything with
    `submit(function, *args)` that returns a future, such as `rc.engines.process()`; without one they act
    here, one after the other, with the same result. The trace has `trace_points` rows for each factor of
    ten. `out` is a new folder for checkpoints: `resume(out)` continues after any interruption.
    `report(steps, num_steps)` is called now and then. A step or reset of an environment that takes longer
    than `step_timeout` seconds is an error; all steps before it are kept. This works only while Python code
    is running in it: a hang in C code is not detected. It needs the main thread, and a system other than
    Windows. Ctrl-C waits for the current step; pressed a second time, it ends that step. `held_out` is a
    second code of observations, as for `states`, that is never planned with: it is only counted, to show
    how far the first one may be trusted. The same `seed` gives the same bits on one machine with the same
    versions; None draws one, which `run.seed` records. Another processor, BLAS or Numba target rounds last
    bits differently: there the run is statistically the same, but not identical.

    >>> import rhocover as rc
    >>> run = rc.explore(rc.envs.river_swim(), rho=2, num_steps=30_000, seed=0)
    >>> run.coverage_text, run.regret < 1e-5
    ('complete', True)
    """
    out = None if out is None else locate(out)  # code that is called below may change the working directory
    spec = RunSpec(
        objective=Objective(rho, mu), num_steps=num_steps,
        criterion=Criterion(discount, horizon, start, restrict), explorer=make_explorer(explorer, schedule),
        model=model, seed=seed, until=until, trace_points=trace_points,
    )  # fmt: skip
    if not isinstance(world, MDP) and (explore_other := _other_world(world, workers)) is not None:
        encoding, crew = Encoding(states, actions, repeat, held_out), Crew(num_chains, workers, executor)
        return explore_other(world, spec, encoding, crew, step_timeout, out, report)
    check_for_model(
        states=states, actions=actions, repeat=repeat, step_timeout=step_timeout, held_out=held_out
    )
    asked = read_model_run(world, spec, num_chains, workers)
    executor = read_executor(executor, asked.workers)
    with progress(f"exploring {asked.mdp.name or 'the model'}", report) as told:
        _ = asked.problem  # raises if it is invalid
        asked.check_budget()
        asked.problem.check_plan()
        storage = Storage(told) if out is None else Folder(out, asked, told)
        return run_model(asked, executor, storage)


class ModelWorld(Simulator):
    """A simulated model, with its problem."""

    def __init__(self, asked: ModelRun) -> None:
        self.asked, self.problem = asked, asked.problem
        super().__init__(self.problem.mdp, self.problem.start, asked.num_chains)

    def opened(self) -> AbstractContextManager[None]:
        """Returns nothing to open."""
        return nullcontext()

    def start(self, spec: RunSpec) -> RunState:
        """Returns the state of a run before its first step."""
        position = self.begin(spec.seed)
        belief = make_belief(spec, self.problem, position.states)
        return begin(spec.actor, belief, position, Visits.none(self.mdp))

    def marks(self, spec: RunSpec) -> list[int]:
        """Returns the steps to report at."""
        return grid_of_steps(spec.num_steps, spec.trace_points, self.num_chains)

    def measure(self, counts: IntArray, num_steps: int) -> list[float]:
        """Returns a row of the trace."""
        return measure(self.problem, counts, num_steps)

    def result(self, spec: RunSpec, runner: Runner, seconds: float) -> Run:
        """Returns the finished run."""
        return Run(**run_fields(self.asked.mdp, spec, runner, seconds))


def run_model(asked: ModelRun, executor: Any, storage: Storage) -> Run:
    """Returns the finished run in a model, by this process or by several workers."""
    if asked.workers is None:
        return run(ModelWorld(asked), asked.spec, storage)
    from rhocover.exploring.runs.rounds import RoundRunner, SharedWorld

    return run(SharedWorld(asked, executor), asked.spec, storage, RoundRunner)


def check_for_model(**given: Any) -> None:
    """Refuses arguments that only environments have, each with the reason."""
    reasons = {
        "states": ": a model has its own", "actions": ": a model has its own",
        "step_timeout": ": a model never hangs", "held_out": ": a model has no observations",
    }  # fmt: skip
    for name, value in given.items():
        if value is not None and not (name == "repeat" and value == 1):
            reason = f"is for environments{reasons.get(name, '')}"
            raise InvalidArgumentError.of(name, reason, remedy="Leave it out.")


def _other_world(world: Any, workers: Any) -> Any:
    """Returns the function that explores worlds of this class, if its package is registered; else None.

    With workers it may also be what makes a world for each of them.
    """
    if workers is not None and (isinstance(world, str) or callable(world)):
        return load(WORLDS, MADE_BY)
    packages = {kind.__module__.partition(".")[0] for kind in type(world).__mro__}
    names = [name for name in members(WORLDS) if name in packages]
    return load(WORLDS, names[0]) if names else None


def resume(
    out: Location,
    world: MDP | None = None,
    *,
    rho: float | None = None,
    seed: int | None = None,
    explorer: NamedExplorer | None = None,
    mu: Rule | None = None,
    executor: Any = None,
    report: Report | None = None,
) -> Run:
    """Returns the run of the folder `out`, continued from its newest checkpoint to its end.

    A finished run is loaded, and nothing is run or written. Otherwise the result is the same to the bit as
    that of a run that was never interrupted. `world`, `rho`, `seed` and `explorer` are stored in the folder;
    if given, they must be the same. Your own explorer must be given again, and so must `mu` if it is your own
    function. `executor` is as in `explore`, and may be another one than before. A damaged checkpoint is
    skipped with a `CheckpointWarning`, and the one before it is used.
    """
    out = locate(out)  # the caller's rules and explorers may change the working directory
    asked = read_folder(out, explorer, mu)
    _check_same(asked, world, rho, seed, explorer)
    executor = read_executor(executor, asked.workers)
    with naming(out.path / SETTINGS):
        _ = asked.problem
    with progress(f"resuming {asked.mdp.name or 'the model'}", report) as told:
        folder = Folder(out, asked, told, is_resumed=True)
        last = folder.last_of_finished()
        return run_model(asked, executor, folder if last is None else Storage(told, last))


def read_folder(out: Any, explorer: Any = None, mu: Any = None) -> ModelRun:
    """Returns the settings of the run in a folder."""
    place = locate(out)
    path = place.path
    if path.is_file():
        remedy = "A run is loaded from its folder, the `out` of explore."
        raise InvalidArgumentError.of("out", "must be a folder", f"the file {place.shown!r}", remedy=remedy)
    if not (path / SETTINGS).is_file():
        raise InvalidArgumentError.of("out", f"{place.shown!r} holds no run: there is no {SETTINGS} in it")
    tensors, document = load_tensors(path / SETTINGS, "run-settings")
    stored = document.get("explorer")
    own = isinstance(stored, str)
    if own and explorer is None:
        raise InvalidArgumentError.of(
            "explorer", f"is needed: the run was made with your own {shortened(stored)}"
        )
    if own and (type(explorer).__name__ != stored or explorer_document(explorer) is not None):
        raise InvalidArgumentError.of(
            "explorer", f"must be your own {stored} that this run began with", repr(explorer)
        )
    mdp = MDP.load(path / MODEL)
    if mdp.fingerprint != document.get("fingerprint"):
        raise FileFormatError(f"{MODEL} in {place.shown!r} is not the model of this run.")
    rule = _own_rule(document.get("rule"), mu)
    with naming(path / SETTINGS):
        return settings_from_file(mdp, tensors, document, make_explorer(explorer) if own else None, rule)


def _own_rule(stored: Any, mu: Any) -> Any:
    """Returns the caller's rule if the file holds only its name."""
    own = isinstance(stored, str)
    if own and not callable(mu):
        raise InvalidArgumentError.of(
            "mu", f"is needed: the run was made with your own rule, {shortened(stored)}"
        )
    if own and rule_document(mu) != stored:
        raise InvalidArgumentError.of("mu", f"must be the rule {stored} of this run", repr(mu))
    if mu is not None and not own:
        raise InvalidArgumentError.of("mu", "is stored with the run", remedy="Leave it out.")
    return mu


def _check_same(asked: ModelRun, world: Any, rho: Any, seed: Any, explorer: Any) -> None:
    """Refuses arguments that differ from those with which the run began."""
    spec = asked.spec
    if world is not None and (not isinstance(world, MDP) or world.fingerprint != asked.mdp.fingerprint):
        raise InvalidArgumentError.of(
            "world", "is not the model that this run began with", remedy="Leave it out."
        )
    if rho is not None and checks.number(rho, "rho") != spec.rho:
        raise InvalidArgumentError.of("rho", f"was {spec.rho:g} when this run began", f"{rho}")
    if seed is not None and checks.seed(seed) != spec.seed:
        raise InvalidArgumentError.of("seed", f"was {spec.seed} when this run began", f"{seed}")
    if explorer is not None and explorer_document(make_explorer(explorer)) != explorer_document(
        spec.explorer
    ):
        raise InvalidArgumentError.of(
            "explorer", f"was {spec.explorer!r} when this run began", repr(explorer)
        )
