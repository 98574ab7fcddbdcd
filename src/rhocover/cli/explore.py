"""`rhocover explore` and `rhocover resume`: act in a model, and go on after an interruption.

What `rhocover explore` was asked for in a Gymnasium environment: read from texts, and run.

A run in an environment is shown like any other. It is stored with its data, by `rhocover collect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover._version import __version__
from rhocover.checks import FloatArray
from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.output import json_text, print_json, print_message, print_result, progress
from rhocover.cli.parsing import (
    close,
    parse_actions,
    parse_data_mu,
    parse_delta,
    parse_model,
    parse_mu,
    parse_orders,
    parse_place,
    parse_states,
    parse_until,
)
from rhocover.cli.result_tables import Knowledge
from rhocover.collecting.env_run import read_env_run
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.experiments.compare import check_run
from rhocover.exploring import Run
from rhocover.exploring import explore as explore_model
from rhocover.exploring.explorers.algorithm1 import Algorithm1
from rhocover.exploring.runs.checkpoint import OURS, settings_document
from rhocover.exploring.runs.explore import read_folder
from rhocover.exploring.runs.spec import CRITERION, Encoding, ModelRun, read_model_run, read_spec
from rhocover.exploring.runs.stopping import CertifiedGap
from rhocover.files import write_atomically
from rhocover.folders import Hold
from rhocover.report.figures import decades, occupancy_figure, save_figure, snapshot_figure, snapshots
from rhocover.report.figures.drawing import as_text
from rhocover.report.figures.over_time import run_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rhocover.report.pages import Page


def explore(
    context: outputs.Context,
    env: o.World,
    rho: o.Order,
    num_steps: o.Steps = 30_000,
    explorer: o.Explorer = "feedback",
    model: o.Model = "known",
    schedule: o.Schedule = None,
    mu: o.Weights = "uniform",
    settings: o.Set = None,
    states: o.States = None,
    actions: o.Actions = None,
    seed: o.Seed = 0,
    step_timeout: o.StepTimeout = None,
    num_chains: o.Chains = 1,
    start: o.RunStart = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    restrict: o.Restrict = False,
    until_visits: o.UntilVisits = None,
    until_gap: o.UntilGap = None,
    until_error: o.UntilError = None,
    delta: o.RunDelta = 0.05,
    json: o.Json = False,
    out: o.ExploreOut = None,
    report: outputs.Report = None,
    force: o.ForceRun = False,
) -> None:
    """Acts in a model or an environment so that the visits themselves become the best coverage.

    What was reached stands beside what is possible: the *divergence* from the weights to the visits, the
    *worst ratio* (one pair has had 1/ratio of its share, and no pair less), and the *regret*, what better
    acting could have saved under the same noise. Until every pair with a weight was visited there are no
    such numbers, and coverage is called incomplete.

    With `--model learned` the explorer has to find out about the transitions. Beside the true gap to the best
    then stand the one it estimates and the one it can be sure of, and what it never reached.

    * `rhocover explore river_swim --rho 2`
    * `rhocover explore river_swim --rho 2 --steps 3000 --explorer algorithm1 --schedule quadratic:5`
    * `rhocover explore four_rooms --rho inf --steps 5000 --seed 7 --json`
    * `rhocover explore grid_world --rho 1 --steps 5000 --discount 0.95 --start 0 --chains 4`
    * `rhocover explore river_swim --rho 2 --model learned --steps 5000 --until-visits 100`
    * `rhocover explore river_swim --rho 1.5 --mu model_error --model from_scratch --steps 5000`
    * `rhocover explore river_swim --rho 2 --steps 5000 --out run`
    * `rhocover explore FrozenLake-v1 --rho 2 --steps 5000`
    * `rhocover explore MountainCar-v0 --states bins:6,5 --model learned --rho 2 --steps 2000`
    """
    from rhocover.cli.parsing import is_environment

    asked = (read_env_request if is_environment(env) else read_run)(
        env, settings or [], mu,
        {"rho": rho, "num_steps": num_steps, "explorer": explorer, "model": model, "schedule": schedule,
         "seed": seed, "num_chains": num_chains, "start": start, "discount": discount, "horizon": horizon,
         "restrict": restrict, "states": states, "actions": actions, "step_timeout": step_timeout},
        {"until_visits": until_visits, "until_gap": until_gap, "until_error": until_error}, delta,
    )  # fmt: skip
    page = outputs.check_report(report, force=force)
    if out is not None and force:
        asked.check()
    with outputs.claim_files(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            outputs.clear(held, outputs.or_report(is_ours, held, page))
        with hint_to_resume(held), progress(f"{explorer} on {env}") as bar:
            run = asked.run(held, bar)
        known = _finish(run, asked, json, held)
    outputs.write_report(page, lambda: _page(run, known, outputs.format_command(context)), force=force)


def resume(
    context: outputs.Context,
    folder: o.RunFolder,
    delta: o.StoredDoubt = None,
    json: o.Json = False,
    report: outputs.Report = None,
    force: outputs.Replace = False,
) -> None:
    """Goes on with an interrupted run, as if it had never stopped.

    DIR is the folder of `rhocover explore --out DIR`; everything else is stored there. The result has the
    bits of a run that was never interrupted. A run that is finished is shown again.

    * `rhocover resume run`
    * `rhocover resume run --json`
    """
    from rhocover import exploring

    page = outputs.check_report(report, force=force)
    asked = stored_request(folder, delta)
    with outputs.claim_files(folder) as held:
        with hint_to_resume(held), progress(f"going on with {folder}") as bar:
            run = exploring.resume(held, report=bar)
        known = _finish(run, asked, json, held)
    outputs.write_report(page, lambda: _page(run, known, outputs.format_command(context)), force=force)


def _finish(run: Run, asked: ExploreRequest, json: bool, out: Hold | None) -> Knowledge:
    """Shows the run, writes its files where a folder was named, and returns what is known of it."""
    from rhocover.cli.result_tables import knowledge_of, run_table

    known = knowledge_of(run, asked.delta, whatever_it_takes=asked.is_certified)
    document = run_document(run, asked.words, known)
    if json:
        print_json(document)
    else:
        print_result(run_table(run, known, asked.settings.spec))
    if out is not None and outputs.can_write(out):
        outputs.write_all(out, run_files(run, asked, document), force=True)
        print_message(f"pictures, explore.json and the run itself are in {out.shown}")
    return known


def _page(run: Run, known: Knowledge, command: str) -> Page:
    from rhocover.report.pages.run import page_of_run

    return page_of_run(run, command=command, certificate=known.certificate, evidence=known.evidence)


@contextmanager
def hint_to_resume(folder: Hold | None) -> Iterator[None]:
    """Says on Ctrl-C how to go on, if there is something to go on with."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None and (folder.path / "run.safetensors").exists():
            print_message(f"What was done is kept. Go on with: rhocover resume {folder.shown}")
        raise


