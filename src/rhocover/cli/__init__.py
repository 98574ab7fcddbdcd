"""The command line: the verbs of the Python API, in the same words.

A command reads texts into values (`inputs`), calls the one function that has its name, and shows what
came back: a table or one JSON document on stdout, files in one folder (`outputs`), pictures (`pictures`).
Nothing is computed here. Everything that is not the result goes to stderr.

What a command exits with is in `app.EXIT_CODES`, and at the end of `rhocover --help`.

An error is one line on stderr that begins with `error:`. A Python traceback means a defect.
"""

from rhocover.cli.app import main

__all__ = ["main"]
