"""BLAS on one thread: blocks here are small, and the same bits come out whatever else the machine does.

On two busy cores the two-thread BLAS took 13 times as long for one factorisation: its threads wait for
each other at every small block.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """Returns the controller of the loaded BLAS libraries; finding them takes milliseconds, so once."""
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS before the search

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """Returns a context in which BLAS uses one thread; the old setting comes back afterwards."""
    return _controller().limit(limits=1, user_api="blas")
