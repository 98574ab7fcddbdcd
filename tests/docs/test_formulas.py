"""Formulas are MathML that a browser shows by itself, and every command in them was understood."""

from __future__ import annotations

import re

import pytest
from extensions import DOCS, extension

mathml = extension("mathml")
PAGE = (DOCS / "limit.md").read_text("utf-8")
FORMULAS = re.findall(r"\$\$(.+?)\$\$", PAGE, re.DOTALL) + re.findall(
    r"(?<!\$)\$([^$]+)\$(?!\$)", re.sub(r"\$\$.+?\$\$", "", PAGE, flags=re.DOTALL)
)


def test_the_page_of_the_limit_has_formulas() -> None:
    assert len(FORMULAS) > 100


@pytest.mark.parametrize("display", ["inline", "block"])
def test_every_command_of_every_formula_is_understood(display: str) -> None:
    shown = {formula: mathml.formula(formula, display) for formula in FORMULAS}
    assert [formula for formula, text in shown.items() if mathml.unknown(text) or "\\" in text] == []
    assert all(f'display="{display}"' in text for text in shown.values())


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
