"""`rhocover reproduce`: published numbers, run again, with ours beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rhocover.cli import options as o
from rhocover.cli.output import json_text, print_json, print_message, print_note, progress
from rhocover.cli.outputs import Writer, check_free, write_all
from rhocover.errors import InvalidArgumentError, RhocoverError

if TYPE_CHECKING:
    from rhocover.experiments.reproducing import Reproduction

Name = Annotated[
    str | None,
    Argument(
        metavar="NAME",
        help="tarbouriech2020-table1, paper-special-cases, peers-worst-ratio or reference-values.",
    ),
]
Steps = Annotated[
    int | None,
    Option(
        "--steps",
        parser=o.parse_integer,
        metavar="N",
        help="How many steps each run takes, if not as many as were published.",
        rich_help_panel=o.RUN,
    ),
]
Seeds = Annotated[
    int | None,
    Option(
        parser=o.parse_integer,
        metavar="K",
        help="How many seeds, from 0 on; 10 or 100.",
        rich_help_panel=o.RUN,
    ),
]
Out = Annotated[
    Path | None,
    Option(metavar="DIR", help="Write the table and the numbers to DIR.", rich_help_panel=o.RESULT),
]


def reproduce(
    name: Name = None,
    seeds: Seeds = None,
    num_steps: Steps = None,
    workers: o.Workers = None,
    json: o.Json = False,
    out: Out = None,
    force: o.Force = False,
) -> None:
    """Runs published experiments and statements again, and shows our numbers beside theirs.

    Where a number has a spread, its standard error stands with it; what is not reproduced is said in a note
    below the table. A statement is shown with both of its sides and what they may differ by.

    * `rhocover reproduce reference-values`
    * `rhocover reproduce tarbouriech2020-table1 --steps 5000 --seeds 2 --workers 1`
    * `rhocover reproduce paper-special-cases --steps 2000 --seeds 3 --workers 1 --out results`
    """
    from rhocover.experiments.reproducing import NAMES
    from rhocover.experiments.reproducing import reproduce as run

    if name is None:
        raise InvalidArgumentError(f"name what to reproduce: {', '.join(NAMES)}.")
    folder = None if out is None else check_free(out, file_names(name), force=force)
    with progress("runs") as report:
        found = run(name, seeds=seeds, num_steps=num_steps, workers=workers, report=report)
    if json:
        print_json(document(found))
    else:
        print_note(str(found))
    if folder is not None:
        print_message(f"wrote {len(write_all(folder, files(found), force=force))} files to {out}")
    _check(found)


def _check(found: Reproduction) -> None:
    """Refuses to end well if a statement does not hold; by then it has been shown."""
    if found.broken:
        first = found.broken[0]
        raise RhocoverError(
            f"{len(found.broken)} of {len(found.rows)} statements do not hold, the first: {first.label} on "
            f"{first.group}."
        )


def document(found: Reproduction) -> dict[str, Any]:
    """Returns the reproduction ready for JSON."""
    from rhocover._version import __version__

    return {"rhocover": __version__, "reproduction": found.summary()}


def file_names(name: str) -> tuple[str, str]:
    """Returns the names of the files: the table, and the numbers."""
    return f"{name}.txt", f"{name}.json"


def files(found: Reproduction) -> dict[str, Writer]:
    """Returns the files to write by name."""
    texts = (f"{found}\n", json_text(document(found)))
    return {name: partial(_write, text) for name, text in zip(file_names(found.name), texts, strict=True)}


def _write(text: str, path: Path) -> None:
    path.write_text(text, "utf-8")
