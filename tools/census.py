"""How large src/rhocover is, and where it is cut too small or too large.

    python tools/census.py            the figures
    python tools/census.py --check    ends with 1 if one is beyond its limit

A small file has fewer than 60 lines and a single importer: it may be part of that one. Imports inside
functions count, those under TYPE_CHECKING too; an `__init__` and `__main__` have a life of their own.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "rhocover"
MOST_FILES = 280  # after the first 200 came codes, densities, features, forms of data, notebooks, actors
MOST_LINES = 60_000  # raise it on purpose, and only for what was added
MOST_SMALL = 10
SMALL = 60  # lines
MOST_ARGUMENTS = 7  # inside the library; public signatures are flat and may have more
NUM_LARGEST = 10


@dataclass(frozen=True)
class Module:
    """One file: its dotted name, its path from src, its number of lines and what it says."""

    name: str
    path: str
    num_lines: int
    tree: ast.Module


def read_modules(source: Path) -> list[Module]:
    """Returns every module below `source`, which is the folder of the package."""
    modules = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source.parent)
        text = path.read_text("utf-8")
        name = ".".join(inside.with_suffix("").parts).removesuffix(".__init__")
        modules.append(Module(name, inside.as_posix(), len(text.splitlines()), ast.parse(text)))
    return modules


def importers(modules: list[Module]) -> dict[str, set[str]]:
    """Returns for every module the names of those that import it or a name from it."""
    known = {module.name for module in modules}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for name in imported(module):
            home = name if name in known else name.rpartition(".")[0]
            if home in known and home != module.name:
                found[home].add(module.name)
    return found


def imported(module: Module) -> Iterator[str]:
    """Yields the dotted names that a module imports, at its top or in a function."""
    package = module.name if module.path.endswith("__init__.py") else module.name.rpartition(".")[0]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def small_files(modules: list[Module]) -> list[str]:
    """Returns the files of fewer than SMALL lines that one other module imports."""
    by = importers(modules)
    return [
        f"{m.path} ({m.num_lines} lines, for {next(iter(by[m.name]))})"
        for m in modules
        if m.num_lines < SMALL
        and len(by[m.name]) == 1
        and not m.path.endswith(("__init__.py", "__main__.py"))
    ]


def long_signatures(modules: list[Module]) -> list[str]:
    """Returns the functions that take more than MOST_ARGUMENTS arguments, `self` not counted."""
    found = []
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                number = num_arguments(node.args)
                if number > MOST_ARGUMENTS:
                    found.append(f"{module.path}:{node.lineno} {node.name} ({number})")
    return found


def num_arguments(arguments: ast.arguments) -> int:
    """Returns how many arguments there are besides `self` and `cls`."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += filter(None, (arguments.vararg, arguments.kwarg))
    return sum(argument.arg not in ("self", "cls") for argument in every)


def shared_class_names(modules: list[Module]) -> list[str]:
    """Returns the names that several classes have, with the files of each."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module.path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(homes.items()) if len(paths) > 1]


def main(arguments: list[str] | None = None) -> int:
    """Prints the census; returns 1 if it is to be checked and a figure is beyond its limit."""
    parser = argparse.ArgumentParser(description="Counts the files and lines of src/rhocover.")
    parser.add_argument("--check", action="store_true", help="end with 1 if a figure is beyond its limit")
    asked = parser.parse_args(arguments)
    modules = read_modules(SOURCE)
    small = small_files(modules)
    figures = (
        ("files", len(modules), MOST_FILES),
        ("lines", sum(module.num_lines for module in modules), MOST_LINES),
        (f"files under {SMALL} lines with one importer", len(small), MOST_SMALL),
    )
    for name, number, limit in figures:
        print(f"{number:6} {name}, limit {limit}{' (beyond)' if number > limit else ''}")
    largest = sorted(modules, key=lambda module: -module.num_lines)[:NUM_LARGEST]
    print_list("small files with one importer", small)
    print_list("largest files", [f"{module.path} ({module.num_lines} lines)" for module in largest])
    print_list(f"functions with more than {MOST_ARGUMENTS} arguments", long_signatures(modules))
    print_list("names of several classes", shared_class_names(modules))
    return int(asked.check and any(number > limit for _, number, limit in figures))


def print_list(title: str, rows: list[str]) -> None:
    """Prints a title with the number of rows, and the rows below it."""
    print(f"\n{title}: {len(rows)}")
    for row in rows:
        print(f"    {row}")


if __name__ == "__main__":
    sys.exit(main())
