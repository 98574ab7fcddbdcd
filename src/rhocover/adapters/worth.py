"""The coverage reward of a visit, for counts that grow.

With r the worth of a visit at the counts before it (`gradients`) the reward is

    (min(r, cap) - 1) / (cap - 1),    between -1/(cap - 1) and 1.

- 0 is "as useful as what you did so far": up to the cap the rewards of a behaviour that goes on as before
  have mean 0, so an episode's end is neither sought nor shunned, and a value function starts where it should.
- It is linear in the gradient up to `cap` times the average. Above, where a handful of visits decide and one
  reward would drown thousands, all are paid 1; so is a weighted pair that was never visited.
- Its range does not depend on rho, mu, or how long the counts have been running.

A step that is no visit is paid 0.
"""

from __future__ import annotations

import math
from typing import Any

from rhocover import checks
from rhocover.adapters.counter import VisitCounter
from rhocover.adapters.gradients import gradient_rule
from rhocover.adapters.pair_weights import WeightRow
from rhocover.errors import InvalidArgumentError


class VisitWorth:
    """Rewards in [-1/(cap-1), 1] at the counts of `counter`, to which it listens."""

    def __init__(self, rho: Any, weights: WeightRow, cap: Any, counter: VisitCounter) -> None:
        self.rho = checks.number(rho, "rho")
        if self.rho < 0:
            raise InvalidArgumentError(f"`rho` must be in [0, inf], got {self.rho:g}.")
        self.cap = checks.positive(cap, "cap")
        if self.cap <= 1:
            raise InvalidArgumentError(
                f"`cap` must be above 1, the worth of an average visit, got {self.cap:g}."
            )
        self._counter, self._weights = counter, weights
        self._log_mu: list[float] = []  # per pair, grows with the counter
        self._rule = gradient_rule(self.rho, counter, self._log_mu)
        counter.listener = self._visited

    def reward(self, pair: int | None) -> float:
        """Returns what a visit of `pair` is worth at the counts before it; 0 for None, no visit."""
        if pair is None:
            return 0.0
        return (min(self._worth(pair), self.cap) - 1) / (self.cap - 1)

    def _worth(self, pair: int) -> float:
        """Returns r: 0 for zero weight, infinite where a weighted pair was never visited."""
        if self._log_weight(pair) == -math.inf:
            return 0.0
        return self._rule.worth(pair) if self._counter.counts[pair] else math.inf

    def _visited(self, pair: int) -> None:
        if self._log_weight(pair) > -math.inf:
            self._rule.visited(pair)

    def _log_weight(self, pair: int) -> float:
        A = self._counter.num_actions
        while len(self._log_mu) <= pair:
            row = self._weights(self._counter.keys[len(self._log_mu) // A])
            self._log_mu += [math.log(weight) if weight > 0 else -math.inf for weight in row.tolist()]
        return self._log_mu[pair]
