"""Programs that cover groups of pairs, under side conditions, in the solver's form.

What is covered is y = C d: row g of C says how much each pair counts for group g. States sum over their
actions, rooms over their states, transitions (s, a, s') have C = P(s'|s, a). Side conditions A d <= b bound
costs, or returns from below. With slacks z all of it is one program of `planning.program`, homogeneous
because the scale of d is free, in which only y has weights:

    [ F      0   0 ] [d]
    [ C     -I   0 ] [y]  = 0,      d, y, z >= 0,      mass = sum d.
    [ A-b1'  0   I ] [z]

Columns of C sum to at most 1, so y is a share of the visits; rows of A - b1' are divided by their largest
entry, so z is at most the mass. Hence the entries of a point of mass 1 sum to at most 2 plus the number of
conditions, which is what the lower bound needs to know (`Program.room`).

**A start inside.** With multipliers -1 for the rows of y, epsilon for those of the conditions and scale
1 + r, r = min(1, rho), the duals c = K'nu + scale mass are 1 for y, at least r/2 for d, and positive for z.
At small orders y = mubar c^(-1/rho) leaves float64 unless c is near 1 there, and all other duals are of
order rho. At rho = 0 the duals of y may have any sign, and the multipliers of their rows are +1.

**Prices.** One unit more of a limit b_k lowers the optimum by nu_k >= 0, the multiplier of the condition,
over the scale of the multipliers and over what the row was divided by.

What can be infeasible, and what a group means to the caller, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.coverage import Coverage
from rhocover.occupancy import Occupancies
from rhocover.planning.program import SMALL, Multipliers, Program, Rows, flow_rows, make_program

SMALLEST_UNIT = 1e-9  # of the start: at smaller orders its duals would be rounding


@dataclass(frozen=True, eq=False)
class SideCondition:
    """<values, d> <= limit for the occupancy d of mass 1; `values` has one entry per entry of the set."""

    values: FloatArray
    limit: float

    @property
    def row(self) -> FloatArray:
        """The row of values - limit, divided by `size`."""
        return (self.values - self.limit) / self.size

    @property
    def size(self) -> float:
        """The largest entry of values - limit; 1 if all are zero."""
        return float(np.abs(self.values - self.limit).max(initial=0.0)) or 1.0


@dataclass(frozen=True, eq=False)
class GroupProgram:
    """A program that covers y = C d under side conditions."""

    program: Program
    C: Matrix  # [G, n]
    conditions: tuple[SideCondition, ...]

    def occupancy(self, point: FloatArray) -> FloatArray:
        """Returns the occupancy d, `[n]`, of a point of the program, scaled to sum to 1."""
        d = point[: self.C.shape[1]]
        return d / d.sum()

    def point(self, d: FloatArray) -> FloatArray:
        """Returns the point of the program, `[n + G + k]`, whose occupancy is d."""
        return np.concatenate([d, self.C @ d, [-float(c.row @ d) for c in self.conditions]])

    def prices(self, multipliers: Multipliers) -> FloatArray:
        """Returns by how much one unit more of each limit lowers the optimum, `[k]`, never below 0."""
        k = len(self.conditions)
        nu = multipliers.nu[multipliers.nu.size - k :]
        scale = multipliers.alpha + float(self.program.k0 @ multipliers.nu) if self.program.rho else 1.0
        sizes = np.array([condition.size for condition in self.conditions])
        return np.maximum(nu, 0.0) / (scale * sizes)


def group_program(
    members: Occupancies,
    rho: float,
    mu: FloatArray,
    C: Matrix,
    conditions: Sequence[SideCondition] = (),
    rows: Rows | None = None,
) -> GroupProgram:
    """Returns the program that covers C d with weights mu, `[G]`, under the conditions.

    At rho = 0 every group needs a weight, and the columns of C must sum to 1.
    """
    rows = flow_rows(members) if rows is None else rows
    C, (G, n), k = sp.csr_array(C), C.shape, len(conditions)
    K = _stacked(rows.K, C, conditions)
    coverage = Coverage(rho, np.concatenate([np.zeros(n), mu, np.zeros(k)]))
    flow = make_program(members, Coverage(rho, np.ones(n)), rows)
    unit = max(SMALLEST_UNIT, min(1.0, rho)) if rho else 1.0
    start = np.concatenate(
        [np.zeros(rows.K.shape[0]), np.full(G, -1.0 if rho else 1.0), np.full(k, unit / (2 * max(k, 1)))]
    )
    dense = K.toarray() if K.shape[0] * K.shape[1] <= SMALL else K
    program = replace(
        flow, K=dense, KT=dense.T if isinstance(dense, np.ndarray) else dense.T.tocsr(),
        terms=flow.terms + 2 * int(np.diff(sp.csc_array(C).indptr).max(initial=0)) + 2 * k,
        k0=np.concatenate([rows.k0, np.zeros(G + k)]), moving=np.asarray(abs(K).sum(axis=0)).ravel(),
        coverage=coverage, mu_bar=coverage.mu_bar, mass=np.concatenate([np.ones(n), np.zeros(G + k)]),
        room=2.0 + k, scale=1 + unit, start=start, groups=(rows.K.shape[0], G),
    )  # fmt: skip
    return GroupProgram(program, C, tuple(conditions))


def _stacked(F: Matrix, C: Matrix, conditions: Sequence[SideCondition]) -> Matrix:
    """Returns the matrix of the chapter above."""
    G, k = C.shape[0], len(conditions)
    blocks = [[F, None, None], [C, -sp.eye_array(G), None]]
    if not k:
        return sp.csr_array(sp.block_array([block[:2] for block in blocks], format="csr"))
    A = sp.csr_array(np.array([condition.row for condition in conditions]))
    return sp.csr_array(sp.block_array([*blocks, [A, None, sp.eye_array(k)]], format="csr"))
