"""Feedback: correct what can be corrected, and nothing else.

After t steps the visits T miss t d* by two kinds of deviation. The flow residual B(T - t d*) is a random
walk of the world's own making; the cheapest way to carry it, in the metric H of the objective's curvature,
is g = H^-1 B'(B H^-1 B')^-1 B (T - t d*). The rest, f = T - t d* - g, leaves flow and mass alone, so it can
be driven to zero: in each state play argmin_a f(s,a)/d*(s,a). If all actions of a state are equally ahead,
for every state, f is a stationary flow of the best policy without mass, and that is zero.

f moves with every step. Looking at the flow equations each time would cost O(S), so for a period of about
sqrt(t)/8 steps the flow residual is frozen,

    f(s,a) ~ f_0(s,a) + visits(s,a) - k d*(s,a),

and acting costs O(A) a step whatever S. The residual drifts meanwhile by t^(1/4), which costs t^(-3/2) of
regret, less than the limit kappa_min/t. Models of up to 256 states bring f up to date within the compiled
loop (`Steered`), larger ones between blocks (`Balanced`), with one sparse solve.

For large rho the curvature tells pairs apart by (mu/d)^rho, and a quadratic is a poor picture of the
objective as long as counts are noisy on that scale. There the target is re-planned on the counts: when t has
grown by 5%, centre = t argmax {U_rho'(d): B d = B d_hat} takes the place of t d* + g, of order
rho' = min(rho, t/(4n)): visits are whole numbers, and an order beyond the visits of a typical pair would
chase the last of them. Deviations since then are carried linearly as above.

Safeguard: if f grows past a bound, a block of the average-reward optimal policy for the cost H f steers
back, because <H f, psi> < 0 for its visits psi wherever f is not zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import Coverage
from rhocover.exploring.behaviours import Balanced, Behaviour, Sampled, Steered
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.problem import Problem
from rhocover.exploring.simulator import Visits
from rhocover.exploring.tracking import shares
from rhocover.oracles import make_oracle
from rhocover.planning.pathwise import PathwiseProblem
from rhocover.planning.projection import DENSE_STATES, FlowProjection

LARGE_RHO = 8.0  # from here on targets are re-planned on the counts
GROWTH = 1.05  # of t between two re-plannings
VISITS_PER_ORDER = 4  # visits of a typical pair for each unit of the re-planned order
LEAST_ORDER = 2.0
LEAST_CURVATURE = {False: 1e-3, True: 0.03}  # of the largest, relative to 1/d; by whether it is re-planned
SHORTEST = 8  # steps of a period
STATES_PER_STEP = 64  # a period has at least S^2/64 steps, so that bringing f up to date costs little a step
PAIRS_PER_STEP = 2  # with a sparse solve it has at least n/2
PERIODS, SHARE = 64, 16  # of a block: at least 64 periods, or a sixteenth of the steps so far
CENTRE_TOLERANCE = 1e-6
BOUND = 50.0  # on f'Hf over n^2 + t: some hundred times what a run in order shows


@dataclass(frozen=True)
class Feedback:
    """Plays the action that is furthest behind once the world's own noise is taken out."""

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step."""
        n = belief.problem.mdp.num_pairs
        if not _replans(belief.problem):
            return initial_state(belief)
        return initial_state(
            belief, centre=np.zeros(n), centre_counts=np.zeros(n, np.int64), centre_steps=np.array([0])
        )

    def policy(self, state: State) -> Block:
        """Returns the scores for the next block, or the safeguard's policy."""
        problem, curvature = state.problem, _curvature(state.problem)
        f, period = deviation(state), period_of(state)
        if float(f @ (curvature * f)) > BOUND * (float(f.size) ** 2 + state.num_steps):
            return Block(_steering_back(problem, curvature * f), max(period, f.size))
        if problem.mdp.num_states > DENSE_STATES:
            return Block(Balanced(f, problem.d_star, curvature), period)
        offset, moved = _since_centre(state)
        weight, inverse = _projection(problem).W, _inverse(problem)
        rule = Steered(offset, moved, problem.d_star, curvature, weight, inverse, period)
        return Block(rule, _block_length(state, period))

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added, re-planned where that is due."""
        state = state.after(visits)
        if not _replans(state.problem) or state.num_steps < _next_centre(state):
            return state
        centre = _centre(state.problem, state.counts, state.num_steps)
        return State(
            state.belief, state.counts, state.num_steps, state.num_blocks,
            {"centre": centre, "centre_counts": state.counts, "centre_steps": np.array([state.num_steps])},
        )  # fmt: skip


def period_of(state: State) -> int:
    """Returns how many steps to take before the flow residual is looked at again."""
    n, S = state.counts.size, state.problem.mdp.num_states
    least = S * S // STATES_PER_STEP if S <= DENSE_STATES else n // PAIRS_PER_STEP
    return max(SHORTEST, least, math.isqrt(state.num_steps) // 8)


def _block_length(state: State, period: int) -> int:
    """Returns the steps of a block of many periods; it ends where the target is re-planned."""
    length = max(PERIODS * period, state.num_steps // SHARE)
    if not _replans(state.problem):
        return length
    return max(period, min(length, _next_centre(state) - state.num_steps))


def deviation(state: State) -> FloatArray:
    """Returns f: what the counts are ahead of the best that their flow residual allows."""
    offset, moved = _since_centre(state)
    return offset + moved - _projection(state.problem).explained(moved, refine=False)


def _since_centre(state: State) -> tuple[FloatArray, FloatArray]:
    """Returns what the counts were ahead at the last re-planning, and what was visited beyond d* since."""
    counts, t, offset = state.counts, state.num_steps, np.zeros(state.counts.size)
    if "centre" in state.memory:
        counts, t = counts - state.memory["centre_counts"], t - int(state.memory["centre_steps"][0])
        offset = state.memory["centre_counts"] - state.memory["centre"]
    return offset, counts - t * state.problem.d_star


def _inverse(problem: Problem) -> FloatArray:
    return problem.once("feedback inverse", lambda: _projection(problem).inverse())


def _projection(problem: Problem) -> FlowProjection:
    return problem.once("feedback", lambda: FlowProjection(problem.members, 1 / _curvature(problem)))


def _curvature(problem: Problem) -> FloatArray:
    """Returns H up to a factor: (r/r_max)^rho / d*, r = mu/d*, the first factor bounded from below."""
    return problem.once("feedback curvature", lambda: _find_curvature(problem))


def _find_curvature(problem: Problem) -> FloatArray:
    d, rho = shares(problem.d_star), problem.coverage.rho
    log_ratio = problem.coverage.log_ratio(d)
    below = log_ratio - log_ratio.max()
    with np.errstate(invalid="ignore"):  # inf * 0 at rho = inf: the worst pairs
        factor = np.exp(np.where(below == 0, 0.0, rho * below)) if rho > 0 else np.ones(d.size)
    return np.maximum(factor, LEAST_CURVATURE[_replans(problem)]) / d


def _replans(problem: Problem) -> bool:
    return problem.coverage.rho > LARGE_RHO


def _next_centre(state: State) -> int:
    """Returns when to re-plan again: after 5% more steps, and a few for each pair."""
    last = int(state.memory["centre_steps"][0])
    return max(last + 4 * state.counts.size, math.ceil(GROWTH * last))


def _centre(problem: Problem, counts: IntArray, num_steps: int) -> FloatArray:
    """Returns t times the best occupancy with the flow residual of the counts, for the order of now."""
    order = max(LEAST_ORDER, num_steps / (VISITS_PER_ORDER * counts.size))
    coverage = Coverage(min(problem.coverage.rho, order), problem.coverage.mu)
    best = PathwiseProblem(problem.members, coverage).best(counts / num_steps, tol=CENTRE_TOLERANCE)
    return num_steps * best.occupancy


def _steering_back(problem: Problem, cost: FloatArray) -> Behaviour:
    answer = make_oracle(problem.members).respond(-cost / float(np.abs(cost).max()))
    return Sampled(answer.policy)
