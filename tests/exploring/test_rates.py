"""What the theorem speaks of and what explorers are compared by, measured for both explorers: docs/exploring.md.

The paper bounds xi = U* - U(d_hat) of Algorithm 1. The regret by which explorers are compared is pathwise: another
quantity, without the noise that nobody steers. Here both are measured for both, with the parts in between.
The means of xi and of its Bregman part are taken with their martingales subtracted (see `many_runs`): the same
means, with smaller errors.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from exploring_models import problem_of

import rhocover as rc
from many_runs import Many, exponent, many_runs, mean_and_error, residual_form
from tiers import tiered

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exploring.md"
STEPS = [1000, 10_000, 100_000]
PAGE_RUNS, RUNS = 400, 60  # the page's, with seeds 0 to 399; and ours, with seeds of their own
EXPLORERS = ("feedback", "algorithm1")
ERRORS = 5  # standard errors: less than once in a million for each of 40 numbers
NUMBER = r"(-?[\d.]+(?:e-\d+)?) ± ([\d.]+(?:e-\d+)?)"


def problem():
    return problem_of(rc.envs.river_swim(), 2)


def quantities(runs: Many) -> dict[str, np.ndarray]:
    """Returns what the page's rows are the means of, `[R, K]` each; the root of the second one is shown."""
    xi, energy = runs.suboptimality, runs.centred_energy(residual_form(runs.problem))
    return {
        r"$\xi$": runs.steered,
        r"root mean square of $\xi$": xi**2,
        r"positive part of $\xi$": np.maximum(xi, 0),
        "Bregman part": runs.bregman - energy / (2.0 * runs.steps**2),
        "pathwise regret": runs.regret,
    }


def row(name: str, steps: np.ndarray, values: np.ndarray) -> list[tuple[float, float]]:
    """Returns the three means and the exponent, each with its standard error."""
    mean, error = mean_and_error(values)
    slope, slope_error = exponent(steps, values)
    if name.startswith("root"):
        root = np.sqrt(mean)
        mean, error, slope, slope_error = root, error / (2 * root), slope / 2, slope_error / 2
    return [*zip(mean.tolist(), error.tolist(), strict=True), (slope, slope_error)]


def measured(explorer: str, seeds: range) -> dict[str, list[tuple[float, float]]]:
    """Returns the rows of an explorer; those of the page are `measured(explorer, range(400))`."""
    return rows_of(many_runs(problem(), explorer, STEPS, seeds))


def rows_of(runs: Many) -> dict[str, list[tuple[float, float]]]:
    return {name: row(name, runs.steps, values) for name, values in quantities(runs).items()}


@cache
def runs_of(explorer: str) -> Many:
    return many_runs(problem(), explorer, STEPS, range(1000, 1000 + RUNS))


@cache
def ours(explorer: str) -> dict[str, list[tuple[float, float]]]:
    return rows_of(runs_of(explorer))


def on_the_page() -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Returns the rows of the page's table by quantity and explorer."""
    rows = {}
    for name, explorer, rest in re.findall(
        r"^\| ([^|]+) \| `(\w+)` \|(.*±.*)\|$", PAGE.read_text("utf-8"), re.M
    ):
        rows[name, explorer] = [(float(value), float(error)) for value, error in re.findall(NUMBER, rest)]
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_the_table_of_the_page_is_what_runs_with_other_seeds_come_to(explorer):
    """Within 5 standard errors of the difference, those of fewer runs being larger by the root of their number."""
    table, larger = on_the_page(), np.sqrt(1 + PAGE_RUNS / RUNS)
    for name, found in ours(explorer).items():
        shown = table.pop((name, explorer))
        assert len(shown) == 4
        for (mine, _), (value, error) in zip(found, shown, strict=True):
            assert abs(mine - value) <= ERRORS * error * larger, (name, mine, value, error)
    assert len(table) == 5  # the other explorer's


def test_the_readme_says_what_the_table_says():
    """Regret of feedback and of Algorithm 1, then the mean suboptimality of Algorithm 1 and of feedback."""
    table, readme = on_the_page(), (PAGE.parents[1] / "README.md").read_text("utf-8")
    rows = [
        ("pathwise regret", "feedback"),
        ("pathwise regret", "algorithm1"),
        (r"$\xi$", "algorithm1"),
        (r"$\xi$", "feedback"),
    ]
    assert re.findall(r"t\^(-\d\.\d\d)", readme) == [f"{table[row][-1][0]:.2f}" for row in rows]


@pytest.mark.parametrize(
    ("explorer", "shares"), tiered([("algorithm1", (0.1, 0.18, 0.33)), ("feedback", (0.5, 0.5, 0.5))])
)
def test_the_suboptimality_is_negative_as_often_as_the_page_says(explorer, shares):
    """The share of 60 runs within 5 standard errors, those of the page's 400 included."""
    found = (runs_of(explorer).suboptimality < 0).mean(axis=0)
    error = np.sqrt(np.array(shares) * (1 - np.array(shares)) * (1 / RUNS + 1 / PAGE_RUNS))
    assert (np.abs(found - shares) <= ERRORS * error).all()


@pytest.mark.thorough
def test_the_regret_of_feedback_falls_twice_as_fast_as_its_bregman_part_and_four_times_as_fast_as_its_noise():
    """Exponents -2, -1 and -1/2: by 5 standard errors none of them is another's."""
    found = ours("feedback")
    slopes = {
        name: found[name][-1] for name in ("pathwise regret", "Bregman part", r"root mean square of $\xi$")
    }
    for (slope, error), expected in zip(slopes.values(), (-2, -1, -0.5), strict=True):
        assert (
            abs(slope - expected) <= ERRORS * error + 0.05
        )  # 0.05: what a thousand steps are from the long run
        assert error < 0.05


@pytest.mark.thorough
def test_the_suboptimality_of_both_explorers_falls_faster_than_the_theorem_promises_for_one():
    """In the mean, by 5 standard errors: Algorithm 1 near t^(-3/4), feedback near 1/t; the theorem says t^(-1/3)."""
    for explorer in EXPLORERS:
        slope, error = ours(explorer)[r"$\xi$"][-1]
        assert slope + ERRORS * error < -1 / 3


@pytest.mark.thorough
def test_no_explorer_has_a_suboptimality_without_the_noise_of_the_world():
    """Its root mean square is not below sigma/sqrt(t), which is all there is to feedback's."""
    sigma = problem().limits.sigma / np.sqrt(STEPS)
    for explorer in EXPLORERS:
        root = ours(explorer)[r"root mean square of $\xi$"][:3]
        assert all(value >= noise - ERRORS * error for (value, error), noise in zip(root, sigma, strict=True))
    for (value, error), noise in zip(
        ours("feedback")[r"root mean square of $\xi$"][1:3], sigma[1:], strict=True
    ):
        assert abs(value - noise) <= ERRORS * error
