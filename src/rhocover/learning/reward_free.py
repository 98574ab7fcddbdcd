"""Reward-free planning: how much reward is lost by planning on a data set, when the reward is given later.

The data are collected first; only then a reward r in [0, 1]^n is given (Jin et al. 2020). A policy is planned
for it on the model estimated from the data, and played in the true model. The planner uses the estimate
P_hat = (N + k/S)/(N_i + k), which is communicating because k > 0, and its best stationary policy pi_hat(r).
Played in the true model, this earns J(pi_hat, r) per step, and

    regret(r) = J*(r) - J(pi_hat(r), r),      J*(r) = max_d <r, d> over the true model's occupancies.

The regret is computed for these rewards:

- Two random kinds: uniform on [0, 1]^n, where most errors average out, and sparse ones, 1 at one to three
  pairs and 0 elsewhere, where a few rows decide. They depend only on the seed and the number of pairs, so two
  data sets are evaluated with the same rewards.
- The worst that a search finds (`worst_reward`): a lower bound on the supremum over rewards.

No reward loses more than `upper_bound` (`regret_bound`), which is proven, and often several times the worst
found.

**Several classes.** pi_hat is deterministic, and may have several recurrent classes in the true model. Then J
is the average reward from the model's start distribution (uniform over states if the model has none): the sum
over classes of their gain times the probability of ending in them. J* does not depend on the start, because
the true model is required to be communicating.

**Upper bound for every reward in [0, 1]^n.** Let pi_hat be best on the estimate for a reward r, with bias h
and gain g there: r_i + P_hat_i h - h(s_i) <= g for every pair, with equality at the pairs of pi_hat. For
occupancies d of the *true* model the sum of d_i (P_i h - h(s_i)) is 0, so <r, d> <= g +
sum_i d_i (P_i - P_hat_i) h, with equality at the visits d_hat of pi_hat. Hence

    regret(r) <= sum_i d*_i (P_i - P_hat_i) h + sum_i d_hat_i (P_hat_i - P_i) h.

The range of h is also bounded. Going from s to s' by any policy of the estimate that needs T(s, s') steps on
average costs at most g <= 1 per step, so h(s') - h(s) <= T(s, s'). With a and b the positive and the negative
part of P_i - P_hat_i, and m = sum a = sum b = |P_i - P_hat_i|_1 / 2, pairing their states independently gives

    (P_i - P_hat_i) h <= sum_{s, s'} b(s) a(s') T(s, s') / m =: forth_i, and back_i with a and b exchanged,

so that sup_r regret(r) <= max_d <forth, d> + max_d <back, d> over the true model's occupancies: two best
responses, whose certified upper bounds are used. Both are at most m_i times the estimate's diameter D, so
this is never worse than max_d <|P - P_hat|_1, d> D, which follows from D as a bound on h (Jaksch et al.
2010).

Any policy's T is valid; we use the smallest, by policy iteration for each state: S times a few dense solves
of S equations. The planner is assumed to be exact; the library's is, to 1e-8 of the largest reward. The bound
does not use which visits belong to which h, and is often many times the worst regret found.

**Search for the worst reward.** For a fixed policy pi_hat the rewards for which it is best on the estimate
form a cone: those with some h and g such that

    r_i <= g + h(s_i) - sum_s' P_hat(s'|i) h(s'),     with equality at the pairs of pi_hat        (Bellman).

On it, regret(r) = max_d <r, d - d_hat> with d_hat the true visits of pi_hat: a maximum of linear
functions. The search alternates two steps, and the regret never decreases:

- d <- the best visits for r in the true model;
- r <- the reward in the cone and in [0, 1]^n with the largest <r, d - d_hat>: a linear program in (r, h, g).

It starts from the policies of the worst known rewards, compared with the best visits for those rewards and
with the visits of policies that differ in one action. It continues with policies that differ in one action
from the worst one found so far. A convex function can have many local maxima, and only few policies are
tried, so the result is only a lower bound on the supremum. On 32 random models of 3 states, where every pair
of policies can be compared, it was the supremum itself in 30 cases, and 95% and 97% of it in the other two.

The program ends on the cone's boundary, where pi_hat ties with another policy, which may be chosen instead.
The reward of 1 at the pairs of pi_hat and 0 elsewhere is inside the cone with a margin of 1 (h = 0, g = 1),
so a step of `INSIDE` towards it breaks the tie. The returned reward is then planned for and played like any
other.

The estimate is stored with full rows, n×S numbers: this is for models of up to a few hundred states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.chains import maximal_end_components, policy_chain
from rhocover.checks import FloatArray, frozen
from rhocover.errors import InvalidArgumentError, NotCommunicatingError, SolverError
from rhocover.learning.estimate import checked_smoothing, read_counts, shrinkage
from rhocover.linear_program import LinearProgram
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, make_oracle
from rhocover.printing import count_of
from rhocover.theory.certainty import long_run_frequencies
from rhocover.transitions import check_fits_in_memory

# Trials: plan for a reward on the estimate, play the policy in the true model.


@dataclass(frozen=True, eq=False)
class Trial:
    """One reward, planned for on the estimate and played in the true model."""

    reward: FloatArray  # [n]
    regret: float
    policy: FloatArray  # pi_hat, 0 or 1 per pair, [n]
    played: FloatArray  # its long-run visits in the true model, [n]
    best: FloatArray  # the best long-run visits, [n]


@dataclass(frozen=True, eq=False)
class Trials:
    """The true model and an estimate of it, with an oracle for each."""

    truth: Oracle
    estimate: Oracle
    start: FloatArray  # [S]

    def of(self, reward: FloatArray) -> Trial:
        """Returns what planning for `reward` on the estimate loses in the true model."""
        policy = self.estimate.respond(reward).policy
        best = self.truth.respond(reward).occupancy
        played = self.visits(policy)
        regret = max(0.0, float(reward @ (best - played)))  # the oracle's value may be 1e-8 below the best
        return Trial(reward, regret, policy, played, best)

    def visits(self, policy: FloatArray) -> FloatArray:
        """Returns the long-run share of each pair `[n]` when `policy` `[n]` is played in the true model."""
        mdp = self.truth.members.mdp
        return long_run_frequencies(policy_chain(mdp, policy), self.start)[mdp.pair_state] * policy


def make_trials(truth: MDP, transitions: Any, smoothing: float) -> Trials:
    """Returns the true model and its estimate from counts, with an oracle for each."""
    _check_communicating(truth)
    start = np.full(truth.num_states, 1 / truth.num_states) if truth.start is None else truth.start
    estimate = estimated_model(truth, transitions, smoothing)
    oracles = [make_oracle(Occupancies.average(mdp)) for mdp in (truth, estimate)]
    return Trials(oracles[0], oracles[1], start)


def estimated_model(mdp: MDP, transitions: Any, smoothing: float) -> MDP:
    """Returns the model with the pairs of `mdp` and the smoothed rows of the counts `[n, S]`."""
    counts, smoothing = read_counts(mdp, transitions), checked_smoothing(smoothing)
    if smoothing == 0:
        raise InvalidArgumentError.of(
            "smoothing",
            "must be positive",
            "0: without smoothing the estimate may not be communicating",
            remedy="Pass a small value, such as 1e-6.",
        )
    check_fits_in_memory("the estimate", 12 * mdp.num_pairs * mdp.num_states)
    scale, base = shrinkage(counts, smoothing)
    rows = sp.csr_array(counts.toarray() * scale[:, None] + base[:, None])
    return MDP.from_pairs(rows, mdp.pair_state, mdp.pair_action, num_actions=mdp.num_actions)


def _check_communicating(truth: MDP) -> None:
    found = maximal_end_components(truth)
    label = found.pair_label
    if found.count == 1 and (label == 0).all():
        return
    largest = int(np.argmax(np.bincount(label[label >= 0])))
    left = np.flatnonzero(label != largest)
    names = checks.name_some([truth.pair_name(int(i)) for i in left])
    raise NotCommunicatingError(
        "`truth` must be communicating, so that the best gain does not depend on the start; outside its "
        f"largest end component are {count_of(left.size, 'pair')}: {names}.",
        [(int(truth.pair_state[i]), int(truth.pair_action[i])) for i in left],
        argument="truth",
        remedy="Use one component: truth.subset(pairs), with the matching rows and columns of `transitions`.",
    )


# The upper bound for every reward in [0, 1]^n.

MOST_ITERATIONS = 100  # of policy iteration; under 10 are usual, and any policy gives a valid bound
BETTER = 1e-9  # relative: an action is changed for a larger gain only


def regret_bound(trials: Trials) -> float:
    """Returns an upper bound on the planning regret of every reward in [0, 1]^n; at most 1."""
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


# The search for the worst reward.

INSIDE = 1e-6  # breaks ties, and costs this much of the regret; oracles distinguish margins of 1e-11
STARTS = 8  # policies that the search starts from
RIVALS = 4  # policies with one action changed that each of them is compared with
NEIGHBOURS = 60  # policies with one action changed that are tried afterwards
MOST_ROUNDS = 20  # within a cone; 2 to 5 are usual
GAIN = 1e-6  # of regret: the search in a cone ends when it gains less


def worst_reward(trials: Trials, known: Sequence[Trial]) -> Trial:
    """Returns the trial with the largest regret among those found and the `known` ones."""
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
    """Returns the worst trial found among rewards for which `policy` is best on the estimate.

    `rivals` are visits `[n]` in the true model to compare with first. A program that HiGHS cannot solve ends
    the search early, which makes the lower bound lower, not wrong.
    """
    played = trials.visits(policy)
    program = _cone(trials.estimate.members.mdp, policy)
    climbs = [_climb(trials, program, played, rival) for rival in rivals]
    reward = max(climbs, key=lambda climb: climb[0])[1]
    return trials.of((1 - INSIDE) * reward + INSIDE * policy)


def _climb(
    trials: Trials, program: LinearProgram, played: FloatArray, rival: FloatArray
) -> tuple[float, FloatArray]:
    """Returns the (regret, reward) at which the alternation from the visits `rival` ends."""
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


# The summary over rewards.

LEAST_SMOOTHING = 1e-12  # with less, the estimate is not communicating in float64
MOST_REWARDED = 3  # pairs that a sparse reward pays for


@dataclass(frozen=True, eq=False)
class PlanningRegret:
    """Average reward per step that is lost by planning on the estimate, for rewards in [0, 1]^n.

    `worst` and `sparse_worst` are the largest among the random rewards; `adversarial` is the largest found
    by search, so at least as large as both. The supremum is between `adversarial` and `upper_bound`.
    """

    mean: float  # over uniform rewards
    standard_error: float
    worst: float
    sparse_mean: float  # over rewards of 1 at one to three pairs
    sparse_standard_error: float
    sparse_worst: float
    adversarial: float
    adversarial_reward: FloatArray  # [n]
    upper_bound: float  # no reward loses more
    num_rewards: int  # of each kind


def planning_regret(
    truth: MDP, transitions: Any, *, num_rewards: int = 100, seed: int = 0, smoothing: float = 0.5
) -> PlanningRegret:
    """Returns what planning on the estimate from `transitions` `[n, S]` costs in `truth`.

    `num_rewards` of each kind are drawn. `truth` must be communicating and `smoothing` positive.
    """
    num_rewards = checks.integer(num_rewards, "num_rewards", least=2, most=10**6)
    generator = np.random.default_rng(checks.seed(seed))
    trials = make_trials(check_mdp(truth, "truth"), transitions, smoothing)
    if smoothing < LEAST_SMOOTHING:
        raise InvalidArgumentError.of("smoothing", f"must be at least {LEAST_SMOOTHING:g}", f"{smoothing:g}")
    uniform = [trials.of(generator.random(truth.num_pairs)) for _ in range(num_rewards)]
    sparse = [trials.of(sparse_reward(generator, truth.num_pairs)) for _ in range(num_rewards)]
    found = worst_reward(trials, [*uniform, *sparse])
    return PlanningRegret(
        *_summary(uniform), *_summary(sparse),
        adversarial=found.regret, adversarial_reward=frozen(found.reward),
        upper_bound=regret_bound(trials), num_rewards=num_rewards,
    )  # fmt: skip


def sparse_reward(generator: np.random.Generator, num_pairs: int) -> FloatArray:
    """Returns a reward `[n]` of 1 at one to three pairs and 0 elsewhere."""
    size = min(num_pairs, int(generator.integers(1, MOST_REWARDED + 1)))
    reward = np.zeros(num_pairs)
    reward[generator.choice(num_pairs, size, replace=False)] = 1.0
    return reward


def _summary(trials: list[Trial]) -> tuple[float, float, float]:
    """Returns the mean regret, its standard error, and the largest."""
    regrets = np.array([trial.regret for trial in trials])
    error = regrets.std(ddof=1) / np.sqrt(regrets.size)
    return float(regrets.mean()), float(error), float(regrets.max())
