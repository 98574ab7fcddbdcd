"""Elimination on logarithms, for chains whose flows differ by more than float64 can say.

The same formulas as in `rhocover.chains.elimination`, dense and state by state, with products as sums and
sums as logaddexp2.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, IntArray, Matrix


def log_flow(jumps: Matrix) -> tuple[FloatArray, IntArray]:
    """Returns the flow by the same elimination on logarithms: any range, 1e-12 of accuracy, slowly."""
    with np.errstate(divide="ignore"):
        F = np.log2(jumps.toarray())
    pivot = np.zeros(F.shape[0])
    for k in range(F.shape[0] - 1, 0, -1):
        pivot[k] = np.logaddexp2.reduce(F[k, :k])
        F[:k, :k] = np.logaddexp2(F[:k, :k], F[:k, k, None] + (F[k, :k] - pivot[k]))
    flow = np.zeros(F.shape[0])
    for k in range(1, F.shape[0]):
        flow[k] = np.logaddexp2.reduce(flow[:k] + F[:k, k]) - pivot[k]
    exponent = np.ceil(flow - flow.max()).astype(np.int64)
    return np.exp2(flow - flow.max() - exponent), exponent
