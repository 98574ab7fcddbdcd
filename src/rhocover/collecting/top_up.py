"""top_up(): what to add to a data set, or the addition itself.

The old data are T visits. A budget of m more steps is best spent on the occupancy psi for which T + m psi
covers best (`planning.union`): on the environment's own table where it has one, else on the model that the
data shows. With an environment the steps are taken, by an explorer that asks again and again what is best now
(`adding`), and stored like a collection. The old data is not touched.
"""

from __future__ import annotations

import dataclasses
import json
import os
from functools import partial
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.collecting.adding import Adding
from rhocover.collecting.collect import default_id, given_arrays
from rhocover.collecting.collection import Collection
from rhocover.collecting.datasheet import make_datasheet, provenance, repeat_call, settings_of
from rhocover.collecting.expedition import Expedition, look_at, read_expedition
from rhocover.collecting.exploring import Report
from rhocover.collecting.extending import extend
from rhocover.collecting.folder import CollectionFolder
from rhocover.collecting.pages import page_of_collection
from rhocover.collecting.storing import audited, check_minari, check_spaces, digest_of, gather, publish
from rhocover.collecting.topped import TopUp, make_promise
from rhocover.datasets.audit import audit_tally
from rhocover.datasets.minari.folders import check_id
from rhocover.datasets.reading import codes_of_data, find_data, read_tally
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import read_action_code
from rhocover.environments.encoding.base import repr_of
from rhocover.errors import Call, InvalidArgumentError, InvalidDataError, calling, parse_text
from rhocover.files import tensor_digest
from rhocover.folders import locate
from rhocover.mdp import MDP
from rhocover.report.pages.html import write_page


def top_up(
    data: Any,
    env: Any = None,
    num_steps: int = 0,
    rho: float = 2.0,
    mu: Any = None,
    *,
    out: os.PathLike[str] | str | None = None,
    dataset_id: str | None = None,
    states: Any = None,
    actions: Any = None,
    model: Any = None,
    seed: int = 0,
    step_timeout: float | None = None,
    resume: bool = False,
    report: Report | None = None,
    command: str | None = None,
) -> TopUp:
    """Returns what `num_steps` more steps are best spent on, and with an environment the data they gave.

    `data` is what `audit` takes. Without `out` only the policy is planned: on the model that the data shows,
    or on `env`, an MDP or an environment with a table. With a Gymnasium environment and a new folder `out`
    the steps are taken and stored there as a Minari data set of their own; `model` is then "known" (the
    environment's table, the default where there is one) or "learned". `resume=True` goes on after an
    interruption. `step_timeout` is how many seconds one step or reset of the environment may take.
    """
    num_steps = checks.integer(num_steps, "num_steps", least=1, most=2**53)
    out = None if out is None else locate(out)  # the environment may change the working directory
    look_at(env)
    states, actions = _codes(data, env, states, actions)
    read = _read(data, env, states, actions)
    if env is None or isinstance(env, MDP):
        _refuse_out(out)
    if out is None:
        with calling(model="env"):
            before = audit_tally(read, rho, mu, model=env)
        return TopUp(num_steps, before, make_promise(before, num_steps), None, None)
    trip = read_expedition(
        env, rho, num_steps, mu, explorer="feedback", model=model or _knowledge(env, states), schedule=None,
        seed=seed, until=None, trace_points=10, states=states, actions=actions, step_timeout=step_timeout,
    )  # fmt: skip
    _check_actions(read, trip)
    before = audited(trip, read)
    promise = make_promise(before, num_steps)
    found = _collected(trip, read, out, dataset_id, resume, report, command, states, actions)
    return TopUp(num_steps, before, promise, audited(trip, read + found.tally), found)


def _codes(data: Any, env: Any, states: Any, actions: Any) -> tuple[Any, Any]:
    """Returns how steps are counted: as asked for, or as the data itself was, if it says."""
    if isinstance(data, Collection):
        known = data.states, data.actions
    elif isinstance(data, str | os.PathLike) and hasattr(env, "observation_space") and states is None:
        known = codes_of_data(find_data(os.fspath(data)))
    else:
        return states, actions
    return known[0] if states is None else states, known[1] if actions is None else actions


