"""The least covered pair after 50,000 steps: max_i (1/SA)/d_hat_i of several methods.

Smaller is better; 1 is an equal share. The numbers compared with ours were recorded earlier, without their
spread, their number of runs and some of their settings. Two settings were chosen here after looking at the
numbers, because they match them; that is no evidence that they were the ones used: Algorithm 1 without a
floor on the occupancies, and episodes of 20 steps for the uniform policy. The results of the other choice are
in separate rows. Counts in episodes are summed over their steps.

"limit" is the worst ratio of the plan for the objective of the explorer.
"""

from __future__ import annotations

import math
from typing import Any

from rhocover import envs
from rhocover.baselines.ent_game import EntGame
from rhocover.baselines.rf_ucrl import RFUCRL
from rhocover.baselines.uniform_random import UniformRandom
from rhocover.experiments.reproducing.reproduction import (
    Job,
    ReproducedRow,
    Reproduction,
    estimate_cells,
)
from rhocover.exploring.explorers.algorithm1 import Algorithm1, Constant, Quadratic
from rhocover.exploring.explorers.feedback import Feedback
from rhocover.planning import plan
from rhocover.progress import Report

NAME, NUM_STEPS, SEEDS = "peers-worst-ratio", 50_000, 10
ENVS = {"noisy_river_swim": "NoisyRiverSwim(12)", "wheel": "Wheel(5)"}
EPISODES = {"horizon": 20, "model": "learned"}
BARE, SHORT = Algorithm1(Quadratic(1), eta=0.0), Algorithm1(Constant(100), eta=0.0)
FLOORED = Algorithm1(Quadratic(1))

Entry = tuple[Any, float, dict[str, Any], dict[str, float]]  # explorer, rho, arguments, recorded numbers


def _measured(noisy_river_swim: float, wheel: float) -> dict[str, float]:
    return {"noisy_river_swim": noisy_river_swim, "wheel": wheel}


ENTRIES: dict[str, Entry] = {
    "algorithm1, k^2, no floor, rho 1": (BARE, 1.0, {}, _measured(3.25, 2.74)),
    "algorithm1, k^2, no floor, rho 2": (BARE, 2.0, {}, _measured(3.11, 2.14)),
    "algorithm1, k^2, no floor, rho 8": (BARE, 8.0, {}, _measured(2.69, 1.98)),
    "algorithm1, k^2, no floor, rho 32": (BARE, 32.0, {}, _measured(3.10, 2.10)),
    "algorithm1, 100 steps, no floor, rho 1": (SHORT, 1.0, {}, _measured(1.77, 1.71)),
    "algorithm1, 100 steps, no floor, rho 2": (SHORT, 2.0, {}, _measured(1.71, 1.48)),
    "algorithm1, 100 steps, no floor, rho 8": (SHORT, 8.0, {}, _measured(1.35, 1.24)),
    "algorithm1, 100 steps, no floor, rho 32": (SHORT, 32.0, {}, _measured(1.19, 1.19)),
    "algorithm1, k^2, floor of E11, rho 1": (FLOORED, 1.0, {}, {}),
    "algorithm1, k^2, floor of E11, rho 2": (FLOORED, 2.0, {}, {}),
    "algorithm1, k^2, floor of E11, rho 8": (FLOORED, 8.0, {}, {}),
    "algorithm1, k^2, floor of E11, rho 32": (FLOORED, 32.0, {}, {}),
    "feedback, rho inf": (Feedback(), math.inf, {}, {}),
    "feedback, P learned, rho inf": (Feedback(), math.inf, {"model": "learned"}, {}),
    "feedback, P learned, rho 2": (Feedback(), 2.0, {"model": "learned"}, {}),
    "EntGame without bonus, P learned, H = 20": (EntGame(bonus=0.0), 0.0, EPISODES, _measured(1.82, 2.29)),
    "RF-UCRL, P learned, H = 20": (RFUCRL(), 0.0, EPISODES, _measured(1.78, 1.92)),
    "uniform random, H = 20": (UniformRandom(), 0.0, EPISODES, _measured(2.24, 2.14)),
    "uniform random, no episodes": (UniformRandom(), 0.0, {}, {}),
}
NOTES = {
    "uniform random, H = 20": "The recorded number does not mention a horizon. Episodes of 20 steps were "
    "chosen because they are close to it; one long run, the last row, is not.",
    "RF-UCRL, P learned, H = 20": "Without the cap on its bound, which is the default here; it is not known "
    "which variant was recorded.",
    "EntGame without bonus, P learned, H = 20": "Here, ties between actions of equal value are broken by the "
    "fewest visits; it is not known how the other script breaks them.",
}
UNFLOORED = (
    "It was not recorded whether the occupancies had a floor. No floor was chosen because it is closest; the "
    "rows with the floor of E11, the default of this library, show the other choice."
)
OTHER_BUDGET = "The recorded numbers are for 50,000 steps, so there is no ratio for another budget."


def peers_worst_ratio(
    seeds: tuple[int, ...], num_steps: int, workers: int | None, report: Report | None
) -> Reproduction:
    """Returns the worst ratio of each method on two models."""
    cells = [(env, label) for env in ENVS for label in ENTRIES]
    found = estimate_cells(cells, make_job, num_steps, seeds, workers, report)
    other = "" if num_steps == NUM_STEPS else f" {OTHER_BUDGET}"
    return Reproduction(
        name=NAME,
        title="Least covered pair: max (1/SA)/d_hat, smaller is better",
        citation="numbers recorded earlier, without spread or number of runs",
        text=f"{num_steps:,} steps, {len(seeds)} seeds, uniform weights, P known unless stated.{other}",
        rows=tuple(row for env in ENVS for row in _rows(env, found, num_steps)),
        columns={"ours": "ours", "published": "others", "ratio": "ratio", "asymptotic": "limit"},
    )


def make_job(env: str, label: str, num_steps: int, seed: int) -> Job:
    """Returns one run of one method."""
    explorer, rho, arguments, _ = ENTRIES[label]
    return Job(env, explorer, rho, num_steps, seed, "worst_share", arguments=arguments)


def _rows(env: str, found: Any, num_steps: int) -> list[ReproducedRow]:
    mdp = envs.make(env)
    rows = []
    for label, (explorer, rho, _, measured) in ENTRIES.items():
        aims = isinstance(explorer, Algorithm1 | Feedback)
        rows.append(
            ReproducedRow(
                group=ENVS[env],
                label=label,
                ours=found[env, label],
                published=measured.get(env),
                asymptotic=plan(mdp, rho).worst_ratio if aims else None,
                is_comparable=num_steps == NUM_STEPS,
                note=UNFLOORED if explorer is BARE else NOTES.get(label, ""),
            )
        )
    return rows
