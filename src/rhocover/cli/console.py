"""The one place where text reaches the terminal: shown as it is, with no markup and no orders in it."""

from __future__ import annotations

import io
import sys
from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rhocover.printing import LINES, can_write, printable


def console(*, stderr: bool = False) -> Console:
    """Returns a console that takes words for words: `[b]` and `:smile:` are no orders."""
    stream = sys.stderr if stderr else sys.stdout
    file = None if can_write(stream) else io.StringIO()  # absent or closed: printed nowhere
    return Console(file=file, stderr=stderr, markup=False, emoji=False, highlight=False)


def shown(part: Any, *, keep: str = LINES) -> Any:
    """Returns a text, a table or a group of them with every text in it printable.

    A plain text may have several lines, which are ours. A title or a cell is one line: a name in it that has
    more could pretend to be another row.
    """
    if isinstance(part, str):
        return printable(part, keep=keep)
    if isinstance(part, Text):
        part.plain = printable(part.plain)
    elif isinstance(part, Group):
        return Group(*map(shown, part.renderables))
    elif isinstance(part, Padding):
        part.renderable = shown(part.renderable)
    elif isinstance(part, Table):
        _show_cells(part)
    return part


def _show_cells(table: Table) -> None:
    for column in table.columns:
        column.header = shown(column.header, keep="")
        column._cells[:] = [shown(cell, keep="") for cell in column._cells]
