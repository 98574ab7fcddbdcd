"""A bound on the planning regret that holds for every reward in [0, 1]^n at once.

Let pi_hat be best on the estimate for a reward r, with bias h and gain g there: r_i + P_hat_i h - h(s_i) <= g
for every pair, with equality at the pairs of pi_hat. For occupancies d of the *true* model the sum of
d_i (P_i h - h(s_i)) is 0, so <r, d> <= g + sum_i d_i (P_i - P_hat_i) h, with equality at the visits d_hat of
pi_hat. Hence

    regret(r) <= sum_i d*_i (P_i - P_hat_i) h + sum_i d_hat_i (P_hat_i - P_i) h.

Nor can h vary much. Going from s to s' by any policy of the estimate that needs T(s, s') steps on average
costs at most g <= 1 a step, so h(s') - h(s) <= T(s, s'). With a and b the positive and the negative part of
P_i - P_hat_i, and m = sum a = sum b = |P_i - P_hat_i|_1 / 2, pairing their states independently gives

    (P_i - P_hat_i) h <= sum_{s, s'} b(s) a(s') T(s, s') / m =: forth_i,   and back_i with a and b exchanged,

so that sup_r regret(r) <= max_d <forth, d> + max_d <back, d> over the true model's occupancies: two best
responses, whose certified upper bounds are used. Both are at most m_i times the estimate's diameter D, so
this is never worse than max_d <|P - P_hat|_1, d> D, what D as a bound on h gives (Jaksch et al. 2010).

Any policy's T is valid; here it is the smallest, by policy iteration for each state: S times a few dense
solves of S equations. The planner is taken to be exact; the library's is, to 1e-8 of the largest reward. The
bound does not know which visits go together with which h, and is often many times the worst regret found.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.learning.trials import Trials
from rhocover.mdp import MDP

MOST_ITERATIONS = 100  # of policy iteration; under 10 are usual, and what it ends with is valid anyway
BETTER = 1e-9  # of the steps; a smaller gain is no reason to change an action


def regret_bound(trials: Trials) -> float:
    """Returns a number that the planning regret exceeds for no reward in [0, 1]^n; at most 1."""
    truth, estimate = trials.truth.members.mdp, trials.estimate.members.mdp
    steps = hitting_times(estimate)
    difference = truth.transitions.toarray() - estimate.transitions.toarray()
    forth = _moving_cost(np.maximum(-difference, 0.0), np.maximum(difference, 0.0), steps)
    back = _moving_cost(np.maximum(difference, 0.0), np.maximum(-difference, 0.0), steps)
    return min(1.0, sum(trials.truth.respond(cost).upper_bound for cost in (forth, back)))


def _moving_cost(origin: FloatArray, goal: FloatArray, steps: FloatArray) -> FloatArray:
    """Returns sum_{s, s'} origin(s) goal(s') steps(s, s') / sum origin of each row, `[n]`."""
    mass = np.minimum(origin.sum(axis=1), goal.sum(axis=1))  # equal but for rounding
    cost = np.einsum("is,is->i", origin @ steps, goal)
    return np.where(mass > 0, cost / np.where(mass > 0, mass, 1.0), 0.0)


def hitting_times(mdp: MDP) -> FloatArray:
    """Returns the fewest expected steps from s to s', `[S, S]`, in a model whose P has no zeros."""
    rows = mdp.transitions.toarray()
    return np.stack([_steps_to(mdp, rows, goal) for goal in range(mdp.num_states)], axis=1)


def _steps_to(mdp: MDP, rows: FloatArray, goal: int) -> FloatArray:
    """Returns the expected steps to `goal` from each state `[S]`, by policy iteration."""
    first = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states))
    onward = rows.copy()
    onward[:, goal] = 0.0
    chosen, steps = first, _evaluated(onward[first], goal)
    for _ in range(MOST_ITERATIONS):
        ahead = 1 + onward @ steps
        best = np.lexsort((ahead, mdp.pair_state))[first]
        is_better = ahead[best] < (1 - BETTER) * ahead[chosen]
        if not is_better.any():
            break
        chosen = np.where(is_better, best, chosen)
        steps = _evaluated(onward[chosen], goal)
    return steps


def _evaluated(chain: FloatArray, goal: int) -> FloatArray:
    """Returns the steps that a policy needs to the goal `[S]`, 0 at the goal itself."""
    steps = np.linalg.solve(np.eye(chain.shape[0]) - chain, np.ones(chain.shape[0]))
    steps[goal] = 0.0
    return steps.astype(np.float64, copy=False)
