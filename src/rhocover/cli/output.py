"""Printing: tables and JSON on stdout; messages, warnings and progress bars on stderr.

Messages name options where Python names arguments: the option of the same name in the running command, or
the one in `ELSEWHERE`. Text from other packages is printed in one line.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rhocover import progress as bars
from rhocover.errors import Argument, Call, Part, Setting
from rhocover.printing import LINES, can_write, encodable, printable, put

if TYPE_CHECKING:
    from rhocover.envs import EnvInfo
    from rhocover.planning import Plan
    from rhocover.progress import Report

# All text reaches the terminal here, and is shown literally: markup and control sequences have no effect.


def console(*, stderr: bool = False) -> Console:
    """Returns a console that prints text literally: `[b]` and `:smile:` are not interpreted."""
    stream = sys.stderr if stderr else sys.stdout
    file = None if can_write(stream) else io.StringIO()  # absent or closed: nothing is printed
    return Console(file=file, stderr=stderr, markup=False, emoji=False, highlight=False)


def shown(part: Any, *, keep: str = LINES) -> Any:
    """Returns a text, a table or a group of them with every text in it printable.

    A plain text may have several lines, because it is our own. A title or a cell is one line: a name with
    line breaks could look like another row.
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


# Tables and JSON on stdout, messages on stderr.

NARROW, PAGE = 76, 100  # characters: most tables need 76, and lines longer than 100 are hard to read
WIDEST = 400
AT_ZERO = "At rho = 0 the divergence is KL(visits || weights)."


def print_message(text: str, *, style: str = "") -> None:
    """Prints one line on stderr; `style` colours its first word on a terminal."""
    line = Text(printable(" ".join(text.split())))
    line.stylize(style, 0, line.plain.find(" "))
    with suppress(OSError, ValueError):  # stderr cannot be written to
        console(stderr=True).print(line, soft_wrap=True)


def print_result(*parts: Any) -> None:
    """Prints tables and paragraphs on stdout, as wide as the terminal unless that would cut off numbers."""
    out, parts = console(), tuple(map(shown, parts))
    out.width = min(max(out.width, NARROW), PAGE)
    out.width = max(out.width, *(_needed(out, part) for part in parts))
    for part in parts:
        out.print(part)


def print_note(text: str) -> None:
    """Prints a text of several lines on stdout."""
    put(sys.stdout, f"{printable(text, keep=LINES)}\n")


def _needed(out: Console, part: Any) -> int:
    """Returns the width that a table without wrapping needs to show all numbers; 0 for anything else."""
    if isinstance(part, Group):
        return max((_needed(out, inner) for inner in part.renderables), default=0)
    if not isinstance(part, Table) or not all(column.no_wrap for column in part.columns):
        return 0
    return Measurement.get(out, out.options.update(width=WIDEST), part).maximum


def print_json(document: Any) -> None:
    """Prints one JSON document on stdout."""
    put(sys.stdout, json_text(document))


