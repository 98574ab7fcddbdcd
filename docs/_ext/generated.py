"""Parts of pages that are made when the site is built.

A line `<!-- generated: name -->` in a page is replaced by what the function of that name returns, as
Markdown. Outside of the site the line is a comment. What is generated cannot be out of date: the commands
come from the command line itself, the names from the package, the picture from plans, the figures from
measured results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commands_page import commands
from dataflow import dataflow
from headline import headline
from landing import landing
from names_page import names
from views_page import views

PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "dataflow": dataflow,
    "headline": headline,
    "landing": landing,
    "names": names,
    "views": views,
}
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def fill_in(_app: Any, _docname: str, source: list[str]) -> None:
    """Replaces the marks of one page; a name that there is no function for is an error."""
    source[0] = MARK.sub(lambda found: PARTS[found[1]](), source[0])


def always_read_again(_app: Any, env: Any, *_changes: set[str]) -> list[str]:
    """Returns the pages with generated parts: they may change although their own file does not."""
    pages = [name for name in env.found_docs if Path(env.doc2path(name)).suffix == ".md"]
    return [name for name in pages if MARK.search(Path(env.doc2path(name)).read_text("utf-8"))]


def setup(app: Any) -> dict[str, Any]:
    """Tells Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("env-get-outdated", always_read_again)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
