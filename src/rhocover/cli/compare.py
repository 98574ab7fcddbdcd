"""`rhocover compare`: several explorers on several models, with the same seeds and budgets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rhocover.cli import options as o
from rhocover.cli import run_options as r
from rhocover.cli.outputs import can_write, claimed, clear, write_all
from rhocover.cli.progress import progress
from rhocover.cli.report_option import Context, Report, check_report, or_report, typed, write_report
from rhocover.cli.tables import print_json, say, show
from rhocover.errors import InvalidArgumentError

if TYPE_CHECKING:
    from rhocover.experiments import Comparison
    from rhocover.locks import Hold
    from rhocover.report.page import Page


def compare(
    context: Context,
    env: r.Envs = None,
    rho: r.Orders = None,
    explorer: r.Explorers = None,
    num_steps: r.Steps = 30_000,
    seeds: r.Seeds = 20,
    model: r.Model = "known",
    schedule: r.Schedule = None,
    mu: r.Weights = "uniform",
    settings: o.Set = None,
    num_chains: r.Chains = 1,
    start: r.Start = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    restrict: o.Restrict = False,
    workers: r.Workers = None,
    json: o.Json = False,
    out: r.CompareOut = None,
    redraw: r.Redraw = None,
    report: Report = None,
    force: r.Anew = False,
) -> None:
    """Runs several explorers with the same seeds and budgets, and shows what each of them reaches.

    For each model and rho there is a table: the mean *regret* over the seeds, the number of steps times the
    *Bregman* part of the suboptimality (no explorer stays below the number that is possible), the *worst
    ratio*, each with its standard error, and the *exponent* with which regret falls. If a seed never saw
    every pair, that is said instead. With a learned model the *model error* takes the place of the exponent.

    * `rhocover compare river_swim --steps 3000 --seeds 4`
    * `rhocover compare river_swim wheel --rho 2 --rho inf --steps 1000 --seeds 3 --workers 1`
    * `rhocover compare river_swim --explorer feedback --explorer tracking --steps 3000 --seeds 4 --out runs`
    * `rhocover compare river_swim --model learned --steps 2000 --seeds 2`
    * `rhocover compare --redraw runs`
    """
    page = check_report(report, force=force)
    if redraw is not None:
        found = _redraw(redraw, bool(env) or out is not None or (force and report is None), json)
        again = shlex.join(["rhocover", "compare", "--redraw", str(redraw)])
        write_report(page, lambda: _page(found, again), force=force)
        return
    from rhocover.cli.comparing import is_ours, read_comparison, run_comparison
    from rhocover.experiments.compare import check_question

    if not env:
        raise InvalidArgumentError("name at least one ENV, or --redraw DIR.")
    asked = read_comparison(
        env, settings or [], mu, rho, explorer,
        {"num_steps": num_steps, "model": model, "seeds": seeds, "schedule": schedule,
         "num_chains": num_chains, "start": start, "discount": discount, "horizon": horizon,
         "restrict": restrict},
    )  # fmt: skip
    if out is not None and force:
        check_question(**asked)  # nothing is removed for what could not be run
    with claimed(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            clear(held, or_report(is_ours, held, page))
        with telling_to_repeat(held), progress("runs") as bar:
            found = run_comparison(asked, workers, held, bar)
        _finish(found, json, held)
    write_report(page, lambda: _page(found, typed(context)), force=force)


def _redraw(folder: Path, is_asked_more: bool, json: bool) -> Comparison:
    from rhocover.experiments import Comparison

    if is_asked_more:
        raise InvalidArgumentError("--redraw DIR runs nothing: it goes without ENV, --out and --force.")
    if not folder.is_dir():
        raise InvalidArgumentError(f"`redraw`: there is no folder {str(folder)!r}.")
    with claimed(folder) as held:
        found = Comparison.load(folder)
        _finish(found, json, held)
    return found


@contextmanager
def telling_to_repeat(folder: Hold | None) -> Iterator[None]:
    """Says on Ctrl-C how to go on, if there is something to go on with."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None:
            say(f"What was done is kept in {folder.shown}. Go on with the same command.")
        raise


def _page(found: Comparison, command: str) -> Page:
    from rhocover.report.page_comparison import page_of_comparison

    return page_of_comparison(found, command=command)


def _finish(found: Comparison, json: bool, out: Hold | None) -> None:
    """Shows the comparison, and writes its files where a folder was named."""
    from rhocover.cli.comparing import comparison_document, comparison_files
    from rhocover.cli.run_tables import comparison_tables

    if json:
        print_json(comparison_document(found))
    else:
        show(*comparison_tables(found))
    if out is not None and can_write(out):
        write_all(out, comparison_files(found), force=True)
        say(f"pictures, compare.json and the numbers behind them are in {out.shown}")
