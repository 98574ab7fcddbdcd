"""How often a policy has visited each state after n steps, in expectation and in the long run.

With x_0 the start and P the policy's chain, x_t = x_0 P^t is where it is at time t, and the expected visits
are C_n = x_0 + ... + x_{n-1}. They grow like n times the long-run frequency plus what the start adds or takes
away.

**The first n with C_n >= need** is found in two ways. Up to a few hundred states by doubling: with S_k =
sum_{t < 2^k} P^t, C_{n + 2^k} = C_n + x_n S_k and x_{n + 2^k} = x_n P^(2^k), so n is found bit by bit,
whatever its size. Larger chains are swept step by step; once x_n has come within 1e-12 of the long-run
frequency d every further step adds d, and the rest is a division.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import chains
from rhocover.chains.classes import depths
from rhocover.checks import BoolArray, FloatArray, Matrix

DENSE_STATES = 300  # up to here doubling takes well under a second
MAX_LEVELS = 60  # powers of two: no budget is of more than 1e18 steps
SWEEP_WORK = 4_000_000_000  # multiplications: some seconds
SETTLED = 1e-12  # distance in L1 from the long-run frequencies at which the start is forgotten
ROUNDING = 1e-9  # of a need: 100 visits are 99.9999999


def reached_states(chain: Matrix, start: FloatArray) -> BoolArray:
    """Returns which states the chain can be in, from a start distribution, shape `[S]`."""
    return depths(chain, np.flatnonzero(start)) >= 0


def long_run_frequencies(chain: Matrix, start: FloatArray) -> FloatArray:
    """Returns the expected long-run share of time in each state, from `start`, shape `[S]`.

    With several recurrent classes the start decides which one the chain ends in, and with what probability.
    """
    result = np.zeros(start.size)
    for states, chance in _ends(chain, start):
        if chance > 0:
            result[states] = chance * chains.stationary_distribution(chain[states][:, states])
    return result


def _ends(chain: Matrix, start: FloatArray) -> list[tuple[Any, float]]:
    """Returns the recurrent classes and the probability of ending in each."""
    classes = chains.recurrent_classes(chain)
    if len(classes) == 1:
        return [(classes[0], 1.0)]
    passing = np.ones(start.size, bool)
    passing[np.concatenate(classes)] = False
    arrived = start + chain.T @ _visits_on_the_way(chain, start, np.flatnonzero(passing))
    return [(states, float(arrived[states].sum())) for states in classes]


def _visits_on_the_way(chain: Matrix, start: FloatArray, passing: Any) -> FloatArray:
    """Returns the expected visits to transient states, x (I - P)^-1 among them, shape `[S]`; 0 elsewhere."""
    from scipy.sparse.linalg import spsolve

    visits = np.zeros(start.size)
    if passing.size:
        among = chain[passing][:, passing]
        system = sp.csc_array(sp.eye_array(passing.size) - among.T)
        visits[passing] = np.asarray(spsolve(system, start[passing]))
    return visits


def first_time(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the smallest n with expected visits C_n >= need in every state; inf if there is none.

    `need` is `[S]`, `frequency` the long-run frequencies. None if it was not found: a chain above
    `DENSE_STATES` states that has not settled after `SWEEP_WORK` multiplications, or more than 2^60 steps.
    """
    reached = reached_states(chain, start)
    if not np.isfinite(need).all() or need[~reached].any():
        return math.inf
    kept = np.flatnonzero(reached)
    find = by_doubling if kept.size <= DENSE_STATES else by_sweeps
    return find(sp.csr_array(chain[kept][:, kept]), start[kept], need[kept], frequency[kept])


def by_doubling(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the first time, bit by bit from dense powers of the chain; see `first_time`."""
    levels = [(chain.toarray(), np.eye(start.size))]
    while not _met(start @ levels[-1][1], need):
        if len(levels) > MAX_LEVELS:
            late = start @ levels[-1][1] < need
            return None if frequency[late].all() else math.inf
        levels.append(_doubled(*levels[-1]))
    n, x, visits = 0, start, np.zeros(start.size)
    for k in reversed(range(len(levels) - 1)):
        power, total = levels[k]
        if not _met(visits + x @ total, need):
            n, visits, x = n + 2**k, visits + x @ total, x @ power
    return n + 1  # n steps are the most that are not enough


def _doubled(power: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns P^(2k) and the sum of the powers below 2k; rows are kept at 1, or rounding would double too."""
    square = power @ power
    return square / square.sum(axis=1, keepdims=True), total + power @ total


def by_sweeps(chain: Matrix, start: FloatArray, need: FloatArray, frequency: FloatArray) -> float | None:
    """Returns the first time, step by step until the start is forgotten; see `first_time`."""
    forward = sp.csr_array(chain.T)
    x, visits = start, np.zeros(start.size)
    for n in range(1, SWEEP_WORK // max(chain.nnz, 1)):
        visits = visits + x
        if _met(visits, need):
            return n
        x = forward @ x
        if n % 16 == 0 and np.abs(x - frequency).sum() <= SETTLED:
            return n + _steps_to_go(need * (1 - ROUNDING) - visits, frequency)
    return None


def _steps_to_go(missing: FloatArray, frequency: FloatArray) -> float:
    late = missing > 0
    if not frequency[late].all():
        return math.inf
    return math.ceil(float((missing[late] / frequency[late]).max()))


def _met(visits: FloatArray, need: FloatArray) -> bool:
    return bool((visits >= need * (1 - ROUNDING)).all())
