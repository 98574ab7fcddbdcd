"""Coverage against steps: this library's explorer beside the systems that its paper cites, and rlberry.

Even weights, equal budgets of steps, the same seeds for all that are of this library. Two criteria:

    worst ratio  max_i mubar_i/d_hat_i, ours at rho = inf
    divergence   D_2(mubar || d_hat),   ours at rho = 2

Compared is the excess over what the best policy reaches in the long run. Visits fluctuate whatever one does,
so the excess of a good explorer may be below its own standard error, or negative: then twice the standard
error stands in its place, on both sides, and a difference within twice its standard error is called even. An
explorer that left a pair unvisited in some run has no number; that is counted as a failure.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import report, seeds
from benchmarks.peers.explorer_pictures import coverage_figure
from benchmarks.peers.explorer_runs import (
    DIVERGENCE,
    ORDERS,
    WORST,
    Plan,
    Values,
    cores,
    coverage_over_time,
    seconds_of,
)
from benchmarks.peers.explorer_systems import ENVIRONMENTS, HORIZON, KNOWN, OURS, SYSTEMS, UNKNOWN
from rhocover.report.figures import save_figure

TITLE = "Explorers"
QUESTION = "How evenly are all pairs covered after the same number of steps?"
NUM_STEPS, NUM_SEEDS = 20_000, 20
SHORT_STEPS, SHORT_SEEDS, SHORT_ENVIRONMENTS = 400, 2, ("Wheel(5)",)
FOLDER = Path("out/benchmarks/explorers")  # of what is finished while a measurement is under way
SURE = 2.0  # standard errors
PICTURES = {WORST: "explorers_worst_ratio.svg", DIVERGENCE: "explorers_divergence.svg"}
GROUPS = {KNOWN: "Transitions known", UNKNOWN: "Transitions unknown"}
PLAYED = {"episodes": f"episodes of {HORIZON}", "desk": "draws any pair", "trajectory": "", "rlberry": ""}
SYMBOLS = {WORST: "worst ratio", DIVERGENCE: "D₂"}
DIGITS = 5  # of curves


def measure(short: bool = False) -> dict[str, Any]:
    """Returns both criteria of every system over time, their last values, and how they compare."""
    missing = report.absent("rlberry")
    labels = [x for x in SYSTEMS if SYSTEMS[x].play != "rlberry" or missing is None]
    if short:
        with tempfile.TemporaryDirectory() as folder:
            plan = Plan(SHORT_STEPS, SHORT_SEEDS, SHORT_ENVIRONMENTS, Path(folder), 1)
            return _measured(plan, labels) | _absent(missing)
    plan = Plan(NUM_STEPS, NUM_SEEDS, tuple(ENVIRONMENTS), FOLDER, cores())
    result = _measured(plan, labels) | _absent(missing)
    shutil.rmtree(FOLDER)  # finished: the next measurement begins anew
    return result


def _absent(missing: str | None) -> dict[str, Any]:
    return {"absent": {"rlberry": missing}} if missing else {}


def _measured(plan: Plan, labels: list[str]) -> dict[str, Any]:
    found = coverage_over_time(plan, labels)
    best = {env: best_possible(env) for env in plan.environments}
    table = [
        final(env, label, found[env, label], best[env], seconds_of(env, label, plan.num_steps))
        for env in plan.environments for label in labels
    ]  # fmt: skip
    return {
        "rows": [row for entry in table for row in compared(entry, table)],
        "table": table,
        "best": best,
        "steps": plan.num_steps,
        "seeds": plan.num_seeds,
        "marks": plan.marks,
        "curves": {
            env: {x: {name: curve(values) for name, values in found[env, x].items()} for x in labels}
            for env in plan.environments
        },
    }  # fmt: skip


def best_possible(environment: str) -> dict[str, float]:
    """Returns both criteria of the best policy in the long run."""
    mdp = ENVIRONMENTS[environment]()
    plans = {name: rc.plan(mdp, rho) for name, rho in ORDERS.items()}
    return {WORST: plans[WORST].worst_ratio, DIVERGENCE: plans[DIVERGENCE].divergence}


def final(env: str, label: str, values: Values, best: dict[str, float], taken: float) -> dict[str, Any]:
    """Returns what a system reached in the end: mean, standard error and excess of each criterion."""
    missed = int(np.isnan(values[WORST][:, -1]).sum())
    entry: dict[str, Any] = {
        "environment": env, "system": label, "group": SYSTEMS[label].group, "aim": SYSTEMS[label].aim,
        "play": SYSTEMS[label].play, "incomplete": missed, "runs": len(values[WORST]), "seconds": taken,
    }  # fmt: skip
    for name in ORDERS:
        mean, error = (None, None) if missed else seeds.mean_and_error(values[name][:, -1])
        entry[name] = {
            "mean": mean, "error": error, "excess": None if mean is None else mean - best[name]
        }  # fmt: skip
    return entry


def compared(entry: dict[str, Any], table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each criterion, beside ours that knows as much; none for ours itself."""
    if entry["system"] in OURS.values():
        return []
    ours = next(
        x for x in table
        if x["environment"] == entry["environment"] and x["system"] == OURS[entry["group"]]
    )  # fmt: skip
    if ours["incomplete"]:
        return []
    return [_row(entry, ours, name) for name in ORDERS]


