"""What `rhocover explore` was asked for: read from texts, run, and written to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover._version import __version__
from rhocover.checks import FloatArray
from rhocover.cli.inputs import read_model, read_mu, read_orders
from rhocover.cli.knowledge import Knowledge
from rhocover.cli.outputs import Writer
from rhocover.cli.tables import json_text
from rhocover.cli.until import read_doubt, read_until
from rhocover.errors import InvalidArgumentError
from rhocover.experiments.reading import check_run
from rhocover.exploring import Run, explore
from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.checkpoints import OURS
from rhocover.exploring.resuming import read_folder
from rhocover.exploring.settings import Settings, read_settings
from rhocover.exploring.stopping import CertifiedGap
from rhocover.exploring.storage import settings_document
from rhocover.files import write_atomically
from rhocover.locks import Hold
from rhocover.report.drawing import as_text
from rhocover.report.figures import occupancy_figure, save_figure
from rhocover.report.journey import run_figure
from rhocover.report.snapshots import decades, snapshot_figure, snapshots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCUMENT, TRACE_POINTS = "explore.json", 10
PICTURES = ("run.png", "visits.png", "ratio.png", "snapshots.png")
LONGEST_SNAPSHOTS = 1_000_000  # steps; for the maps on the way the run is begun anew
Report = Callable[[int, int], None] | None


@dataclass(frozen=True, eq=False)
class Expedition:
    """What a run does, the same in words, and how often what is said of it may be wrong."""

    settings: Settings
    words: dict[str, Any]
    delta: float

    @property
    def is_certified(self) -> bool:
        """Whether a certificate was asked for, however long it takes."""
        return isinstance(self.settings.until, CertifiedGap)

    def check(self) -> None:
        """Refuses what `explore` would refuse, before anything is removed."""
        check_run(self.settings)

    def run(self, out: Hold | None, report: Report) -> Run:
        """Returns the finished run."""
        asked, given = self.settings, keywords(self.settings)
        return explore(
            asked.mdp, asked.rho, asked.num_steps, until=asked.until, out=out, report=report, **given
        )


def keywords(settings: Settings) -> dict[str, Any]:
    """Returns the keyword arguments of `explore` that decide what a run of any length does."""
    names = ("mu", "explorer", "model", "seed", "start", "discount", "horizon", "restrict", "num_chains")
    return {name: getattr(settings, name) for name in names}


def read_expedition(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> Expedition:
    """Returns what to do with its texts read; refuses what is wrong with them."""
    [rho] = read_orders([arguments["rho"]])
    arguments = _of_a_model(arguments)
    mdp, parameters = read_model(env, settings)
    weights = read_mu(mu, mdp, arguments["model"])
    delta = read_doubt(delta)
    read = read_settings(
        mdp, mu=weights, trace_points=TRACE_POINTS, until=read_until(until, delta), **arguments | {"rho": rho}
    )
    words = {"environment": env, "set": parameters, "mu": mu, **arguments, **until, "delta": delta}
    return Expedition(read, words, delta)


def _of_a_model(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments without those that are for environments, which must not be given."""
    if arguments.get("states") is not None or arguments.get("actions") is not None:
        raise InvalidArgumentError("`states` and `actions` are for environments: a model has its own.")
    if arguments.get("step_timeout") is not None:
        raise InvalidArgumentError("`step_timeout` is for environments: a model never hangs. Leave it out.")
    own = ("states", "actions", "step_timeout")
    return {name: value for name, value in arguments.items() if name not in own}


def stored_expedition(folder: Path, delta: float | None) -> Expedition:
    """Returns what the run in a folder does."""
    settings = read_folder(folder)
    delta = read_doubt(delta, settings.until)
    return Expedition(settings, settings_document(settings) | {"delta": delta}, delta)


def run_document(run: Run, words: dict[str, Any], known: Knowledge) -> dict[str, Any]:
    """Returns what was asked, what was reached and what is known of it, ready for JSON."""
    found = {"rhocover": __version__, "parameters": words, "run": run.summary()}
    return found | known.document(run)


def is_ours(name: str) -> bool:
    """Whether a run, or this command, writes files of that name."""
    return name in (*OURS, DOCUMENT, *PICTURES)


def run_files(run: Run, asked: Expedition, document: dict[str, Any]) -> dict[str, Writer]:
    """Returns the files to write by name; `document` is that of the run."""
    name = as_text(run.mdp.name or "the model")
    figures: dict[str, Callable[[], Figure]] = {
        "run.png": partial(run_figure, run),
        "visits.png": partial(occupancy_figure, run.mdp, visits(run), f"Visits of {name}"),
        "ratio.png": partial(snapshot_figure, [run], _ratio_title(run)),
    }
    if run.num_steps <= LONGEST_SNAPSHOTS:
        figures["snapshots.png"] = partial(_snapshots, run, asked.settings)
    files: dict[str, Writer] = {DOCUMENT: partial(_write_document, document)}
    return files | {picture: partial(_draw, make) for picture, make in figures.items()}


def visits(run: Run) -> FloatArray:
    """Returns the share of the visits of each pair `[S, A]`, over all steps of an episode."""
    return run.occupancy if run.occupancy.ndim == 2 else run.occupancy.sum(axis=0)


def _ratio_title(run: Run) -> str:
    step = ", worst step" if run.occupancy.ndim == 3 else ""
    return f"Target / visits of {as_text(run.mdp.name or 'the model')}{step}"


def _snapshots(run: Run, settings: Settings) -> Figure:
    """Returns maps at powers of ten, from the first episode on, and of the run itself at its end."""
    explorer, chains = settings.explorer, settings.num_chains
    first = explorer.schedule.length(1, 0) if isinstance(explorer, Algorithm1) else 1
    rounded = {-(-t // chains) * chains for t in decades(run.num_steps, max(100, first))}
    before = sorted(t for t in rounded if t < run.num_steps)
    runs = snapshots(settings.mdp, settings.rho, before, **keywords(settings)) if before else []
    return snapshot_figure([*runs, run], f"{_ratio_title(run)}, as the run goes on")


def _draw(make: Callable[[], Figure], path: Path) -> None:
    save_figure(make(), path)


def _write_document(document: dict[str, Any], path: Path) -> None:
    write_atomically(path, json_text(document).encode())
