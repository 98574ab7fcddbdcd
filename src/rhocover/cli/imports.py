"""Functions that are named on the command line as `module:name`: --states, --held-out and --mu.

The module is imported, as Gymnasium imports that of `module:Name-v0`; nothing is evaluated. It may be a file
in the working directory, which is searched last, so that no file there can replace an installed package. The
user typed the name and trusts the code; no file ever names a module.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from rhocover.cli.output import one_line
from rhocover.errors import Argument, InvalidArgumentError, shortened, unknown_name

NAME = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
KINDS = ("bins", "quantiles", "net", "random")  # what else stands before a colon
NAMED = 8  # names in a message
_files: set[str] = set()  # of the modules that were named


def is_import(text: str) -> bool:
    """Whether a text names a function of a module."""
    return NAME.fullmatch(text) is not None and text.partition(":")[0] not in KINDS


def import_function(text: str, argument: str) -> Any:
    """Returns the function `module:name`; errors are about the argument."""
    module_name, _, name = text.partition(":")
    found: Any = _imported(module_name, argument)
    module = found
    for part in name.split("."):
        if not hasattr(found, part):
            known = _functions(found, part)
            raise unknown_name(
                (f"function of {module_name} for ", Argument(argument)), part, known, argument=argument
            )
        found = getattr(found, part)
    if not callable(found):
        option = f"--{argument.replace('_', '-')}"
        others = [f"Such as {option} {module_name}:{other}." for other in _functions(module, name)]
        raise InvalidArgumentError.of(
            argument, "must name a function", f"{text}, which is {shortened(repr(found))}",
            remedy=others[0] if others else "",
        )  # fmt: skip
    return found


def _functions(module: Any, like: str) -> list[str]:
    """Returns the names of some functions of a module: like this one, and those that it defines itself."""
    public = [name for name, part in vars(module).items() if not name.startswith("_") and callable(part)]
    own = [name for name in public if getattr(vars(module)[name], "__module__", "") == module.__name__]
    near = difflib.get_close_matches(like, public, n=1)
    return list(dict.fromkeys([*near, *(own or public)]))[:NAMED]


def _imported(name: str, argument: str) -> Any:
    search_here(name)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        top = name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name in (name, top):
            raise _missing(name, argument) from error
        raise InvalidArgumentError.of(
            argument, f": importing {name} raised {type(error).__name__}: {one_line(shortened(error))}"
        ) from error
    _files.add(getattr(module, "__file__", None) or "")
    return module


def search_here(name: str) -> None:
    """Lets a module be imported from the working directory, if it is there and nowhere else."""
    top = name.partition(".")[0]
    here = Path.cwd()
    is_here = (here / f"{top}.py").is_file() or (here / top).is_dir()
    if is_here and top not in sys.modules and importlib.util.find_spec(top) is None:
        sys.path.append(os.fspath(here))
        importlib.invalidate_caches()


def _missing(name: str, argument: str) -> InvalidArgumentError:
    known = [path.stem for path in sorted(Path.cwd().glob("*.py"))][:NAMED]
    return unknown_name(("module for ", Argument(argument)), name, known, argument=argument)


def own_failure(error: BaseException) -> str:
    """Returns what went wrong in a module that was named on the command line; "" if it was elsewhere."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename in _files - {""}]
    if not own:
        return ""
    last, said = own[-1], f"{type(error).__name__}: {one_line(shortened(error))}"
    return f"{last.name} of {Path(last.filename).name}, line {last.lineno}, raised {said}"
