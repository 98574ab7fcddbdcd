"""A card: the head of a report page and one picture, as a small piece of HTML that a notebook shows.

A card is a `Page` with one section. It shows the kind and the title, the verdict, the numbers as a table, and
the parts of the section. Its style is in `assets/card.css`: every rule is about `.rhocover-card`, so nothing
else in a notebook changes. Text has the colour of the notebook, by the variables of Jupyter's theme or by
inheritance, so it is read in light and dark themes; the colours of verdicts follow the theme or, outside of
Jupyter, the system. A picture keeps its white ground. It is a PNG, because a drawing would share the names of
its parts with every other one in the notebook, and because some sites that show notebooks remove drawings.

All text is escaped as on pages, and there is no script.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image

from rhocover.report.figures.drawing import SHOWN, drawn
from rhocover.report.pages import KeyNumber, Page, Part, Picture, Table, Verdict
from rhocover.report.pages.rendering import ASSETS, LEAST_SCALE, as_html, page_html, table_html
from rhocover.showing import Columns, View

STYLE = (ASSETS / "card.css").read_text("utf-8")
SHARPNESS = 144  # dots per inch that are drawn: half as many again as are shown
COLOURS = 256  # in a picture: no colour changes by more than 2 %, for less than half of the bytes


def make_view(
    pictures: Mapping[str, Callable[..., Any]],
    tables: Mapping[str, Callable[[Any], Columns]],
    page: Callable[[Any], Page],
    card: Callable[[Any], Page],
) -> View:
    """Returns the view of a class of results whose page and card are given as values."""
    return View(
        pictures, tables, lambda result: page_html(page(result)), lambda result: card_html(card(result))
    )


def card_html(page: Page) -> str:
    """Returns a card as one HTML element."""
    parts = [part for section in page.sections for part in section.parts]
    body = [
        f"<style>{STYLE}</style>",
        f'<p class="kind">{as_html(page.kind)}</p>',
        f'<p class="title">{as_html(page.title)}</p>',
        _verdict(page.verdict),
        _numbers(page.numbers),
        *map(_part, parts),
    ]
    return f'<div class="rhocover-card">{"".join(body)}</div>'


def _verdict(verdict: Verdict) -> str:
    word = f"<b>{as_html(verdict.word)}.</b> " if verdict.word else ""
    return f'<p class="verdict {verdict.tone}">{word}{as_html(verdict.text)}</p>'


def _numbers(numbers: tuple[KeyNumber, ...]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{as_html(number.name)}</th><td class="number">{as_html(number.value)}</td>'
        f'<td class="meaning">{as_html(number.meaning)}</td></tr>'
        for number in numbers
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""


def _part(part: Part) -> str:
    match part:
        case Table():
            return f'<div class="scroll">{table_html(part)}</div>'
        case Picture():
            return _picture(part)
        case str():
            return f"<p>{as_html(part)}</p>"
    raise TypeError(f"a card has no {type(part).__name__}")  # our own mistake, never a caller's


def _picture(picture: Picture) -> str:
    width, height = (SHOWN * side for side in picture.figure.get_size_inches())
    data = base64.b64encode(small_png(picture)).decode()
    return (
        f'<figure><div class="paper"><div style="width: {width:.0f}px; max-width: 100%; '
        f'min-width: {LEAST_SCALE * width:.0f}px"><img alt="{as_html(picture.alt)}" width="{width:.0f}" '
        f'height="{height:.0f}" src="data:image/png;base64,{data}"></div></div>'
        f"<figcaption>{as_html(picture.caption)}</figcaption></figure>"
    )


def small_png(picture: Picture) -> bytes:
    """Returns a picture as a PNG with few colours."""
    whole = drawn(picture.figure, "png", dpi=SHARPNESS)
    with Image.open(io.BytesIO(whole)) as image:
        few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "png", optimize=True)
    return min(buffer.getvalue(), whole, key=len)
