"""The same tally on local processes, Dask and Ray, in 1, 4 and 20 ranges; and what an engine costs.

2*10^7 rows of a random walk in one Parquet file with 20 groups of rows. Processor time is that of all
processes of a network of their own, in which only loopback exists (so it needs Linux): those of the driver
and of whatever the engine starts. From it is subtracted what the engine takes to start, where each worker
makes one empty call. Beside it stands one process that counts the same file without an engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from tools.bars.tally import walk

ROWS, GROUPS, FACTOR, WORKERS = 20_000_000, 20, 1.5, 2
RANGES = (1, 4, 20)
ENGINES = {"process": "concurrent.futures", "dask": "distributed", "ray": "ray"}
ALONE = "tests/cluster/loopback.py"  # runs a script with loopback alone


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.parquet"
        write_file(path)
        plain = measured("here", path, 0)
        rows = [row_of(name, path, number, plain) for name in there() for number in RANGES]
    verdicts = {
        f"{name}: not measured, it is not installed": False for name in ENGINES if name not in there()
    }
    same = {row["digest"] for row in rows} == {plain["digest"][:16]}
    verdicts[f"the same SHA-256 everywhere: {plain['digest'][:16]}"] = same
    for name in there():
        ratio = max(row["of one process"] for row in rows if row["engine"] == name)
        verdicts[f"{name}: at most {ratio:.2f} of the time of one process (<= {FACTOR:g})"] = ratio <= FACTOR
    report.write("engines", rows, verdicts)


def there() -> list[str]:
    return [name for name, package in ENGINES.items() if name == "process" or not report.absent(package)]


def row_of(name: str, path: Path, number: int, plain: dict[str, Any]) -> dict[str, Any]:
    found, empty = measured(name, path, number), measured(name, path, -1)
    own = found["cpu s"] - empty["cpu s"]
    return {
        "engine": name,
        "ranges": number,
        "digest": found["digest"][:16],
        "cpu s": found["cpu s"],
        "its start": empty["cpu s"],
        "of one process": own / (plain["cpu s"] - measured("here", path, -1)["cpu s"]),
    }


def write_file(path: Path) -> None:
    """Writes a walk of uniformly random actions as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    columns, _ = walk(np.random.default_rng(0), (0, 0), ROWS)
    parquet.write_table(pa.table(columns), path, row_group_size=ROWS // GROUPS)


def measured(name: str, path: Path, number: int) -> dict[str, Any]:
    """Returns what a process of its own prints, in a network of its own; -1 ranges are empty calls."""
    command = [sys.executable, ALONE, "-m", "tools.bars.engines", name, str(path), str(number)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


# What the process does.


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """Opens an engine of two workers."""
    import rhocover as rc

    if name == "here":
        yield None
    elif name == "process":
        with rc.engines.process(WORKERS) as engine:
            yield engine
    elif name == "ray":
        with rc.engines.ray("local") as engine:
            yield engine
    else:
        from distributed import Client  # pyright: ignore[reportMissingImports]

        with Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as client:
            yield client.get_executor()


def nothing(number: int) -> int:
    """Loads what counting needs, and counts nothing."""
    from rhocover.datasets import ranges  # noqa: F401

    return number


def work(name: str, path: Path, number: int) -> dict[str, Any]:
    """Counts the file, or makes empty calls; returns the digest and the processor time of everything."""
    from rhocover.datasets import read_tally
    from rhocover.datasets.ranges import read_ranges
    from rhocover.datasets.read_options import ReadOptions

    with opened(name) as engine:
        found = ""
        if number < 0 and engine is not None:
            for future in [engine.submit(nothing, k) for k in range(WORKERS)]:
                future.result()
        elif number == 0:
            found = read_tally(path).digest()
        elif number > 0:
            found = read_ranges(path, ReadOptions(executor=engine), ROWS // number).tally.digest()
        return {"digest": found, "cpu s": processor_time()}


def processor_time() -> float:
    """Returns the seconds that all processes of this network took, and those of theirs that have ended."""
    own, ticks = os.readlink("/proc/self/ns/net"), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "ns" / "net") == own:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # user, system, and the same of children that ended
        except OSError:  # it has just ended
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(json.dumps(work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
