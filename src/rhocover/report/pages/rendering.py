"""Renders a page as one self-contained HTML file: no network, no external fonts or scripts.

The file carries a content security policy that forbids every request, so that a browser makes none even if a
text tries to cause one. The only script opens folded parts before the page is printed; without it, the style
sheet does the same. The same page gives the same bytes.

Keyboard: there is a link that skips the contents, headings are in order, and every part that may be wider
than the screen can be reached and scrolled.

Figures are SVG inside the page, or PNG if the SVG would be too long. All SVG drawings in one page share one
namespace, and matplotlib uses the same names in each of them. So every name in a drawing is replaced, where
it is defined and where it is used, by one that begins with the name of the figure. Comments, metadata and the
drawing's style sheet, which would apply to the whole page, are removed. Text is drawn as outlines, so that it
looks the same on every machine; the alternative text says what it says.

The style is in `assets/page.css`, the script in `assets/page.js`. Colours are variables, with one set each
for light screens, dark screens and print; every combination of text and background that the page uses has a
contrast of at least 4.5 to 1. Figures keep a white background on dark screens. In print, everything is black
on white, folded parts are open, and no figure or row is split between sheets.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from matplotlib.figure import Figure

from rhocover._version import __version__
from rhocover.files import write_atomically
from rhocover.printing import LINES, printable
from rhocover.report.figures.drawing import drawn
from rhocover.report.pages import (
    Cell,
    Code,
    Fold,
    KeyNumber,
    Page,
    Part,
    Picture,
    Section,
    Table,
    Terms,
    Verdict,
)

# Text of any origin is shown literally: no tags, no control characters, always valid UTF-8.


def as_html(words: str) -> str:
    """Returns a text escaped for HTML."""
    return escape(printable(words, keep=LINES))


# Figures inside a page: SVG, or PNG if the SVG would be too long.

SVG, LINK = "http://www.w3.org/2000/svg", "{http://www.w3.org/1999/xlink}href"
LONGEST = 400_000  # characters of an SVG drawing; beyond that, a PNG is shorter
DPI = 150
PIXELS_PER_INCH = 96  # of a browser
OUTLINES: dict[Any, Any] = {"svg.fonttype": "path"}
LEAST_SCALE = 0.62  # of the natural size: text of 8 points is not readable below that


def picture_html(picture: Picture, name: str) -> str:
    """Returns the figure with its caption; `name` is its unique name in the page."""
    width, height = picture.figure.get_size_inches()
    drawing = svg_html(picture.figure, name, picture.alt)
    if len(drawing) > LONGEST:
        drawing = _pixels(picture, width / height)
    full = PIXELS_PER_INCH * width
    style = f"min-width: {LEAST_SCALE * full:.0f}px; max-width: {full:.0f}px"
    return (
        f'<figure><div class="scroll paper" role="region" tabindex="0" aria-labelledby="{name}-caption">'
        f'<div class="drawing" style="{style}">{drawing}</div></div>'
        f'<figcaption id="{name}-caption">{as_html(picture.caption)}</figcaption></figure>'
    )


def svg_html(figure: Figure, name: str, alt: str) -> str:
    """Returns the figure as an SVG element in which every name begins with `name`."""
    root = ElementTree.fromstring(_drawn(figure, "svg"))
    for child in list(root):
        if child.tag == f"{{{SVG}}}metadata":
            root.remove(child)
    _drop_style(root)
    _rename(root, name)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{SVG}}}")
        if "d" in element.attrib:
            element.attrib["d"] = " ".join(element.attrib["d"].split())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-alt"}
    described = ElementTree.Element("title", {"id": f"{name}-alt"})
    described.text = printable(alt)
    root.insert(0, described)
    _trim(root)
    return ElementTree.tostring(root, encoding="unicode", method="xml")


def _pixels(picture: Picture, shape: float) -> str:
    data = base64.b64encode(_drawn(picture.figure, "png")).decode()
    return (
        f'<img alt="{as_html(picture.alt)}" style="aspect-ratio: {shape:.4f}" '
        f'src="data:image/png;base64,{data}">'
    )


def _drawn(figure: Figure, kind: str) -> bytes:
    undated: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    return drawn(figure, kind, style=OUTLINES, dpi=DPI, **undated)


def _drop_style(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}style":
                parent.remove(child)


def _rename(root: ElementTree.Element, name: str) -> None:
    """Renames all elements that are referred to, and removes the names of the others."""
    used = {old for element in root.iter() for key, value in element.items() for old in _named(key, value)}
    new = {old: f"{name}-{number}" for number, old in enumerate(sorted(used))}
    for element in root.iter():
        own = element.attrib.pop("id", None)
        attributes = {key: _renamed(value, new) for key, value in element.items() if key != LINK}
        if LINK in element.attrib:
            target = element.attrib[LINK]
            attributes["href"] = f"#{new[target[1:]]}" if target.startswith("#") else target
        element.attrib = attributes | ({"id": new[own]} if own in new else {})


def _named(key: str, value: str) -> list[str]:
    """Returns the names that an attribute refers to: `#name` in a link, `url(#name)` elsewhere."""
    if key == LINK:
        return [value[1:]] if value.startswith("#") else []
    return re.findall(r"url\(#([^)]+)\)", value)


def _renamed(value: str, new: dict[str, str]) -> str:
    return re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{new[found[1]]})", value)


def _trim(root: ElementTree.Element) -> None:
    """Removes the white space between elements, which only serves as indentation."""
    for element in root.iter():
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None


# Style and script.

ASSETS = files("rhocover.report") / "assets"
STYLE = (ASSETS / "page.css").read_text("utf-8")
SCRIPT = (ASSETS / "page.js").read_text("utf-8").strip()


# The page as one HTML file.

LONG = 9  # characters of a value that does not fit in large type
DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{DIGEST}'; "
    "base-uri 'none'; form-action 'none'"
)


def page_html(page: Page) -> str:
    """Returns the page as the text of one HTML file."""
    names = (f"part-{number}" for number in range(1, 10**9))
    headings = [(f"section-{number}", section) for number, section in enumerate(page.sections, start=1)]
    body = [
        '<a class="skip" href="#verdict">Skip to the verdict</a>',
        "<header>",
        f'<p class="kind">{as_html(page.kind)}</p>',
        f"<h1>{as_html(page.title)}</h1>",
        _contents(headings),
        "</header>",
        "<main>",
        _verdict(page.verdict),
        _numbers(page.numbers),
        *(_section(anchor, section, names) for anchor, section in headings),
        "</main>",
        f"<footer><p>Written by rhocover {as_html(__version__)}. This file is self-contained: it can be read "
        "without a network, mailed and printed.</p></footer>",
        f"<script>{SCRIPT}</script>",
    ]
    return _document(f"{page.title} · {page.kind}", "\n".join(line for line in body if line))


def write_page(page: Page, path: Path | str, *, overwrite: bool = False) -> None:
    """Writes the page to a file, completely or not at all; an existing file is kept unless `overwrite`."""
    write_atomically(Path(path), page_html(page).encode(), overwrite=overwrite)


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{as_html(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _contents(headings: list[tuple[str, Section]]) -> str:
    if not headings:
        return ""
    links = (f'<li><a href="#{anchor}">{as_html(part.heading)}</a></li>' for anchor, part in headings)
    return f'<nav aria-label="On this page"><ul>{"".join(links)}</ul></nav>'


def _verdict(verdict: Verdict) -> str:
    word = f'<p class="word">{as_html(verdict.word)}</p>' if verdict.word else ""
    return (
        f'<section id="verdict" class="verdict {verdict.tone}" tabindex="-1" aria-labelledby="verdict-name">'
        f'<h2 id="verdict-name" class="unseen">Verdict</h2>{word}<p>{as_html(verdict.text)}</p></section>'
    )


def _numbers(numbers: tuple[KeyNumber, ...]) -> str:
    if not numbers:
        return ""
    cards = (
        f'<div><dt>{as_html(number.name)}</dt><dd class="{_size(number)}">{as_html(number.value)}</dd>'
        f"<dd>{as_html(number.meaning)}</dd></div>"
        for number in numbers
    )
    return f'<dl class="numbers">{"".join(cards)}</dl>'


def _size(number: KeyNumber) -> str:
    return "value" if len(number.value) < LONG else "value long"


def _section(anchor: str, section: Section, names: Iterator[str]) -> str:
    parts = "\n".join(_part(part, names) for part in section.parts)
    return (
        f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{as_html(section.heading)}</h2>\n'
        f"{parts}\n</section>"
    )


def _part(part: Part, names: Iterator[str]) -> str:
    """Returns one part; `names` yields a unique name for each part that is referred to."""
    match part:
        case Table():
            return _table(part, next(names))
        case Picture():
            return picture_html(part, next(names))
        case Terms():
            return _terms(part)
        case Code():
            return f'<pre tabindex="0"><code>{as_html(part.text)}</code></pre>'
        case Fold():
            inner = "\n".join(_part(each, names) for each in part.parts)
            return f"<details><summary>{as_html(part.summary)}</summary>\n{inner}\n</details>"
        case str():
            return f"<p>{as_html(part)}</p>"


def _table(table: Table, name: str) -> str:
    inner = table_html(table, name)
    return f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">{inner}</div>'


def table_html(table: Table, name: str = "") -> str:
    """Returns a table; `name` is the unique name of its caption, if something refers to it."""
    head = "".join(
        f'<th scope="col"{_kind(column, table)}>{as_html(text)}</th>'
        for column, text in enumerate(table.headings)
    )
    rows = "\n".join(f"<tr>{_row(row, table)}</tr>" for row in table.rows)
    own = f' id="{name}"' if name else ""
    return (
        f"<table><caption{own}><span>{as_html(table.caption)}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    )


def _row(row: tuple[Cell, ...], table: Table) -> str:
    first, *others = (_cell(cell) for cell in row)
    cells = (f"<td{_kind(column, table)}>{cell}</td>" for column, cell in enumerate(others, start=1))
    return f'<th scope="row">{first}</th>{"".join(cells)}'


def _kind(column: int, table: Table) -> str:
    return "" if column == 0 or column in table.words else ' class="number"'


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return as_html(cell)
    width = 100 * min(max(cell.part, 0.0), 1.0)
    return (
        f'<span class="share" aria-hidden="true"><span style="width: {width:.1f}%"></span></span>'
        f"<span>{as_html(cell.text)}</span>"
    )


def _terms(part: Terms) -> str:
    entries = (f"<div><dt>{as_html(name)}</dt><dd>{as_html(text)}</dd></div>" for name, text in part.entries)
    return f'<dl class="terms">{"".join(entries)}</dl>'
