"""The application: its commands, its help, and what it exits with."""

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
from rhocover.cli.output import one_line, options_of, print_message, print_note, typed_text
from rhocover.cli.plan import plan
from rhocover.cli.reproduce import reproduce
from rhocover.cli.top_up import top_up
from rhocover.errors import InvalidArgumentError, NotConvergedError, RhocoverError, shortened
from rhocover.printing import put

FAILED, BAD_INPUT, NOT_CONVERGED, NOT_MET, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = {
    0: "done",
    FAILED: "something failed: a file, the memory, an environment, a missing package, the self-test",
    BAD_INPUT: "an argument or a data set is wrong",
    NOT_CONVERGED: "planned, but the tolerance was not reached",
    NOT_MET: "audited, but a requirement is not met",
    INTERRUPTED: "interrupted",
}
EPILOG = "Exit codes: " + "; ".join(f"{code} {words}" for code, words in EXIT_CODES.items()) + "."
NO_NAME = re.compile(r"Value error, (\w+: )?embedded null (byte|character in path)")  # as Pythons say it
UsageError: Any = typer.BadParameter.__base__  # what the parser raises; typer gives it no public name

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown", epilog=EPILOG
)
COMMANDS = (
    plan, explore, resume, compare, collect, audit, top_up, budget, reproduce, envs, explorers, demo, doctor,
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

    You say which state-action pairs matter (the weights *mu*) and how much the worst of them counts
    (*rho*, from 0 to inf). You get the policy whose visits match that best, and a certificate of how far
    it is from the best that any policy can do.

    * `rhocover demo`  shows it on three scenes, with tables and pictures
    * `rhocover envs`  lists the models that have a name
    * `rhocover plan river_swim --rho 2`  finds the best coverage of one of them
    * `rhocover explore river_swim --rho 2`  acts in it until the visits are that coverage
    * `rhocover explorers`  lists who can act: the library's own, and the systems that the paper cites
    * `rhocover compare river_swim --rho 2`  shows what each explorer is worth
    * `rhocover collect --help`  acts in a Gymnasium environment, and writes a data set with a datasheet
    * `rhocover audit --help`  says what a data set covers, whoever collected it
    * `rhocover top-up --help`  says what to add to one, or adds it
    * `rhocover budget river_swim --visits 100`  says how many steps until every pair was visited so often
    * `rhocover reproduce reference-values`  runs what was published again, ours beside theirs
    * `rhocover doctor`  says what is installed, and tests it for ten seconds
    * `rhocover plan --help`  explains a command, with examples
    """
    if context.invoked_subcommand is None:
        put(sys.stdout, f"{context.get_help()}\n")


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits with 0, or with the code of what went wrong."""
    try:
        code = app(args, prog_name="rhocover", standalone_mode=False) or 0
        put(sys.stdout, "")  # what could not be written is known now
    except BrokenPipeError:  # whoever read the output has seen enough
        code = _hushed()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (RhocoverError, UsageError, OSError, MemoryError) as error:
        print_message(f"error: {_message(error, _command(args))}", style="bold red")
        code = _code(error)
    except SystemExit as end:
        code = _left(end)
    except Exception:  # a defect, whose traceback is wanted
        raise
    except BaseException as error:  # of an environment: what ends a coroutine, or a class of its own
        said = one_line(shortened(error))
        print_message(
            f"error: something that the command runs raised {type(error).__name__}: {said}", style="bold red"
        )
        code = FAILED
    if code == INTERRUPTED:  # the parser, too, turns Ctrl-C into this code
        print_message("interrupted")
    sys.exit(code)


def _left(end: SystemExit) -> int:
    """Returns what to exit with: no command of ours ends so, but environments and the parser may."""
    if isinstance(end.__context__, BrokenPipeError):  # the parser's way to say it
        return _hushed()
    print_message(f"error: something that the command runs called exit({end.code!r}).", style="bold red")
    return FAILED


def _hushed() -> int:
    """Returns what to exit with; what is still to be printed goes nowhere, also when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _code(error: Exception) -> int:
    if isinstance(error, InvalidArgumentError | UsageError):
        return BAD_INPUT
    if isinstance(error, RequirementError):
        return NOT_MET
    return NOT_CONVERGED if isinstance(error, NotConvergedError) else FAILED


def _command(args: Sequence[str] | None) -> str:
    """Returns the name of the command that was typed."""
    words = sys.argv[1:] if args is None else args
    return next((word for word in words if not word.startswith("-")), "")


def _message(error: Any, command: str) -> str:
    """Returns what went wrong in one line, in the words of the command line."""
    if isinstance(error, UsageError):
        path = error.ctx.command_path if error.ctx else "rhocover"
        said = NO_NAME.sub("a name cannot have a NUL character in it", error.format_message())
        return f"{said.rstrip('.')}. Try: {path} --help"
    if isinstance(error, MemoryError) and not isinstance(error, RhocoverError):
        return f"there is not enough memory. {error}"
    if isinstance(error, OSError) and not isinstance(error, RhocoverError):
        named = error.filename and f"{error.strerror or error}: {shortened(error.filename)}"
        return named or str(error)
    if isinstance(error, RhocoverError):
        return error.text_in(partial(typed_text, _options(command)))
    return str(error)


def _options(command: str) -> dict[str, str]:
    """Returns what to type for each argument of a command."""
    known: Any = typer.main.get_command(app)
    return options_of(known.commands[command].params, command) if command in known.commands else {}
