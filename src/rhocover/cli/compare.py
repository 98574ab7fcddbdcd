"""`rhocover compare`: several explorers on several models, with the same seeds and budgets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover._version import __version__
from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.output import json_text, print_json, print_message, print_result, progress
from rhocover.cli.parsing import format_order, parse_model, parse_mu, parse_orders
from rhocover.errors import InvalidArgumentError
from rhocover.experiments import Comparison
from rhocover.experiments import compare as compare_explorers
from rhocover.experiments.compare import EXPLORERS
from rhocover.experiments.comparison import comparison_regret_figure, comparison_worst_ratio_figure
from rhocover.experiments.finished_runs import FILE
from rhocover.files import write_atomically
from rhocover.folders import Hold
from rhocover.report.figures import save_figure

if TYPE_CHECKING:
    from rhocover.report.pages import Page


def compare(
    context: outputs.Context,
    env: o.Envs = None,
    rho: o.Orders = None,
    explorer: o.Explorers = None,
    num_steps: o.Steps = 30_000,
    seeds: o.Seeds = 20,
    model: o.Model = "known",
    schedule: o.Schedule = None,
    mu: o.Weights = "uniform",
    settings: o.Set = None,
    num_chains: o.Chains = 1,
    start: o.RunStart = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    restrict: o.Restrict = False,
    workers: o.Workers = None,
    json: o.Json = False,
    out: o.CompareOut = None,
    redraw: o.Redraw = None,
    report: outputs.Report = None,
    force: o.ForceRun = False,
) -> None:
    """Runs several explorers with the same seeds and budgets, and shows what each of them reaches.

    There is one table for each model and rho. It shows the mean *regret* over the seeds, the number of steps
    times the *Bregman* part of the suboptimality (on average, no explorer stays below the row "possible"),
    the *worst ratio*, each with its standard error, and the *exponent* with which the regret falls. If a seed
    did not visit every pair, the table says so instead. With a learned model, the *model error* replaces the
    exponent.

    * `rhocover compare river_swim --steps 3000 --seeds 4`
    * `rhocover compare river_swim wheel --rho 2 --rho inf --steps 1000 --seeds 3 --workers 1`
    * `rhocover compare river_swim --explorer feedback --explorer tracking --steps 3000 --seeds 4 --out runs`
    * `rhocover compare river_swim --model learned --steps 2000 --seeds 2`
    * `rhocover compare --redraw runs`
    """
    page = outputs.check_report(report, force=force)
    if redraw is not None:
        found = _redraw(redraw, bool(env) or out is not None or (force and report is None), json)
        again = shlex.join(["rhocover", "compare", "--redraw", str(redraw)])
        outputs.write_report(page, lambda: _page(found, again), force=force)
        return
    from rhocover.experiments.compare import check_question

    if not env:
        raise InvalidArgumentError("expected at least one ENV, or --redraw DIR.", argument="env")
    asked = read_comparison(
        env, settings or [], mu, rho, explorer,
        {"num_steps": num_steps, "model": model, "seeds": seeds, "schedule": schedule,
         "num_chains": num_chains, "start": start, "discount": discount, "horizon": horizon,
         "restrict": restrict},
    )  # fmt: skip
    if out is not None and force:
        check_question(**asked)  # nothing is removed for a comparison that could not run
    with outputs.claim_files(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            outputs.clear(held, outputs.or_report(is_ours, held, page))
        with hint_to_compare_on(held), progress("runs") as bar:
            found = run_comparison(asked, workers, held, bar)
        _finish(found, json, held)
    outputs.write_report(page, lambda: _page(found, outputs.format_command(context)), force=force)


def _redraw(folder: Path, is_asked_more: bool, json: bool) -> Comparison:
    from rhocover.experiments import Comparison

    if is_asked_more:
        raise InvalidArgumentError(
            "--redraw DIR runs nothing: leave out ENV, --out and --force.", argument="redraw"
        )
    if not folder.is_dir():
        raise InvalidArgumentError.of("redraw", f": there is no folder {str(folder)!r}")
    with outputs.claim_files(folder) as held:
        found = Comparison.load(folder)
        _finish(found, json, held)
    return found


@contextmanager
def hint_to_compare_on(folder: Hold | None) -> Iterator[None]:
    """Prints on Ctrl-C how to continue, if the runs are stored."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None:
            print_message(f"The finished runs are stored in {folder.shown}. Continue with the same command.")
        raise


