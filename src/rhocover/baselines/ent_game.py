"""EntGame: maximum visitation entropy as a game between a forecaster and an optimistic sampler.

Tiapkin, Belomestny, Calandriello, Moulines, Munos, Naumov, Perrault, Tang, Valko, Ménard 2023, "Fast rates
for maximum entropy exploration". The objective is the sum over steps of the entropies of the occupancies,

    max over policies of sum_h H(d_h),      H(d) = sum_i d_i log(1/d_i).

The forecaster predicts the next visits by those so far, with one more visit added to each pair,
dbar_h(i) = (N_h(i) + 1)/(t + SA); the sampler is rewarded for visits that this makes unlikely,

    r_h(i) = log(t + SA) - log(N_h(i) + 1),

and plays one episode that is optimal for r in an optimistic model.

On the rho axis: the occupancy of (step, state, action) is d_h/H, so the objective is rho -> 0 with uniform mu
over the pairs of the acting model, divided by H and up to a constant. `scope="pair"` counts visits of a pair
at any step: then it is the entropy of the average over the steps, rho -> 0 on the caller's own pairs.

What differs from the paper:

- transitions are pooled over the steps (see `episodic`);
- the bonus is the Hoeffding bonus of `episodic` times `bonus` instead of that of the paper, which depends on
  the variance of the next value. A value of 1 guarantees optimism with probability 1 - `delta`, but at
  practical t it is so large that all values are capped and ties decide. 0 plays the game on the estimate
  itself; the default lies between;
- the paper returns the mixture of the policies played; here the visits are the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover.baselines.episodic import look, value_caps
from rhocover.baselines.episodic_play import GamePlay
from rhocover.exploring.explorers import Block, State


@dataclass(frozen=True)
class EntGame(GamePlay):
    """Rewards surprise, log(1/dbar); `bonus` scales the optimism, `scope` is what visits are counted for."""

    who: ClassVar[str] = "EntGame"

    def policy(self, state: State) -> Block:
        """Returns one episode that is optimal for the surprise."""
        seen = look(state, self.who)
        visits = seen.by_step if self.scope == "step" else np.tile(seen.visits, (seen.world.horizon, 1))
        largest = np.log(visits.sum(axis=1) + seen.world.num_pairs)
        reward = largest[:, None] - np.log(visits + 1.0)
        return seen.world.block(seen.optimistic(reward, value_caps(largest), self.bonus, self.delta))
