"""Trials: plan for a reward on an estimated model, play the policy in the true one.

The planner takes the estimate P_hat = (N + k/S)/(N_i + k), which is communicating because k > 0, and its best
stationary policy pi_hat(r). Played in the true model it earns J(pi_hat, r) a step, and

    regret(r) = J*(r) - J(pi_hat(r), r),      J*(r) = max_d <r, d> over the true model's occupancies.

**Several classes.** pi_hat is deterministic, and may fall apart in the true model into several recurrent
classes. Then J is the average reward from the model's start distribution (uniform over states if the model
has none): each class's own gain, times the probability of ending in it. J* needs no start, because the true
model is required to be communicating.

Full rows of the estimate are stored, n×S numbers: this is for models of up to some hundred states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.chains import maximal_end_components, policy_chain
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from rhocover.learning.model_error import checked_smoothing, read_counts, shrinkage
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.oracles import Oracle, make_oracle
from rhocover.theory.visits import long_run_frequencies
from rhocover.transitions import check_fits_in_memory


@dataclass(frozen=True, eq=False)
class Trial:
    """One reward, planned for on the estimate and played in the truth."""

    reward: FloatArray  # [n]
    regret: float
    policy: FloatArray  # pi_hat, 0 or 1 per pair, [n]
    played: FloatArray  # its long-run visits in the truth, [n]
    best: FloatArray  # the best long-run visits, [n]


@dataclass(frozen=True, eq=False)
class Trials:
    """The true model and an estimate of it, ready for rewards."""

    truth: Oracle
    estimate: Oracle
    start: FloatArray  # [S]

    def of(self, reward: FloatArray) -> Trial:
        """Returns what planning for `reward` on the estimate loses in the truth."""
        policy = self.estimate.respond(reward).policy
        best = self.truth.respond(reward).occupancy
        played = self.visits(policy)
        regret = max(0.0, float(reward @ (best - played)))  # the oracle's best may be 1e-8 below the best
        return Trial(reward, regret, policy, played, best)

    def visits(self, policy: FloatArray) -> FloatArray:
        """Returns the long-run share of each pair `[n]` when `policy` `[n]` is played in the truth."""
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
        raise InvalidArgumentError(
            "`smoothing` must be positive, got 0: an estimate without it may fall apart. Pass a small one."
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
        f"largest end component are {left.size} pairs: {names}. "
        "Judge one component: truth.subset(pairs), and the rows and columns of `transitions` that it keeps.",
        [(int(truth.pair_state[i]), int(truth.pair_action[i])) for i in left],
    )
