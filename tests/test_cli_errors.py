"""Errors on the command line speak of what can be typed: options of the command, never arguments of Python."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
import typer.main

import rhocover as rc
from rhocover import cli
from rhocover.cli.app import app
from rhocover.cli.output import ELSEWHERE, IN_COMMAND, options_of, typed_text
from rhocover.errors import Argument, Call, InvalidArgumentError, Setting
from tiers import tiered

COMMANDS = typer.main.get_command(app).commands
LINES = {  # that work, with as little to do as possible
    "plan": "plan river_swim --rho 2",
    "explore": "explore river_swim --rho 2 --steps 20",
    "compare": "compare river_swim --steps 20 --seeds 1 --workers 1 --explorer tracking",
    "collect": "collect FrozenLake-v1 --rho 2 --steps 20 --out out",
    "audit": "audit steps.csv",
    "top-up": "top-up steps.csv --steps 5 --rho 2",
    "budget": "budget river_swim",
    "reproduce": "reproduce reference-values",
}
JUNK = ["nonsense", "-1", "0.5", "inf"]
VERBS = [rc.plan, rc.explore, rc.compare, rc.collect, rc.audit, rc.top_up, rc.budget, rc.reproduce, rc.resume]
ARGUMENTS = {name for verb in VERBS for name in inspect.signature(verb).parameters}
STEPS = "s,a,s_next,done\n0,0,1,False\n1,0,0,False\n0,1,1,False\n1,1,0,False\n"


def options(command: str) -> set[str]:
    return {option for param in COMMANDS[command].params for option in (*param.opts, *param.secondary_opts)}


def wrong_words(command: str, message: str) -> list[str]:
    """Returns the names in a message that nobody can type after this command."""
    quoted = re.findall(r"`([^`]*)`", message)
    named = [word for word in quoted if word in ARGUMENTS]
    typed = re.findall(r"(?<![\w-])--[a-z][a-z-]*", message.partition(" Try: ")[0])
    return named + [option for option in typed if option not in options(command)]


def cases() -> list[tuple[str, str]]:
    return [
        (command, param.opts[0])
        for command in LINES
        for param in COMMANDS[command].params
        if param.param_type_name == "option" and not param.is_flag and param.name != "report"
    ]


@pytest.mark.parametrize(("command", "option"), tiered(cases(), short=12), ids="".join)
def test_an_error_about_an_option_names_what_can_be_typed(command, option, rhocover, tmp_path):
    Path(tmp_path, "steps.csv").write_text(STEPS)
    for value in JUNK:
        found = rhocover(f"{LINES[command]} {option}={value}")
        if found.code == 2:
            assert not wrong_words(command, found.err), found.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("explore river_swim --rho 2 --steps 20 --until-gap 0", "`--until-gap` must be positive"),
        ("explore river_swim --rho 2 --steps 20 --model from_scratch --until-gap 1",
         "--until-gap needs known weights and states"),
        ("explore river_swim --rho 2 --steps 20 --schedule power:1,99 --explorer algorithm1", "P of --schedule must be in [0, 16]"),
        ("plan river_swim --rho 2 --method leximin", "--method leximin is for rho=inf only"),
        ("plan river_swim --rho inf --method leximin --eta 0.01", "pass --eta 0."),
        ("plan missing.safetensors --rho 2", "ENV: there is no file"),
        ("audit steps.csv --certificate --no-best", "--certificate compares with the best, which --no-best does not plan"),
        ("audit steps.csv --env MountainCar-v0", "Leave `--env` out: the best is then that of the observed model."),
        ("audit steps.csv --env CliffWalking-v1", "leave `--env` out."),
        ("top-up steps.csv --steps 5 --rho 2 --env CliffWalking-v1", "leave `--env` out."),
        ("resume nowhere", "DIR 'nowhere' holds no run"),
    ],
)  # fmt: skip
def test_remedies_are_what_is_typed(line, message, rhocover, tmp_path):
    Path(tmp_path, "steps.csv").write_text(STEPS)
    found = rhocover(line)
    assert (found.code, message in " ".join(found.err.split())) == (2, True), found.err


def test_a_run_that_is_there_is_resumed_by_the_command_of_that_name(rhocover):
    rhocover("explore river_swim --rho 2 --steps 20 --out run")
    again = " ".join(rhocover("explore river_swim --rho 2 --steps 20 --out run").err.split())
    assert "`--out` 'run' already holds a run. Continue it with rhocover resume run, or name another" in again


def test_the_same_error_has_two_renderings():
    options = options_of(COMMANDS["plan"].params, "plan")
    error = InvalidArgumentError.of(
        "max_steps", ("goes with ", Argument("rho")), "1",
        ("Pass ", Setting("restrict", "True"), ", ", Setting("method", "'lp'"), " or ", Call("plan(mdp)", "rhocover plan"), "."),
    )  # fmt: skip
    assert str(error) == "`max_steps` goes with `rho`, got 1. Pass restrict=True, method='lp' or plan(mdp)."
    typed = error.text_in(lambda part: typed_text(options, part))
    assert typed == "`--max-steps` goes with `--rho`, got 1. Pass --restrict, --method lp or rhocover plan."


def test_the_table_names_options_that_some_command_has():
    known = {option for command in COMMANDS for option in options(command)} | {"ENV", "DIR"}
    for option in (*ELSEWHERE.values(), *(o for table in IN_COMMAND.values() for o in table.values())):
        assert option.split(" of ")[-1] in known, option
    for command, table in IN_COMMAND.items():
        assert set(table.values()) <= options(command) | {"DIR"}


def test_no_message_is_rewritten_as_text():
    """An error is rendered from its fields; what it says is not searched for words."""
    rewrites = []
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "replace"
            ):
                about = ast.unparse(node.func.value)
                rewrites += [f"{path.name}: {about}"] * bool(re.search("error|message|said", about))
            if isinstance(node, ast.Assign) and any(
                ast.unparse(t).endswith("error.args") for t in node.targets
            ):
                rewrites.append(f"{path.name}: error.args")
    assert not rewrites
