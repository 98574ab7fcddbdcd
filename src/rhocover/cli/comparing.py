"""What `rhocover compare` was asked for: read from texts, run, and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rhocover._version import __version__
from rhocover.cli.inputs import order_text, read_model, read_mu, read_orders
from rhocover.cli.outputs import Writer
from rhocover.cli.tables import json_text
from rhocover.errors import InvalidArgumentError
from rhocover.experiments import Comparison, compare
from rhocover.experiments.compare import EXPLORERS
from rhocover.experiments.ledger import FILE
from rhocover.experiments.pictures import comparison_regret_figure, comparison_worst_ratio_figure
from rhocover.files import write_atomically
from rhocover.locks import Hold
from rhocover.report.figures import save_figure

DOCUMENT = "compare.json"
KINDS = ("regret", "bregman", "worst-ratio")  # of pictures


def read_comparison(
    env: Sequence[str], settings: Sequence[str], mu: str, rho: Sequence[float] | None,
    explorer: Sequence[str] | None, arguments: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Returns the arguments of `compare`; refuses what is wrong with the texts."""
    if settings and len(env) > 1:
        raise InvalidArgumentError("--set goes with one ENV: parameters differ from model to model.")
    models = {_label(text): read_model(text, settings)[0] for text in env}
    if len(models) < len(env):
        raise InvalidArgumentError(f"ENV must be given once each, got {' '.join(env)}.")
    weights = {name: read_mu(mu, mdp, arguments["model"]) for name, mdp in models.items()}
    return {
        "envs": models,
        "explorers": list(explorer or EXPLORERS),
        "rho": read_orders(rho or [2.0]),
        "mu": weights,
        **arguments,
    }


def _label(env: str) -> str:
    """Returns the name of a model in tables and of its pictures: as typed, a file without its ending."""
    return Path(env).name.removesuffix(".safetensors")


def run_comparison(
    asked: dict[str, Any],
    workers: int | None,
    out: Path | Hold | None,
    report: Callable[[int, int], None] | None,
) -> Comparison:
    """Returns the finished comparison."""
    return compare(workers=workers, out=out, report=report, **asked)


def is_ours(name: str) -> bool:
    """Whether `compare`, or this command, writes files of that name."""
    return name in (FILE, DOCUMENT) or bool(re.fullmatch(rf"({'|'.join(KINDS)})-.+-rho-.+\.png", name))


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Returns what was asked and where it ended, ready for JSON."""
    rows = [row.summary() for row in found.table()]
    return {"rhocover": __version__, "parameters": dict(found.question), "rows": rows}


def comparison_files(found: Comparison) -> dict[str, Writer]:
    """Returns the files to write by name: for each model and order three pictures, and the document."""
    files: dict[str, Writer] = {DOCUMENT: partial(_write_document, found)}
    for env in found.envs:
        for rho in found.orders:
            files |= cell_pictures(found, env, rho, f"{_file_name(env)}-rho-{order_text(rho)}.png")
    return files


def cell_pictures(found: Comparison, env: str, rho: float, ending: str) -> dict[str, Writer]:
    """Returns the pictures of one model and order by name."""
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


def _write_document(found: Comparison, path: Path) -> None:
    write_atomically(path, json_text(comparison_document(found)).encode())
