"""BLAS on one thread: blocks here are small, and the same bits come out whatever else the machine does.

On two busy cores the two-thread BLAS took 13 times as long for one factorisation: its threads wait for
each other at every small block.

The number of threads belongs to the whole process. Several plans at a time, each in a thread of its own, hold
it together: the first sets it to one, the last to end puts back what the first found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_holders: list[Any] = []  # one entry for each plan under way: the limit, which knows what was before


@cache
def _controller() -> ThreadpoolController:
    """Returns the controller of the loaded BLAS libraries; finding them takes milliseconds, so once."""
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS before the search

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Returns a context in which BLAS uses one thread; the old setting comes back after the last of them."""
    with _lock:
        _holders.append(_holders[0] if _holders else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _holders.pop()
            if not _holders:
                limit.restore_original_limits()
