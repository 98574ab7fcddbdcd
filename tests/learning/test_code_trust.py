"""The figures on codes of observations: how they grow, the dimension of observations, what is within codes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from rhocover.errors import RhocoverWarning
from rhocover.learning.codes import (
    HIDES_MUCH,
    LEAST_POINTS,
    SENTENCE,
    Coded,
    CodeDiagnosis,
    Growth,
    Sample,
    diagnose,
    dimension_of,
    growth_of,
    joined_codes,
    share_of_stays,
    share_within,
    spread_within,
    warn_of,
)
from tiers import tiered


def test_codes_that_double_with_the_steps_have_exponent_one_and_finished_ones_zero():
    assert growth_of(np.arange(1000), 1000).exponent == 1
    assert growth_of(np.arange(100), 1000).exponent == 0
    assert math.isnan(growth_of([900], 1000).exponent)


def test_the_error_of_new_codes_counts_bursts_not_codes():
    even, burst = np.arange(500, 1000, 5), np.arange(600, 700)
    assert growth_of(even, 1000).num_new == growth_of(burst, 1000).num_new == 100
    assert growth_of(even, 1000).error < 4 < 40 < growth_of(burst, 1000).error


def test_growth_says_how_many_of_how_many():
    assert str(growth_of([0, 1, 70], 100, 400, "bins")) == "3 of 400 bins, 1 ± 1 new in the last 50 steps"
    assert str(growth_of([0], 100)) == (
        "1 code so far, whether there are others is not known: none new in the last 50 steps"
    )
    assert str(growth_of([0, 1, 70], 100)).startswith("3 codes so far, still growing: 1 ± 1 new")


@pytest.mark.parametrize("dimension", tiered([2, 1, 4]))
def test_the_dimension_of_a_flat_in_ten_dimensions_is_found(dimension):
    """Within 5 standard errors and a bias of 10 % from the corners of the cube."""
    rng = np.random.default_rng(dimension)
    points = rng.random((3000, dimension)) @ np.linalg.qr(rng.normal(size=(10, dimension)))[0].T
    found = dimension_of(points)
    assert found.num_numbers == 10
    assert abs(found.estimate - dimension) <= 5 * found.error + 0.1 * dimension
    assert found.error < 0.2 * dimension


def test_repeated_observations_are_counted_once_and_few_give_no_dimension():
    points = np.random.default_rng(0).random((LEAST_POINTS, 2))
    assert math.isfinite(dimension_of(np.repeat(points, 5, axis=0)).estimate)
    assert math.isnan(dimension_of(np.repeat(points[1:], 5, axis=0)).estimate)
    assert str(dimension_of(points[1:])) == "2 numbers"


def test_a_line_of_equal_distances_has_no_dimension_of_zero():
    assert not dimension_of(np.arange(float(LEAST_POINTS))[:, None]).estimate <= 0


@pytest.mark.parametrize("rho", tiered([2.0, 0.5, 1.0, 3.0]))
def test_the_divergence_within_a_code_is_that_of_its_density(rho):
    """On a square with density proportional to x + 1/2 in both coordinates, against the integral.

    The tolerance is 4 of the estimate's own errors and 0.05 for the edges of the square.
    """
    rng = np.random.default_rng(3)
    u = rng.random((4000, 2))
    points = (np.sqrt(1 + 8 * u) - 1) / 2  # the inverse of (x + x^2) / 2 on [0, 1]
    found = spread_within(Sample(points, np.zeros(4000, np.int64)), rho, 2.0)
    x = (np.arange(10_000) + 0.5) / 10_000
    ratio = 1 / (x + 0.5)  # mu/d in one coordinate; they are independent, so divergences add
    one = np.log(ratio).mean() if rho == 1 else np.log((ratio ** (rho - 1)).mean()) / (rho - 1)
    assert found is not None
    assert abs(found.largest - 2 * one) <= 4 * found.error + 0.05


@pytest.mark.parametrize("rho", tiered([2.0, 0.5, 1.0]))
def test_even_observations_have_no_divergence_within_their_code(rho):
    points = np.random.default_rng(1).random((4000, 2))
    found = spread_within(Sample(points, np.zeros(4000, np.int64)), rho, 2.0)
    assert found is not None
    assert found.largest <= 4 * found.error + 0.1  # 0.1: the k-th neighbour at an edge is farther


def test_a_spread_needs_enough_observations_in_a_code():
    points = np.random.default_rng(1).random((1000, 2))
    assert spread_within(Sample(points, np.arange(1000)), 2.0, 2.0) is None
    codes = np.where(np.arange(1000) < 500, 0, np.arange(1000))
    found = spread_within(Sample(points, codes), 2.0, 2.0)
    assert found is not None
    assert found.num_codes == 1


def test_codes_and_what_is_within_them_bound_the_divergence_of_the_states():
    """D(codes) <= D(states) <= D(codes) + max D(within), for a random table of states in codes."""
    from rhocover.coverage import Coverage

    rng = np.random.default_rng(0)
    d, mu = rng.dirichlet(np.ones(12)).reshape(4, 3), rng.random((4, 3))
    for rho in (0.5, 1.0, 2.0, 8.0):
        whole = Coverage(rho, mu.ravel()).divergence(d.ravel())
        codes = Coverage(rho, mu.sum(axis=1)).divergence(d.sum(axis=1))
        within = [Coverage(rho, m).divergence(p / p.sum()) for m, p in zip(mu, d, strict=True)]
        assert codes - 1e-12 <= whole <= codes + max(within) + 1e-12


def test_the_share_within_codes_is_one_for_one_code_and_zero_for_a_code_each():
    points = np.random.default_rng(0).random((100, 3)) * [1, 100, 0]
    assert share_within(Sample(points, np.zeros(100, np.int64))) == pytest.approx(1)
    assert share_within(Sample(points, np.arange(100))) == pytest.approx(0)
    assert math.isnan(share_within(Sample(points * 0, np.arange(100))))
    halves = (points[:, 0] > 0.5).astype(np.int64)
    assert 0.5 < share_within(Sample(points, halves)) < HIDES_MUCH + 0.25


def test_stays_are_transitions_to_the_own_code():
    moves = sp.csr_array(np.array([[3, 1], [0, 2], [1, 1], [0, 2]]))  # two codes with two actions
    assert share_of_stays(moves, 2) == 6 / 10
    assert math.isnan(share_of_stays(sp.csr_array((4, 2), dtype=np.int64), 2))


def diagnosis(growth: Growth, stays: float = 0.5, hidden: float = 0.1, **more) -> CodeDiagnosis:
    return CodeDiagnosis(growth, 9, stays, 2.0, 0.5, hidden, **more)


FINE = growth_of(np.arange(0, 10_000, 5), 10_000)


def test_codes_are_too_fine_if_they_grow_and_are_more_pairs_than_steps():
    assert diagnosis(FINE).is_too_fine
    assert not diagnosis(growth_of(np.arange(2000), 10_000)).is_too_fine  # many, but no new ones
    assert not diagnosis(growth_of(np.arange(0, 10_000, 50), 10_000)).is_too_fine  # still growing, but few
    assert not diagnosis(growth_of(np.arange(0, 900, 5), 900)).is_too_fine  # too early to say


def test_codes_are_too_coarse_if_steps_stay_and_much_is_hidden():
    few = growth_of([0], 10_000)
    assert diagnosis(few, 0.99, 0.9).is_too_coarse
    assert not diagnosis(few, 0.99, 0.1).is_too_coarse
    assert not diagnosis(few, 0.7, 0.9).is_too_coarse
    assert diagnosis(few, 0.99, math.nan).is_too_coarse
    assert not diagnosis(growth_of([0, 1], 10_000), 0.99, math.nan).is_too_coarse
    assert not diagnosis(growth_of([0], 900), 1.0, 1.0).is_too_coarse


def test_warnings_give_advice_and_are_not_given_for_numbers():
    with pytest.warns(RhocoverWarning, match="too fine .* larger radius .* `of`"):
        warn_of(diagnosis(FINE), 1)
    with pytest.warns(RhocoverWarning, match="too coarse: 100% .* smaller radius or more bins, or repeat"):
        warn_of(diagnosis(growth_of([0], 10_000), 1.0, 1.0), 1)
    warn_of(diagnosis(FINE, is_lossy=False), 1)


def test_the_diagnosis_says_what_codes_prove_and_states_that_are_numbers_say_only_what_was_held_out():
    held_out = growth_of([0, 1], 100, 4, "bins")
    coded = diagnosis(FINE, held_out=held_out)
    assert coded.notes[-1] == coded.lines[-1] == SENTENCE
    assert "at least 0.5" in " ".join(coded.notes)
    assert coded.document()["held_out"]["num_codes"] == 2
    plain = diagnosis(FINE, held_out=held_out, is_lossy=False)
    assert plain.notes == (f"Held out: {held_out} (never planned with).",)


def test_the_lower_figure_sums_the_actions_and_an_unvisited_code_makes_it_infinite():
    weights, visits = np.ones((2, 3)), np.array([[3, 0, 0], [0, 0, 3]])
    growth = growth_of([0, 1], 6)
    assert diagnose(Coded(), growth, 0.5, weights, visits, 2.0).divergence == pytest.approx(0)
    visits[1] = 0
    assert diagnose(Coded(), growth, 0.5, weights, visits, 2.0).divergence == math.inf


def test_two_data_sets_are_coded_if_one_of_them_is():
    assert joined_codes(None, None) is None
    mine = Coded("bins", sample=Sample(np.zeros((1, 1)), np.zeros(1, np.int64)))
    assert joined_codes(mine, None) == Coded("bins") == joined_codes(None, mine)
    assert joined_codes(Coded("states", False), Coded("codes", True)) == Coded("states", True)
