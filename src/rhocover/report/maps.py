"""A map: one number per pair, painted on the cells of a model; several maps share one colour scale.

Everything is laid out in inches from the top left corner of the sheet, so that cells stay square, text
keeps its size and nothing depends on a layout engine: title, then the block of panels, then the legend
(colour bar and a key of the actions) beside a tall block or below a wide one.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rhocover.checks import FloatArray
from rhocover.mdp import MDP
from rhocover.report.cells import Cells, cells_of
from rhocover.report.legend import LEGEND_WIDTH, draw_legend, legend_height
from rhocover.report.scales import Scale

SPLIT_LIMIT = 20_000  # with more states the share of one action is smaller than a pixel
OUTLINE_LIMIT = 2_500  # with more states the outlines would cover the colours
EXACT_LIMIT = 4_000  # with more polygons than this a vector file stores the map as pixels
LABEL_LIMIT = 40  # more state labels than this cannot be read
MARGIN, GAP, TITLE_LINE, SUBTITLE, TICKS = 0.2, 0.25, 0.28, 0.28, 0.45
MUTED = "0.35"


@dataclass(frozen=True)
class Sheet:
    """Sizes in inches: of one panel, of the block of panels, and how many columns it has."""

    panel: tuple[float, float]
    columns: int
    rows: int
    is_wide: bool

    @property
    def pitch(self) -> tuple[float, float]:
        """From one panel to the next, right and down."""
        gap_y = GAP + (SUBTITLE if self.columns * self.rows > 1 else 0)
        return self.panel[0] + GAP, self.panel[1] + gap_y

    @property
    def block(self) -> tuple[float, float]:
        """Width and height of all panels with the gaps between them."""
        return (
            self.columns * self.pitch[0] - GAP,
            self.rows * self.pitch[1] - GAP,
        )


def is_split(mdp: MDP) -> bool:
    """Whether a map of this model shows every action, or one number per state."""
    return mdp.num_states <= SPLIT_LIMIT


def map_figure(mdp: MDP, panels: Mapping[str, FloatArray], scale: Scale, title: str) -> Figure:
    """Returns one panel per entry; values are per pair `[n]`, or per state `[S]` if not `is_split`."""
    cells = cells_of(mdp)
    sheet = plan_sheet(cells, len(panels))
    left, top = MARGIN + TICKS, MARGIN
    lines = textwrap.wrap(title, width=max(30, int(10 * (sheet.block[0] + LEGEND_WIDTH))))
    top += TITLE_LINE * len(lines) + (0.1 if lines else 0)
    figure = Figure(figsize=_figure_size(sheet, mdp, left, top), dpi=150)
    _write_title(figure, lines)
    for number, (subtitle, values) in enumerate(panels.items()):
        row, column = divmod(number, sheet.columns)
        x, y = left + column * sheet.pitch[0], top + row * sheet.pitch[1]
        y += SUBTITLE if len(panels) > 1 else 0
        axes = axes_at(figure, x, y, *sheet.panel)
        paint(axes, mdp, cells, values, scale)
        axes.set_title(subtitle, fontsize=9, pad=4)
    _draw_legend(figure, mdp, cells, scale, sheet, left, top)
    return figure
