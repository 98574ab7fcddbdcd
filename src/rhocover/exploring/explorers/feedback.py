"""The feedback explorer: corrects the deviations from the plan that actions can correct.

After t steps the visits T deviate from t d* in two ways. The flow residual B(T - t d*) is a random walk that
the random transitions cause; the visits that explain it at the least cost, in the metric H of the objective's
curvature, are g = H^-1 B'(B H^-1 B')^-1 B (T - t d*). The rest, f = T - t d* - g, has no flow residual and
sums to 0, so it can be driven to zero: in each state play argmin_a f(s,a)/d*(s,a). If in every state all
actions are equally far ahead, f is a stationary flow of the best policy that sums to 0, and that is zero.

f changes with every step. Solving the flow equations each time would cost O(S), so for a period of about
sqrt(t)/32 steps the flow residual is kept fixed,

    f(s,a) ~ f_0(s,a) + visits(s,a) - k d*(s,a),

and acting costs O(A) per step, independent of S. Meanwhile the residual drifts by t^(1/4), which costs
t^(-3/2) of regret, less than the limit kappa_min/t. Models of up to 256 states update f within the compiled
loop (`FlowCorrectedScore`), larger ones between blocks (`LowestScore`), with one sparse solve.

A quadratic approximates the objective poorly while counts are noisy, which lasts long at large rho, where
(mu/d)^rho differs much between pairs. So the target is re-planned on the counts whenever t has
grown by 5%: unless g is small, t d* + g is replaced by centre = t argmax {U_rho'(d): B d = B d_hat}, of order
rho' = min(rho, t/(4n)). (Visits are whole numbers, and an order beyond the visits of a typical pair would
react to single visits.) Deviations since then are treated linearly as above. At large orders visits of some
pairs cost almost nothing, and the centre would put the noise on them; but visits cannot be undone, so random
changes in both directions add up. Therefore the centre exceeds t d* + g in no pair by more than the pair's
share (or a tenth of a typical share), and moves no further at a time than the steps until the next
re-planning can follow.

Safeguard: if f is as large as the visits themselves after 100 steps per pair, a block plays the
average-reward optimal policy for the cost H f, because <H f, psi> < 0 for its visits psi unless f is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import Coverage
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.problem import Problem, positive_shares
from rhocover.exploring.worlds import Behaviour, FlowCorrectedScore, LowestScore, SamplePolicy, Visits
from rhocover.oracles import make_oracle
from rhocover.theory.limits import DENSE_STATES, FlowProjection, PathwiseProblem

GROWTH = 1.05  # of t between two re-plannings
LARGE_RHO = 4.0  # above it no g counts as small
SMALL = 0.3  # relative to the shares, times rho: up to this, g is treated linearly
VISITS_PER_ORDER = 4  # visits of a typical pair for each unit of the re-planned order
LEAST_ORDER = 2.0
LEAST_CURVATURE = 0.03  # of the largest, relative to 1/d
LEAST_AT_LARGE_RHO = 0.1  # the same at large rho, where the target is always re-planned
CENTRE_TOLERANCE = 1e-3  # over t: of the divergence, well below the limit kappa_min/t
OVERLOAD = 1.0  # of a pair's share, by which re-planning may exceed the linear target
LEAST_SHARE = 1e-3  # of 1/n: a pair this rare is still taken when a thousand visits elsewhere depend on it
TYPICAL = 0.1  # of 1/n: smaller shares count as this
DRIFT = 32  # a period has sqrt(t) over this many steps
SHORTEST = 4  # and at least this many
STATES_PER_STEP = 40  # a period has at least S^2/40 steps, so that updating f costs little per step
SPARSE_SHARE = 32  # with a sparse solve it has at least n steps, and t/32
SETTLED = 100  # steps per pair before the safeguard acts


@dataclass(frozen=True)
class Feedback:
    """Plays the action that is furthest behind the plan, corrected for the noise of the transitions."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        n = belief.problem.mdp.num_pairs
        nothing = np.zeros(n, np.int64)
        return initial_state(belief, centre=np.zeros(n), centre_counts=nothing, centre_steps=np.array([0]))

    def policy(self, state: State) -> Block:
        """Returns the scores for the next block, or the safeguard's policy."""
        problem, curvature = state.problem, _curvature(state.problem)
        f, period = deviation(state), period_of(state)
        if is_astray(state, f):
            return Block(_steering_back(problem, curvature * f), max(period, f.size))
        idle, scale = problem.idle, 1 / np.maximum(problem.d_star, LEAST_SHARE / f.size)
        if problem.mdp.num_states > DENSE_STATES:
            return Block(LowestScore(f + idle, problem.d_star, scale), period)
        offset, moved = _since_centre(state)
        weight, inverse = _projection(problem).W, _inverse(problem)
        rule = FlowCorrectedScore(
            offset + idle, moved, problem.d_star, scale, weight, inverse, period, problem.mdp
        )
        return Block(rule, max(period, _next_centre(state) - state.num_steps))

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added, with a new target if one is due."""
        state = state.after(visits)
        return state if state.num_steps < _next_centre(state) else _recentred(state, _centre(state))

    def renew(self, state: State) -> State:
        """Returns the state for a new model, with a target that the next steps can reach from the visits.

        At large orders a small change of the estimate moves its best occupancy far. If the target jumped, the
        visits would follow it to pairs that cost nothing, and miss those that matter.
        """
        share = (GROWTH - 1) * state.num_steps * _typical(state.problem)
        return _recentred(state, _towards(state.counts.astype(float), _centre(state), share, _largest))


def _recentred(state: State, centre: FloatArray) -> State:
    """Returns the state with a new target for the current counts."""
    steps = np.array([state.num_steps])
    memory = {"centre": centre, "centre_counts": state.counts, "centre_steps": steps}
    return replace(state, memory=memory)


def period_of(state: State) -> int:
    """Returns how many steps to take before the flow residual is computed again."""
    n, S, t = state.counts.size, state.problem.mdp.num_states, state.num_steps
    if S > DENSE_STATES:
        return max(n, t // SPARSE_SHARE)
    return max(SHORTEST, S * S // STATES_PER_STEP, math.isqrt(t) // DRIFT)


def _next_centre(state: State) -> int:
    """Returns when to re-plan: after 5% more steps, and a few for each pair."""
    last = int(state.memory["centre_steps"][0])
    return max(last + 4 * state.counts.size, math.ceil(GROWTH * last))


def deviation(state: State) -> FloatArray:
    """Returns f: by how much the counts exceed the best that their flow residual allows."""
    offset, moved = _since_centre(state)
    return offset + moved - _projection(state.problem).explained(moved, refine=False)


def _since_centre(state: State) -> tuple[FloatArray, FloatArray]:
    """Returns counts minus target at the last re-planning, and the visits minus t d* since then."""
    memory = state.memory
    counts, t = state.counts - memory["centre_counts"], state.num_steps - int(memory["centre_steps"][0])
    return memory["centre_counts"] - memory["centre"], counts - t * state.problem.d_star


def _inverse(problem: Problem) -> FloatArray:
    return problem.once("feedback inverse", lambda: _projection(problem).inverse())


def _projection(problem: Problem) -> FlowProjection:
    return problem.once("feedback", lambda: FlowProjection(problem.members, 1 / _curvature(problem)))


def _curvature(problem: Problem) -> FloatArray:
    """Returns H up to a factor: (r/r_max)^rho / d*, r = mu/d*, the first factor bounded from below."""
    return problem.once("feedback curvature", lambda: _find_curvature(problem))


def _find_curvature(problem: Problem) -> FloatArray:
    d, rho = positive_shares(problem.d_star), problem.coverage.rho
    log_ratio = problem.coverage.log_ratio(d)
    below = log_ratio - log_ratio.max()
    with np.errstate(invalid="ignore"):  # inf * 0 at rho = inf: the worst pairs
        factor = np.exp(np.where(below == 0, 0.0, rho * below)) if rho > 0 else np.ones(d.size)
    return np.maximum(factor, LEAST_CURVATURE if rho <= LARGE_RHO else LEAST_AT_LARGE_RHO) / d


def _centre(state: State) -> FloatArray:
    """Returns the target for the current counts: the best with their flow residual and the current order."""
    problem, t = state.problem, state.num_steps
    planned, share, rho = t * problem.d_star, t * _typical(problem), problem.coverage.rho
    linear = planned + _projection(problem).explained(state.counts - planned)
    if rho <= LARGE_RHO and float((np.abs(linear - planned) / share).max()) * max(1.0, rho) <= SMALL:
        return linear
    best = _best_with_residual(problem, state.counts, t)
    centre = _towards(linear, best, OVERLOAD * share, np.max)
    if int(state.memory["centre_steps"][0]) == 0:
        return centre
    return _towards(state.counts - deviation(state), centre, (GROWTH - 1) * share, _largest)


def _best_with_residual(problem: Problem, counts: IntArray, num_steps: int) -> FloatArray:
    """Returns t times the best occupancy with the flow residual of the counts, of order t/(4n) or rho."""
    order = max(LEAST_ORDER, num_steps / (VISITS_PER_ORDER * counts.size))
    coverage = Coverage(min(problem.coverage.rho, order), problem.coverage.mu)
    tol = CENTRE_TOLERANCE / num_steps
    best = PathwiseProblem(problem.members, coverage).best(counts / num_steps, tol=tol)
    return num_steps * best.occupancy


def _towards(here: FloatArray, there: FloatArray, most: FloatArray, size: Any) -> FloatArray:
    """Returns `there`, or the point on the way at which `size` of the move, in units of `most`, is 1."""
    way = there - here
    length = float(size(way / most))
    return here + way / max(length, 1.0)


def _largest(values: FloatArray) -> float:
    return float(np.abs(values).max())


def _typical(problem: Problem) -> FloatArray:
    """Returns d*, at least a tenth of a typical share."""
    return np.maximum(problem.d_star, TYPICAL / problem.d_star.size)


def is_astray(state: State, f: FloatArray) -> bool:
    """Whether f is as large as the visits themselves, after enough steps for it to be small."""
    if state.num_steps < SETTLED * f.size:
        return False
    return float(np.sum(f**2 / _typical(state.problem))) > float(state.num_steps) ** 2


def _steering_back(problem: Problem, cost: FloatArray) -> Behaviour:
    """Returns the policy that lowers <cost, visits> fastest in the long run."""
    answer = make_oracle(problem.members).respond(-cost / float(np.abs(cost).max()))
    return SamplePolicy(answer.policy)
