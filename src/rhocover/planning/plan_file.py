"""A plan as a file: what `Plan.save` writes and `Plan.load` reads.

The file holds the tables of the plan, the weights that were planned for, and the model, so that it can be
loaded alone. The document has the plan's summary for other readers, and under `plan` and `mdp` what is
loaded. Files of earlier versions lack these two: `rhocover.files.load_tensors` reads their tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.checks import frozen
from rhocover.coverage import Coverage
from rhocover.documents import LEFT_OUT, TextNumber, from_document, to_document
from rhocover.errors import FileFormatError, InvalidArgumentError
from rhocover.files import load_tensors, save_tensors
from rhocover.mdp import MDP, UNREADABLE, model_of_stored, stored_model
from rhocover.occupancy import Membership
from rhocover.planning.conditions import MetCondition
from rhocover.planning.cover import PAIRS, group_shape

TABLES = ("weights", "occupancy", "policy", "potential")
SHARES = "group_shares"
MODEL = "model."  # before the names of the model's arrays


@dataclass(frozen=True)
class StoredPlan:
    """The numbers of a plan, infinite ones as text."""

    rho: TextNumber
    divergence: TextNumber
    gap: TextNumber
    worst_ratio: TextNumber
    value: TextNumber
    residuals: tuple[TextNumber, TextNumber, TextNumber, TextNumber]
    status: str
    method: str
    steps: int
    seconds: float
    stages: dict[str, Any]
    restriction: str
    discount: float | None
    cover: str = field(default=PAIRS, metadata=LEFT_OUT)
    conditions: tuple[MetCondition, ...] = field(default=(), metadata=LEFT_OUT)


PLAIN = (
    "divergence", "gap", "worst_ratio", "value", "method", "steps", "seconds", "restriction", "discount",
    "cover", "conditions",
)  # fmt: skip


def write_plan(plan: Any, path: Path | str, *, overwrite: bool) -> None:
    """Writes a plan with its model to one file."""
    arrays, model = stored_model(plan.mdp)
    tensors = {name: getattr(plan, name) for name in TABLES} | {"mu": plan.coverage.mu}
    tensors |= {} if plan.group_shares is None else {SHARES: plan.group_shares}
    tensors |= {f"{MODEL}{name}": array for name, array in arrays.items()}
    numbers = StoredPlan(
        rho=plan.rho, residuals=astuple(plan.residuals), status=plan.status.name, stages=dict(plan.stages),
        **{name: getattr(plan, name) for name in PLAIN},
    )  # fmt: skip
    document = plan.summary() | {"plan": to_document(numbers), "mdp": model}
    save_tensors(path, "plan", tensors, document, overwrite=overwrite)


def read_plan(path: Path | str, statuses: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the plan in a file, with its model checked again."""
    tensors, document = load_tensors(path, "plan")
    if "plan" not in document or "mdp" not in document:
        raise FileFormatError(
            f"`{path}` holds a plan without its model, as earlier versions wrote it. Plan again and save it."
        )
    try:
        return _fields(tensors, document, statuses)
    except UNREADABLE as error:
        raise FileFormatError(f"`{path}` does not hold a valid plan: {error}") from error


def _fields(
    tensors: Mapping[str, np.ndarray], document: Mapping[str, Any], statuses: Mapping[str, Any]
) -> dict[str, Any]:
    arrays = {name.removeprefix(MODEL): a for name, a in tensors.items() if name.startswith(MODEL)}
    mdp = model_of_stored(arrays, document["mdp"])
    stored: StoredPlan = from_document(StoredPlan, document["plan"], "the plan")
    tables = {name: frozen(tensors[name]) for name in TABLES}
    tables |= {} if stored.cover == PAIRS else {SHARES: frozen(tensors[SHARES])}
    _check_tables(tables, mdp, stored.cover)
    return {
        "mdp": mdp,
        "coverage": Coverage(stored.rho, tensors["mu"]),
        "residuals": Membership(*stored.residuals),
        "status": statuses[stored.status],
        "stages": stored.stages,
        **tables,
        **{name: getattr(stored, name) for name in PLAIN},
    }


def _check_tables(tables: Mapping[str, np.ndarray], mdp: MDP, cover: str) -> None:
    """Refuses tables that are not of this model, or not of these groups."""
    shape = tables["occupancy"].shape
    if shape[-2:] != (mdp.num_states, mdp.num_actions) or len(shape) not in (2, 3):
        raise InvalidArgumentError.of("occupancy", f"must be a table of {mdp!r}", f"shape {shape}")
    wanted = {name: shape[:-1] if name == "potential" else shape for name in TABLES}
    if cover != PAIRS:
        groups = group_shape(mdp, cover, tables[SHARES].size)
        wanted |= {"weights": groups, SHARES: groups}
    for name, table in tables.items():
        if table.shape != wanted[name] or table.dtype != np.float64:
            raise InvalidArgumentError.of(
                name, f"must have shape {wanted[name]}", f"{table.shape} of {table.dtype}"
            )
