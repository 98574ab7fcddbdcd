"""The page of surviving mutants is what the results render to, and every survivor is argued."""

from __future__ import annotations

import pytest

from tools.mutation.page import KINDS, PAGE, interval, read, rendered

BAR = 0.85  # of the mutants drawn, in each part of the core
PARTS = sorted(
    {path.split("/")[0] for path in read()[0]["files"]}
)  # as they were called when they were drawn


def test_the_page_is_what_the_results_and_the_arguments_render_to():
    assert PAGE.read_text() == rendered(*read())


def test_every_survivor_has_an_argument_and_every_argument_a_survivor():
    results, arguments = read()
    assert set(results["survivors"]) == set(arguments)
    for kind, why in arguments.values():
        assert kind in set(KINDS) - {"open"}
        assert why.endswith(".")


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_core_kills_its_share(part):
    files = [count for path, count in read()[0]["files"].items() if path.split("/")[0] == part]
    drawn, killed = (sum(count[key] for count in files) for key in ("drawn", "killed"))
    assert drawn > 0.05 * sum(count["mutants"] for count in files)
    assert killed >= BAR * drawn


def test_survivors_are_what_was_drawn_and_not_killed():
    results, _ = read()
    for path, count in results["files"].items():
        assert 0 <= count["at_first"] <= count["killed"] <= count["drawn"] <= count["mutants"]
        alive = [name for name in results["survivors"] if name.startswith(f"{path}:")]
        assert len(alive) == count["drawn"] - count["killed"]


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"), [(90, 100, 0.8256, 0.9448), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0)]
)
def test_the_interval_is_wilsons(part, whole, low, high):
    assert interval(part, whole) == pytest.approx((low, high), abs=1e-4)  # the textbook's four digits
