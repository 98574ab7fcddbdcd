"""`rhocover demo`: planning on two models, exploring on one, tables and pictures that explain each other."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Option

from rhocover.cli.outputs import check_free, write_all
from rhocover.cli.tables import plan_table, show, tell
from rhocover.printing import printable

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
    from rhocover.cli.journey import REGRET, expedition, moral, regret_picture
    from rhocover.cli.run_tables import comparison_tables
    from rhocover.cli.scenes import in_table, letter, picture_files, river, solve

    scenes = [river(), letter()]
    folder = check_free(
        out, [REGRET, *(name for scene in scenes for name in picture_files(scene))], force=force
    )
    files = {}
    show(HOW_TO_READ, "")
    for scene in scenes:
        plans = solve(scene)
        show(plan_table(scene.title, in_table(plans)), "", scene.tell(plans), "")
        files |= picture_files(scene, plans)
    found = expedition(scenes[0].mdp)
    show(*comparison_tables(found), "", moral(found), "")
    files[REGRET] = partial(regret_picture, found)
    written = write_all(folder, files, force=force)
    tell("\n  ".join(["Pictures:", *map(printable, written)]))
