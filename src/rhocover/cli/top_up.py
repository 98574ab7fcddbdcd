"""`rhocover top-up`: plans what to add to a data set, or collects it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.audit import read_codes, read_env
from rhocover.cli.collect import cleared_folder, hint_to_collect_on, repeated
from rhocover.cli.data_sets import explained, parse_data
from rhocover.cli.output import print_json, print_message, print_result, progress, waiting
from rhocover.cli.places import Place, close
from rhocover.collecting import TopUp
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.files import save_tensors, write_atomically
from rhocover.folders import Location, is_called, locate, remove_left

if TYPE_CHECKING:
    from rhocover.datasets.read_options import ReadData
    from rhocover.report.pages import Page

Knowledge = Annotated[
    str | None,
    Option(
        "--model",
        metavar="NAME",
        help="With --env: known (its transition table) or learned; default: known if there is a table, else "
        "learned.",
        rich_help_panel=o.RUN,
    ),
]
Steps = Annotated[
    int,
    o.integer_option("--steps", "N", "The number of steps to add.", o.RUN),
]


def top_up(
    context: outputs.Context,
    data: o.Data,
    num_steps: Steps,
    rho: o.Rho = 2.0,
    mu: o.DataWeights = "uniform",
    env: o.MoreEnv = None,
    settings: o.EnvSet = None,
    states: o.States = None,
    actions: o.Actions = None,
    columns: o.ColumnNames = None,
    repeat: o.StoredRepeat = None,
    read: o.Read = None,
    level: o.Level = None,
    num_states: o.NumStates = None,
    num_actions: o.NumActions = None,
    model: Knowledge = None,
    seed: o.Seed = 0,
    step_timeout: o.StepTimeout = None,
    max_episode_steps: o.MaxEpisodeSteps = None,
    dataset_id: o.DatasetId = None,
    thin: o.Thin = 5,
    json: o.Json = False,
    policy: o.Policy = None,
    out: o.MoreOut = None,
    report: outputs.Report = None,
    resume: o.Resume = False,
    force: o.ForceCollection = False,
) -> None:
    """Plans what to add to a data set so that old and new data together cover best, or collects it.

    The table shows the coverage before, the coverage predicted after the addition, and what the same number
    of steps could reach if all of them were collected anew. The policy is planned on the transitions observed
    in the data, or on the transition table of `--env`. With `--env` and `--out` the steps are taken and
    stored as a data set of their own with a datasheet. The old data is not changed.

    * `rhocover top-up data/lake --steps 10000 --rho inf --policy policy.csv`
    * `rhocover top-up data/lake --steps 5000 --rho inf --env FrozenLake-v1 --out data/more`
    * `rhocover top-up steps.csv --steps 5000 --env FrozenLake-v1 --json`
    """
    from rhocover.cli.codes import UNFITTED, parse_actions, parse_columns, parse_data_mu, parse_states
    from rhocover.datasets.reading import find_data, stored_setting

    _check_goal(out, resume=resume, force=force, dataset_id=dataset_id)
    page, table = outputs.check_report(report, force=force), check_policy(policy, force=force)
    folder = None if out is None else locate(out)
    place = read_env(env, settings or [], max_episode_steps, read, level)
    asked = {
        "num_steps": num_steps, "rho": rho, "mu": parse_data_mu(mu), "seed": seed, "dataset_id": dataset_id,
        "model": model, "out": folder, "resume": resume, "step_timeout": step_timeout,
    }  # fmt: skip
    _check_other(data, out)
    place_of_data = parse_data(data)
    with (
        waiting(f"counting {' '.join(data)}"),
        explained(data, num_states=num_states, num_actions=num_actions),
    ):
        where = find_data(place_of_data)
        coded = parse_states(states, UNFITTED if place is None else place.make_one, seed)
        asked |= read_codes(where, coded, parse_actions(actions), is_known=False)
        asked["repeat"] = repeat or stored_setting(where, "repeat") or 1
        sizes = {"num_states": num_states, "num_actions": num_actions, "columns": parse_columns(columns)}
        old = _counted(where, place, asked, sizes)
        counted, asked["states"] = old.tally, old.states  # a code is fitted to the data, or grows with them
    if place is None or folder is None:
        found = _planned(counted, place, asked)
    else:
        with (
            _open(place) as world,
            _cleared_folder(world, asked, folder, page, force=force) as held,
            hint_to_collect_on(context, held),
            progress(f"adding to {' '.join(data)}") as bar,
        ):
            found = _collected(counted, world, asked | {"out": held}, bar, repeated(context))
    words = {
        "data": place_of_data, "environment": env, "set": {} if place is None else place.arguments, "mu": mu,
        "states": states, "actions": actions, "read": read, "level": level,
        "num_states": num_states, "num_actions": num_actions, "columns": sizes["columns"],
        **{name: asked[name] for name in ("num_steps", "rho", "seed", "dataset_id", "model", "repeat")},
    }  # fmt: skip
    _finish(found, words, json, thin, table, force)
    outputs.write_report(page, lambda: _page(found, outputs.format_command(context)), force=force)


def _check_goal(out: Path | None, *, resume: bool, force: bool, dataset_id: str | None) -> None:
    """Raises if options contradict each other, or would have no effect."""
    if resume and force:
        raise InvalidArgumentError.of("force", "would remove what --resume continues", remedy="Leave it out.")
    if out is None and (resume or dataset_id is not None):
        name = "resume" if resume else "dataset_id"
        raise InvalidArgumentError.of(
            name, parse_text("is for new data, which need `out`"), remedy="Leave it out."
        )


def _check_other(data: Sequence[str], out: Path | None) -> None:
    """Raises if the new data would be written to the folder of the old, which --force would remove."""
    if out is not None and out.exists() and out.resolve() in [Path(name).resolve() for name in data]:
        raise InvalidArgumentError.of(
            "out", "is the folder of DATA, which stays as it is", remedy=outputs.ANOTHER
        )


def _counted(data: Any, place: Place | None, asked: dict[str, Any], sizes: dict[str, Any]) -> ReadData:
    """Returns the tally of the data, with the given numbers of states and actions and chosen columns."""
    from rhocover.datasets.read_options import ReadOptions
    from rhocover.datasets.reading import read_data

    how = ReadOptions(states=asked["states"], actions=asked["actions"], **sizes)
    if place is None:
        return read_data(data, how)
    with _open(place) as world:
        spaces = world.observation_space, world.action_space
    number = getattr(spaces[1], "n", None) if how.actions is None else None
    number = number if how.num_actions is None else how.num_actions
    return read_data(data, replace(how, num_actions=number, action_labels=(), code_spaces=spaces))


@contextmanager
def _open(place: Place) -> Iterator[Any]:
    """Yields the environment, and closes it at the end."""
    world = place.make()
    try:
        yield world
    finally:
        close(world)


def _cleared_folder(
    world: Any, asked: dict[str, Any], out: Location, report: Location | None, *, force: bool
) -> AbstractContextManager[Location]:
    """Yields the folder; with `force`, removes the collection in it once the new one is sure to start."""
    has_table = hasattr(world.unwrapped, "P") and asked["states"] is None and asked["repeat"] == 1
    names = ("rho", "num_steps", "mu", "seed", "states", "actions", "repeat", "dataset_id")
    given = {name: asked[name] for name in names} | {"explorer": "feedback", "schedule": None, "until": None}
    given |= {"model": asked["model"] or ("known" if has_table else "learned")}
    return cleared_folder(world, given, out, report, force=force)


def _planned(counted: Any, place: Place | None, asked: dict[str, Any]) -> TopUp:
    """Returns the plan only: on the environment's transition table, or on the observed transitions."""
    from rhocover import collecting

    given = {name: asked[name] for name in ("num_steps", "rho", "mu", "repeat", "out")}
    if place is None:
        return collecting.top_up(counted, **given)
    with _open(place) as world:
        return collecting.top_up(counted, world, actions=asked["actions"], **given)