def _row(entry: dict[str, Any], ours: dict[str, Any], name: str) -> dict[str, Any]:
    mine = floored(ours[name])
    row = {
        "case": f"{entry['environment']}, P {entry['group']}, {SYMBOLS[name]}", "peer": entry["system"],
        "quantity": "distance from the best", "ours": mine, "theirs": None, "ratio": None,
        "environment": entry["environment"], "group": entry["group"], "criterion": name,
    }  # fmt: skip
    if entry["incomplete"]:
        return row | {"failure": f"{entry['incomplete']} of {entry['runs']} runs left pairs unvisited"}
    theirs = floored(entry[name])
    difference = entry[name]["mean"] - ours[name]["mean"]
    error = math.hypot(entry[name]["error"], ours[name]["error"])
    verdict = "even" if abs(difference) <= SURE * error else "ahead" if difference > 0 else "behind"
    return row | {"theirs": theirs, "ratio": theirs / mine, "verdict": verdict} | _why(entry, verdict)


def _why(entry: dict[str, Any], verdict: str) -> dict[str, str]:
    if verdict != "behind":
        return {}
    if entry["play"] == "desk":
        return {"why": "it draws from any pair without walking there"}
    return {"why": "its episodes begin anew, which no trajectory can"} if entry["play"] == "episodes" else {}


def floored(found: dict[str, float]) -> float:
    """Returns the excess, or twice its standard error where that is more."""
    return max(found["excess"], SURE * found["error"])


def curve(values: np.ndarray) -> dict[str, list[float | None]]:
    """Returns mean and 10 % and 90 % quantiles over the seeds, None where some run has no number."""
    low, high = np.quantile(values, [0.1, 0.9], axis=0)
    return {
        name: _rounded(line) for name, line in (("mean", values.mean(axis=0)), ("low", low), ("high", high))
    }


def _rounded(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(x) else float(f"{x:.{DIGITS}g}") for x in values.tolist()]


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns the pictures, and a table for each environment."""
    best = result["best"]
    parts = [
        f"After {result['steps']:,} steps, {result['seeds']} seeds, equal weights; mean ± standard error. "
        "The worst ratio is that of the pair with the smallest share of its target (ours at rho = ∞), D₂ is "
        "the divergence (ours at rho = 2). *Excess* is the distance from the best possible, as a multiple of "
        "that of our explorer with the same knowledge; where an excess is within noise, twice its standard "
        "error is used instead. Each method runs under the conditions it was written for and optimises its "
        "own objective: one that aims at even states or a small model error is not meant to cover pairs "
        f"evenly, and the column says so. Episodes of {HORIZON} steps restart, which changes what is "
        "possible; the best possible value shown is without restarts. The published methods are our own "
        "implementations from their papers, with default settings that were not tuned for these models. For "
        "*rlberry, best form* the form and the horizon were searched for each model, by the worst ratio and "
        "on other seeds. Seconds are processor time of one run, where it was measured.",
        *(
            f"![{SYMBOLS[name]} against steps in each environment](benchmarks/{picture})"
            for name, picture in PICTURES.items()
        ),
    ]
    for env in best:
        reached = (
            f"worst ratio {report.number(best[env][WORST], 4)}, D₂ {report.number(best[env][DIVERGENCE], 4)}"
        )
        parts += [f"### {env}", f"Best possible: {reached}.", *_tables(result, env)]
    return "\n\n".join(parts)


def _tables(result: dict[str, Any], env: str) -> list[str]:
    """Returns a table for each group: those that know the transitions, and those that do not."""
    columns = ["aims at", "worst ratio", "excess", "D₂", "excess", "seconds", ""]
    found = []
    for group, title in GROUPS.items():
        rows = {
            (row["peer"], row["criterion"]): row
            for row in result["rows"]
            if row["environment"] == env and row["group"] == group
        }
        here = [x for x in result["table"] if x["environment"] == env and x["group"] == group]
        lines = [_line(entry, rows) for entry in here]
        found.append(report.markdown_table([title.lower(), *columns], lines, left=2, words=1))
    return found


def _line(entry: dict[str, Any], rows: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    label = entry["system"]
    is_ours = label in OURS.values()
    played = PLAYED[entry["play"]]
    name = f"**{label}**" if is_ours else f"{label} ({played})" if played else label
    if entry["incomplete"]:
        missed = f"{entry['incomplete']} of {entry['runs']} runs left pairs unvisited"
        return [name, entry["aim"], "-", "-", "-", "-", report.seconds(entry["seconds"]), missed]
    cells: list[str] = []
    for criterion in ORDERS:
        row = rows.get((label, criterion))
        cells.append(report.spread(entry[criterion]["mean"], entry[criterion]["error"]))
        cells.append("1" if is_ours else report.times(row["ratio"]) if row else "-")
    marks = [
        f"{report.mark(row)} in {SYMBOLS[x]}"
        for x in ORDERS
        if (row := rows.get((label, x))) and report.mark(row)
    ]
    return [name, entry["aim"], *cells, report.seconds(entry["seconds"]), ", ".join(marks)]


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws each criterion against steps, a panel for each environment."""
    for name, picture in PICTURES.items():
        curves = {
            env: {x: lines[name] for x, lines in found.items()} for env, found in result["curves"].items()
        }
        best = {env: found[name] for env, found in result["best"].items()}
        figure = coverage_figure(curves, result["marks"], best, name, result["seeds"])
        save_figure(figure, folder / picture, overwrite=True)
