"""The exploring scene of the demonstration: four explorers in the river, and what their acting cost."""

from __future__ import annotations

from pathlib import Path

from rhocover.experiments import Comparison, compare
from rhocover.experiments.pictures import comparison_regret_figure, order_name
from rhocover.mdp import MDP
from rhocover.report.figures import save_figure

REGRET = "river-regret.png"
RHO, NUM_STEPS, SEEDS = 2.0, 10_000, 6
MORAL = (
    "All four know the river, none knows where it will carry them. Regret is what better acting could have "
    "saved under the same luck: after {steps:,} steps feedback has {few:.1g} of it, Algorithm 1 of the paper "
    "{many:.0f} times as much."
)


def expedition(mdp: MDP) -> Comparison:
    """Returns the runs of four explorers, in this process: they take a second or two."""
    return compare({"river": mdp}, rho=RHO, num_steps=NUM_STEPS, seeds=SEEDS, workers=1)


def moral(found: Comparison) -> str:
    """Returns what the numbers mean."""
    regret = {row.explorer: row.regret.mean for row in found.table()}
    few, many = regret["feedback"], regret["algorithm1"]
    return MORAL.format(steps=found.num_steps, few=few, many=many / few)


def regret_picture(found: Comparison, path: Path) -> None:
    """Writes regret against steps."""
    title = f"River: what acting cost at {order_name(RHO)}"
    save_figure(comparison_regret_figure(found, found.envs[0], RHO, title=title), path)