def _page(found: Comparison, command: str) -> Page:
    from rhocover.report.pages.comparison import page_of_comparison

    return page_of_comparison(found, command=command)


def _finish(found: Comparison, json: bool, out: Hold | None) -> None:
    """Prints the comparison, and writes its files if a folder was given."""
    from rhocover.cli.result_tables import comparison_tables

    if json:
        print_json(comparison_document(found))
    else:
        print_result(*comparison_tables(found))
    if out is not None and outputs.can_write(out):
        outputs.write_all(out, comparison_files(found), force=True)
        print_message(f"figures, compare.json and the runs are in {out.shown}")


# The request of `rhocover compare`: parsed, run and drawn.

DOCUMENT = "compare.json"
KINDS = ("regret", "bregman", "worst-ratio")  # of pictures


def read_comparison(
    env: Sequence[str], settings: Sequence[str], mu: str, rho: Sequence[float] | None,
    explorer: Sequence[str] | None, arguments: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Returns the arguments of `compare`, parsed and checked."""
    if settings and len(env) > 1:
        raise InvalidArgumentError(
            "--set needs exactly one ENV: every model has its own parameters.", argument="settings"
        )
    models = {_label(text): parse_model(text, settings)[0] for text in env}
    if len(models) < len(env):
        raise InvalidArgumentError(f"each ENV must be given only once, got {' '.join(env)}.", argument="env")
    weights = {name: parse_mu(mu, mdp, arguments["model"]) for name, mdp in models.items()}
    return {
        "envs": models,
        "explorers": list(explorer or EXPLORERS),
        "rho": parse_orders(rho or [2.0]),
        "mu": weights,
        **arguments,
    }


def _label(env: str) -> str:
    """Returns the name of a model in tables and file names: as typed, without the suffix of a file."""
    return Path(env).name.removesuffix(".safetensors")


def run_comparison(
    asked: dict[str, Any],
    workers: int | None,
    out: Path | Hold | None,
    report: Callable[[int, int], None] | None,
) -> Any:
    """Returns the finished comparison."""
    return compare_explorers(workers=workers, out=out, report=report, **asked)


def is_ours(name: str) -> bool:
    """Whether `compare`, or this command, writes files of that name."""
    return name in (FILE, DOCUMENT) or bool(re.fullmatch(rf"({'|'.join(KINDS)})-.+-rho-.+\.png", name))


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Returns the request and the final rows, ready for JSON."""
    rows = [row.summary() for row in found.table()]
    return {"rhocover": __version__, "parameters": dict(found.question), "rows": rows}


def comparison_files(found: Comparison) -> dict[str, outputs.Writer]:
    """Returns the files to write by name: three figures for each model and order, and the document."""
    files: dict[str, outputs.Writer] = {DOCUMENT: partial(_write_document, found)}
    for env in found.envs:
        for rho in found.orders:
            files |= cell_pictures(found, env, rho, f"{_file_name(env)}-rho-{format_order(rho)}.png")
    return files


def cell_pictures(found: Comparison, env: str, rho: float, ending: str) -> dict[str, outputs.Writer]:
    """Returns the figures of one model and order by name."""
    figures = (
        partial(comparison_regret_figure, found, env, rho),
        partial(comparison_regret_figure, found, env, rho, part="bregman"),
        partial(comparison_worst_ratio_figure, found, env, rho),
    )
    return {f"{kind}-{ending}": partial(_draw, make) for kind, make in zip(KINDS, figures, strict=True)}


def _file_name(env: str) -> str:
    return re.sub(r"[^\w.-]+", "-", env)


def _draw(make: Callable[[], Any], path: Path) -> None:
    save_figure(make(), path)


def _write_document(found: Comparison, path: Path) -> None:
    write_atomically(path, json_text(comparison_document(found)).encode())
