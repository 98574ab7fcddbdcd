"""A few cases of every attack, and a proof of each that it finds what it is made for.

The long form, with new seeds: `make attack`. Files are left to `tests/fuzz`, whose groups the attack calls.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from telling import exit_code, table, told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions and limits on memory are Linux's")

HERE = Path(__file__).parent
SHORT = (  # groups, and how many cases of each
    (("deaths", "faults", "environments"), 4),
    (("races",), 3),
    (("processes",), 2),
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("groups", "number"), SHORT, ids=lambda value: str(value[0]) if isinstance(value, tuple) else ""
)
def test_nothing_is_wrong_in_a_few_cases_of_every_attack(groups, number):
    done = run(str(HERE), *groups, "--cases", str(number), "--seed", "1", "--workers", "1")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "all  " in done.stdout


@pytest.mark.thorough
def test_every_saboteur_is_found_and_who_is_honest_is_left_alone():
    """Each attack is given something that is wrong in the way it looks for; the mutant of a check finds nothing."""
    done = run(str(HERE / "saboteurs.py"))
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert [name for name, wrong in found["saboteurs"].items() if not wrong] == []
    assert {name: wrong for name, wrong in found["honest"].items() if wrong} == {}
    assert len(found["saboteurs"]) >= 19


def test_the_table_counts_what_was_tried_and_in_how_many_cases_something_was_wrong():
    def found(row: str, tried: int, *wrong: str) -> dict[str, Any]:
        return {
            "group": "deaths",
            "number": 7,
            "row": row,
            "name": "a case",
            "tried": tried,
            "wrong": [*wrong],
        }

    good, bad = found("deaths: explore", 3), found("deaths: explore", 2, "litter", "other bits")
    lines = [line.rsplit(maxsplit=2) for line in table([good, bad, found("races", 1)]).splitlines()]
    assert lines[1:3] == [["deaths: explore", "5", "1"], ["races", "1", "0"]]
    assert lines[-1] == ["all", "6", "1"]
    assert (exit_code([good]), exit_code([good, bad])) == (0, 1)
    assert next(told(bad, 5)) == "WRONG deaths --seed 5 --case 7: a case: litter"
