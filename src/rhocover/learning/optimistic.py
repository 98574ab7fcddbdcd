"""A lower bound on the best divergence D* that holds with probability 1 - delta, without knowing the model.

Let C_i be sets that contain the true rows P_i, all at once with probability 1 - delta (`confidence`). For any
potential h, however it was found, the robust lift

    l_i = h(s_i) - max_{p in C_i} p.h  <=  h(s_i) - P_i.h = (A'h)_i                                      (1)

is at most the true one. Occupancies d of the true model are non-negative and have <A'h, d> = 0, so <l,
d> <= 0, and for every scale c >= 0 the prices y = 1 + c l have <y, d> <= 1. If y >= 0, also on pairs without
weight, the dual bound of a plan holds (`planning.program`: Hölder's inequality; Gibbs' at rho = 0, y of any
sign):

    D* >= rho/(rho-1) log sum mubar y^((rho-1)/rho),    rho = 0: D* >= -log sum mubar exp(-c l).         (2)

c < 0 would reverse (1) and is not allowed. (2) is concave in c, as a logarithm of a concave power mean of
affine functions (at rho = 0 as minus a log-sum-exp), so golden-section search finds the best c. c = 0 proves
D* >= 0.

The best bound over all h is the optimum of the optimistic program: the smallest divergence of any (d, P) with
P_i in C_i and d an occupancy of P; convex in q(s,a,s') = d P. It is approached from both sides in turn. The
rows that attain (1) for the current h form a model; the divergence of its plan bounds the optimum from above,
and its potential is the next h, which bounds it from below. Where optima are not unique the two would
oscillate. Therefore P moves only part of the way once full steps no longer lower the optimum (C_i is convex,
so P stays inside), and h is the best point on the segment from the best h so far (the bound is concave in h).

C_i is one of the two sets of `confidence`, the one that is smaller for the first h, so that it is convex.

The bound is wide, because C is a product over rows, while the errors of rows are independent and partly
cancel: its distance from D* falls like sqrt(log t / t) with a factor that adds up over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, Matrix
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError
from rhocover.learning.confidence import ConfidenceSet, make_confidence
from rhocover.mdp import MDP
from rhocover.planning import Plan, plan
from rhocover.planning.program import EPSILON, Multipliers, Program, dual_bound

AGREEMENT, SMALLEST = 1e-3, 1e-6  # of the two sides, relative and absolute: far below the bound's own width
PLAN_TOLERANCE = 1e-7
CENTRE_SHARE = 1e-4  # of each row is taken from the estimate, so that the model stays communicating
LARGEST_SMOOTHING = 0.01
PRECISION, WAY_PRECISION = 1e-5, 0.05  # of searches; near a maximum the error of the value is the square
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Guarantee:
    """What counts prove about the best coverage of the model that produced them.

    This certifies visits d_hat: `coverage.divergence(d_hat) - lower_bound` is at least their gap.
    """

    lower_bound: float  # D* of the true model is at least this, with probability >= 1 - delta
    reached: float  # the optimistic program's optimum is at most this: no h makes the bound larger
    delta: float
    rounds: int


def certify(
    model: MDP,
    coverage: Coverage,
    counts: Any,
    delta: float,
    *,
    potential: Any = None,
    max_rounds: int = 10,
) -> Guarantee:
    """Returns a lower bound on D* of the true model that fails with probability at most delta.

    `model` is the estimate (communicating), row i of `counts` `[n, S]` belongs to its pair i. `potential` is
    where to start, for example the potential of an existing plan; by default one is planned on the estimate.
    The bound holds at all times at once: it may be computed as often as you like, and used to stop a run.
    """
    if not isinstance(model, MDP) or not isinstance(coverage, Coverage):
        raise InvalidArgumentError.of(
            "model",
            "must be an MDP and `coverage` a Coverage",
            f"{type(model).__name__} and {type(coverage).__name__}",
        )
    max_rounds = checks.integer(max_rounds, "max_rounds", least=1)
    known = make_confidence(counts, delta)
    checks.check_shape(known.counts.shape, "counts", model.transitions.shape)
    coverage = Coverage(coverage.rho, model.per_pair(coverage.mu, "coverage.mu"))
    centre, reached = _centre(model, known), np.inf
    if potential is None:
        first = _plan(model, centre, coverage)
        potential, reached = first.potential, first.divergence
    h = checks.float_array(potential, "potential", (model.num_states,))
    return _alternate(model, coverage, known.settled_at(h), centre, h, reached, max_rounds)


def robust_lift(model: MDP, known: ConfidenceSet, h: FloatArray) -> FloatArray:
    """Returns l_i = h(s_i) - max p.h over the rows of the set, rounded down, `[n]`."""
    h = h - h.max()  # a constant changes only the rounding
    error = EPSILON * (model.num_states + 8) * float(np.abs(h).max())
    return h[model.pair_state] - known.highest(h) - error


def robust_bound(coverage: Coverage, lift: FloatArray) -> float:
    """Returns the best bound (2) over c for a lift `[n]` with <lift, d> <= 0 on all occupancies d; >= 0."""
    size = float(np.abs(lift).max())
    if size == 0:
        return 0.0
    lift = lift / size
    # the certificate of one "row" whose flow is at most 0 instead of 0, which c >= 0 allows
    program = Program(
        lift[None, :], lift[:, None], 1, np.zeros(1), True, np.abs(lift), coverage, coverage.mu_bar, 0.0
    )

    def bound(c: float) -> float:
        return dual_bound(program, Multipliers(np.array([c]), 1.0))

    lowest = float(lift.min())
    if coverage.rho > 0 and lowest < 0:
        return max(0.0, _golden_section(bound, -1 / lowest))
    return max(0.0, _golden_section(bound, _past_the_peak(bound)))


def _past_the_peak(bound: Callable[[float], float]) -> float:
    """Returns a c at which a concave function has begun to fall; gives up beyond 1e30."""
    c = 1.0
    while bound(2 * c) > bound(c) and c < 1e30:
        c *= 2
    return 2 * c


def _golden_section(bound: Callable[[float], float], largest: float, precision: float = PRECISION) -> float:
    """Returns the maximum of a concave function over [0, largest]; an early stop only makes it smaller."""
    low, high = 0.0, largest
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    best = max(at_left, at_right, bound(largest))
    while high - low > precision * largest:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = bound(right)
        best = max(best, at_left, at_right)
    return best


def _alternate(
    model: MDP, coverage: Coverage, known: ConfidenceSet, centre: Matrix,
    h: FloatArray, reached: float, max_rounds: int,
) -> Guarantee:  # fmt: skip
    """Returns the best bound and the smallest optimum that the two sides of the program reach."""

    def bound(h: FloatArray) -> float:
        return robust_bound(coverage, robust_lift(model, known, h))

    lower, best_h, P = bound(h), h, centre
    rounds = failures = 0
    while rounds < max_rounds and not _agree(lower, reached):
        target = known.highest_rows(best_h if failures % 2 else h)
        target = (1 - CENTRE_SHARE) * target + CENTRE_SHARE * centre
        step = 0.5 ** (failures // 2)  # each step length is tried from both potentials
        rows = sp.csr_array((1 - step) * P + step * target)
        found = _plan(model, rows, coverage)
        lower, best_h = _raised(bound, lower, best_h, found.potential)
        if found.divergence < reached:
            reached, P, h = found.divergence, rows, found.potential
        else:
            failures += 1
        rounds += 1
    return Guarantee(lower, reached, known.delta, rounds)


def _raised(
    bound: Callable[[FloatArray], float], lower: float, best_h: FloatArray, h: FloatArray
) -> tuple[float, FloatArray]:
    """Returns the best bound on the segment from one potential to another, and its potential.

    The bound is concave in h, so where plans oscillate between potentials the best lies between them.
    """
    values = {0.0: lower}

    def along(x: float) -> float:
        values[x] = bound((1 - x) * best_h + x * h)
        return values[x]

    _golden_section(along, 1.0, WAY_PRECISION)
    x = max(values, key=lambda x: values[x])
    return values[x], (1 - x) * best_h + x * h


def _agree(lower: float, reached: float) -> bool:
    return bool(np.isfinite(reached)) and reached - lower <= AGREEMENT * reached + SMALLEST


def _plan(model: MDP, rows: Matrix, coverage: Coverage) -> Plan:
    """Returns the plan on the model's pairs with these rows, exact or not: any potential gives a bound."""
    mdp = MDP.from_pairs(rows, model.pair_state, model.pair_action, num_actions=model.num_actions)
    return plan(mdp, coverage.rho, coverage.mu, tol=PLAN_TOLERANCE, throw=False)


def _centre(model: MDP, known: ConfidenceSet) -> Matrix:
    """Returns rows inside the set that are positive wherever the model's are, sparse `[n, S]`.

    (1-x) p_hat + x p has KL(p_hat, .) <= -log(1-x), as a row and entry by entry, and every threshold of the
    set is at least log(n/delta)/N (no mixture is above the largest likelihood), so x may be
    1 - (delta/n)^(1/N). Unvisited rows are those of the model.
    """
    reach = np.log(known.visits.size / known.delta) / np.maximum(known.visits, 1)
    x = np.where(known.visits > 0, np.minimum(-np.expm1(-reach), LARGEST_SMOOTHING), 1.0)
    empirical = sp.csr_array(
        (known.shares, known.counts.indices, known.counts.indptr), shape=known.counts.shape
    )
    return sp.diags_array(1 - x) @ empirical + sp.diags_array(x) @ model.transitions
