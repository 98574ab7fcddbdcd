"""`rhocover explore` and `rhocover resume`: act in a model, and continue after an interruption.

`explore` also runs in Gymnasium environments and shows such a run in the same way, but does not store it:
`rhocover collect` stores a run in an environment together with its data.
"""

from __future__ import annotations

import shlex
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
from rhocover.cli.codes import parse_actions, parse_data_mu, parse_states
from rhocover.cli.engine import open_engine
from rhocover.cli.output import json_text, print_json, print_message, print_result, progress
from rhocover.cli.parsing import parse_delta, parse_model, parse_mu, parse_orders, parse_until
from rhocover.cli.places import close, parse_place
from rhocover.cli.result_tables import Knowledge
from rhocover.collecting.env_run import read_env_run
from rhocover.errors import InvalidArgumentError
from rhocover.experiments.compare import check_run
from rhocover.exploring import Run
from rhocover.exploring import explore as explore_model
from rhocover.exploring.explorers.algorithm1 import Algorithm1
from rhocover.exploring.runs.checkpoint import OURS, SETTINGS, settings_document
from rhocover.exploring.runs.explore import check_for_model, read_folder
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
    rho: o.Rho = 2.0,
    num_steps: o.Steps = 30_000,
    explorer: o.Explorer = "feedback",
    model: o.Model = "known",
    schedule: o.Schedule = None,
    mu: o.Weights = "uniform",
    settings: o.Set = None,
    states: o.States = None,
    actions: o.Actions = None,
    repeat: o.Repeat = 1,
    read: o.Read = None,
    level: o.Level = None,
    held_out: o.HeldOut = None,
    seed: o.Seed = 0,
    step_timeout: o.StepTimeout = None,
    num_chains: o.NumChains = 1,
    workers: o.Actors = None,
    engine: o.Engine = None,
    address: o.Address = None,
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
    """Explores a model or an environment so that the visit counts approach the best coverage.

    The table compares what was reached with what is possible: the *divergence* from the weights to the
    visits, the *worst ratio* (one pair has 1/ratio of its share, and no pair has less), and the *regret*,
    which is what better actions could have saved under the same random outcomes. Until every pair with
    positive weight has been visited, these numbers do not exist, and the coverage is reported as incomplete.

    With `--model learned` the explorer has to learn the transitions. Then the output also shows the
    true gap to the best, the gap that it estimates, the gap that it can certify, and what it never reached.

    * `rhocover explore river_swim --rho 2`
    * `rhocover explore river_swim --rho 2 --steps 3000 --explorer algorithm1 --schedule quadratic:5`
    * `rhocover explore four_rooms --rho inf --steps 5000 --seed 7 --json`
    * `rhocover explore grid_world --rho 1 --steps 5000 --discount 0.95 --start 0 --num-envs 4`
    * `rhocover explore river_swim --rho 2 --model learned --steps 5000 --until-visits 100`
    * `rhocover explore river_swim --rho 1.5 --mu model_error --model from_scratch --steps 5000`
    * `rhocover explore river_swim --rho 2 --steps 5000 --out run`
    * `rhocover explore river_swim --rho 2 --workers 16 --steps 16000`
    * `rhocover explore FrozenLake-v1 --rho 2 --steps 5000`
    * `rhocover explore FrozenLake-v1 --rho 2 --workers 4 --steps 4000`
    * `rhocover explore MountainCar-v0 --states bins:6,5 --model learned --rho 2 --steps 2000`
    """
    from rhocover.cli.places import is_environment

    if out is not None and is_environment(env):
        raise _belongs_to_collect(context, out)
    asked = (read_env_request if is_environment(env) else read_run)(
        env, settings or [], mu,
        {"rho": rho, "num_steps": num_steps, "explorer": explorer, "model": model, "schedule": schedule,
         "seed": seed, "num_chains": num_chains, "workers": workers, "start": start, "discount": discount,
         "horizon": horizon, "restrict": restrict, "states": states, "actions": actions, "repeat": repeat,
         "read": read, "level": level, "step_timeout": step_timeout, "held_out": held_out},
        {"until_visits": until_visits, "until_gap": until_gap, "until_error": until_error}, delta,
    )  # fmt: skip
    page = outputs.check_report(report, force=force)
    if out is not None and force:
        asked.check()
    with outputs.claim_files(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            outputs.clear(held, outputs.or_report(is_ours, held, page))
        title = f"{explorer} on {env}"
        with open_engine(engine, address) as opened, hint_to_resume(held), progress(title) as bar:
            run = asked.run(held, bar, opened)
        known = _finish(run, asked, json, held)
    outputs.write_report(page, lambda: _page(run, known, outputs.format_command(context)), force=force)


def _belongs_to_collect(context: outputs.Context, out: Path) -> InvalidArgumentError:
    """Returns the error that names the command which stores a run in an environment."""
    again = outputs.format_command(context).replace(" explore ", " collect ", 1)
    return InvalidArgumentError.of(
        "out", "is only for models", remedy=f"Store the data as well: {again} --out {shlex.quote(str(out))}"
    )


def resume(
    context: outputs.Context,
    folder: o.RunFolder,
    delta: o.StoredDelta = None,
    engine: o.Engine = None,
    address: o.Address = None,
    json: o.Json = False,
    report: outputs.Report = None,
    force: outputs.Replace = False,
) -> None:
    """Continues an interrupted run as if it had never stopped.

    DIR is the folder of `rhocover explore --out DIR`; all settings are stored there. The result equals that
    of a run without interruption, bit for bit. A finished run is shown again.

    * `rhocover resume run`
    * `rhocover resume run --json`
    """
    from rhocover import exploring

    page = outputs.check_report(report, force=force)
    asked = stored_request(folder, delta)
    with outputs.claim_files(folder) as held:
        title = f"resuming {folder}"
        with open_engine(engine, address) as opened, hint_to_resume(held), progress(title) as bar:
            run = exploring.resume(held, executor=opened, report=bar)
        known = _finish(run, asked, json, held)
    outputs.write_report(page, lambda: _page(run, known, outputs.format_command(context)), force=force)


def _finish(run: Run, asked: ExploreRequest, json: bool, out: Hold | None) -> Knowledge:
    """Prints the run, writes its files if a folder was given, and returns what is known about it."""
    from rhocover.cli.result_tables import knowledge_of, run_table

    known = knowledge_of(run, asked.delta, whatever_it_takes=asked.is_certified)
    document = run_document(run, asked.words, known)
    if json:
        print_json(document)
    else:
        print_result(run_table(run, known, asked.settings.spec))
    if out is not None and outputs.can_write(out):
        outputs.write_all(out, run_files(run, asked, document), force=True)
        print_message(f"figures, explore.json and the run are in {out.shown}")
    return known


def _page(run: Run, known: Knowledge, command: str) -> Page:
    from rhocover.report.pages.run import page_of_run

    return page_of_run(run, command=command, certificate=known.certificate, evidence=known.evidence)


@contextmanager
def hint_to_resume(folder: Hold | None) -> Iterator[None]:
    """Prints on Ctrl-C how to continue, if a checkpoint has been stored."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None and (folder.path / "run.safetensors").exists():
            print_message(f"The steps so far are stored. Continue with: rhocover resume {folder.shown}")
        raise


# The request of `rhocover explore`: parsed, run and written to files.

DOCUMENT, TRACE_POINTS = "explore.json", 10
PICTURES = ("run.png", "visits.png", "ratio.png", "snapshots.png")
LONGEST_SNAPSHOTS = 1_000_000  # steps; the maps at earlier times need the run to be repeated
ReportProgress = Callable[[int, int], None] | None


@dataclass(frozen=True, eq=False)
class ExploreRequest:
    """The settings of a run, the same as typed, and the failure probability of its certificate."""

    settings: Any  # a ModelRun or an EnvRun
    words: dict[str, Any]
    delta: float

    @property
    def is_certified(self) -> bool:
        """Whether a certificate was asked for, however long it takes."""
        return isinstance(self.settings.spec.until, CertifiedGap)

    def check(self) -> None:
        """Raises whatever `explore` would raise, before anything is removed."""
        check_run(self.settings)

    def run(self, out: Hold | None, report: ReportProgress, executor: Any = None) -> Run:
        """Returns the finished run."""
        mdp, spec, given = self.settings.mdp, self.settings.spec, keywords(self.settings)
        given |= {"until": spec.until, "executor": executor, "out": out, "report": report}
        return explore_model(mdp, spec.rho, spec.num_steps, **given)


def keywords(asked: ModelRun) -> dict[str, Any]:
    """Returns the keyword arguments of `explore` that decide what a run of any length does."""
    given = {name: getattr(asked.spec, name) for name in ("mu", "explorer", "model", "seed")}
    criterion = {name: getattr(asked.spec.criterion, name) for name in CRITERION}
    shared = {"workers": asked.workers} if asked.is_shared else {"num_chains": asked.num_chains}
    return given | criterion | shared


def read_run(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> ExploreRequest:
    """Returns the request, parsed and checked."""
    [rho] = parse_orders([arguments["rho"]])
    arguments = _of_a_model(arguments)
    mdp, parameters = parse_model(env, settings)
    weights = parse_mu(mu, mdp, arguments["model"])
    delta = parse_delta(delta)
    given = {"mu": weights, "trace_points": TRACE_POINTS, "until": parse_until(until, delta)}
    spec = read_spec(arguments | given | {"rho": rho})
    read = read_model_run(mdp, spec, arguments["num_chains"], arguments["workers"])
    words = {"environment": env, "set": parameters, "mu": mu, **arguments, **until, "delta": delta}
    return ExploreRequest(read, words, delta)


def _of_a_model(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments without those for environments; raises if one of these is given."""
    own = ("states", "actions", "repeat", "step_timeout", "held_out", "read", "level")
    check_for_model(**{name: arguments[name] for name in own})
    return {name: value for name, value in arguments.items() if name not in own}


def stored_request(folder: Path, delta: float | None) -> ExploreRequest:
    """Returns the request of the run in a folder."""
    if not (folder / SETTINGS).is_file():
        raise InvalidArgumentError.of(
            "folder", f"{str(folder)!r} holds no run", remedy=outputs.folder_with(SETTINGS, "explore")
        )
    settings = read_folder(folder)
    delta = parse_delta(delta, settings.spec.until)
    return ExploreRequest(settings, settings_document(settings) | {"delta": delta}, delta)


def run_document(run: Run, words: dict[str, Any], known: Knowledge) -> dict[str, Any]:
    """Returns the request, the result and what is known about it, ready for JSON."""
    found = {"rhocover": __version__, "parameters": words, "run": run.summary()}
    return found | known.document(run)


def is_ours(name: str) -> bool:
    """Whether a run, or this command, writes files of that name."""
    return name in (*OURS, DOCUMENT, *PICTURES)


def run_files(run: Run, asked: ExploreRequest, document: dict[str, Any]) -> dict[str, outputs.Writer]:
    """Returns the files to write by name; `document` is what `run_document` returned."""
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
    """Returns each pair's share of the visits `[S, A]`, summed over the steps of an episode."""
    return run.occupancy if run.occupancy.ndim == 2 else run.occupancy.sum(axis=0)


def _ratio_title(run: Run) -> str:
    step = ", worst step" if run.occupancy.ndim == 3 else ""
    return f"Target / visits of {as_text(run.mdp.name or 'the model')}{step}"


def _snapshots(run: Run, asked: ModelRun) -> Figure:
    """Returns maps at powers of ten steps, starting after the first episode, and at the end of the run."""
    explorer, chains = asked.spec.explorer, asked.num_chains
    first = explorer.schedule.length(1, 0) if isinstance(explorer, Algorithm1) else 1
    rounded = {-(-t // chains) * chains for t in decades(run.num_steps, max(100, first))}
    before = sorted(t for t in rounded if t < run.num_steps)
    runs = snapshots(asked.mdp, asked.spec.rho, before, **keywords(asked)) if before else []
    return snapshot_figure([*runs, run], f"{_ratio_title(run)}, during the run")


def _draw(make: Callable[[], Figure], path: Path) -> None:
    save_figure(make(), path)


def _write_document(document: dict[str, Any], path: Path) -> None:
    write_atomically(path, json_text(document).encode())


# The request of `rhocover explore` in a Gymnasium environment: parsed and run.


@dataclass(frozen=True, eq=False)
class EnvRequest(ExploreRequest):
    """A run in an environment; `given` are the keyword arguments of `explore`."""

    env: Any
    maker: Any  # what to explore: the environment, or for workers what makes one
    given: dict[str, Any]

    def run(self, out: Hold | None, report: ReportProgress, executor: Any = None) -> Run:
        """Returns the finished run and closes the environment."""
        given = self.given | {"executor": executor, "out": out, "report": report}
        try:
            return explore_model(self.maker, trace_points=TRACE_POINTS, **given)
        finally:
            close(self.env)


def read_env_request(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> EnvRequest:
    """Returns the request, parsed and checked."""
    [rho] = parse_orders([arguments["rho"]])
    own = {name: arguments[name] for name in ("num_chains", "read", "level")}
    place, delta = (
        parse_place(env, settings, own["num_chains"], None, read=own["read"], level=own["level"]),
        parse_delta(delta),
    )
    shown = {name: value for name, value in arguments.items() if name != "step_timeout"}
    words = {"environment": env, "set": place.arguments, "mu": mu, **shown, **until, "delta": delta}
    given = {name: value for name, value in arguments.items() if name not in own} | {
        "rho": rho, "mu": parse_data_mu(mu), "until": parse_until(until, delta),
        "states": parse_states(arguments["states"], place.make_one, arguments["seed"]),
        "actions": parse_actions(arguments["actions"]),
        "held_out": parse_states(
            arguments["held_out"], place.make_one, arguments["seed"], "--held-out"
        ),
    }  # fmt: skip
    world = place.make()
    maker = place.maker(world, arguments["workers"])
    names = ("rho", "num_steps", "mu", "explorer", "model", "schedule", "seed", "until")
    spec = read_spec({name: given[name] for name in names} | {"trace_points": TRACE_POINTS})
    encoding = Encoding(given["states"], given["actions"], given["repeat"], given["held_out"])
    asked = read_env_run(world, spec, encoding, given["step_timeout"])
    return EnvRequest(asked, words, delta, world, maker, given)
