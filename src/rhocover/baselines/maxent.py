"""MaxEnt: maximises the entropy of the visits.

Hazan, Kakade, Singh, Van Soest (2019), "Provably efficient maximum entropy exploration".

The objective is H(d) = -sum_s d(s) log d(s) over states, d(s) = sum_a d(s,a). With `over="pairs"` it is the
entropy over state-action pairs, with which Tarbouriech et al. (2020) compare in their Table 1. On the axis,
entropy is rho = 0 with uniform weights: KL(d || mubar) = log n - H(d), over pairs or over state marginals.
`plan` does not solve it for the marginal of states; over pairs it is plan(mdp, rho=0).

The paper smooths the entropy, H_sigma(d) = -sum d log(d + sigma), so that its gradient
-log(d + sigma) - d/(d + sigma) is finite at states that were never met, and takes Frank-Wolfe steps: for the
gradient at the mixture so far, a planning oracle returns one more policy, which is added to the mixture.

What differs from the paper:

- the visits of one continuing trajectory replace the density oracle; the policies of the mixture are played
  one after the other (see `frank_wolfe_play`), with steps of 3/k instead of a constant share;
- visits are averages, where the paper has discounted ones from a start. `explore(discount=...)` is that case:
  the acting model restarts;
- with a learned model the paper first explores until every pair was visited often enough (its E^3-like
  simulation); here the smoothed estimate is used for planning from the first step. In it a pair that was
  never tried may lead anywhere, so it is tried while there are states that were not met, but nothing is
  proved;
- over states, all actions of a state have the same value unless they lead to other states: some pairs may
  never be visited, and coverage of pairs may stay incomplete. This is a property of the objective.

With a horizon the acting model's states are (step, state).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover import checks
from rhocover.baselines.frank_wolfe_play import FrankWolfePlay, entropy_gradient, oracle_now, shares
from rhocover.checks import FloatArray
from rhocover.errors import unknown_name
from rhocover.exploring.explorers import Block, State

KINDS = ("states", "pairs")


@dataclass(frozen=True)
class MaxEnt(FrankWolfePlay):
    """Maximises the entropy `over` "states" or "pairs"; `sigma` smooths it."""

    over: str = "states"
    sigma: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.over, str) or self.over not in KINDS:
            raise unknown_name("kind `over`", self.over, KINDS, argument="over")
        object.__setattr__(self, "sigma", checks.positive(self.sigma, "sigma"))

    def policy(self, state: State) -> Block:
        """Returns one episode of the policy that is best for the gradient of the entropy."""
        d = shares(state)
        reward = self._gradient(state, d)
        answer = oracle_now(state).respond(reward)
        return self.episode(state, answer, float(reward @ (answer.occupancy - d)))

    def _gradient(self, state: State, d: FloatArray) -> FloatArray:
        """Returns the smoothed entropy's gradient per pair `[n]`."""
        if self.over == "pairs":
            return entropy_gradient(d, self.sigma)
        place = state.problem.mdp.pair_state
        states = np.bincount(place, weights=d).astype(float)
        return entropy_gradient(states, self.sigma)[place]