# What `rhocover explore` was asked for: read from texts, run, and written to files.

DOCUMENT, TRACE_POINTS = "explore.json", 10
PICTURES = ("run.png", "visits.png", "ratio.png", "snapshots.png")
LONGEST_SNAPSHOTS = 1_000_000  # steps; for the maps on the way the run is begun anew
ReportProgress = Callable[[int, int], None] | None


@dataclass(frozen=True, eq=False)
class ExploreRequest:
    """What a run does, the same in words, and how often what is said of it may be wrong."""

    settings: Any  # a ModelRun or an EnvRun
    words: dict[str, Any]
    delta: float

    @property
    def is_certified(self) -> bool:
        """Whether a certificate was asked for, however long it takes."""
        return isinstance(self.settings.spec.until, CertifiedGap)

    def check(self) -> None:
        """Refuses what `explore` would refuse, before anything is removed."""
        check_run(self.settings)

    def run(self, out: Hold | None, report: ReportProgress) -> Run:
        """Returns the finished run."""
        mdp, spec, given = self.settings.mdp, self.settings.spec, keywords(self.settings)
        return explore_model(mdp, spec.rho, spec.num_steps, until=spec.until, out=out, report=report, **given)


def keywords(asked: ModelRun) -> dict[str, Any]:
    """Returns the keyword arguments of `explore` that decide what a run of any length does."""
    given = {name: getattr(asked.spec, name) for name in ("mu", "explorer", "model", "seed")}
    criterion = {name: getattr(asked.spec.criterion, name) for name in CRITERION}
    return given | criterion | {"num_chains": asked.num_chains}


