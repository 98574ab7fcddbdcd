"""`rhocover demo`: planning on two models, exploring on one, tables and pictures that explain each other.

The two scenes of the demonstration: a model, weights, and what its numbers mean.

The river is RiverSwim with equal weights: the current alone makes equal visits impossible. The letter is
a slippery grid whose weights draw a rho: its cells weigh much, so the moves that lead off it cost much.
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
from rhocover.printing import printable
from rhocover.report.figures import save_figure

HOW_TO_READ = (
    "One row for each rho. The divergence says how far the visits are from what was asked for; 0 is a "
    "perfect match. The gap is certified: no policy has a divergence below divergence - gap. A worst ratio "
    "of 2 means that one pair gets half of its share, and no pair gets less."
)


def demo(
    out: Annotated[Path, Option(metavar="DIR", help="The folder for the pictures.")] = Path("rhocover-demo"),
    force: Annotated[bool, Option("--force", help="Overwrite pictures that exist.")] = False,
) -> None:
    """Plans on two models, explores one of them, and draws what comes out, in a few seconds.

    One model is RiverSwim, where the far end is hard to reach; the other is a slippery grid whose weights
    draw a letter. For each there is a table, a map of the visits, a map of the pairs that fall short, and
    the frontier: what is given up on average to help the worst pair. Then four explorers act in the river
    with the same seeds, and what their acting cost is drawn against the steps they took.

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
        print_result(plan_table(scene.title, in_table(plans)), "", scene.tell(plans), "")
        files |= picture_files(scene, plans)
    found = run_explorers(scenes[0].mdp)
    print_result(*comparison_tables(found), "", moral(found), "")
    files[REGRET] = partial(regret_picture, found)
    written = write_all(folder, files, force=force)
    print_note("\n  ".join(["Pictures:", *map(printable, written)]))


# The two scenes of the demonstration: a model, weights, and what its numbers mean.

TABLE = (0.0, 1.0, 2.0, 8.0, 32.0, np.inf)
BETWEEN = (0.02, 0.1, 0.25, 0.5, 0.75, 1.5, 3.0, 4.0, 6.0, 12.0, 16.0, 64.0, 128.0)  # for the frontier
ORDERS = tuple(sorted(TABLE + BETWEEN))
MAPS = (0.0, 1.0, 2.0, 8.0, np.inf)  # with the weights themselves there are six
INK = 10.0  # weight of the letter against 1 for the paper
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
    """A model, weights `[S, A]`, and the moral that the first and the last plan complete."""

    name: str
    mdp: MDP
    weights: FloatArray
    title: str
    moral: str

    def tell(self, plans: Sequence[Plan]) -> str:
        """Returns what the numbers mean."""
        return self.moral.format(first=plans[0].worst_ratio, last=plans[-1].worst_ratio)


def river() -> DemoScene:
    """Returns RiverSwim with equal weights."""
    mdp = envs.river_swim()
    moral = (
        "Every pair is to get the same share, but the current runs left. Maximum entropy (rho = 0) "
        "leaves one pair with 1/{first:.2f} of its share; rho = inf raises that to 1/{last:.2f}, and the "
        "certificate says that no policy can do better."
    )
    title = f"River: {mdp.num_states} states, {mdp.num_pairs} pairs of equal weight"
    return DemoScene("river", mdp, weights.uniform(mdp), title, moral)


def letter() -> DemoScene:
    """Returns a slippery grid whose weights draw a letter."""
    ink = np.array([[mark == "#" for mark in row] for row in LETTER.split()])
    mdp = envs.grid_world(num_rows=ink.shape[0], num_columns=ink.shape[1], success=0.9)
    moral = (
        "The weights draw a letter. At its rim the moves that lead off it cost much, because the way back "
        "counts little. Small rho saves there: at 0, one pair is left with 1/{first:.2f} of its share. Large "
        "rho pays for the way back, until at inf no pair gets less than 1/{last:.2f}."
    )
    title = f"Letter: {mdp.num_states} cells, {mdp.num_pairs} pairs, {INK:g} times the weight on the letter"
    return DemoScene("letter", mdp, weights.per_state(mdp, np.where(ink, 4 * INK, 4.0).ravel()), title, moral)


def solve(scene: DemoScene) -> list[Plan]:
    """Returns the plans for all orders; one more before them, so that no time includes compilation."""
    plan(scene.mdp, 1.0, scene.weights)
    return [plan(scene.mdp, rho, scene.weights) for rho in ORDERS]


def in_table(plans: Sequence[Plan]) -> list[Plan]:
    """Returns the plans that go into the table."""
    return [found for found in plans if found.rho in TABLE]


def picture_files(scene: DemoScene, plans: Sequence[Plan] = ()) -> dict[str, Writer]:
    """Returns the pictures to write by name; the names are known before there are plans."""
    mapped = [found for found in plans if found.rho in MAPS]
    asked = {"asked for": scene.weights / scene.weights.sum()}
    title = scene.name.capitalize()
    return {
        f"{scene.name}-visits.png": partial(
            occupancy_picture, mapped, f"{title}: where the visits go", first=asked
        ),
        f"{scene.name}-ratios.png": partial(
            ratio_picture, in_table(plans), f"{title}: which pairs fall short"
        ),
        f"{scene.name}-frontier.png": partial(frontier_picture, plans, rf"{title}: what $\rho$ buys"),
    }


# The exploring scene of the demonstration: four explorers in the river, and what their acting cost.

REGRET = "river-regret.png"
RHO, NUM_STEPS, SEEDS = 2.0, 10_000, 6
MORAL = (
    "All four know the river, none knows where it will carry them. Regret is what better acting could have "
    "saved under the same luck: after {steps:,} steps feedback has {few:.1g} of it, Algorithm 1 of the paper "
    "{many:.0f} times as much."
)


def run_explorers(mdp: MDP) -> Comparison:
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
