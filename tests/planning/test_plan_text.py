"""What a plan and a run print of themselves: which visits count, and what the time includes."""

from __future__ import annotations

import pytest

import rhocover as rc

RIVER = rc.envs.river_swim()
CRITERIA = {
    "river_swim at rho = 2: ": {},
    "river_swim at rho = 2, visits discounted by 0.9: ": {"discount": 0.9, "start": 0},
    "river_swim at rho = 2, visits in episodes of 8 steps: ": {"horizon": 8, "start": 0, "restrict": True},
}


@pytest.mark.parametrize("head", CRITERIA)
def test_plans_and_runs_say_which_visits_count(head):
    plan, run = rc.plan(RIVER, **CRITERIA[head]), rc.explore(RIVER, num_steps=50, **CRITERIA[head])
    assert head in str(plan)
    assert head in str(run)
    assert plan.horizon == CRITERIA[head].get("horizon")


def test_the_time_of_a_plan_says_that_it_includes_compiling():
    assert str(rc.plan(RIVER)).splitlines()[3].endswith(" s, compiling included")
