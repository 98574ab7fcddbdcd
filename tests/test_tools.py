"""The figures about the source are right on a tree small enough to count by hand, and checks end with 1."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rhocover as rc
from tools import census, hops, timed

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    "__init__.py": "from toy.used import f\n",
    "used.py": "def f(a, b, *, c, d=0, e=0, g=0, h=0, i=0): ...\n\n\nclass Same: ...\n",
    "user.py": "def g():\n    from . import used\n    from toy import alone\n\n\nclass Same: ...\n",
    "alone.py": "class C:\n    def seven(self, a, b, c, d, e, f, g): ...\n" + "x = 1\n" * 57,
    "long.py": "from toy.user import g\n" + "x = 1\n" * 59,
}


@pytest.fixture
def modules(tmp_path):
    (tmp_path / "toy").mkdir()
    for name, text in FILES.items():
        (tmp_path / "toy" / name).write_text(text, "utf-8")
    return census.read_modules(tmp_path / "toy")


def test_modules_are_counted_with_their_lines(modules):
    assert {module.path: module.num_lines for module in modules}["toy/alone.py"] == 59
    assert [module.name for module in modules] == ["toy", "toy.alone", "toy.long", "toy.used", "toy.user"]


def test_importers_are_found_in_every_spelling_and_inside_functions(modules):
    assert census.importers(modules) == {
        "toy.used": {"toy", "toy.user"},
        "toy.alone": {"toy.user"},
        "toy.user": {"toy.long"},
    }


def test_small_files_have_one_importer_and_fewer_than_sixty_lines(modules):
    assert census.small_files(modules) == [
        "toy/alone.py (59 lines, for toy.user)",
        "toy/user.py (6 lines, for toy.long)",
    ]


def test_more_than_seven_arguments_are_too_many_and_self_is_none(modules):
    assert census.long_signatures(modules) == ["toy/used.py:1 f (8)"]


def test_classes_of_one_name_are_listed_with_their_files(modules):
    assert census.shared_class_names(modules) == ["Same: toy/used.py, toy/user.py"]


@pytest.mark.thorough
def test_the_census_ends_with_1_only_if_it_is_to_check(monkeypatch, capsys):
    monkeypatch.setattr(census, "MOST_FILES", 1)
    assert (census.main([]), census.main(["--check"])) == (0, 1)
    monkeypatch.setattr(census, "MOST_FILES", 10_000)
    monkeypatch.setattr(census, "MOST_LINES", 10_000_000)
    monkeypatch.setattr(census, "MOST_SMALL", 10_000)
    assert census.main(["--check"]) == 0
    assert re.search(r"^ +\d+ files, limit 1 \(beyond\)$", capsys.readouterr().out, re.MULTILINE)


def test_the_files_of_a_call_are_those_whose_functions_it_calls():
    rc.Coverage(2.0, [1.0, 3.0]).divergence([0.5, 0.5])
    touched = hops.files_touched(lambda: rc.Coverage(2.0, [1.0, 3.0]).divergence([0.5, 0.5]))
    assert "coverage.py" in touched
    assert not [name for name in touched if name.startswith(("planning/", "exploring/"))]
    assert hops.files_touched(lambda: None) == []


def test_a_path_beyond_its_limit_ends_with_1(monkeypatch, capsys):
    def path(limit: int) -> hops.CallPath:
        return hops.CallPath("a coverage", lambda: rc.Coverage(2.0, [1.0]), limit)

    monkeypatch.setattr(hops, "PATHS", (path(10_000),))
    assert hops.main(["--check", "--files"]) == 0
    assert "    coverage.py\n" in capsys.readouterr().out
    monkeypatch.setattr(hops, "PATHS", (path(0), path(10_000)))
    assert (hops.main([]), hops.main(["--check"])) == (0, 1)


def test_processor_minutes_are_printed_and_the_first_failure_is_the_last_command(tmp_path):
    line = [sys.executable, str(ROOT / "tools" / "timed.py"), "exit 3", f"touch {tmp_path / 'after'}"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 3
    assert re.fullmatch(r"\d+\.\d processor minutes, \d+\.\d minutes by the clock\n", done.stdout)
    assert not (tmp_path / "after").exists()
    assert timed.main(["true", "true"]) == 0
