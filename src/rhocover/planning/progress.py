"""A line on the terminal for planning that takes longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rhocover.planning.interior_point import Progress

PATIENCE = 2.0  # seconds without a word


def progress_line(rho: float) -> tuple[Callable[[Progress], None] | None, Callable[[], None]]:
    """Returns (report, close): what to call after each step and at the end; silent off a terminal."""
    if not sys.stderr.isatty():
        return None, lambda: None
    shown = [False]

    def report(state: Progress) -> None:
        if state.seconds > PATIENCE:
            shown[0] = True
            sys.stderr.write(
                f"\r\x1b[Kplanning rho = {rho:g}: step {state.steps}, gap {abs(state.gap):.1e}, "
                f"flow {state.flow:.1e}, {state.seconds:.0f} s"
            )
            sys.stderr.flush()

    def close() -> None:
        if shown[0]:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    return report, close
