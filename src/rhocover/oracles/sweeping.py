"""Models that mix fast need no factorisation: sweeps alone settle their values and their visits.

Values: h <- T h until all states change alike, T h - h = constant; between two sweeps over all entries there
are some over the best of them alone, which cost less (modified policy iteration, Puterman and Shin 1978).
Visits: x <- inflow + keep x P until nothing changes. Both converge as fast as the chain forgets where it
was. On random graphs that is a factor of two or more a step, while a factorisation fills in: with 10,000
states and 5 successors it took 90 s, and sweeps take 15 ms. On grids it is the other way round. So a few
sweeps are tried, and given up as soon as they do not converge fast; whatever comes out is certified as any
other answer is.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, Matrix
from rhocover.oracles.choices import Choices
from rhocover.oracles.kernels import improved_values, moved_visits
from rhocover.oracles.response import centred

SMALL = 50  # states below which a factorisation takes no longer than sweeps
BATCH = 10  # sweeps between two looks
FAST = 0.7  # of the unevenness a batch may leave: 0.6 at first, 0.01 later; on grids it grows at first
FORGETFUL = 0.1  # of what moves a batch may leave
ALIKE = 1e-12  # changes of states that differ by less are the same: rewards are near 1
STILL = 1e-15  # of all visits may move in a sweep; rounding leaves 1e-17 to 1e-16
NEARLY_STILL = 1e-14  # ... where rounding leaves more


def values_by_sweeps(choices: Choices, reward: FloatArray, h: FloatArray, keep: float) -> FloatArray | None:
    """Returns h `[S]` with T h - h the same everywhere, T h = max reward + keep P h; None if that is slow.

    Sweeps begin with the `h` given.
    """
    if choices.num_nodes < SMALL:
        return None
    P, last = choices.members.mdp.transitions, np.inf
    while True:
        after, uneven = improved_values(P.indptr, P.indices, P.data, choices.first, reward, keep, h, BATCH)
        if uneven <= ALIKE:
            return h
        if not uneven <= FAST * last:
            return None
        h, last = centred(after), uneven


def visits_by_sweeps(chain: Matrix, inflow: FloatArray, keep: float) -> FloatArray | None:
    """Returns x `[S]` with x = inflow + keep x P, of mass 1 as the fixed point is; None if that is slow."""
    size = chain.shape[0]
    if size < SMALL:
        return None
    x, last = np.full(size, 1 / size), 2.0
    while True:
        x, moved = moved_visits(chain.indptr, chain.indices, chain.data, inflow, keep, x, BATCH)
        if moved <= STILL:
            return x
        if not moved <= FORGETFUL * last:
            return x if moved <= NEARLY_STILL else None
        last = moved
