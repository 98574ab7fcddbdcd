"""Planning: `plan` beside CVXPY with Clarabel and SCS, beside HiGHS, and beside what one would write first.

From the model to the occupancy, rho from 1/2 to infinity, models of 6 to 10,000 states with random weights.
What was achieved stands beside the time: how far the divergence is above the best that is possible, which
our certificate knows to 1e-8, and what is missing of the flow equations. An answer that is off by more
than 1e-6 in either is a failure, whatever the solver says of it.

HiGHS takes linear and quadratic programs. The worst case, rho = inf, is a linear one; no other rho is either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rhocover as rc
from benchmarks import models
from benchmarks.peers import planner_page, solver_pictures
from benchmarks.peers.solvers import INF, Solved, forms, judged, prepared
from benchmarks.peers.workers import Clock, Worker

TITLE = "Planner"
QUESTION = "How long does it take from a known model to the best coverage it allows, and is the answer right?"
RHOS = (0.5, 1, 2, 4, 8, 32, INF)
PEERS = {
    "CVXPY + Clarabel": "CLARABEL", "CVXPY + SCS": "SCS", "HiGHS": "HiGHS",
    "CVXPY, as first written": "naive",
}  # fmt: skip
LIMITS = {"SCS": 8.0}  # seconds for one solve; what SCS does not reach in a few it does not reach
LIMIT, SHORT_LIMIT = 20.0, 2.0
RUNS = 5
SLOW = 0.25  # seconds; a solve of a peer that takes longer is not repeated
PICTURE = "planner_seconds.svg"


@dataclass(frozen=True)
class Case:
    """A model, and the smaller one of its kind that was solved before."""

    make: Callable[[], rc.MDP]
    before: str | None = None
    is_largest: bool = False  # the form that was best before is the only one tried


def _garnet(size: int) -> Callable[[], rc.MDP]:
    return lambda: rc.envs.garnet(num_states=size, num_actions=4, num_successors=5)


CASES = {
    "RiverSwim 6": Case(rc.envs.river_swim),
    "Garnet 200": Case(_garnet(200)),
    "Garnet 2000": Case(_garnet(2000), "Garnet 200", True),
    "grid 20x20": Case(lambda: models.slippery_grid(20)),
    "grid 50x50": Case(lambda: models.slippery_grid(50), "grid 20x20"),
    "grid 100x100": Case(lambda: models.slippery_grid(100), "grid 50x50", True),
}
SHORT = ("RiverSwim 6", "grid 20x20")
SHORT_RHOS = (1, 8, INF)

Rows = list[dict[str, Any]]


def measure(short: bool = False) -> dict[str, Any]:
    """Returns a row for each model, rho and peer that can take it."""
    rows: Rows = []
    for name in SHORT if short else CASES:
        mdp = CASES[name].make()
        mu = models.random_weights(mdp)
        rc.plan(mdp, 2, mu)  # loads what was compiled before
        with Worker(prepared, mdp, mu) as worker:
            for rho in SHORT_RHOS if short else RHOS:
                rows += _compared(name, mdp, mu, rho, worker, rows, short)
    return {"rows": rows, "limit": SHORT_LIMIT if short else LIMIT, "limit of SCS": LIMITS["SCS"],
            "runs": 2 if short else RUNS}  # fmt: skip


def _compared(
    name: str, mdp: rc.MDP, mu: Any, rho: float, worker: Worker, earlier: Rows, short: bool
) -> Rows:
    """Returns the rows of one model and rho: ours between the others' solves, the least of all runs."""
    runs = 2 if short else RUNS
    coverage, times = rc.Coverage(rho, mu), []
    best = rc.plan(mdp, rho, mu)
    found = {}
    for peer, solver in PEERS.items():
        if forms(solver, rho):
            limit = SHORT_LIMIT if short else LIMITS.get(solver, LIMIT)
            before = _row_before(name, rho, peer, earlier)
            tried = _tried(name, solver, rho, before)
            found[peer] = _fastest(mdp, coverage, best, worker, (rho, solver, tried, limit, runs))
        times.append(_ours(mdp, rho, mu))
    times += [_ours(mdp, rho, mu) for _ in range(runs - len(times))]
    return [_row(name, mdp, rho, peer, best, min(times), row) for peer, row in found.items()]


