"""The worst reward that can be found: where planning on an estimate loses most.

For a fixed policy pi_hat the rewards for which the estimate prefers it are a cone: those with some h and g
such that

    r_i <= g + h(s_i) - sum_s' P_hat(s'|i) h(s'),     with equality at the pairs of pi_hat        (Bellman).

On it, regret(r) = max_d <r, d - d_hat> with d_hat the true visits of pi_hat: a maximum of linear functions.
So the search alternates, each step no worse than the one before:

- d <- the best visits for r in the true model;
- r <- the reward in the cone and in [0, 1]^n with the largest <r, d - d_hat>: a linear program in (r, h, g).

It begins with the policies of the worst rewards known, against the best visits for those rewards and the
visits of policies one action away, and goes on to policies that differ in one action from the worst one
found so far. A convex function can have many local maxima, and few of all policies are tried: this is a lower
bound on the supremum, and no more is claimed. On 32 random models of 3 states, where every pair of policies
can be compared, it was the supremum itself in 30 and 95% and 97% of it in the other two.

The program ends on the cone's border, where the estimate is indifferent and may well choose another policy.
The reward of 1 at the pairs of pi_hat and 0 elsewhere is inside the cone with a margin of 1 (h = 0, g = 1):
a step of `INSIDE` towards it breaks the tie. What is returned is then planned for and played like any reward.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray
from rhocover.errors import SolverError
from rhocover.learning.trials import Trial, Trials
from rhocover.linear_program import LinearProgram
from rhocover.mdp import MDP

INSIDE = 1e-6  # breaks ties, and costs that much of the regret; oracles tell margins of 1e-11 apart
STARTS = 8  # policies that the search begins with
RIVALS = 4  # policies with one other action that each of them is compared with
NEIGHBOURS = 60  # policies with one other action that are tried afterwards
MOST_ROUNDS = 20  # within a cone; 2 to 5 are usual
GAIN = 1e-6  # of regret; less is no progress


def worst_reward(trials: Trials, known: Sequence[Trial]) -> Trial:
    """Returns the trial with the largest regret that was found, `known` ones among them."""
    ranked = sorted(known, key=lambda trial: -trial.regret)
    worst, tried = ranked[0], {}
    mdp, generator = trials.truth.members.mdp, np.random.default_rng(0)
    for trial in ranked:
        if len(tried) < STARTS and trial.policy.tobytes() not in tried:
            tried[trial.policy.tobytes()] = True
            near = [_neighbour(mdp, trial.policy, generator) for _ in range(RIVALS)]
            rivals = [trial.best, ranked[0].best, *(trials.visits(policy) for policy in near)]
            worst = _worse(worst, _worst_of_cone(trials, trial.policy, rivals))
    for _ in range(NEIGHBOURS):
        policy = _neighbour(mdp, worst.policy, generator)
        if policy.tobytes() not in tried:
            tried[policy.tobytes()] = True
            worst = _worse(worst, _worst_of_cone(trials, policy, [worst.best, worst.played]))
    return worst


def _worse(one: Trial, other: Trial) -> Trial:
    return other if other.regret > one.regret else one


def _neighbour(mdp: MDP, policy: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Returns a policy `[n]` that takes another action in one state, if there is another."""
    others = np.flatnonzero(policy == 0)
    if not others.size:
        return policy
    pair = generator.choice(others)
    near = np.where(mdp.pair_state == mdp.pair_state[pair], 0.0, policy)
    near[pair] = 1.0
    return near


def _worst_of_cone(trials: Trials, policy: FloatArray, rivals: Sequence[FloatArray]) -> Trial:
    """Returns the worst trial found among rewards that make the estimate prefer `policy`.

    `rivals` are visits `[n]` in the truth to compare with first. A program that HiGHS cannot solve ends the
    search early, which makes the lower bound lower, not wrong.
    """
    played = trials.visits(policy)
    program = _cone(trials.estimate.members.mdp, policy)
    climbs = [_climb(trials, program, played, rival) for rival in rivals]
    reward = max(climbs, key=lambda climb: climb[0])[1]
    return trials.of((1 - INSIDE) * reward + INSIDE * policy)


def _climb(
    trials: Trials, program: LinearProgram, played: FloatArray, rival: FloatArray
) -> tuple[float, FloatArray]:
    """Returns (regret, reward) where alternating ends that begins with the visits `rival`."""
    worst, reward = 0.0, np.zeros(played.size)
    for _ in range(MOST_ROUNDS):
        try:
            found = _best_in_cone(program, rival - played)
        except SolverError:
            break
        value = float(found @ (rival - played))
        if value <= worst + GAIN:
            break
        worst, reward = value, found
        rival = trials.truth.respond(found).occupancy
    return worst, reward


def _cone(estimate: MDP, policy: FloatArray) -> LinearProgram:
    """Returns the program over (r, 1 - r, h, g, slack) >= 0 of rewards in the cone of `policy`.

    h >= 0 is no restriction, since a constant added to h changes nothing; nor is g >= 0, as rewards are.
    """
    n, num_states = estimate.num_pairs, estimate.num_states
    one = sp.csr_array(sp.eye_array(n))
    own = sp.csr_array((np.ones(n), (np.arange(n), estimate.pair_state)), shape=(n, num_states))
    slack = one[:, np.flatnonzero(policy == 0)]
    blocks = [
        [one, one, None, None, None],
        [one, None, estimate.transitions - own, sp.csr_array(-np.ones((n, 1))), slack],
    ]
    return LinearProgram(sp.block_array(blocks, format="csr"), np.repeat([1.0, 0.0], n), 0.0, keep_basis=True)


def _best_in_cone(program: LinearProgram, costs: FloatArray) -> FloatArray:
    """Returns the reward `[n]` of the cone with the largest <costs, reward>."""
    all_costs = np.zeros(program.matrix.shape[1])
    all_costs[: costs.size] = costs
    return np.clip(program.solve(all_costs).x[: costs.size], 0.0, 1.0)
