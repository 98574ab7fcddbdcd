"""The command line: `bars`, `peers` and `page`.

- `python -m benchmarks bars [NAME ...]`: one question each, with a bar that must hold.
- `python -m benchmarks peers [--short] [NAME ...]`: beside other libraries; writes docs/benchmarks.
- `python -m benchmarks page`: docs/benchmarks.md and its pictures again, from what was measured.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks import page
from benchmarks.peers import NAMES as PEERS

BARS = (
    "imports", "right", "fast", "large", "explorers", "worst_case", "acting", "unknown", "learning",
    "discovery", "model_error", "certificates", "near_reducible", "audit_speed", "collecting", "environments",
)  # fmt: skip
BY_NAME = ("ppo", "rlberry_yardstick")  # the first needs torch, the second is a search: run when named
SHORT = Path("out/benchmarks/short")


def main(arguments: list[str] | None = None) -> None:
    """Runs what the arguments name."""
    asked = _parser().parse_args(arguments)
    if asked.command == "bars":
        bars(asked.names)
    elif asked.command == "peers":
        peers(asked.names, asked.short)
    else:
        page.draw_pictures(page.DOCS)
        page.write_page(page.DOCS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measures this library.")
    commands = parser.add_subparsers(dest="command", required=True)
    named = commands.add_parser("bars", help="one question each, with a bar that must hold")
    named.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*BARS, *BY_NAME)))
    beside = commands.add_parser("peers", help="side by side with other libraries; writes docs/benchmarks")
    beside.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    beside.add_argument("--short", action="store_true", help=f"seconds each, written to {SHORT}")
    commands.add_parser("page", help="docs/benchmarks.md and its pictures again, from what was measured")
    return parser


def bars(names: list[str]) -> None:
    """Runs the bars named, or all."""
    for name in _known(names, (*BARS, *BY_NAME)) or BARS:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.run()


def peers(names: list[str], short: bool = False) -> None:
    """Measures the comparisons named, or all, and writes what was found, the pictures and the page."""
    docs = SHORT if short else page.DOCS
    for name in _known(names, PEERS) or PEERS:
        module = importlib.import_module(f"benchmarks.peers.{name}")
        print(f"{name}: {module.QUESTION}", flush=True)
        result = module.measure(short)
        page.store(name, module, result, docs)
        print("  " + page.standing(result), flush=True)
    page.write_page(docs)


def _known(names: list[str], known: tuple[str, ...]) -> list[str]:
    wrong = [name for name in names if name not in known]
    if wrong:
        raise SystemExit(f"unknown benchmark {wrong[0]!r}. Known: {', '.join(known)}.")
    return names


if __name__ == "__main__":
    main()
