"""A page as one HTML file that needs nothing else: no network, no fonts, no scripts of others.

The file carries a content security policy that forbids every request, so that a browser keeps the promise
even where a text tried to break it. The only script opens folded parts before the page is printed; without
it the style sheet does the same. The same page gives the same bytes.

For the keyboard: a link that skips the contents, headings in order, and every part that may be wider than
the screen can be reached and scrolled. For paper: see `page_style`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

from rhocover._version import __version__
from rhocover.files import write_atomically
from rhocover.report.page import (
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
from rhocover.report.page_letters import as_html
from rhocover.report.page_pictures import picture_html
from rhocover.report.page_style import SCRIPT, STYLE

LONG = 9  # letters of a value that does not fit in large type
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
        f"<footer><p>Written by rhocover {as_html(__version__)}. This file is complete in itself: it can be "
        "read without a network, mailed and printed.</p></footer>",
        f"<script>{SCRIPT}</script>",
    ]
    return _document(f"{page.title} · {page.kind}", "\n".join(line for line in body if line))


def write_page(page: Page, path: Path | str, *, overwrite: bool = False) -> None:
    """Writes the page to a file, whole or not at all; an existing file is kept unless `overwrite`."""
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
    """Returns one part; `names` gives each what can be referred to a name of its own."""
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
    head = "".join(
        f'<th scope="col"{_kind(column, table)}>{as_html(text)}</th>'
        for column, text in enumerate(table.headings)
    )
    rows = "\n".join(f"<tr>{_row(row, table)}</tr>" for row in table.rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}"><table>'
        f'<caption id="{name}"><span>{as_html(table.caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
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
