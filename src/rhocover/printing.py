r"""Text on a terminal: what a file or an environment wrote is shown there, never obeyed.

A terminal takes some characters for orders: ESC begins one that moves the cursor or recolours the screen, a
carriage return writes over the line, others turn the direction of reading. `printable` shows them as Python's
repr does, `\x1b`. Streams may be absent (a daemon), closed, or of an encoding that lacks a letter: what was
computed is not lost for that.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., str])
LINES = "\n\t"  # what lays out a text of several lines


def printable(text: object, *, keep: str = "") -> str:
    r"""Returns the text with every character that is no letter, sign or blank as `\x1b`; `keep` stays.

    >>> printable("a\x1b[2Jb\u202e")
    'a\\x1b[2Jb\\u202e'
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(letter if _is_harmless(letter) or letter in keep else _escaped(letter) for letter in text)


def _is_harmless(letter: str) -> bool:
    return letter.isprintable() or unicodedata.category(letter) == "Zs"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def printed(method: Method) -> Method:
    """Returns a `__str__` whose text may hold foreign names: what a terminal would obey in it is shown."""

    @wraps(method)
    def text(self: Any) -> str:
        return printable(method(self), keep=LINES)

    return cast("Method", text)


def encodable(text: str) -> str:
    r"""Returns the text with halves of characters, as names of files may have them, as `\udcff`.

    UTF-8 has no bytes for them, and many readers of JSON refuse them.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def can_write(stream: Any) -> bool:
    """Whether a stream takes text: it is there, it is open, and it is a stream."""
    return hasattr(stream, "write") and hasattr(stream, "flush") and not getattr(stream, "closed", False)


def is_watched(stream: Any) -> bool:
    """Whether somebody sees a stream as it is written: a terminal, or a notebook's cell."""
    if not can_write(stream):
        return False
    try:
        is_terminal = bool(getattr(stream, "isatty", bool)())
    except (ValueError, OSError):
        return False
    return is_terminal or type(stream).__module__.startswith("ipykernel.")


def put(stream: Any, text: str) -> None:
    """Writes the text at once, `?` for letters that the encoding lacks; nowhere if the stream takes none."""
    if not can_write(stream):
        return
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
    stream.flush()


class ProgressLine:
    """A line on stderr that is written over, for a terminal or a notebook; silent where nobody looks."""

    def __init__(self) -> None:
        self._is_watched, self._width = is_watched(sys.stderr), 0

    def write(self, text: str) -> None:
        """Writes over the line before; spaces clear it, because notebooks know no escape codes."""
        if self._is_watched:
            with suppress(OSError, ValueError):  # the terminal is gone; what it told of is not
                put(sys.stderr, f"\r{text}{' ' * (self._width - len(text))}\r{text}")
            self._width = len(text)

    def close(self) -> None:
        """Clears the line."""
        if self._width:
            self.write("")
