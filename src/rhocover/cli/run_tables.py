"""Tables of runs and comparisons: what was reached beside what is possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from rhocover.cli.tables import empty_table
from rhocover.exploring.trace import regret_column

if TYPE_CHECKING:
    from rhocover.experiments.rows import Estimate, Row
    from rhocover.exploring import Run

LONG_RUN = "What is possible is possible in the long run: a short run can be luckier."
BREGMAN = "Bregman · steps"
FORMS = ((".2e", ".0e"), (".4g", ".2g"), (".3f", ".3f"), (".2f", ".2f"))  # of means and errors


def run_table(run: Run) -> Group:
    """Returns what a run reached beside what is possible, below its title."""
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
        table.add_row(name, _number(reached, form), _number(possible, form))
    place = run.mdp.name or "the model"
    title = f"{run.explorer} on {place} at rho = {run.rho:g}: {steps:,} steps, seed {run.seed}"
    notes = [f"Coverage: {run.coverage_text}. Least visited: {pair}, {count:,} times.", LONG_RUN]
    notes += [run.restriction] if run.restriction else []
    return Group(Text(title, "bold"), table, *map(Text, notes))


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def comparison_tables(rows: Sequence[Row], num_steps: int) -> list[Group]:
    """Returns a table for each model and order, one row for each explorer."""
    cells = dict.fromkeys((row.env, row.rho) for row in rows)
    return [_cell_table([row for row in rows if (row.env, row.rho) == cell], num_steps) for cell in cells]


def _cell_table(rows: Sequence[Row], num_steps: int) -> Group:
    first = rows[0]
    theorem = [row.explorer for row in rows if row.theorem_exponent is not None]
    unit = "" if first.regret_unit == "U" else ", nats"
    table = empty_table("explorer", f"regret{unit}", BREGMAN, "worst ratio", "exponent")
    for row in rows:
        table.add_row(row.explorer, *_cells(row))
    possible = "0", _number(first.kappa_min, ".4g"), _number(first.best_worst_ratio, ".3f")
    table.add_row(Text("possible", "italic"), *possible, "")
    title = f"{first.env} at rho = {first.rho:g}: {num_steps:,} steps, {first.num_seeds} seeds"
    note = f"The theorem's exponent for {' and '.join(theorem)} is -1/3, up to a logarithm, or faster."
    return Group(Text(title, "bold"), table, *([Text(note)] if theorem else []))


def _cells(row: Row) -> tuple[str, ...]:
    """Returns the numbers of a row, or how many seeds have none."""
    if row.num_incomplete:
        return f"incomplete ({row.num_incomplete} of {row.num_seeds})", "-", "-", "-"
    found = (row.regret, row.scaled_bregman, row.worst_ratio, row.exponent)
    return tuple(_spread(estimate, *form) for estimate, form in zip(found, FORMS, strict=True))


def _spread(estimate: Estimate, form: str, error_form: str) -> str:
    """Returns mean ± standard error; the mean alone where there is no error."""
    text, error = _number(estimate.mean, form), estimate.standard_error
    return text if math.isnan(error) else f"{text} ± {error:{error_form}}"
