"""`rhocover compare`: several explorers on several models, with the same seeds and budgets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover._version import __version__
from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.codes import UNFITTED, parse_actions, parse_data_mu, parse_states
from rhocover.cli.engine import open_engine
from rhocover.cli.output import json_text, print_json, print_message, print_result, progress, typed_text
from rhocover.cli.parsing import format_order, parse_model, parse_mu, parse_orders
from rhocover.cli.places import Place, close, is_environment, parse_place
from rhocover.errors import InvalidArgumentError, format_text
from rhocover.experiments import Comparison
from rhocover.experiments import compare as compare_explorers
from rhocover.experiments.compare import EXPLORERS
from rhocover.experiments.comparison import comparison_regret_figure, comparison_worst_ratio_figure
from rhocover.experiments.finished_runs import FILE, PUT_TOGETHER
from rhocover.experiments.shards import SHARDS, check_only_runs, has_shards, hold_shards, remove_shards
from rhocover.exploring.runs.spec import KNOWN
from rhocover.files import write_atomically
from rhocover.folders import Hold, Location, locate
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
    model: o.CompareModel = None,
    schedule: o.Schedule = None,
    mu: o.Weights = "uniform",
    settings: o.Set = None,
    states: o.States = None,
    actions: o.Actions = None,
    held_out: o.HeldOut = None,
    num_chains: o.NumChains = 1,
    start: o.RunStart = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    restrict: o.Restrict = False,
    workers: o.Workers = None,
    engine: o.Engine = None,
    address: o.Address = None,
    shard: o.Shard = None,
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

    With --states, --actions or --held-out, with an explorer that models do not have, or if an environment has
    no table of its transitions, every ENV is a Gymnasium environment of which nothing is known. Then the
    table shows what each explorer found: *codes* of the states, *cells* of the held-out code, and the step at
    which 95 % of the most that any run found were seen, each with its range over the seeds.

    * `rhocover compare river_swim --steps 3000 --seeds 4`
    * `rhocover compare river_swim wheel --rho 2 --rho inf --steps 1000 --seeds 3 --workers 1`
    * `rhocover compare river_swim --explorer feedback --explorer tracking --steps 3000 --seeds 4 --out runs`
    * `rhocover compare river_swim --model learned --steps 2000 --seeds 2`
    * `rhocover compare MountainCar-v0 --states bins:12 --held-out bins:40 --steps 2000 --seeds 2`
    * `rhocover compare --redraw runs`
    * `rhocover compare wheel --steps 1000 --seeds 4 --shard 3/8 --out array`
    """
    page = outputs.check_report(report, force=force)
    if redraw is not None:
        is_again = force and report is None
        _refuse({"out": out, "shard": shard, "force": is_again or None}, "--redraw, which runs nothing")
        _check_redraw(redraw, env or [])
        found = _redraw(redraw, json)
        again = shlex.join(["rhocover", "compare", "--redraw", str(redraw)])
        outputs.write_report(page, lambda: _page(found, again), force=force)
        return
    from rhocover.experiments.compare import check_question
    from rhocover.experiments.env_reading import asks_what_is_found

    if not env:
        raise InvalidArgumentError("ENV is missing, such as river_swim.", argument="env")
    given = {"states": states, "actions": actions, "held_out": held_out}
    is_found = asks_what_is_found(given, explorer) or lack_tables(env, settings or [])
    if is_found and report is not None:
        raise InvalidArgumentError.of("report", "is for comparisons on models", remedy="Leave it out.")
    asked = (_read_environments if is_found else _read_models)(
        env, settings or [], mu, rho, explorer,
        given | {"num_steps": num_steps, "model": model, "seeds": seeds, "schedule": schedule,
         "num_chains": num_chains, "start": start, "discount": discount,
         "horizon": horizon, "restrict": restrict},
    )  # fmt: skip
    if shard is not None:
        _refuse({"report": report, "force": force or None}, "--shard, which runs only a part")
        with open_engine(engine, address) as opened:
            _run_shard(asked | {"shard": shard, "workers": workers, "executor": opened}, out, json)
        return
    if out is not None and force:
        check_question(**asked)  # nothing is removed for a comparison that could not run
    with outputs.claim_files(out) if out is not None else nullcontext() as held:
        if held is not None and force:
            _start_again(held, outputs.or_report(is_ours, held, page))
        with open_engine(engine, address) as opened, hint_to_compare_on(held), progress("runs") as bar:
            found = run_comparison(asked | {"workers": workers, "executor": opened}, held, bar)
        _finish(found, json, held)
    outputs.write_report(page, lambda: _page(found, outputs.format_command(context)), force=force)


