"""RF-UCRL: reward-free exploration by acting greedily on an upper bound of the estimation error.

Kaufmann, Ménard, Domingues, Jonsson, Leurent, Valko 2021, "Adaptive reward-free exploration". For any reward
in [0, 1] that is chosen afterwards, the value of any policy in the estimated model is off by at most

    E_h(s,a) = min(H - h, H sqrt(2 beta(n)/n) + sum_s' P_hat(s' | s,a) max_b E_{h+1}(s',b))

(steps counted from 0), with beta as in `episodic`. The policy is greedy for E; the paper stops once E_0
<= epsilon/2 in the start, and then planning on the estimate loses at most epsilon, for every reward.
`error_bound(state)` is E_0: a certificate with probability 1 - delta, whatever was played.

On the rho axis: outside the family. Its objective is the worst error over rewards, not the distance of
occupancies from a target. Without the cap, and up to the logarithm in beta, each episode maximises
sum d/sqrt(n): Frank-Wolfe steps towards rho = 1/2 with uniform mu, on the occupancy averaged over all steps
but the last.

What differs from the paper:

- transitions are pooled over the steps (see `episodic`). At the last step the next state does not matter and
  is not observed; n counts all visits there, so that the bound falls with them as in the paper. It remains a
  bound;
- for a start distribution the bound is that of its worst state;
- `truncate`, `scale` and a known model are as in `episodic_play`; the cap is active for thousands of visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover.baselines.episodic import Seen, kl_threshold
from rhocover.baselines.episodic_play import ErrorBoundPlay
from rhocover.checks import FloatArray
from rhocover.exploring.explorers import State


@dataclass(frozen=True)
class RFUCRL(ErrorBoundPlay):
    """Greedy on the error bound; `scale` multiplies its bonus, `truncate` caps it at the largest error."""

    who: ClassVar[str] = "RF-UCRL"

    def bonus(self, seen: Seen, scale: float) -> FloatArray:
        """Returns scale H sqrt(2 beta/n), `[H, pairs]`."""
        n = seen.evidence
        beta = kl_threshold(n, seen.world, self.delta)
        return scale * (seen.world.horizon * np.sqrt(2 * beta / n))

    def cap(self, horizon: int) -> FloatArray:
        """Returns H - h, step by step."""
        return np.arange(horizon, 0, -1.0)

    def error_bound(self, state: State) -> float:
        """Returns E_0 of the worst start: the value of no policy is off by more, for any reward in [0, 1].

        This holds at all times at once with probability 1 - delta. The paper stops once it is epsilon/2.
        """
        return self.worst_start(state)
