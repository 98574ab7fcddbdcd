"""Separators are found where a few states hide them. The mutant: hubs that are not set aside."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from chain_models import drifting_grid

from rhocover import chains
from rhocover.chains import stationary
from rhocover.linalg import dissection


def test_restarts_do_not_hide_the_separators(monkeypatch) -> None:
    """Every state leads back to two hubs; checked by balance, to roundings, state by state."""
    P, _ = drifting_grid(80, ratio=1.0)
    hubs = (np.ones(2 * 6400), (np.repeat(np.arange(6400), 2), np.tile([1234, 5000], 6400)))
    P = 0.99 * P + 0.005 * sp.csr_array(hubs, shape=P.shape)
    monkeypatch.setattr(dissection, "LARGEST_SEPARATOR", 160)
    monkeypatch.setattr(stationary, "swept_flow", None)  # so that it would fail if it were used
    result = chains.stationary_distribution(P)
    assert np.allclose(P.T @ result, result, rtol=1e-13, atol=0)
