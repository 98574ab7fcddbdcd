"""Growth: time, memory and Newton steps of `plan` from 10^2 to 10^6 states, and Clarabel as far as it comes.

Each plan runs in a process of its own, so that the memory is that of one plan: the most that the process
holds, the model included, minus what it held before the model was made. Exponents are slopes of log time
over log states by least squares, with their standard errors, from a thousand states on: below it the time
is that of Python. Grids have small separators, so their factors grow as n log n; random graphs have none, and
their factors are dense: n^2 numbers and n^3 operations, for every direct method.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import models, report
from benchmarks.peers.solver_pictures import OURS, draw_sizes
from benchmarks.peers.solvers import INF, judged, solve
from benchmarks.peers.workers import Clock

TITLE = "Growth"
QUESTION = "How do time and memory of planning grow from a hundred states to a million?"
RHOS = (2.0, INF)
SIDES = (10, 18, 32, 56, 100, 178, 316, 1000)
GARNETS = (100, 300, 1000, 3000)
PEER_SIDES = (10, 32, 100, 178)
PEER_GARNETS = (100, 300, 1000, 3000)
SHORT_SIDES, SHORT_GARNETS = (10, 32), (100,)
FORMS = {2.0: "inverse", INF: "cone"}  # the fastest on grids and random graphs, see the planner
LIMIT, SHORT_LIMIT = 30.0, 5.0
REPEATED = 20_000  # states; up to here a plan is repeated, and the least time counts
MOST = {("grid", INF): 316, ("Garnet", INF): 1000}  # beyond, one plan takes minutes
FROM = 1_000  # states from which on exponents are fitted
PICTURE = "growth_seconds.svg"
PEER = "CVXPY + Clarabel"

Rows = list[dict[str, Any]]


def measure(short: bool = False) -> dict[str, Any]:
    """Returns the sizes, and for each kind of model and rho the rows that compare and the exponents."""
    kinds = {
        "grid": (SHORT_SIDES if short else SIDES, SHORT_SIDES[:1] if short else PEER_SIDES),
        "Garnet": (SHORT_GARNETS if short else GARNETS, SHORT_GARNETS[:1] if short else PEER_GARNETS),
    }
    limit, sizes = SHORT_LIMIT if short else LIMIT, []
    for kind, (ours, theirs) in kinds.items():
        for rho in RHOS:
            has_failed = False
            for size in (size for size in ours if size <= MOST.get((kind, rho), size)):
                sizes.append(_run("ours", kind, size, rho, None))
                if size in theirs and not has_failed:
                    sizes.append(_run(PEER, kind, size, rho, limit))
                    has_failed = bool(sizes[-1]["failure"])
    return {"rows": _rows(sizes), "sizes": sizes, "fits": _fits(sizes), "limit": limit, "from": FROM}


def _run(who: str, kind: str, size: int, rho: float, limit: float | None) -> dict[str, Any]:
    """Returns what a fresh process prints about one plan; it is ended when its time is up."""
    command = [sys.executable, "-m", "benchmarks.peers.growth", who, kind, str(size), str(rho), str(limit)]
    allowed = None if limit is None else limit + 15  # Python, the imports and the model
    try:
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=allowed)
        return json.loads(found.stdout)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        is_late = isinstance(error, subprocess.TimeoutExpired)
        failure = f"no answer in {limit:g} s" if is_late else "the process died"
        states = size * size if kind == "grid" else size
        return {"who": who, "kind": kind, "states": states, "rho": str(rho), "seconds": limit,
                "failure": failure, "peak GB": None}  # fmt: skip


def _model(kind: str, size: int) -> rc.MDP:
    if kind == "grid":
        return models.slippery_grid(size)
    return rc.envs.garnet(num_states=size, num_actions=4, num_successors=5)


def one(who: str, kind: str, size: int, rho: float, limit: float | None) -> dict[str, Any]:
    """Plans once, or a few times where that is short, and tells what it took and what came out."""
    small = models.slippery_grid(30)
    if who == "ours":
        rc.plan(small, rho)  # loads what was compiled before
    else:
        solve(small, np.ones(small.num_pairs), rho, "CLARABEL", FORMS[rho], 10.0)
    before = _peak()
    mdp = _model(kind, size)
    mu = models.random_weights(mdp)
    found = _ours(mdp, mu, rho) if limit is None else _theirs(mdp, mu, rho, limit)
    head = {"who": who, "kind": kind, "states": mdp.num_states, "pairs": mdp.num_pairs, "rho": str(rho)}
    return head | found | {"peak GB": found["peak GB"] - before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _ours(mdp: rc.MDP, mu: Any, rho: float) -> dict[str, Any]:
    times = []
    for _ in range(3 if mdp.num_states <= REPEATED else 1):
        clock = Clock()
        plan = rc.plan(mdp, rho, mu)
        times.append(clock.seconds)
    return {"seconds": min(times), "steps": plan.steps, "gap": plan.gap, "failure": "", "peak GB": _peak()}


def _theirs(mdp: rc.MDP, mu: Any, rho: float, limit: float) -> dict[str, Any]:
    found = solve(mdp, mu, rho, "CLARABEL", FORMS[rho], limit)
    peak, best = _peak(), rc.plan(mdp, rho, mu)
    found = {"seconds": found.seconds, "peak GB": peak} | judged(
        mdp, best.coverage, found, best.divergence - best.gap / 2
    )
    return found | {"failure": f"no answer in {limit:g} s"} if found["error"] is None else found


def _rows(sizes: Rows) -> Rows:
    """Returns the rows that compare: the same model and rho, ours beside theirs."""
    ours = {(row["kind"], row["states"], row["rho"]): row for row in sizes if row["who"] == "ours"}
    rows = []
    for row in sizes:
        if row["who"] == "ours":
            continue
        own = ours[row["kind"], row["states"], row["rho"]]
        shared = {"case": _case(row), "peer": PEER, "failure": row["failure"]}
        ratio = None if row["failure"] else row["seconds"] / own["seconds"]
        rows.append(shared | {"ours": own["seconds"], "theirs": row["seconds"], "ratio": ratio})
    return rows


def _case(row: dict[str, Any]) -> str:
    return f"{row['kind']}, {row['states']:,} states, rho = {float(row['rho']):g}"


def _fits(sizes: Rows) -> list[dict[str, Any]]:
    """Returns the exponents of time, and of our memory, for each kind, rho and solver."""
    found = []
    for kind, rho, who in dict.fromkeys((row["kind"], row["rho"], row["who"]) for row in sizes):
        own = [row for row in sizes if (row["kind"], row["rho"], row["who"]) == (kind, rho, who)]
        own = [row for row in own if row["states"] >= FROM and not row["failure"]]
        head = {"kind": kind, "rho": rho, "who": who}
        found.append(head | slope([row["states"] for row in own], [row["seconds"] for row in own]))
    return found


def slope(x: list[float], y: list[float]) -> dict[str, Any]:
    """Returns the slope of log y over log x, its standard error, and over what it was fitted.

    Two points have a slope without an error; fewer have none.
    """
    result: dict[str, Any] = {"points": len(x), "exponent": None, "error": None}
    if len(x) < 2:
        return result
    a, b = np.log(x), np.log(y)
    spread = float(((a - a.mean()) ** 2).sum())
    result["exponent"] = float(((a - a.mean()) * (b - b.mean())).sum() / spread)
    if len(x) > 2:
        rest = b - b.mean() - result["exponent"] * (a - a.mean())
        result["error"] = math.sqrt(float((rest**2).sum()) / (len(x) - 2) / spread)
    return result


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns the exponents, and a table of sizes for each kind of model and rho."""
    words = (
        "Slippery grids and random graphs (Garnet, 4 actions, 5 successors) with random weights, each plan "
        "in its own process. Memory is the growth of the process, including the model. Exponents are slopes "
        f"of log seconds over log states, from {result['from']:,} states on. Clarabel uses its fastest "
        f"formulation with a time limit of {result['limit']:g} s; after a failure no larger model of the "
        "same kind is tried."
    )
    fits = [
        [fit["kind"], f"{float(fit['rho']):g}", fit["who"], f"{fit['points']}", _exponent(fit)]
        for fit in result["fits"]
    ]
    columns = ["model", "rho", "who", "sizes", "exponent"]
    parts = [words, report.markdown_table(columns, fits, left=3), _table(result["sizes"], result["rows"])]
    return "\n\n".join([*parts, f"![Seconds over states](benchmarks/{PICTURE})"])


