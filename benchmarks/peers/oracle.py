"""Best responses: `best_response` beside quantecon, mdpsolver, and the linear program in HiGHS.

The best policy for a reward, discounted (0.99) and on average, cold and after a change of the reward by 3%,
on slippery grids and random graphs of 10^2 to 10^5 states. Beside the time stands what the policy loses to
our certified bound, evaluated exactly by us, in units of the largest reward; more than 1e-6 is a failure.
Ours returns more than they do: the occupancy of the policy, and the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rhocover as rc
from benchmarks import models, report
from benchmarks.peers.oracle_peers import Answered, even_start, methods, prepared
from benchmarks.peers.solver_pictures import OURS, draw_sizes
from benchmarks.peers.workers import Clock, Worker
from rhocover.checks import FloatArray, IntArray
from rhocover.oracles import METHODS, Response, make_oracle
from rhocover.oracles.evaluation import best_class
from rhocover.oracles.policy_iteration import visits_of

TITLE = "Oracle"
QUESTION = (
    "How long does the best policy for a reward take, from nothing and after a small change of the reward?"
)
PEERS = ("quantecon", "mdpsolver", "HiGHS")
DISCOUNT, CHANGE, RIGHT = 0.99, 0.03, 1e-6
WHY = "theirs stops at values right to 1e-6; ours goes on to 1e-11 and adds the occupancy and the bound"
WHY_PROGRAM = "so small a program is one call of compiled code; ours is some calls of NumPy and SciPy"
SIZES = {"grid": (10, 32, 100, 316), "Garnet": (100, 1_000, 10_000, 100_000)}
SHORT_SIZES = {"grid": (10,), "Garnet": (100, 1_000)}
LIMIT, SHORT_LIMIT = 15.0, 4.0
RUNS, SLOW = 5, 0.5  # what takes longer than `SLOW` seconds is not repeated
OWN_STATES = 1_024  # up to here all of our methods are timed; the linear program is minutes at 10,000
PICTURE = "oracle_seconds.svg"

Rows = list[dict[str, Any]]


def measure(short: bool = False) -> dict[str, Any]:
    """Returns a row for each model, criterion, start and peer, and the times of our own methods."""
    rows: Rows = []
    own: Rows = []
    missing = {peer: line for peer in PEERS[:2] if (line := report.absent(peer)) is not None}
    peers = [peer for peer in PEERS if peer not in missing]
    for kind, sizes in (SHORT_SIZES if short else SIZES).items():
        for size in sizes:
            mdp = _model(kind, size)
            rewards = _rewards(mdp)
            with Worker(prepared, mdp, *rewards) as worker:
                for discount in (DISCOUNT, None):
                    rows += _compared(kind, mdp, rewards, discount, worker, rows, peers, short)
            own += _own_methods(kind, mdp, rewards[0]) if mdp.num_states <= OWN_STATES else []
    limit = SHORT_LIMIT if short else LIMIT
    settings = {"discount": DISCOUNT, "change": CHANGE, "limit": limit}
    return {"rows": rows, "own": own, **settings, "absent": missing}


def _model(kind: str, size: int) -> rc.MDP:
    if kind == "grid":
        return models.slippery_grid(size)
    return rc.envs.garnet(num_states=size, num_actions=4, num_successors=5)


def _rewards(mdp: rc.MDP) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    reward = rng.random(mdp.num_pairs)
    return reward, np.clip(reward + CHANGE * rng.standard_normal(mdp.num_pairs), 0, 1)


def _members(mdp: rc.MDP, discount: float | None) -> rc.Occupancies:
    start = None if discount is None else even_start(mdp)
    return rc.Occupancies.of(mdp, discount=discount, start=start)


def _compared(
    kind: str, mdp: rc.MDP, rewards: tuple[FloatArray, FloatArray], discount: float | None, worker: Worker,
    earlier: Rows, peers: list[str], short: bool,
) -> Rows:  # fmt: skip
    """Returns the rows of one model and criterion: ours between the others' answers, the least of all."""
    members, rows = _members(mdp, discount), []
    _ours(members, rewards, False)  # loads what was compiled before
    for is_warm in (False, True):
        head = {"kind": kind, "states": mdp.num_states, "criterion": members.criterion, "warm": is_warm}
        ours, found, best = [], {}, None
        for peer in peers:
            seconds, best = _ours(members, rewards, is_warm)
            ours.append(seconds)
            tried = methods(peer, discount, kind, mdp.num_states)
            slow = [row["too slow"] for row in earlier if _is_smaller(row, head, peer)]
            if tried and not any(slow):
                judge = _judge(members, rewards[is_warm], best)
                found[peer] = _fastest(worker, judge, peer, tried, discount, is_warm, short)
            elif tried:
                failure = "not tried: out of time on a smaller model"
                found[peer] = {"method": "-", "theirs": None, "failure": failure, "too slow": True}
        ours += [_ours(members, rewards, is_warm)[0] for _ in range(RUNS - 3 if min(ours) < SLOW else 0)]
        assert best is not None
        rows += [_row(head, peer, min(ours), best, row) for peer, row in found.items()]
    return rows


