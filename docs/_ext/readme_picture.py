"""The picture of README.md: a lake visited at random, and as evenly as it allows.

    python docs/_ext/readme_picture.py        # writes docs/_static/coverage.svg

A file, because README.md is also read where nothing is built. It has a background of its own, so that it
looks the same on light and dark pages, and letters that can be read when it is as wide as a phone.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
from landing import CELL, colour_of, triangles, worst_share

import rhocover as rc
from rhocover.checks import FloatArray

FILE = Path(__file__).resolve().parents[1] / "_static" / "coverage.svg"
SIDE, EDGE, TOP = 8 * CELL, 14, 96
WIDTH, HEIGHT = 2 * SIDE + 3 * EDGE, TOP + SIDE + 66
INK, PALE, PAPER, HOLE, LINE = "#1b1f24", "#57606a", "#ffffff", "#d0d7de", "#ffffff"
STYLE = (
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;"
    f"fill:{INK};font-size:13px}}.head{{font-size:16px;font-weight:600}}.title{{font-size:15px;font-weight:600}}"
    f".note{{fill:{PALE}}}.hole{{fill:{HOLE}}}.cell{{fill:none;stroke:{LINE};stroke-width:.8}}"
    "rect,polygon{shape-rendering:crispEdges}.paper{shape-rendering:auto}"  # no seams between triangles
)


def picture() -> str:
    """Returns the picture as SVG."""
    mdp = rc.MDP.from_gymnasium(gym.make("FrozenLake-v1", map_name="8x8"))
    random = np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions)
    by_chance = mdp.table(rc.Occupancies.average(mdp).from_policy(random)) * mdp.num_pairs
    best = np.asarray(rc.plan(mdp, rho=float("inf")).occupancy) * mdp.num_pairs
    told = (
        "FrozenLake, 8 by 8: the visits of each state-action pair, relative to its share. With random "
        f"actions the worst pair gets {worst_share(by_chance)} of its share, "
        f"with the plan of rhocover {worst_share(best)}."
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"',
        f' aria-label="{told}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}"/>',
        f'<text class="head" x="{EDGE}" y="28">How often is each pair visited?</text>',
        *_panel(mdp, by_chance, 0, ("random actions", f"worst pair: {worst_share(by_chance)}")),
        *_panel(mdp, best, 1, ("rhocover's plan", f"worst pair: {worst_share(best)}")),
        *_scale(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _panel(mdp: rc.MDP, table: FloatArray, column: int, words: tuple[str, str]) -> list[str]:
    left = EDGE + column * (SIDE + EDGE)
    return [
        f'<text class="title" x="{left}" y="58">{words[0]}</text>',
        f'<text x="{left}" y="80">{words[1]}</text>',
        f'<g transform="translate({left} {TOP})"><rect class="hole" width="{SIDE}" height="{SIDE}"/>',
        *triangles(mdp, table),
        "</g>",
    ]


def _scale() -> list[str]:
    top, wide, parts = TOP + SIDE + 14, WIDTH - 2 * EDGE, 60
    shades = [colour_of(10 ** (3 * (k + 0.5) / parts - 3)) for k in range(parts)]
    part = f'y="{top}" width="{wide / parts + 0.3:.2f}" height="14"'  # each a little over the next: no seams
    bars = [
        f'<rect x="{EDGE + wide * k / parts:.2f}" {part} fill="{shade}"/>' for k, shade in enumerate(shades)
    ]
    ends = [("start", EDGE, "1/1,000 of its share or less"), ("end", WIDTH - EDGE, "its share")]
    return bars + [
        f'<text class="note" x="{x}" y="{top + 34}" text-anchor="{anchor}">{text}</text>'
        for anchor, x, text in ends
    ]


if __name__ == "__main__":
    FILE.write_text(picture(), "utf-8")