def read_run(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> ExploreRequest:
    """Returns what to do with its texts read; refuses what is wrong with them."""
    [rho] = parse_orders([arguments["rho"]])
    arguments = _of_a_model(arguments)
    mdp, parameters = parse_model(env, settings)
    weights = parse_mu(mu, mdp, arguments["model"])
    delta = parse_delta(delta)
    given = {"mu": weights, "trace_points": TRACE_POINTS, "until": parse_until(until, delta)}
    read = read_model_run(mdp, read_spec(arguments | given | {"rho": rho}), arguments["num_chains"])
    words = {"environment": env, "set": parameters, "mu": mu, **arguments, **until, "delta": delta}
    return ExploreRequest(read, words, delta)


def _of_a_model(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments without those that are for environments, which must not be given."""
    if arguments.get("states") is not None or arguments.get("actions") is not None:
        raise InvalidArgumentError.of(
            "states", parse_text("and `actions` are for environments: a model has its own")
        )
    if arguments.get("step_timeout") is not None:
        raise InvalidArgumentError.of(
            "step_timeout", "is for environments: a model never hangs", remedy="Leave it out."
        )
    own = ("states", "actions", "step_timeout")
    return {name: value for name, value in arguments.items() if name not in own}


def stored_request(folder: Path, delta: float | None) -> ExploreRequest:
    """Returns what the run in a folder does."""
    settings = read_folder(folder)
    delta = parse_delta(delta, settings.spec.until)
    return ExploreRequest(settings, settings_document(settings) | {"delta": delta}, delta)


def run_document(run: Run, words: dict[str, Any], known: Knowledge) -> dict[str, Any]:
    """Returns what was asked, what was reached and what is known of it, ready for JSON."""
    found = {"rhocover": __version__, "parameters": words, "run": run.summary()}
    return found | known.document(run)


def is_ours(name: str) -> bool:
    """Whether a run, or this command, writes files of that name."""
    return name in (*OURS, DOCUMENT, *PICTURES)


def run_files(run: Run, asked: ExploreRequest, document: dict[str, Any]) -> dict[str, outputs.Writer]:
    """Returns the files to write by name; `document` is that of the run."""
    name = as_text(run.mdp.name or "the model")
    figures: dict[str, Callable[[], Figure]] = {
        "run.png": partial(run_figure, run),
        "visits.png": partial(occupancy_figure, run.mdp, visits(run), f"Visits of {name}"),
        "ratio.png": partial(snapshot_figure, [run], _ratio_title(run)),
    }
    if run.num_steps <= LONGEST_SNAPSHOTS:
        figures["snapshots.png"] = partial(_snapshots, run, asked.settings)
    files: dict[str, outputs.Writer] = {DOCUMENT: partial(_write_document, document)}
    return files | {picture: partial(_draw, make) for picture, make in figures.items()}


def visits(run: Run) -> FloatArray:
    """Returns the share of the visits of each pair `[S, A]`, over all steps of an episode."""
    return run.occupancy if run.occupancy.ndim == 2 else run.occupancy.sum(axis=0)


def _ratio_title(run: Run) -> str:
    step = ", worst step" if run.occupancy.ndim == 3 else ""
    return f"Target / visits of {as_text(run.mdp.name or 'the model')}{step}"


def _snapshots(run: Run, asked: ModelRun) -> Figure:
    """Returns maps at powers of ten, from the first episode on, and of the run itself at its end."""
    explorer, chains = asked.spec.explorer, asked.num_chains
    first = explorer.schedule.length(1, 0) if isinstance(explorer, Algorithm1) else 1
    rounded = {-(-t // chains) * chains for t in decades(run.num_steps, max(100, first))}
    before = sorted(t for t in rounded if t < run.num_steps)
    runs = snapshots(asked.mdp, asked.spec.rho, before, **keywords(asked)) if before else []
    return snapshot_figure([*runs, run], f"{_ratio_title(run)}, as the run goes on")


def _draw(make: Callable[[], Figure], path: Path) -> None:
    save_figure(make(), path)


def _write_document(document: dict[str, Any], path: Path) -> None:
    write_atomically(path, json_text(document).encode())


# What `rhocover explore` was asked for in a Gymnasium environment: read from texts, and run.


@dataclass(frozen=True, eq=False)
class EnvRequest(ExploreRequest):
    """A run in an environment; `given` are the keyword arguments of `explore`."""

    env: Any
    given: dict[str, Any]

    def check(self) -> None:
        """Refuses to make room in a folder: a run in an environment is not stored."""
        raise InvalidArgumentError.of(
            "out", "is for models: a run in an environment is stored with its data, by rhocover collect"
        )

    def run(self, out: Hold | None, report: ReportProgress) -> Run:
        """Returns the finished run; the environment is closed then."""
        try:
            return explore_model(self.env, out=out, report=report, trace_points=TRACE_POINTS, **self.given)
        finally:
            close(self.env)


def read_env_request(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> EnvRequest:
    """Returns what to do with its texts read; refuses what is wrong with them."""
    [rho] = parse_orders([arguments["rho"]])
    place, delta = parse_place(env, settings), parse_delta(delta)
    shown = {name: value for name, value in arguments.items() if name != "step_timeout"}
    words = {"environment": env, "set": place.arguments, "mu": mu, **shown, **until, "delta": delta}
    given = arguments | {
        "rho": rho, "mu": parse_data_mu(mu), "until": parse_until(until, delta),
        "states": parse_states(arguments["states"], place.make_one, arguments["seed"]),
        "actions": parse_actions(arguments["actions"]),
    }  # fmt: skip
    world = place.make()
    names = ("rho", "num_steps", "mu", "explorer", "model", "schedule", "seed", "until")
    spec = read_spec({name: given[name] for name in names} | {"trace_points": TRACE_POINTS})
    read = read_env_run(world, spec, Encoding(given["states"], given["actions"]), given["step_timeout"])
    return EnvRequest(read, words, delta, world, given)
