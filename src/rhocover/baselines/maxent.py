"""MaxEnt: the largest entropy of the visits.

Hazan, Kakade, Singh, Van Soest (2019), "Provably efficient maximum entropy exploration".

Objective: H(d) = -sum_s d(s) log d(s) over states, d(s) = sum_a d(s,a). With `over="pairs"` it is the entropy
over state-action pairs, which is what Tarbouriech et al. (2020) compare with in their Table 1. On the
axis, entropy is rho = 0 with uniform weights: KL(d || mubar) = log n - H(d), over pairs or over state
marginals. The marginal of states is outside what `plan` solves; the one over pairs is plan(mdp, rho=0).

The paper smooths the entropy, H_sigma(d) = -sum d log(d + sigma), so that its gradient
-log(d + sigma) - d/(d + sigma) is finite at states never met, and takes Frank-Wolfe steps: a planning
oracle answers the gradient at the mixture so far with one more policy, which joins the mixture.

What is different here:
- one continuing trajectory and its own visits take the place of the density oracle; the mixture is played
  in turn (see `frank_wolfe_play`), steps of 3/k instead of a constant share;
- average visits, where the paper has discounted ones from a start. `explore(discount=...)` is that case:
  the acting model restarts;
- with a learned model the paper first explores until every pair was seen often enough (its E^3-like
  simulation); here the smoothed estimate is planned on from the first step. A pair never tried may lead
  anywhere in it, so it is tried while there are states unmet, but nothing is proved;
- over states all actions of a state are worth the same unless they lead elsewhere: pairs may stay
  unvisited for ever, and coverage of pairs incomplete. That is the objective's doing.

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
        """Returns one episode of the policy that the entropy's gradient asks for."""
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
