"""The two scenes of the demonstration: a model, weights, and what its numbers mean.

The river is RiverSwim with equal weights: the current alone makes equal visits impossible. The letter is
a slippery grid whose weights draw a rho: its cells weigh much, so the moves that lead off it are dear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rhocover import envs, weights
from rhocover.checks import FloatArray
from rhocover.cli.outputs import Writer
from rhocover.cli.pictures import frontier_picture, occupancy_picture, ratio_picture
from rhocover.mdp import MDP
from rhocover.planning import Plan, plan

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
class Scene:
    """A model, weights `[S, A]`, and the moral that the first and the last plan complete."""

    name: str
    mdp: MDP
    weights: FloatArray
    title: str
    moral: str

    def tell(self, plans: Sequence[Plan]) -> str:
        """Returns what the numbers mean."""
        return self.moral.format(first=plans[0].worst_ratio, last=plans[-1].worst_ratio)


def river() -> Scene:
    """Returns RiverSwim with equal weights."""
    mdp = envs.river_swim()
    moral = (
        "Every pair is to get the same share, but the current runs left. Maximum entropy (rho = 0) "
        "leaves one pair with 1/{first:.2f} of its share; rho = inf raises that to 1/{last:.2f}, and the "
        "certificate says that no policy can do better."
    )
    title = f"River: {mdp.num_states} states, {mdp.num_pairs} pairs of equal weight"
    return Scene("river", mdp, weights.uniform(mdp), title, moral)


def letter() -> Scene:
    """Returns a slippery grid whose weights draw a letter."""
    ink = np.array([[mark == "#" for mark in row] for row in LETTER.split()])
    mdp = envs.grid_world(num_rows=ink.shape[0], num_columns=ink.shape[1], success=0.9)
    moral = (
        "The weights draw a letter. At its rim the moves that lead off it are dear, because the way back "
        "counts little. Small rho saves there: at 0, one pair is left with 1/{first:.2f} of its share. Large "
        "rho pays for the way back, until at inf no pair gets less than 1/{last:.2f}."
    )
    title = f"Letter: {mdp.num_states} cells, {mdp.num_pairs} pairs, {INK:g} times the weight on the letter"
    return Scene("letter", mdp, weights.per_state(mdp, np.where(ink, 4 * INK, 4.0).ravel()), title, moral)


def solve(scene: Scene) -> list[Plan]:
    """Returns the plans for all orders; one more before them, so that no time includes compilation."""
    plan(scene.mdp, 1.0, scene.weights)
    return [plan(scene.mdp, rho, scene.weights) for rho in ORDERS]


def in_table(plans: Sequence[Plan]) -> list[Plan]:
    """Returns the plans that go into the table."""
    return [found for found in plans if found.rho in TABLE]


def picture_files(scene: Scene, plans: Sequence[Plan] = ()) -> dict[str, Writer]:
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
