"""`rhocover audit`: what a data set covers, however it was collected."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.data_sets import explained, parse_data
from rhocover.cli.engine import open_engine
from rhocover.cli.output import json_text, print_json, print_message, print_result, waiting
from rhocover.cli.places import Place, close, parse_place
from rhocover.errors import InvalidArgumentError, RhocoverError, parse_text
from rhocover.printing import count_of

if TYPE_CHECKING:
    from rhocover.datasets import Audit
    from rhocover.report.pages import Page

DOCUMENT, TABLES = "audit.json", "audit.safetensors"


class RequirementError(RhocoverError):
    """A data set was audited and does not meet a requirement."""


def audit(
    context: outputs.Context,
    data: o.Data,
    rho: o.Rho = 2.0,
    mu: o.DataWeights = "uniform",
    env: o.TheEnv = None,
    settings: o.EnvSet = None,
    best: o.Best = None,
    certificate: o.Certificate = None,
    delta: o.CertificateDelta = 0.05,
    states: o.States = None,
    actions: o.Actions = None,
    columns: o.ColumnNames = None,
    held_out: o.HeldOut = None,
    num_states: o.NumStates = None,
    num_actions: o.NumActions = None,
    met_only: o.MetOnly = False,
    require_worst_ratio: o.WorstRatio = None,
    require_complete: o.Complete = False,
    thin: o.Thin = 5,
    engine: o.Engine = None,
    address: o.Address = None,
    json: o.Json = False,
    out: o.AuditOut = None,
    report: outputs.Report = None,
    force: o.Force = False,
) -> None:
    """Reports what a data set covers, how far that is from the best achievable, and which pairs are thin.

    It does not matter how the data was collected. With `--env`, the best is computed on the environment's
    transition table; without it, on the transitions observed in the data. Scripts can set requirements: with
    `--require-worst-ratio` or `--require-complete` the exit code is 4 if the data does not meet them, and the
    verdict is printed on stderr.

    * `rhocover audit data/lake --rho inf`
    * `rhocover audit data/lake --rho inf --env FrozenLake-v1 --require-worst-ratio 12`
    * `rhocover audit steps.csv --rho 2 --num-actions 4 --json`
    * `rhocover audit steps.csv --mu transition_std --thin 3 --out results`
    * `rhocover audit steps.csv --column s=s --column a=a --states net:1`
    """
    from rhocover.cli.codes import UNFITTED, parse_actions, parse_columns, parse_data_mu, parse_states
    from rhocover.datasets.reading import find_data

    _check_demands(require_worst_ratio)
    page = outputs.check_report(report, force=force)
    folder = None if out is None else outputs.check_free(out, [DOCUMENT, TABLES], force=force)
    place = read_env(env, settings or [])
    model = place and place.make()
    asked = {
        "rho": rho, "mu": parse_data_mu(mu), "delta": delta, "best": best, "certificate": certificate,
        "num_states": num_states, "num_actions": num_actions, "met_only": met_only,
        "held_out": parse_states(held_out, UNFITTED, option="--held-out"), "columns": parse_columns(columns),
    }  # fmt: skip
    with (
        waiting(f"counting {' '.join(data)}"),
        explained(data, num_states=num_states, num_actions=num_actions),
    ):
        place_of_data = parse_data(data)
        where = find_data(place_of_data)
        codes = read_codes(
            where, parse_states(states, UNFITTED), parse_actions(actions), is_known=model is not None
        )
        with open_engine(engine, address) as opened:
            found = _audit(where, asked | codes | {"executor": opened}, model)
    demands = {"worst_ratio": require_worst_ratio, "complete": require_complete}
    words = {
        "data": place_of_data, "environment": env, "set": {} if place is None else place.arguments,
        "states": states, "actions": actions, **asked, "mu": mu, "held_out": held_out,
    }  # fmt: skip
    document = _document(found, words, demands)
    if json:
        print_json(document)
    else:
        print_result(_table(found, thin, codes["states"] is not None and states is None))
    if folder is not None:
        written = outputs.write_all(folder, _files(found, document), force=force)
        print_message(f"wrote {count_of(len(written), 'file')} to {out}")
    outputs.write_report(page, lambda: _page(found, outputs.format_command(context)), force=force)
    check_demands(found, require_worst_ratio, require_complete)


def _check_demands(worst_ratio: float | None) -> None:
    """Rejects a requirement that makes no sense, before any data is read."""
    if worst_ratio is not None and not 1 <= worst_ratio < math.inf:
        raise InvalidArgumentError.of(
            "require_worst_ratio", "must be finite and at least 1, a perfect match", f"{worst_ratio:g}"
        )


def read_env(
    env: str | None, settings: list[str], max_episode_steps: int | None = None, read: str | None = None,
    level: int | None = None,
) -> Place | None:  # fmt: skip
    """Returns the environment named by --env, or None."""
    if env is not None:
        return parse_place(env, settings, None, max_episode_steps, read, level)
    if settings or max_episode_steps is not None:
        argument = "settings" if settings else "max_episode_steps"
        raise InvalidArgumentError.of(
            argument, parse_text("needs `env`, which it configures"), remedy="Leave it out."
        )
    return None


def read_codes(data: Any, states: Any, actions: Any, *, is_known: bool) -> dict[str, Any]:
    """Returns the encoding of states and actions: as typed, or else from the datasheet in the data set."""
    from rhocover.datasets.reading import codes_of_data

    if states is None and not is_known:
        stored = codes_of_data(data)
        states, actions = stored[0], stored[1] if actions is None else actions
    return {"states": states, "actions": actions}


def _audit(data: Any, asked: dict[str, Any], model: Any) -> Audit:
    from rhocover.datasets import audit as judge

    try:
        return judge(data, model=model, **asked)
    finally:
        if model is not None:
            close(model)


def check_demands(found: Audit, worst_ratio: float | None, is_whole: bool) -> None:
    """Raises if the data does not meet the requirements; called after the results have been shown."""
    if is_whole and not found.is_complete:
        raise RequirementError(
            f"--require-complete: {found.num_missing:,} of {count_of(found.num_pairs, 'pair', ',')} never "
            f"visited. {found.verdict}"
        )
    if worst_ratio is not None and not found.meets(worst_ratio=worst_ratio):
        raise RequirementError(
            f"--require-worst-ratio {worst_ratio:g}: the worst ratio is {found.worst_ratio:.4g}. "
            f"{found.verdict}"
        )


def _document(found: Audit, words: dict[str, Any], demands: dict[str, Any]) -> dict[str, Any]:
    """Returns the request and the result, ready for JSON."""
    from rhocover._version import __version__

    try:
        check_demands(found, demands["worst_ratio"], demands["complete"])
        unmet = None
    except RequirementError as error:
        unmet = str(error)
    return {
        "rhocover": __version__, "parameters": words, "audit": found.summary(),
        "requirements": demands | {"unmet": unmet},
    }  # fmt: skip


def _table(found: Audit, thin: int, is_stored: bool) -> Any:
    from rhocover.cli.result_tables import AS_STORED, audit_table

    return audit_table(found, thin, [AS_STORED] if is_stored else [])


def _files(found: Audit, document: dict[str, Any]) -> dict[str, Any]:
    return {DOCUMENT: partial(_write, json_text(document)), TABLES: found.save}


def _write(text: str, path: Path) -> None:
    path.write_text(text, "utf-8")


def _page(found: Audit, command: str) -> Page:
    from rhocover.report.pages.audit import page_of_audit

    return page_of_audit(found, command=command)
