"""The command line: the verbs of the Python API, in the same words.

A command reads texts into values (`parsing`), calls the one function that has its name, and shows what
came back: a table or one JSON document on stdout, files in one folder (`outputs`), pictures (`pictures`).
Nothing is computed here. Everything that is not the result goes to stderr.

What a command exits with is in `app.EXIT_CODES`, and at the end of `rhocover --help`.

An error is one line on stderr that begins with `error:`. A Python traceback means a defect.

Nothing is imported here before `main` runs, so that Ctrl-C is answered from the first moment on.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, without loading that
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits; where a package is missing or broken, says which and the way out."""
    try:
        from rhocover.cli.process import run

        run(args)
    except KeyboardInterrupt:  # before `run` could answer it
        import os

        os.write(2, b"interrupted\n")
        os._exit(130)
