"""Feedback: correct what can be corrected, and nothing else.

After t steps the visits T miss t d* by two kinds of deviation. The flow residual B(T - t d*) is a random
walk of the world's own making; the cheapest way to carry it, in the metric H of the objective's curvature,
is g = H^-1 B'(B H^-1 B')^-1 B (T - t d*). The rest, f = T - t d* - g, leaves flow and mass alone, so it can
be driven to zero: in each state play argmin_a f(s,a)/d*(s,a). If all actions of a state are equally ahead,
for every state, f is a stationary flow of the best policy without mass, and that is zero.

Between two blocks f moves with every step. Within a block the flow residual is frozen,

    f(s,a) ~ f_0(s,a) + visits(s,a) - k d*(s,a),

so acting costs O(A) a step whatever S. Blocks last about sqrt(t)/4 steps: the residual then drifts by
t^(1/4), which costs t^(-3/2) of regret, less than the limit kappa_min/t.

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
from rhocover.exploring.behaviours import Balanced, Behaviour, Sampled
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.problem import Problem
from rhocover.exploring.simulator import Visits
from rhocover.exploring.tracking import shares
from rhocover.oracles import make_oracle
from rhocover.planning.pathwise import PathwiseProblem
from rhocover.planning.projection import FlowProjection

LARGE_RHO = 8.0  # from here on targets are re-planned on the counts
GROWTH = 1.05  # of t between two re-plannings
VISITS_PER_ORDER = 4  # visits of a typical pair for each unit of the re-planned order
LEAST_ORDER = 2.0
LEAST_CURVATURE = {False: 1e-3, True: 0.03}  # of the largest, relative to 1/d; by whether it is re-planned
SHORTEST = 8  # steps of a block
PAIRS_PER_STEP = 16  # a block has at least n/16 steps, so that refreshing it costs little per step
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
        problem = state.problem
        f = deviation(state)
        curvature = _curvature(problem)
        length = block_length(state.num_steps, f.size)
        n_squared = float(f.size) ** 2
        if float(f @ (curvature * f)) > BOUND * (n_squared + state.num_steps):
            return Block(_steering_back(problem, curvature * f), max(length, f.size))
        return Block(Balanced(f, problem.d_star, curvature), length)

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


def block_length(num_steps: int, num_pairs: int) -> int:
    """Returns how many steps to take before the flow residual is looked at again."""
    return max(SHORTEST, num_pairs // PAIRS_PER_STEP, math.isqrt(num_steps) // 8)


def deviation(state: State) -> FloatArray:
    """Returns f: what the counts are ahead of the best that their flow residual allows."""
    problem, counts, t = state.problem, state.counts, state.num_steps
    target = 0.0
    if "centre" in state.memory:
        counts, t = counts - state.memory["centre_counts"], t - int(state.memory["centre_steps"][0])
        target = state.memory["centre_counts"] - state.memory["centre"]
    moved = counts - t * problem.d_star
    return target + moved - _projection(problem).explained(moved)


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