def _exponent(fit: dict[str, Any]) -> str:
    if fit["exponent"] is None:
        return "too few sizes"
    error = "" if fit["error"] is None else f" ± {fit['error']:.2f}"
    return f"{fit['exponent']:.2f}{error}"


def _table(sizes: Rows, compared: Rows) -> str:
    """Returns a line for each size of ours, with the row that compares it, if there is one."""
    peak = {_case(row): row for row in sizes if row["who"] != "ours"}
    theirs = {row["case"]: row | {"peak GB": peak[row["case"]]["peak GB"]} for row in compared}
    lines = []
    for row in sizes:
        if row["who"] == "ours":
            other = theirs.get(_case(row))
            lines.append([
                row["kind"], f"{float(row['rho']):g}", f"{row['states']:,}", report.seconds(row["seconds"]),
                f"{row['steps']}", report.number(row["gap"], 2), _memory(row), *_other(other),
            ])  # fmt: skip
    columns = [
        "model",
        "rho",
        "states",
        "ours",
        "Newton steps",
        "gap",
        "memory",
        "Clarabel",
        "memory",
        "ratio",
    ]
    return report.markdown_table(columns, lines, left=2)


def _memory(row: dict[str, Any]) -> str:
    if row["peak GB"] is None:
        return "-"
    return f"{row['peak GB']:.1f} GB" if row["peak GB"] >= 1 else f"{1024 * row['peak GB']:.0f} MB"


def _other(other: dict[str, Any] | None) -> list[str]:
    if other is None:
        return ["", "", ""]
    if other["failure"]:
        return [f"failed: {other['failure']}", _memory(other), ""]
    bold = "**" if other["ratio"] < 1 else ""
    return [report.seconds(other["theirs"]), _memory(other), f"{bold}{report.times(other['ratio'])}{bold}"]


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws seconds over states, a panel for each kind of model and rho."""
    lines: dict[str, dict[str, Rows]] = {}
    for row in result["sizes"]:
        panel = lines.setdefault(f"{row['kind']}, rho = {float(row['rho']):g}", {})
        panel.setdefault(OURS if row["who"] == "ours" else row["who"], []).append(row)
    note = "seconds from the model to the occupancy; a cross is where a solver ran out of time"
    draw_sizes(lines, "Planning, from a hundred states to a million", note, folder / PICTURE)


if __name__ == "__main__":
    seconds = None if sys.argv[5] == "None" else float(sys.argv[5])
    print(json.dumps(one(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), seconds)))
