r"""Formulas as MathML, which browsers show by themselves: no script, no font, no network.

Pages write `$...$` and `$$...$$`; GitHub shows the same. A command that the converter does not know would
appear as its name; `unknown` finds such names, and the build says where they are.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOG = logging.getLogger(__name__)
STYLED = re.compile(r'<(m[in]) mathvariant="(double-struck|script|bold)">(\w)</\1>')


def formula(latex: str, display: str) -> str:
    """Returns a formula as MathML; `display` is "inline" or "block"."""
    return STYLED.sub(
        lambda found: f"<{found[1]}>{letter(found[3], found[2])}</{found[1]}>",
        convert(latex, display=display),
    )


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