def _ours(mdp: rc.MDP, rho: float, mu: Any) -> float:
    clock = Clock()
    rc.plan(mdp, rho, mu)
    return clock.seconds


def _row_before(name: str, rho: float, peer: str, earlier: Rows) -> dict[str, Any] | None:
    """Returns how the peer did on the next smaller model of this kind; None if there is none."""
    same = [row for row in earlier if (row["rho"], row["peer"]) == (str(rho), peer)]
    return next((row for row in same if row["model"] == CASES[name].before), None)


def _tried(name: str, solver: str, rho: float, before: dict[str, Any] | None) -> list[str]:
    """Returns the forms to try: none that needed all its time before, and on the largest model the best."""
    if before is None:
        return forms(solver, rho)
    if CASES[name].is_largest and not before["failure"]:
        return [before["form"]]
    return [form for form in forms(solver, rho) if form not in before["too slow"]]


def _fastest(
    mdp: rc.MDP, coverage: rc.Coverage, best: rc.Plan, worker: Worker, job: tuple[Any, ...]
) -> dict[str, Any]:
    """Returns the fastest form that is right; if none is, the one that came nearest."""
    rho, solver, tried, limit, runs = job
    optimum = best.divergence - best.gap / 2
    found, slow = [], []
    for form in tried:
        solved = [_solved(worker, rho, solver, form, limit)]
        while len(solved) < runs and solved[0].wall < SLOW:
            solved.append(_solved(worker, rho, solver, form, limit))
        quickest = min(solved, key=lambda one: one.seconds)
        slow += [form] if quickest.wall > 0.9 * limit else []
        found.append(_outcome(mdp, coverage, quickest, optimum, form))
    if not found:
        nothing = {"form": "-", "theirs": None, "status": "-", "error": None, "flow": None}
        found = [nothing | {"failure": "not tried: out of time on the smaller model"}]
    return min(found, key=_rank) | {"too slow": slow or ([] if tried else forms(solver, rho))}


def _solved(worker: Worker, rho: float, solver: str, form: str, limit: float) -> Solved:
    found = worker.do(limit, rho, solver, form, limit)
    return found if isinstance(found, Solved) else Solved(limit, limit, found)


def _outcome(mdp: rc.MDP, coverage: rc.Coverage, solved: Solved, optimum: float, form: str) -> dict[str, Any]:
    judgement = judged(mdp, coverage, solved, optimum)
    return {"form": form, "theirs": solved.seconds, "status": solved.status, **judgement}


def _rank(outcome: dict[str, Any]) -> tuple[bool, float]:
    off = max(abs(outcome["error"]), outcome["flow"]) if outcome["error"] is not None else INF
    return bool(outcome["failure"]), off if outcome["failure"] else outcome["theirs"]


def _row(
    name: str, mdp: rc.MDP, rho: float, peer: str, best: rc.Plan, ours: float, row: dict[str, Any]
) -> dict[str, Any]:
    ratio = None if row["failure"] else row["theirs"] / ours
    found = {"case": f"{name}, rho = {rho:g}", "peer": peer, "ours": ours, **row, "ratio": ratio}
    if ratio is not None and ratio < 1:
        found["why"] = _why(rho, peer)
    return found | {
        "model": name, "states": mdp.num_states, "rho": str(rho), "steps": best.steps, "gap": best.gap,
        "our flow": mdp.num_pairs * best.residuals.flow,
    }  # fmt: skip


def _why(rho: float, peer: str) -> str:
    if rho == INF and peer == "HiGHS":
        return "a linear program this small is one call of compiled code; a Newton step of ours is Python"
    return "small: the time is that of Python between the kernels"


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns how much longer each peer took, how accurate it was, and how often it failed."""
    return f"{planner_page.section(result)}\n\n![Seconds of a plan over rho](benchmarks/{PICTURE})"


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws seconds over rho, a panel for each model."""
    solver_pictures.draw_rhos(result["rows"], folder / PICTURE)
