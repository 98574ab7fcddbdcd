"""Drawing: matplotlib's settings and fonts, the geometry of cells, and the layout of a figure.

Matplotlib's settings belong to the whole process: two threads that change and restore them can leave each
other's settings behind. So everything that draws here holds one lock, and restores the user's settings.

Matplotlib draws characters that the font lacks as empty boxes, with a warning for each. Here they are
replaced by the box character. Silencing the warning would not be safe, because warning filters, too, belong
to the whole process.

Cells: every state is a square of side 1, divided among its actions. Actions that point in different compass
directions divide it by direction: two opposite ones get the two halves, otherwise each gets the triangle on
its side. Actions without a direction are stacked as bars, the first on top. x points to the right and y down.
Colours are in `maps`. A model without a layout has no map but a ranked list.

Layout of a map, in inches from the top left corner: the title, then the block of panels, then the legend
(colour bar and key) beside a tall block or below a wide one. It is computed here and not left to a layout
engine, so that cells stay square, text keeps its size, and the same data give the same figure everywhere.
"""

from __future__ import annotations

import io
import math
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Ruler
from rhocover.mdp import MDP
from rhocover.printing import LINES, printable

FONT = "DejaVu Sans"  # ships with matplotlib: the same figure on every machine
BOX = "□"  # shown for a character that the font lacks
STYLE: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "text.usetex": False,
    "svg.hashsalt": "rhocover",  # otherwise identifiers in SVG files are random
}
_one = threading.RLock()


@contextmanager
def drawing(style: dict[Any, Any] | None = None) -> Iterator[None]:
    """Holds the lock and applies our settings and `style`; restores the user's settings afterwards."""
    with _one, matplotlib.rc_context(STYLE | (style or {})):
        yield


def drawn(figure: Figure, kind: str, *, style: dict[Any, Any] | None = None, **how: Any) -> bytes:
    """Returns a figure as the bytes of a file of this format."""
    buffer = io.BytesIO()
    with drawing(style), _replaced_characters(figure):
        figure.savefig(buffer, format=kind, facecolor="white", **how)
    return buffer.getvalue()


def as_text(name: str) -> str:
    """Returns a name with `$` escaped, because matplotlib reads text between dollars as mathematics."""
    return known(name).replace("$", r"\$")


def known(words: str) -> str:
    """Returns a text with a box for each character that the font lacks, and no control characters."""
    shown = printable(words, keep=LINES)
    return shown if shown.isascii() else "".join(letter if _is_known(letter) else BOX for letter in shown)


def _is_known(letter: str) -> bool:
    return letter in LINES or _font().get_char_index(ord(letter)) != 0


@cache
def _font() -> Any:
    return font_manager.get_font(font_manager.findfont(FONT))


@contextmanager
def _replaced_characters(figure: Figure) -> Iterator[None]:
    """Replaces characters that the font lacks in all texts of a figure, and restores them at the end."""
    texts = [part for part in figure.findobj(Text) if isinstance(part, Text)]
    before = [(text, text.get_text()) for text in texts if known(text.get_text()) != text.get_text()]
    for text, words in before:
        text.set_text(known(words))
    try:
        yield
    finally:
        for text, words in before:
            text.set_text(words)


# The geometry of cells.

HALF = 0.5
SQUARE = HALF * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
COMPASS = {(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)}


@dataclass(frozen=True, eq=False)
class Cells:
    """Where a model is drawn: positions `[S, 2]`, one polygon per action `[A, k, 2]` around the origin."""

    positions: FloatArray
    shapes: FloatArray
    directions: FloatArray | None
    rulers: tuple[Ruler, ...] = ()

    @property
    def is_lattice(self) -> bool:
        """Whether all coordinates are whole numbers, so that there are rows and columns."""
        return bool((self.positions == np.round(self.positions)).all())

    @property
    def low(self) -> FloatArray:
        """The corner of the box around all cells with the smallest x and y."""
        return self.positions.min(axis=0) - HALF

    @property
    def high(self) -> FloatArray:
        """The opposite corner."""
        return self.positions.max(axis=0) + HALF

    @property
    def is_strip(self) -> bool:
        """Whether all states lie in one row; a strip may be stretched without loss."""
        return bool(np.ptp(self.positions[:, 1]) == 0 and len(self.positions) > 1)

    @property
    def has_room_below(self) -> bool:
        """Whether a line of text fits under every cell without touching another."""
        dx, dy = (self.positions[:, None] - self.positions[None]).T
        return not ((np.abs(dx) < 1) & (dy > 0) & (dy < 1.4)).any()

    def squares(self, states: np.ndarray) -> FloatArray:
        """Returns the outlines of these cells, `[len(states), 4, 2]`."""
        return self.positions[states][:, None, :] + SQUARE

    def polygons(self, states: np.ndarray, actions: np.ndarray) -> FloatArray:
        """Returns the polygon of each pair, `[n, k, 2]`."""
        return self.positions[states][:, None, :] + self.shapes[actions]

    def image(self, values: FloatArray) -> FloatArray:
        """Returns values per state as rows and columns of a lattice; positions without a state are nan."""
        column, row = np.round(self.positions - self.positions.min(axis=0)).astype(np.int64).T
        result = np.full((row.max() + 1, column.max() + 1), np.nan)
        result[row, column] = values
        return result


def cells_of(mdp: MDP) -> Cells:
    """Returns where the states and pairs of a model with a layout are drawn."""
    layout = mdp.layout
    if layout is None:
        raise InvalidArgumentError.of(
            "mdp", "has no layout, so no map can be drawn", remedy="Pass layout=Layout(...) to MDP."
        )
    directions = layout.directions
    if directions is not None and _is_compass(directions):
        return Cells(layout.positions, _by_direction(directions), directions, layout.rulers)
    return Cells(layout.positions, _bars(mdp.num_actions), None, layout.rulers)


