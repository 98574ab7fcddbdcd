"""The work that is done does not grow unnoticed: counts in a fresh process beside those in counts.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import counts
from rhocover.planning import planner

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found() -> counts.Counts:
    """Returns the counts of a process in which nothing else was imported or compiled."""
    command = [sys.executable, "-m", "benchmarks.counts", "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


@pytest.mark.thorough
def test_no_count_is_worse_than_stored(found):
    sentences = counts.worse(found, counts.stored())
    assert not sentences, "\n".join([*sentences, counts.UPDATE])


@pytest.mark.thorough
def test_every_kind_of_work_is_counted(found):
    assert {name.partition(":")[0] for name in found} == set(counts.ALLOWED)
    assert all(number > 0 for name, number in found.items() if not name.startswith(("asked", "files")))


def test_a_count_above_its_allowance_is_noticed_whatever_it_counts():
    before = counts.stored()
    for name, number in before.items():
        limit = counts.most(name, number)
        assert counts.worse(before | {name: limit}, before) == []
        (sentence,) = counts.worse(before | {name: limit + 1}, before)
        assert sentence.startswith(name)
        assert counts.worse(before | {name: 0}, before) == []  # less is welcome


def test_a_count_that_is_new_or_gone_is_noticed():
    before = counts.stored()
    name = next(iter(before))
    fewer = {key: number for key, number in before.items() if key != name}
    assert counts.worse(before, fewer) == [f"{name} is counted and not stored"]
    assert counts.worse(fewer, before) == [f"{name} is stored and not counted"]


def test_a_planner_that_aims_too_low_is_noticed(monkeypatch):
    monkeypatch.setattr(planner, "AIM", 1e-5)
    problems = counts.plan_problems()
    monkeypatch.setattr(counts, "plan_problems", lambda: {"river_swim rho=32": problems["river_swim rho=32"]})
    before, kinds = counts.stored(), counts.plan_counts()
    assert counts.worse(kinds, {name: before[name] for name in kinds}) != []


def test_a_function_called_needlessly_is_noticed(monkeypatch):
    wasteful = planner.PlanningProblem.read

    def often(*arguments):
        return [wasteful(*arguments) for _ in range(10)][-1]

    monkeypatch.setattr(planner.PlanningProblem, "read", often)
    problems = counts.plan_problems()
    monkeypatch.setattr(counts, "plan_problems", lambda: {"river_swim rho=1": problems["river_swim rho=1"]})
    before, kinds = counts.stored(), counts.plan_counts()
    assert counts.worse(kinds, {name: before[name] for name in kinds}) != []
