"""The command line: `peers` and `page`.

- `python -m benchmarks peers [--short] [NAME ...]`: beside other libraries; writes docs/benchmarks.
- `python -m benchmarks page`: docs/benchmarks.md and its pictures again, from what was measured.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks import page
from benchmarks.peers import NAMES as PEERS

SHORT = Path("out/benchmarks/short")


def main(arguments: list[str] | None = None) -> None:
    """Runs what the arguments name."""
    asked = _parser().parse_args(arguments)
    if asked.command == "peers":
        peers(asked.names, asked.short)
    else:
        page.draw_pictures(page.DOCS)
        page.write_page(page.DOCS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measures this library.")
    commands = parser.add_subparsers(dest="command", required=True)
    beside = commands.add_parser("peers", help="side by side with other libraries; writes docs/benchmarks")
    beside.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    beside.add_argument("--short", action="store_true", help=f"seconds each, written to {SHORT}")
    commands.add_parser("page", help="docs/benchmarks.md and its pictures again, from what was measured")
    return parser


def peers(names: list[str], short: bool = False) -> None:
    """Measures the comparisons named, or all, and writes what was found, the pictures and the page."""
    docs = SHORT if short else page.DOCS
    for name in known(names, PEERS) or PEERS:
        module = importlib.import_module(f"benchmarks.peers.{name}")
        print(f"{name}: {module.QUESTION}", flush=True)
        result = module.measure(short)
        page.store(name, module, result, docs)
        print("  " + page.standing(result), flush=True)
    page.write_page(docs)


def known(names: list[str], choices: tuple[str, ...]) -> list[str]:
    """Returns the names if each is a choice; ends the program at one that is not."""
    wrong = [name for name in names if name not in choices]
    if wrong:
        raise SystemExit(f"unknown benchmark {wrong[0]!r}. Known: {', '.join(choices)}.")
    return names


if __name__ == "__main__":
    main()
