"""Sweeps agree with elimination, or say that they cannot tell. The mutant: a single start."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from chain_models import expander

from rhocover import chains
from rhocover.chains import stationary
from rhocover.errors import SolverError
from rhocover.linalg import dissection


def test_sweeps_agree_with_elimination_where_both_work(monkeypatch) -> None:
    P = expander(600)
    exact = chains.stationary_distribution(P)
    monkeypatch.setattr(dissection, "LARGEST_SEPARATOR", 10)
    monkeypatch.setattr(stationary, "eliminate", None)  # so that it would fail if it were used
    assert np.allclose(chains.stationary_distribution(P), exact, rtol=1e-12, atol=0)  # starts agree to 1e-13


@pytest.mark.parametrize("coupling", [1e-9, 1e-20])
def test_sweeps_do_not_mistake_uncoupled_halves_for_a_limit(coupling: float, monkeypatch) -> None:
    P = sp.block_diag([expander(300), expander(300, seed=1)], format="lil")
    P[5, 400], P[500, 7] = coupling, 3 * coupling
    monkeypatch.setattr(dissection, "LARGEST_SEPARATOR", 10)
    monkeypatch.setattr(stationary, "MAX_SWEEPS", 500)
    with pytest.raises(SolverError, match="mixes too slowly"):
        chains.stationary_distribution(P)
