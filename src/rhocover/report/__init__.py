"""Pictures and pages of what was planned, visited and reached.

Nothing here opens a window, and matplotlib refuses to load where MPLBACKEND names a screen that it does not
know. So it is loaded without, and takes the name afterwards if it can.
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
