"""The help of every command: it renders, shows examples, and they run; its words are those of Python."""

import inspect
import os
import re
import subprocess
import sys

import pytest

import rhocover as rc
from lake_commands import write_steps
from rhocover.cli import app, demo, options, parsing
from rhocover.exploring.explorers.algorithm1 import SCHEDULES
from rhocover.exploring.explorers.registry import explorer_names, plugins
from rhocover.exploring.runs.spec import MODELS
from rhocover.planning import METHODS
from tiers import tiered

COMMANDS = {str(command.name): command.callback for command in app.app.registered_commands}
GROUPS = (  # in the order in which one writes what another reads
    ("plan", "envs", "budget", "explorers", "demo"),
    ("explore", "resume", "compare"),
    ("collect", "audit", "top-up", "export"),
    ("reproduce",),
    ("doctor",),
)
LONG = {"reproduce tarbouriech2020-table1"}  # takes minutes; its command has tests of its own
SAID = r"^(the data set|the new data|the policy|wrote \d+ files|figures, .*) .*\n"  # where files are


def examples_of(command) -> list[str]:
    return re.findall(r"\* `rhocover ([^`]*)`", inspect.getdoc(command) or "")


@pytest.mark.parametrize("line", tiered(["", "--help", *(f"{name} --help" for name in COMMANDS)]))
def test_help_renders(rhocover, line):
    result = rhocover(line)
    assert (result.code, result.err) == (0, "")
    assert f"Usage: rhocover {line.removesuffix('--help')}" in result.out
    assert "[bold]" not in result.out
    assert "`" not in result.out


@pytest.mark.parametrize("name", tiered(COMMANDS))
def test_each_command_shows_examples(rhocover, name):
    assert any(example.split()[0] == name for example in examples_of(COMMANDS[name]))
    assert f"rhocover {name} " in rhocover(f"{name} --help").out.replace("Usage:", "")


def test_every_command_is_in_a_group():
    assert sorted(name for group in GROUPS for name in group) == sorted(COMMANDS)


@pytest.mark.thorough
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_the_examples_in_the_help_run(rhocover, monkeypatch, group):
    monkeypatch.setattr(demo, "ORDERS", demo.TABLE)  # the demonstration itself has its own test
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # processes have their own tests
    rc.envs.forked_river_swim().save("model.safetensors")
    write_steps()
    first = examples_of(app._rhocover) if group is GROUPS[0] else []
    lines = (*first, *(line for name in group for line in examples_of(COMMANDS[name])))
    for line in dict.fromkeys(lines):  # each once
        if line not in LONG:
            result = rhocover(line)
            assert (line, result.code, re.sub(SAID, "", result.err, flags=re.MULTILINE)) == (line, 0, "")


SHARED = {  # what is not on both sides, and why: rules and objects cannot be typed, files are the command's
    "plan": {"mdp", "rho", "throw", "warm", "subject_to"},  # --at-most and --at-least are conditions
    "explore": {"world", "rho", "until", "trace_points", "executor"},
    "compare": {"envs", "rho", "explorers", "trace_points", "executor"},
    "budget": {"mdp", "policy"},
    "collect": {"until", "command", "executor"},
    "audit": {"model", "executor"},
    "top_up": {"command"},
}


@pytest.mark.parametrize("name", SHARED)
def test_the_command_and_the_function_take_the_same_words(name):
    """A keyword of the function is an option of the command, with the same default."""
    command = inspect.signature(COMMANDS[name.replace("_", "-")]).parameters
    function = inspect.signature(getattr(rc, name)).parameters
    shared = set(function) - SHARED[name] - {"mu", "num_steps", "report"}
    assert shared <= set(command)
    assert all(command[word].default == function[word].default for word in shared)


def test_the_help_names_every_method_and_every_kind_of_weights():
    method = options.Method.__metadata__[0].help
    assert all(re.search(rf"\b{name}\b", method) for name in METHODS)
    assert all(name in options.Mu.__metadata__[0].help for name in parsing.WEIGHTS)


def test_the_help_names_every_explorer_and_every_schedule():
    for option in (options.Explorer, options.Explorers):
        words = option.__metadata__[0].help
        assert all(re.search(rf"\b{name}\b", words) for name in explorer_names())
        assert words.index("adaptive") < words.index("published method") < words.index("maxent")
    assert set(options.CITED) == set(plugins())
    model = options.Model.__metadata__[0].help
    assert all(re.search(rf"\b{name}\b", model) for name in MODELS)
    schedule = options.Schedule.__metadata__[0].help
    assert all(f"{name}:" in schedule for name in SCHEDULES)


def test_the_help_lists_what_a_command_exits_with(rhocover):
    shown = " ".join(rhocover("--help").out.split())
    for code, words in app.EXIT_CODES.items():
        assert f"{code} {words}" in shown
    assert list(app.EXIT_CODES) == [0, 1, 2, 3, 4, 130]
    assert "exit code is 4" in " ".join(rhocover("audit --help").out.split())


def test_help_loads_nothing_that_computes_draws_or_steps():
    """`rhocover --help` answers at once: what a command needs it imports itself."""
    code = "import sys; from rhocover import cli; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "numba", "matplotlib", "highspy", "gymnasium", "minari", "h5py", "pyarrow"}
    assert not heavy & set(result.stdout.split())
