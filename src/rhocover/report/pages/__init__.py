"""A report page as a value: its content and order, without its appearance.

A page answers one question for a reader who has not read the paper. It starts with the verdict in one or two
sentences and the few most important numbers, each with its meaning in plain words. Then come sections of
paragraphs, figures, tables, terms, code, and folds that open on demand. `page_html` turns the value into one
file. Every text is plain text: markup in it is shown literally.

The modules `plan`, `run`, `comparison` and `audit` build the pages of results. A new kind of page is a
function that returns a `Page`; nothing else has to change.

Functions named `*_words` format numbers for readers in the same way on all pages: a worst ratio of 2.21 is
"1/2.21 of its share (45%)", a gap of 3e-13 nats is "< 10⁻⁶". `GLOSSARY` explains each term in a sentence or
two.
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
from rhocover.printing import count_of

Tone = Literal["good", "fair", "poor", "plain"]
MOST_NUMBERS = 6  # more numbers belong in a table


@dataclass(frozen=True)
class Verdict:
    """The result in one or two sentences; `word` is its shortest form, shown in colour."""

    text: str
    word: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class KeyNumber:
    """A number in large type: `value` as text, its name, and its meaning in one line."""

    value: str
    name: str
    meaning: str


@dataclass(frozen=True)
class Share:
    """A table cell that shows a share of 1 as a bar and as text."""

    part: float
    text: str


Cell = str | Share


@dataclass(frozen=True)
class Table:
    """A caption, headings and rows; the first cell of a row is its name, the other columns hold numbers.

    `words` lists the columns, counted from 0, that hold text instead.
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
    """A figure with its caption and `alt`, the text alternative for readers who cannot see it."""

    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True)
class Code:
    """Lines to type or copy."""

    text: str


@dataclass(frozen=True)
class Terms:
    """Terms with their meanings, or settings with their values."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Fold:
    """Parts hidden behind a summary line; in print they are always shown."""

    summary: str
    parts: tuple[Part, ...]


Part = str | Table | Picture | Code | Terms | Fold


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and the parts below it; a string is a paragraph."""

    heading: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Page:
    """One report: `kind` is the kind of result, `title` says which one."""

    kind: str
    title: str
    verdict: Verdict
    numbers: tuple[KeyNumber, ...] = ()
    sections: tuple[Section, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.title.strip() or not self.verdict.text.strip():
            empty = "verdict" if self.title.strip() else "title"
            raise InvalidArgumentError.of(empty, "must not be empty")
        if len(self.numbers) > MOST_NUMBERS:
            raise InvalidArgumentError.of(
                "numbers", f"must have at most {MOST_NUMBERS} entries", f"{len(self.numbers)}"
            )

    def with_sections(self, *more: Section) -> Page:
        """Returns the page with more sections before its last two, the settings and the glossary."""
        head, tail = self.sections[:-2], self.sections[-2:]
        return replace(self, sections=(*head, *more, *tail))


def section(heading: str, *parts: Part | None) -> Section:
    """Returns a section of the given parts, without None and ""."""
    return Section(heading, tuple(part for part in parts if part is not None and part != ""))


def sections(*found: Section | None) -> tuple[Section, ...]:
    """Returns the sections that are not None and not empty."""
    return tuple(part for part in found if part is not None and part.parts)


def terms(entries: Sequence[tuple[str, str]]) -> Terms:
    """Returns the entries whose text is not empty."""
    return Terms(tuple((name, text) for name, text in entries if text))


# Numbers and terms in plain words.

TINY = 1e-6  # nats; a smaller gap has no practical effect
AT_ZERO = "At rho = 0 the divergence is KL(visits || weights)."
GLOSSARY = {
    "pair": "A state together with one of the actions possible in it. Visits are counted per pair.",
    "mu": "The weights: the target share of the visits for each pair. Equal weights ask for equal visits.",
    "rho": "How much the least covered pair counts, from 0 to infinity. Small values match the weights on "
    "average; at infinity only the least covered pair counts.",
    "occupancy": "Each pair's share of all visits; the shares add up to 1.",
    "divergence": "The distance from the weights to the occupancy, in nats: 0 is a perfect match; 0.1 means "
    f"that pairs fall short by about ten percent, averaged in the sense of rho. {AT_ZERO}",
    "worst ratio": "The factor by which the least covered pair falls short: at 2 it has half of its target "
    "share, and no pair has less.",
    "certified gap": "A proven bound on how far the divergence is from the best that any policy reaches: no "
    "policy is below the divergence by more than this.",
    "regret": "What better actions could have saved under the same random outcomes; 0 means no loss.",
    "plan": "The policy whose long-run visits are the best possible coverage, computed from the model.",
    "seed": "The number from which all random numbers are generated: the same seed repeats the run exactly.",
    "limit": "A lower bound for every explorer on average, because the environment itself is random.",
}


def ratio_words(ratio: float) -> str:
    """Returns a factor: 2.21, 14.8, 1,785, 3.1e+08, ∞, or "-" for nan."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "∞"
    if ratio < 100:
        return f"{ratio:.3g}" if ratio >= 10 else f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def share_words(share: float) -> str:
    """Returns a share of 1 in percent: 45%, 0.3%, < 0.01%."""
    if math.isnan(share):
        return "-"
    percent = 100 * share
    if percent >= 9.95:
        return f"{percent:,.0f}%"
    return f"{percent:.2g}%" if percent >= 0.01 or percent == 0 else "< 0.01%"


def small_words(value: float) -> str:
    """Returns a small number without exponent: 0.0031, 0, or "< 10⁻⁶" below a millionth."""
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
    """Returns "45% of its share", or "no visit at all"."""
    return "no visit at all" if math.isinf(ratio) else f"{share_words(1 / ratio)} of its share"


def weights_words(weights: FloatArray, unit: str = "pair") -> str:
    """Returns whether all weights are equal, and otherwise the ratio of the largest to the smallest."""
    positive = weights[weights > 0]
    zeros = int(weights.size - positive.size)
    left_out = f"; {count_of(zeros, unit, ',')} with weight 0" if zeros else ""
    if np.ptp(positive) <= 1e-12 * positive.max():
        return f"equal for {count_of(positive.size, unit, ',')}{left_out}"
    spread = ratio_words(float(positive.max() / positive.min()))
    return f"{count_of(positive.size, unit, ',')}, the largest weight {spread} times the smallest{left_out}"


def model_entries(mdp: MDP) -> list[tuple[str, str]]:
    """Returns the name and the size of a model, as entries of the settings."""
    counts = {"state": mdp.num_states, "action": mdp.num_actions, "pair": mdp.num_pairs}
    size = ", ".join(count_of(number, noun, ",") for noun, number in counts.items())
    return [("model", f"{mdp.name or 'without a name'}: {size}"), ("omitted from the model", mdp.note)]


def versions() -> str:
    """Returns the versions that computed a result; the same text on the same installation."""
    parts = {"Python": platform.python_version(), "NumPy": version("numpy"), "SciPy": version("scipy")}
    return ", ".join([f"rhocover {__version__}", *(f"{name} {number}" for name, number in parts.items())])


def settings_section(
    entries: Sequence[tuple[str, str]], command: str = "", repeat: str = "To repeat this, run:"
) -> Section:
    """Returns the settings, the versions and, if given, the command that repeats the result."""
    found = terms([*entries, ("computed with", versions())])
    return section("Settings", found, repeat if command else "", Code(command) if command else None)


def glossary_section(*names: str) -> Section:
    """Returns the terms that a page uses, with their meanings."""
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
