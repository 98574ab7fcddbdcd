"""Foreign words in a page: shown letter by letter, neither as tags nor as orders, and always UTF-8."""

from __future__ import annotations

from html import escape

from rhocover.printing import LINES, printable


def as_html(words: str) -> str:
    """Returns words as the text of an HTML file shows them."""
    return escape(printable(words, keep=LINES))
