"""What a visit is worth: the gradient of U_rho at the current counts, relative to the average visit.

The gradient of U_rho at the empirical occupancy d_hat = T/t is g_i = (mu_i/d_hat_i)^rho: a policy that
earns more of it on average improves the coverage. Only its proportions matter, and as it stands it is no
reward for a learner: it grows like t^rho, and leaves float64 early. Divided by what the visits so far were
worth on average it is

    r_i = g_i / sum_j d_hat_j g_j = p_i/d_hat_i,    p = softmax(rho log mu + (1-rho) log d_hat),

which has mean 1 over the visits so far, whatever rho, mu and t, and says what a visit does for coverage:

    D_rho((1-e) d_hat + e 1_i) = D_rho(d_hat) - (r_i - 1) e + O(e^2).

The sums run over the pairs visited so far. A weighted pair that was never visited has an infinite gradient,
a pair of zero weight none (r = 0).

At rho = 0, where D is KL(d || mubar), the same expansion holds with r_i = 1 + log(mu_i/d_i) minus its mean
over the visits so far (of weighted pairs); it is cut off at 0. At rho = inf the worst pairs have an infinite
worth here and all others none: the reward then only says which pairs are the worst.

Sums are kept up to date from visit to visit, in logs relative to a reference, and computed anew when
rounding errors could have grown beyond 1e-9 of them.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.counts import VisitCounter, WeightRow
from rhocover.errors import InvalidArgumentError

ROUNDING = 2.0**-52
TRUSTED = 1e-9  # relative error at which a running sum is computed anew


class GradientRule(Protocol):
    """Worth of visits at the counts of a counter; it is told of each visit after it was counted."""

    def worth(self, pair: int) -> float:
        """Returns r of a pair that was visited before and has positive weight."""
        ...

    def visited(self, pair: int) -> None:
        """Takes note that `pair`, of positive weight, was just counted once more."""
        ...


class PowerGradient:
    """r for 0 < rho < inf: t mu_i^rho T_i^-rho / W with W = sum_j mu_j^rho T_j^(1-rho)."""

    def __init__(self, rho: float, counter: VisitCounter, log_mu: list[float]) -> None:
        self._rho, self._counter, self._log_mu = rho, counter, log_mu
        self._top, self._sum, self._error = -math.inf, 0.0, 0.0  # W = sum e^top, its error in units of e^top

    def worth(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        log_t, log_T = math.log(self._counter.num_steps), math.log(self._counter.counts[pair])
        exponent = log_t + self._rho * (self._log_mu[pair] - log_T) - self._top - math.log(self._sum)
        return math.exp(min(exponent, 700.0))

    def visited(self, pair: int) -> None:
        """Takes note of a count."""
        count = self._counter.counts[pair]
        new = self._log_term(pair, count) - self._top
        if new > 60:  # far above the reference: beside it the rest is rounding error
            self._renew()
            return
        old = math.exp(self._log_term(pair, count - 1) - self._top) if count > 1 else 0.0
        self._error += 3 * ROUNDING * (self._sum + old)
        self._sum += math.exp(new) - old
        if self._error > TRUSTED * self._sum:
            self._renew()

    def _log_term(self, pair: int, count: int) -> float:
        return self._rho * self._log_mu[pair] + (1 - self._rho) * math.log(count)

    def _renew(self) -> None:
        """Computes the sum anew from all counts; the states met last have no weights yet, and no visits."""
        log_mu: FloatArray = np.array(self._log_mu)
        counts = np.array(self._counter.counts[: len(log_mu)], float)
        seen = (counts > 0) & (log_mu > -np.inf)
        terms = self._rho * log_mu[seen] + (1 - self._rho) * np.log(counts[seen])
        self._top = float(terms.max())
        self._sum = float(np.exp(terms - self._top).sum())
        self._error = ROUNDING * len(terms)


class LogGradient:
    """r for rho = 0: 1 + u_i - sum_j d_j u_j, u = log(mu/T), the mean taken over weighted pairs."""

    def __init__(self, counter: VisitCounter, log_mu: list[float]) -> None:
        self._counter, self._log_mu = counter, log_mu
        self._num, self._sum = 0, 0.0

    def worth(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        u = self._log_mu[pair] - math.log(self._counter.counts[pair])
        return max(1 + u - self._sum / self._num, 0.0)

    def visited(self, pair: int) -> None:
        """Takes note of a count."""
        count, log_mu = self._counter.counts[pair], self._log_mu[pair]
        before = (count - 1) * (log_mu - math.log(count - 1)) if count > 1 else 0.0
        self._sum += count * (log_mu - math.log(count)) - before
        self._num += 1


class WorstPairs:
    """r for rho = inf: infinite for the pairs of least T/mu among those visited, 0 for the others."""

    def __init__(self, counter: VisitCounter, log_mu: list[float]) -> None:
        self._counter, self._log_mu = counter, log_mu
        self._heap: list[tuple[float, int]] = []  # counts only grow, so an old entry is never too high

    def worth(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        while (now := self._level(self._heap[0][1])) > self._heap[0][0]:
            heapq.heapreplace(self._heap, (now, self._heap[0][1]))
        return math.inf if self._level(pair) <= self._heap[0][0] else 0.0

    def visited(self, pair: int) -> None:
        """Takes note of a count."""
        if self._counter.counts[pair] == 1:
            heapq.heappush(self._heap, (self._level(pair), pair))

    def _level(self, pair: int) -> float:
        return math.log(self._counter.counts[pair]) - self._log_mu[pair]


def gradient_rule(rho: float, counter: VisitCounter, log_mu: list[float]) -> GradientRule:
    """Returns the rule for `rho` in [0, inf]; `log_mu` is per pair and may grow with the counter."""
    if rho == 0:
        return LogGradient(counter, log_mu)
    if rho == math.inf:
        return WorstPairs(counter, log_mu)
    return PowerGradient(rho, counter, log_mu)


# The coverage reward of a visit, for counts that grow.
#
# With r the worth of a visit at the counts before it (`gradients`) the reward is
#
#     (min(r, cap) - 1) / (cap - 1),    between -1/(cap - 1) and 1.
#
# - 0 is "as useful as what you did so far": up to the cap the rewards of a behaviour that goes on as before
#     have mean 0, so an episode's end is neither sought nor shunned, and a value function starts where it
#   should.
# - It is linear in the gradient up to `cap` times the average. Above, where a handful of visits decide and
#   one
#     reward would drown thousands, all are paid 1; so is a weighted pair that was never visited.
# - Its range does not depend on rho, mu, or how long the counts have been running.
#
# A step that is no visit is paid 0.


class VisitWorth:
    """Rewards in [-1/(cap-1), 1] at the counts of `counter`, to which it listens."""

    def __init__(self, rho: Any, weights: WeightRow, cap: Any, counter: VisitCounter) -> None:
        self.rho = checks.number(rho, "rho")
        if self.rho < 0:
            raise InvalidArgumentError.of("rho", "must be in [0, inf]", f"{self.rho:g}")
        self.cap = checks.positive(cap, "cap")
        if self.cap <= 1:
            raise InvalidArgumentError.of(
                "cap", "must be above 1, the worth of an average visit", f"{self.cap:g}"
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
