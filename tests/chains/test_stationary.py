"""Stationary distributions against closed forms, small and large, and what is refused.

The named mutants: a transposed chain, a flow that is not checked.
"""

from __future__ import annotations

import numpy as np
import pytest
from chain_models import drifting_grid, sparse_birth_death

from rhocover import chains
from rhocover.chains import stationary
from rhocover.errors import InvalidArgumentError, SolverError


def test_two_states_share_in_proportion_to_the_way_back() -> None:
    result = chains.stationary_distribution([[0.9, 0.1], [0.3, 0.7]])
    assert np.allclose(result, [0.75, 0.25], rtol=1e-15, atol=0)  # a transposed chain gives 1/2 or worse


def test_transient_states_get_nothing_and_periodic_chains_get_their_average() -> None:
    P = [[0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert np.allclose(chains.stationary_distribution(P), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-15, atol=0)
    assert chains.stationary_distribution([[1.0, 0.0], [0.5, 0.5]]).tolist() == [1, 0]


def test_several_recurrent_classes_are_refused_with_a_state_of_each() -> None:
    P = np.eye(4)
    P[2] = [0.5, 0, 0, 0.5]
    with pytest.raises(InvalidArgumentError, match=r"one recurrent class, got 3, .* from each: 0, 1, 3\."):
        chains.stationary_distribution(P)
    one = chains.recurrent_classes(P)[0]
    assert chains.stationary_distribution(P[one][:, one]).tolist() == [1.0]


@pytest.mark.thorough
def test_a_grid_of_100_000_states_keeps_its_product_form() -> None:
    P, exact = drifting_grid(316, ratio=1.5)
    result = chains.stationary_distribution(P)
    assert result.min() < 1e-110
    # 1.5^-600 is off by 600 roundings in the closed form itself
    assert np.allclose(result, exact, rtol=1e-12, atol=0)


@pytest.mark.thorough
def test_a_line_of_100_000_states_is_in_detailed_balance() -> None:
    up, down = np.random.default_rng(0).uniform(0.1, 0.4, (2, 99_999))
    down = np.sort(up)[np.argsort(np.argsort(down))]  # the same numbers, so that no end outweighs the other
    result = chains.stationary_distribution(sparse_birth_death(up, down))
    assert np.allclose(result[1:] * down, result[:-1] * up, rtol=1e-13, atol=0)  # one elimination each
    assert result.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("num_states", [400, 900])
def test_what_is_too_light_for_a_float_is_zero_and_the_rest_is_right(num_states: int) -> None:
    line = sparse_birth_death(np.full(num_states - 1, 0.1), np.full(num_states - 1, 0.7))
    exact = 7.0 ** -np.arange(350)
    for order in (np.arange(num_states), np.random.default_rng(0).permutation(num_states)):
        result = np.empty(num_states)
        result[order] = chains.stationary_distribution(line[order][:, order])
        assert np.allclose(result[:350] / result[0], exact, rtol=1e-12, atol=0)  # 350 factors
        assert result[365:].max() < 1e-308  # denormal, with fewer digits
        assert result[-1] == 0


def test_a_solver_that_returns_nonsense_is_not_believed(monkeypatch) -> None:
    for nonsense in (np.array([0.5, 0.5, 0.5]), np.array([np.nan, 1, 1]), np.array([-1.0, 1, 1])):
        monkeypatch.setattr(stationary, "eliminate", lambda *_, flow=nonsense: flow)
        with pytest.raises(SolverError, match="was not found"):
            chains.stationary_distribution([[0.5, 0.5, 0], [0.1, 0, 0.9], [0.2, 0.8, 0]])
