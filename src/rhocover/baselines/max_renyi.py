"""MaxRenyi: maximises the Rényi entropy of state-action visits.

Zhang, Cai, Huang and Li 2021, "Exploration by maximizing Rényi entropy for reward-free RL framework". The
method maximises the Rényi entropy of order alpha in (0, 1) of the state-action distribution,

    H_alpha(d) = log( sum_i d_i^alpha ) / (1 - alpha),

because a policy that is best for it makes any reward easy to learn afterwards: the smaller alpha, the
more the pairs that are hard to reach count.

On the axis: rho = 1 - alpha with uniform weights, exactly. With n pairs

    D_{1-alpha}(uniform || d) = (1 - alpha)/alpha (log n - H_alpha(d)),

so the two have the same optimum; alpha -> 1 is Shannon's entropy (rho = 0), alpha -> 0 is rho = 1. With a
horizon, a pair at different steps counts as different pairs: the paper's analysis of episodes also treats the
distribution of each step separately, with one policy for each; here one policy serves all steps.

What differs from the paper:

- The paper ascends the gradient of H_alpha over policies (its reward is d^(alpha-1), the distribution
  from a fitted density, the policy from PPO). In a tabular model one can plan, so here a planner finds the
  best response to the same reward, which is played for one episode: Frank-Wolfe steps of size tau/t taken in
  the environment, whose visits themselves converge to the optimal distribution. Over occupancies the power
  sum of H_alpha is concave, so there are no local optima, which a gradient over policies cannot guarantee.
- d is (visits + prior)/total, tabular, of the whole run; in the paper it is that of the current policy.
- Long-run visits replace discounted ones; `explore(discount=...)` is the paper's criterion.
- With a learned model the plan is made on the run's estimate. There is no bonus: the reward of a pair that is
  not visited grows as t^(1-alpha), so every reachable pair is visited eventually.
- The planning phase after the reward is known is not part of exploring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rhocover import checks
from rhocover.baselines.state_marginal_matching import best_policy
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.explorers import Block, CountsOnly, State
from rhocover.exploring.worlds import SamplePolicy


@dataclass(frozen=True)
class MaxRenyi(CountsOnly):
    """Frank-Wolfe steps for H_alpha(d), taken by acting; `prior` is added to the visits of each pair."""

    alpha: float = 0.5
    episode_length: int = 100
    prior: float = 1.0

    self_reliant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checked_order(self.alpha))
        length = checks.integer(self.episode_length, "episode_length", least=1)
        object.__setattr__(self, "episode_length", length)
        object.__setattr__(self, "prior", checks.positive(self.prior, "prior"))

    @property
    def rho(self) -> float:
        """The order of the coverage objective with the same optimum, at uniform weights."""
        return 1 - self.alpha

    def policy(self, state: State) -> Block:
        """Returns the best response to d^(alpha-1), for one episode."""
        return Block(SamplePolicy(best_policy(state.problem, self._reward(state))), self.episode_length)

    def _reward(self, state: State) -> FloatArray:
        """Returns d^(alpha-1) up to a factor, the largest entry 1, `[n]`."""
        visits = state.counts + self.prior
        return (visits / visits.min()) ** (self.alpha - 1)


def renyi_entropy(d: Any, alpha: float) -> float:
    """Returns H_alpha(d) in nats of a distribution of any shape, for alpha in (0, 1)."""
    d, alpha = checks.float_array(d, "d"), _checked_order(alpha)
    checks.check_nonnegative(d, "d")
    return float(np.log(np.sum(d**alpha)) / (1 - alpha))


def _checked_order(alpha: Any) -> float:
    alpha = checks.number(alpha, "alpha")
    if not 0 < alpha < 1:
        raise InvalidArgumentError.of(
            "alpha",
            "must be in (0, 1)",
            f"{alpha:g}",
            remedy="For Shannon's entropy, alpha = 1, use the explorer 'maxent'; for coverage with rho of 1 "
            "or more use 'feedback'.",
        )
    return alpha
