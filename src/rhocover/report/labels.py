"""Names in pictures: matplotlib reads what stands between dollars as mathematics; a name is a name."""

from __future__ import annotations


def as_text(name: str) -> str:
    """Returns a name as matplotlib writes it letter by letter."""
    return name.replace("$", r"\$")
