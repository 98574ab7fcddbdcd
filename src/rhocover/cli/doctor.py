"""`rhocover doctor`: what is installed, which back ends are used, and whether the results are right."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rhocover.cli.output import print_json, print_message, print_result, progress
from rhocover.errors import RhocoverError

if TYPE_CHECKING:
    from rhocover.diagnosis import Diagnosis, Finding
    from rhocover.diagnosis.warming import Warmed

PARTS = {"machine": "This machine", "packages": "Packages", "trials": "Self-test"}


def doctor(
    self_test: Annotated[
        bool,
        Option(
            "--self-test/--no-self-test",
            help="Compute results that are known by other means; takes ten seconds.",
        ),
    ] = True,
    warm: Annotated[
        bool, Option("--warm", help="Compile all loops now, so that no later command waits; takes a minute.")
    ] = False,
    json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Shows what is installed and which back ends are used, and tests them for about ten seconds.

    Every line is ok, a note on what could be added, or FAILED with the reason and how to fix it. If anything
    failed, the exit code is 1. If loops have to be compiled first, it takes up to a minute longer. With
    `--warm` all loops are compiled: in the recipe of a container, or before a demonstration.

    * `rhocover doctor`
    * `rhocover doctor --warm`
    * `rhocover doctor --no-self-test`
    * `rhocover doctor --json`
    """
    from rhocover.diagnosis import diagnose
    from rhocover.diagnosis.diagnose import is_warm

    if (self_test or warm) and not is_warm():
        print_message("compiling for the first time: this takes up to a minute, only once")
    with progress("self-test") as report:
        found = diagnose(self_test=self_test, report=report)
    warmed = _warmed() if warm else None
    if json:
        print_json(found.summary() | ({} if warmed is None else {"warmed": asdict(warmed)}))
    else:
        print_result(*_lines(found), *([] if warmed is None else [str(warmed)]))
    if not found.is_well:
        names = ", ".join(failure.name for failure in found.failures)
        raise RhocoverError(f"{len(found.failures)} of {len(found.findings)} checks failed: {names}.")


def _warmed() -> Warmed:
    from rhocover.diagnosis.warming import warm

    with progress("compiling") as report:
        return warm(report)


def _lines(found: Diagnosis) -> list[Any]:
    """Returns what is shown: one table per part, and the overall result below."""
    from rich.text import Text

    parts: list[Any] = []
    for name, title in PARTS.items():
        findings = getattr(found, name)
        if findings:
            parts += [Text(title, "bold"), _table(findings)]
    seconds = sum(finding.seconds or 0 for finding in found.trials)
    tested = f" The self-test took {seconds:.1f} s." if found.trials else ""
    return [*parts, f"All checks passed.{tested}" if found.is_well else f"At least one check FAILED.{tested}"]


def _table(findings: tuple[Finding, ...]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for found in findings:
        style = {"ok": "green", "note": "yellow"}.get(found.status, "bold red")
        text = f"{found.text}. {found.way_out}" if found.way_out else found.text
        table.add_row(found.name, Text(found.status, style), Text(text))
    return table
