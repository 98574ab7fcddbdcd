"""Models that mix fast need no factorisation: sweeps alone settle their values and their visits.

Values: h <- T h until all states change alike, T h - h = constant. Visits: x <- inflow + keep x P until
nothing changes. Both converge as fast as the chain forgets where it was. On random graphs that is a factor of
two or more a step, while a factorisation fills in: with 10,000 states and 5 successors it took 90 s, and
sweeps take 20 ms. On grids it is the other way round. So a few sweeps are tried, and given up as soon as
they do not converge fast; whatever comes out is certified as any other answer is.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.oracles.choices import Choices
from rhocover.oracles.improvement import swept
from rhocover.oracles.response import centred

SMALL = 300  # states below which a factorisation takes no longer than sweeps
BATCH = 10  # sweeps between two looks
FAST = 0.8  # of the error a sweep may leave; then 1e-13 is reached in 134 of them
ALIKE = 1e-12  # changes of states that differ by less are the same: rewards are near 1
STILL = 1e-15  # of all visits may move in a sweep; rounding leaves 1e-17 to 1e-16
NEARLY_STILL = 1e-14  # ... where rounding leaves more


def values_by_sweeps(choices: Choices, reward: FloatArray, h: FloatArray, keep: float) -> FloatArray | None:
    """Returns h `[S]` with T h - h the same everywhere, T h = max reward + keep P h; None if that is slow.

    Sweeps begin with the `h` given.
    """
    if choices.num_nodes < SMALL:
        return None
    last = _unevenness(choices, reward, h, keep)
    while True:
        h = centred(swept(choices, reward, h, keep, BATCH))
        uneven = _unevenness(choices, reward, h, keep)
        if uneven <= ALIKE:
            return h
        if not uneven <= FAST**BATCH * last:
            return None
        last = uneven


def _unevenness(choices: Choices, reward: FloatArray, h: FloatArray, keep: float) -> float:
    """Returns by how much more one state changes in a sweep than another."""
    return float(np.ptp(swept(choices, reward, h, keep, 1) - h))


def visits_by_sweeps(chain: Matrix, inflow: FloatArray, keep: float) -> FloatArray | None:
    """Returns x `[S]` with x = inflow + keep x P, of mass 1 as the fixed point is; None if that is slow."""
    size = chain.shape[0]
    if size < SMALL:
        return None
    arrivals = keep * sp.csr_array(chain.T)
    x, last = np.full(size, 1 / size), 2.0
    while True:
        for _ in range(BATCH):
            x = inflow + arrivals @ x
        moved = float(np.abs(inflow + arrivals @ x - x).sum())
        if moved <= STILL:
            return x
        if not moved <= FAST**BATCH * last:
            return x if moved <= NEARLY_STILL else None
        last = moved
