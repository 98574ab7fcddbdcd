"""`rhocover collect`: a data set from an environment, with a datasheet of what it covers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rhocover.cli import data_options as d
from rhocover.cli import options as o
from rhocover.cli import run_options as r
from rhocover.cli.environments import Place, close, read_place
from rhocover.cli.outputs import claimed
from rhocover.cli.progress import progress
from rhocover.cli.report_option import Context, Report, check_report, typed, write_report
from rhocover.cli.tables import print_json, say, show
from rhocover.errors import InvalidArgumentError
from rhocover.locks import Location, locate

if TYPE_CHECKING:
    from rhocover.collecting import Collection
    from rhocover.report.page import Page


def collect(
    context: Context,
    env: d.Environment,
    rho: r.Order,
    out: d.CollectOut,
    num_steps: r.Steps = 100_000,
    explorer: r.Explorer = "feedback",
    model: r.Model = "known",
    schedule: r.Schedule = None,
    mu: d.Weights = "uniform",
    settings: d.Set = None,
    states: d.States = None,
    actions: d.Actions = None,
    seed: r.Seed = 0,
    step_timeout: r.StepTimeout = None,
    num_envs: d.NumEnvs = None,
    max_episode_steps: d.MaxEpisodeSteps = None,
    until_visits: r.UntilVisits = None,
    until_gap: r.UntilGap = None,
    until_error: r.UntilError = None,
    delta: r.Doubt = 0.05,
    dataset_id: d.DatasetId = None,
    thin: d.Thin = 5,
    json: o.Json = False,
    report: Report = None,
    resume: d.Resume = False,
    force: d.Anew = False,
) -> None:
    """Collects a data set in a Gymnasium environment so that its visits become the best coverage.

    DIR gets a Minari data set and its datasheet, as JSON and as a page: what is covered, how far that is from
    the best achievable, which pairs are thin, and the command that repeats it. An interrupted collection goes
    on with `--resume`, and comes to the same data set, bit for bit.

    Environments without a table of their transitions take `--model learned`.

    * `rhocover collect FrozenLake-v1 --rho inf --steps 20000 --out data/lake`
    * `rhocover collect FrozenLake-v1 --set map_name=8x8 --rho 2 --steps 20000 --out data/large --json`
    * `rhocover collect MountainCar-v0 --states bins:12,11 --model learned --rho 2 --steps 4000 --out car`
    * `rhocover collect Pendulum-v1 --states quantiles:4 --actions 3 --model learned --rho 1 --steps 2000
    --out data/pendulum`
    * `rhocover collect CliffWalking-v1 --model learned --num-envs 4 --rho 2 --steps 4000 --out data/cliff`
    """
    from rhocover.cli.data_inputs import read_actions, read_data_mu, read_states
    from rhocover.cli.inputs import read_orders
    from rhocover.cli.until import read_doubt, read_until

    if resume and force:
        raise InvalidArgumentError(
            "--resume goes on with what is in DIR, --force removes it. Pass one of them."
        )
    page, folder = check_report(report, force=force), locate(out)
    place = read_place(env, settings or [], num_envs, max_episode_steps)
    until = {"until_visits": until_visits, "until_gap": until_gap, "until_error": until_error}
    asked = {
        "explorer": explorer, "model": model, "schedule": schedule, "seed": seed, "dataset_id": dataset_id,
        "step_timeout": step_timeout, "until": read_until(until, read_doubt(delta)),
        "actions": read_actions(actions),
    }  # fmt: skip
    [order], weights = read_orders([rho]), read_data_mu(mu)
    asked |= {"rho": order, "num_steps": num_steps, "mu": weights}
    world = place.make()
    try:
        asked["states"] = read_states(states, place.make_one, seed)
        with (
            made_room(world, asked, folder, page, force=force) as held,
            telling_to_resume(context, held),
            progress(f"{explorer} in {env}") as bar,
        ):
            found = _collect(world, asked, held, resume, bar, repeated(context))
    finally:
        close(world)
    words = _words(place, mu, states, actions, asked, until, delta)
    _finish(found, words, json, thin)
    write_report(page, lambda: _page(found), force=force)


def _collect(
    world: Any, asked: dict[str, Any], out: Location, resume: bool, bar: Any, command: str
) -> Collection:
    from rhocover import collecting

    return collecting.collect(world, out=out, resume=resume, report=bar, command=command, **asked)


@contextmanager
def made_room(
    world: Any, asked: dict[str, Any], out: Location, report: Location | None, *, force: bool
) -> Iterator[Location]:
    """Yields the folder; with `force` without the collection in the way, and held from there on."""
    if not force or not out.path.exists():
        yield out
        return
    _check_begin(world, asked)
    from rhocover.cli.clearing import clear_collection

    with claimed(out) as held:
        clear_collection(held, report)
        yield held


def _check_begin(world: Any, asked: dict[str, Any]) -> None:
    """Refuses what could not be collected, before anything is removed for it."""
    from rhocover.adapters.minari_folders import check_id
    from rhocover.collecting.expedition import read_expedition
    from rhocover.collecting.storing import check_minari

    check_minari()
    given = {name: value for name, value in asked.items() if name != "dataset_id"}
    trip = read_expedition(world, trace_points=10, **given)
    if trip.problem is not None:
        trip.problem.check_plan()
    if asked["dataset_id"] is not None:
        check_id(asked["dataset_id"])


def _words(
    place: Place, mu: str, states: str | None, actions: str | None, asked: dict[str, Any],
    until: dict[str, Any], delta: float,
) -> dict[str, Any]:  # fmt: skip
    """Returns what was asked for, as it was typed."""
    kept = ("rho", "num_steps", "explorer", "model", "schedule", "seed", "dataset_id")
    return {
        "environment": place.name, "set": place.arguments, "num_envs": place.num_envs,
        "max_episode_steps": place.max_episode_steps, "mu": mu, "states": states, "actions": actions,
        **{name: asked[name] for name in kept}, **until, "delta": delta,
    }  # fmt: skip


def _finish(found: Collection, words: dict[str, Any], json: bool, thin: int) -> None:
    """Shows the collection, and says where it is."""
    from rhocover._version import __version__
    from rhocover.cli.data_tables import collection_table

    if json:
        print_json({"rhocover": __version__, "parameters": words, "collection": found.summary()})
    else:
        show(collection_table(found, thin, _how_it_ended(found, words)))
    say(f"the data set is in {found.path}, its datasheet is {found.page}")


def _how_it_ended(found: Collection, words: dict[str, Any]) -> list[str]:
    from rhocover.cli.until import read_until, stop_sentence

    until = read_until({name: words[name] for name in words if name.startswith("until_")}, words["delta"])
    is_met = found.run is not None and found.run.is_enough
    remarks = found.datasheet.get("remarks", [])
    return [stop_sentence(until, found.num_steps, words["num_steps"], is_met=is_met), *remarks]


def _page(found: Collection) -> Page:
    from rhocover.collecting.pages import page_of_collection

    return page_of_collection(found)


def repeated(context: Context) -> str:
    """Returns the command that repeats this one, for the datasheet: the same wherever DIR is."""
    return f"{typed(context)} --out DIR"


@contextmanager
def telling_to_resume(context: Context, out: Location) -> Iterator[None]:
    """Says on Ctrl-C how to go on, if there is something to go on with."""
    try:
        yield
    except KeyboardInterrupt:
        if (out.path / "collection.json").exists():
            again = f"{typed(context)} --out {shlex.quote(out.shown)} --resume"
            say(f"What was done is kept. Go on with: {again}")
        raise