def _read(data: Any, env: Any, states: Any, actions: Any) -> Tally:
    """Returns the old data, counted; an environment says how many actions there are."""
    if isinstance(getattr(data, "tally", data), Tally):
        return read_tally(data)
    space = getattr(env, "single_action_space", getattr(env, "action_space", None))
    number = env.num_actions if isinstance(env, MDP) else None
    if space is not None:
        number = read_action_code(actions, space).num_actions
    return read_tally(data, states=states, actions=actions, num_actions=number)


def _refuse_out(out: Any) -> None:
    if out is not None:
        raise InvalidArgumentError.of(
            "out", parse_text("is for new data, which needs `env`, an environment"), remedy="Leave it out."
        )


def _knowledge(env: Any, states: Any) -> str:
    """Returns "known" for an environment with a table, "learned" for another."""
    has_table = hasattr(getattr(env, "unwrapped", None), "P") and states is None
    return "known" if has_table and not hasattr(env, "num_envs") else "learned"


def _check_actions(tally: Tally, trip: Expedition) -> None:
    """Refuses data of another environment, and data that does not know how many actions there are."""
    came, expected = tally.num_actions, trip.actions.num_actions
    if came > expected:
        raise InvalidDataError.of(
            "data", parse_text(f"has {came} actions, `env` {expected}: it is another environment's data")
        )
    if came < expected:
        raise InvalidDataError.of(
            "data",
            parse_text(f"was counted with {came} actions, `env` has {expected}"),
            remedy=(
                "Count it with all of them: ",
                Call(
                    f"read_tally(data, num_actions={expected}), from rhocover.datasets",
                    f"--num-actions {expected}",
                ),
                ".",
            ),
        )


def _collected(
    trip: Expedition, old: Tally, out: Any, dataset_id: str | None, resume: bool, report: Report | None,
    command: str | None, states: Any, actions: Any,
) -> Collection:  # fmt: skip
    """Returns the new data, stored like a collection."""
    check_minari()
    check_spaces(trip)
    name = default_id(trip).replace("/rho-", "/top-up-rho-") if dataset_id is None else dataset_id
    check_id(name)
    explorer = Adding(old.num_steps + trip.settings.num_steps)
    trip = dataclasses.replace(trip, settings=dataclasses.replace(trip.settings, explorer=explorer))
    document = {"dataset_id": name, **settings_of(trip), **provenance()}
    document["data"] = tensor_digest(_counts(old) | given_arrays(trip))
    digest = digest_of(document)
    with CollectionFolder(out, document, resume=resume) as folder:
        gather(trip, folder.path, digest, partial(extend, trip, old, report=report))
        repeat = command or repeat_call(trip, "top_up(data, ")
        sheet_of = partial(make_datasheet, trip, problem=trip.problem, command=repeat)
        tally, audit, sheet = publish(trip, folder, name, digest, sheet_of)
        found = Collection(folder.out, name, audit, sheet, None, tally, states, actions)
        write_page(page_of_collection(found), found.page, overwrite=True)
        folder.finish(json.dumps(sheet, indent=2) + "\n")
    return found


def _counts(tally: Tally) -> dict[str, Any]:
    """Returns the counts of a tally, to tell one from another."""
    moves = tally.moves
    return {
        "data": moves.data, "indices": moves.indices, "indptr": moves.indptr, "ends": tally.ends,
        "starts": tally.starts, "keys": np.frombuffer(_written(tally.keys).encode(), np.uint8),
    }  # fmt: skip


def _written(keys: tuple[Any, ...]) -> str:
    """Returns keys as text, also those of a large grid, whose digits Python would not write out."""
    large = any(isinstance(key, int) and key.bit_length() > 256 for key in keys)
    return repr(tuple(map(repr_of, keys)) if large else keys)
