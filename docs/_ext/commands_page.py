"""The reference of the command line, from its own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from rhocover.cli.app import EXIT_CODES, app

EXAMPLE = re.compile(r"^\* `(rhocover [^`]+)`$", re.MULTILINE)


def commands() -> str:
    """Returns the page: exit codes, then a section for each command."""
    group: Any = typer.main.get_command(app)
    sections = [_section(name, command) for name, command in group.commands.items()]
    return "\n\n".join([_overview(group), *sections, _exit_codes()])


def _overview(group: Any) -> str:
    rows = [
        f"| [`rhocover {name}`](#rhocover-{name}) | {_first_line(c)} |" for name, c in group.commands.items()
    ]
    options = _table([option for option in group.params if option.opts])
    return "\n".join(["| command | |", "|---|---|", *rows, "", options])


def _first_line(command: Any) -> str:
    return _text((command.help or "").partition("\n\n")[0])


def _section(name: str, command: Any) -> str:
    heading = f"(rhocover-{name})=\n## {name}"
    parts = [heading, _usage(name, command), *_help(command.help or "")]
    for panel, members in _panels(command):
        parts += [f"**{panel}**", _table(members)]
    return "\n\n".join(parts)


def _usage(name: str, command: Any) -> str:
    needed = [_spelled(parameter).strip("`") for parameter in command.params if parameter.required]
    optional = [f"[{_name(p).strip('[]')}]" for p in command.params if not p.required and _is_argument(p)]
    return "```text\n" + " ".join(["rhocover", name, *needed, *optional, "[OPTIONS]"]) + "\n```"


def _help(text: str) -> Iterator[str]:
    """Yields the help with its examples as one block that can be copied."""
    examples = [" ".join(example.split()) for example in EXAMPLE.findall(text)]
    yield EXAMPLE.sub("", text).strip()
    if examples:
        yield "```console\n" + "\n".join(f"$ {line}" for line in examples) + "\n```"


def _panels(command: Any) -> Iterator[tuple[str, list[Any]]]:
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        usual = "Arguments" if _is_argument(parameter) else "Options"
        panels.setdefault(parameter.rich_help_panel or usual, []).append(parameter)
    yield from panels.items()


def _table(parameters: list[Any]) -> str:
    rows = [f"| {_spelled(p)} | {_meaning(p)} |" for p in parameters]
    return "\n".join(["| | |", "|:--|:--|", *rows])


def _is_argument(parameter: Any) -> bool:
    return type(parameter).__name__.endswith("Argument")


def _name(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _spelled(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{_name(parameter)}`"
    spellings = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {_name(parameter)}"
    return ", ".join(f"`{spelling}{value}`" for spelling in spellings)


def _meaning(parameter: Any) -> str:
    words = _text(parameter.help or "")
    if parameter.required:
        words += " *Required.*"
    elif not getattr(parameter, "is_flag", False) and parameter.default is not None:
        words += f" Default: `{parameter.default}`."
    if getattr(parameter, "multiple", False) and "epeat" not in words:
        words += " Repeatable."
    return words


def _text(text: str) -> str:
    """Returns text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _exit_codes() -> str:
    rows = [f"| `{code}` | {words} |" for code, words in EXIT_CODES.items()]
    return "\n".join(["(exit-codes)=", "## Exit codes", "", "| code | meaning |", "|---|---|", *rows])
