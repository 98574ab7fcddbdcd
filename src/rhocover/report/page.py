"""A report page as a value: what it says, in which order, and nothing of how it looks.

A page answers one question for a person who has not read the paper. On top stands the verdict in a sentence
or two, below it the few numbers that count, each with its meaning in plain words; then sections of
paragraphs, pictures, tables, terms, code, and folds that open on demand. `page_html` turns the value into
one file. Every text is plain text: what looks like markup in it is shown, not obeyed.

Builders make pages of results: `page_plans`, `page_run`, `page_comparison`, `page_audit`. A new kind of
page is a function that returns a `Page`; nothing else has to know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from matplotlib.figure import Figure

from rhocover.errors import InvalidArgumentError

Tone = Literal["good", "fair", "poor", "plain"]
MOST_NUMBERS = 6  # more than this are a table


@dataclass(frozen=True)
class Verdict:
    """What came out, in a sentence or two; `word` is the shortest form of it, shown beside its colour."""

    text: str
    word: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class KeyNumber:
    """A number in large type: `value` as it is written, its name, and what it means in one line."""

    value: str
    name: str
    meaning: str


@dataclass(frozen=True)
class Share:
    """A cell of a table that shows a part of 1 as a bar beside its text."""

    part: float
    text: str


Cell = str | Share


@dataclass(frozen=True)
class Table:
    """A caption, headings, and rows; the first cell of a row names it, the other columns hold numbers.

    `words` are the columns, counted from 0, that hold words instead.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.headings)]
        if wrong:
            raise InvalidArgumentError(
                f"`rows` must have {len(self.headings)} cells like `headings`, got {wrong[0]}."
            )


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its caption, and `alt`: what it shows, for those who do not see it."""

    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True)
class Code:
    """Lines to be typed or copied."""

    text: str


@dataclass(frozen=True)
class Terms:
    """Words and what they mean, or settings and their values."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Fold:
    """Parts behind a line that opens them; on paper they are open."""

    summary: str
    parts: tuple[Part, ...]


Part = str | Table | Picture | Code | Terms | Fold


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and what stands below it; a text is a paragraph."""

    heading: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """One report: `kind` is what sort of result it is about, `title` which one."""

    kind: str
    title: str
    verdict: Verdict
    numbers: tuple[KeyNumber, ...] = ()
    sections: tuple[Section, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.verdict.text.strip():
            raise InvalidArgumentError("a page needs a `title` and a `verdict` that are not empty.")
        if len(self.numbers) > MOST_NUMBERS:
            raise InvalidArgumentError(f"`numbers` must be {MOST_NUMBERS} at most, got {len(self.numbers)}.")

    def with_sections(self, *more: Section) -> Page:
        """Returns the page with sections put before its last two, the settings and the glossary."""
        head, tail = self.sections[:-2], self.sections[-2:]
        return replace(self, sections=(*head, *more, *tail))


def section(heading: str, *parts: Part | None) -> Section:
    """Returns a section of the parts that are there: None and "" are left out."""
    return Section(heading, tuple(part for part in parts if part is not None and part != ""))


def sections(*found: Section | None) -> tuple[Section, ...]:
    """Returns the sections that are there and have something to say."""
    return tuple(part for part in found if part is not None and part.parts)


def terms(entries: Sequence[tuple[str, str]]) -> Terms:
    """Returns the entries whose text is not empty."""
    return Terms(tuple((name, text) for name, text in entries if text))
