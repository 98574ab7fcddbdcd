"""Other work on every core, for as long as a `with` statement lasts and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Works until it is ended, or for as long as the process that began it is its parent: if that one is killed, it
# ends by itself.
WORK = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"


@contextmanager
def busy_cores(count: int) -> Iterator[list[subprocess.Popen]]:
    """Yields `count` processes, each of which keeps a core busy; they have ended when it is left, in any way."""
    line = [sys.executable, "-c", WORK, str(os.getpid())]
    workers: list[subprocess.Popen] = []
    try:
        workers.extend(subprocess.Popen(line) for _ in range(count))
        yield workers
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
