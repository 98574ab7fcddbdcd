"""How numbers are written: tables on the terminal, Markdown for pages, JSON with versions and machine.

A bar (`python -m tools.bars`) prints its rows and verdicts and keeps them under out/benchmarks. A
comparison with a peer (`python -m benchmarks peers`) is kept by `page`, in the words and numbers of here.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

OUT = Path("out/benchmarks")
PACKAGES = (
    "rhocover", "numpy", "scipy", "numba", "highspy", "cvxpy", "clarabel", "scs", "pymetis", "quantecon",
    "mdpsolver", "gymnasium", "rlberry", "pandas", "minari", "h5py", "pyarrow", "torch", "stable-baselines3",
)  # fmt: skip
INSTALL = {"rlberry": "pip install 'rlberry>=0.6,<0.7'"}
LARGE, TINY = 1e9, 1e-4  # numbers beyond have an exponent
SMALL = 0.1  # a ratio below is written as a fraction
TIMES = "\N{MULTIPLICATION SIGN}"
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


# Bars.


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


# Where and with what.


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def machine() -> dict[str, str]:
    """Returns the processor, its cores, the memory and the system, as far as the system tells."""
    memory = _proc_field("/proc/meminfo", "MemTotal")
    cores = os.cpu_count() or 1
    return {
        "processor": _proc_field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(cores),
        "memory": f"{int(memory.split()[0]) / 2**20:.0f} GB" if memory else "unknown",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _proc_field(path: str, field: str) -> str:
    """Returns the value of a field of a file of /proc, empty where there is none."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def absent(package: str) -> str | None:
    """Returns the line that installs a package, or None where it is installed."""
    if importlib.util.find_spec(package) is not None:
        return None
    return INSTALL.get(package, f"pip install {package}")


def in_turn(
    work: dict[str, Callable[[], Any]], runs: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Returns the seconds of each run of each work; one after the other, so that a busy machine is fair.

    With `clock=time.process_time` they are those of the processor, of all threads together.
    """
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(runs):
        for name, call in work.items():
            began = clock()
            call()
            found[name].append(clock() - began)
    return found


# Markdown.


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, words: int = 0
) -> str:
    """Returns a table; the first `left` columns and the last `words` are flush left, the others right."""
    last = len(columns) - words
    rule = ["---" if k < left or k >= last else "---:" for k in range(len(columns))]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in [columns, rule, *rows])


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", " ")


def number(value: float | None, digits: int = 3) -> str:
    """Returns a number with so many digits, thousands set apart; "-" for none."""
    if value is None:
        return "-"
    value = float(f"{value:.{digits - 1}e}")
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return f"{value:g}"
    if size >= LARGE or size < TINY:
        return f"{value:.{max(digits - 2, 0)}e}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"


def seconds(value: float | None) -> str:
    """Returns a duration in the unit in which it is readable."""
    if value is None:
        return "-"
    size, unit = next(((size, unit) for size, unit in UNITS if value >= size), UNITS[-1])
    return f"{number(value / size)} {unit}"


def times(value: float | None) -> str:
    """Returns a ratio as it is spoken: 3.4 times; far below one as a fraction, 1/25."""
    if value is None:
        return "-"
    return f"1/{number(1 / value)}" if 0 < value < SMALL else f"{number(value)}{TIMES}"


def spread(mean: float | None, error: float | None, digits: int = 4) -> str:
    """Returns a mean with its standard error behind it."""
    if mean is None or error is None:
        return number(mean, digits)
    return f"{number(mean, digits)} ± {number(error, 1)}"


# Who is ahead.


def verdict(row: dict[str, Any]) -> str:
    """Returns how a row of a comparison stands: "ahead", "behind", "even", or "failed" for the peer."""
    if row.get("failure"):
        return "failed"
    if "verdict" in row:
        return row["verdict"]
    ratio = row["ratio"]
    return "ahead" if ratio > 1 else "behind" if ratio < 1 else "even"


def mark(row: dict[str, Any]) -> str:
    """Returns what a table prints beside a row: nothing where we are ahead."""
    return {"ahead": "", "behind": "**behind**", "even": "even", "failed": "peer failed"}[verdict(row)]
