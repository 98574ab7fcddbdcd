"""collect(): a data set from an environment, with a datasheet, that survives interruptions.

collection.json          what was asked for
log-000000.safetensors   the steps so far (see `log`); removed when the data set is whole
ID/data/...              the Minari data set: MINARI_DATASETS_PATH=OUT finds it by its id
datasheet.json, .html    what it covers
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any

import numpy as np

from rhocover.collecting.collection import Collection
from rhocover.collecting.datasheet import make_datasheet, provenance, settings_of
from rhocover.collecting.expedition import Expedition, read_expedition
from rhocover.collecting.exploring import Report, travel
from rhocover.collecting.folder import CollectionFolder
from rhocover.collecting.pages import page_of_collection
from rhocover.collecting.storing import check_minari, check_spaces, digest_of, gather, publish
from rhocover.datasets.minari.folders import check_id
from rhocover.files import tensor_digest
from rhocover.folders import locate
from rhocover.report.pages.html import write_page


def collect(
    env: Any,
    rho: float,
    num_steps: int,
    mu: Any = None,
    *,
    out: os.PathLike[str] | str,
    dataset_id: str | None = None,
    states: Any = None,
    actions: Any = None,
    explorer: Any = "feedback",
    model: Any = "known",
    schedule: Any = None,
    seed: int = 0,
    until: Any = None,
    step_timeout: float | None = None,
    resume: bool = False,
    report: Report | None = None,
    command: str | None = None,
) -> Collection:
    """Returns the data set that an explorer collected in a Gymnasium environment, single or vector.

    The arguments are those of `explore`. `out` is a new folder: it gets the Minari data set `dataset_id` and
    its datasheet. After any interruption the same call with `resume=True` goes on, and the data set is the
    same to the bit. Both are about one machine and the same versions, as `seed` is: on another processor the
    same call takes different steps with the same statistics, and a collection begun here may be refused.
    `step_timeout` is how many seconds one step or reset may take, None for ever: see `rhocover.explore`.
    `command` is what the datasheet says to repeat it, if not this call.
    """
    out = locate(out)  # the environment may change the working directory
    check_minari()
    trip = read_expedition(
        env, rho, num_steps, mu, explorer=explorer, model=model, schedule=schedule, seed=seed, until=until,
        trace_points=5, states=states, actions=actions, step_timeout=step_timeout,
    )  # fmt: skip
    check_spaces(trip)
    name = default_id(trip) if dataset_id is None else dataset_id
    check_id(name)
    document = {"dataset_id": name, **settings_of(trip), **provenance(), "until": repr(until)}
    document["arrays"] = tensor_digest(given_arrays(trip))
    digest = digest_of(document)
    with CollectionFolder(out, document, resume=resume) as folder:
        run = gather(trip, folder.path, digest, partial(travel, trip, report=report))
        best = run.problem if run.is_comparable else None
        sheet_of = partial(make_datasheet, trip, problem=best, command=command, run=run)
        tally, audit, sheet = publish(trip, folder, name, digest, sheet_of, run)
        found = Collection(folder.out, name, audit, sheet, run, tally, states, actions)
        write_page(page_of_collection(found), found.page, overwrite=True)
        folder.finish(json.dumps(sheet, indent=2) + "\n")
    return found


def default_id(trip: Expedition) -> str:
    """Returns an id for the data set: what it is of, and what it was collected for."""
    plain = "".join(c if c.isalnum() else "-" for c in trip.name.lower()).strip("-")[:60] or "environment"
    return f"rhocover/{plain}/rho-{trip.settings.rho:g}-v0".replace(".", "-")


def given_arrays(trip: Expedition) -> dict[str, np.ndarray]:
    """Returns the arrays among what was asked for."""
    given = {"mu": trip.settings.mu, "weights": trip.weights}
    return {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
