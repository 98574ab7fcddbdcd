"""`rhocover explore` and `rhocover resume`: act in a model, and go on after an interruption."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rhocover.cli import data_options as d
from rhocover.cli import options as o
from rhocover.cli import run_options as r
from rhocover.cli.outputs import can_write, claimed, clear, write_all
from rhocover.cli.progress import progress
from rhocover.cli.report_option import (
    Context,
    Replace,
    Report,
    check_report,
    or_report,
    typed,
    write_report,
)
from rhocover.cli.tables import print_json, say, show

if TYPE_CHECKING:
    from rhocover.cli.knowledge import Knowledge
    from rhocover.cli.runs import Expedition
    from rhocover.exploring import Run
    from rhocover.locks import Hold
    from rhocover.report.page import Page


def explore(
    context: Context,
    env: r.World,
    rho: r.Order,
    num_steps: r.Steps = 30_000,
    explorer: r.Explorer = "feedback",
    model: r.Model = "known",
    schedule: r.Schedule = None,
    mu: r.Weights = "uniform",
    settings: o.Set = None,
    states: d.States = None,
    actions: d.Actions = None,
    seed: r.Seed = 0,
    step_timeout: r.StepTimeout = None,
    num_chains: r.Chains = 1,
    start: r.Start = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    restrict: o.Restrict = False,
    until_visits: r.UntilVisits = None,
    until_gap: r.UntilGap = None,
    until_error: r.UntilError = None,
    delta: r.Doubt = 0.05,
    json: o.Json = False,
    out: r.ExploreOut = None,
    report: Report = None,
    force: r.Anew = False,
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
    from rhocover.cli.environments import is_environment
    from rhocover.cli.outings import read_outing
    from rhocover.cli.runs import is_ours, read_expedition

    asked = (read_outing if is_environment(env) else read_expedition)(
        env, settings or [], mu,
        {"rho": rho, "num_steps": num_steps, "explorer": explorer, "model": model, "schedule": schedule,
         "seed": seed, "num_chains": num_chains, "start": start, "discount": discount, "horizon": horizon,
         "restrict": restrict, "states": states, "actions": actions, "step_timeout": step_timeout},
        {"until_visits": until_visits, "until_gap": until_gap, "until_error": until_error}, delta,
    )  # fmt: skip
    page = check_report(report, force=force)
    if out is not None and force:
        asked.check()
    with claimed(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            clear(held, or_report(is_ours, held, page))
        with telling_how_to_go_on(held), progress(f"{explorer} on {env}") as bar:
            run = asked.run(held, bar)
        known = _finish(run, asked, json, held)
    write_report(page, lambda: _page(run, known, typed(context)), force=force)


def resume(
    context: Context,
    folder: r.RunFolder,
    delta: r.StoredDoubt = None,
    json: o.Json = False,
    report: Report = None,
    force: Replace = False,
) -> None:
    """Goes on with an interrupted run, as if it had never stopped.

    DIR is the folder of `rhocover explore --out DIR`; everything else is stored there. The result has the
    bits of a run that was never interrupted. A run that is finished is shown again.

    * `rhocover resume run`
    * `rhocover resume run --json`
    """
    from rhocover import exploring
    from rhocover.cli.runs import stored_expedition

    page = check_report(report, force=force)
    asked = stored_expedition(folder, delta)
    with claimed(folder) as held:
        with telling_how_to_go_on(held), progress(f"going on with {folder}") as bar:
            run = exploring.resume(held, report=bar)
        known = _finish(run, asked, json, held)
    write_report(page, lambda: _page(run, known, typed(context)), force=force)


def _finish(run: Run, asked: Expedition, json: bool, out: Hold | None) -> Knowledge:
    """Shows the run, writes its files where a folder was named, and returns what is known of it."""
    from rhocover.cli.knowledge import knowledge_of
    from rhocover.cli.run_tables import run_table
    from rhocover.cli.runs import run_document, run_files

    known = knowledge_of(run, asked.delta, whatever_it_takes=asked.is_certified)
    document = run_document(run, asked.words, known)
    if json:
        print_json(document)
    else:
        show(run_table(run, known, asked.settings))
    if out is not None and can_write(out):
        write_all(out, run_files(run, asked, document), force=True)
        say(f"pictures, explore.json and the run itself are in {out.shown}")
    return known


def _page(run: Run, known: Knowledge, command: str) -> Page:
    from rhocover.report.page_run import page_of_run

    return page_of_run(run, command=command, certificate=known.certificate, evidence=known.evidence)


@contextmanager
def telling_how_to_go_on(folder: Hold | None) -> Iterator[None]:
    """Says on Ctrl-C how to go on, if there is something to go on with."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None and (folder.path / "run.safetensors").exists():
            say(f"What was done is kept. Go on with: rhocover resume {folder.shown}")
        raise
