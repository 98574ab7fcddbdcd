"""What does counting 5*10^7 transitions cost? Is the tally the same however they are divided? Ratios.

A random walk on a slippery square of 99,856 states is written as Parquet parts. Every figure is processor
time of all threads in a fresh process, after the first rows have loaded everything, the least of several
runs in turn; memory is what the process grows by at most. The yardsticks: the commit before counting was
compiled, from a worktree of this repository; `numpy.bincount` of the pairs, which counts no transitions and
checks nothing; and the same counts, of (s, a, s_next, done), by DuckDB, Polars and pyarrow. Of small audits
the certificate is shown separately: it is computed when it is asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from tools.bars.audit_speed import grown

STEPS, SIDE, ACTIONS, PART, RUNS = 50_000_000, 316, 4, 5_000_000, 2
BEFORE = "f72ae8e"  # the last commit whose tallies were counted by NumPy
SHARE, BINCOUNTS, SCRIPTS = 0.6, 4.0, 2.0  # the bars
COLUMNS = ["s", "a", "s_next", "done"]
PIECE = 2**17
ENGINES = ("duckdb", "polars", "pyarrow")
RANGES = (1, 4, 20)
IN_MEMORY = ("kernel", "bincount", "bincount in pieces")
SMALL = 100_000


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = Path(folder) / "parts"
        write_parts(parts)
        rows = [*_kernels(parts, Path(folder)), *_readers(parts)]
        digests = {name: _measured(name, parts) for name in _ways()}
    report.write("tally", rows, {**_verdicts(rows), **_same(digests), **small_audits()})


def write_parts(folder: Path) -> None:
    """Writes a walk of uniformly random actions as Parquet parts."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir()
    rng, place = np.random.default_rng(0), (0, 0)
    for k in range(STEPS // PART):
        columns, place = walk(rng, place, PART)
        parquet.write_table(pa.table(columns), folder / f"part-{k}.parquet")


def walk(rng: Any, place: tuple[int, int], num_steps: int) -> tuple[dict[str, np.ndarray], tuple[int, int]]:
    """Returns steps from a place on a slippery square without borders, and where they led."""
    actions = rng.integers(0, ACTIONS, num_steps)
    ways = (actions + rng.choice([-1, 0, 1], num_steps, p=[0.1, 0.8, 0.1])) % ACTIONS
    rows = (place[0] + np.cumsum(np.array([0, 1, 0, -1])[ways])) % SIDE
    columns = (place[1] + np.cumsum(np.array([1, 0, -1, 0])[ways])) % SIDE
    states = np.append(place[0] * SIDE + place[1], rows * SIDE + columns)
    done = (states[1:] == 0) & (rng.random(num_steps) < 0.5)  # the corner is also where episodes begin
    found = {"s": states[:-1], "a": actions, "s_next": states[1:], "done": done}
    return found, (int(rows[-1]), int(columns[-1]))


# Figures of fresh processes.


def _measured(name: str, parts: Path, source: str = "src") -> dict[str, Any]:
    """Returns what a fresh process prints about one way of counting, with the package in `source`."""
    path = os.pathsep.join([str(Path(source).resolve()), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "tools.bars.tally", name, str(parts)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def _least(name: str, parts: Path, source: str = "src") -> dict[str, Any]:
    found = [_measured(name, parts, source) for _ in range(RUNS)]
    return {"case": name, **{key: min(one[key] for one in found) for key in ("cpu s", "MB")}}


def _kernels(parts: Path, folder: Path) -> list[dict[str, Any]]:
    """Measures counting of columns in memory: today's, that of the commit before, and bincount."""
    before = folder / "before"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(before), BEFORE], check=True)
    try:
        rows = [_least("kernel", parts, str(before / "src"))]
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(before)], check=True)
    rows[0]["case"] = "kernel before"
    return [*rows, *(_least(name, parts) for name in IN_MEMORY)]


def _readers(parts: Path) -> list[dict[str, Any]]:
    """Measures counting of the files, beside the engines that are installed."""
    there = [name for name in ENGINES if not report.absent(name)]
    return [_least(name, parts) for name in ("read_tally", *there)]


def _verdicts(rows: list[dict[str, Any]]) -> dict[str, bool]:
    by_name = {row["case"]: row for row in rows}
    ours, before, read = by_name["kernel"], by_name["kernel before"], by_name["read_tally"]
    found = {}
    for unit in ("cpu s", "MB"):
        ratio = ours[unit] / before[unit]
        found[f"kernel / kernel before, {unit}: {ratio:.2f} (<= {SHARE:g})"] = ratio <= SHARE
    for name in IN_MEMORY[1:]:
        ratio = ours["cpu s"] / by_name[name]["cpu s"]
        found[f"kernel / {name}: {ratio:.1f} (<= {BINCOUNTS:g})"] = ratio <= BINCOUNTS
    for name in ENGINES:
        if name in by_name:
            ratio = read["cpu s"] / by_name[name]["cpu s"]
            found[f"read_tally / {name}: {ratio:.2f} (< 1)"] = ratio < 1
        else:
            found[f"read_tally / {name}: not measured, {name} is not installed"] = False
    return found


# What is measured: a function of the folder of parts, and one that does it.


def _columns(parts: Path) -> list[np.ndarray]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(parts, columns=COLUMNS)
    return [table[name].to_numpy() for name in COLUMNS]


