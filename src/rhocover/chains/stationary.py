"""Stationary distributions: pi = pi P on the one recurrent class, each entry to its own digits.

The chain's own time scale is divided out first: F is the chain of jumps between distinct states, and pi_s
is proportional to flow_s / (probability of leaving s). The flow is found by elimination along separators;
by logarithms where its range leaves float64; by sweeps where there are no small separators. Whoever found
it, it is believed only if every state passes on what it got.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.chains.classes import recurrent_part
from rhocover.chains.dissection import dissect
from rhocover.chains.elimination import TINY, RangeError, eliminate
from rhocover.chains.logarithms import log_flow
from rhocover.chains.reading import read_chain, row_of
from rhocover.chains.sweeps import swept_flow
from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.errors import SolverError

LOG_STATES = 500  # up to here logarithms take about a second
MAX_RESTARTS = 8
BALANCE_TOLERANCE = 1e-10  # elimination leaves 1e-15 to 1e-13; anything near 1e-10 is a failure


def stationary_distribution(chain: Any) -> FloatArray:
    """Returns the stationary distribution of a chain with one recurrent class, shape `[S]`.

    The moves to other states are taken as given, the probability to stay is what they leave. Transient
    states get 0, periodic chains are welcome, and so are weak couplings: nothing is subtracted, so each
    entry is right to about 1e-14 of itself, down to 1e-308, where float64 itself ends.

    Two cases have less to offer. Where parts are coupled by less than 1e-303, logarithms take over (1e-12)
    up to 500 states, and `SolverError` is raised above. Where no 4,000 states or fewer separate the chain
    (large random graphs, not grids) it is iterated from three starts until all agree to 1e-13 in every
    entry, which is evidence but no proof; if it mixes too slowly for that, `SolverError` is raised.
    """
    rows = read_chain(chain)
    states, part = recurrent_part(rows)
    result = np.zeros(rows.shape[0])
    result[states] = irreducible_distribution(part)
    return result


def irreducible_distribution(part: Matrix) -> FloatArray:
    """Returns the stationary distribution of an irreducible chain."""
    if part.shape[0] == 1:
        return np.ones(1)
    jumps, rate = _jump_chain(part)
    digits, exponent = _flow(jumps, rate)
    _check_balance(jumps, np.ldexp(digits, exponent - exponent[digits > 0].max()))
    rate_digits, rate_exponent = np.frexp(rate)  # flow / rate may leave float64 before it is normalised
    exponent = exponent - rate_exponent
    weight = np.ldexp(digits / rate_digits, exponent - exponent[digits > 0].max())
    return weight / weight.sum()


def _jump_chain(part: Matrix) -> tuple[Matrix, FloatArray]:
    """Returns the chain seen only when the state changes, and the probability of changing, `[S]`."""
    row = row_of(part)
    moves = part.indices != row
    row, column, data = row[moves], part.indices[moves], part.data[moves]
    rate = np.bincount(row, data, part.shape[0]).astype(np.float64, copy=False)
    return sp.csr_array((data / rate[row], (row, column)), shape=part.shape), rate


def _check_balance(jumps: Matrix, flow: FloatArray) -> None:
    """Refuses a flow that some state does not pass on as it got it, in proportion to its own size."""
    error = np.abs(jumps.T @ flow - flow)
    allowed = BALANCE_TOLERANCE * flow + TINY
    if not (np.isfinite(flow).all() and (flow >= 0).all() and (error <= allowed).all()):
        raise SolverError(
            f"the stationary distribution was not found: the flow through {int((~(error <= allowed)).sum())} "
            f"of {flow.size} states is off by more than {BALANCE_TOLERANCE:g} of itself."
        )


def _flow(jumps: Matrix, rate: FloatArray) -> tuple[FloatArray, IntArray]:
    """Returns the stationary flow of a chain of jumps, up to a factor, as digits and exponents of 2.

    The root, eliminated last, is the unit of the flow. A state that outweighs it by more than float64
    can say shows in the elimination; it becomes the root of the next attempt, or calls for logarithms.
    """
    graph = sp.csr_array(jumps + jumps.T)
    root = int(np.argmax(np.diff(graph.indptr)))
    for _ in range(MAX_RESTARTS):
        fronts = dissect(graph, root)
        if fronts is None:
            return np.frexp(swept_flow(jumps))
        try:
            return np.frexp(eliminate(jumps, rate, fronts))
        except RangeError as error:
            root = error.state
            if rate.size <= LOG_STATES:
                return log_flow(jumps)
    raise SolverError(
        "parts of the chain are coupled by less than 1e-303: float64 cannot hold what they weigh relative to "
        "each other. Set such probabilities to 0 and treat the classes one by one."
    )
