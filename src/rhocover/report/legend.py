"""What explains a map: the colour bar, and the key that says which part of a cell is which action."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from rhocover.mdp import MDP
from rhocover.report.cells import Cells
from rhocover.report.drawing import as_text
from rhocover.report.scales import Scale
from rhocover.report.sheet import BELOW_HEIGHT, GAP, Sheet, axes_at

KEY_CELL, KEY_WIDTH, BAR_HEIGHT = 0.5, 1.6, 0.17
MOST_BARS = 8  # a key of more actions names only the first and the last
WIDEST_BAR, TALLEST_BAR, BAR_THICKNESS = 4.5, 3.2, 0.16
ARROW = 0.04  # of the length of the bar
MUTED = "0.3"


def key_height(mdp: MDP, cells: Cells) -> float:
    """Returns the height of the key in inches."""
    if cells.directions is not None:
        return 2 * KEY_CELL
    return max(KEY_CELL, BAR_HEIGHT * min(mdp.num_actions, MOST_BARS)) + 0.1


def draw_legend(figure: Figure, mdp: MDP, cells: Cells, scale: Scale, sheet: Sheet) -> None:
    """Draws the colour bar, and the key if the sheet has room for one, beside or below the block."""
    _colour_bar(figure, scale, _bar_below(sheet) if sheet.is_wide else _bar_beside(sheet), sheet.is_wide)
    if sheet.key_height == 0:
        return
    rest = sheet.legend_height - sheet.key_height
    x = sheet.left if sheet.is_wide else sheet.left + sheet.block[0] + GAP
    _key(figure, mdp, cells, x, sheet.legend_top + (rest / 2 if sheet.is_wide else rest))


def _bar_beside(sheet: Sheet) -> tuple[float, float, float, float]:
    """Returns left, top, width, height of a standing bar, with room for a word at either end."""
    height = min(sheet.legend_height - sheet.key_height - 0.75, TALLEST_BAR)
    return sheet.left + sheet.block[0] + GAP, sheet.top + 0.25, BAR_THICKNESS, height


def _bar_below(sheet: Sheet) -> tuple[float, float, float, float]:
    """Returns left, top, width, height of a lying bar that ends where the block ends."""
    indent = KEY_WIDTH + 0.2 if sheet.key_height else 0.0
    width = min(sheet.block[0] - indent, WIDEST_BAR)
    y = sheet.legend_top + (sheet.legend_height - BELOW_HEIGHT) / 2 + 0.2
    return sheet.left + sheet.block[0] - width, y, width, BAR_THICKNESS


def _colour_bar(
    figure: Figure, scale: Scale, place: tuple[float, float, float, float], is_wide: bool
) -> None:
    axes = axes_at(figure, *place)
    figure.colorbar(
        ScalarMappable(scale.norm, scale.colours),
        cax=axes,
        orientation="horizontal" if is_wide else "vertical",
        extend=scale.extend,
        extendfrac=ARROW,
    )
    axis = axes.xaxis if is_wide else axes.yaxis
    axis.set_ticks(scale.ticks, labels=scale.tick_labels)
    axis.set_label_text(scale.label)
    axis.labelpad = 6
    axes.minorticks_off()
    _name_ends(axes, scale, is_wide)


def _name_ends(axes: Axes, scale: Scale, is_wide: bool) -> None:
    """Writes what the low and the high end mean, clear of the ticks and of the arrow of the bar."""
    above = ARROW if scale.extend == "max" else 0.0
    below = ARROW if scale.extend == "min" else 0.0
    if is_wide:
        places = [((-below, 1), (0, 4), "left", "bottom"), ((1 + above, 1), (0, 4), "right", "bottom")]
    else:
        places = [((0, -below), (0, -9), "left", "top"), ((0, 1 + above), (0, 7), "left", "bottom")]
    for word, (corner, shift, ha, va) in zip(scale.ends, places, strict=True):
        axes.annotate(
            word, corner, shift, xycoords="axes fraction", textcoords="offset points",
            ha=ha, va=va, fontsize=8, color=MUTED, annotation_clip=False,
        )  # fmt: skip


def _key(figure: Figure, mdp: MDP, cells: Cells, x: float, y: float) -> None:
    """Draws one blank cell with the name of each action at its part."""
    height = key_height(mdp, cells)
    axes = axes_at(figure, x, y, KEY_WIDTH, height)
    axes.set_axis_off()
    write = _name_directions if cells.directions is not None else _name_bars
    write(axes, mdp, cells, height)


def _name_directions(axes: Axes, mdp: MDP, cells: Cells, height: float) -> None:
    assert cells.directions is not None
    axes.set_xlim(-1.3, KEY_WIDTH / KEY_CELL - 1.3)
    axes.set_ylim(height / KEY_CELL / 2, -height / KEY_CELL / 2)
    _blank(axes, cells.shapes)
    for action, (dx, dy) in enumerate(cells.directions):
        axes.text(
            0.62 * dx, 0.62 * dy, _action_name(mdp, action), fontsize=8, color=MUTED,
            ha={-1: "right", 0: "center", 1: "left"}[int(dx)],
            va={-1: "bottom", 0: "center", 1: "top"}[int(dy)],
        )  # fmt: skip


def _name_bars(axes: Axes, mdp: MDP, cells: Cells, height: float) -> None:
    num_bars = min(mdp.num_actions, MOST_BARS)
    axes.set_xlim(-0.5, KEY_WIDTH / KEY_CELL - 0.5)
    axes.set_ylim(0.5, -0.5)
    _blank(axes, cells.shapes)
    middle = (np.arange(num_bars) + 0.5) / num_bars - 0.5
    for bar, y in enumerate(middle):
        axes.text(0.65, y, _bar_name(mdp, bar), fontsize=8, color=MUTED, va="center")


def _bar_name(mdp: MDP, bar: int) -> str:
    if mdp.num_actions <= MOST_BARS:
        return _action_name(mdp, bar)
    last = MOST_BARS - 1
    names = {0: f"top: {_action_name(mdp, 0)}", last: f"bottom: {_action_name(mdp, mdp.num_actions - 1)}"}
    return names.get(bar, "⋮" if bar == MOST_BARS // 2 else "")


def _action_name(mdp: MDP, action: int) -> str:
    name = mdp.action_labels[action] if mdp.action_labels else f"action {action}"
    return as_text(name if len(name) <= 14 else f"{name[:13]}…")


def _blank(axes: Axes, shapes: np.ndarray) -> None:
    axes.add_collection(PolyCollection(list(shapes), facecolor="white", edgecolor="0.45", linewidth=0.8))
