"""A call that takes long says how far it is, where somebody looks, and nowhere else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import rhocover as rc
from rhocover import progress as bars
from rhocover.errors import InvalidArgumentError
from rhocover.progress import progress, text_of

RIVER = rc.envs.river_swim()
DATA = ([0, 1, 0, 1] * 50, [1, 0, 1, 1] * 50, [1, 0, 1, 1] * 50, [False] * 200)


class Terminal(io.StringIO):
    """A terminal that keeps what was written."""

    def isatty(self) -> bool:
        return True


class Recorded:
    """A bar that notes what it is told."""

    made: list[Recorded]

    def __init__(self, words: str, began: float) -> None:
        self.words, self.drawn, self.is_closed = words, [], False
        Recorded.made.append(self)

    def draw(self, done: int, total: int | None, note: str) -> None:
        self.drawn.append((done, total, note))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def terminal(monkeypatch):
    """Returns the stream of a terminal in which every report is drawn at once."""
    stream = Terminal()
    monkeypatch.setattr(bars, "sys", SimpleNamespace(stderr=stream))  # pytest replaces that of sys itself
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv(bars.SWITCH, raising=False)
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    monkeypatch.setattr(bars, "REFRESH", 0.0)
    return stream


@pytest.fixture
def made(terminal, monkeypatch):
    """Returns the bars that were made, which note what they are told."""
    Recorded.made = []
    monkeypatch.setattr(bars, "make_bar", Recorded)
    return Recorded.made


def test_a_bar_appears_after_two_seconds_and_leaves_no_trace(terminal, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(bars, "PATIENCE", 2.0)
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with progress("runs") as told:
        told(1, 40)
        now[0] = 1.9
        told(2, 40)
        assert terminal.getvalue() == ""
        now[0] = 3.0
        told(10, 40)
        assert "10 of 40, 3 s, about 9 s left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is shown, the line cleared


def test_a_bar_starts_no_thread(terminal):
    before = threading.active_count()
    with progress("runs") as told:
        told(1, 2)
        assert "1 of 2" in terminal.getvalue()
        assert threading.active_count() == before


def test_what_others_print_meanwhile_goes_where_it_would_have_gone(terminal, capsys):
    with progress("runs") as told:
        told(1, 2)
        print("from the environment")
    assert capsys.readouterr().out == "from the environment\n"
    assert "environment" not in terminal.getvalue()


def test_a_notebook_shows_a_bar_that_is_updated_in_place(terminal, monkeypatch):
    class Cell(io.StringIO):
        __module__ = "ipykernel.iostream"

    class Output:
        def __init__(self) -> None:
            self.shown: list[str] = []

        def update(self, data: dict[str, str], raw: bool) -> None:
            self.shown.append(data["text/html"])

    output = Output()
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: output)
    monkeypatch.setattr(bars, "sys", SimpleNamespace(stderr=Cell()))
    with progress("runs of <b>") as told:
        told(3, 40)
        told.note("<i>")
    first, second, last = output.shown
    assert '<progress value="3" max="40" aria-label="runs of &lt;b&gt;"></progress>' in first
    assert "3 of 40" in first
    assert "&lt;i&gt;" in second
    assert last == ""


def test_words_and_notes_are_letters(terminal):
    with progress("a[/b]\x1b]0;mine") as told:
        told.note("[red]\x1b[2Jnote")
    assert "a[/b]\\x1b]0;mine" in terminal.getvalue()
    assert "[red]\\x1b[2Jnote" in terminal.getvalue()


@pytest.mark.parametrize("stream", [None, object(), io.StringIO()], ids=["none", "no stream", "no terminal"])
def test_where_nobody_looks_there_is_no_bar(made, monkeypatch, stream):
    monkeypatch.setattr(bars, "sys", SimpleNamespace(stderr=stream))
    with progress("runs") as told:
        told(1, 2)
        assert not told.is_shown
    assert made == []


@pytest.mark.parametrize("value", ["0", "off", " False "])
def test_one_variable_switches_bars_off(made, monkeypatch, value):
    monkeypatch.setenv("RHOCOVER_PROGRESS", value)
    rc.explore(RIVER, 2.0, 100)
    assert made == []


def test_a_terminal_that_is_gone_does_not_stop_the_work(terminal, monkeypatch):
    def gone(_: str) -> int:
        raise OSError("hung up")

    with progress("runs") as told:
        told(1, 4)
        monkeypatch.setattr(terminal, "write", gone)
        told(2, 4)
        told(3, 4)
        assert not told.is_shown


def test_only_the_outermost_call_has_a_bar(made):
    with progress("outer") as outer, progress("inner") as inner:
        outer(1, 3)
        inner(7, 9)
        inner.note("step 2")
        bars.note("anything")
    assert [bar.words for bar in made] == ["outer"]
    assert made[0].drawn == [(1, 3, ""), (1, 3, "inner: 7 of 9"), (1, 3, "inner: step 2"), (1, 3, "anything")]
    assert made[0].is_closed


def test_of_two_threads_one_has_a_bar(made):
    with progress("first") as told:
        told(1, 2)
        other = threading.Thread(target=rc.explore, args=(RIVER, 2.0, 100))
        other.start()
        other.join()
    assert [bar.words for bar in made] == ["first"]


def test_an_error_removes_the_bar_and_the_next_call_has_its_own(made):
    with pytest.raises(ZeroDivisionError), progress("first") as told:
        print(told(1, 2), 1 / 0)
    with progress("second") as told:
        told(1, 2)
    assert [bar.is_closed for bar in made] == [True, True]


def lake() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1")


VERBS = {
    "plan": lambda folder: rc.plan(RIVER, 2.0),
    "plan by frank-wolfe": lambda folder: rc.plan(RIVER, 2.0, method="frank_wolfe", tol=1e-3),
    "explore": lambda folder: rc.explore(RIVER, 2.0, 300),
    "explore an environment": lambda folder: rc.explore(lake(), 2.0, 100),
    "resume": lambda folder: (rc.explore(RIVER, 2.0, 100, out=folder), rc.resume(folder))[1],
    "collect": lambda folder: rc.collect(lake(), 2.0, 100, out=folder),
    "audit": lambda folder: rc.audit(DATA),
    "top up": lambda folder: rc.top_up(DATA, num_steps=50),
    "compare": lambda folder: rc.compare("river_swim", "tracking", num_steps=50, seeds=2, workers=1),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_how_far_it_is_and_computes_the_same(verb, made, tmp_path, monkeypatch):
    shown = VERBS[verb](tmp_path / "shown")
    assert made
    assert all(bar.drawn and bar.is_closed for bar in made)
    number = len(made)
    monkeypatch.setenv("RHOCOVER_PROGRESS", "0")
    hidden = VERBS[verb](tmp_path / "hidden")
    assert len(made) == number
    for name in ("divergence", "occupancy", "counts", "verdict", "columns"):
        np.testing.assert_equal(getattr(shown, name, None), getattr(hidden, name, None))


def test_a_function_of_the_caller_is_called_instead(made):
    told = []
    rc.explore(RIVER, 2.0, 300, report=lambda done, total: told.append((done, total)))
    rc.compare(
        "river_swim", "tracking", num_steps=50, seeds=2, workers=1, report=lambda *both: told.append(both)
    )
    assert (300, 300) in told
    assert told[-2:] == [(1, 2), (2, 2)]
    assert made == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: rc.explore(RIVER, 2.0, 10, report=3),
        lambda: rc.compare("river_swim", "tracking", num_steps=10, seeds=1, report=3),
        lambda: rc.top_up(DATA, num_steps=5, report=3),
    ],
    ids=["explore", "compare", "top_up"],
)
def test_something_that_cannot_be_called_is_refused(call):
    with pytest.raises(InvalidArgumentError, match="`report` must be a function or None"):
        call()


SCRIPT = """
import rhocover as rc, rhocover.progress as bars
bars.PATIENCE = bars.REFRESH = 0.0
if __name__ == "__main__":
    rc.explore(rc.envs.river_swim(), 2.0, 300)
    rc.compare("river_swim", "tracking", num_steps=50, seeds=2, workers=WORKERS)
