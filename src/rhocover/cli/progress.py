"""A bar on stderr for what takes longer than a second, where somebody is looking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from rhocover.cli.console import console
from rhocover.printing import printable

PATIENCE = 1.0  # seconds before there is a bar
REFRESH = 0.1  # seconds between two looks at it


class Bar:
    """A bar that appears once `PATIENCE` is over."""

    def __init__(self, console: Console, words: str) -> None:
        self._console, self._words = console, words
        self._next = time.monotonic() + PATIENCE
        self._shown: Any = None

    def report(self, done: int, total: int) -> None:
        """Shows how much is done; called often, so it looks at the clock first."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REFRESH
        if self._shown is None:
            self._shown = _make(self._console)
            self._task = self._shown.add_task(printable(self._words), total=total, completed=done)
            self._shown.start()
        self._shown.update(self._task, completed=done)

    def stop(self) -> None:
        """Takes the bar away."""
        if self._shown is not None:
            self._shown.stop()


def _make(console: Console) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


@contextmanager
def progress(words: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function to report (done, total) to; None where stderr is no terminal."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    bar = Bar(out, words)
    try:
        yield bar.report
    finally:
        bar.stop()


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """Shows that something goes on whose end is not known, once `PATIENCE` is over and somebody looks."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    status = out.status(Text(printable(words)))
    timer = threading.Timer(PATIENCE, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
