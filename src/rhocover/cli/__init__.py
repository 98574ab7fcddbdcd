"""The command line: the verbs of the Python API, in the same words.

A command reads texts into values (`inputs`), calls the one function that has its name, and shows what
came back: a table or one JSON document on stdout, files in one folder (`outputs`), pictures (`pictures`).
Nothing is computed here. Everything that is not the result goes to stderr.

| exit code | when                                                     |
|-----------|----------------------------------------------------------|
| 0         | done                                                     |
| 1         | something failed: a file, the memory, a numerical solver |
| 2         | an argument is wrong                                     |
| 3         | planned, but the tolerance was not reached               |
| 130       | interrupted                                              |

An error is one line on stderr that begins with `error:`. A Python traceback means a defect.
"""

from rhocover.cli.app import main

__all__ = ["main"]
