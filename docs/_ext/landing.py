"""The picture on the first page: what random actions, maximum entropy and two plans visit on a frozen lake.

Each cell is a state, each of its triangles a state-action pair, its colour the pair's share of the visits
relative to its target share (the same for all). The picture is inline SVG whose lines and letters take
the colours of the page, in light and in dark mode.
"""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym
import numpy as np
from matplotlib import colormaps

import rhocover as rc
from rhocover.checks import FloatArray

CELL, TOP = 22, 44
RHO, TIMES, ENDLESS = chr(0x3C1), chr(0xD7), chr(0x221E)
FAINTEST = 1e-3  # of its target share: pairs below it have the last colour


def landing() -> str:
    """Returns the picture with its caption."""
    mdp = rc.MDP.from_gymnasium(gym.make("FrozenLake-v1", map_name="8x8"))
    random = np.full((mdp.num_states, mdp.num_actions), 1 / mdp.num_actions)
    visited = {
        "random actions": mdp.table(rc.Occupancies.average(mdp).from_policy(random)),
        f"maximum entropy ({RHO} = 0)": rc.plan(mdp, rho=0.0).occupancy,
        f"{RHO} = 2": rc.plan(mdp, rho=2.0).occupancy,
        f"{RHO} = {ENDLESS}": rc.plan(mdp, rho=float("inf")).occupancy,
    }
    shares = {title: np.asarray(table) * mdp.num_pairs for title, table in visited.items()}
    parts = (
        "```{raw} html",
        "<figure class='landing'>",
        _picture(mdp, shares),
        _caption(mdp),
        "</figure>",
        "```",
    )
    return "\n".join(parts)


def _picture(mdp: rc.MDP, shares: Mapping[str, FloatArray]) -> str:
    panels = [_panel(mdp, title, table) for title, table in shares.items()]
    return "<div class='panels'>" + "".join(panels) + "</div>" + _scale()


def _panel(mdp: rc.MDP, title: str, table: FloatArray) -> str:
    side = 8 * CELL
    return (
        f"<svg viewBox='0 0 {side} {side + TOP}' role='img' aria-label='{title}: {_worst(table)}'>"
        f"<text class='title' x='0' y='16'>{title}</text>"
        f"<text class='note' x='0' y='34'>{_worst(table)}</text>"
        f"<g transform='translate(0 {TOP})'><rect class='hole' width='{side}' height='{side}'/>"
        f"{''.join(triangles(mdp, table))}</g></svg>"
    )


def _worst(table: FloatArray) -> str:
    return f"worst pair: {worst_share(table)} of its share"


def worst_share(table: FloatArray) -> str:
    """Returns what the worst pair has of its share."""
    return f"1/{1 / table.min():,.0f}"


def triangles(mdp: rc.MDP, table: FloatArray) -> list[str]:
    """Returns a triangle for each pair, pointing to where its action goes, and the outline of each cell."""
    assert mdp.layout is not None
    assert mdp.layout.directions is not None
    shapes = []
    for (x, y), row in zip(mdp.layout.positions, table, strict=True):
        centre = np.array([x + 0.5, y + 0.5])
        for direction, share in zip(mdp.layout.directions, row, strict=True):
            across = np.array([direction[1], -direction[0]])
            corners = (centre, centre + (direction + across) / 2, centre + (direction - across) / 2)
            points = " ".join(f"{CELL * px:g},{CELL * py:g}" for px, py in corners)
            shapes.append(f"<polygon points='{points}' fill='{colour_of(share)}'/>")
    grid = [
        f"<rect class='cell' x='{CELL * x:g}' y='{CELL * y:g}' width='{CELL}' height='{CELL}'/>"
        for x, y in mdp.layout.positions
    ]
    return shapes + grid


def colour_of(share: float) -> str:
    """Returns the colour of a pair by its visits relative to its share."""
    height = 1 - np.clip(np.log(max(share, FAINTEST)) / np.log(FAINTEST), 0, 1)
    return _hex(0.04 + 0.9 * height)


def _hex(height: float) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colormaps["viridis"](height)[:3])


def _scale() -> str:
    stops = "".join(f"<stop offset='{i / 8:g}' stop-color='{_hex(0.04 + 0.9 * i / 8)}'/>" for i in range(9))
    labels = "".join(
        f"<text class='note' x='{10 + 380 * i / 3:g}' y='34' text-anchor='{anchor}'>{text}</text>"
        for i, (text, anchor) in enumerate(
            [("1/1,000 or less", "start"), ("1/100", "middle"), ("1/10", "middle"), ("its share", "end")]
        )
    )
    return (
        "<svg class='scale' viewBox='0 0 400 40' role='img' aria-label='Colour scale: share of the visits, "
        "from 1/1,000 or less of the target share to all of it'><defs>"
        f"<linearGradient id='shares'>{stops}</linearGradient></defs>"
        f"<rect x='10' y='4' width='380' height='14' rx='3' fill='url(#shares)'/>{labels}</svg>"
    )


def _caption(mdp: rc.MDP) -> str:
    return (
        f"<figcaption>FrozenLake-v1 (8{TIMES}8): {mdp.num_states} states, {mdp.num_pairs} state-action pairs,"
        " one triangle each. Every pair should get the same share of the visits; its colour shows what it "
        f"gets in the long run. The last three are optimal for their {RHO}, with a proof that no policy does "
        "better. The last one gives the worst pair as much as this lake allows.</figcaption>"
    )