"""


def test_nothing_is_written_where_output_is_stored(capfd, monkeypatch):
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    rc.explore(RIVER, 2.0, 300)
    assert capfd.readouterr() == ("", "")


@pytest.mark.thorough
def test_nothing_is_written_into_a_pipe(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("WORKERS", "1"), "utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals on this system")
def test_workers_write_nothing_to_the_terminal_of_the_caller(tmp_path):
    """The only bars are those of the script itself: one of a run, one of a comparison."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("WORKERS", "2"), "utf-8")
    shown = on_a_terminal([sys.executable, str(script)])
    assert "exploring river_swim" in shown
    assert "comparing" in shown
    assert "planning" not in shown.split("comparing", 1)[1]


def on_a_terminal(line: list[str]) -> str:
    """Returns what a command writes to stderr, where that is a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as running:
        os.close(theirs)
        text = b""
        while piece := _read(ours):
            text += piece
        assert running.wait() == 0
    os.close(ours)
    return text.decode("utf-8", "replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_what_stands_beside_a_bar():
    assert text_of(0, None, 3.2, "step 4") == "3 s, step 4"
    assert text_of(0, 10, 3.2, "") == "0 of 10, 3 s"
    assert text_of(5_000, 10_000, 300.0, "") == "5,000 of 10,000, 5 min, about 5 min left"
    assert text_of(10, 10, 7200.0, "writing") == "10 of 10, 2.0 h, writing"


def test_a_progress_that_is_not_documented_would_be_no_use():
    start = Path(__file__).parents[1] / "docs" / "start.md"
    assert "RHOCOVER_PROGRESS=0" in start.read_text("utf-8")
