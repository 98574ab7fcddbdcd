"""Attacks everything with new seeds: `python tests/attack --minutes 10 [--seed 1] [GROUP ...]`.

deaths        processes killed while they write, at random instants and operations, until they come to their end
faults        disks that fail at an operation, or are full from there on
files         damaged and hostile files for every reader
environments  environments that break Gymnasium's contract
processes     commands in odd surroundings: no home, closed streams, limits, signals
races         two processes with one folder, folders that go away

A case that went wrong is printed with its number: `python tests/attack GROUP --seed SEED --case NUMBER` runs it again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from working import GROUPS, HERE

Results = list[dict[str, Any]]


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    results = attack(asked)
    print(table(results))
    print(f"seed {asked.seed}, {asked.workers} processes, {(time.monotonic() - began) / 60:.1f} minutes")
    return 1 if any(found["wrong"] for found in results) else 0


def arguments() -> Any:
    parser = argparse.ArgumentParser(
        prog="python tests/attack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="how to attack; all by default")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="other cases; a new one by default")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="one for each core")
    parser.add_argument("--cases", type=int, help="so many of each group, instead of minutes")
    parser.add_argument("--case", type=int, help="this one alone")
    asked = parser.parse_args()
    if asked.seed is None:
        asked.seed = time.time_ns() % 10**6
    return asked


def attack(asked: Any) -> Results:
    """Returns what every case found; tells what is wrong as it comes."""
    results: Results = []
    words: dict[str, Any] = {"seed": asked.seed, "groups": asked.groups or list(GROUPS)}
    if asked.case is not None:
        asked.workers, words["case"] = 1, asked.case
    elif asked.cases is not None:
        words["cases"] = asked.cases
    else:
        words["seconds"] = 60 * asked.minutes
    began = [
        begin(words | {"worker": k, "workers": asked.workers}, asked.seed, results)
        for k in range(asked.workers)
    ]
    for process, listener in began:
        listener.join()
        if process.wait():
            results.append({"row": "the attack itself", "name": "a process", "tried": 1, "wrong": ["died"]})
    return results


def begin(words: dict[str, Any], seed: int, results: Results) -> tuple[Any, threading.Thread]:
    """Begins one process; returns it, and the thread that takes down what it finds."""
    process = subprocess.Popen(
        [sys.executable, str(Path(HERE, "working.py")), json.dumps(words)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"},
    )  # fmt: skip

    def listen() -> None:
        for line in process.stdout or ():
            found = json.loads(line)
            results.append(found)
            for text in found["wrong"]:
                again = f"{found['group']} --seed {seed} --case {found['number']}"
                print(f"WRONG {again}: {found['name']}: {text}", flush=True)

    listener = threading.Thread(target=listen)
    listener.start()
    return process, listener


def table(results: Results) -> str:
    """Returns the table: kind, how often tried, and in how many cases something was wrong."""
    tried: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for found in results:
        tried[found["row"]] += found["tried"]
        wrong[found["row"]] += bool(found["wrong"])
    total = ("all deaths", sum(n for row, n in tried.items() if row.startswith("deaths:")))
    lines = [f"{'kind':40} {'tried':>8} {'wrong':>8}"]
    lines += [f"{row:40} {tried[row]:8} {wrong[row]:8}" for row in sorted(tried)]
    lines += [f"{total[0]:40} {total[1]:8}"] if total[1] else []
    return "\n".join([*lines, f"{'all':40} {sum(tried.values()):8} {sum(wrong.values()):8}"])


if __name__ == "__main__":
    sys.exit(main())
