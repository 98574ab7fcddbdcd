"""RF-Express: reward-free exploration with a bonus that falls as 1/n.

Ménard, Domingues, Jonsson, Kaufmann, Leurent, Valko 2021, "Fast active learning for pure exploration in
reinforcement learning". The policy is greedy for

    W_h(s,a) = min(H, 15 H^2 beta(n)/n + (1 + 1/H) sum_s' P_hat(s' | s,a) max_b W_{h+1}(s',b)),
    beta(n)  = log(3SAH/delta) + S log(8e(n + 1)),

and the paper stops once 3e sqrt(W_0) + W_0 <= epsilon/2 in the start: with probability 1 - delta no
policy's value is then off by more than epsilon/2, for any reward in [0, 1]. `error_bound(state)` is the
left side.

On the rho axis: outside the family, like RF-UCRL. Without the cap, and up to the logarithm in beta, each
episode maximises sum d (1 + 1/H)^h/n: Frank-Wolfe steps towards rho = 1 with uniform mu, on the occupancy
averaged over all steps but the last, where later steps count up to e times as much.

What differs from the paper:

- transitions are pooled over the steps (see `episodic`); at the last step n counts all visits;
- for a start distribution the bound is that of its worst state;
- `truncate`, `scale` and a known model are as in `episodic_play`; the cap is active for about 15 H beta
  visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover.baselines.episodic import Seen, episodic_world
from rhocover.baselines.episodic_play import ErrorBoundPlay
from rhocover.checks import FloatArray
from rhocover.exploring.explorers import State


@dataclass(frozen=True)
class RFExpress(ErrorBoundPlay):
    """Greedy on W; `scale` multiplies its bonus, `truncate` caps it at H."""

    who: ClassVar[str] = "RF-Express"

    def bonus(self, seen: Seen, scale: float) -> FloatArray:
        """Returns scale 15 H^2 beta/n, `[H, pairs]`."""
        world, n = seen.world, seen.evidence
        union = np.log(3 * world.num_pairs * world.horizon / self.delta)
        beta = union + world.num_states * np.log(8 * np.e * (n + 1))
        return scale * 15 * world.horizon**2 * beta / n

    def cap(self, horizon: int) -> FloatArray:
        """Returns H at every step."""
        return np.full(horizon, float(horizon))

    def growth(self, horizon: int) -> float:
        """Returns 1 + 1/H."""
        return 1 + 1 / horizon

    def error_bound(self, state: State) -> float:
        """Returns 3e sqrt(W_0) + W_0 of the worst start: the value of no policy is off by more.

        This holds for any reward in [0, 1], at all times at once, with probability 1 - delta. It is at most
        H, which no error exceeds. The paper stops once it is epsilon/2.
        """
        W = self.worst_start(state)
        return float(min(episodic_world(state.belief, self.who).horizon, 3 * np.e * np.sqrt(W) + W))
