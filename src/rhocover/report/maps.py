"""A map: one number per pair, painted on the cells of a model; several maps share one colour scale.

Up to `SPLIT_LIMIT` states every pair has its own polygon; beyond it the share of one action is smaller
than a pixel and the caller hands over one number per state. Cells with a pair that is absent or has no
number show hatching there; places of a grid that are no states are grey, like walls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rhocover.checks import FloatArray
from rhocover.mdp import MDP
from rhocover.report.cells import Cells, cells_of
from rhocover.report.drawing import as_text
from rhocover.report.legend import draw_legend, key_height
from rhocover.report.rulers import draw_rulers
from rhocover.report.scales import Scale
from rhocover.report.sheet import SHARP, Picture, axes_at, plan_sheet, write_title

SPLIT_LIMIT = 20_000
OUTLINE_LIMIT = 2_500  # with more states the outlines would cover the colours
EXACT_LIMIT = 5_000  # a vector file stores more polygons than this as pixels
LABEL_LIMIT = 28  # more labels than this do not fit below a strip
SEAM = 0.3  # points; smoothed polygons must overlap a little or pale lines show between them
MUTED = "0.3"


def is_split(mdp: MDP) -> bool:
    """Whether a picture of this model shows every action, or one number per state; lists always do."""
    return mdp.layout is None or mdp.num_states <= SPLIT_LIMIT


def map_figure(mdp: MDP, panels: Mapping[str, FloatArray], scale: Scale, title: str) -> Figure:
    """Returns one panel per entry; values are per pair `[n]`, or per state `[S]` if not `is_split`."""
    cells, with_key = cells_of(mdp), is_split(mdp) and mdp.num_actions > 1
    sheet = plan_sheet(
        cells, len(panels), _full_title(title, panels),
        num_bars=mdp.num_actions if with_key and cells.directions is None else 1,
        ticks=_needs_ticks(cells, len(panels)),
        key_height=key_height(mdp, cells) if with_key else 0.0,
    )  # fmt: skip
    figure = Picture(figsize=sheet.size, dpi=SHARP)
    write_title(figure, sheet)
    for number, (subtitle, values) in enumerate(panels.items()):
        axes = axes_at(figure, *sheet.panel_at(number))
        _frame(axes, cells, "" if sheet.is_single else subtitle)
        _paint(axes, mdp, cells, values, scale)
        _outline(axes, cells, scale.outline, sheet.panel[0])
        if cells.rulers:
            is_last = number + sheet.columns >= len(panels)
            draw_rulers(axes, cells, across=is_last, upwards=number % sheet.columns == 0)
        elif sheet.is_single:
            _name_places(axes, mdp, cells)
    draw_legend(figure, mdp, cells, scale, sheet)
    return figure


def _full_title(title: str, panels: Mapping[str, FloatArray]) -> str:
    """Returns the title of the sheet, which takes up that of a single panel."""
    return ": ".join(filter(None, [title, *panels])) if len(panels) == 1 else title


def _needs_ticks(cells: Cells, num_panels: int) -> tuple[bool, bool]:
    """Returns whether there are ticks below and beside: those of rulers, or of a map that stands alone."""
    if cells.rulers:
        return True, len(cells.rulers) > 1
    is_single = num_panels == 1
    return is_single, is_single and cells.is_lattice and not cells.is_strip


def _frame(axes: Axes, cells: Cells, subtitle: str) -> None:
    axes.set_title(subtitle, fontsize=10, pad=4)
    (left, top), (right, bottom) = cells.low, cells.high
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_facecolor("0.85" if cells.is_lattice else "white")


def _paint(axes: Axes, mdp: MDP, cells: Cells, values: FloatArray, scale: Scale) -> None:
    if not is_split(mdp):
        _paint_states(axes, cells, values, scale)
        return
    axes.add_collection(_hatched(cells.squares(_states_with_blanks(mdp, values))))
    known = ~np.isnan(values)
    polygons = cells.polygons(mdp.pair_state[known], mdp.pair_action[known])
    axes.add_collection(_coloured(polygons, values[known], scale))


def _paint_states(axes: Axes, cells: Cells, values: FloatArray, scale: Scale) -> None:
    if not cells.is_lattice:
        everyone = np.arange(len(cells.positions))
        axes.add_collection(_coloured(cells.squares(everyone), values, scale))
        return
    (left, top), (right, bottom) = cells.low, cells.high
    axes.imshow(
        np.ma.masked_invalid(cells.image(_finite(values, scale))), cmap=scale.colours, norm=scale.norm,
        extent=(left, right, bottom, top), aspect="auto", interpolation_stage="rgba",
    )  # fmt: skip


def _states_with_blanks(mdp: MDP, values: FloatArray) -> np.ndarray:
    num_known = np.bincount(mdp.pair_state[~np.isnan(values)], minlength=mdp.num_states)
    return np.flatnonzero(num_known < mdp.num_actions)


def _coloured(polygons: Any, values: FloatArray, scale: Scale) -> PolyCollection:
    """Returns the polygons in the colours of their values; many of them become pixels in vector files."""
    is_many = len(values) > EXACT_LIMIT
    return PolyCollection(
        polygons, array=_finite(values, scale), cmap=scale.colours, norm=scale.norm, gid="values",
        rasterized=is_many, antialiased=not is_many,
        edgecolors="none" if is_many else "face", linewidth=0.0 if is_many else SEAM,
    )  # fmt: skip


def _finite(values: FloatArray, scale: Scale) -> FloatArray:
    """Returns the values with infinity and 0 just off the scale; matplotlib would paint them as missing."""
    low, high = float(scale.norm.vmin or 0), float(scale.norm.vmax or 1)
    inside = np.where(values > 0, np.maximum(values, low), values)
    return np.select([np.isposinf(values), values == 0], [2 * high, low / 2], inside)


def _hatched(squares: Any) -> PolyCollection:
    return PolyCollection(squares, facecolor="white", edgecolor="0.75", hatch="//////", linewidth=0)


def _outline(axes: Axes, cells: Cells, colour: str, panel_width: float) -> None:
    """Draws the borders of the cells, in lines that take a twentieth of a cell at most."""
    if len(cells.positions) > OUTLINE_LIMIT:
        return
    squares: Any = cells.squares(np.arange(len(cells.positions)))
    width = min(1.0, 72 / 20 * panel_width / float(cells.high[0] - cells.low[0]))  # in points
    axes.add_collection(PolyCollection(squares, facecolor="none", edgecolor=colour, linewidth=width))


def _name_places(axes: Axes, mdp: MDP, cells: Cells) -> None:
    if cells.is_strip:
        _name_strip(axes, mdp, cells)
    elif cells.is_lattice:
        _number(axes)
    elif mdp.num_states <= LABEL_LIMIT and cells.has_room_below:
        _write_labels(axes, mdp, cells)


def _name_strip(axes: Axes, mdp: MDP, cells: Cells) -> None:
    axes.set_xlabel("state", color=MUTED)
    axes.tick_params(length=0, colors=MUTED)
    if mdp.num_states <= LABEL_LIMIT:
        names = mdp.state_labels or [str(s) for s in range(mdp.num_states)]
        axes.set_xticks(cells.positions[:, 0], labels=[as_text(name) for name in names])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))


def _number(axes: Axes) -> None:
    axes.set_xlabel("column", color=MUTED)
    axes.set_ylabel("row", color=MUTED)
    axes.tick_params(length=0, colors=MUTED)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def _write_labels(axes: Axes, mdp: MDP, cells: Cells) -> None:
    names = mdp.state_labels or [str(s) for s in range(mdp.num_states)]
    for (x, y), name in zip(cells.positions, names, strict=True):
        axes.text(x, y + 0.56, as_text(name), ha="center", va="top", fontsize=8, color=MUTED, clip_on=False)
