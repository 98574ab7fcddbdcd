"""How far a call is: a bar in a terminal or in a notebook, and nothing anywhere else.

`plan`, `explore`, `collect`, `audit`, `top_up` and `compare` are each wrapped in `progress(words)`, and
report what they have done. A bar appears after two seconds and is removed at the end. Calls are nested: a run
plans, an audit plans, a comparison runs. Only the outermost has a bar, and what the others report is a note
beside it. If the caller passed a function `report`, that function is called instead and there is no bar.

A bar is drawn by the work itself, when it reports something: there is no thread. It goes to stderr, if that
is a terminal or the stream of a notebook; output that is piped or stored contains no trace of it. Nothing
that goes wrong while it is drawn stops the work. `RHOCOVER_PROGRESS=0` in the environment switches bars off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from html import escape
from typing import Any, Protocol

from rhocover.checks import function_or_none
from rhocover.printing import printable, put

PATIENCE = 2.0  # seconds before there is a bar
REFRESH = 0.2  # seconds between two drawings
SWITCH = "RHOCOVER_PROGRESS"
OFF = ("0", "false", "no", "off")
WIDTH = 24  # characters of a bar in a terminal

Report = Callable[[int, int], None]  # takes the steps (or runs) so far, and the number of all of them


class Bar(Protocol):
    """Draws how much is done; a total of None is not known."""

    def draw(self, done: int, total: int | None, note: str) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class Reporter:
    """What a call reports to: call it with what is done and the total, or `note` what has no total.

    `make_bar` makes the bar when it is due; None: nothing is ever drawn.
    """

    def __init__(self, make_bar: Callable[[], Bar] | None = None, patience: float | None = None) -> None:
        self._make = make_bar
        self._bar: Bar | None = None
        self._due = time.monotonic() + (PATIENCE if patience is None else patience)
        self._last: tuple[int, int | None] = (0, None)

    @property
    def is_shown(self) -> bool:
        """Whether there is, or will be, a bar."""
        return self._make is not None

    @property
    def has_bar(self) -> bool:
        """Whether there is a bar now."""
        return self._bar is not None

    def __call__(self, done: int, total: int) -> None:
        """Reports how much is done; called often, so it looks at the clock first."""
        self._last = done, total
        if self._make is not None and time.monotonic() >= self._due:
            self._draw("")

    def note(self, text: str) -> None:
        """Reports what is being done."""
        if self._make is not None and time.monotonic() >= self._due:
            self._draw(text)

    def close(self) -> None:
        """Removes the bar."""
        bar, self._bar, self._make = self._bar, None, None
        with suppress(Exception):
            if bar is not None:
                bar.close()

    def _draw(self, note: str) -> None:
        assert self._make is not None
        try:
            self._bar = self._bar or self._make()
            self._bar.draw(*self._last, printable(note))
        except Exception:  # such as a terminal that is gone: the work goes on without a bar
            self.close()
        self._due = time.monotonic() + REFRESH


class InnerReporter(Reporter):
    """The progress of a call within another: notes beside the bar of the outermost."""

    def __init__(self, outer: Reporter, words: str) -> None:
        super().__init__()
        self._outer, self._words = outer, words

    def __call__(self, done: int, total: int) -> None:
        """Reports how much of the inner call is done."""
        self._outer.note(f"{self._words}: {done:,} of {total:,}")

    def note(self, text: str) -> None:
        """Reports what the inner call does."""
        self._outer.note(f"{self._words}: {text}")


SILENT = Reporter()
_current: ContextVar[Reporter | None] = ContextVar("rhocover_progress", default=None)
_one = threading.Lock()  # held by the call that has a bar: of two threads, one shows how far it is


@contextmanager
def progress(words: str, report: Report | None = None, patience: float | None = None) -> Iterator[Any]:
    """Yields what a call reports to: `report`, if there is one, or a `Reporter` that may be shown."""
    outer, report = _current.get(), function_or_none(report, "report")
    if outer is not None:
        yield report or InnerReporter(outer, words)
    elif report is not None:
        with silence():
            yield report
    elif not is_on() or not _one.acquire(blocking=False):
        with silence():
            yield SILENT
    else:
        began = time.monotonic()
        shown = Reporter(lambda: make_bar(printable(words), began), patience)
        try:
            with _within(shown):
                yield shown
        finally:
            shown.close()
            _one.release()


@contextmanager
def _within(shown: Reporter) -> Iterator[None]:
    before = _current.set(shown)
    try:
        yield
    finally:
        _current.reset(before)


def silence() -> Any:
    """Returns a context in which no call shows a bar."""
    return _within(SILENT)


def silence_process() -> None:
    """Switches bars off in this process; for workers, whose stderr is that of the caller."""
    _current.set(SILENT)


def note(text: str) -> None:
    """Reports what is being done to the call that has the bar, if there is one."""
    shown = _current.get()
    if shown is not None:
        shown.note(text)


def say(text: str) -> None:
    """Writes a line where a bar would be seen; if there is one already, the line stands beside it."""
    shown = _current.get()
    if shown is not None and shown.has_bar:
        shown.note(text)
    elif shown is not SILENT and is_on():
        with suppress(Exception):
            put(sys.stderr, f"rhocover: {text}\n")


def is_on() -> bool:
    """Whether a bar would be seen: nobody switched it off, and stderr is a terminal or a notebook."""
    return os.environ.get(SWITCH, "1").strip().lower() not in OFF and is_watched(sys.stderr)


def is_watched(stream: Any) -> bool:
    """Whether a stream is shown while it is written: in a terminal, or in a notebook."""
    if stream is None or getattr(stream, "closed", False):  # a daemon has none
        return False
    try:
        return bool(getattr(stream, "isatty", bool)()) or is_notebook(stream)
    except (ValueError, OSError):
        return False


def is_notebook(stream: Any) -> bool:
    """Whether a stream is the output of a cell of a notebook."""
    return type(stream).__module__.startswith("ipykernel.")


def make_bar(words: str, began: float) -> Bar:
    """Returns a bar for the place where it is seen; `began` is when the work began."""
    return NotebookBar(words, began) if is_notebook(sys.stderr) else TerminalBar(words, began)


def text_of(done: int, total: int | None, seconds: float, note: str) -> str:
    """Returns what stands beside a bar: `1,200 of 30,000, 12 s, about 4 min left`, and the note."""
    amount = left = ""
    if total is not None:
        amount = f"{done:,} of {total:,}"
        left = f"about {duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
    return ", ".join(filter(None, (amount, duration(seconds), left, note)))


def duration(seconds: float) -> str:
    """Returns `12 s`, `4 min` or `3.1 h`."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"


