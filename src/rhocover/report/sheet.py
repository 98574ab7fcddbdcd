"""How much paper a map needs: everything in inches from the top left corner.

Title, then the block of panels, then the legend (colour bar and key) beside a tall block or below a wide
one. Computed rather than left to a layout engine, so that cells stay square, text keeps its size, and the
same data give the same picture everywhere.
"""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rhocover.report.cells import Cells

MARGIN, GAP, LINE, TICKS = 0.2, 0.25, 0.27, 0.5
RULER = 0.75  # a name and values such as -0.0025 beside a panel
BESIDE_WIDTH, BESIDE_HEIGHT, BELOW_HEIGHT = 1.65, 2.4, 0.8  # what a colour bar with its words needs
LOOSE_GAP = 0.7  # between panels whose cells do not touch: wider than the gaps inside a panel
WIDE, LEAST_WIDE = 1.6, 4.9  # a block this many times wider than high, and this wide, has its legend below
LARGEST_CELL = 1.0
ONE_PANEL, MANY_PANELS = (8.0, 5.0), (10.5, 6.2)  # the box that the panels may fill
SHARP, SHOWN = 150, 100  # dots to the inch that are drawn, and those that a notebook shows them on


class Picture(Figure):
    """A figure that a notebook shows where a cell ends with it, although pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        buffer, (width, height) = io.BytesIO(), self.get_size_inches()
        self.savefig(buffer, format="png", dpi=SHARP, facecolor="white")
        return buffer.getvalue(), {"width": round(SHOWN * width), "height": round(SHOWN * height)}


@dataclass(frozen=True)
class Sheet:
    """The size of one panel, the number of columns and rows, the title, and where the block begins."""

    panel: tuple[float, float]
    columns: int
    rows: int
    title: tuple[str, ...]
    left: float
    bottom: float
    gap: float
    key_height: float

    @property
    def is_single(self) -> bool:
        """Whether there is one panel; only then there is room for ticks."""
        return self.columns * self.rows == 1

    @property
    def subtitle(self) -> float:
        """The height above each panel that its own title takes."""
        return 0.0 if self.is_single else LINE

    @property
    def block(self) -> tuple[float, float]:
        """Width and height of all panels with their titles and gaps."""
        width, height = self.panel
        return (
            self.columns * (width + self.gap) - self.gap,
            self.rows * (height + self.subtitle + GAP) - GAP,
        )

    @property
    def top(self) -> float:
        """Where the block begins, below the title."""
        return MARGIN + len(self.title) * LINE + (0.12 if self.title else 0.0)

    @property
    def is_wide(self) -> bool:
        """Whether the legend goes below the block."""
        return self.block[0] >= max(WIDE * self.block[1], LEAST_WIDE)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the whole figure."""
        width, height = self.block
        if self.is_wide:
            return self.left + width + MARGIN, self.legend_top + self.legend_height + MARGIN
        full_width = self.left + width + GAP + BESIDE_WIDTH + MARGIN
        return full_width, self.top + max(height + self.bottom, self.legend_height) + MARGIN

    @property
    def legend_top(self) -> float:
        """Where the legend begins."""
        return self.top + self.block[1] + self.bottom + GAP if self.is_wide else self.top

    @property
    def legend_height(self) -> float:
        """The height of the legend, which beside the block is at least that of the block."""
        if self.is_wide:
            return max(BELOW_HEIGHT, self.key_height)
        return max(BESIDE_HEIGHT + self.key_height, self.block[1])

    def panel_at(self, number: int) -> tuple[float, float, float, float]:
        """Returns left, top, width, height of a panel, counted in reading order."""
        row, column = divmod(number, self.columns)
        width, height = self.panel
        x = self.left + column * (width + self.gap)
        y = self.top + row * (height + self.subtitle + GAP) + self.subtitle
        return x, y, width, height


def plan_sheet(
    cells: Cells,
    num_panels: int,
    title: str,
    *,
    num_bars: int,
    ticks: tuple[bool, bool],
    key_height: float,
) -> Sheet:
    """Returns the sheet on which the panels are largest; `ticks` says whether x and y need room."""
    sizes = {columns: _panel(cells, num_panels, columns, num_bars) for columns in range(1, num_panels + 1)}
    columns = max(sizes, key=lambda columns: math.prod(sizes[columns]))
    beside = RULER if cells.rulers else TICKS
    left, bottom = MARGIN + beside * ticks[1], TICKS * ticks[0]
    rows = math.ceil(num_panels / columns)
    gap = GAP if cells.is_lattice else LOOSE_GAP
    bare = Sheet(sizes[columns], columns, rows, (), left, bottom, gap, key_height)
    lines = textwrap.wrap(title, width=max(24, int(9.5 * bare.size[0])))  # 9.5 letters to the inch
    return replace(bare, title=tuple(lines))


def axes_at(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Returns new axes with the top left corner at (x, y) inches."""
    full_width, full_height = figure.get_size_inches()
    bottom = 1 - (y + height) / full_height
    return figure.add_axes((x / full_width, bottom, width / full_width, height / full_height))


def write_title(figure: Figure, sheet: Sheet) -> None:
    """Writes the lines of the title from the left end of the block."""
    width, height = figure.get_size_inches()
    for number, line in enumerate(sheet.title):
        y = 1 - (MARGIN + number * LINE) / height
        figure.text(sheet.left / width, y, line, fontsize=12, va="top")


def _panel(cells: Cells, num_panels: int, columns: int, num_bars: int) -> tuple[float, float]:
    """Returns the largest panel that fits the box `columns` times side by side; strips stretch."""
    box = ONE_PANEL if num_panels == 1 else MANY_PANELS
    rows = math.ceil(num_panels / columns)
    room = box[0] / columns, box[1] / rows - (LINE + GAP if num_panels > 1 else 0)
    width, height = cells.high - cells.low
    if cells.is_strip:
        tall = max(0.6, 0.24 * num_bars, room[0] / width)
        return min(room[0], LARGEST_CELL * width), min(tall, LARGEST_CELL, max(room[1], 0.3))
    cell = min(room[0] / width, room[1] / height, LARGEST_CELL)
    return width * cell, height * cell
