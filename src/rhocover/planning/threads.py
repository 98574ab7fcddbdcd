"""BLAS on one thread: blocks here are small, and the same bits come out whatever else the machine does.

On two busy cores the two-thread BLAS took 13 times as long for one factorisation: its threads wait for
each other at every small block.

The number of threads belongs to the whole process (with OpenMP, to each thread). Plans at the same time, each
in a thread of its own, hold it together: each sets it to one, the last to end puts back what the first found.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_found: list[list[int]] = []  # one entry for each plan under way: the numbers of threads before the first


@cache
def _libraries() -> list[Any]:
    """Returns the loaded BLAS libraries; finding them takes milliseconds, so once."""
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS before the search

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Returns a context in which BLAS uses one thread; the old setting comes back after the last of them."""
    libraries = _libraries()
    with _lock:
        _found.append(_found[0] if _found else [library.get_num_threads() for library in libraries])
        for library in libraries:
            set_threads(library, 1)
    try:
        yield
    finally:
        with _lock:
            before = _found.pop()
            for library, number in zip(libraries, before, strict=True):
                if not _found or getattr(library, "threading_layer", "") == "openmp":
                    set_threads(library, number)


def set_threads(library: Any, number: int) -> None:
    """Sets the number of threads of one library, whichever thread set it last.

    Newer versions of threadpoolctl leave OpenBLAS to the thread that set it first, for as long as that lives:
    the last plan to end could not put anything back.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(number)
