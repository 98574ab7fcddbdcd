"""A few dense rows and columns around K diag(W) K', eliminated by their Schur complement.

    [K W K'   C] [nu]   [flow ]
    [  C'     D] [u ] = [right]

C holds the columns of the mass multiplier and of theta, where those are unknown.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray, Matrix
from rhocover.planning.factorisation import NormalEquations, Solution


class Borders:
    """Solves the bordered system; `set` takes new borders after each factorisation."""

    def __init__(self, equations: NormalEquations, K: Matrix) -> None:
        self._equations = equations
        self._K = K
        self.W = np.ones(K.shape[1])

    def set(self, columns: FloatArray, corner: FloatArray) -> None:
        """Takes C and D, and solves for the columns of C."""
        self._columns, self._corner = columns, corner
        solutions = [self._equations.solve(column) for column in columns.T]
        self._x = np.array([solution.x for solution in solutions]).reshape(len(solutions), self._K.shape[0]).T
        self._lift = (
            np.array([solution.lift for solution in solutions]).reshape(len(solutions), self._K.shape[1]).T
        )
        self._schur = corner - columns.T @ self._x

    def solve(self, flow: FloatArray, right: list[float], refine: bool) -> tuple[Solution, FloatArray]:
        """Returns (nu and its lift, u); with `refine` corrected once as a whole."""
        first, unknowns = self._eliminate(flow, np.array(right))
        if not refine:
            return first, unknowns
        image = self._K @ (self.W * first.lift)
        more, extra = self._eliminate(
            flow - image - self._columns @ unknowns,
            right - self._columns.T @ first.x - self._corner @ unknowns,
        )
        return Solution(first.x + more.x, first.lift + more.lift), unknowns + extra

    def _eliminate(self, flow: FloatArray, right: FloatArray) -> tuple[Solution, FloatArray]:
        inner = self._equations.solve(flow)
        unknowns = np.asarray(np.linalg.solve(self._schur, right - self._columns.T @ inner.x), np.float64)
        x = inner.x - self._x @ unknowns
        return Solution(x, inner.lift - self._lift @ unknowns), unknowns