def _is_smaller(row: dict[str, Any], head: dict[str, Any], peer: str) -> bool:
    same = all(row[key] == head[key] for key in ("kind", "criterion", "warm"))
    return same and row["peer"] == peer and row["states"] < head["states"]


def _ours(
    members: rc.Occupancies, rewards: tuple[FloatArray, FloatArray], is_warm: bool
) -> tuple[float, Response]:
    clock = Clock()
    oracle = make_oracle(members)
    answer = oracle.respond(rewards[0])
    if is_warm:
        clock = Clock()
        answer = oracle.respond(rewards[1], warm=answer)
    return clock.seconds, answer


def _judge(members: rc.Occupancies, reward: FloatArray, best: Response) -> Callable[[IntArray], float]:
    """Returns the function from the pairs of a policy to what it loses, in units of the largest reward."""

    def lost(pairs: IntArray) -> float:
        chain = members.mdp.transitions[pairs]
        if members.discount is None:
            mass = best_class(chain, reward[pairs], best.potential)
        else:
            mass = visits_of(chain, 1 - members.discount, members.inflow)
        return (best.upper_bound - float(mass @ reward[pairs])) / float(np.abs(reward).max())

    return lost


def _fastest(
    worker: Worker, judge: Callable[[IntArray], float], peer: str, tried: list[str], discount: float | None,
    is_warm: bool, short: bool,
) -> dict[str, Any]:  # fmt: skip
    """Returns the fastest method of a peer that is right; if none is, why."""
    limit, found = SHORT_LIMIT if short else LIMIT, []
    allowed = 2 * limit if is_warm else limit  # a warm answer needs a cold one before it
    for method in tried:
        answers = [worker.do(allowed, peer, method, discount, is_warm)]
        while isinstance(answers[0], Answered) and answers[0].seconds < SLOW and len(answers) < RUNS:
            answers.append(worker.do(allowed, peer, method, discount, is_warm))
        good = [answer for answer in answers if isinstance(answer, Answered)]
        if len(good) < len(answers):
            found.append({"method": method, "theirs": limit, "lost": None, "failure": answers[-1]})
            continue
        quickest = min(good, key=lambda answer: answer.seconds)
        lost = judge(quickest.pairs)
        failure = "" if lost <= RIGHT else f"loses {lost:.0e}"
        found.append({"method": method, "theirs": quickest.seconds, "lost": lost, "failure": failure})
    best = min(found, key=lambda row: (bool(row["failure"]), row["theirs"]))
    return best | {"too slow": all(row["lost"] is None for row in found)}


