"""Repeats tests as other processors would run them, and beside other work.

    python tests/kernels --numerical PATH ... --waiting PATH ...

Those that compute run again with the kernels and compilers' targets of other processors (see `processors`); those
that wait for processes and clocks run while something else keeps all cores busy.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from busy_cores import busy_cores
from processors import Setting, flags_of, native_kernels, settings

PYTEST = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider"]


def repeated(setting: Setting, paths: list[str]) -> bool:
    """Runs tests with a setting; returns whether all passed."""
    print(f"rhocover: {setting.name} {setting.variables or ''}", flush=True)
    return subprocess.run([*PYTEST, *paths], env=os.environ | setting.variables).returncode == 0


def main() -> int:
    """Returns the exit code: how many of the settings have a test that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--numerical", nargs="+", required=True, metavar="PATH")
    parser.add_argument("--waiting", nargs="+", required=True, metavar="PATH")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is ended
    info = Path("/proc/cpuinfo")
    flags = flags_of(info.read_text("utf-8")) if info.exists() else set()
    cache = Path(sys.prefix, "numba-generic")
    passed = {s.name: repeated(s, asked.numerical) for s in settings(flags, native_kernels(), cache)}
    with busy_cores(os.cpu_count() or 1):
        beside = Setting("beside other work on every core")
        passed[beside.name] = repeated(beside, asked.waiting)
    for name, is_fine in passed.items():
        print(f"rhocover: {name}: {'passed' if is_fine else 'FAILED'}")
    return sum(not is_fine for is_fine in passed.values())


if __name__ == "__main__":
    sys.exit(main())
