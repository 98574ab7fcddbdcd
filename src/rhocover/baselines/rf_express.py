"""RF-Express: reward-free exploration whose bonus falls as 1/n.

Ménard, Domingues, Jonsson, Kaufmann, Leurent, Valko 2021, "Fast active learning for pure exploration in
reinforcement learning". The policy is greedy for

    W_h(s,a) = min(H, 15 H^2 beta(n)/n + (1 + 1/H) sum_s' P_hat(s' | s,a) max_b W_{h+1}(s',b)),
    beta(n)  = log(3SAH/delta) + S log(8e(n + 1)),

and the paper stops once 3e sqrt(W_0) + W_0 <= epsilon/2 in the start: with probability 1 - delta no policy's
value is then off by more than epsilon/2, for any reward in [0, 1]. `error_bound(state)` is the left side.

On the rho axis: outside the family, as RF-UCRL is. Without the cap each episode maximises sum d (1 + 1/H)^h/n
but for the logarithm in beta: Frank-Wolfe steps towards rho = 1 with uniform mu, on the occupancy averaged
over the steps but the last, later steps counting up to e times as much.

What differs from the paper:

- transitions are pooled over the steps (see `episodic`); at the last step n counts all visits;
- a start distribution is judged by its worst state;
- `truncate=False`, the default, acts on W without its cap; `scale` then changes nothing. With the cap and
  the paper's constants W is H everywhere until each pair has some 15 H beta visits, and ties decide.
  `truncate=True, scale=1` is the paper's rule. The certificate always has the cap and scale 1;
- with a known model there is no error; W is then what it would be, had the transitions been estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rhocover import checks
from rhocover.baselines.episodic import Seen, check_scale, episodic_world, look
from rhocover.checks import FloatArray, IntArray
from rhocover.exploring.beliefs import Belief
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.simulator import Visits


@dataclass(frozen=True)
class RFExpress:
    """Greedy on W; `scale` multiplies its bonus, `truncate` caps it at H."""

    self_reliant: ClassVar[bool] = True
    keep_memory: ClassVar[bool] = True

    scale: float = 1.0
    truncate: bool = False
    delta: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_scale(self.scale, "scale"))
        object.__setattr__(self, "truncate", bool(self.truncate))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; refuses a run without episodes."""
        episodic_world(belief, "RF-Express")
        return initial_state(belief)

    def policy(self, state: State) -> Block:
        """Returns one episode that is greedy on W."""
        seen = look(state, "RF-Express")
        cap = seen.world.horizon if self.truncate else np.inf
        return seen.world.block(uncertainty(seen, self.scale, cap, self.delta)[1])

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)

    def error_bound(self, state: State) -> float:
        """Returns 3e sqrt(W_0) + W_0 of the worst start: no policy's value is off by more.

        For any reward in [0, 1], at all times at once, with probability 1 - delta. At most H, which no
        error exceeds. The paper stops where it is epsilon/2.
        """
        seen = look(state, "RF-Express")
        horizon = seen.world.horizon
        W = seen.worst_start(uncertainty(seen, 1.0, horizon, self.delta)[0])
        return float(min(horizon, 3 * np.e * np.sqrt(W) + W))


def uncertainty(seen: Seen, scale: float, cap: float, delta: float) -> tuple[FloatArray, IntArray]:
    """Returns (W `[H, pairs]`, the greedy choices `[H, S]`)."""
    world, n = seen.world, seen.evidence
    union = np.log(3 * world.num_pairs * world.horizon / delta)
    beta = union + world.num_states * np.log(8 * np.e * (n + 1))
    bonus = scale * 15 * world.horizon**2 * beta / n
    return seen.induct(bonus, np.full(world.horizon, float(cap)), 1 + 1 / world.horizon)
