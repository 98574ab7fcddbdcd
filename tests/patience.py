"""How long a test waits for what may hang: no test is judged by a clock, and a machine may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = (
    900  # seconds: what takes half a minute alone is done by then, beside twenty others; only a hang is not
)


def waited_for(is_so: Callable[[], bool]) -> bool:
    """Returns whether something became so, however busy the machine; False after `PATIENCE`."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
