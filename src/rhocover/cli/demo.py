"""`rhocover demo`: plans on two models and explores one of them, with tables, figures and explanations.

A scene is a model with weights and a text that explains its numbers. The river is RiverSwim with equal
weights: the current alone makes equal visits impossible. The letter is a slippery grid whose weights draw a
rho: its cells have large weights, so the moves that lead off it are expensive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from rhocover import envs, weights
from rhocover.checks import FloatArray
from rhocover.cli.output import plan_table, print_note, print_result
from rhocover.cli.outputs import Writer, check_free, write_all
from rhocover.cli.plan import frontier_picture, occupancy_picture, ratio_picture
from rhocover.experiments import Comparison, compare
from rhocover.experiments.comparison import comparison_regret_figure, order_name
from rhocover.mdp import MDP
from rhocover.planning import Plan, plan
from rhocover.printing import count_of, printable
from rhocover.report.figures import save_figure

HOW_TO_READ = (
    "There is one row per rho. The divergence measures how far the visits are from the weights; 0 is a "
    "perfect match. The gap is certified: no policy has a divergence below divergence - gap. A worst ratio "
    "of 2 means that one pair gets half of its share, and no pair gets less."
)


def demo(
    out: Annotated[Path, Option(metavar="DIR", help="The folder for the figures.")] = Path("rhocover-demo"),
    force: Annotated[bool, Option("--force", help="Overwrite existing figures.")] = False,
) -> None:
    """Plans on two models, explores one of them and draws the results, in a few seconds.

    One model is RiverSwim, where the far end is hard to reach; the other is a slippery grid whose weights
    draw a letter. For each model there is a table, a map of the visits, a map of the pairs that fall short,
    and the frontier: the average coverage given up to help the worst pair. Then four explorers act in the
    river with the same seeds, and their regret is drawn against the number of steps.

    * `rhocover demo`
    * `rhocover demo --out pictures --force`
    """
    from rhocover.cli.result_tables import comparison_tables

    scenes = [river(), letter()]
    folder = check_free(
        out, [REGRET, *(name for scene in scenes for name in picture_files(scene))], force=force
    )
    files = {}
    print_result(HOW_TO_READ, "")
    for scene in scenes:
        plans = solve(scene)
        print_result(plan_table(scene.title, in_table(plans)), "", scene.explain(plans), "")
        files |= picture_files(scene, plans)
    found = run_explorers(scenes[0].mdp)
    print_result(*comparison_tables(found), "", explain_regret(found), "")
    files[REGRET] = partial(regret_picture, found)
    written = write_all(folder, files, force=force)
    print_note("\n  ".join(["Figures:", *map(printable, written)]))


# The two planning scenes: a model, weights, and a text that explains the numbers.

TABLE = (0.0, 1.0, 2.0, 8.0, 32.0, np.inf)
BETWEEN = (0.02, 0.1, 0.25, 0.5, 0.75, 1.5, 3.0, 4.0, 6.0, 12.0, 16.0, 64.0, 128.0)  # for the frontier
ORDERS = tuple(sorted(TABLE + BETWEEN))
MAPS = (0.0, 1.0, 2.0, 8.0, np.inf)  # six maps, together with that of the weights
INK = 10.0  # weight of a cell of the letter; the other cells have weight 1
LETTER = """
....................
....................
.......######.......
.....##########.....
.....###....###.....
....###......###....
....##........##....
....##........##....
....##........##....
....##........##....
....###......###....
....####....###.....
....###########.....
....##.######.......
....##..............
....##..............
....##..............
....##..............
....................
....................
"""


@dataclass(frozen=True, eq=False)
class DemoScene:
    """A model, weights `[S, A]`, and a template that explains the first and the last plan."""

    name: str
    mdp: MDP
    weights: FloatArray
    title: str
    explanation: str

    def explain(self, plans: Sequence[Plan]) -> str:
        """Returns what the numbers mean."""
        return self.explanation.format(first=plans[0].worst_ratio, last=plans[-1].worst_ratio)


def river() -> DemoScene:
    """Returns RiverSwim with equal weights."""
    mdp = envs.river_swim()
    explanation = (
        "Every pair should get the same share, but the current runs to the left. Maximum entropy (rho = 0) "
        "leaves one pair with 1/{first:.2f} of its share; rho = inf raises that to 1/{last:.2f}, and the "
        "certificate proves that no policy can do better."
    )
    title = f"River: {count_of(mdp.num_states, 'state')}, {count_of(mdp.num_pairs, 'pair')} of equal weight"
    return DemoScene("river", mdp, weights.uniform(mdp), title, explanation)


def letter() -> DemoScene:
    """Returns a slippery grid whose weights draw a letter."""
    ink = np.array([[mark == "#" for mark in row] for row in LETTER.split()])
    mdp = envs.grid_world(num_rows=ink.shape[0], num_columns=ink.shape[1], success=0.9)
    explanation = (
        "The weights draw a letter. At its edge, the moves that lead off it are expensive, because the steps "
        "on the way back have small weights. Small rho avoids them: at 0, one pair is left with "
        "1/{first:.2f} of its share. Large rho pays for the way back, and at inf no pair gets less than "
        "1/{last:.2f} of its share."
    )
    title = f"Letter: {mdp.num_states} cells, {mdp.num_pairs} pairs, {INK:g} times the weight on the letter"
    mu = weights.per_state(mdp, np.where(ink, 4 * INK, 4.0).ravel())
    return DemoScene("letter", mdp, mu, title, explanation)


def solve(scene: DemoScene) -> list[Plan]:
    """Returns the plans for all orders; an extra first plan keeps compilation out of the times."""
    plan(scene.mdp, 1.0, scene.weights)
    return [plan(scene.mdp, rho, scene.weights) for rho in ORDERS]


def in_table(plans: Sequence[Plan]) -> list[Plan]:
    """Returns the plans that go into the table."""
    return [found for found in plans if found.rho in TABLE]


def picture_files(scene: DemoScene, plans: Sequence[Plan] = ()) -> dict[str, Writer]:
    """Returns the figures to write by name; without plans, only the names are meaningful."""
    mapped = [found for found in plans if found.rho in MAPS]
    asked = {"target": scene.weights / scene.weights.sum()}
    title = scene.name.capitalize()
    return {
        f"{scene.name}-visits.png": partial(
            occupancy_picture, mapped, f"{title}: where the visits go", first=asked
        ),
        f"{scene.name}-ratios.png": partial(
            ratio_picture, in_table(plans), f"{title}: which pairs fall short"
        ),
        f"{scene.name}-frontier.png": partial(frontier_picture, plans, rf"{title}: effect of $\rho$"),
    }


# The exploring scene: four explorers in the river, and their regret.

REGRET = "river-regret.png"
RHO, NUM_STEPS, SEEDS = 2.0, 10_000, 6
EXPLANATION = (
    "All four explorers know the model of the river, but not the outcome of each step. Regret is what better "
    "actions could have saved under the same random outcomes: after {steps:,} steps it is {few:.1g} for "
    "feedback, and {many:.0f} times as much for Algorithm 1 of the paper."
)


def run_explorers(mdp: MDP) -> Comparison:
    """Returns the runs of four explorers, in this process: they take a second or two."""
    found = compare({"river": mdp}, rho=RHO, num_steps=NUM_STEPS, seeds=SEEDS, workers=1)
    assert isinstance(found, Comparison)
    return found


def explain_regret(found: Comparison) -> str:
    """Returns what the numbers mean."""
    regret = {row.explorer: row.regret.mean for row in found.table()}
    few, many = regret["feedback"], regret["algorithm1"]
    return EXPLANATION.format(steps=found.num_steps, few=few, many=many / few)


def regret_picture(found: Comparison, path: Path) -> None:
    """Writes regret against steps."""
    title = f"River: regret at {order_name(RHO)}"
    save_figure(comparison_regret_figure(found, found.envs[0], RHO, title=title), path)
