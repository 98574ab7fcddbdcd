"""What others wrote is shown on a terminal and never obeyed, whichever way it comes there."""

from __future__ import annotations

import io
import json
import re
import sys
import threading

import pytest
from rich.text import Text

import rhocover as rc
from rhocover.cli import output
from rhocover.printing import can_write, encodable, printable, put
from rhocover.progress import is_watched

ORDERS = {
    "escape": "\x1b[31m", "title": "\x1b]0;mine\x07", "C1": "\x9b31m", "return": "\r", "backspace": "\b\b",
    "bell": "\x07", "override": "\u202e", "isolate": "\u2066", "separator": "\u2028", "half": "\udcff",
    "delete": "\x7f", "mark": "\u200f",
}  # fmt: skip
STYLES = re.compile(r"\x1b\[[0-9;]*m")  # what rich itself colours with


def is_harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_every_order_is_shown(order):
    assert is_harmless(printable(f"a{order}b\n", keep="\n"))
    assert printable(f"a{order}b").encode("ascii").decode("unicode_escape") == f"a{order}b"


def test_letters_of_all_languages_and_blanks_stay():
    words = "größe 状態 السرعة ∞ a\xa0b \u3000 e\u0301 🙂"
    assert printable(words) == words


def test_half_a_character_becomes_letters_and_nothing_else_changes():
    assert encodable("a\x1b\udcffé") == "a\x1b\\udcffé"


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_tables_titles_texts_and_lines_obey_nothing(capsys, monkeypatch, order):
    monkeypatch.setenv("COLUMNS", "100")
    name = f"a{order}b"
    table = output.empty_table(name, "visits")
    table.add_row(f"{name}\nfaked row", Text(name))
    output.print_result(name, Text(name), table)
    output.print_message(f"the report is in {name}")
    output.print_note(name)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)
    assert "faked row" not in [line.strip() for line in out.splitlines()]


def test_a_line_keeps_what_looks_like_a_colour(capsys):
    """It may be part of a name, and the name is to be found again."""
    output.print_message("the report is in a\x1b[31m.html")
    assert capsys.readouterr().err == "the report is in a\\x1b[31m.html\n"


def test_brackets_and_colons_are_letters(capsys):
    table = output.empty_table("a[/b]", "n")
    table.add_row("[red]x[/red] :smile:", "1")
    output.print_result("[/c]", table)
    output.print_message("error: [/d] :smile:")
    out, err = capsys.readouterr()
    assert all(words in out for words in ("[/c]", "a[/b]", "[red]x[/red] :smile:"))
    assert err == "error: [/d] :smile:\n"


def test_the_word_of_a_wait_and_of_a_bar_are_letters(monkeypatch):
    """On a terminal, where they are seen: a name in them is neither markup nor an order."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    shown = threading.Event()
    monkeypatch.setattr(
        output.threading, "Timer", lambda _, start: threading.Thread(target=lambda: (start(), shown.set()))
    )
    monkeypatch.setattr(threading.Thread, "cancel", lambda _: None, raising=False)
    with output.waiting("counting a[/b]\x1b]0;mine.csv"):
        shown.wait()
    with output.progress("runs of a[/b]\x1b]0;mine") as report:
        assert report is not None
        report(1, 2)
    text = stream.getvalue()
    assert "a[/b]\\x1b]0;mine" in text
    assert "\x1b]0;" not in text


def test_an_audit_of_a_file_that_tries_everything(rhocover, tmp_path):
    name = "a[/b]\x1b[31m\u202e.csv"
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(
        "state,action,next_state,done\n0,0,1,0\n1,0,0,0\n0,1,1,0\n1,1,0,0\n0,0,1,0\n"
    )
    asked = f"audit '{name}' --report page.html"
    plain, told = rhocover(asked), rhocover(f"audit '{name}' --json")
    assert (plain.code, told.code) == (0, 0), plain.err + told.err
    assert is_harmless(plain.out + plain.err)
    assert json.loads(told.out)["parameters"]["data"] == name
    page = (tmp_path / "page.html").read_text("utf-8")
    assert is_harmless(page)
    assert r"a[/b]\x1b[31m\u202e.csv" in page


def test_a_column_that_tries_everything_is_named_in_one_error_line(rhocover, tmp_path):
    (tmp_path / "a.csv").write_text("state,act\x1b[2Jion\u202e,next_state,done\n0,0,1,0\n")
    result = rhocover("audit a.csv")
    assert result.code == 2
    assert result.is_one_error_line
    assert is_harmless(result.err)


@pytest.mark.thorough
def test_a_model_with_a_hostile_name_is_planned_drawn_and_printed(rhocover, tmp_path):
    hostile = "x\x1b[2J\u202e $\\frac$ 状"
    mdp = rc.MDP(rc.envs.river_swim().transitions.toarray().reshape(6, 2, 6), name=hostile)
    mdp.save(tmp_path / "m.safetensors")
    result = rhocover("plan m.safetensors --rho 0.5 --rho 1 --rho 2 --out found --report page.html")
    assert result.code == 0, result.err
    assert is_harmless(result.out + result.err)
    found = rc.plan(mdp, 2.0)
    run = rc.explore(mdp, 2.0, 100, seed=0)
    for thing in (mdp, found, run, rc.budget(mdp, visits=2)):
        assert is_harmless(str(thing) + repr(thing)), type(thing)


# Streams.


def test_a_stream_that_lacks_a_letter_gets_a_question_mark():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    put(stream, "1 ± 2\n")
    assert raw.getvalue() == b"1 ? 2\n"


def test_only_open_streams_are_written_to_or_watched():
    closed = io.StringIO()
    closed.close()
    assert not any(can_write(stream) or is_watched(stream) for stream in (None, closed, object()))
    assert can_write(io.StringIO())
    assert not is_watched(io.StringIO())
