"""What does an audit of 10^7 transitions cost? Beside it: reading the file, and `numpy.bincount`.

Both read the same Parquet file in one process, in turn, the least of five runs each; the audit is whole:
counts, figures, best achievable, certificate, error bars, verdict. From 200,000 pairs on an audit leaves the
best and the certificate out unless asked. Memory is what a fresh process grows by at most during its first
audit of the file, after one of its first rows that loads everything.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report

STEPS, FACTOR, ACTIONS, RUNS = 10_000_000, 5.0, 4, 5
COLUMNS = ["s", "a", "s_next", "done"]
SIDES = {"lake, 64 states": 8, "lake, 99,856 states": 316}
COLUMNS_MB = 25 * STEPS / 2**20  # three int64 and a flag a row
SHARE = 0.25  # of the columns that an audit may grow by, to be said not to hold them
FIRST_ROWS = 2**18


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(name, Path(folder)) for name in SIDES]
    verdicts = {
        f"{row['case']}: audit / (read + bincount) is {row['ratio']:.2f} (<= {FACTOR:g})": row["ratio"]
        <= FACTOR
        for row in rows
    }
    small = rows[0]["audit MB"]
    most = SHARE * COLUMNS_MB
    verdicts[f"{rows[0]['case']}: an audit grows by {small:.0f} MB (<= {most:.0f})"] = small <= most
    verdicts["the counts are those of bincount"] = all(row["exact"] for row in rows)
    report.write("audit_speed", rows, verdicts)


def measured(name: str, folder: Path) -> dict[str, Any]:
    """Returns the row that a fresh process prints about one file."""
    path = folder / f"{SIDES[name]}.parquet"
    write_lake(path, SIDES[name])
    command = [sys.executable, "-m", "tools.bars.audit_speed", str(path), str(SIDES[name])]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"case": name, **json.loads(found)}


def write_lake(path: Path, side: int) -> None:
    """Writes a walk on a lake, and its first rows beside it."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = pa.table(lake(side, STEPS))
    parquet.write_table(table, path)
    parquet.write_table(table[:FIRST_ROWS], path.with_suffix(".first.parquet"))


def lake(side: int, num_steps: int) -> dict[str, np.ndarray]:
    """Returns a uniformly random walk on a slippery square without borders; some visits to its corner end."""
    rng = np.random.default_rng(side)
    actions = rng.integers(0, ACTIONS, num_steps)
    ways = (actions + rng.choice([-1, 0, 1], num_steps, p=[0.1, 0.8, 0.1])) % ACTIONS
    rows = np.cumsum(np.array([0, 1, 0, -1])[ways]) % side
    columns = np.cumsum(np.array([1, 0, -1, 0])[ways]) % side
    states = np.append(0, rows * side + columns)
    done = (states[1:] == 0) & (rng.random(num_steps) < 0.5)  # the corner is also where episodes begin
    return {"s": states[:-1], "a": actions, "s_next": states[1:], "done": done}


def one(path: Path, side: int) -> dict[str, Any]:
    """Measures an audit beside its yardstick."""
    from rhocover.datasets import audit, read_tally

    audit(path.with_suffix(".first.parquet"))  # loads what was compiled before
    growth = grown(lambda: audit(path))
    work = {
        "read + bincount s": lambda: yardstick(path, side),
        "counts s": lambda: read_tally(path),
        "audit s": lambda: audit(path),
    }
    times = {name: min(runs) for name, runs in report.in_turn(work, RUNS).items()}
    ratio = times["audit s"] / times["read + bincount s"]
    seen = audit(path)
    exact = np.array_equal(seen.counts.ravel(), yardstick(path, side))
    best = "-" if seen.best is None else f"{seen.best_worst_ratio:.4g}"
    figures = {"exact": exact, "worst ratio": seen.worst_ratio, "best": best}
    return {"steps": STEPS, **times, "ratio": ratio, "audit MB": growth, **figures}


def yardstick(path: Path, side: int) -> Any:
    """Returns the counts of pairs, in as few words as possible."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=COLUMNS)
    pairs = table["s"].to_numpy() * ACTIONS + table["a"].to_numpy()
    return np.bincount(pairs, minlength=side * side * ACTIONS)


def grown(work: Callable[[], Any]) -> float:
    """Returns how much more memory than now this process holds at most during some work, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak begins anew
    before = peak()
    work()
    return peak() - before


def peak() -> float:
    """Returns the most memory that this process has held, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


if __name__ == "__main__":
    print(json.dumps(one(Path(sys.argv[1]), int(sys.argv[2]))))