def _row(head: dict[str, Any], peer: str, ours: float, best: Response, row: dict[str, Any]) -> dict[str, Any]:
    case = f"{head['kind']}, {head['states']:,} states, {head['criterion']}, {_start(head)}"
    ratio = None if row["failure"] else row["theirs"] / ours
    found = head | {"case": case, "peer": peer, "ours": ours, "gap": best.gap, "ratio": ratio} | row
    if ratio is not None and ratio < 1:
        found["why"] = WHY_PROGRAM if peer == "HiGHS" else WHY
    return found


def _start(row: dict[str, Any]) -> str:
    return "warm" if row["warm"] else "cold"


def _own_methods(kind: str, mdp: rc.MDP, reward: FloatArray) -> Rows:
    """Returns how long each of our methods takes, and its gap."""
    rows = []
    for discount in (DISCOUNT, None):
        members = _members(mdp, discount)
        for method in METHODS:
            clock = Clock()
            answer = make_oracle(members, method).respond(reward)
            head = {"kind": kind, "states": mdp.num_states, "criterion": members.criterion}
            rows.append(head | {"method": method, "seconds": clock.seconds, "gap": answer.gap,
                                "value": answer.value})  # fmt: skip
    return rows


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns a table for each criterion and start, and one of our own methods."""
    rows = result["rows"]
    words = (
        f"The best policy for a random reward, discounted by {result['discount']:g} and on average, from "
        f"scratch (cold) and from the answer to a reward that was {100 * result['change']:g}% different "
        "(warm). The peers use the fastest of their methods, with the loosest tolerance that is accurate to "
        "1e-6 of the largest reward. Converting the model to their format is not timed. The loss of their "
        "policies is shown with their times. Ours includes the occupancy and a certified bound. The time "
        f"limit of an answer is {result['limit']:g} s. quantecon has no average reward."
    )
    parts = [words]
    for criterion in dict.fromkeys(row["criterion"] for row in rows):
        for is_warm in (False, True):
            chosen = [row for row in rows if (row["criterion"], row["warm"]) == (criterion, is_warm)]
            parts += [f"### {criterion.capitalize()}, {'warm' if is_warm else 'cold'}", _table(chosen)]
    parts += ["### Our own methods, cold", _own_table(result["own"])]
    return "\n\n".join([*parts, f"![Seconds of a best response over states](benchmarks/{PICTURE})"])


def _table(rows: Rows) -> str:
    lines = []
    for row in rows:
        same = (row["kind"], f"{row['states']:,}", report.seconds(row["ours"]), f"{row['gap']:.0e}")
        if row["failure"]:
            lines.append([*same, row["peer"], row["method"], f"failed: {row['failure']}", "", ""])
        else:
            bold = "**" if row["ratio"] < 1 else ""
            theirs = [report.seconds(row["theirs"]), f"{row['lost']:.0e}"]
            ratio = f"{bold}{report.times(row['ratio'])}{bold}"
            lines.append([*same, row["peer"], row["method"], *theirs, ratio])
    columns = ["model", "states", "ours", "gap", "peer", "its method", "theirs", "loses", "ratio"]
    return report.markdown_table(columns, lines)


def _own_table(own: Rows) -> str:
    lines = [
        [row["kind"], f"{row['states']:,}", row["criterion"], row["method"], report.seconds(row["seconds"]),
         f"{row['gap']:.0e}"]
        for row in own
    ]  # fmt: skip
    return report.markdown_table(["model", "states", "criterion", "method", "seconds", "gap"], lines)


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws seconds of a cold answer over states, a panel for each kind of model and criterion."""
    lines: dict[str, dict[str, Rows]] = {}
    for row in result["rows"]:
        if not row["warm"]:
            panel = lines.setdefault(f"{row['kind']}, {row['criterion']}", {OURS: []})
            panel.setdefault(row["peer"], []).append({**row, "seconds": row["theirs"]})
            if row["states"] not in {one["states"] for one in panel[OURS]}:
                panel[OURS].append({"states": row["states"], "seconds": row["ours"]})
    note = "seconds from the model to the best policy, cold; a cross is where a solver ran out of time"
    draw_sizes(lines, "Best responses", note, folder / PICTURE)
