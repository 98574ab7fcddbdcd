"""Feedback: correct what can be corrected, and nothing else.

After t steps the visits T miss t d* by two kinds of deviation. The flow residual B(T - t d*) is a random
walk of the world's own making; the cheapest way to carry it, in the metric H of the objective's curvature,
is g = H^-1 B'(B H^-1 B')^-1 B (T - t d*). The rest, f = T - t d* - g, leaves flow and mass alone, so it can
be driven to zero: in each state play argmin_a f(s,a)/d*(s,a). If all actions of a state are equally ahead,
for every state, f is a stationary flow of the best policy without mass, and that is zero.

f moves with every step. Looking at the flow equations each time would cost O(S), so for a period of about
sqrt(t)/32 steps the flow residual is frozen,

    f(s,a) ~ f_0(s,a) + visits(s,a) - k d*(s,a),

and acting costs O(A) a step whatever S. The residual drifts meanwhile by t^(1/4), which costs t^(-3/2) of
regret, less than the limit kappa_min/t. Models of up to 256 states bring f up to date within the compiled
loop (`FlowCorrectedScore`), larger ones between blocks (`LowestScore`), with one sparse solve.

A quadratic is a poor picture of the objective while counts are noisy; for large rho, where (mu/d)^rho tells
pairs apart, that is a long time. So the target is re-planned on the counts whenever t has grown by 5%:
unless g is small, centre = t argmax {U_rho'(d): B d = B d_hat} takes the place of t d* + g, of order
rho' = min(rho, t/(4n)): visits are whole numbers, and an order beyond the visits of a typical pair would
chase the last of them. Deviations since then are carried linearly as above. At large orders some pairs cost
next to nothing, and the centre would load the noise on them; but visits are never taken back, so what is
loaded and unloaded at random adds up. The centre therefore goes only so far from t d* + g that no pair
gets more than its share (or a tenth of a typical one) on top, and moves no further at a time than the steps
until the next re-planning can follow.

Safeguard: if f is as large as the visits themselves after 100 steps a pair, a block of the average-reward
optimal policy for the cost H f steers back, because <H f, psi> < 0 for its visits psi wherever f is not zero.
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
LARGE_RHO = 4.0  # from here on no g counts as small
SMALL = 0.3  # relative to the shares, times rho: g up to here is carried linearly
VISITS_PER_ORDER = 4  # visits of a typical pair for each unit of the re-planned order
LEAST_ORDER = 2.0
LEAST_CURVATURE = 0.03  # of the largest, relative to 1/d
LEAST_AT_LARGE_RHO = 0.1  # the same where the target is always re-planned
CENTRE_TOLERANCE = 1e-3  # over t: of the divergence, well below the limit kappa_min/t
OVERLOAD = 1.0  # of a pair's share, by which re-planning may exceed the linear target
LEAST_SHARE = 1e-3  # of 1/n: so rare a pair is still taken when a thousand visits elsewhere depend on it
TYPICAL = 0.1  # of 1/n: pairs with a smaller share count as if they had this one
DRIFT = 32  # a period has sqrt(t) over this many steps
SHORTEST = 4  # and at least so many
STATES_PER_STEP = 40  # a period has at least S^2/40 steps, so that bringing f up to date costs little a step
SPARSE_SHARE = 32  # with a sparse solve it has at least n steps, and t/32
SETTLED = 100  # steps a pair before the safeguard looks


@dataclass(frozen=True)
class Feedback:
    """Plays the action that is furthest behind once the world's own noise is taken out."""

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
        """Returns the state with the visits added, re-planned where that is due."""
        state = state.after(visits)
        return state if state.num_steps < _next_centre(state) else _recentred(state, _centre(state))

    def renew(self, state: State) -> State:
        """Returns the state for a new model: its target is as near to the visits as steps can follow.

        At large orders the best occupancy of an estimate moves a lot with a little of the estimate. A target
        that jumps would have the visits chase pairs that cost nothing, and miss those that count.
        """
        share = (GROWTH - 1) * state.num_steps * _typical(state.problem)
        return _recentred(state, _towards(state.counts.astype(float), _centre(state), share, _largest))


def _recentred(state: State, centre: FloatArray) -> State:
    """Returns the state with a new target for the counts of now."""
    steps = np.array([state.num_steps])
    memory = {"centre": centre, "centre_counts": state.counts, "centre_steps": steps}
    return replace(state, memory=memory)


def period_of(state: State) -> int:
    """Returns how many steps to take before the flow residual is looked at again."""
    n, S, t = state.counts.size, state.problem.mdp.num_states, state.num_steps
    if S > DENSE_STATES:
        return max(n, t // SPARSE_SHARE)
    return max(SHORTEST, S * S // STATES_PER_STEP, math.isqrt(t) // DRIFT)


def _next_centre(state: State) -> int:
    """Returns when to re-plan: after 5% more steps, and a few for each pair."""
    last = int(state.memory["centre_steps"][0])
    return max(last + 4 * state.counts.size, math.ceil(GROWTH * last))


def deviation(state: State) -> FloatArray:
    """Returns f: what the counts are ahead of the best that their flow residual allows."""
    offset, moved = _since_centre(state)
    return offset + moved - _projection(state.problem).explained(moved, refine=False)


def _since_centre(state: State) -> tuple[FloatArray, FloatArray]:
    """Returns what the counts were ahead at the last re-planning, and what was visited beyond d* since."""
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
    """Returns the target for the counts of now: the best with their flow residual, for the order of now."""
    problem, t = state.problem, state.num_steps
    planned, share, rho = t * problem.d_star, t * _typical(problem), problem.coverage.rho
    linear = planned + _projection(problem).explained(state.counts - planned)
    if rho <= LARGE_RHO and float((np.abs(linear - planned) / share).max()) * max(1.0, rho) <= SMALL:
        return linear
    best = _best_of_now(problem, state.counts, t)
    centre = _towards(linear, best, OVERLOAD * share, np.max)
    if int(state.memory["centre_steps"][0]) == 0:
        return centre
    return _towards(state.counts - deviation(state), centre, (GROWTH - 1) * share, _largest)


def _best_of_now(problem: Problem, counts: IntArray, num_steps: int) -> FloatArray:
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
    """Whether f is as large as the visits themselves, long after it should have been small."""
    if state.num_steps < SETTLED * f.size:
        return False
    return float(np.sum(f**2 / _typical(state.problem))) > float(state.num_steps) ** 2


def _steering_back(problem: Problem, cost: FloatArray) -> Behaviour:
    """Returns the policy that lowers <cost, visits> fastest in the long run."""
    answer = make_oracle(problem.members).respond(-cost / float(np.abs(cost).max()))
    return SamplePolicy(answer.policy)
