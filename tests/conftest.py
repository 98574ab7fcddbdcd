"""What the tests of every command share."""

from __future__ import annotations

import shlex
import signal

import pytest
from hypothesis import HealthCheck, settings

from chromium import NOT_CHECKED, find_browser
from rhocover.cli import app

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background: Ctrl-C would never arrive
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are the same each time, and none is refused for the time that it took: a machine may be busy.
settings.register_profile(
    "project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("project")


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def is_one_error_line(self) -> bool:
        return self.err.startswith("error: ") and self.err.count("\n") == 1 and self.err.endswith("\n")


@pytest.fixture
def rhocover(capsys, monkeypatch, tmp_path):
    """Returns a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(line: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            app.main(shlex.split(line))
        return Outcome(int(end.value.code or 0), *capsys.readouterr())

    return run


def pytest_terminal_summary(terminalreporter):
    """Says so where there was no browser to look at the pages with."""
    if find_browser() is None:
        terminalreporter.write_line(NOT_CHECKED, yellow=True, bold=True)
