"""Formulas are MathML that a browser shows by itself, and every command in them was understood."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from extensions import PAGES, extension, name_of

mathml = extension("mathml")


FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
WRITTEN = [path for path in PAGES if path.name not in ("benchmarks.md", "changelog.md", "mutants.md")]


def without_code(path: Path) -> str:
    """Returns a page without its blocks of code and its code in backticks."""
    return re.sub(r"^(```+).*?^\1\s*$|`[^`\n]+`", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def formulas(path: Path) -> list[str]:
    """Returns the formulas of a page: `$$...$$` and `$...$` outside of code."""
    return [block or line for block, line in FORMULA.findall(without_code(path))]


FORMULAS = {name_of(path): found for path in WRITTEN if (found := formulas(path))}


def test_the_pages_about_mathematics_have_formulas() -> None:
    assert {"limit.md", "theorems.md", "paper.md", "notation.md", "exploring.md"} <= set(FORMULAS)
    assert len(FORMULAS["limit.md"]) > 100


@pytest.mark.parametrize("page", FORMULAS)
@pytest.mark.parametrize("display", ["inline", "block"])
def test_every_command_of_every_formula_is_understood(page: str, display: str) -> None:
    shown = {formula: mathml.formula(formula, display) for formula in FORMULAS[page]}
    assert [formula for formula, text in shown.items() if mathml.unknown(text) or "\\" in text] == []
    assert all(f'display="{display}"' in text for text in shown.values())


SYMBOLS = re.compile(r"[\u0370-\u03ff\u2070-\u209f\u0302\u0304\u2200-\u220d\u2211\u221a\u2225\u27e8\u27e9]")


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_mathematics_is_typeset_and_not_spelled_in_unicode(path: Path) -> None:
    """No Greek letter, sub- or superscript, accent or operator stands in running text."""
    assert SYMBOLS.findall(FORMULA.sub("", without_code(path))) == []


def test_a_command_that_nobody_knows_is_noticed() -> None:
    assert mathml.unknown(mathml.formula(r"x + \notacommand", "inline")) == ["\\notacommand"]


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"\mathbb E", "\N{MATHEMATICAL DOUBLE-STRUCK CAPITAL E}"),
        (r"\mathbb P", "\N{DOUBLE-STRUCK CAPITAL P}"),
        (r"\mathcal F", "\N{SCRIPT CAPITAL F}"),
        (r"\mathbf 1", "\N{MATHEMATICAL BOLD DIGIT ONE}"),
        (r"\mathcal D", "\N{MATHEMATICAL SCRIPT CAPITAL D}"),
    ],
)
def test_a_styled_letter_is_the_character_that_unicode_has_for_it(latex: str, shown: str) -> None:
    """Browsers leave `mathvariant` aside: E would be shown as a plain italic E."""
    assert f">{shown}<" in mathml.formula(latex, "inline")
    assert "mathvariant" not in mathml.formula(latex, "inline")


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"U=-\infty", '<mo>=</mo><mo form="prefix">\u2212</mo><mi>\u221e</mi>'),
        ("a-b", "<mi>a</mi><mo>\u2212</mo><mi>b</mi>"),
        (r"\hat d", '<mo stretchy="false">\u02c6</mo>'),
        (r"\mu\log d", '<mspace width="0.167em" /><mi>log</mi><mspace width="0.167em" /><mi>d</mi>'),
        (r"\log(d)", '<mi>log</mi><mo stretchy="false">(</mo>'),
        (r"\max_i d", "<munder><mo>max</mo><mi>i</mi></munder>"),
    ],
)
def test_signs_functions_hats_and_limits_are_set_as_in_a_book(latex: str, shown: str) -> None:
    assert shown in mathml.formula(latex, "block")
