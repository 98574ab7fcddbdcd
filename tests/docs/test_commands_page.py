"""The page of commands says what the commands say; `tests/test_cli_help.py` runs every example that they show."""

from __future__ import annotations

import re

import pytest
import typer.main
from extensions import extension

from rhocover.cli.app import EXIT_CODES, app
from test_cli_help import COMMANDS as CALLBACKS
from test_cli_help import GROUPS, examples_of

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PAGE = extension("commands_page").commands()
SECTIONS = dict(re.findall(r"^\(rhocover-([\w-]+)\)=\n## .+\n((?:(?!^\().*\n?)*)", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_each_of_its_options_is_on_the_page(name: str) -> None:
    section = SECTIONS[name]
    for parameter in COMMANDS[name].params:
        for spelling in (*parameter.opts, *getattr(parameter, "secondary_opts", ())):
            shown = spelling if spelling.startswith("-") else parameter.metavar or spelling.upper()
            assert f"`{shown}" in section, spelling
        assert " ".join((parameter.help or "").split()).replace("|", "\\|") in section
    first = " ".join((COMMANDS[name].help or "").partition("\n\n")[0].split())
    assert first in " ".join(section.split())
    assert first in PAGE.partition("(rhocover-")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_on_the_page_are_those_that_are_run(name: str) -> None:
    shown = re.findall(r"^\$ rhocover (.+)$", SECTIONS[name], re.MULTILINE)
    assert shown == [" ".join(line.split()) for line in examples_of(CALLBACKS[name])]
    assert any(name in group for group in GROUPS)


def test_every_exit_code_is_on_the_page() -> None:
    for code, words in EXIT_CODES.items():
        assert f"| `{code}` | {words} |" in PAGE


def test_required_options_are_in_the_usage_and_defaults_in_the_table() -> None:
    assert "rhocover plan ENV [OPTIONS]" in SECTIONS["plan"]
    assert "rhocover collect ENV --out DIR [OPTIONS]" in SECTIONS["collect"]
    assert "Default: `interior_point`" in SECTIONS["plan"]
    assert "*Required.*" in SECTIONS["collect"]
