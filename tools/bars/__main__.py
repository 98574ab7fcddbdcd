"""The command line: `python -m tools.bars [NAME ...]` runs the bars named, or all."""

from __future__ import annotations

import argparse
import importlib

from benchmarks.__main__ import known

BARS = (
    "imports", "right", "fast", "large", "explorers", "worst_case", "acting", "unknown", "learning",
    "discovery", "model_error", "certificates", "near_reducible", "audit_speed", "tally", "collecting",
    "environments", "code_speed", "random_mazes", "actors", "cover",
)  # fmt: skip
BY_NAME = (
    "engines",
    "ppo",
    "codes",
    "density_speed",
    "rlberry_yardstick",
)  # run when named: torch, Ray, and a search


def main(arguments: list[str] | None = None) -> None:
    """Runs what the arguments name."""
    parser = argparse.ArgumentParser("python -m tools.bars", description="Says which bars are held.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*BARS, *BY_NAME)))
    for name in known(parser.parse_args(arguments).names, (*BARS, *BY_NAME)) or BARS:
        module = importlib.import_module(f"tools.bars.{name}")
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        module.run()


if __name__ == "__main__":
    main()
