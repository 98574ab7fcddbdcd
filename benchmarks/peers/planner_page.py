"""The page of the planner's comparison: accuracy and failures of everyone, then the ratios of each peer."""

from __future__ import annotations

from typing import Any

from benchmarks import report

Rows = list[dict[str, Any]]


def section(result: dict[str, Any]) -> str:
    """Returns how much longer each peer took, how accurate it was, and how often it failed."""
    rows = result["rows"]
    words = (
        "From the model to the occupancy, with random weights in [0.1, 1]. The peers solve the program in "
        "variables scaled by the number of pairs; the fastest of all correct formulations counts. *As first "
        "written* is the definition typed into CVXPY with its default solver. Times are the minimum of "
        f"{result['runs']} runs (one, where a run takes longer than a quarter of a second), in processor or "
        "wall-clock seconds, whichever is less. The time limit of a solve is "
        f"{result['limit']:g} s ({result['limit of SCS']:g} s for SCS). **An answer fails** if there is "
        "none, or if its divergence or its flow (in units of a pair's mean share) is off by more than 1e-6."
    )
    parts = [words, _summary(rows)]
    for peer in dict.fromkeys(row["peer"] for row in rows):
        parts += [f"### {peer}", _table([row for row in rows if row["peer"] == peer])]
    parts.append("HiGHS solves linear and quadratic programs, and only rho = inf is one (linear).")
    return "\n\n".join(parts)


def _summary(rows: Rows) -> str:
    """Returns the accuracy and the failures of everyone."""
    lines = []
    for peer in dict.fromkeys(row["peer"] for row in rows):
        own = [row for row in rows if row["peer"] == peer]
        lines.append([peer, *_figures(own, "error", "flow"), f"{sum(bool(r['failure']) for r in own)}"])
    cases = {row["case"]: row for row in rows}.values()
    ours = [f"{report.number(max(row[key] for row in cases), 2)}" for key in ("gap", "our flow")]
    lines.insert(0, ["this library", f"{len(cases)}", *ours, "0"])
    columns = ["who", "problems", "largest error", "largest flow residual", "failed"]
    return report.markdown_table(columns, lines) + (
        "\n\nErrors and residuals of the peers are those of answers that did not fail. Ours is the certified "
        "gap; a plan above it would have raised an error."
    )


def _figures(rows: Rows, *keys: str) -> list[str]:
    right = [row for row in rows if not row["failure"]]
    most = [report.number(max((abs(row[key]) for row in right), default=None), 2) for key in keys]
    return [f"{len(rows)}", *most]


def _table(rows: Rows) -> str:
    """Returns the ratios of one peer, a line for each model and a column for each rho."""
    rhos = list(dict.fromkeys(row["rho"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["model"] for row in rows):
        own = {row["rho"]: row for row in rows if row["model"] == name}
        lines.append([name, *(_cell(own[rho]) if rho in own else "" for rho in rhos)])
    return report.markdown_table(["theirs / ours", *(f"rho = {float(rho):g}" for rho in rhos)], lines)


def _cell(row: dict[str, Any]) -> str:
    """Returns the ratio with both times, or why there is none."""
    if row["failure"]:
        return f"failed: {row['failure']}"
    bold = "**" if row["ratio"] < 1 else ""
    both = f"{report.seconds(row['theirs'])} / {report.seconds(row['ours'])}"
    return f"{bold}{report.times(row['ratio'])}{bold} ({both})"
