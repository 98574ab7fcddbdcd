"""Elimination against arithmetic of many digits.

The named mutants: a pivot by subtraction, a front that forgets an update, a diagonal that is read.
"""

from __future__ import annotations

import numpy as np
import pytest
from chain_models import many_digits, random_chain, relative_error, reproducible, seeds
from hypothesis import given
from hypothesis import strategies as st

from rhocover import chains
from rhocover.chains import stationary
from rhocover.linalg import dissection


@pytest.mark.parametrize("coupling", [1e-6, 1e-12, 1e-16, 1e-100, 1e-300])
def test_nearly_uncoupled_blocks_keep_every_digit(coupling: float) -> None:
    """A pivot by subtraction loses all of them at 1e-16, four at 1e-12."""
    rng = np.random.default_rng(0)
    P = np.kron(np.eye(2), np.ones((10, 10))) * rng.random((20, 20))
    P /= P.sum(axis=1, keepdims=True)
    P[3, 15], P[17, 2] = coupling, 2 * coupling
    P[[3, 17], [3, 17]] -= [coupling, 2 * coupling]
    error = relative_error(chains.stationary_distribution(P), many_digits(P, 700))
    assert error < 1e-13  # a few roundings in each of 20 eliminations


@reproducible
@given(seeds, st.sampled_from([0.0, 12.0, 60.0]), st.sampled_from([2, 7, 1000]))
def test_fronts_of_any_size_give_the_digits_of_gaussian_elimination(
    seed: int, decades: float, size: int
) -> None:
    P = random_chain(seed, 4 + seed % 20, decades, density=0.15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dissection, "LEAF_SIZE", size)
        patch.setattr(stationary, "PANEL", min(size, 5))
        patch.setattr(dissection, "HUB_DEGREE", 1.5)
        result = chains.stationary_distribution(P)
    assert relative_error(result, many_digits(P, 200)) < 1e-13  # a few roundings in each elimination
