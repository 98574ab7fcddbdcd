"""FW-MODEST: visit pairs so that the estimated model has the smallest L1 error.

Tarbouriech, Shekhar, Pirotta, Ghavamzadeh, Lazaric (2020), "Active model estimation in Markov decision
processes".

After n steps the error (1/n_pairs) sum_i ||P_hat_i - P_i||_1 is about sqrt(2/(pi n)) times the mean of
V_i/sqrt(d_i), V(s,a) = sum_s' sqrt(P(1-P)). The method takes Frank-Wolfe steps on

    L(d) = sum_i V_i d_i^(-1/2),      gradient -V_i d_i^(-3/2)/2,

over occupancies with a floor, in episodes of growing length. On the axis that is rho = 3/2 with
mu = V^(2/3): the visits converge to plan(mdp, 3/2, weights.model_error(mdp), eta=eta).

In each episode V is its empirical estimate plus a bonus of order sqrt(1/N); a linear program over D_eta
minimises the linearised L at the visits so far, and its policy is played for tau_1 k^2 steps.

What differs from the paper:

- plans use the smoothed estimate of the model, not the most favourable one of a confidence set;
- the bonus is `rules.bonus` with level `delta`, one for all of V; the paper sums one for each next state,
  with constants for a union bound. Its loss has a further term of order 1/N for each pair; a bonus of
  order sqrt(1/N) on V is a term of order 1/N in V/sqrt(N), so it is included here once, not twice;
- `eta=None` is a tenth of the largest floor that the model allows, 2 eta = t*/10, recomputed for each
  estimate. The paper leaves eta to the user. An `eta` that an estimate does not allow is lowered for it;
- `estimate_noise=False` reads V from the model if it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rhocover.baselines.frank_wolfe_play import CoveragePlay
from rhocover.learning.rules import ErrorRule


@dataclass(frozen=True)
class FWModest(CoveragePlay):
    """Minimises the L1 error of the model over D_eta; `delta` is the level of V's bonus."""

    rho: ClassVar[float] = 1.5
    rule: ClassVar[type] = ErrorRule
