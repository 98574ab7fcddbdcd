"""Output files of a command: checked before anything is computed, all written at the end.

The files of one command go into one folder. They are written to a hidden folder first and moved when all of
them are complete, so that an interruption, a full disk or a bug leaves no partial results. The folder is
locked meanwhile: no other process writes to it, and what a killed process left there is removed.

`--report FILE.html` writes one page about the result, with the same rules for every command. An existing
file is kept unless `--force` is given. The page shows the command without its output options, so that the
same request gives the same bytes wherever they are written.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from rhocover import checks
from rhocover.cli.options import RESULT
from rhocover.cli.output import print_message
from rhocover.errors import InvalidArgumentError
from rhocover.files import naming_file
from rhocover.folders import (
    Hold,
    Location,
    check_unused,
    hold_folder,
    is_called,
    is_left,
    is_left_folder,
    locate,
    remove_left,
    remove_left_folders,
    temporary_folder,
)

if TYPE_CHECKING:
    from rhocover.report.pages import Page

Writer = Callable[[Path], None]
HIDDEN = "rhocover"  # the name of the folder in which the files are prepared
PATIENCE = 60.0  # seconds to wait for another command that writes there: figures take a while


ANOTHER = "Name another folder, such as --out results."


def folder_with(file: str, command: str) -> str:
    """Returns the remedy for a folder without a file: one that has it, or the command that writes one."""
    there = [str(found.parent) for found in sorted(Path().glob(f"*/{file}"))]
    return f"Did you mean {there[0]!r}?" if there else f"`rhocover {command} --out DIR` writes one."


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> Location:
    """Returns the location of a folder; raises if it cannot be written to or is in use.

    Raises for files that exist already, unless `force`.
    """
    place = locate(folder)
    check_files(folder, names, force=force)
    check_unused(place)
    return place


def check_files(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Raises if a folder cannot be written to or, unless `force`, if one of the files exists."""
    nearest = _nearest(checks.place(folder, "out", "folder"))
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidArgumentError.of(
            "out",
            f": {str(nearest)!r} is not a folder that can be written to",
            remedy=ANOTHER,
        )
    taken = [name for name in names if os.path.lexists(folder / name)]
    if taken and not force:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise InvalidArgumentError(
            f"{str(folder / taken[0])!r}{more} would be overwritten. Pass --force, or name another folder.",
            argument="out",
        )


@contextmanager
def claim_files(folder: Path | Location, *, patience: float = 0.0) -> Iterator[Hold]:
    """Locks a folder while a command writes to it; creates it, and removes it if nothing was written."""
    place = locate(folder)
    if place.path.exists() and not place.path.is_dir():
        raise InvalidArgumentError.of("out", "must be a folder", f"the file {place.shown!r}", remedy=ANOTHER)
    is_held = isinstance(place, Hold)
    made = [] if is_held else [each for each in (place.path, *place.path.parents) if not each.exists()]
    if made:
        place.path.mkdir(parents=True, exist_ok=True)
    with hold_folder(place, patience=patience) as hold:
        try:
            remove_left_folders(place.path, HIDDEN.__eq__)
            yield hold
        except BaseException:
            with suppress(OSError):  # one that is not empty is in use by now
                for each in made:
                    each.rmdir()
            raise


def can_write(held: Hold) -> bool:
    """Returns whether a folder of results can be written to; prints a message if not."""
    if os.access(held.path, os.W_OK):
        return True
    print_message(f"{held.shown} cannot be written to; the files in it are unchanged")
    return False


def clear(held: Hold, is_ours: Callable[[str], bool], besides: str = "") -> None:
    """Removes the files of an earlier command, complete or partial; raises if there is anything else.

    `besides` is an entry that is neither removed nor refused.
    """
    entries = sorted(entry for entry in held.path.iterdir() if entry.name != besides)
    foreign = [entry.name for entry in entries if not _is_file_of(entry, is_ours)]
    if foreign:
        raise InvalidArgumentError.of(
            "out",
            f": {held.shown!r} holds {foreign[0]!r}, which this command did not write",
            remedy=f"Nothing was removed. {ANOTHER}",
        )
    for entry in entries:
        if not is_left_folder(entry, HIDDEN.__eq__):  # removed already, or in use
            entry.unlink()


