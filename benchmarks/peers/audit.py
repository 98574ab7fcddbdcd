"""Auditing a data set: beside the script that one writes instead, in NumPy and in pandas.

The short scripts count the pairs and say the worst ratio and D_2 under even weights. They do it in their best
form: they read only the two columns they need. An audit reads all four, checks them, counts transitions as
well, and then finds the best that the data's own model allows, the gap to it, error bars for the shares and
a sentence, so where a script is faster the table says so, and counting alone is compared, too. The
certificate of an audit is computed when it is read; here it is not.
The long script asks for the best, as well: it counts transitions in NumPy and solves for it with CVXPY. It
still checks nothing, certifies nothing and has no error bars.

Times are processor time of all threads, the least of several runs in turn. Memory is what a fresh process
grows by at most during the work, after the same work on the first rows has loaded everything; the arrays
themselves are there before.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.peers.pictures import bars_figure
from rhocover.datasets import audit, read_tally
from rhocover.report.figures import save_figure
from tools.bars.audit_speed import ACTIONS, grown, lake

TITLE = "Audit"
QUESTION = "What does it cost to know what a data set covers?"
SIZES, SHORT_SIZES = (10**5, 10**6, 10**7), (10**4,)
RUNS, SHORT_RUNS = 3, 2
SIDE, FIRST_ROWS = 8, 2**14
ARRAYS, NPZ, PARQUET = "arrays", "NPZ", "Parquet"
NUMPY, PANDAS, LONG = "NumPy script", "pandas script", "NumPy + CVXPY script"
SECONDS, COUNTING, MEMORY = "seconds", "seconds to count", "MB of memory"
WHY = "an audit also reads and checks all columns, finds the best achievable, and gives error bars"
WHY_LONG = "an audit also checks all columns and gives error bars"
WHY_COUNTING = "all four columns are read and checked, and transitions are counted, too"
WHY_MEMORY = "whole columns are read, and an audit reads four of them where a script reads two"
PICTURE = "audit_seconds.svg"

Figures = tuple[np.ndarray, float, float, float]  # counts of pairs, worst ratio, D_2, the best D_2 or nan


def measure(short: bool = False) -> dict[str, Any]:
    """Returns times for each size and source, memory for the largest, and how far the numbers differ."""
    sizes, runs = (SHORT_SIZES, SHORT_RUNS) if short else (SIZES, RUNS)
    missing = {name: line for name in ("pandas", "pyarrow", "cvxpy") if (line := report.absent(name))}
    sources = [kind for kind in (ARRAYS, NPZ, PARQUET) if kind != PARQUET or "pyarrow" not in missing]
    peers = {NUMPY: numpy_script} | ({} if "pandas" in missing else {PANDAS: pandas_script})
    longer = {} if "cvxpy" in missing else {LONG: long_script}
    rows: list[dict[str, Any]] = []
    differences: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            files = write_all(Path(folder), size, sources)
            for kind, data in files.items():
                rows += _timed(size, kind, data, peers | longer, runs)
                differences += [difference(kind, data, script) for script in (peers | longer).values()]
        for kind in sources[-1:] if short else sources:
            rows += _memory(sizes[-1], kind, Path(folder), peers)
    settings = {"runs": runs, "pairs": SIDE * SIDE * ACTIONS, "difference": max(differences)}
    return {"rows": rows, **settings} | ({"absent": missing} if missing else {})


def write_all(folder: Path, size: int, sources: list[str]) -> dict[str, Any]:
    """Writes a walk on a lake of 64 states to every kind of file; returns what each work is given."""
    walk = lake(SIDE, size)
    for stem, columns in (("data", walk), ("first", {name: x[:FIRST_ROWS] for name, x in walk.items()})):
        np.savez(folder / f"{stem}.npz", **columns)
        if PARQUET in sources:
            import pyarrow as pa
            import pyarrow.parquet as parquet

            parquet.write_table(pa.table(columns), folder / f"{stem}.parquet")
    given = {ARRAYS: walk, NPZ: folder / "data.npz", PARQUET: folder / "data.parquet"}
    return {kind: given[kind] for kind in sources}


# What people write.


def numpy_script(kind: str, data: Any) -> Figures:
    """Counts pairs with bincount."""
    if kind == PARQUET:
        import pyarrow.parquet as parquet

        table = parquet.read_table(data, columns=["s", "a"])
        s, a = table["s"].to_numpy(), table["a"].to_numpy()
    elif kind == NPZ:
        with np.load(data) as file:
            s, a = file["s"], file["a"]
    else:
        s, a = data["s"], data["a"]
    counts = np.bincount(s * ACTIONS + a, minlength=SIDE * SIDE * ACTIONS)
    ratio = counts.sum() / counts.size / counts
    return counts, float(ratio.max()), math.log(float(ratio.mean())), math.nan


def pandas_script(kind: str, data: Any) -> Figures:
    """Counts pairs with groupby."""
    import pandas as pd

    if kind == PARQUET:
        frame = pd.read_parquet(data, columns=["s", "a"])
    elif kind == NPZ:
        with np.load(data) as file:
            frame = pd.DataFrame({"s": file["s"], "a": file["a"]})
    else:
        frame = pd.DataFrame({"s": data["s"], "a": data["a"]}, copy=False)
    counts = frame.groupby(["s", "a"]).size()
    ratio = counts.sum() / (SIDE * SIDE * ACTIONS) / counts
    return counts.sort_index().to_numpy(), float(ratio.max()), math.log(float(ratio.mean())), math.nan


def long_script(kind: str, data: Any) -> Figures:
    """Counts transitions, takes their shares for the model, and finds the best occupancy with CVXPY."""
    import cvxpy as cp

    s, a, s_next, done = _columns(kind, data)
    num_states = SIDE * SIDE
    n, pair = num_states * ACTIONS, s * ACTIONS + a
    moves = np.bincount(pair[~done] * num_states + s_next[~done], minlength=n * num_states)
    counts = np.bincount(pair, minlength=n)
    starts = np.bincount(s[np.flatnonzero(np.r_[True, done[:-1]])], minlength=num_states)
    ends = np.bincount(pair[done], minlength=n)
    P = (moves.reshape(n, num_states) + ends[:, None] * (starts / starts.sum())) / counts[:, None]
    x = cp.Variable(n)
    flow = np.repeat(np.eye(num_states), ACTIONS, axis=0).T - P.T
    cp.Problem(cp.Minimize(cp.sum(cp.inv_pos(x))), [flow @ x == 0, cp.sum(x) == n]).solve(solver="CLARABEL")
    ratio, best = counts.sum() / n / counts, 1 / np.asarray(x.value)
    return counts, float(ratio.max()), math.log(float(ratio.mean())), math.log(float(best.mean()))


def _columns(kind: str, data: Any) -> list[np.ndarray]:
    """Returns s, a, s_next and done."""
    names = ("s", "a", "s_next", "done")
    if kind == PARQUET:
        import pyarrow.parquet as parquet

        table = parquet.read_table(data, columns=list(names))
        return [table[name].to_numpy() for name in names]
    if kind == NPZ:
        with np.load(data) as file:
            return [file[name] for name in names]
    return [data[name] for name in names]


def difference(kind: str, data: Any, script: Callable[[str, Any], Figures]) -> float:
    """Returns the largest relative difference of a script's figures from ours; refuses other counts."""
    seen = audit(data)
    counts, worst_ratio, divergence, best = script(kind, data)
    if not np.array_equal(counts, seen.counts.ravel()):
        raise AssertionError("the counts of a script and of the audit differ.")
    if not math.isnan(best) and (seen.best is None or abs(best - seen.best.divergence) > 1e-6):
        raise AssertionError(f"the best is {best} for a script and {seen.best} for the audit.")
    return max(abs(worst_ratio / seen.worst_ratio - 1), abs(divergence / seen.divergence - 1))


