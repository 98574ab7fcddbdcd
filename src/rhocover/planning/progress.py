"""A line of progress for planning that takes longer than two seconds, on a terminal or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from rhocover.printing import is_watched, put

PATIENCE = 2.0  # seconds without a word


class Standing(Protocol):
    """What a method says of itself after a step."""

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def flow(self) -> float: ...  # noqa: D102
    @property
    def gap(self) -> float: ...  # noqa: D102


def progress_line(rho: float) -> tuple[Callable[[Standing], None] | None, Callable[[], None]]:
    """Returns (report, close): what to call after each step and at the end; silent where nobody looks."""
    if not is_watched(sys.stderr):
        return None, lambda: None
    width = [0]

    def report(state: Standing) -> None:
        if state.seconds > PATIENCE:
            _write(
                f"planning rho = {rho:g}: step {state.steps}, gap {abs(state.gap):.1e}, "
                f"flow {state.flow:.1e}, {state.seconds:.0f} s",
                width,
            )

    def close() -> None:
        if width[0]:
            _write("", width)

    return report, close


def _write(text: str, width: list[int]) -> None:
    """Writes over the line before; spaces clear it, because notebooks know no escape codes."""
    with suppress(OSError, ValueError):  # the terminal is gone; the plan is not
        put(sys.stderr, f"\r{text}{' ' * (width[0] - len(text))}\r{text}")
    width[0] = len(text)
