"""Runs shell commands one after another, and says at the end how many processor minutes they took.

    python tools/timed.py "make check" "pytest -q"

Processor minutes are the same on a busy machine and on a free one, the clock's are not. They hold what the
commands and the processes that they waited for used. The first command that fails is the last, and its exit
code is returned.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def main(commands: list[str]) -> int:
    """Returns the exit code of the last command that was run."""
    began, code = time.monotonic(), 0
    for command in commands:
        code = subprocess.run(command, shell=True).returncode
        if code:
            break
    used = os.times()
    minutes = (used.children_user + used.children_system) / 60
    print(f"{minutes:.1f} processor minutes, {(time.monotonic() - began) / 60:.1f} minutes by the clock")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