# Measuring.


def _timed(size: int, kind: str, data: Any, peers: dict[str, Any], runs: int) -> list[dict[str, Any]]:
    work: dict[str, Callable[[], Any]] = {"audit": lambda: audit(data), "count": lambda: read_tally(data)}
    work |= {peer: partial(script, kind, data) for peer, script in peers.items()}
    found = report.in_turn(work, runs + 1, time.process_time)
    taken = {name: min(times[1:]) for name, times in found.items()}  # the first loads what was compiled
    return [
        _row(size, kind, peer, taken[ours], taken[peer], quantity, WHY_LONG if peer == LONG else why)
        for peer in peers
        for ours, quantity, why in (("audit", SECONDS, WHY), ("count", COUNTING, WHY_COUNTING))
        if (peer, quantity) != (LONG, COUNTING)
    ]


def _row(
    size: int, kind: str, peer: str, ours: float, theirs: float, quantity: str, why: str
) -> dict[str, Any]:
    found = {
        "case": f"{size:,} transitions, {kind}", "peer": peer, "quantity": quantity, "ours": ours,
        "theirs": theirs, "ratio": theirs / ours, "size": size, "source": kind,
    }  # fmt: skip
    return found | ({"why": why} if theirs < ours else {})


def _memory(size: int, kind: str, folder: Path, peers: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns rows of memory, none where the system does not tell."""
    found = {who: _grown(who, kind, folder) for who in ("audit", *peers)}
    if None in found.values():
        return []
    return [_row(size, kind, peer, found["audit"], found[peer], MEMORY, WHY_MEMORY) for peer in peers]  # type: ignore[arg-type]


def _grown(who: str, kind: str, folder: Path) -> float | None:
    """Returns by how many MB a fresh process grows."""
    command = [sys.executable, "-m", "benchmarks.peers.audit", who, kind, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout) if done.stdout.strip() != "None" else None


def _grow(who: str, kind: str, folder: Path) -> float | None:
    """Does some work on first rows, then on all; returns by how many MB this process grew, at least one."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    work: Callable[[Any], Any]
    work = audit if who == "audit" else partial({NUMPY: numpy_script, PANDAS: pandas_script}[who], kind)
    first, data = (_source(kind, folder, stem) for stem in ("first", "data"))
    work(first)
    return max(1.0, grown(lambda: work(data)))


def _source(kind: str, folder: Path, stem: str) -> Any:
    if kind == PARQUET:
        return folder / f"{stem}.parquet"
    path = folder / f"{stem}.npz"
    return path if kind == NPZ else dict(np.load(path))


# The page.


def section(result: dict[str, Any]) -> str:
    """Returns a table of times, one of memory, and whether the numbers are the same."""
    found = {(row["case"], row["peer"], row["quantity"]): row for row in result["rows"]}
    cases = list(dict.fromkeys(row["case"] for row in result["rows"]))
    peers = list(dict.fromkeys(row["peer"] for row in result["rows"]))
    parts = [
        f"A random walk over {result['pairs']} pairs. The short scripts count the pairs and compute the "
        "worst ratio and D₂; they read only the two columns needed for that. The long one also counts "
        "transitions and computes the best plan with CVXPY and Clarabel, without checks, certificate or "
        "error bars. An audit reads and checks all four columns, counts transitions, and computes the best "
        "plan of the estimated model, the gap, a certificate and error bars, at a cost that does not grow "
        "with the data. *To count* is the part that the short scripts do too. Times are processor time of "
        f"all threads, the minimum of {result['runs']} alternating runs.",
        "The figures are the same: all counts agree, and the largest relative difference is "
        f"{report.number(result['difference'], 2)}.",
    ]
    for quantities, write in (((SECONDS, COUNTING), report.seconds), ((MEMORY,), report.number)):
        lines = [
            line for case in cases for quantity in quantities
            if (line := _line(case, quantity, [found.get((case, x, quantity)) for x in peers], write))
        ]  # fmt: skip
        columns = [name for peer in peers for name in (peer, "ratio", "")]
        if lines:
            parts.append(report.markdown_table(["case", "of", "ours", *columns], lines, left=2))
    return "\n\n".join([*parts, f"![Seconds for each source and size](benchmarks/{PICTURE})"])


def _line(case: str, quantity: str, rows: list[dict[str, Any] | None], write: Any) -> list[str]:
    here = [row for row in rows if row is not None]
    if not here:
        return []
    cells = [cell for row in rows for cell in (
        ("", "", "") if row is None else (write(row["theirs"]), report.times(row["ratio"]), report.mark(row))
    )]  # fmt: skip
    return [case, quantity, write(here[0]["ours"]), *cells]


def _ordered(bars: dict[str, float]) -> dict[str, float]:
    """Returns the bars of each source together, ours first."""
    return dict(
        sorted(bars.items(), key=lambda x: (x[0].rpartition(" ")[2], not x[0].startswith("rhocover")))
    )


def draw(result: dict[str, Any], folder: Path) -> None:
    """Draws the seconds of everyone, a panel for each size."""
    panels: dict[str, dict[str, float]] = {}
    for row in sorted(result["rows"], key=lambda row: (row["size"], row["source"])):
        if row["quantity"] != MEMORY:
            bars = panels.setdefault(f"{row['size']:,} transitions", {})
            ours = "rhocover, all" if row["quantity"] == SECONDS else "rhocover, counts"
            bars[f"{ours}, {row['source']}"] = row["ours"]
            bars[f"{row['peer']}, {row['source']}"] = row["theirs"]
    panels = {size: _ordered(bars) for size, bars in panels.items()}
    figure = bars_figure(panels, "Auditing a data set", "time taken; less is better", report.seconds)
    save_figure(figure, folder / PICTURE, overwrite=True)


if __name__ == "__main__":
    print(_grow(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