def _is_file_of(entry: Path, is_ours: Callable[[str], bool]) -> bool:
    if entry.is_dir() and not entry.is_symlink():
        return is_left_folder(entry, HIDDEN.__eq__)
    return is_ours(entry.name) or is_left(entry, is_ours)


def write_all(out: Path | Location, files: Mapping[str, Writer], *, force: bool) -> list[Path]:
    """Writes the files and returns their paths; a writer may decide to write nothing."""
    with claim_files(out, patience=PATIENCE) as held:
        folder = held.path
        with temporary_folder(folder / HIDDEN) as hidden:
            for name, write in files.items():
                with naming_file(folder / name):
                    write(hidden / name)
            written = [name for name in files if (hidden / name).exists()]
            check_files(folder, written, force=force)  # again: another process may have written them
            held.check()
            for name in written:
                os.replace(hidden / name, folder / name)
    return [Path(held.shown) / name for name in written]


def _nearest(folder: Path) -> Path:
    """Returns the folder or its nearest existing parent, which is on the same file system."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


# `--report FILE.html`: one page about the result of a command.

ENDINGS = (".html", ".htm")
RESULTS = (  # options that do not change the result: output, overwriting, where it is computed
    "report", "out", "policy", "json", "force", "redraw", "workers", "engine", "address", "resume",
)  # fmt: skip
ACTORS = "explore"  # its workers change the result

Report = Annotated[
    Path | None,
    Option(
        "--report",
        metavar="FILE.html",
        help="Write an HTML page with the verdict, figures, the least covered pairs and the settings. It "
        "needs no network.",
        rich_help_panel=RESULT,
    ),
]
Replace = Annotated[
    bool, Option("--force", help="Overwrite the report if it exists.", rich_help_panel=RESULT)
]


def check_report(report: Path | Location | None, *, force: bool) -> Location | None:
    """Returns the location of the page; raises if it cannot be written, or exists without `force`."""
    if report is None:
        return None
    place = locate(report, "report", "file")
    path = Path(place.shown)
    if path.suffix.lower() not in ENDINGS:
        named = path.with_suffix(".html") if path.name else Path("page.html")
        raise InvalidArgumentError.of(
            "report",
            "must name a file that ends in .html",
            repr(str(path)),
            remedy=f"Such as --report {shlex.quote(str(named))}.",
        )
    if path.is_dir():
        raise InvalidArgumentError.of(
            "report",
            f"must name a file, and {str(path)!r} is a folder",
            remedy="Such as --report report.html.",
        )
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise InvalidArgumentError.of(
            "report",
            f": {str(nearest)!r} is not a folder that can be written to",
            remedy="Such as --report report.html.",
        )
    if path.exists() and not force:
        raise InvalidArgumentError(
            f"{str(path)!r} would be overwritten. Pass --force, or another --report.", argument="report"
        )
    return place


def write_report(place: Location | None, make: Callable[[], Page], *, force: bool) -> None:
    """Writes the page that `make` returns, if one was asked for, and prints where."""
    if place is None:
        return
    from rhocover.report.pages.rendering import write_page

    page = make()
    check_report(place, force=force)  # again: another process may have written it
    remove_left(place.path.parent, is_called(place.path))
    write_page(page, place.path, overwrite=force)
    print_message(f"the report is in {place.shown}")


def or_report(
    is_ours: Callable[[str], bool], out: Location, report: Location | None
) -> Callable[[str], bool]:
    """Returns a test for files of this command in `out`; the report may be there, too."""
    mine = report.path.name if report is not None and report.path.parent == out.path else None
    return lambda name: name == mine or is_ours(name)


def format_command(context: Context) -> str:
    """Returns the command as it was typed, without its output options."""
    words = ["rhocover", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        is_kept = name not in RESULTS or (name, context.info_name) == ("workers", ACTORS)
        if not is_kept or source is None or source.name == "DEFAULT":
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
