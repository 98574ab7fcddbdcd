"""Figures of the notebook pages: drawn once for light and once for dark pages, with an alternative text.

The kernels of the site load this file as an extension of IPython (see `tutorials`). A figure becomes two
images with transparent backgrounds, of which the page shows one. For the dark one, greys change places
(black text becomes light, white paper transparent); colours, which carry the data, stay. The alternative text
is made of the words in the figure: titles, axes, legend.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.spines import Spine
from matplotlib.text import Text

SHARP, SHOWN = 150, 100  # dots per inch that are drawn, and dots per inch on which a page shows them
GREY = 0.08  # least difference between red, green and blue of what counts as a colour
BRIGHTEST, DARKEST = 0.92, 0.16  # of the greys on a dark page: text, and lines of a grid
LIGHTER = 0.25  # of the way to white: coloured lines and letters on a dark page
LEAST = "34rem"  # below this width the letters of a wide figure are too small to read: its box scrolls
EMPTY = "0.24"  # places without a state on the map of a dark page


def load_ipython_extension(_shell: Any) -> None:
    """Shows every figure as HTML. A method, because pyplot removes formatters for figures when it starts."""
    Figure._repr_html_ = as_html


def as_html(figure: Figure) -> str:
    """Returns both images of a figure, in a box of their own that scrolls where the page is narrow."""
    alt, light = html.escape(describe(figure)), _image(figure)
    with darkened(figure):
        dark = _image(figure)
    width = round(SHOWN * figure.get_size_inches()[0])
    images = [
        f'<img class="{name}" alt="{alt}" width="{width}" style="min-width: min({width}px, {LEAST})" '
        f'src="data:image/png;base64,{data}">'
        for name, data in (("only-light", light), ("only-dark", dark))
    ]
    return f'<div class="drawn">{"".join(images)}</div>'


def _image(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=SHARP, facecolor="none")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def describe(figure: Figure) -> str:
    """Returns the words of a figure: its title, its panels, what its axes measure, what its lines are."""
    heads = [text.get_text() for text in figure.texts if text.get_fontsize() > 9]
    panels, axes, lines = [], [], []
    for part in figure.axes:
        panels.append(part.get_title() or part.get_title(loc="left"))
        axes += [part.get_xlabel(), part.get_ylabel()]
        legend = part.get_legend()
        lines += [text.get_text() for text in legend.get_texts()] if legend else []
    parts = {"": heads, "Panels": panels, "Axes": axes, "Lines": lines}
    told = [_listed(title, words) for title, words in parts.items()]
    return " ".join(filter(None, told)) or "Figure."


def _listed(title: str, words: list[str]) -> str:
    """Returns words without mathematical markup and repetitions, as one sentence."""
    plain = [" ".join(word.replace("$", "").replace("\\", "").split()) for word in words]
    found = list(dict.fromkeys(filter(None, plain)))
    return f"{title}{': ' if title else ''}{', '.join(found)}." if found else ""


@contextmanager
def darkened(figure: Figure) -> Iterator[None]:
    """Lends a figure the greys of a dark page."""
    before: list[tuple[Callable[[Any], None], Any]] = []
    for artist in figure.findobj():
        for get, change, new in _changes(artist):
            before.append((change, get()))
            change(new)
    try:
        yield
    finally:
        for change, old in reversed(before):
            change(old)


def _changes(artist: Any) -> list[tuple[Callable[[], Any], Callable[[Any], None], Any]]:
    """Returns (getter, setter, new value) for each colour of an artist that is a grey of paper or ink."""
    if isinstance(artist, Text | Line2D):
        return _ink(artist.get_color, artist.set_color)
    if isinstance(artist, Spine):
        return _ink(artist.get_edgecolor, artist.set_edgecolor)
    if isinstance(artist, Axes):
        paper = "none" if min(to_rgba(artist.get_facecolor())[:3]) > 0.9 else EMPTY
        return [(artist.patch.get_facecolor, artist.patch.set_facecolor, paper)]
    if isinstance(artist, Legend):
        frame = artist.get_frame()
        return [(frame.get_facecolor, frame.set_facecolor, "none")]
    if isinstance(artist, PolyCollection) and len(artist.get_facecolor()) == 1 and _is_white(artist):
        return [(artist.get_facecolor, artist.set_facecolor, "none")]
    return []


def _ink(get: Callable[[], Any], change: Callable[[Any], None]) -> list[Any]:
    """Returns the change of a line or a letter: greys change places, colours become lighter."""
    *colour, alpha = to_rgba(get())
    if max(colour) - min(colour) > GREY:
        colour = [part + LIGHTER * (1 - part) for part in colour]
    else:
        colour = [BRIGHTEST - (BRIGHTEST - DARKEST) * part for part in colour]
    return [(get, change, (*colour, alpha))]


def _is_white(part: PolyCollection) -> bool:
    return bool((np.asarray(part.get_facecolor())[:, :3] > 0.95).all())
