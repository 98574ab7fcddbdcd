"""The same optimum from outside: CVXPY with Clarabel, and forced back ends of our own.

CVXPY's answer misses the flow equations by its own tolerance, and a divergence taken there may be below
the optimum. So its *policy* is taken: what that visits is a member of the set to the last digit, and its
divergence can be compared with a certified bound without any tolerance of CVXPY's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import cvxpy as cp
import numpy as np
from differing_cases import INF, Case

from rhocover import Coverage, Occupancies
from rhocover.errors import RhocoverError
from rhocover.linalg import multifrontal, normal_equations
from rhocover.linalg.dissection import has_metis, metis_order
from rhocover.linalg.symbolic import analyse
from rhocover.planning import program

Order = Callable[[Any], np.ndarray]  # of a pattern: which row to eliminate when


def cvxpy_divergence(case: Case) -> float | None:
    """Returns the divergence of the policy CVXPY finds; None where it fails or its policy has no occupancy."""
    members, coverage = case.members, case.coverage
    d = cvxpy_occupancy(members, coverage)
    if d is None:
        return None
    if members.eta > 0:
        return _divergence_above_the_floor(members, coverage, d)
    try:
        d = members.from_policy(members.to_policy(d))
    except RhocoverError:  # zeros in d: several recurrent classes
        return None
    return coverage.divergence(d)


def _divergence_above_the_floor(members: Occupancies, coverage: Coverage, d: np.ndarray) -> float | None:
    """Returns the divergence of a member near d: its policy's visits, mixed with the fullest of the set."""
    most, centre = members.max_floor()
    try:
        d = members.from_policy(members.to_policy(d))
    except RhocoverError:
        return None
    short = max(0.0, members.floor - float(d.min()))
    share = short / (short + most - members.floor)
    return coverage.divergence((1 - share) * d + share * centre)


def cvxpy_occupancy(members: Occupancies, coverage: Coverage) -> np.ndarray | None:
    """Returns the occupancy CVXPY with Clarabel finds best, or None where it says that it failed."""
    size, k = members.num_pairs, np.flatnonzero(coverage.support)
    x = cp.Variable(size)  # size times d: Clarabel wants numbers near 1
    matrix, right_side = members.equations()
    inside = [matrix @ x == size * right_side, x >= size * members.floor]
    objective = _objective(coverage.rho, coverage.mu_bar[k], x[k] / size)
    try:
        cp.Problem(objective, inside).solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    return None if x.value is None else np.maximum(x.value / size, 0.0)


def _objective(rho: float, mu: np.ndarray, d: cp.Expression) -> cp.Minimize | cp.Maximize:
    if rho == 0:
        return cp.Minimize(cp.sum(cp.rel_entr(d, mu)))
    ratio = cp.multiply(1 / mu, d)
    if rho == INF:
        return cp.Maximize(cp.min(ratio))
    if rho == 1:
        return cp.Maximize(mu @ cp.log(ratio))
    powers = mu @ cp.power(ratio, 1 - rho, approx=False)
    return cp.Minimize(powers) if rho > 1 else cp.Maximize(powers)


@contextmanager
def sparse_solver(order: Order) -> Iterator[None]:
    """Plans inside use the sparse factorisation whatever their size, and eliminate in this order."""
    with (
        mock.patch.object(program, "SMALL", 0),
        mock.patch.object(normal_equations, "DENSE_ROWS", 0),
        mock.patch.object(normal_equations, "DENSE_SHARE", 10.0),
        mock.patch.object(multifrontal, "best_analysis", lambda pattern: analyse(pattern, order(pattern))),
    ):
        yield


def foreign_order(pattern: Any) -> np.ndarray:
    """Returns METIS's order where that is installed, and a random one elsewhere: any must do."""
    if has_metis():
        return metis_order(pattern)
    return np.random.default_rng(pattern.nnz).permutation(pattern.shape[0])


@contextmanager
def dense_solver() -> Iterator[None]:
    """Plans inside use sparse products and the dense factorisation, whatever their size."""
    with mock.patch.object(program, "SMALL", 0), mock.patch.object(normal_equations, "DENSE_ROWS", 10**9):
        yield
