"""`rhocover collect`: a data set from an environment, with a datasheet of what it covers.

With `--force`, an earlier collection in the folder is removed completely or not at all. The files of a
collection are known: its manifest, its parts and its datasheet, or in the first format its settings, its
datasheet, its log, and the data set that the settings name. Nothing
is removed if the folder holds any other file, is not a collection, or is in use by another process.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover import checks
from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.engine import open_engine
from rhocover.cli.output import print_json, print_message, print_result, progress
from rhocover.cli.places import Place, close, parse_place
from rhocover.collecting.storage import PAGE, SETTINGS, SHEET, is_begun, is_of_collection
from rhocover.datasets.collection.manifest import MANIFEST, check_id, load_manifest
from rhocover.datasets.minari.folders import NAMESPACE, is_of_data_set
from rhocover.errors import InvalidArgumentError
from rhocover.files import load_document
from rhocover.folders import LONGEST, Hold, Location, is_temporary_of, locate

if TYPE_CHECKING:
    from rhocover.collecting import Collection
    from rhocover.report.pages import Page


def collect(
    context: outputs.Context,
    env: o.Environment,
    out: o.CollectOut,
    rho: o.Rho = 2.0,
    num_steps: o.Steps = 100_000,
    explorer: o.Explorer = "feedback",
    model: o.Model = "known",
    schedule: o.Schedule = None,
    mu: o.DataWeights = "uniform",
    settings: o.EnvSet = None,
    states: o.States = None,
    actions: o.Actions = None,
    repeat: o.Repeat = 1,
    read: o.Read = None,
    level: o.Level = None,
    held_out: o.HeldOut = None,
    seed: o.Seed = 0,
    step_timeout: o.StepTimeout = None,
    num_envs: o.NumEnvs = None,
    workers: o.Actors = None,
    engine: o.Engine = None,
    address: o.Address = None,
    max_episode_steps: o.MaxEpisodeSteps = None,
    until_visits: o.UntilVisits = None,
    until_gap: o.UntilGap = None,
    until_error: o.UntilError = None,
    delta: o.RunDelta = 0.05,
    dataset_id: o.DatasetId = None,
    thin: o.Thin = 5,
    json: o.Json = False,
    report: outputs.Report = None,
    resume: o.Resume = False,
    force: o.ForceCollection = False,
) -> None:
    """Collects a data set in a Gymnasium environment, choosing actions so that its visits cover the weights.

    DIR gets Parquet files, which any tool reads, the manifest that names them, and the datasheet, as JSON and
    as a page: what is covered, how far that is from
    the best achievable, which pairs are thin, and the command that repeats the collection. After an
    interruption, `--resume` continues and produces the same data set, bit for bit.

    Environments without a transition table need `--model learned`.

    * `rhocover collect FrozenLake-v1 --rho inf --steps 20000 --out data/lake`
    * `rhocover collect FrozenLake-v1 --set map_name=8x8 --rho 2 --steps 20000 --out data/large --json`
    * `rhocover collect MountainCar-v0 --states bins:12,11 --model learned --rho 2 --steps 4000 --out car`
    * `rhocover collect Pendulum-v1 --states quantiles:4 --actions 3 --model learned --rho 1 --steps 2000
    --out data/pendulum`
    * `rhocover collect CliffWalking-v1 --model learned --num-envs 4 --rho 2 --steps 4000 --out data/cliff`
    * `rhocover collect FrozenLake-v1 --workers 4 --rho 2 --steps 4000 --out data/four`
    """
    from rhocover.cli.codes import parse_actions, parse_data_mu, parse_states
    from rhocover.cli.parsing import parse_delta, parse_orders, parse_until

    if resume and force:
        raise InvalidArgumentError.of("force", "would remove what --resume continues", remedy="Leave it out.")
    page, folder = outputs.check_report(report, force=force), locate(out)
    place = parse_place(env, settings or [], num_envs, max_episode_steps, read, level)
    until = {"until_visits": until_visits, "until_gap": until_gap, "until_error": until_error}
    asked = {
        "explorer": explorer, "model": model, "schedule": schedule, "seed": seed, "dataset_id": dataset_id,
        "step_timeout": step_timeout, "until": parse_until(until, parse_delta(delta)),
        "actions": parse_actions(actions), "repeat": repeat, "workers": workers,
    }  # fmt: skip
    [order], weights = parse_orders([rho]), parse_data_mu(mu)
    asked |= {"rho": order, "num_steps": num_steps, "mu": weights}
    world = place.make()
    try:
        maker = place.maker(world, workers)
        asked["states"] = parse_states(states, place.make_one, seed)
        asked["held_out"] = parse_states(held_out, place.make_one, seed, "--held-out")
        with (
            open_engine(engine, address) as executor,
            cleared_folder(world, asked, folder, page, force=force) as held,
            hint_to_collect_on(context, held),
            progress(f"{explorer} in {env}") as bar,
        ):
            given = asked | {"executor": executor}
            found = _collect(maker, given, held, resume, bar, repeated(context))
    finally:
        close(world)
    words = _words(place, mu, states, actions, asked, until, delta) | {"held_out": held_out}
    _finish(found, words, json, thin)
    outputs.write_report(page, lambda: _page(found), force=force)


def _collect(
    world: Any, asked: dict[str, Any], out: Location, resume: bool, bar: Any, command: str
) -> Collection:
    from rhocover import collecting

    return collecting.collect(world, out=out, resume=resume, report=bar, command=command, **asked)


@contextmanager
def cleared_folder(
    world: Any, asked: dict[str, Any], out: Location, report: Location | None, *, force: bool
) -> Iterator[Location]:
    """Yields the folder; with `force`, holds it and removes the collection in it first."""
    if not force or not out.path.exists():
        yield out
        return
    _check_begin(world, asked)

    with outputs.claim_files(out) as held:
        clear_collection(held, report)
        yield held


def _check_begin(world: Any, asked: dict[str, Any]) -> None:
    """Rejects a collection that could not start, before anything is removed for it."""
    from rhocover.collecting.collect import check_start
    from rhocover.collecting.env_run import read_env_run
    from rhocover.exploring.runs.spec import Encoding, check_multiple, read_spec

    encoding = Encoding(asked["states"], asked["actions"], asked.get("repeat", 1), asked.get("held_out"))
    read = read_env_run(world, read_spec(asked), encoding, asked.get("step_timeout"))
    check_start(read)
    if asked.get("workers") is not None:
        check_multiple(read.spec.num_steps, "workers", checks.integer(asked["workers"], "workers", least=1))
    if asked["dataset_id"] is not None:
        check_id(asked["dataset_id"])


def _words(
    place: Place, mu: str, states: str | None, actions: str | None, asked: dict[str, Any],
    until: dict[str, Any], delta: float,
) -> dict[str, Any]:  # fmt: skip
    """Returns the request as it was typed."""
    kept = ("rho", "num_steps", "explorer", "model", "schedule", "seed", "dataset_id", "repeat", "workers")
    return {
        "environment": place.name, "set": place.arguments, "num_envs": place.num_envs,
        "max_episode_steps": place.max_episode_steps, "mu": mu, "states": states, "actions": actions,
        "read": place.read, "level": place.level,
        **{name: asked[name] for name in kept}, **until, "delta": delta,
    }  # fmt: skip


def _finish(found: Collection, words: dict[str, Any], json: bool, thin: int) -> None:
    """Prints the collection and where it is stored."""
    from rhocover._version import __version__
    from rhocover.cli.result_tables import collection_table

    if json:
        print_json({"rhocover": __version__, "parameters": words, "collection": found.summary()})
    else:
        print_result(collection_table(found, thin, _how_it_ended(found, words)))
    print_message(f"the data set is in {found.path}, its datasheet is {found.page}")


def _how_it_ended(found: Collection, words: dict[str, Any]) -> list[str]:
    from rhocover.cli.parsing import format_stop, parse_until

    until = parse_until({name: words[name] for name in words if name.startswith("until_")}, words["delta"])
    is_met = found.run is not None and found.run.is_enough
    remarks = found.datasheet.get("remarks", [])
    return [format_stop(until, found.num_steps, words["num_steps"], is_met=is_met), *remarks]


def _page(found: Collection) -> Page:
    from rhocover.collecting.datasheet import page_of_collection

    return page_of_collection(found)


def repeated(context: outputs.Context) -> str:
    """Returns the command that repeats this one, for the datasheet; it does not depend on DIR."""
    return f"{outputs.format_command(context)} --out DIR"


@contextmanager
def hint_to_collect_on(context: outputs.Context, out: Location) -> Iterator[None]:
    """Prints on Ctrl-C how to continue, if anything has been stored."""
    try:
        yield
    except KeyboardInterrupt:
        if (out.path / MANIFEST).exists():
            again = f"{outputs.format_command(context)} --out {shlex.quote(out.shown)} --resume"
            print_message(f"The steps so far are stored. Continue with: {again}")
        raise


# Removing an earlier collection: completely or not at all, and never any other file.


def clear_collection(held: Hold, report: Location | None = None) -> None:
    """Removes the collection in a folder, and `report` if it is there; raises if there is anything else."""
    folder = held.path
    if not any(folder.iterdir()):
        return
    if folder.is_symlink() or not is_begun(folder):
        raise InvalidArgumentError.of(
            "out",
            f": {held.shown!r} holds no collection, and --force removes nothing else",
            remedy=outputs.ANOTHER,
        )
    _check_ours(held, report)
    for entry in list(folder.iterdir()):
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _check_ours(held: Hold, report: Location | None) -> None:
    """Raises if a folder has files or links that no collection writes."""
    folder, test = held.path, _tester(held)
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        is_report = report is not None and path == report.path
        if path.is_symlink() or not (is_report or test(name)):
            raise InvalidArgumentError.of(
                "out",
                f": {held.shown!r} holds {name!r}, which does not belong to a collection",
                remedy=f"Nothing was removed. {outputs.ANOTHER}",
            )


def _tester(held: Hold) -> Callable[[str], bool]:
    """Returns the function that says whether the collection in a folder has a file of that name."""
    place = held.path / MANIFEST
    try:
        if place.is_file():
            load_manifest(held.path)
            return is_of_collection
        place = held.path / SETTINGS
        name = load_document(place)["dataset_id"]
        check_id(name)
    except (ValueError, LookupError, TypeError) as error:
        raise InvalidArgumentError.of(
            "out",
            f": {place.name} in {held.shown!r} is damaged, so the files of the collection cannot be "
            "identified",
            remedy=f"Nothing was removed. {outputs.ANOTHER}",
        ) from error
    return lambda found: _is_of_first_format(found, name)


LOG = re.compile(r"log-\d{6,}\.safetensors")  # what an unfinished collection of the first format has


def _is_its_own(name: str) -> bool:
    return name in (SETTINGS, SHEET, PAGE) or LOG.fullmatch(name) is not None


def _is_of_first_format(name: str, dataset_id: str) -> bool:
    """Whether a collection of the first format has a file of that name, complete or partly written."""
    *spaces, last = dataset_id.split("/")
    marks = ["/".join([*spaces[: k + 1], NAMESPACE]) for k in range(len(spaces))]
    if name in marks or _is_its_own(name) or is_temporary_of(name, _is_its_own):
        return True
    above, _, rest = name.removeprefix("".join(f"{space}/" for space in spaces)).partition("/")
    is_set = above == last or is_temporary_of(above.removesuffix(".old"), last[:LONGEST].__eq__)
    return name.startswith("".join(f"{space}/" for space in spaces)) and is_set and is_of_data_set(rest)


def _files(folder: Path) -> Iterator[Path]:
    """Returns every file and link below a folder; links are not followed."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from (Path(place) / name for name in [*links, *names])
