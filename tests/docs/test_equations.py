"""Equations of docstrings become LaTeX; what is no equation stays as it is."""

from __future__ import annotations

import re

import pytest
from extensions import ROOT, extension

equations, mathml = extension("equations"), extension("mathml")


@pytest.mark.parametrize(
    ("written", "latex"),
    [
        ("d = mubar c^-kappa + x", r"d = \bar{\mu } c^{-\kappa } + x"),
        ("U_rho(d*) >= 0", r"U_{\rho }({d^{\star}}) \ge  0"),
        ("H = d*^(rho+1)", r"H = (d^{\star})^{\rho +1}"),
        ("<g, d> = k0'nu", r"\langle g, d\rangle  = {k_{0}}^\top \nu "),
        ("P(n < m) = 1", "P(n < m) = 1"),
        ("P_hat(s' | s, a) = 1", r"\hat{P}(s' \mid  s, a) = 1"),
        ("a_1 = sqrt(2 B / eta)", r"a_{1} = \sqrt{2 B / \eta }"),
        ("E_alpha_j(k) = p_j^k_j", r"E_{\alpha _{j}}(k) = p_{j}^{k_{j}}"),
        ("a = 1,   b = 2 for every pair", r"a = 1,\qquad b = 2\ \text{for}\ \text{every}\ \text{pair}"),
        ("B    = lower_bound_steps", r"B =\ \text{lower_bound_steps}"),
    ],
)
def test_an_equation_is_latex(written: str, latex: str) -> None:
    assert equations.equation([f"    {written}"]) == [latex]


@pytest.mark.parametrize(
    "block",
    [
        "    run.safetensors   what was asked for",
        "    world, explorer = generative_world(mdp), GenerativeSampling()",
        "    x = 1 if this is wanted and was never visited, else it is something else",
        "    a \u2297 b = c",
        "    no relation",
    ],
)
def test_what_is_no_equation_stays_as_it_is(block: str) -> None:
    assert equations.equation(block.split("\n")) is None


def test_every_equation_of_the_library_is_understood() -> None:
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for block in re.findall(r"(?:^    \S.*\n)+", docstring_of(path.read_text("utf-8")), re.MULTILINE):
            found += equations.equation(block.splitlines()) or []
    assert len(found) > 40
    shown = {line: mathml.formula(line, "block") for line in found}
    assert [line for line, text in shown.items() if "\\" in text] == []


def docstring_of(source: str) -> str:
    """Returns the chapter at the top of a module."""
    chapter = re.match(r'r?"""(.*?)"""', source, re.DOTALL)
    return chapter[1] if chapter else ""
