"""explore() and collect() in an environment: the same explorers as on a model, one real step at a time.

collect() writes a data set with a datasheet, and can be resumed after an interruption. Its folder OUT has

parts/*.parquet          the steps (see `log`), a row for each
manifest.json            the settings, and which parts there are: only those that it names exist
datasheet.json, .html    what the data set covers
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.collecting.datasheet import (
    Collection,
    make_datasheet,
    page_of_collection,
    provenance,
    settings_of,
)
from rhocover.collecting.env_run import FROM_TABLE, EnvRun, Fitted, read_env_run
from rhocover.collecting.rounds import run_shared
from rhocover.collecting.storage import CollectionFolder, check_spaces, publish, record, seed_in
from rhocover.collecting.workers import opened, read_workers, shared
from rhocover.collecting.worlds import open_environment
from rhocover.datasets.collection.manifest import check_id
from rhocover.environments.encoding.nets import NetCode
from rhocover.errors import Call, InvalidArgumentError, calling
from rhocover.exploring.belief import KnownModel
from rhocover.exploring.explorers.registry import CLASSES, make_explorer
from rhocover.exploring.runs.result import Run
from rhocover.exploring.runs.runner import Storage, run
from rhocover.exploring.runs.spec import Crew, Encoding, RunSpec
from rhocover.files import tensor_digest
from rhocover.folders import locate
from rhocover.learning.codes import warn_of
from rhocover.planning.problem import Criterion, Objective
from rhocover.progress import Report, progress
from rhocover.report.pages.rendering import write_page

if TYPE_CHECKING:
    from rhocover.arguments import (
        Actions,
        Environment,
        Knowledge,
        Location,
        Maker,
        NamedExplorer,
        States,
        WeightsOrRule,
        Whole,
    )  # fmt: skip
    from rhocover.exploring.explorers.algorithm1 import Schedule
    from rhocover.exploring.runs.stopping import Stop


def explore_environment(
    env: Any, spec: RunSpec, encoding: Encoding, crew: Crew, step_timeout: Any, out: Any,
    report: Report | None,
) -> Run:  # fmt: skip
    """Returns the run of an explorer in a Gymnasium environment; see `rhocover.explore`."""
    with ExitStack() as stack:
        with calling(env="world"):
            _refuse_what_is_the_environments(spec.criterion, crew.num_chains, out)
            workers = read_workers(env, encoding, crew.workers, crew.executor)
            env = stack.enter_context(opened(env, workers))
            asked = shared(read_env_run(env, spec, encoding, step_timeout), workers)
        told = stack.enter_context(progress(f"exploring {asked.name}", report))
        if workers is None:
            found = run(open_environment(asked), asked.spec, Storage(told))
        else:
            found = run_shared(asked, workers, Storage(told))
    if (codes := getattr(found, "codes", None)) is not None:
        warn_of(codes, stacklevel=3)
    return found


def _refuse_what_is_the_environments(criterion: Criterion, num_chains: Any, out: Any) -> None:
    names = ("start", "discount", "horizon")
    named = [name for name in names if getattr(criterion, name) is not None]
    if num_chains != 1:
        raise InvalidArgumentError.of(
            "num_chains",
            "is only for models",
            remedy="For an environment, pass a vector of them: gymnasium.make_vec(id, num_envs=4).",
        )
    if named or criterion.restrict:
        raise InvalidArgumentError.of(
            (named or ["restrict"])[0],
            "is only for models: an environment has its own starts and episodes",
            remedy=("Leave it out, or ", FROM_TABLE, "."),
        )
    if out is not None:
        raise InvalidArgumentError.of(
            "out",
            (
                "is only for models: to store a run in an environment together with its data, use ",
                Call("collect(env, out=...)", "rhocover collect"),
            ),
        )


def collect(
    env: Environment | Maker,
    rho: float = 2.0,
    num_steps: Whole = 100_000,
    mu: WeightsOrRule | None = None,
    *,
    out: Location,
    dataset_id: str | None = None,
    states: States | None = None,
    actions: Actions | None = None,
    repeat: int = 1,
    explorer: NamedExplorer = "feedback",
    model: Knowledge = "known",
    schedule: Schedule | None = None,
    seed: int | None = 0,
    until: Stop | None = None,
    step_timeout: float | None = None,
    held_out: States | None = None,
    workers: int | None = None,
    executor: Any = None,
    resume: bool = False,
    report: Report | None = None,
    command: str | None = None,
) -> Collection:
    """Returns the data set that an explorer collected in a Gymnasium environment, single or vector.

    The arguments are those of `explore`. `out` is a new folder: it gets Parquet files that any tool reads,
    the manifest that names them, and the datasheet; `to_minari` makes a Minari data set of them. After any
    interruption the same call with `resume=True` continues, and the files are the same to the bit. Like
    `seed`, this holds on one machine with the same versions: on another processor the same call takes
    different steps with the same statistics, and a collection begun here may be refused.
    `step_timeout` is how many seconds one step or reset may take, None for no limit: see `rhocover.explore`.
    `workers` collect at the same time, each in an environment of its own, and know of each other only between
    rounds; `env` is then what makes one: an id, `module:function`, or a function without arguments. Each leg
    of a worker makes its environment, begins with a reset and becomes one file; its last step is truncated.
    `executor` takes the legs, as in `explore`: the files are the same to the bit whoever does.
    `command` is the command that the datasheet gives for repeating the collection, if not this call.
    """
    out = locate(out)  # the environment may change the working directory
    spec = RunSpec(
        Objective(rho, mu), num_steps, explorer=make_explorer(explorer, schedule), model=model,
        seed=seed_in(out) if seed is None and resume else seed,
        until=until, trace_points=5,
    )  # fmt: skip
    encoding = Encoding(states, actions, repeat, held_out)
    crew = read_workers(env, encoding, workers, executor)
    with opened(env, crew) as env:
        asked = shared(read_env_run(env, spec, encoding, step_timeout), crew)
        check_spaces(asked)
        check_start(asked)
        name = default_id(asked) if dataset_id is None else dataset_id
        check_id(name)
        document = {"dataset_id": name, **settings_of(asked), **provenance(), "until": repr(until)}
        document["arrays"] = tensor_digest(given_arrays(asked))
        with (
            CollectionFolder(out, asked, document, resume=resume) as folder,
            progress(f"collecting in {asked.name}", report) as told,
        ):
            found = make_collection(asked, folder, encoding, told, command)
    if found.audit.codes is not None:
        warn_of(found.audit.codes, stacklevel=2)
    return found


def check_start(asked: EnvRun) -> None:
    """Raises whatever the explorer would raise before its first step, so that nothing is written before."""
    if asked.problem is not None:
        asked.problem.check_plan()
        if type(asked.spec.explorer) not in CLASSES.values():  # the library's own can act in every model
            asked.spec.actor.init(KnownModel(asked.problem))


def make_collection(
    asked: EnvRun, folder: CollectionFolder, encoding: Encoding, report: Report | None, command: str | None
) -> Collection:
    """Runs or resumes a collection in its folder until it is complete, and returns the data set."""
    found, manifest = record(asked, folder.path, report)
    problem = asked.problem if found is None else found.problem if found.is_comparable else None
    sheet_of = partial(make_datasheet, asked, problem=problem, command=command, run=found)
    tally, audit, sheet = publish(asked, folder.path, manifest, sheet_of, found)
    states = asked.states if isinstance(encoding.states, Fitted | NetCode) else encoding.states
    collection = Collection(
        folder.out, folder.dataset_id, audit, sheet, found, tally, states, encoding.actions
    )
    write_page(page_of_collection(collection), collection.page, overwrite=True)
    folder.finish(manifest, json.dumps(sheet, indent=2) + "\n")
    return collection


def default_id(asked: EnvRun) -> str:
    """Returns the default id of a data set, made from the environment's name and rho."""
    plain = "".join(c if c.isalnum() else "-" for c in asked.name.lower()).strip("-")[:60] or "environment"
    return f"rhocover/{plain}/rho-{asked.spec.rho:g}-v0".replace(".", "-")


def given_arrays(asked: EnvRun) -> dict[str, np.ndarray]:
    """Returns the arrays among the settings."""
    given = {"mu": asked.spec.mu, "weights": asked.weights}
    return {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
