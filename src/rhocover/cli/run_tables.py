"""Tables of runs and comparisons: what was reached beside what is possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from rhocover.cli.knowledge import Knowledge
from rhocover.cli.tables import empty_table
from rhocover.cli.until import stop_sentence
from rhocover.exploring.models import KNOWN
from rhocover.exploring.trace import regret_column

if TYPE_CHECKING:
    from rhocover.experiments import Comparison
    from rhocover.experiments.rows import Estimate, Row
    from rhocover.exploring import Run
    from rhocover.exploring.settings import Settings

PART = "What is possible is not known: the model that was seen is about a part of the pairs."
LONG_RUN = "What is possible is possible in the long run: a short run can be luckier."
BREGMAN = "Bregman · steps"
FORMS = ((".2e", ".0e"), (".4g", ".2g"), (".3f", ".3f"))  # of means and errors
EXPONENT_FORM, ERROR_FORM = (".2f", ".2f"), (".3g", ".1g")


def run_table(run: Run, known: Knowledge, asked: Settings) -> Group:
    """Returns what a run reached beside what is possible and what its explorer knows of it."""
    (pair, count), steps, column = run.least_visited, run.num_steps, regret_column(run.rho)
    unit = "" if column == "regret" else ", nats"
    rows = [
        ("divergence", run.divergence, run.best.divergence, ".6f"),
        ("worst ratio", run.worst_ratio, run.best.worst_ratio, ".4f"),
        (f"regret{unit}", float(run.trace[column][-1]), 0.0, ".3g"),
        (BREGMAN, steps * float(run.trace["bregman"][-1]), run.trace.kappa_min, ".4g"),
    ]
    table = empty_table("", "reached", "possible")
    for name, reached, possible, form in rows:
        beside = possible if run.is_comparable else math.nan
        table.add_row(name, _number(reached, form), _number(beside, form))
    if run.num_missing:
        table.add_row("worst ratio, visited pairs", _number(run.visited_worst_ratio, ".4f"), "-")
    place = run.mdp.name or "the model"
    model = "" if run.model == KNOWN else f", model {run.model.replace('_', ' ')}"
    title = f"{run.explorer} on {place} at rho = {run.rho:g}{model}: {steps:,} steps, seed {run.seed}"
    notes = [f"Coverage: {run.coverage_text}. Least visited: {pair}, {count:,} times."]
    notes += [LONG_RUN if run.is_comparable else PART, *run.remarks]
    notes += [stop_sentence(asked.until, steps, asked.num_steps, is_met=run.is_enough)]
    notes += [*known.sentences(run), run.restriction]
    return Group(Text(title, "bold"), table, *known.tables(run), *(Text(note) for note in notes if note))


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def comparison_tables(found: Comparison) -> list[Group]:
    """Returns a table for each model and order, one row for each explorer."""
    rows = found.table()
    cells = dict.fromkeys((row.env, row.rho) for row in rows)
    return [_cell_table([row for row in rows if (row.env, row.rho) == cell], found) for cell in cells]


def _cell_table(rows: Sequence[Row], found: Comparison) -> Group:
    """Returns one table; its last column is the exponent, or the model's error where that was learned."""
    first, is_known = rows[0], found.model == KNOWN
    theorem = [row.explorer for row in rows if row.theorem_exponent is not None]
    unit = "" if first.regret_unit == "U" else ", nats"
    last = "exponent" if is_known else "model error"
    table = empty_table("explorer", f"regret{unit}", BREGMAN, "worst ratio", last)
    for row in rows:
        table.add_row(row.explorer, *_cells(row), _exponent(row) if is_known else _model_error(row))
    possible = "0", _number(first.kappa_min, ".4g"), _number(first.best_worst_ratio, ".3f")
    table.add_row(Text("possible", "italic"), *possible, "" if is_known else "0")
    title = f"{first.env} at rho = {first.rho:g}: {found.num_steps:,} steps, {first.num_seeds} seeds"
    title += f"; {found.conditions}" if found.conditions else ""
    named = " and ".join(theorem)
    note = f"Theorem: U* - U of {named} is at most of order t^(-1/3), up to a logarithm; so is the regret."
    return Group(Text(title, "bold"), table, *([Text(note)] if theorem else []))


def _cells(row: Row) -> tuple[str, ...]:
    """Returns the numbers of a row, or how many seeds have none."""
    if row.num_incomplete:
        return f"incomplete ({row.num_incomplete} of {row.num_seeds})", "-", "-"
    found = (row.regret, row.scaled_bregman, row.worst_ratio)
    return tuple(_spread(estimate, *form) for estimate, form in zip(found, FORMS, strict=True))


def _exponent(row: Row) -> str:
    return "-" if row.num_incomplete else _spread(row.exponent, *EXPONENT_FORM)


def _model_error(row: Row) -> str:
    return _spread(row.model_error, *ERROR_FORM)


def _spread(estimate: Estimate, form: str, error_form: str) -> str:
    """Returns mean ± standard error; the mean alone where there is no error."""
    text, error = _number(estimate.mean, form), estimate.standard_error
    return text if math.isnan(error) else f"{text} ± {error:{error_form}}"
