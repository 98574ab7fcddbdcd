"""The application: its commands, its help and its exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

from rhocover._version import __version__
from rhocover.cli.audit import RequirementError, audit
from rhocover.cli.budget import budget
from rhocover.cli.collect import collect
from rhocover.cli.compare import compare
from rhocover.cli.demo import demo
from rhocover.cli.doctor import doctor
from rhocover.cli.envs import envs, explorers
from rhocover.cli.explore import explore, resume
from rhocover.cli.export import export
from rhocover.cli.imports import own_failure
from rhocover.cli.output import one_line, options_of, print_message, print_note, typed_text
from rhocover.cli.plan import plan
from rhocover.cli.reproduce import reproduce
from rhocover.cli.top_up import top_up
from rhocover.cli.usage import usage_message
from rhocover.errors import InvalidArgumentError, NotConvergedError, RhocoverError, shortened
from rhocover.printing import put

FAILED, BAD_INPUT, NOT_CONVERGED, NOT_MET, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = {
    0: "success",
    FAILED: "a failure (a file, memory, an environment, a missing package, the self-test)",
    BAD_INPUT: "an invalid argument or data set",
    NOT_CONVERGED: "planning did not reach the tolerance",
    NOT_MET: "the audited data does not meet a requirement",
    INTERRUPTED: "interrupted",
}
EPILOG = "Exit codes: " + "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items()) + "."
NO_NAME = re.compile(
    r"Value error, (\w+: )?embedded null (byte|character in path)"
)  # the wording differs between Python versions
UsageError: Any = typer.BadParameter.__base__  # what the parser raises; typer gives it no public name

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown", epilog=EPILOG
)
COMMANDS = (
    plan, explore, resume, compare, collect, audit, top_up, export, budget, reproduce, envs, explorers, demo,
    doctor,
)  # fmt: skip
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_note(f"rhocover {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _rhocover(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plans, runs and certifies exploration of Markov decision processes.

    You choose which state-action pairs matter (the weights *mu*) and how much the worst of them counts
    (*rho*, from 0 to inf). You get the policy whose visits match the weights best, and a certificate of how
    far it is from the best that any policy can do.

    * `rhocover demo`  shows planning and exploring on small models, with tables and figures
    * `rhocover envs`  lists the named models
    * `rhocover plan river_swim --rho 2`  finds the best coverage of a model
    * `rhocover explore river_swim --rho 2`  explores until the visit counts match the plan
    * `rhocover explorers`  lists the explorers: the library's own and the published methods
    * `rhocover compare river_swim --rho 2`  compares explorers with the same seeds and budgets
    * `rhocover collect --help`  acts in a Gymnasium environment and writes a data set with a datasheet
    * `rhocover audit --help`  reports what a data set covers
    * `rhocover top-up --help`  plans what to add to a data set, or collects it
    * `rhocover budget river_swim --visits 100`  says how many steps it takes to visit every pair 100 times
    * `rhocover reproduce reference-values`  repeats published experiments and compares the numbers
    * `rhocover doctor`  shows what is installed and runs a self-test of ten seconds
    * `rhocover plan --help`  explains a command, with examples
    """
    if context.invoked_subcommand is None:
        put(sys.stdout, f"{context.get_help()}\n")


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with 0, or with the code of the failure."""
    words = sys.argv[1:] if args is None else list(args)
    try:
        code = app(args, prog_name="rhocover", standalone_mode=False) or 0
        put(sys.stdout, "")  # flushes, so that a write error is raised here
    except BrokenPipeError:  # the reader closed the pipe
        code = _hushed()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (RhocoverError, UsageError, OSError, MemoryError) as error:
        print_message(f"error: {_message(error, words)}", style="bold red")
        code = _code(error)
    except SystemExit as end:
        code = _left(end)
    except Exception as error:
        if not (said := own_failure(error)):
            raise  # a bug: show its traceback
        print_message(f"error: {said}", style="bold red")
        code = FAILED
    except BaseException as error:  # raised by an environment: GeneratorExit, or a class of its own
        said = one_line(shortened(error))
        print_message(
            f"error: code that the command runs raised {type(error).__name__}: {said}", style="bold red"
        )
        code = FAILED
    if code == INTERRUPTED:  # the parser, too, turns Ctrl-C into this code
        print_message("interrupted")
    sys.exit(code)


def _left(end: SystemExit) -> int:
    """Returns the exit code; our commands never raise SystemExit, but environments and the parser may."""
    if isinstance(end.__context__, BrokenPipeError):  # the parser turns it into SystemExit
        return _hushed()
    print_message(f"error: code that the command runs called exit({end.code!r}).", style="bold red")
    return FAILED


def _hushed() -> int:
    """Returns the exit code; output that is still buffered is discarded, also when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _code(error: Exception) -> int:
    if isinstance(error, InvalidArgumentError | UsageError):
        return BAD_INPUT
    if isinstance(error, RequirementError):
        return NOT_MET
    return NOT_CONVERGED if isinstance(error, NotConvergedError) else FAILED


def _message(error: Any, words: Sequence[str]) -> str:
    """Returns the error message in one line, with options in place of Python arguments."""
    command = next((word for word in words if not word.startswith("-")), "")
    if isinstance(error, UsageError):
        said = usage_message(error, _commands(), command, words)
        return NO_NAME.sub("a name must not contain a NUL character", said)
    if isinstance(error, MemoryError) and not isinstance(error, RhocoverError):
        return f"not enough memory. {error}"
    if isinstance(error, OSError) and not isinstance(error, RhocoverError):
        named = error.filename and f"{error.strerror or error}: {shortened(error.filename)}"
        return named or str(error)
    if isinstance(error, RhocoverError):
        return error.text_in(partial(typed_text, _options(command)))
    return str(error)


def _options(command: str) -> dict[str, str]:
    """Returns what to type for each argument of a command."""
    known = _commands()
    return options_of(known[command].params, command) if command in known else {}


def _commands() -> dict[str, Any]:
    """Returns the commands by name."""
    known: Any = typer.main.get_command(app)
    return known.commands
