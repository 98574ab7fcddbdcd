"""FW-AME: visit noisier pairs more often.

Tarbouriech, Lazaric (2019), "Active exploration in Markov decision processes".

In the paper each state emits noisy observations of unknown variance sigma^2(s), the dynamics are known, and
the mean squared error of the estimated means, sum_s sigma^2(s)/(n d(s)), is minimised: by Frank-Wolfe steps
over occupancies with a floor, with variances at their upper confidence bound, in episodes of tau_1 k^2 steps.

On the axis the objective sum sigma^2/d is rho = 2 with mu = sigma. Here a visit reveals the next state, so
the noise is that of pairs: sigma^2(s,a) = c(s,a) = sum_s' P(1-P), the expected squared error of one draw of
the row, and the objective is sum_i c_i/d_i, n times the expected squared error of the estimated model. The
visits converge to plan(mdp, 2, weights.transition_std(mdp), eta=eta).

What differs from the paper: pairs instead of states; the bound is sqrt(c_hat) + `rules.bonus` of level
`delta`, without the constants of the union bound; `eta=None` is a tenth of the largest floor, 2 eta = t*/10;
with a learned model the dynamics are estimated, too, which the paper does not treat. `estimate_noise=False`
takes the variances from a known model; by default they are estimated, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rhocover.baselines.frank_wolfe_play import CoveragePlay
from rhocover.learning.rules import StdRule


@dataclass(frozen=True)
class ActiveExploration(CoveragePlay):
    """Minimises the squared error of the model over D_eta; `delta` is the level of the variance bounds."""

    rho: ClassVar[float] = 2.0
    rule: ClassVar[type] = StdRule
