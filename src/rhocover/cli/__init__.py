"""The command line: one command for each function of the Python API, under the same name.

A command parses its arguments (`parsing`), calls the function that has its name, and shows the result: a
table or one JSON document on stdout, and files and figures in one folder (`outputs`). Nothing is computed
here. Everything that is not the result goes to stderr.

The exit codes are in `app.EXIT_CODES`, and at the end of `rhocover --help`.

An error is one line on stderr that begins with `error:`. A Python traceback means a bug.

This module imports nothing before `main` runs, so that Ctrl-C works from the start.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, without loading it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and exits; if a package is missing or broken, says which one and how to fix it."""
    try:
        from rhocover.cli.process import run

        run(args)
    except KeyboardInterrupt:  # before `run` could handle it
        import os

        os.write(2, b"interrupted\n")
        os._exit(130)
