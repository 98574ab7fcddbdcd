r"""Text on a terminal: control characters in texts from files and environments are shown, not executed.

A terminal interprets some characters as commands: ESC begins one that moves the cursor or changes colours, a
carriage return overwrites the line, others reverse the reading direction. `printable` shows them as Python's
repr does, `\x1b`. Streams may be absent (a daemon), closed, or of an encoding that lacks a character; this
never loses a result.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., str])
LINES = "\n\t"  # allowed in texts of several lines


def printable(text: object, *, keep: str = "") -> str:
    r"""Returns the text with every control character as `\x1b`; those in `keep` are not changed.

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
    """Decorates a `__str__` whose text may contain foreign names: control characters are shown."""

    @wraps(method)
    def text(self: Any) -> str:
        return printable(method(self), keep=LINES)

    return cast("Method", text)


def count_of(number: int, noun: str, form: str = "") -> str:
    """Returns a number with its noun, in the plural unless it is 1; `form` is the number's format.

    >>> count_of(1, "state"), count_of(2000, "step", ",")
    ('1 state', '2,000 steps')
    """
    return f"{number:{form}} {noun}{'' if number == 1 else 's'}"


def encodable(text: str) -> str:
    r"""Returns the text with lone surrogates, which names of files may contain, as `\udcff`.

    UTF-8 has no bytes for them, and many readers of JSON refuse them.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def can_write(stream: Any) -> bool:
    """Whether a stream accepts text: it exists, is open, and is a stream."""
    return hasattr(stream, "write") and hasattr(stream, "flush") and not getattr(stream, "closed", False)


def put(stream: Any, text: str) -> None:
    """Writes and flushes the text, with `?` for characters that the encoding lacks, if the stream is open."""
    if not can_write(stream):
        return
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
    stream.flush()