def json_text(document: Any) -> str:
    """Returns strict JSON, which every reader accepts: numbers that are not finite become text."""
    return json.dumps(_plain(document), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return encodable(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def plan_table(title: str, plans: Sequence[Plan]) -> Group:
    """Returns a title, a table with one row per plan, and notes."""
    table = _table()
    for heading in ("rho", "divergence", "certified gap", "worst ratio", "steps", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for plan in plans:
        table.add_row(
            f"{plan.rho:g}", f"{plan.divergence:.6f}", f"{plan.gap:.1e}", f"{plan.worst_ratio:.4f}",
            str(plan.steps), _duration(plan.seconds), plan.status.name.lower().replace("_", " "),
        )  # fmt: skip
    notes = [AT_ZERO] * any(plan.rho == 0 for plan in plans)
    notes += [f"rho = {plan.rho:g}: {condition}" for plan in plans for condition in plan.conditions]
    notes += [plan.restriction for plan in plans]
    return Group(Text(title, "bold"), table, *(Text(note) for note in dict.fromkeys(notes) if note))


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def env_table(entries: Iterable[EnvInfo]) -> Table:
    """Returns one row per environment: its name and parameters, and below them its summary."""
    table = _table()
    table.add_column("environment, parameters and their defaults")
    table.add_column("states", justify="right", no_wrap=True)
    table.add_column("pairs", justify="right", no_wrap=True)
    for entry in entries:
        name = Text.assemble((entry.name, "bold"), "  ", (settings(entry.parameters), "cyan"))
        about = Group(name, Padding(Text(entry.summary.replace("`", "")), (0, 0, 0, 2)))
        table.add_row(about, str(entry.num_states), str(entry.num_pairs))
    return table


def settings(parameters: Mapping[str, Any]) -> str:
    """Returns parameters as they are typed after --set."""
    return " ".join(f"{key}={_setting(value)}" for key, value in parameters.items())


def _setting(value: Any) -> str:
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def empty_table(*headings: str) -> Table:
    """Returns a table without rows: text in the first column, numbers in the others."""
    table = _table()
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="left" if k == 0 else "right", no_wrap=True)
    return table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


# Messages: options in place of arguments, and text from other packages in one line.

QUOTES = "'\""
COLOURS = re.compile(r"\x1b\[[\d;]*m|^WARN: ")  # Gymnasium's, around its warnings

ELSEWHERE = {  # arguments that no command has by their own name
    "counts": "--states",
    "low": "LOW of --states",
    "high": "HIGH of --states",
    "tau": "TAU of --schedule",
    "tau_1": "TAU of --schedule",
    "p": "P of --schedule",
    "path": "ENV",
    "mdp": "ENV",
    "world": "ENV",
    "envs": "ENV",
    "texts": "--set",
    "explorers": "--explorer",
    "num_chains": "--num-envs",
    "visits": "--until-visits",
    "gap": "--until-gap",
    "error": "--until-error",
}
IN_COMMAND = {"audit": {"model": "--env"}, "resume": {"out": "DIR"}, "collect": {"path": "--out"}}


def options_of(params: Iterable[Any], command: str) -> dict[str, str]:
    """Returns the option or metavar for each argument that a message of a command may name."""
    own = {
        param.name: param.opts[0] if param.param_type_name == "option" else param.metavar.strip("[].")
        for param in params
    }
    return ELSEWHERE | IN_COMMAND.get(command, {}) | own


def typed_text(options: Mapping[str, str], part: Part) -> str:
    """Returns a part of a message as it is typed."""
    if isinstance(part, Argument):
        option = options.get(part.name, part.name)
        return option if option.isupper() or " of " in option else f"`{option}`"
    if isinstance(part, Setting) and part.name in options:
        option = options[part.name]
        return option if part.value == "True" else f"{option} {part.typed or part.value.strip(QUOTES)}"
    return part.typed if isinstance(part, Call) else str(part)


def one_line(words: Any) -> str:
    """Returns text of any origin as one line without colours; control characters are shown, not executed."""
    return printable(COLOURS.sub("", " ".join(COLOURS.sub("", str(words)).split())))


# A bar or a spinner on stderr, on a terminal, for what takes longer than a second.

PATIENCE = 1.0  # seconds before there is one: a command is typed by somebody who waits


@contextmanager
def progress(words: str) -> Iterator[Report | None]:
    """Yields a function that takes (done, total); None if stderr is not a terminal."""
    with bars.progress(words, patience=PATIENCE) as shown:
        yield shown if shown.is_shown else None


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Shows a spinner on a terminal, once `PATIENCE` is over, for work whose length is not known."""
    out = console(stderr=True)
    with bars.silence():  # one thing turns, not two
        if not out.is_terminal:
            yield
            return
        status = out.status(Text(printable(words)))
        timer = threading.Timer(PATIENCE, status.start)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            status.stop()
