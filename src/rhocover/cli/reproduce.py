"""`rhocover reproduce`: repeats published experiments and compares the numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rhocover.cli import options as o
from rhocover.cli.output import json_text, print_json, print_message, print_note, progress
from rhocover.cli.outputs import Writer, check_free, write_all
from rhocover.errors import InvalidArgumentError, RhocoverError
from rhocover.printing import count_of

if TYPE_CHECKING:
    from rhocover.experiments.reproducing import Reproduction

Name = Annotated[
    str | None,
    Argument(
        metavar="NAME",
        help="What to reproduce: tarbouriech2020-table1, paper-special-cases, peers-worst-ratio or "
        "reference-values.",
    ),
]
Steps = Annotated[
    int | None,
    o.integer_option("--steps", "N", "The number of steps of each run; default: as published.", o.RUN),
]
Seeds = Annotated[
    int | None,
    o.integer_option("--seeds", "K", "The number of seeds: 0, 1, ..., K - 1; default: 10 or 100.", o.RUN),
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
    """Repeats published experiments, checks published statements, and compares the numbers.

    Numbers that vary between seeds have a standard error; notes below the table say what is not reproduced.
    A statement is shown with both of its sides and the difference that is allowed.

    * `rhocover reproduce reference-values`
    * `rhocover reproduce tarbouriech2020-table1 --steps 5000 --seeds 2 --workers 1`
    * `rhocover reproduce paper-special-cases --steps 2000 --seeds 3 --workers 1 --out results`
    """
    from rhocover.experiments.reproducing import NAMES
    from rhocover.experiments.reproducing import reproduce as run

    if name is None:
        raise InvalidArgumentError(
            f"NAME is missing, such as {NAMES[-1]}.", argument="name", remedy=f"Known: {', '.join(NAMES)}."
        )
    folder = None if out is None else check_free(out, file_names(name), force=force)
    with progress("runs") as report:
        found = run(name, seeds=seeds, num_steps=num_steps, workers=workers, report=report)
    if json:
        print_json(document(found))
    else:
        print_note(str(found))
    if folder is not None:
        print_message(f"wrote {count_of(len(write_all(folder, files(found), force=force)), 'file')} to {out}")
    _check(found)


def _check(found: Reproduction) -> None:
    """Raises if a statement does not hold; called after the results have been shown."""
    if found.broken:
        first = found.broken[0]
        raise RhocoverError(
            f"{len(found.broken)} of {len(found.rows)} statements do not hold; the first is {first.label} on "
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
