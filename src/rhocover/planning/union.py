"""What to add to visits that are there: the best union of old data and new.

After N visits T there is a budget of m more. Whatever policy collects them, in the long run its visits are m
psi with psi an occupancy, so the union's shares are

    d = (1 - w) T/N + w psi,      w = m/(N + m),   psi in D.

At a finite rho psi is found by `barrier`, at rho = inf by a linear program. Either way the best response of D
certifies how far the result is from the best there is: no union earns more of a reward r than
<r, before> + w max <r, psi>, with before = (1 - w) T/N.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError
from rhocover.linear_program import LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, make_oracle
from rhocover.planning.barrier import best_psi
from rhocover.planning.frank_wolfe import gradient_reward
from rhocover.planning.program import make_program
from rhocover.planning.threads import one_blas_thread


@dataclass(frozen=True, eq=False)
class Addition:
    """The occupancy `psi` to add, the union's shares `d`, its divergence and a certified gap, in nats."""

    psi: FloatArray
    d: FloatArray
    divergence: float
    gap: float


def best_addition(
    members: Occupancies, coverage: Coverage, visits: Any, num_steps: int, *, tol: float = 1e-6
) -> Addition:
    """Returns the occupancy whose `num_steps` visits make the best union with `visits` `[n]`."""
    if members.criterion != "average":
        raise InvalidArgumentError("`members` must be of the average criterion: data has no other.")
    visits = np.asarray(visits, float)
    total = float(visits.sum()) + num_steps
    before, share = visits / total, num_steps / total
    oracle = make_oracle(members)
    with one_blas_thread():
        if coverage.rho == np.inf:
            return _worst_case(members, coverage, before, share, oracle)
        start = members.from_policy(1 / np.bincount(members.node)[members.node])
        program = make_program(members, coverage)
        psi = best_psi(program, start, visits / num_steps, share, tol=0.5 * tol * share)
    return _certified(coverage, _occupancy(members, psi), before, share, oracle)


def _occupancy(members: Occupancies, psi: FloatArray) -> FloatArray:
    """Returns what the policy of psi visits: what rounding left in its flow is gone."""
    return members.from_policy(members.to_policy(np.maximum(psi, 0.0)))


def _certified(
    coverage: Coverage, psi: FloatArray, before: FloatArray, share: float, oracle: Oracle
) -> Addition:
    """Returns the addition with its certified gap: what the best response earns more than psi does.

    As a difference, because the new visits' part of the reward may have few digits in all of it.
    """
    d = before + share * psi
    reward, divergence = gradient_reward(coverage, d), coverage.divergence_unchecked(d)
    more = share * max(oracle.respond(reward).upper_bound - float(reward @ psi), 0.0)
    gap = more if coverage.rho == 0 else float(np.log1p(more))
    return Addition(frozen(psi), frozen(d), divergence, gap)


def _worst_case(
    members: Occupancies, coverage: Coverage, before: FloatArray, share: float, oracle: Oracle
) -> Addition:
    """Returns the addition with the largest t such that every pair of the union has t of its share.

    With t_0 the least share before and t = t_0 + w u, a pair asks for psi_i - mubar_i u >= -(what it has
    above t_0)/w: numbers near 1 however small w is. The pair at t_0 bounds u by 1/mubar.
    """
    A, b = members.equations()
    support = np.flatnonzero(coverage.support)
    mu, n, k = coverage.mu_bar[support], members.num_pairs, support.size
    pick = sp.csr_array((np.ones(k), (np.arange(k), support)), shape=(k, n))
    matrix = sp.csr_array(
        sp.block_array([[A, None, None], [pick, sp.csr_array(-mu[:, None]), -sp.eye_array(k)]])
    )
    ratio = before[support] / mu
    ahead = np.minimum((before[support] - mu * ratio.min()) / share, 2 * mu / mu[ratio.argmin()])
    right = np.concatenate([b, -ahead])
    costs = np.zeros(n + 1 + k)
    costs[n] = 1.0
    solution = LinearProgram(matrix, right, 0.0).solve(costs)
    psi = np.maximum(solution.x[:n], 0.0)
    psi /= psi.sum()
    d = before + share * psi
    weights = np.zeros(n)
    weights[support] = np.abs(solution.dual[-k:]) * mu
    bound = _certified_level(coverage, before, share, weights, oracle)
    divergence = coverage.divergence_unchecked(d)
    return Addition(frozen(psi), frozen(d), divergence, float(max(divergence + np.log(bound), 0.0)))


def _certified_level(
    coverage: Coverage, before: FloatArray, share: float, weights: FloatArray, oracle: Oracle
) -> float:
    """Returns what no union's least share exceeds: its mean under any weights of the pairs."""
    if not weights.any():
        return np.inf
    reward = np.zeros(weights.size)
    used = weights > 0
    reward[used] = weights[used] / weights.sum() / coverage.mu_bar[used]
    return float(reward @ before) + share * oracle.respond(reward).upper_bound
