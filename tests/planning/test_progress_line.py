"""Planning tells a terminal how far it is."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from rhocover.planning.planner import progress_line


class Terminal(io.StringIO):
    """Shows what was flushed."""

    shown = ""

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.shown = self.getvalue()


def state(seconds: float) -> SimpleNamespace:
    return SimpleNamespace(seconds=seconds, steps=7, gap=-3e-4, flow=2e-5)


def test_a_terminal_hears_nothing_in_the_first_two_seconds(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    report, close = progress_line(2.0)
    for seconds in (0.0, 1.5, 2.0):
        report(state(seconds))
    close()
    assert sys.stderr.getvalue() == ""


def test_after_two_seconds_one_line_is_written_over_and_wiped_at_the_end(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    report, close = progress_line(2.0)
    report(state(2.5))
    line = "planning rho = 2: step 7, gap 3.0e-04, flow 2.0e-05, 2 s"
    assert sys.stderr.shown == f"\r{line}\r{line}"
    close()
    assert sys.stderr.shown.endswith(f"\r{line}\r{' ' * len(line)}\r")


def test_a_notebook_sees_the_line_too(monkeypatch):
    class Cell(io.StringIO):
        __module__ = "ipykernel.iostream"

    monkeypatch.setattr(sys, "stderr", Cell())
    report, _ = progress_line(2.0)
    report(state(3.0))
    assert "step 7" in sys.stderr.getvalue()


@pytest.mark.parametrize("stream", [None, object(), io.StringIO()], ids=["none", "no stream", "no terminal"])
def test_where_nobody_looks_there_is_no_line(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    report, close = progress_line(2.0)
    report(state(3.0))
    close()
    assert not isinstance(stream, io.StringIO) or stream.getvalue() == ""
