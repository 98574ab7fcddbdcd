"""Drawing, one picture at a time.

Matplotlib's settings belong to the whole process: two threads that change them for a while and put them back
leave each other's behind. So everything here that draws holds one lock, and the user's settings come back.

A letter that the font lacks would be drawn as an empty box, with a warning for each; here the box is drawn.
Silencing the warning is no way: filters of warnings, too, belong to the whole process.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Text

from rhocover.printing import LINES, printable

FONT = "DejaVu Sans"  # ships with matplotlib: the same picture on every machine
BOX = "□"  # what the font draws for a letter that it lacks
STYLE: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "text.usetex": False,
    "svg.hashsalt": "rhocover",  # identifiers in SVG files are otherwise drawn at random
}
_one = threading.RLock()


@contextmanager
def drawing(style: dict[Any, Any] | None = None) -> Iterator[None]:
    """Holds the lock and the settings of our pictures, `style` on top; the user's come back afterwards."""
    with _one, matplotlib.rc_context(STYLE | (style or {})):
        yield


def drawn(figure: Figure, kind: str, *, style: dict[Any, Any] | None = None, **how: Any) -> bytes:
    """Returns a figure as the bytes of a file of that kind."""
    buffer = io.BytesIO()
    with drawing(style), _known_letters(figure):
        figure.savefig(buffer, format=kind, facecolor="white", **how)
    return buffer.getvalue()


def as_text(name: str) -> str:
    """Returns a name as matplotlib writes it letter by letter: what stands between dollars is mathematics."""
    return known(name).replace("$", r"\$")


def known(words: str) -> str:
    """Returns words with a box for each letter that the font lacks, and nothing that is no letter."""
    shown = printable(words, keep=LINES)
    return shown if shown.isascii() else "".join(letter if _is_known(letter) else BOX for letter in shown)


def _is_known(letter: str) -> bool:
    return letter in LINES or _font().get_char_index(ord(letter)) != 0


@cache
def _font() -> Any:
    return font_manager.get_font(font_manager.findfont(FONT))


@contextmanager
def _known_letters(figure: Figure) -> Iterator[None]:
    """Lends a figure texts that the font has all letters of."""
    texts = [part for part in figure.findobj(Text) if isinstance(part, Text)]
    before = [(text, text.get_text()) for text in texts if known(text.get_text()) != text.get_text()]
    for text, words in before:
        text.set_text(known(words))
    try:
        yield
    finally:
        for text, words in before:
            text.set_text(words)
