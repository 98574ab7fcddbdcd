"""What to add to visits that are there: the best union of old data and new.

After N visits T there is a budget of m more. Whatever policy collects them, in the long run its visits are m
psi with psi an occupancy, so the union's shares are

    d = (1 - w) T/N + w psi,      w = m/(N + m),   psi in D,

an affine image of the occupancies: with before = (1 - w) T/N it is {B d = B before, 1'd = 1, d >= before}, a
flow residual and a floor for each pair, which the interior point takes. At rho = inf it is a linear program.
Either way the best response of D certifies how far the result is from the best there is: no union earns more
of a reward r than <r, before> + w max <r, psi>.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError
from rhocover.linear_program import LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, make_oracle
from rhocover.planning.frank_wolfe import gradient_reward
from rhocover.planning.interior_point import interior_point
from rhocover.planning.program import make_program
from rhocover.planning.threads import one_blas_thread

MAX_STEPS = 200
LINEAR = 1e-4  # of the thinnest pair: so few new visits change no ratio by much


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
    total = float(np.sum(visits)) + num_steps
    before, share = np.asarray(visits, float) / total, num_steps / total
    oracle = make_oracle(members)
    with one_blas_thread():
        if coverage.rho == np.inf:
            return _worst_case(members, coverage, before, share, oracle)
        if share < LINEAR * before[coverage.support].min():
            answer = oracle.respond(gradient_reward(coverage, before))
            return _certified(coverage, answer.occupancy, before, share, oracle, -np.inf)
        program = make_program(members, coverage)
        program = replace(program, k0=program.K @ before, floor=before)
        end = interior_point(program, tol=tol * share, max_steps=MAX_STEPS)
    psi = _occupancy(members, np.maximum(end.d - before, 0.0))
    return _certified(coverage, psi, before, share, oracle, end.lower_bound)


def _occupancy(members: Occupancies, excess: FloatArray) -> FloatArray:
    """Returns the occupancy of the policy that `excess` shows: what rounding left in its flow is gone.

    Divided by a small share of new visits that rounding would count. A policy with several recurrent classes
    has no one occupancy; then the excess itself is taken.
    """
    psi = excess / excess.sum()
    try:
        return members.from_policy(members.to_policy(psi))
    except InvalidArgumentError:
        return psi


def _certified(
    coverage: Coverage, psi: FloatArray, before: FloatArray, share: float, oracle: Oracle, lower: float
) -> Addition:
    """Returns the addition with its certified gap; no union has a divergence below `lower`."""
    d = before + share * psi
    reward, divergence = gradient_reward(coverage, d), coverage.divergence_unchecked(d)
    upper = float(reward @ before) + share * oracle.respond(reward).upper_bound
    gap = upper - float(reward @ d) if coverage.rho == 0 else float(np.log(upper))
    return Addition(frozen(psi), frozen(d), divergence, max(min(gap, divergence - lower), 0.0))


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