def _is_compass(directions: FloatArray) -> bool:
    points = [(float(x), float(y)) for x, y in directions]
    return set(points) <= COMPASS and len(set(points)) == len(points)


def _by_direction(directions: FloatArray) -> FloatArray:
    are_opposite = len(directions) == 2 and not directions.sum(axis=0).any()
    return np.stack([_half(d) if are_opposite else _triangle(d) for d in directions])


def _half(direction: FloatArray) -> FloatArray:
    """Returns the half of the cell on the side of `direction`, `[4, 2]`."""
    across = HALF * direction[::-1]
    side = HALF * direction
    return np.stack([across, side + across, side - across, -across])


def _triangle(direction: FloatArray) -> FloatArray:
    """Returns the triangle from the middle of the cell to the side of `direction`, `[3, 2]`."""
    across = HALF * direction[::-1]
    side = HALF * direction
    return np.stack([np.zeros(2), side + across, side - across])


def _bars(num_actions: int) -> FloatArray:
    """Returns horizontal slices of the cell from top to bottom, `[A, 4, 2]`."""
    edges = np.linspace(-HALF, HALF, num_actions + 1)
    top, bottom = edges[:-1], edges[1:]
    left, right = np.full(num_actions, -HALF), np.full(num_actions, HALF)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)


# The layout of a figure, in inches from the top left corner.

MARGIN, GAP, LINE, TICKS = 0.2, 0.25, 0.27, 0.5
RULER = 0.75  # space for a name and values such as -0.0025 beside a panel
BESIDE_WIDTH, BESIDE_HEIGHT, BELOW_HEIGHT = 1.65, 2.4, 0.8  # space for a colour bar with its text
LOOSE_GAP = 0.7  # between panels whose cells do not touch: wider than the gaps inside a panel
WIDE, LEAST_WIDE = 1.6, 4.9  # a block with at least this aspect ratio and width has its legend below
LARGEST_CELL = 1.0
ONE_PANEL, MANY_PANELS = (8.0, 5.0), (10.5, 6.2)  # the box that the panels may fill
SHARP, SHOWN = 150, 100  # dots per inch that are drawn, and that a notebook displays


class NotebookFigure(Figure):
    """A figure that a notebook shows as the result of a cell, although pyplot does not manage it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        buffer, (width, height) = io.BytesIO(), self.get_size_inches()
        self.savefig(buffer, format="png", dpi=SHARP, facecolor="white")
        return buffer.getvalue(), {"width": round(SHOWN * width), "height": round(SHOWN * height)}


@dataclass(frozen=True)
class Sheet:
    """The size of one panel, the number of columns and rows, the title, and the position of the block."""

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
        """Whether there is one panel; only then is there space for ticks."""
        return self.columns * self.rows == 1

    @property
    def subtitle(self) -> float:
        """The height of the title above each panel."""
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
        """The height of the legend; beside the block, at least that of the block."""
        if self.is_wide:
            return max(BELOW_HEIGHT, self.key_height)
        return max(BESIDE_HEIGHT + self.key_height, self.block[1])

    def panel_at(self, number: int) -> tuple[float, float, float, float]:
        """Returns left, top, width, height of a panel; panels are numbered in reading order."""
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
    """Returns the sheet with the largest panels; `ticks` says whether x and y need space for ticks."""
    sizes = {columns: _panel(cells, num_panels, columns, num_bars) for columns in range(1, num_panels + 1)}
    columns = max(sizes, key=lambda columns: math.prod(sizes[columns]))
    beside = RULER if cells.rulers else TICKS
    left, bottom = MARGIN + beside * ticks[1], TICKS * ticks[0]
    rows = math.ceil(num_panels / columns)
    gap = GAP if cells.is_lattice else LOOSE_GAP
    bare = Sheet(sizes[columns], columns, rows, (), left, bottom, gap, key_height)
    lines = textwrap.wrap(title, width=max(24, int(9.5 * bare.size[0])))  # 9.5 characters per inch
    return replace(bare, title=tuple(lines))


def axes_at(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Returns new axes with the top left corner at (x, y) inches."""
    full_width, full_height = figure.get_size_inches()
    bottom = 1 - (y + height) / full_height
    return figure.add_axes((x / full_width, bottom, width / full_width, height / full_height))


def write_title(figure: Figure, sheet: Sheet) -> None:
    """Writes the lines of the title, aligned with the left end of the block."""
    width, height = figure.get_size_inches()
    for number, line in enumerate(sheet.title):
        y = 1 - (MARGIN + number * LINE) / height
        figure.text(sheet.left / width, y, line, fontsize=12, va="top")


def _panel(cells: Cells, num_panels: int, columns: int, num_bars: int) -> tuple[float, float]:
    """Returns the size of the largest panel if `columns` of them are side by side; strips are stretched."""
    box = ONE_PANEL if num_panels == 1 else MANY_PANELS
    rows = math.ceil(num_panels / columns)
    room = box[0] / columns, box[1] / rows - (LINE + GAP if num_panels > 1 else 0)
    width, height = cells.high - cells.low
    if cells.is_strip:
        tall = max(0.6, 0.24 * num_bars, room[0] / width)
        return min(room[0], LARGEST_CELL * width), min(tall, LARGEST_CELL, max(room[1], 0.3))
    cell = min(room[0] / width, room[1] / height, LARGEST_CELL)
    return width * cell, height * cell
