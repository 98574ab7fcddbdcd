"""A report page as a value: what it says, in which order, and nothing of how it looks.

A page answers one question for a person who has not read the paper. On top stands the verdict in a sentence
or two, below it the few numbers that count, each with its meaning in plain words; then sections of
paragraphs, pictures, tables, terms, code, and folds that open on demand. `page_html` turns the value into
one file. Every text is plain text: what looks like markup in it is shown, not obeyed.

Builders make pages of results: `plan`, `run`, `comparison`, `audit`. A new kind of
page is a function that returns a `Page`; nothing else has to know of it.

Numbers in words that need no explanation, and the few terms that do.

A worst ratio of 2.21 is "1/2.21 of its share (45%)"; a gap of 3e-13 nats is "< 10⁻⁶"; the terms are one
sentence each. Pages say what they mean with these, so that all of them say it alike.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from rhocover._version import __version__
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief.certificates import Certificate
from rhocover.mdp import MDP

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
            raise InvalidArgumentError.of(
                "rows", f"must have {len(self.headings)} cells like `headings`", f"{wrong[0]}"
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
            raise InvalidArgumentError.of(
                "numbers", f"must be {MOST_NUMBERS} at most", f"{len(self.numbers)}"
            )

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


# Numbers in words that need no explanation, and the few terms that do.

TINY = 1e-6  # nats; a smaller gap is nothing that anyone could notice
GLOSSARY = {
    "pair": "A state together with one of the actions that are possible in it: what is visited, and counted.",
    "mu": "The weights: which share of the visits each pair was to get. Equal weights ask for equal visits.",
    "rho": "How much the worst-served pair counts, from 0 to infinity. Small values match the weights on "
    "average; at infinity only the pair that falls shortest counts.",
    "occupancy": "The share of all visits that each pair gets; the shares add up to 1.",
    "divergence": "The distance from the weights to the occupancy, in nats: 0 is a perfect match; 0.1 means "
    "that pairs fall short by about ten percent, averaged in the sense of rho.",
    "worst ratio": "The factor by which the worst-served pair falls short: at 2 it had half of its share, "
    "and no pair had less.",
    "certified gap": "A proof of how far the divergence can be from the best that any policy reaches: no "
    "policy is below the divergence by more than this.",
    "regret": "What better acting could have saved with the same luck: 0 means that nothing was wasted.",
    "plan": "The policy whose long-run visits are the best coverage possible, computed from the model.",
    "seed": "The number that all randomness is drawn from: the same seed gives the same run again.",
    "limit": "What no explorer stays below on average, because the world itself is random.",
}


def ratio_words(ratio: float) -> str:
    """Returns a factor: 2.21, 14.8, 1,785, 3.1e+08, ∞, or "-" where there is none."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "∞"
    if ratio < 100:
        return f"{ratio:.3g}" if ratio >= 10 else f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def share_words(share: float) -> str:
    """Returns a part of 1 in percent: 45%, 0.3%, < 0.01%."""
    if math.isnan(share):
        return "-"
    percent = 100 * share
    if percent >= 9.95:
        return f"{percent:,.0f}%"
    return f"{percent:.2g}%" if percent >= 0.01 or percent == 0 else "< 0.01%"


def small_words(value: float) -> str:
    """Returns a small number without exponents: 0.0031, 0; below a millionth it says so."""
    if math.isnan(value):
        return "-"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if 0 < abs(value) < TINY:
        return "< 10⁻⁶" if value > 0 else "> -10⁻⁶"
    digits = 3 if abs(value) >= 0.1 else 2
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-")


def certified_words(certificate: Certificate) -> str:
    """Returns the certified gap, or that nothing is proved yet."""
    return "nothing proved yet" if certificate.proves_nothing else small_words(certificate.gap)


def order_words(rho: float) -> str:
    """Returns rho as it is written: 2, 0.5, ∞."""
    return "∞" if math.isinf(rho) else f"{rho:g}"


def fraction_words(ratio: float) -> str:
    """Returns what a pair got: "45% of its share", or that it got nothing."""
    return "no visit at all" if math.isinf(ratio) else f"{share_words(1 / ratio)} of its share"


def weights_words(weights: FloatArray) -> str:
    """Returns whether all weights are equal, and how far apart they are otherwise."""
    positive = weights[weights > 0]
    zeros = int(weights.size - positive.size)
    left_out = f"; {zeros:,} without a weight" if zeros else ""
    if np.ptp(positive) <= 1e-12 * positive.max():
        return f"equal for {positive.size:,} pairs{left_out}"
    spread = ratio_words(float(positive.max() / positive.min()))
    return f"given: {positive.size:,} pairs, the largest {spread} times the smallest{left_out}"


def model_entries(mdp: MDP) -> list[tuple[str, str]]:
    """Returns what a model is called and how large it is, as entries of the settings."""
    size = f"{mdp.num_states:,} states, {mdp.num_actions:,} actions, {mdp.num_pairs:,} pairs"
    return [("model", f"{mdp.name or 'without a name'}: {size}"), ("left out of it", mdp.note)]


def versions() -> str:
    """Returns what computed a result; the same words on the same installation."""
    parts = {"Python": platform.python_version(), "NumPy": version("numpy"), "SciPy": version("scipy")}
    return ", ".join([f"rhocover {__version__}", *(f"{name} {number}" for name, number in parts.items())])


def settings_section(
    entries: Sequence[tuple[str, str]], command: str = "", repeat: str = "Run this to get it again:"
) -> Section:
    """Returns the settings, the versions, and the command that gives the result again, if there is one."""
    found = terms([*entries, ("computed with", versions())])
    return section("Settings", found, repeat if command else "", Code(command) if command else None)


def glossary_section(*names: str) -> Section:
    """Returns the terms that a page uses, in one sentence each."""
    return section("What the words mean", Terms(tuple((name, GLOSSARY[name]) for name in names)))


def plain_settings(document: Any) -> str:
    """Returns settings as `name = value`, nested ones in brackets; "" if there are none."""
    if isinstance(document, dict):
        return ", ".join(f"{key} = {_value(value)}" for key, value in document.items() if value is not None)
    return "" if document is None else _value(document)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"({plain_settings(value)})"
    if isinstance(value, list | tuple):
        return " ".join(_value(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
