"""A limit on what a process may take of the memory, beyond what it has."""

from __future__ import annotations

import contextlib
import resource

MOST_MEMORY = 2 << 30  # bytes


def limit_memory() -> None:
    """Has this process fail with MemoryError where it asks for more."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MOST_MEMORY
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