def count_columns(columns: list[np.ndarray], first_row: int | None = None) -> Any:
    """Counts columns in memory, piece by piece, as a reader of files would."""
    from rhocover.datasets import Tallier

    size = columns[0].size
    tallier = Tallier(num_steps=size, **({} if first_row is None else {"first_row": first_row}))
    for row in range(0, size, PIECE):
        tallier.add(*(column[row : row + PIECE] for column in columns))
    return tallier


def kernel(columns: list[np.ndarray]) -> Any:
    """Returns the tally of columns in memory."""
    return count_columns(columns).tally()


def bincount(columns: list[np.ndarray]) -> Any:
    """Counts the pairs."""
    return np.bincount(columns[0] * ACTIONS + columns[1], minlength=SIDE * SIDE * ACTIONS)


def bincount_in_pieces(columns: list[np.ndarray]) -> Any:
    """Counts the pairs piece by piece: nothing larger than a piece is ever written."""
    total = np.zeros(SIDE * SIDE * ACTIONS, np.int64)
    for row in range(0, columns[0].size, PIECE):
        total += bincount([column[row : row + PIECE] for column in columns])
    return total


def with_duckdb(parts: Path) -> Any:
    """Counts (s, a, s_next, done) in SQL."""
    import duckdb  # pyright: ignore[reportMissingImports]

    query = f"select s, a, s_next, done, count(*) from '{parts}/*.parquet' group by all"
    return duckdb.sql(query).arrow()


def with_polars(parts: Path) -> Any:
    """Counts (s, a, s_next, done) lazily."""
    import polars

    return polars.scan_parquet(str(parts / "*.parquet")).group_by(COLUMNS).len().collect()


def with_pyarrow(parts: Path) -> Any:
    """Counts (s, a, s_next, done) of the whole table."""
    import pyarrow.parquet as parquet

    return parquet.read_table(parts).group_by(COLUMNS).aggregate([([], "count_all")])


def with_rhocover(parts: Path) -> Any:
    """Counts everything that a tally has."""
    from rhocover.datasets import read_tally

    return read_tally(parts)


WORK: dict[str, Callable[[Any], Any]] = {
    "kernel": kernel,
    "bincount": bincount,
    "bincount in pieces": bincount_in_pieces,
    "read_tally": with_rhocover,
    "duckdb": with_duckdb,
    "polars": with_polars,
    "pyarrow": with_pyarrow,
}


def one(name: str, parts: Path) -> dict[str, Any]:
    """Measures one way of counting, after it has counted the first rows of the first part."""
    given: Any = parts
    if name in IN_MEMORY:
        given = _columns(parts)
        WORK[name]([column[: 2 * PIECE] for column in given])
    taken: list[float] = []

    def work() -> None:
        began = time.process_time()
        WORK[name](given)
        taken.append(time.process_time() - began)

    if given is parts:
        import pyarrow.parquet as parquet

        with tempfile.TemporaryDirectory() as folder:
            parquet.write_table(parquet.read_table(parts / "part-0.parquet")[:PIECE], f"{folder}/0.parquet")
            WORK[name](Path(folder))
    return {"MB": grown(work), "cpu s": taken[-1]}


# The same tally, however it is divided.


def _ways() -> list[str]:
    pools = ["processes"] if report.absent("distributed") else ["processes", "dask"]
    return [*(f"{number} ranges" for number in RANGES), *pools]


def digest(name: str, parts: Path) -> dict[str, Any]:
    """Returns the digest of the tally: of one pass, of so many ranges that are merged, or by a pool."""
    from rhocover.datasets import merged

    if not name.endswith("ranges"):
        return {"digest": _pooled(name, parts)}
    columns, number = _columns(parts), int(name.split()[0])
    cuts = [STEPS * k // number for k in range(number + 1)]
    found = [count_columns([c[begin:end] for c in columns], begin) for begin, end in pairwise(cuts)]
    return {"digest": merged([one.partial() for one in found]).tally().digest()}


def _pooled(name: str, parts: Path) -> str:
    from rhocover.datasets import read_tally

    if name == "processes":
        with ProcessPoolExecutor(2) as pool:
            return read_tally(parts, executor=pool).digest()
    from distributed import Client  # pyright: ignore[reportMissingImports]

    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        return read_tally(parts, executor=client.get_executor()).digest()


def _same(digests: dict[str, Any]) -> dict[str, bool]:
    found = {one["digest"] for one in digests.values()}
    return {f"one SHA-256 from {', '.join(digests)}: {min(found)[:16]}": len(found) == 1}


# Small audits.


def small_audits() -> dict[str, bool]:
    """Measures an audit of 10^5 rows, with and without its certificate, beside a script with CVXPY."""
    from benchmarks.peers.audit import ARRAYS, SIDE, lake, long_script
    from rhocover.datasets import audit

    data = lake(SIDE, SMALL)
    work = {
        "audit": lambda: audit(data),
        "with its certificate": lambda: audit(data, certificate=True),
        "script": lambda: long_script(ARRAYS, data),
    }
    taken = {name: min(runs[1:]) for name, runs in report.in_turn(work, 8, time.process_time).items()}
    ratio, sure = (taken[name] / taken["script"] for name in ("audit", "with its certificate"))
    words = f"audit of {SMALL:,} rows / NumPy + CVXPY script: {ratio:.2f} (<= {SCRIPTS:g})"
    return {f"{words}; with its certificate {sure:.1f}": ratio <= SCRIPTS}


if __name__ == "__main__":
    print(json.dumps((one if sys.argv[1] in WORK else digest)(sys.argv[1], Path(sys.argv[2]))))
