"""A long run with new seeds: `python tests/fuzz --minutes 30 [--seed 1] [GROUP ...]`."""

from __future__ import annotations

import argparse
import sys
import time

from rounds import GROUPS, one_round


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="what to damage; all by default")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each round has the next one")
    asked = parser.parse_args()
    end, seed, count, wrong = time.monotonic() + 60 * asked.minutes, asked.seed, 0, 0
    while time.monotonic() < end:
        for group in asked.groups or GROUPS:
            tried, bad = shown_round(group, seed)
            count, wrong = count + tried, wrong + bad
        print(f"seed {seed} done: {count} files so far, {wrong} wrong", flush=True)
        seed += 1
    return 1 if wrong else 0


def shown_round(group: str, seed: int) -> tuple[int, int]:
    """Returns how many files were tried, and how many of them went wrong; shows those."""
    found = one_round(group, seed)
    for target in found:
        for case in target["wrong"]:
            print(f"seed {seed}, {target['target']}, {case['case']}: {case['wrong']}", flush=True)
    return sum(target["count"] for target in found), sum(len(target["wrong"]) for target in found)


if __name__ == "__main__":
    sys.exit(main())
