"""Chains whose weights leave the range of floats, against products of many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from chain_models import relative_error, reproducible, seeds, sparse_birth_death
from hypothesis import given
from hypothesis import strategies as st

from rhocover import chains
from rhocover.errors import SolverError


@reproducible
@given(seeds, st.sampled_from([2, 50, 300]), st.booleans())
def test_birth_and_death_multiply_ratios_down_to_1e_300(seed: int, decades: int, shuffle: bool) -> None:
    rng = np.random.default_rng(seed)
    up, down = 0.5 * 10 ** -rng.uniform(0, decades, (2, 14))
    P = sparse_birth_death(up, down).toarray()
    exact = [mp.mpf(1)]
    for u, d in zip(up, down, strict=True):
        exact.append(exact[-1] * mp.mpf(u) / mp.mpf(d))
    order = rng.permutation(15) if shuffle else np.arange(15)
    result = chains.stationary_distribution(P[np.ix_(order, order)])
    total = mp.fsum(exact)
    error = relative_error(result, [exact[i] / total for i in order])
    assert error < (1e-14 if decades < 300 else 1e-11)  # logarithms near 10,000 carry 12 digits


def two_wells(num_states: int):
    """Returns a line that falls off to both ends by 1/100 a step, and what its states weigh."""
    half = num_states // 2
    up = np.concatenate([np.full(half, 0.004), np.full(num_states - half - 1, 0.4)])
    down = np.concatenate([np.full(half, 0.4), np.full(num_states - half - 1, 0.004)])
    down[-1] = 0.1
    weight = [mp.mpf(1)]
    for u, d in zip(up, down, strict=True):
        weight.append(weight[-1] * mp.mpf(u) / mp.mpf(d))
    return sparse_birth_death(up, down), [w / mp.fsum(weight) for w in weight]


def test_two_wells_are_weighed_though_the_way_between_them_leaves_the_range_of_floats() -> None:
    """The barrier is 1e-420; shuffled, so that the order of the states is no help."""
    P, exact = two_wells(420)
    order = np.random.default_rng(0).permutation(420)
    result = np.empty(420)
    result[order] = chains.stationary_distribution(P[order][:, order])
    assert relative_error(result, exact) < 1e-10  # logarithms near 1,400, 420 times


def test_two_wells_of_many_states_are_refused_rather_than_guessed() -> None:
    P, _ = two_wells(1200)
    order = np.random.default_rng(0).permutation(1200)
    with pytest.raises(SolverError, match="coupled by less than 1e-303"):
        chains.stationary_distribution(P[order][:, order])
