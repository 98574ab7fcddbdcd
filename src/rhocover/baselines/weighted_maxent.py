"""Weighted-MaxEnt: maximises the entropy of the visits, weighted by the noise of the pairs.

The heuristic of Tarbouriech, Shekhar, Pirotta, Ghavamzadeh, Lazaric (2020), "Active model estimation in
Markov decision processes".

The objective is -sum_i w_i d_i log d_i over pairs, w = V, V(s,a) = sum_s' sqrt(P(1-P)), for estimating the
model: a pair whose next state is certain needs no second visit. It is outside the axis of rho, because the
weight multiplies d log(1/d) and not the ratio mu/d; with equal weights it is MaxEnt over pairs, rho = 0. Its
gradient is w (-log d - 1): a large w pulls d towards 1/e whatever the other pairs get, and they get far less
than is best for the model error. `power` uses w = V^power instead of V. On NoisyRiverSwim(12) the error
(1/n_pairs) sum ||P_hat - P||_1 of 2e6 steps at its optimum is 0.416e-2 with V, 0.303e-2 with V^(1/2) and
0.2965e-2 with V^(1/3), where the least possible is 0.2963e-2. The paper reports 0.286e-2, near its own
0.285e-2 for FW-MODEST, so it may use other weights than V.

V is estimated from the observed transitions, with a bonus that falls as visits grow (`rules.bonus`);
`estimate_noise=False` reads it from the model if it is known, and pairs without noise are then never a
target. What differs from the paper: the constants of the bonus; the entropy is smoothed by `sigma` as in
MaxEnt; Frank-Wolfe is played in one trajectory (see `frank_wolfe_play`) on the estimated model, without
optimism.
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
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State
from rhocover.learning.rules import ErrorRule

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
        """Returns the state before the first step; raises if the noise is to be read from a model without."""
        state = super().init(belief)
        check_noise(state, ErrorRule(), self.estimate_noise)
        return state

    def policy(self, state: State) -> Block:
        """Returns one episode of the policy that is best for the gradient of the weighted entropy."""
        d = shares(state)
        reward = self._weights(state) * entropy_gradient(d, self.sigma)
        answer = oracle_now(state).respond(reward)
        return self.episode(state, answer, float(reward @ (answer.occupancy - d)))

    def _weights(self, state: State) -> FloatArray:
        """Returns V^power with V's bonus, `[n]`."""
        rule = ErrorRule(delta=self.delta)
        return rule(noise_estimate(state, self.estimate_noise)) ** (V_POWER * self.power)