def _refuse(options: dict[str, Any], other: str) -> None:
    """Raises if one of the options is given, because it does not go with another one."""
    for name, given in options.items():
        if given is not None:
            raise InvalidArgumentError.of(name, f"does not go with {other}", remedy="Leave it out.")


def _run_shard(asked: dict[str, Any], out: Path | None, json: bool) -> None:
    """Runs one shard, and prints how far the comparison is. Its folder is locked by `compare`, not by us."""
    place = None if out is None else locate(out)
    with hint_to_compare_on(place), progress("runs") as bar:
        found = run_comparison(asked, place, bar)
    if json:
        print_json({"rhocover": __version__, **asdict(found)})
    else:
        print_result(format_text(found.text, partial(typed_text, {"shard": "--shard"})))


def _start_again(held: Hold, ours: Callable[[str], bool]) -> None:
    """Removes a comparison with its shards; raises if there is anything else, or if a shard is in use."""
    with hold_shards(held) as shards:
        check_only_runs(shards)
        outputs.clear(held, ours, besides=SHARDS if has_shards(held.path) else "")
        remove_shards(held, shards)


def _check_redraw(folder: Path, env: Sequence[str]) -> None:
    """Raises if there is no comparison in the folder, or if something is asked that needs runs."""
    if env:
        raise InvalidArgumentError(
            f"{env[0]!r} is too much, because --redraw runs nothing.",
            argument="env",
            remedy=f"Leave {env[0]!r} out.",
        )
    if (folder / FILE).is_file():
        return
    if has_shards(folder):
        raise InvalidArgumentError.of(
            "redraw", f": {str(folder)!r} holds shards of a comparison", remedy=PUT_TOGETHER
        )
    remedy = outputs.folder_with(FILE, "compare")
    raise InvalidArgumentError.of("redraw", f": {str(folder)!r} holds no comparison", remedy=remedy)


def _redraw(folder: Path, json: bool) -> Any:
    from rhocover.experiments.env_comparison import load_comparison

    with outputs.claim_files(folder) as held:
        found = load_comparison(folder)
        _finish(found, json, held)
    return found


@contextmanager
def hint_to_compare_on(folder: Location | None) -> Iterator[None]:
    """Prints on Ctrl-C how to continue, if the runs are stored."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None:
            print_message(f"The finished runs are stored in {folder.shown}. Continue with the same command.")
        raise


def _page(found: Any, command: str) -> Page:
    if not isinstance(found, Comparison):
        raise InvalidArgumentError.of("report", "is for comparisons on models")
    from rhocover.report.pages.comparison import page_of_comparison

    return page_of_comparison(found, command=command)


def _finish(found: Any, json: bool, out: Hold | None) -> None:
    """Prints the comparison, and writes its files if a folder was given."""
    from rhocover.cli.result_tables import comparison_tables, found_tables

    is_on_models = isinstance(found, Comparison)
    if json:
        print_json(comparison_document(found))
    else:
        print_result(*(comparison_tables if is_on_models else found_tables)(found))
    if out is not None and outputs.can_write(out):
        files = (comparison_files if is_on_models else found_files)(found)
        outputs.write_all(out, files, force=True)
        print_message(f"figures, compare.json and the runs are in {out.shown}")


# The request of `rhocover compare`: parsed, run and drawn.

DOCUMENT = "compare.json"
KINDS = ("regret", "bregman", "worst-ratio")  # of pictures


def _read_environments(
    env: Sequence[str], settings: Sequence[str], mu: str, rho: Sequence[float] | None,
    explorer: Sequence[str] | None, arguments: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Returns the arguments of `compare` on environments, parsed."""
    places = {text: parse_place(text, settings) for text in env}
    codes = {name: arguments[name] for name in ("states", "held_out")}
    return arguments | {
        "envs": {text: _spec(place) for text, place in places.items()},
        "explorers": list(explorer) if explorer else None,
        "rho": parse_orders(rho or [2.0]),
        "mu": parse_data_mu(mu),
        "actions": parse_actions(arguments["actions"]),
        **{name: _parse_code(text, name) for name, text in codes.items()},
    }