def _collected(counted: Any, world: Any, asked: dict[str, Any], bar: Any, command: str) -> TopUp:
    from rhocover import collecting

    return collecting.top_up(counted, world, report=bar, command=command, **asked)


def _finish(
    found: TopUp, words: dict[str, Any], json: bool, thin: int, policy: Location | None, force: bool
) -> None:
    """Prints the top-up, writes the policy if a file was given, and prints where everything is."""
    from rhocover._version import __version__
    from rhocover.cli.result_tables import top_up_table

    if json:
        print_json({"rhocover": __version__, "parameters": words, "top_up": found.summary()})
    else:
        print_result(top_up_table(found, thin))
    if policy is not None:
        write_policy(found, policy, force=force)
        print_message(f"the policy is in {policy.shown}")
    if found.collection is not None:
        print_message(f"the new data is in {found.collection.path}, its datasheet is {found.collection.page}")


def _page(found: TopUp, command: str) -> Page:
    from rhocover.collecting.top_up_result import page_of_top_up

    return page_of_top_up(found, command)


# The policy of `rhocover top-up` as a file.

ENDINGS = (".csv", ".safetensors")


def check_policy(policy: Path | None, *, force: bool) -> Location | None:
    """Returns the location of the policy; raises if it cannot be written, or exists without `force`."""
    if policy is None:
        return None
    place, path = locate(policy, "policy", "file"), policy
    if path.suffix.lower() not in ENDINGS:
        named = path.with_suffix(".csv") if path.name else Path("policy.csv")
        raise InvalidArgumentError.of(
            "policy",
            f"must end in {' or '.join(ENDINGS)}",
            repr(str(path)),
            remedy=f"Such as --policy {shlex.quote(str(named))}.",
        )
    outputs.check_files(path.parent, [path.name], force=force)
    return place


def write_policy(found: TopUp, place: Location, *, force: bool) -> None:
    """Writes the policy, completely or not at all; rows are states in the order of the data's keys."""
    path = place.path
    outputs.check_files(path.parent, [path.name], force=force)  # again: another process may have written it
    remove_left(path.parent, is_called(path))
    tally = found.before.tally
    names = [tally.state_name(state) for state in range(tally.num_states)]
    if path.suffix.lower() == ".safetensors":
        actions = list(tally.action_names or map(str, range(tally.num_actions)))
        words = {"states": names, "actions": actions}
        save_tensors(path, "policy", {"policy": found.policy}, words, overwrite=force)
        return
    write_atomically(path, _csv_text(names, found).encode(), overwrite=force)


def _csv_text(names: list[str], found: TopUp) -> str:
    tally, file = found.before.tally, io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["state", *(tally.action_names or range(tally.num_actions))])
    for name, row in zip(names, found.policy.tolist(), strict=True):
        writer.writerow([name, *row])
    return file.getvalue()
