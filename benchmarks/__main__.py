"""Runs the benchmarks named on the command line, or all."""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "imports", "right", "fast", "large", "explorers", "worst_case", "acting", "unknown", "learning",
    "discovery", "model_error", "certificates", "audit_speed", "collecting", "environments",
)  # fmt: skip
TORCH = ("ppo",)  # needs Stable-Baselines3, which is in no lock of the benchmarks: run by name


def main(names: list[str]) -> None:
    for name in names or NAMES:
        if name not in (*NAMES, *TORCH):
            raise SystemExit(f"unknown benchmark {name!r}. Known: {', '.join((*NAMES, *TORCH))}.")
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(module.__doc__ or '').splitlines()[0]}")
        module.run()


if __name__ == "__main__":
    main(sys.argv[1:])