def lack_tables(env: Sequence[str], settings: Sequence[str]) -> bool:
    """Whether every ENV is an environment, and one has no table of its transitions."""
    are_all = all(is_environment(text) for text in env)
    return are_all and not all(_has_table(parse_place(text, settings)) for text in env)


def _has_table(place: Place) -> bool:
    env = place.make_one()
    try:
        return hasattr(env.unwrapped, "P")
    finally:
        close(env)


def _spec(place: Place) -> Any:
    """Returns the Gymnasium spec of an environment, which every run makes anew."""
    env = place.make_one()
    try:
        return env.spec
    finally:
        close(env)


def _parse_code(text: str | None, name: str) -> Any:
    """Returns a code as it is typed; every run fits its own."""
    option = "--" + name.replace("_", "-")
    return parse_states(text, UNFITTED if name == "states" else None, option=option)


def _read_models(env: Sequence[str], *parts: Any) -> dict[str, Any]:
    """Returns the arguments of `compare` on models."""
    asked = read_comparison(env, *parts)
    return {name: value for name, value in asked.items() if name not in ("states", "actions", "held_out")}


def read_comparison(
    env: Sequence[str], settings: Sequence[str], mu: str, rho: Sequence[float] | None,
    explorer: Sequence[str] | None, arguments: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Returns the arguments of `compare`, parsed and checked."""
    if settings and len(env) > 1:
        raise InvalidArgumentError.of(
            "settings", "needs exactly one ENV: every model has its own parameters", remedy="Leave it out."
        )
    models = {_label(text): parse_model(text, settings)[0] for text in env}
    if len(models) < len(env):
        twice = next(text for k, text in enumerate(env) if text in env[:k])
        raise InvalidArgumentError.of("env", f"has {twice!r} twice", remedy="Give it once.")
    weights = {name: parse_mu(mu, mdp, arguments["model"] or KNOWN) for name, mdp in models.items()}
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
    out: Location | None,
    report: Callable[[int, int], None] | None,
) -> Any:
    """Returns the finished comparison."""
    return compare_explorers(out=out, report=report, **asked)


def is_ours(name: str) -> bool:
    """Whether `compare`, or this command, writes files of that name."""
    drawn = rf"(({'|'.join(KINDS)})-.+-rho-.+|found-.+)\.png"
    return name in (FILE, DOCUMENT) or bool(re.fullmatch(drawn, name))


def found_files(found: Any) -> dict[str, outputs.Writer]:
    """Returns the files of a comparison on environments: a figure for each, and the document."""
    drawn = {f"found-{_file_name(env)}.png": partial(_draw, partial(found.figure, env)) for env in found.envs}
    return {DOCUMENT: partial(_write_document, found), **drawn}


def comparison_document(found: Any) -> dict[str, Any]:
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


def _write_document(found: Any, path: Path) -> None:
    write_atomically(path, json_text(comparison_document(found)).encode())
