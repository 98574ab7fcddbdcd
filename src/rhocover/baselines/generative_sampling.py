"""Generative sampling: any pair can be sampled at any time, without dynamics.

Shekhar, Javidi and Ghavamzadeh 2020, "Adaptive sampling for estimating probability distributions". The
learner can draw from any of n distributions P_i at any time, and allocates its draws N_i so that the worst,
or the average, of the expected errors of the estimates is smallest:

    E |P_hat_i - P_i|_2^2 = c_i/N_i,  c_i = sum_s P_i(s)(1 - P_i(s));
    E |P_hat_i - P_i|_1 ~ sqrt(2/pi) V_i/sqrt(N_i),  V_i = sum_s sqrt(P_i(s)(1 - P_i(s))).

The best shares, and their place on the axis if there were no flow constraints:

| loss | aggregate | N_i in proportion to | rho, mu |
|---|---|---|---|
| l2 | max | c | inf, c |
| l2 | average | c^(1/2) | 2, c^(1/2) |
| l1 | max | V^2 | inf, V^2 |
| l1 | average | V^(2/3) | 3/2, V^(2/3) |

It is thus the library's objective over all distributions on pairs instead of over occupancies: outside the
axis, because there are no dynamics, and a lower bound for every method that has to follow them.

**Optimistic tracking**: draw next from the pair whose error would be largest if its c were as large as the
draws so far allow, argmax_i u_i/N_i with u an upper confidence bound; for the average, from the pair whose
next draw would gain most, argmax_i sqrt(u_i)/N_i (to first order in 1/N). Pairs that were never drawn come
first.

**The world.** A run is a trajectory, so draws are represented as one: `generative_world(mdp)` has a state
called desk, whose actions are the pairs of `mdp`; each leads with probabilities P_i to a state for the
outcome, and from there one action leads back to the desk. A draw takes two steps, and the steps back are half
of all visits: with weights on the desk only, every reported divergence includes log 2.

    world, explorer = generative_world(mdp), GenerativeSampling()
    run = explore(world, explorer.rho, 20_000, explorer.weights(world), explorer=explorer, model="learned")
    sample_counts(run, mdp)

What differs from the paper:

- The confidence bounds are different. For c: c_tilde = N/(N-1) sum P_hat(1-P_hat) is the share of two
  draws that differ; changing one draw changes Z = N c_tilde/2 by at most 1, and the squares of these
  changes sum to at most 2Z. Then E Z - Z > x has probability at most exp(-x^2/(4 E Z)) (self-bounding
  functions, as in Maurer and Pontil 2009), so sqrt(c) <= b + sqrt(c_tilde + b^2), b = sqrt(2L/N). For V:
  their bound for each of the m outcomes, V <= sum_s sqrt(N/(N-1) P_hat(1-P_hat)) + m sqrt(2L/(N-1)). With
  L = log(n N(N+1)/delta), for V with n m instead of n, they hold for all pairs and all N at once with
  probability 1 - delta; in the paper the number of draws is known in advance.
- u is updated between blocks, which have one draw at first and a share `block_share` of all draws later;
  within a block only N_i changes in u_i/N_i. `block_share=0` is one draw per block, the rule of the paper.
- The two other distances of the paper, f-divergences and separation, are left out.
- With a known model u is c (or V) itself: the oracle with which the paper compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.belief.learned import LearnedModel, model_index
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.runs.result import Run
from rhocover.exploring.worlds import LowestScore, Visits
from rhocover.mdp import MDP, check_mdp

POWERS = {("l2", "max"): 1.0, ("l2", "average"): 1 / 2, ("l1", "max"): 2.0, ("l1", "average"): 2 / 3}
ORDERS = {"l2": 2.0, "l1": 1.5}  # rho of the average error
LOSSES, AGGREGATES = ("l2", "l1"), ("max", "average")
STEPS = 2  # per draw
LEAST = 1e-12  # of the largest weight: a pair that is known to be deterministic is drawn only once


@dataclass(frozen=True)
class GenerativeSampling:
    """Optimistic tracking at the desk of a `generative_world`; bounds hold with probability 1 - `delta`."""

    loss: str = "l2"
    aggregate: str = "max"
    delta: float = 0.1
    block_share: float = 1 / 32

    self_reliant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.loss, str) or self.loss not in LOSSES:
            raise unknown_name("loss", self.loss, LOSSES)
        if not isinstance(self.aggregate, str) or self.aggregate not in AGGREGATES:
            raise unknown_name("aggregate", self.aggregate, AGGREGATES)
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))
        object.__setattr__(self, "block_share", checks.probability(self.block_share, "block_share"))

    @property
    def rho(self) -> float:
        """The order of the coverage objective for which `weights` are meant."""
        return np.inf if self.aggregate == "max" else ORDERS[self.loss]

    def weights(self, world: MDP) -> FloatArray:
        """Returns the best shares of the pairs of a generative world, unnormalised, as a table `[S, A]`."""
        num_pairs = desk_size(world)
        size = _spread(world.transitions[:num_pairs], self.loss)
        if size.max() == 0:
            raise InvalidArgumentError(
                "every pair is deterministic: one draw of each reveals everything.", argument="world"
            )
        return world.table(np.append(self._shares(size), np.zeros(world.num_pairs - num_pairs)))

    def init(self, belief: Belief) -> State:
        """Returns the state before the first draw; raises for a world without a desk."""
        desk_size(_world(belief))
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns a block of draws, each from the pair with the smallest N_i/share_i at that time."""
        num_pairs = desk_size(_world(state.belief))
        shares = self._shares(self._upper(state.belief, num_pairs))
        scale = np.ones(state.counts.size)
        scale[:num_pairs] = 1 / np.maximum(shares, LEAST * shares.max()) if shares.any() else 1.0
        draws = max(1, int(self.block_share * (state.num_steps // STEPS)))
        base, rate = state.counts.astype(float), np.zeros(scale.size)
        return Block(LowestScore(base, rate, scale), STEPS * draws, whole=True)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the draws counted."""
        return state.after(visits)

    def _shares(self, size: FloatArray) -> FloatArray:
        """Returns the best shares of the draws, unnormalised, from c or V."""
        return size ** POWERS[self.loss, self.aggregate]

    def _upper(self, belief: Belief, num_pairs: int) -> FloatArray:
        """Returns c or V of each pair, known or at its upper confidence bound, `[n]`."""
        if not isinstance(belief, LearnedModel):
            return _spread(belief.problem.mdp.transitions[:num_pairs], self.loss)
        counts = belief.known.estimate.counts[:num_pairs]
        return upper_spread(counts, belief.frame.world.num_states - 1, self.loss, self.delta)


def upper_spread(counts: Matrix, num_outcomes: int, loss: str, delta: float) -> FloatArray:
    """Returns upper confidence bounds of c ("l2") or V ("l1") from counts of outcomes `[n, ...]`, `[n]`.

    They hold for all rows and all numbers of draws at once with probability 1 - delta.
    """
    visits = np.asarray(counts.sum(axis=1), float).ravel()
    drawn, m = np.maximum(visits, 2.0), num_outcomes
    share = sp.csr_array(counts / np.maximum(visits, 1.0)[:, None])
    unions = drawn.size * drawn * (drawn + 1) / delta
    if loss == "l2":
        b = np.sqrt(2 * np.log(unions) / drawn)
        upper, most = (b + np.sqrt(_spread(share, loss) * drawn / (drawn - 1) + b**2)) ** 2, 1 - 1 / m
    else:
        upper = _spread(share, loss) * np.sqrt(drawn / (drawn - 1))
        upper, most = upper + m * np.sqrt(2 * np.log(m * unions) / (drawn - 1)), np.sqrt(m - 1)
    return np.where(visits > 1, np.minimum(upper, most), most)


def _spread(rows: Matrix, loss: str) -> FloatArray:
    """Returns c ("l2") or V ("l1") of each row of probabilities, `[n]`."""
    p = np.where(rows.data > 1 - 1e-15, 1.0, rows.data)  # after normalisation, 1 may be 1 - 1e-16
    terms = p * (1 - p) if loss == "l2" else np.sqrt(p * (1 - p))
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.bincount(row, weights=terms, minlength=rows.shape[0]).astype(float)


# The world.


def generative_world(mdp: MDP) -> MDP:
    """Returns the world of a desk, where each action draws from one pair of `mdp`, and of the outcomes.

    State 0 is the desk; action i draws from pair i. The other states are the next states that occur in `mdp`,
    in order; their one action leads back. The run starts at the desk.
    """
    check_mdp(mdp)
    outcomes, n = _outcomes(mdp), mdp.num_pairs
    draws = sp.hstack([sp.csr_array((n, 1)), sp.csr_array(mdp.transitions)[:, outcomes]], format="csr")
    back = sp.csr_array((np.ones(outcomes.size), (np.arange(outcomes.size), np.zeros(outcomes.size, int))),
                        shape=(outcomes.size, 1 + outcomes.size))  # fmt: skip
    states = np.append(np.zeros(n, int), 1 + np.arange(outcomes.size))
    actions = np.append(np.arange(n), np.zeros(outcomes.size, int))
    return MDP.from_pairs(
        sp.vstack([draws, back], format="csr"), states, actions, num_actions=n, start=0,
        state_labels=["desk", *(mdp.state_labels[s] if mdp.state_labels else str(s) for s in outcomes)],
        action_labels=[mdp.pair_name(i) for i in range(n)], name=f"{mdp.name} at a desk".strip(),
    )  # fmt: skip


def sample_counts(run: Run, mdp: MDP) -> Matrix:
    """Returns how often each state followed each pair of `mdp` in a run in its generative world, `[n, S]`."""
    outcomes, num_pairs = _outcomes(mdp), desk_size(run.mdp)
    if (num_pairs, outcomes.size) != (mdp.num_pairs, run.mdp.num_states - 1):
        raise InvalidArgumentError.of(
            "run",
            f"must be in generative_world(mdp), of {mdp.num_pairs} pairs and {outcomes.size} outcomes",
            f"one with {num_pairs} pairs and {run.mdp.num_states - 1} outcomes",
        )
    seen = run.transitions[:num_pairs].tocoo()
    where = (seen.coords[0], outcomes[seen.coords[1] - 1])
    return sp.csr_array((seen.data, where), shape=(num_pairs, mdp.num_states))


def desk_size(world: MDP) -> int:
    """Returns how many pairs can be drawn from; raises if `generative_world` did not make the world."""
    at_desk, P = world.pair_state == 0, world.transitions
    num_pairs, num_outcomes = int(at_desk.sum()), world.num_states - 1
    leads = np.repeat(at_desk, np.diff(P.indptr)) != (P.indices == 0)  # from the desk away, and back to it
    if not (leads.all() and num_outcomes > 0 and world.num_pairs == num_pairs + num_outcomes):
        raise InvalidArgumentError(
            f"GenerativeSampling draws from any pair at any time, which {world!r} does not allow.",
            argument="world",
            remedy="Explore generative_world(mdp) instead of mdp, without horizon and discount.",
        )
    return num_pairs


def _outcomes(mdp: MDP) -> IntArray:
    """Returns the states that some pair leads to, in order."""
    return np.unique(mdp.transitions.indices).astype(np.int64)


def _world(belief: Any) -> MDP:
    """Returns the model whose pairs and next states are known, even if their probabilities are not."""
    return model_index(belief) if isinstance(belief, LearnedModel) else belief.problem.mdp
