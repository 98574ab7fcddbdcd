"""The weighted leximin occupancy: the limit of the optima d*_rho as rho grows without bound.

At rho = inf the minimax occupancy is rarely unique: pairs that are not the worst may get anything above
their due. Leximin goes on: maximise the worst d/mu, hold the pairs that cannot be raised any further,
maximise the worst of the rest, and so on. Each level is one linear program

    max t   s.t.   d in D,   d_i >= t mubar_i for free pairs,   d_i >= level_i mubar_i for held ones,

and a pair is held when its multiplier is positive: it is then tight in every solution of the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray
from rhocover.errors import SolverError
from rhocover.linear_program import LinearProgram
from rhocover.occupancy import Occupancies

SLACKS = (1e-10, 1e-9, 3e-9, 8e-9)  # held pairs may lose such a share, or rounding makes a level infeasible
POSITIVE = 1e-9  # of a level's multipliers, which add up to 1


@dataclass(frozen=True, eq=False)
class Leximin:
    """The occupancy, and the level d/mubar at which each pair was held (nan for zero weights)."""

    d: FloatArray
    level: FloatArray
    num_levels: int
    potential: FloatArray  # of the first level: the minimax certificate


def leximin(members: Occupancies, mu_bar: FloatArray) -> Leximin:
    """Returns the weighted leximin occupancy, per entry of the set, with the least slack that works."""
    for slack in SLACKS[:-1]:
        try:
            return _leximin(members, mu_bar, slack)
        except SolverError:
            continue
    return _leximin(members, mu_bar, SLACKS[-1])


def _leximin(members: Occupancies, mu_bar: FloatArray, slack: float) -> Leximin:
    level = np.full(members.num_pairs, np.nan)
    free = mu_bar > 0
    d, potential, count = np.zeros(0), None, 0
    while free.any():
        d, value, dual, tight = _raise_free(members, mu_bar, free, level * (1 - slack))
        potential = dual if potential is None else potential
        level[free & tight] = value
        free = free & ~tight
        count += 1
    assert potential is not None
    return Leximin(d, level, count, potential)


def _raise_free(
    members: Occupancies, mu_bar: FloatArray, free: BoolArray, level: FloatArray
) -> tuple[FloatArray, float, FloatArray, BoolArray]:
    """Returns (d, t, row multipliers, which free pairs are tight in every solution)."""
    matrix, right_side = members.equations()
    due = np.where(free, mu_bar, 0.0)
    held = ~free & (mu_bar > 0)
    lower = np.maximum(members.floor, np.where(held, level * mu_bar, 0.0))
    lower = np.where(free, 0.0, lower)
    program = LinearProgram(
        sp.hstack([matrix, (matrix @ due)[:, None]], format="csr"), right_side, np.append(lower, 0.0)
    )
    costs = np.zeros(members.num_pairs + 1)
    costs[-1] = 1.0
    solution = program.solve(costs)
    t = float(solution.x[-1])
    price = matrix.T @ solution.dual * due  # adds up to 1 over the free pairs
    tight = price > POSITIVE * price.max()
    return solution.x[:-1] + t * due, t, solution.dual, tight & free
