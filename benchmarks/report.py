"""Tables on the terminal, and the same rows as JSON under out/benchmarks."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

OUT = Path("out/benchmarks")
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "highspy",
    "cvxpy",
    "clarabel",
    "pymetis",
    "gymnasium",
    "rlberry",
    "minari",
    "h5py",
    "pyarrow",
    "torch",
    "stable-baselines3",
)


def write(name: str, rows: Sequence[dict[str, Any]], verdicts: dict[str, bool]) -> None:
    """Prints a table and its verdicts, and writes both with the versions they were measured with."""
    print_table(rows)
    for sentence, holds in verdicts.items():
        print(f"  {'holds ' if holds else 'MISSED'}  {sentence}")
    OUT.mkdir(parents=True, exist_ok=True)
    document = {"rows": list(rows), "verdicts": verdicts, "versions": versions()}
    (OUT / f"{name}.json").write_text(json.dumps(document, indent=1, default=str) + "\n")


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows with the columns of the first, aligned."""
    columns = list(rows[0])
    cells = [[text(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(c), *(len(line[k]) for line in cells)) for k, c in enumerate(columns)]
    for line in [columns, *cells]:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def text(value: Any) -> str:
    """Returns a number with four digits; everything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
