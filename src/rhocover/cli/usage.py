"""Messages for command lines that cannot be parsed: what is wrong, and what to type instead.

The parser says which option it does not know; this module says which one was probably meant. Names of
Python's arguments, which are close to the options, lead to them, and so do a few words that other tools use.
Examples are those of the command's own help.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SYNONYMS = {
    "--chains": "--num-envs", "--n-envs": "--num-envs", "--copies": "--num-envs", "--n-steps": "--steps",
    "--timesteps": "--steps", "--budget": "--steps", "--n-seeds": "--seeds", "--random-seed": "--seed",
    "--output": "--out", "-o": "--out", "--outdir": "--out", "--dir": "--out", "--weights": "--mu",
    "--env-kwargs": "--set", "--param": "--set", "--algorithm": "--explorer", "--gamma": "--discount",
    "--overwrite": "--force", "-f": "--force", "--jobs": "--workers", "-j": "--workers",
    "--order": "--rho", "--alpha": "--rho", "--continue": "--resume", "--name": "--id", "--html": "--report",
    "--tolerance": "--tol",
}  # fmt: skip
COMMANDS = {
    "topup": "top-up", "run": "explore", "list": "envs", "models": "envs", "environments": "envs",
    "check": "doctor", "help": "--help",
}  # fmt: skip
ANYWHERE = {"-h": "--help", "-v": "--version"}  # what other tools have
CLOSE = 0.6  # of difflib: what shares most of its letters


def usage_message(error: Any, commands: Mapping[str, Any], name: str, words: Sequence[str]) -> str:
    """Returns what is wrong with the words of a line of the command `name`, and what to type instead."""
    is_before = error.ctx is not None and error.ctx.parent is None  # about what stands before the command
    command = None if is_before else commands.get(name)
    kind = type(error).__name__ if command is not None else ""
    say = {
        "NoSuchOption": _no_such_option, "BadOptionUsage": _bad_usage, "BadParameter": _bad_value,
    }.get(kind, _other)  # fmt: skip
    path = "rhocover" if command is None else f"rhocover {name}"
    said = _missing(error, command, words) if kind == "MissingParameter" else say(error, command, commands)
    return f"{said} Try: {path} --help"


def _no_such_option(error: Any, command: Any, commands: Mapping[str, Any]) -> str:
    name, said = error.option_name, f"there is no option {error.option_name}."
    if name == "-h":
        return f"{said} Did you mean --help?"
    if found := _named(name, command):
        return f"{said} Did you mean {found}?"
    if others := [other for other, known in commands.items() if name in _options(known)]:
        return f"{said} Leave it out: it belongs to {', '.join(others)}."
    letters = {option.strip("-"): option for option in _options(command)}
    near = difflib.get_close_matches(name.strip("-"), letters, n=1, cutoff=CLOSE)
    return f"{said} Did you mean {letters[near[0]]}?" if near else f"{said} Leave it out."


def _named(name: str, command: Any) -> str:
    """Returns the option that has another name in Python, or in other tools; "" if there is none."""
    known = _options(command)
    named = {f"--{option.replace('_', '-')}": typed for typed, option in known.items()}
    return next((found for found in (named.get(name), SYNONYMS.get(name)) if found in known), "")


def _options(command: Any) -> dict[str, str]:
    """Returns the options of a command, each with the name of its argument."""
    options = (param for param in command.params if param.param_type_name == "option")
    return {typed: param.name for param in options for typed in (*param.opts, *param.secondary_opts)}


def _missing(error: Any, command: Any, words: Sequence[str]) -> str:
    """Returns what is missing, with an example: of the option, or of a line without the options given."""
    param = error.param
    if param.param_type_name == "option":
        return f"`{param.opts[0]}` is missing. Pass {param.opts[0]} {_example(command, param.opts[0])}."
    name = (param.metavar or param.name.upper()).strip("[].")
    return f"{name} is missing, such as {shlex.join(_line(command, words))}."


def _line(command: Any, words: Sequence[str]) -> list[str]:
    """Returns the first example of a command, without its name and the options that were given."""
    line = next(_examples(command))[2:]
    for option in [word for word in line if word.startswith("--") and word in words]:
        k = line.index(option)
        del line[k : k + 2]
    return line


def _bad_usage(error: Any, command: Any, _: Any) -> str:
    option = error.option_name
    param: Any = next((param for param in command.params if option in param.opts), None)
    if param is None or param.is_flag:
        return f"`{option}` takes no value. Pass {option}."
    value = _example(command, option) or param.default or _any_value(param)
    return f"`{option}` needs a value, such as {option} {value}."


def _any_value(param: Any) -> str:
    """Returns a value of the type that an option takes, or the word that stands for it in the help."""
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    return {float: "0.5", int: "20"}.get(kind) or str(param.metavar)


def _example(command: Any, option: str) -> str:
    """Returns the value of an option in the first example that has it."""
    for words in _examples(command):
        if option in words[:-1]:
            return shlex.quote(words[words.index(option) + 1])
    return ""


def _examples(command: Any) -> Iterator[list[str]]:
    """Returns the examples in the help of a command."""
    for line in re.findall(r"\* `(rhocover [^`]*)`", command.help or ""):
        yield line.split()


def _bad_value(error: Any, command: Any, _: Any) -> str:
    param, said = error.param, error.format_message().rstrip(".")
    if param is None or not param.opts[0].startswith("-") or "expected" not in said:
        return f"{said}."
    option = param.opts[0]
    value = _example(command, option) or param.default or (20 if "whole" in said else 0.5)
    return f"{said}. Such as {option} {value}."


def _before_command(name: str) -> str:
    """Returns what to type instead of an option that stands before the command."""
    known = tuple(ANYWHERE.values())
    near = [ANYWHERE[name]] if name in ANYWHERE else difflib.get_close_matches(name, known, 1, cutoff=0.75)
    if near:
        return f"there is no option {name}. Did you mean {near[0]}?"
    return f"there is no option {name} before a command. Leave it out, or put it after the command."


def _other(error: Any, _: Any, commands: Mapping[str, Any]) -> str:
    if type(error).__name__ == "NoSuchOption":
        return _before_command(error.option_name)
    said = error.format_message().rstrip(".")
    extra = re.search(r"unexpected extra arguments? ?(?:\(s\) )?\((.*)\)", said)
    if extra:
        return f"'{extra[1]}' is too much. Leave it out, or put its option before it."
    unknown = re.match(r"No such command '([^']*)'", said)
    return _unknown_command(unknown[1], list(commands)) if unknown else f"{said}."


def _unknown_command(name: str, known: list[str]) -> str:
    near = [COMMANDS[name]] if name in COMMANDS else difflib.get_close_matches(name, known, n=1, cutoff=CLOSE)
    meant = f" Did you mean rhocover {near[0]}?" if near else ""
    return f"there is no command {name!r}.{meant} Known: {', '.join(known)}."
