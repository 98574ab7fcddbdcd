"""What does `import rhocover` cost beside `import numpy, scipy.sparse`? Fresh processes, in turns."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks import report

ROUNDS = 15


def run() -> None:
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(seconds("import numpy, scipy.sparse"))
        ours.append(seconds("import rhocover"))
    row = {
        "import rhocover s": statistics.median(ours),
        "import numpy, scipy.sparse s": statistics.median(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
    }
    report.write("imports", [row], {f"ratio {row['ratio']:.2f} <= 1.5": row["ratio"] <= 1.5})


def seconds(statement: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - began
