"""The nearest visits with a given flow residual, in a metric given by weights.

For B = [A; 1'] (the flow equations of the average criterion and the mass), a diagonal metric H = 1/W and a
right side r, the vector g with B g = r and the smallest g'Hg is

    g = W B' (B W B')^-1 r,     g'Hg = r' (B W B')^-1 r.

So I - W B' (B W B')^-1 B projects onto the directions that leave flow and mass alone, orthogonally in H.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.occupancy import Occupancies
from rhocover.planning.factorisation import NormalEquations

DENSE_PAIRS = 400  # up to here one matrix-vector product beats two triangular solves


class FlowProjection:
    """Least-norm corrections over the pairs of one set, for one vector of weights W > 0, `[n]`."""

    def __init__(self, members: Occupancies, W: FloatArray) -> None:
        self._K = members.flow[:-1]
        self._W = W / float(W.max())
        self._size = float(W.max())
        self._equations = NormalEquations(self._K)
        self._equations.factorise(self._W)
        self._column = self._equations.solve(self._K @ self._W)
        self._rest = float(self._W.sum()) - float((self._K @ self._W) @ self._column.x)
        self._matrix = self._dense() if W.size <= DENSE_PAIRS else None

    def explained(self, v: FloatArray) -> FloatArray:
        """Returns the least-norm g with B g = B v: the part of v that flow and mass force."""
        if self._matrix is not None:
            return self._matrix @ v
        return self._least_norm(self._K @ v, float(v.sum()))

    def energy(self, flow: FloatArray) -> float:
        """Returns r'(B W B')^-1 r for r = (flow without its last row, 0)."""
        g = self._least_norm(flow, 0.0)
        return float(g @ (g / self._W)) / self._size

    def _least_norm(self, flow: FloatArray, mass: float) -> FloatArray:
        inner = self._equations.solve(flow)
        alpha = (mass - float(self._W @ inner.lift)) / self._rest
        return self._W * (inner.lift + alpha * (1 - self._column.lift))

    def _dense(self) -> FloatArray:
        unit = np.eye(self._W.size)
        return np.array([self._least_norm(self._K @ e, 1.0) for e in unit]).T
