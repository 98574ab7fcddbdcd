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

DENSE_STATES = 256  # up to here the inverse is a small dense matrix


class FlowProjection:
    """Least-norm corrections over the pairs of one set, for one vector of weights W > 0, `[n]`."""

    def __init__(self, members: Occupancies, W: FloatArray) -> None:
        self._K = members.flow[:-1]
        self.W = W / float(W.max())
        self._size = float(W.max())
        self._equations = NormalEquations(self._K)
        self._equations.factorise(self.W)
        self._column = self._equations.solve(self._K @ self.W)
        self._rest = float(self.W.sum()) - float((self._K @ self.W) @ self._column.x)

    def explained(self, v: FloatArray, *, refine: bool = True) -> FloatArray:
        """Returns the least-norm g with B g = B v: the part of v that flow and mass force."""
        return self._least_norm(self._K @ v, float(v.sum()), refine)

    def energy(self, flow: FloatArray) -> float:
        """Returns r'(B W B')^-1 r for r = (flow without its last row, 0)."""
        g = self._least_norm(flow, 0.0, True)
        return float(g @ (g / self.W)) / self._size

    def inverse(self) -> FloatArray:
        """Returns (B W B')^-1 as a dense matrix `[S, S]`, W scaled as in `W`, the mass last."""
        num_states = self._K.shape[0] + 1
        columns = []
        for row in np.eye(num_states):
            inner = self._equations.solve(row[:-1])
            alpha = (row[-1] - float(self.W @ inner.lift)) / self._rest
            columns.append(np.append(inner.x - alpha * self._column.x, alpha))
        return np.array(columns).T.copy()

    def _least_norm(self, flow: FloatArray, mass: float, refine: bool) -> FloatArray:
        inner = self._equations.solve(flow, refine=refine)
        alpha = (mass - float(self.W @ inner.lift)) / self._rest
        return self.W * (inner.lift + alpha * (1 - self._column.lift))
