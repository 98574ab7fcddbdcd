"""A long run with new seeds: `python tests/fuzz --minutes 30 [--seed 1] [GROUP ...]`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

GROUPS = ("sealed", "runs", "collections", "minari", "tables", "commands")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="what to damage; all by default")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each round has the next one")
    asked = parser.parse_args()
    end, seed, count, wrong = time.monotonic() + 60 * asked.minutes, asked.seed, 0, 0
    while time.monotonic() < end:
        for group in asked.groups or GROUPS:
            tried, bad = one_round(group, seed)
            count, wrong = count + tried, wrong + bad
        print(f"seed {seed} done: {count} files so far, {wrong} wrong", flush=True)
        seed += 1
    return 1 if wrong else 0


def one_round(group: str, seed: int) -> tuple[int, int]:
    """Returns how many files were tried, and how many of them went wrong; shows those."""
    command = [sys.executable, str(Path(__file__).with_name("fuzzing.py")), group, str(seed), "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for target in found:
        for case in target["wrong"]:
            print(f"seed {seed}, {target['target']}, {case['case']}: {case['wrong']}", flush=True)
    return sum(target["count"] for target in found), sum(len(target["wrong"]) for target in found)


if __name__ == "__main__":
    sys.exit(main())
