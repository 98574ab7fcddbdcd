"""`--report` writes the page of a result beside it, and never over another file."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import rhocover as rc

pytestmark = pytest.mark.thorough  # every test runs a command twice

LINES = {
    "plan": "plan river_swim --set num_states=5 --rho 0.5 --rho inf --mu random:3",
    "explore": "explore river_swim --rho 2 --steps 300 --model learned --seed 4",
    "compare": "compare river_swim wheel --steps 200 --seeds 2 --explorer feedback --explorer tracking",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_command_on_a_page_gives_the_page_again(rhocover, monkeypatch, line):
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)  # a column is as wide as the time it took
    workers = " --workers 1" if line.startswith("compare") else ""
    plain = rhocover(line + workers)
    first = rhocover(f"{line}{workers} --report a.html --json")
    assert (first.code, first.err) == (0, "the report is in a.html\n")
    assert first.out.startswith("{")
    text = Path("a.html").read_text("utf-8")
    command = re.search(r"<code>rhocover (.*?)</code>", text)
    assert command is not None
    second = rhocover(f"{command[1]}{workers} --report deep/b.html")
    assert second.code == 0
    assert second.out == plain.out  # the page changes nothing else
    assert Path("deep/b.html").read_text("utf-8") == text


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_report_that_exists_is_kept_before_anything_is_computed(rhocover, monkeypatch, line):
    Path("page.html").write_text("mine")
    monkeypatch.setattr(
        rc.planning.planner.PlanningProblem, "read", lambda *_: pytest.fail("something was computed")
    )
    result = rhocover(f"{line} --report page.html")
    assert result.code == 2
    assert result.is_one_error_line
    assert "Pass --force, or another --report" in result.err
    assert Path("page.html").read_text() == "mine"


def test_force_replaces_a_report(rhocover):
    Path("page.html").write_text("mine")
    assert rhocover("plan river_swim --rho 2 --report page.html --force").code == 0
    assert Path("page.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("path", "message"),
    [("page.pdf", "ends in .html"), ("folder.html", "is a folder"), ("file/page.html", "not a folder"), (".", "ends in .html")],
)  # fmt: skip
def test_a_report_that_cannot_be_written_is_refused(rhocover, path, message):
    Path("folder.html").mkdir()
    Path("file").write_text("")
    result = rhocover(f"plan river_swim --rho 2 --report {path}")
    assert result.code == 2
    assert result.is_one_error_line
    assert message in result.err


@pytest.mark.thorough
def test_a_report_may_lie_among_the_results_and_goes_with_them(rhocover):
    line = "explore river_swim --rho 2 --steps 200 --out run --report run/page.html"
    assert rhocover(line).code == 0
    first = Path("run/page.html").read_bytes()
    assert rhocover(f"{line} --force").code == 0
    assert Path("run/page.html").read_bytes() == first
    assert rhocover(f"{line.replace('run/page', 'other')} --force").code == 2  # a page of nobody's
    resumed = rhocover("resume run --report resumed.html")
    assert (resumed.code, resumed.err.splitlines()[-1]) == (0, "the report is in resumed.html")
    assert rhocover("resume run --report resumed.html").code == 2
    assert rhocover("resume run --report resumed.html --force").code == 0
    assert "rhocover resume run" in Path("resumed.html").read_text("utf-8")


@pytest.mark.thorough
def test_a_comparison_has_its_page_drawn_again(rhocover):
    line = "compare river_swim --steps 200 --seeds 2 --workers 1 --out runs --report runs/page.html"
    assert rhocover(line).code == 0
    assert rhocover("compare --redraw runs --report again.html").code == 0
    old, new = (Path(name).read_text("utf-8") for name in ("runs/page.html", "again.html"))
    assert old.split("<code>")[0] == new.split("<code>")[0]
    assert "rhocover compare --redraw runs" in new
    assert rhocover("compare --redraw runs --report again.html --force").code == 0
    assert rhocover(f"{line} --force").code == 0


def test_a_plan_that_missed_its_tolerance_has_its_page(rhocover):
    result = rhocover("plan river_swim --rho 2 --method frank_wolfe --max-steps 2 --report page.html")
    assert result.code == 3
    assert "missed the tolerance" in Path("page.html").read_text("utf-8")
