"""Maps: one number per pair, drawn on the cells of a model; several maps share one colour scale.

Up to `SPLIT_LIMIT` states, every pair has its own polygon; beyond that, the area of one action is smaller
than a pixel and the caller passes one number per state. Pairs that do not exist or have no number are
hatched; positions of a grid that are not states, such as walls, are grey.

An occupancy has a logarithmic scale, because shares differ by factors and rare pairs matter most. Its colours
are viridis, whose lightness grows evenly and which works for colour-blind readers and in grey print; pairs
without a visit are white. A ratio target/visits has a logarithmic red-blue scale that is symmetric around 1,
so that half the visits and twice the visits are equally far from white; a pair never visited is black.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rhocover.checks import FloatArray
from rhocover.layout import Ruler
from rhocover.mdp import MDP
from rhocover.report.figures.drawing import (
    BELOW_HEIGHT,
    GAP,
    SHARP,
    Cells,
    NotebookFigure,
    Sheet,
    as_text,
    axes_at,
    cells_of,
    plan_sheet,
    write_title,
)

# Colour scales.

SMALLEST_SPREAD = 1.1  # with a smaller one, a perfect match would show its rounding errors
LEAST_RANGE = 2.0  # of an occupancy scale: equal shares get one colour despite rounding errors
MOST_RANGE = 1e6  # beyond it a colour would stand for more than a factor of ten
FINEST = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # ticks within a factor of ten
ROUNDING = 1e-9  # keeps the largest value inside its own scale despite the rounding of exp(log(x))
STEPS = {2: "100 steps", 3: "1,000 steps", 4: "10,000 steps", 5: "100,000 steps"}


@dataclass(frozen=True)
class Scale:
    """A colour map with its range, and the text and ticks of its colour bar."""

    colours: Colormap
    norm: Normalize
    label: str
    ticks: FloatArray
    tick_labels: tuple[str, ...]
    outline: str
    ends: tuple[str, str] = ("", "")
    extend: Literal["neither", "min", "max"] = "neither"


def occupancy_scale(panels: Sequence[FloatArray], note: str = "") -> Scale:
    """Returns the logarithmic scale up to the largest share, in visits per round number of steps."""
    shares = np.concatenate([values.ravel() for values in panels])
    largest = float(shares.max()) or 1.0
    smallest = float(shares[shares > 0].min(initial=largest))
    least = max(min(smallest, largest / LEAST_RANGE), largest / MOST_RANGE)
    power, has_none = _steps_power(largest), bool((shares == 0).any())
    ticks = _log_ticks(least, largest)
    steps = STEPS.get(power, f"$10^{{{power}}}$ steps")
    low = "this or fewer" if smallest < least else ""
    return Scale(
        colours=matplotlib.colormaps["viridis"].with_extremes(under="white"),
        norm=LogNorm(least, largest),
        label=f"visits per {steps}{note}, log scale",
        ticks=ticks,
        tick_labels=tuple(f"{tick * 10**power:.3g}" for tick in ticks),
        outline="0.7",
        ends=("white: none" if has_none else low, ""),
        extend="min" if has_none else "neither",
    )


def ratio_scale(panels: Sequence[FloatArray], note: str = "") -> Scale:
    """Returns the logarithmic scale around 1 that contains every finite, positive ratio."""
    ratios = np.concatenate([values.ravel() for values in panels])
    is_inside = np.isfinite(ratios) & (ratios > 0)
    spread = float(np.exp(np.abs(np.log(ratios[is_inside])).max(initial=0.0)))
    spread = max(spread * (1 + ROUNDING), SMALLEST_SPREAD)
    is_unseen = bool(np.isposinf(ratios).any())
    above = ratios_above_one(spread)
    ticks = np.concatenate([1 / above[::-1], [1.0], above])
    return Scale(
        colours=matplotlib.colormaps["RdBu_r"].with_extremes(over="black"),
        norm=LogNorm(1 / spread, spread),
        label=f"target share / visited share{note}",
        ticks=ticks,
        tick_labels=(*(f"1/{ratio_text(t)}" for t in above[::-1]), "1", *map(ratio_text, above)),
        outline="0.7",
        ends=("too many visits", "too few (black: none)" if is_unseen else "too few visits"),
        extend="max" if is_unseen else "neither",
    )


def ratios_above_one(largest: float) -> FloatArray:
    """Returns at most five round ratios in (1, largest], spread over a logarithmic axis."""
    if largest <= 4:
        ticks = round_numbers(1, largest, 3)
    else:
        decades = 10.0 ** np.arange(math.floor(math.log10(largest)) + 1)
        mantissas = np.array([1.0, 2.0, 5.0]) if largest <= 50 else np.array([1.0])
        ticks = (decades[:, None] * mantissas).ravel()[:: math.ceil(len(decades) / 5)]
    return np.array([tick for tick in ticks if 1 < tick <= largest])


def _log_ticks(low: float, high: float) -> FloatArray:
    """Returns at most six round numbers from `low` to `high`, spread over a logarithmic axis."""
    powers = np.arange(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1.0)
    for mantissas in (FINEST, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        ticks = (10.0 ** powers[:, None] * np.array(mantissas)).ravel()
        ticks = ticks[(ticks >= low) & (ticks <= high * (1 + ROUNDING))]
        if len(ticks) <= 6:
            return ticks
    return ticks[:: math.ceil(len(ticks) / 6)]


def ratio_text(ratio: float) -> str:
    """Returns 1.25, 50, 1000, and powers of ten from 10,000 on."""
    return f"{ratio:.4g}" if ratio < 10_000 else f"$10^{{{round(math.log10(ratio))}}}$"


def round_numbers(low: float, high: float, count: int) -> FloatArray:
    """Returns about `count` round numbers from `low` to `high`, inclusive."""
    ticks = np.array(MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high), float)
    return ticks[(ticks >= low) & (ticks <= high * (1 + ROUNDING))]


def _steps_power(share: float) -> int:
    """Returns the k for which the largest share is between 1 and 1000 visits in 10^k steps."""
    power = max(0, math.ceil(-math.log10(share)) + 1)
    return 2 if power in (1, 2) else power


# The legend of a map: the colour bar, and the key that shows the part of each action in a cell.

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
    """Draws the colour bar, and the key if the sheet has space for one, beside or below the block."""
    _colour_bar(figure, scale, _bar_below(sheet) if sheet.is_wide else _bar_beside(sheet), sheet.is_wide)
    if sheet.key_height == 0:
        return
    rest = sheet.legend_height - sheet.key_height
    x = sheet.left if sheet.is_wide else sheet.left + sheet.block[0] + GAP
    _key(figure, mdp, cells, x, sheet.legend_top + (rest / 2 if sheet.is_wide else rest))


def _bar_beside(sheet: Sheet) -> tuple[float, float, float, float]:
    """Returns left, top, width, height of a vertical bar, with space for a label at either end."""
    height = min(sheet.legend_height - sheet.key_height - 0.75, TALLEST_BAR)
    return sheet.left + sheet.block[0] + GAP, sheet.top + 0.25, BAR_THICKNESS, height


def _bar_below(sheet: Sheet) -> tuple[float, float, float, float]:
    """Returns left, top, width, height of a horizontal bar, aligned with the right end of the block."""
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
    """Writes the meaning of the low and the high end, clear of the ticks and of the arrow of the bar."""
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
    """Draws one empty cell with the name of each action at its part."""
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


# The axes of a grid of bins: their names and values.

MOST_TICKS = 5  # on a side: labels of six characters do not overlap on the smallest panel
EVEN = 1e-6  # of a width: bins that differ by less count as equal


def draw_rulers(axes: Axes, cells: Cells, *, across: bool, upwards: bool) -> None:
    """Writes the name and values of the first ruler below the cells, and of the second beside them."""
    axes.tick_params(length=2, colors=MUTED)
    first, *second = cells.rulers
    if across:
        places, labels = _within(*ruler_ticks(first), axes.get_xlim())
        axes.set_xticks(places, labels=labels)
        axes.set_xlabel(as_text(first.name), color=MUTED)
    if upwards and second:
        places, labels = ruler_ticks(second[0])
        places, labels = _within(len(second[0].edges) - 2 - places, labels, axes.get_ylim())
        axes.set_yticks(places, labels=labels)
        axes.set_ylabel(as_text(second[0].name), color=MUTED)


def ruler_ticks(ruler: Ruler) -> tuple[FloatArray, list[str]]:
    """Returns the positions and labels of the ticks on a side; cell k is from k - 1/2 to k + 1/2.

    Bins of equal width have ticks at round values, others at some of their edges; open ends have none.
    """
    edges = np.array(ruler.edges)
    ends = np.flatnonzero(np.isfinite(edges))
    sides = ends.astype(np.float64) - 0.5
    if ends.size < 2:
        return sides, [f"{edge:.3g}" for edge in edges[ends]]
    known, widths = edges[ends], np.diff(edges[ends])
    if np.ptp(widths) > EVEN * widths.max():
        few = slice(None, None, math.ceil(ends.size / MOST_TICKS))
        return sides[few], [f"{edge:.3g}" for edge in known[few]]
    is_whole = bool(widths[0] == 1 and known[0] % 1 == 0.5)  # cells around whole numbers
    ticks = np.array(MaxNLocator(MOST_TICKS, integer=is_whole).tick_values(known[0], known[-1]))
    ticks = ticks[(ticks >= known[0]) & (ticks <= known[-1])]
    places = sides[0] + (ticks - known[0]) / widths.mean()
    return places, [f"{tick + 0.0:.3g}" for tick in np.round(ticks, 12)]


def _within(
    places: FloatArray, labels: list[str], limits: tuple[float, float]
) -> tuple[list[float], list[str]]:
    """Returns the ticks inside the limits; others would extend the axis."""
    low, high = sorted(limits)
    inside = [k for k, place in enumerate(places) if low <= place <= high]
    return [float(places[k]) for k in inside], [labels[k] for k in inside]


# Drawing a map.

SPLIT_LIMIT = 20_000
OUTLINE_LIMIT = 2_500  # with more states the outlines would cover the colours
EXACT_LIMIT = 5_000  # a vector file stores more polygons than this as pixels
LABEL_LIMIT = 28  # labels below cells that do not touch
LETTER = 0.075  # inches that a character of a label takes, with its share of the space between labels
CASING, BORDER = 3.0, 0.8  # points: a white line between states that are wide, and a grey one on top of it
SEAM = 0.3  # points; antialiased polygons overlap this much, or pale lines appear between them


def is_split(mdp: MDP) -> bool:
    """Whether a figure of this model shows every action, or one number per state; lists always do."""
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
    figure = NotebookFigure(figsize=sheet.size, dpi=SHARP)
    write_title(figure, sheet)
    for number, (subtitle, values) in enumerate(panels.items()):
        axes = axes_at(figure, *sheet.panel_at(number))
        _frame(axes, cells, "" if sheet.is_single else subtitle)
        _paint(axes, mdp, cells, values, scale)
        _outline(axes, cells, scale.outline, sheet.panel[0])
        is_last = number + sheet.columns >= len(panels)
        if cells.rulers:
            draw_rulers(axes, cells, across=is_last, upwards=number % sheet.columns == 0)
        elif sheet.is_single or (cells.is_strip and is_last):
            _name_places(axes, mdp, cells, sheet.panel[0])
    draw_legend(figure, mdp, cells, scale, sheet)
    return figure


def _full_title(title: str, panels: Mapping[str, FloatArray]) -> str:
    """Returns the title of the sheet, which includes the subtitle of a single panel."""
    return ": ".join(filter(None, [title, *panels])) if len(panels) == 1 else title


def _needs_ticks(cells: Cells, num_panels: int) -> tuple[bool, bool]:
    """Returns whether there are ticks below and beside: those of rulers, of a strip, or of a single map."""
    if cells.rulers:
        return True, len(cells.rulers) > 1
    is_single = num_panels == 1
    return is_single or cells.is_strip, is_single and cells.is_lattice and not cells.is_strip


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
        states = np.arange(len(cells.positions))
        axes.add_collection(_coloured(cells.squares(states), values, scale))
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
    """Returns the polygons in the colours of their values; if there are many, vector files store pixels."""
    is_many = len(values) > EXACT_LIMIT
    return PolyCollection(
        polygons, array=_finite(values, scale), cmap=scale.colours, norm=scale.norm, gid="values",
        rasterized=is_many, antialiased=not is_many,
        edgecolors="none" if is_many else "face", linewidth=0.0 if is_many else SEAM,
    )  # fmt: skip


def _finite(values: FloatArray, scale: Scale) -> FloatArray:
    """Returns the values with inf and 0 just off the scale, since matplotlib would draw them as missing."""
    low, high = float(scale.norm.vmin or 0), float(scale.norm.vmax or 1)
    inside = np.where(values > 0, np.maximum(values, low), values)
    return np.select([np.isposinf(values), values == 0], [2 * high, low / 2], inside)


def _hatched(squares: Any) -> PolyCollection:
    return PolyCollection(squares, facecolor="white", edgecolor="0.75", hatch="//////", linewidth=0)


def _outline(axes: Axes, cells: Cells, colour: str, panel_width: float) -> None:
    """Draws the borders of the cells, in lines of at most a twentieth of a cell.

    The actions of a state touch, and a grey line between two dark colours is not seen: so it lies on white.
    """
    if len(cells.positions) > OUTLINE_LIMIT:
        return
    squares: Any = cells.squares(np.arange(len(cells.positions)))
    most = 72 / 20 * panel_width / float(cells.high[0] - cells.low[0])  # in points
    for edge, width in (("white", min(CASING, most)), (colour, min(BORDER, most / 2))):
        axes.add_collection(PolyCollection(squares, facecolor="none", edgecolor=edge, linewidth=width))


def _name_places(axes: Axes, mdp: MDP, cells: Cells, width: float) -> None:
    if cells.is_strip:
        _name_strip(axes, mdp, cells, width)
    elif cells.is_lattice:
        number_sides(axes, "column", "row", length=0)
    elif mdp.num_states <= LABEL_LIMIT and cells.has_room_below:
        _write_labels(axes, mdp, cells)


def _name_strip(axes: Axes, mdp: MDP, cells: Cells, width: float) -> None:
    """Writes the labels of the states below a strip of this width if all fit, else numbers of some states."""
    axes.set_xlabel("state", color=MUTED)
    axes.tick_params(length=0, colors=MUTED)
    cell = width / float(cells.high[0] - cells.low[0])
    numbers = [str(state) for state in range(mdp.num_states)]
    names = [as_text(name) for name in mdp.state_labels or numbers]
    names = names if LETTER * (max(map(len, names)) + 1) <= cell else numbers
    every = _round_up(LETTER * (max(map(len, names)) + 1) / cell)
    axes.set_xticks(cells.positions[::every, 0], labels=names[::every])


def _round_up(number: float) -> int:
    """Returns the next of 1, 2, 5, 10, 20, 50 and so on."""
    steps = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
    return next(step for step in steps if step >= number)


def number_sides(axes: Axes, across: str, down: str, *, length: float) -> None:
    """Names what is counted across and down, and numbers a few of them; ticks are `length` points long."""
    axes.set_xlabel(across, color=MUTED)
    axes.set_ylabel(down, color=MUTED)
    axes.tick_params(length=length, colors=MUTED)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def _write_labels(axes: Axes, mdp: MDP, cells: Cells) -> None:
    names = mdp.state_labels or [str(s) for s in range(mdp.num_states)]
    for (x, y), name in zip(cells.positions, names, strict=True):
        axes.text(x, y + 0.56, as_text(name), ha="center", va="top", fontsize=8, color=MUTED, clip_on=False)