class TerminalBar:
    """A bar of rich. It redirects no stream: what an environment prints goes where it would have gone."""

    def __init__(self, words: str, began: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        one_line = Column(no_wrap=True, overflow="ellipsis")
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(WIDTH),
            TextColumn("{task.fields[text]}", markup=False, table_column=one_line),
        )
        self._began = began
        self._bar = Progress(
            *columns, console=Console(file=sys.stderr, markup=False, emoji=False, highlight=False),
            transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bar.add_task(words, total=None, text="")
        self._bar.start()

    def draw(self, done: int, total: int | None, note: str) -> None:
        """Draws the bar."""
        text = text_of(done, total, time.monotonic() - self._began, note)
        self._bar.update(self._task, completed=done, total=total, text=text, refresh=True)

    def close(self) -> None:
        """Removes the bar, and shows the cursor again."""
        self._bar.stop()


class NotebookBar:
    """A `<progress>` element in the output of the cell, updated in place and empty at the end."""

    def __init__(self, words: str, began: float) -> None:
        from IPython.display import display  # there is one, or this would be no notebook

        self._words, self._began = words, began
        self._output: Any = display(bundle("", ""), raw=True, display_id=True)

    def draw(self, done: int, total: int | None, note: str) -> None:
        """Draws the bar."""
        text = f"{self._words}: {text_of(done, total, time.monotonic() - self._began, note)}"
        size = "" if total is None else f' value="{done}" max="{total}"'
        html = f'<div><progress{size} aria-label="{escape(self._words)}"></progress> {escape(text)}</div>'
        self._output.update(bundle(html, text), raw=True)

    def close(self) -> None:
        """Empties the output."""
        self._output.update(bundle("", ""), raw=True)


def bundle(html: str, text: str) -> dict[str, str]:
    """Returns what a notebook shows, and what a frontend without HTML shows."""
    return {"text/html": html, "text/plain": text}
