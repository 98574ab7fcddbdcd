r"""Formulas as MathML, which browsers show by themselves: no script, no network.

Pages write `$...$` and `$$...$$`; GitHub shows the same. A command that the converter does not know would
appear as its name; `unknown` finds such names, and the build says where they are.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOG = logging.getLogger(__name__)
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
LIMITS = ("max", "min", "argmax", "argmin", "lim\u2006inf")  # a displayed formula has their subscript below
FUNCTIONS = ("log", "exp")  # apart from an argument that has no brackets
BEFORE_SIGN = tuple("=<>([{,:\u2264\u2265\u2208")  # after these a minus is a sign, not a difference
SPACE = f"{{{NAMESPACE}}}mspace"
HAT = "\u02c6"  # fonts place this one closer to its letter than "^"
STYLED = re.compile(r'<(m[in]) mathvariant="(double-struck|script|bold)">(\w)</\1>')


def formula(latex: str, display: str) -> str:
    """Returns a formula as MathML; `display` is "inline" or "block"."""
    plain = STYLED.sub(
        lambda found: f"<{found[1]}>{letter(found[3], found[2])}</{found[1]}>",
        convert(latex, display=display),
    )
    root = ElementTree.fromstring(plain)
    for element in list(root.iter()):
        _space_well(element, is_block=display == "block")
    ElementTree.register_namespace("", NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _space_well(element: ElementTree.Element, *, is_block: bool) -> None:
    """Corrects what the converter does not care about: signs, infinity, hats, limits, spaces."""
    children = list(element)
    for before, child in zip([None, *children], children, strict=False):
        if child.text == "\u2212" and (before is None or before.text in BEFORE_SIGN):
            child.set("form", "prefix")
        if child.text == "\u221e":
            child.tag = f"{{{NAMESPACE}}}mi"
        if before is not None and _is_function(before, child):
            element.insert(list(element).index(child), ElementTree.Element(SPACE, width="0.167em"))
    if _kind(element) == "msub" and is_block and children[0].text in LIMITS:
        element.tag = f"{{{NAMESPACE}}}munder"
    if _kind(element) == "mover" and children[1].text == "^":
        children[1].text = HAT
        children[1].set("stretchy", "false")


def _is_function(before: ElementTree.Element, after: ElementTree.Element) -> bool:
    """Whether one of two neighbours is a function such as log, and the other neither bracket nor operator."""
    names = [part.text for part in (before, after)]
    return any(name in FUNCTIONS for name in names) and "mo" not in (_kind(before), _kind(after))


def _kind(element: ElementTree.Element) -> str:
    return element.tag.removeprefix(f"{{{NAMESPACE}}}")


def letter(plain: str, style: str) -> str:
    """Returns a letter or digit in a style, as the one character that Unicode has for it.

    Browsers leave `mathvariant` aside. Some letters had their character before the others and go by a
    shorter name.
    """
    name = unicodedata.name(plain).replace("LATIN ", "").replace(" LETTER", "")
    for start in ("MATHEMATICAL ", ""):
        try:
            return unicodedata.lookup(f"{start}{style.upper()} {name}")
        except KeyError:
            continue
    return plain


def unknown(mathml: str) -> list[str]:
    """Returns the commands that were left as they are."""
    return re.findall(r">(\\[A-Za-z]+)<", mathml)


def show(translator: Any, node: Any, display: str) -> None:
    """Writes a formula into a page; warns of what was not understood."""
    shown = formula(node.astext(), display)
    if unknown(shown):
        LOG.warning("not known in a formula: %s", ", ".join(unknown(shown)), location=node)
    translator.body.append(shown if display == "inline" else f'<div class="formula">{shown}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer(
        "mathml",
        (lambda translator, node: show(translator, node, "inline"), None),
        (lambda translator, node: show(translator, node, "block"), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
