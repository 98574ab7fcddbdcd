"""Figures and HTML pages of plans, runs, comparisons and data sets.

Nothing here opens a window, but matplotlib fails to load if MPLBACKEND names a backend that it does not know.
So it is loaded without that variable, and the backend is set afterwards if it is valid.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def _load_matplotlib() -> None:
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    with suppress(ValueError):
        matplotlib.rcParams.update({"backend": backend} if backend else {})


if "matplotlib" not in sys.modules:
    _load_matplotlib()
