"""`--report FILE.html`: one page for people about what a command found, offered alike by all of them.

The file is checked before anything is computed and written when everything is. An existing one is kept
unless `--force` is given. The page shows the command without where its results went, so that the same
question gives the same bytes wherever they are written.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from rhocover.cli.options import RESULT
from rhocover.cli.tables import say
from rhocover.errors import InvalidArgumentError
from rhocover.locks import Location, locate
from rhocover.temporary import is_called, remove_left

if TYPE_CHECKING:
    from rhocover.report.page import Page

ENDINGS = (".html", ".htm")
RESULTS = (  # where results go, how fast, and in how many pieces
    "report", "out", "policy", "json", "force", "redraw", "workers", "resume",
)  # fmt: skip

Report = Annotated[
    Path | None,
    Option(
        "--report",
        metavar="FILE.html",
        help="Write one page for people: the verdict, pictures, the least covered pairs, the settings. It "
        "needs no network.",
        rich_help_panel=RESULT,
    ),
]
Replace = Annotated[
    bool, Option("--force", help="Overwrite the report if it exists.", rich_help_panel=RESULT)
]


def check_report(report: Path | Location | None, *, force: bool) -> Location | None:
    """Returns where the page goes; refuses a file that cannot be written, or that exists unless `force`."""
    if report is None:
        return None
    place = locate(report, "report", "file")
    path = Path(place.shown)
    if path.suffix.lower() not in ENDINGS:
        raise InvalidArgumentError(f"--report must name a file that ends in .html, got {str(path)!r}.")
    if path.is_dir():
        raise InvalidArgumentError(f"--report must name a file; {str(path)!r} is a folder.")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidArgumentError(f"--report: {str(nearest)!r} is not a folder that can be written to.")
    if path.exists() and not force:
        raise InvalidArgumentError(f"{str(path)!r} would be overwritten. Pass --force, or another --report.")
    return place


def write_report(place: Location | None, make: Callable[[], Page], *, force: bool) -> None:
    """Writes the page that `make` returns, where one was asked for, and says so."""
    if place is None:
        return
    from rhocover.report.page_html import write_page

    page = make()
    check_report(place, force=force)  # again: others may have been faster
    remove_left(place.path.parent, is_called(place.path))
    write_page(page, place.path, overwrite=force)
    say(f"the report is in {place.shown}")


def or_report(
    is_ours: Callable[[str], bool], out: Location, report: Location | None
) -> Callable[[str], bool]:
    """Returns whether a file of `out` is of this command: the report, too, may have been put there."""
    mine = report.path.name if report is not None and report.path.parent == out.path else None
    return lambda name: name == mine or is_ours(name)


def typed(context: Context) -> str:
    """Returns the command as it was typed, without what says where results go."""
    words = ["rhocover", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in RESULTS or source is None or source.name == "DEFAULT":
            continue
        words += _words(parameter, context.params[name])
    return shlex.join(words)


def _words(parameter: Any, value: Any) -> list[str]:
    """Returns one parameter with its value as it is typed."""
    values = value if isinstance(value, list | tuple) else [value]
    if parameter.param_type_name == "argument":
        return [_word(each) for each in values]
    if getattr(parameter, "is_flag", False):
        return [parameter.opts[0]] if value else parameter.secondary_opts[:1]
    return [word for each in values for word in (parameter.opts[0], _word(each))]


def _word(value: Any) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
