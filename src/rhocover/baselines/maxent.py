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
from rhocover.baselines.frank_wolfe_play import (
    FrankWolfePlay,
    check_noise,
    check_noise_settings,
    entropy_gradient,
    noise_estimate,
    oracle_now,
    shares,
)
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State
from rhocover.learning.rules import ErrorRule

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


# Weighted-MaxEnt: the largest entropy of the visits, noisy pairs first.
#
# The heuristic of Tarbouriech, Shekhar, Pirotta, Ghavamzadeh, Lazaric (2020), "Active model estimation in
# Markov decision processes".
#
# Objective: -sum_i w_i d_i log d_i over pairs, w = V, V(s,a) = sum_s' sqrt(P(1-P)), for the estimation of
# the model: a pair whose next state is certain is worth no second visit. It is outside the axis of rho,
# because the weight multiplies d log(1/d) and not the ratio mu/d; with equal weights it is MaxEnt over
# pairs, rho = 0. Its gradient w (-log d - 1) says what that means: a large w pulls d towards 1/e whatever
# the others get, and they get far less than the model error would want. `power` takes w = V^power in the
# place of V. On NoisyRiverSwim(12) the error (1/n_pairs) sum ||P_hat - P||_1 of 2e6 steps at its optimum is
# 0.416e-2 with V, 0.303e-2 with V^(1/2) and 0.2965e-2 with V^(1/3), where the least possible is 0.2963e-2.
# The paper reports 0.286e-2, near its own 0.285e-2 for FW-MODEST; so it may use other weights than V.
#
# V is estimated from the transitions seen, with a bonus that falls as visits grow (`rules.bonus`);
# `estimate_noise=False` reads it from the model where that is known, and pairs without noise are then never
# aimed at. Different from the paper: constants of the bonus; the entropy is smoothed by `sigma` as in
# MaxEnt; Frank-Wolfe is played in one trajectory (see `frank_wolfe_play`) on the estimated model, without
# optimism.

V_POWER = 3 / 2  # the rule's weights are V^(2/3)


@dataclass(frozen=True)
class WeightedMaxEnt(FrankWolfePlay):
    """Maximises the entropy with weights V^power; `delta` is the level of V's bonus."""

    power: float = 1.0
    sigma: float = 1e-4
    estimate_noise: bool = True
    delta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        power = checks.number(self.power, "power")
        if not 0 <= power < np.inf:
            raise InvalidArgumentError.of("power", "must be in [0, inf)", f"{power:g}")
        object.__setattr__(self, "power", power)
        object.__setattr__(self, "sigma", checks.positive(self.sigma, "sigma"))
        check_noise_settings(self.estimate_noise, self.delta)

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; refuses a known model without noise to read."""
        state = super().init(belief)
        check_noise(state, ErrorRule(), self.estimate_noise)
        return state

    def policy(self, state: State) -> Block:
        """Returns one episode of the policy that the weighted entropy's gradient asks for."""
        d = shares(state)
        reward = self._weights(state) * entropy_gradient(d, self.sigma)
        answer = oracle_now(state).respond(reward)
        return self.episode(state, answer, float(reward @ (answer.occupancy - d)))

    def _weights(self, state: State) -> FloatArray:
        """Returns V^power with V's bonus, `[n]`."""
        rule = ErrorRule(delta=self.delta)
        return rule(noise_estimate(state, self.estimate_noise)) ** (V_POWER * self.power)
