"""Acting in a table: this library's compiled loop beside Gymnasium's own, and beside plain NumPy.

All play the uniformly random policy in the model that the environment's table describes, with automatic
resets, and count the visits of pairs (`simulator_players`). Ours counts transitions as well, and so does
NumPy, for which it is no more work.

Same law: for each pair that was met, the successors are a sample from its row, so Pearson's statistic summed
over the pairs is chi-square with as many degrees of freedom as there are outcomes beyond the first. Each
test fails by chance with probability `CHANCE`. As made, Gymnasium cuts episodes at its time limit, which is
not in the table: it is timed and not tested.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

import rhocover as rc
from benchmarks import report
from benchmarks.peers.pictures import bars_figure, short
from benchmarks.peers.simulator_players import (
    AS_MADE,
    BARE,
    CHAINS,
    COPIES,
    GATHERED,
    LOOP,
    MORE,
    MORE_GATHERED,
    OURS,
    STEPS,
    VECTOR,
    Played,
    make_players,
)
from rhocover.environments.table_model import read_table
from rhocover.report.figures import save_figure

TITLE = "Simulator"
QUESTION = "How fast is acting in a tabular environment, with the visits counted?"
ENVIRONMENTS = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4")
LEAST_EXPECTED = 5.0  # a pair with fewer expected visits of an outcome is left out of the test
CHANCE = 1e-6
BESIDE = (
    (AS_MADE, AS_MADE, 1), (BARE, BARE, 1), (LOOP, LOOP, 1), (VECTOR, VECTOR, CHAINS),
    (GATHERED, GATHERED, CHAINS), (MORE_GATHERED, GATHERED, MORE),
)  # fmt: skip
TESTED = ("ours", "ours, many chains", BARE, LOOP, GATHERED)
WHY = "with so many chains NumPy's overhead vanishes; ours moves them one by one, and draws the same numbers"
RUNS, SHORT_RUNS, SHORTER = 5, 2, 20
PICTURE = "simulator_steps.svg"


def measure(short: bool = False) -> dict[str, Any]:
    """Returns seconds a step of everyone in every environment, and whether each follows the table."""
    runs, divided = (SHORT_RUNS, SHORTER) if short else (RUNS, 1)
    rows: list[dict[str, Any]] = []
    laws: list[dict[str, Any]] = []
    for name in ENVIRONMENTS:
        players = make_players(name, divided)
        taken = {who: min(times) for who, times in _in_turn(players, runs).items()}
        rows += [_row(name, who, chains, taken[OURS[chains]], taken[key]) for key, who, chains in BESIDE]
        laws += [law(name, who, players[who]) for who in TESTED]
    settings = {
        "chains": CHAINS,
        "copies": COPIES,
        "chance": CHANCE,
        "runs": runs,
        "steps": STEPS["ours"] // divided,
    }
    return {"rows": rows, "laws": laws, **settings}


def _row(name: str, who: str, chains: int, ours: float, theirs: float) -> dict[str, Any]:
    row = {
        "case": f"{name}, {chains:,} chain{'s' * (chains > 1)}", "peer": who, "quantity": "seconds a step",
        "ours": ours, "theirs": theirs, "ratio": theirs / ours, "environment": name, "chains": chains,
    }  # fmt: skip
    return row | ({"why": WHY} if theirs < ours else {})


def _in_turn(players: dict[str, Callable[[int], Played]], runs: int) -> dict[str, list[float]]:
    """Returns seconds a step of each run, everyone in turn; a first run that compiles is not counted."""
    found: dict[str, list[float]] = {who: [] for who in players}
    for seed in range(runs + 1):
        for who, play in players.items():
            taken, _ = play(seed)
            if seed > 0:
                found[who].append(taken)
    return found


# The law.


def law(name: str, who: str, play: Callable[[int], Played]) -> dict[str, Any]:
    """Returns Pearson's test of a run against the table, on a seed that was not timed."""
    import gymnasium as gym

    _, counts = play(1_000)
    statistic, freedom = pearson(read_table(gym.make(name)).model, counts)
    value = float(scipy.stats.chi2.sf(statistic, freedom)) if freedom else 1.0
    return {
        "environment": name, "who": who, "steps": int(counts.sum()), "statistic": statistic,
        "freedom": freedom, "p": value, "holds": value >= CHANCE and _possible(name, counts),
    }  # fmt: skip


def _possible(name: str, counts: np.ndarray) -> bool:
    """Whether nothing was seen that the table says is impossible."""
    import gymnasium as gym

    return not counts[read_table(gym.make(name)).model.transitions.toarray() == 0].any()


def pearson(mdp: rc.MDP, counts: np.ndarray) -> tuple[float, int]:
    """Returns Pearson's statistic of transition counts `[n, S]` and its degrees of freedom.

    Pairs in which some outcome is expected fewer than five times are left out: there the statistic is not
    chi-square.
    """
    P = mdp.transitions.toarray()
    expected = P * counts.sum(axis=1, keepdims=True)
    least = np.where(P > 0, expected, np.inf).min(axis=1)
    is_used = (least >= LEAST_EXPECTED)[:, None] & (P > 0)
    statistic = float((((counts - expected) ** 2)[is_used] / expected[is_used]).sum())
    return statistic, int(is_used.sum() - (is_used.any(axis=1)).sum())


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns the table of times, and what the test of the law said."""
    words = (
        "All play the uniformly random policy with automatic resets and count the visits of pairs; ours and "
        "NumPy's count transitions. Times are processor time, the minimum of "
        f"{result['runs']} alternating runs, without building the environment and compiling. *As made* is "
        "what `gymnasium.make` returns, *bare* is without its wrappers. The vector environment has "
        f"{result['copies']} copies, compared with {result['chains']:,} chains of ours."
    )
    rows = [
        [row["case"], row["peer"], f"{1 / row['ours'] / 1e6:.1f} million",
         f"{report.number(1 / row['theirs'])}", report.times(row["ratio"]), report.mark(row)]
        for row in result["rows"]
    ]  # fmt: skip
    columns = ["case", "peer", "ours, steps/s", "theirs, steps/s", "ratio", ""]
    held = sum(found["holds"] for found in result["laws"])
    least = min(found["p"] for found in result["laws"])
    return "\n\n".join(
        [
            words,
            report.markdown_table(columns, rows, left=2, words=1),
            f"Same law: {held} of {len(result['laws'])} tests of the transitions against the environment's "
            f"table hold (chi-square, each fails by chance with probability {result['chance']:g}; the "
            f"smallest p-value is {report.number(least, 2)}).",
            f"![Steps a second in three environments](benchmarks/{PICTURE})",
        ]
    )


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws steps a second of everyone, a panel for each environment."""
    panels: dict[str, dict[str, float]] = {}
    for row in sorted(result["rows"], key=lambda row: row["chains"]):
        bars = panels.setdefault(row["environment"], {})
        chains = f", {row['chains']:,}" if row["chains"] > 1 else ""
        bars[f"rhocover{chains}"] = 1 / row["ours"]
        bars[f"{row['peer']}{chains}" if row["peer"] == GATHERED else row["peer"]] = 1 / row["theirs"]
    note = "steps a second, visits counted, of one chain or of so many; more is better"
    figure = bars_figure(panels, "Acting in a table", note, short)
    save_figure(figure, folder / PICTURE, overwrite=True)
