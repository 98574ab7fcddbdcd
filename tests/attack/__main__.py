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
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from telling import Results, exit_code, table, told
from working import GROUPS, HERE


def main() -> int:
    asked = arguments()
    began = time.monotonic()
    results = attack(asked)
    print(table(results))
    minutes, used = (time.monotonic() - began) / 60, resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = (used.ru_utime + used.ru_stime) / 60 / minutes
    print(
        f"seed {asked.seed}, {asked.workers} processes, {minutes:.1f} minutes with {cores:.2f} cores at work"
    )
    return exit_code(results)


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
            for line in told(found, seed):
                print(line, flush=True)

    listener = threading.Thread(target=listen)
    listener.start()
    return process, listener


if __name__ == "__main__":
    sys.exit(main())
