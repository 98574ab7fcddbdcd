"""What a solver sees of a planning problem: {K d = k0 theta, d >= floor theta} and weights that sum to 1.

theta is the mass of d. Divergences do not depend on the scale of d, so a solver may work on the cone
and divide by the mass at the end. K are the flow equations in the basis of `rows`. For the average criterion
k0 = 0, and the mass row stands apart because it is dense. The discounted and the horizon criterion have
k0 = inflow and imply the mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray, Matrix
from rhocover.coverage import Coverage
from rhocover.occupancy import Occupancies
from rhocover.planning.rows import Rows, flow_rows

SMALL = 20_000  # entries of K up to which it is a plain array


@dataclass(frozen=True, eq=False)
class Program:
    """Maximise coverage over an occupancy set, in the solver's form."""

    K: Matrix  # [m, N]; a plain array for small models, where a sparse product is all overhead
    KT: Matrix  # its transpose, also by rows
    terms: int  # how many roundings an entry of K'nu holds, at most
    k0: FloatArray  # [m]
    has_mass_row: bool  # the row 1'd = theta stands apart (average criterion)
    moving: FloatArray  # [N], 1-norm of each column of K: what a visit puts into and takes out of rows
    coverage: Coverage
    mu_bar: FloatArray  # [N]
    floor: FloatArray | float  # one for all pairs, or each its own [N]

    @property
    def has_floor(self) -> bool:
        """Whether some pair must have more than nothing."""
        return bool(np.any(self.floor > 0))

    def missed(self, d: FloatArray) -> float:
        """Returns what d misses of the flow equations, as a share of what moves at all.

        Relative, because in a chain that hardly ever moves every flow is small, and so is every residual.
        """
        missed = float(np.abs(self.K @ d - self.k0 * d.sum()).sum())
        return missed / max(min(float(d.sum()), float(self.moving @ d)), 1e-300)

    def row_error(self, d: FloatArray) -> float:
        """Returns the largest residual of a row over what flows through it: rounding is near 1e-15."""
        through = abs(self.K) @ d + np.abs(self.k0)
        residual = np.abs(self.K @ d - self.k0)
        return float(np.max(residual / np.maximum(through, 1e-300), initial=0.0))

    @property
    def rho(self) -> float:
        """The order of the divergence."""
        return self.coverage.rho

    @property
    def num_pairs(self) -> int:
        """The number of unknowns N."""
        return int(self.K.shape[1])


def make_program(members: Occupancies, coverage: Coverage, rows: Rows | None = None) -> Program:
    """Returns the program of an occupancy set and an objective over its pairs; `rows` are the set's."""
    rows = flow_rows(members) if rows is None else rows
    K, average = rows.K, members.criterion == "average"
    moving = np.asarray(abs(K).sum(axis=0)).ravel()
    # An entry of K'nu adds up a column of K, and an entry of K may itself be a sum over a pair's moves.
    terms = 2 * int(np.bincount(members.flow.indices, minlength=1).max(initial=0)) + len(rows.labels)
    K = K.toarray() if K.shape[0] * K.shape[1] <= SMALL else K
    KT = K.T if isinstance(K, np.ndarray) else K.T.tocsr()
    return Program(K, KT, terms, rows.k0, average, moving, coverage, coverage.mu_bar, members.floor)
