"""The gradient of U_rho at the current counts, relative to its average over the visits so far.

The gradient of U_rho at the empirical occupancy d_hat = T/t is g_i = (mu_i/d_hat_i)^rho: a policy that
collects more of it on average improves the coverage. Only its proportions matter, and in this form it cannot
serve as a reward: it grows like t^rho and soon overflows float64. Dividing it by its average over the visits
so far gives

    r_i = g_i / sum_j d_hat_j g_j = p_i/d_hat_i,    p = softmax(rho log mu + (1-rho) log d_hat),

which has mean 1 over the visits so far for all rho, mu and t, and measures the effect of a visit on coverage:

    D_rho((1-e) d_hat + e 1_i) = D_rho(d_hat) - (r_i - 1) e + O(e^2).

The sums run over the pairs visited so far. A weighted pair that was never visited has r = inf, a pair of zero
weight has r = 0.

At rho = 0, where D is KL(d || mubar), the same expansion holds with r_i = 1 + log(mu_i/d_i) minus its mean
over the visits so far (of weighted pairs); values below 0 are set to 0. At rho = inf, r is infinite for the
worst pairs and 0 for all others: the reward then only shows which pairs are the worst.

The sums are updated at each visit, in logs relative to a reference, and recomputed when rounding errors could
have grown beyond 1e-9 of them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.counts import VisitCounter, WeightRow
from rhocover.errors import InvalidArgumentError

ROUNDING = 2.0**-52
TRUSTED = 1e-9  # relative error at which a running sum is recomputed


class RelativeGradient(Protocol):
    """r at the counts of a counter; `visited` is called after each visit was counted."""

    def at(self, pair: int) -> float:
        """Returns r of a pair that was visited before and has positive weight."""
        ...

    def visited(self, pair: int) -> None:
        """Updates the sums after one more visit of `pair`, which has positive weight, was counted."""
        ...


class PowerGradient:
    """r for 0 < rho < inf: t mu_i^rho T_i^-rho / W with W = sum_j mu_j^rho T_j^(1-rho)."""

    def __init__(self, rho: float, counter: VisitCounter, log_mu: list[float]) -> None:
        self._rho, self._counter, self._log_mu = rho, counter, log_mu
        self._top, self._sum, self._error = -math.inf, 0.0, 0.0  # W = sum e^top, its error in units of e^top

    def at(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        log_t, log_T = math.log(self._counter.num_steps), math.log(self._counter.counts[pair])
        exponent = log_t + self._rho * (self._log_mu[pair] - log_T) - self._top - math.log(self._sum)
        return math.exp(min(exponent, 700.0))

    def visited(self, pair: int) -> None:
        """Updates the sum after a visit."""
        count = self._counter.counts[pair]
        new = self._log_term(pair, count) - self._top
        if new > 60:  # e^60 times the reference: next to it the rest is below rounding error
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
        """Recomputes the sum from all counts; the states met last have no weights yet, and no visits."""
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

    def at(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        u = self._log_mu[pair] - math.log(self._counter.counts[pair])
        return max(1 + u - self._sum / self._num, 0.0)

    def visited(self, pair: int) -> None:
        """Updates the sum after a visit."""
        count, log_mu = self._counter.counts[pair], self._log_mu[pair]
        before = (count - 1) * (log_mu - math.log(count - 1)) if count > 1 else 0.0
        self._sum += count * (log_mu - math.log(count)) - before
        self._num += 1


class WorstPairs:
    """r for rho = inf: infinite for the pairs of least T/mu among those visited, 0 for the others."""

    def __init__(self, counter: VisitCounter, log_mu: list[float]) -> None:
        self._counter, self._log_mu = counter, log_mu
        self._heap: list[tuple[float, int]] = []  # counts only grow, so an old entry is never too high

    def at(self, pair: int) -> float:
        """Returns r of a visited, weighted pair."""
        while (now := self._level(self._heap[0][1])) > self._heap[0][0]:
            heapq.heapreplace(self._heap, (now, self._heap[0][1]))
        return math.inf if self._level(pair) <= self._heap[0][0] else 0.0

    def visited(self, pair: int) -> None:
        """Adds a pair to the heap at its first visit."""
        if self._counter.counts[pair] == 1:
            heapq.heappush(self._heap, (self._level(pair), pair))

    def _level(self, pair: int) -> float:
        return math.log(self._counter.counts[pair]) - self._log_mu[pair]


def relative_gradient(rho: float, counter: VisitCounter, log_mu: list[float]) -> RelativeGradient:
    """Returns r for `rho` in [0, inf]; `log_mu` has one entry per pair and may grow with the counter."""
    if rho == 0:
        return LogGradient(counter, log_mu)
    if rho == math.inf:
        return WorstPairs(counter, log_mu)
    return PowerGradient(rho, counter, log_mu)


def read_order(rho: Any) -> float:
    """Returns the order of the objective, in [0, inf]."""
    value = checks.number(rho, "rho")
    if value < 0:
        raise InvalidArgumentError.of("rho", "must be in [0, inf]", f"{value:g}")
    return value


def read_cap(cap: Any) -> float:
    """Returns the relative gradient from which on the reward is 1."""
    value = checks.positive(cap, "cap")
    if value <= 1:
        expected = "must be above 1, the relative gradient of an average visit"
        raise InvalidArgumentError.of("cap", expected, f"{value:g}")
    return value


class VisitReward:
    """Coverage rewards in [-1/(cap-1), 1] at the counts of `counter`; updated with every visit it counts."""

    def __init__(self, rho: Any, weights: WeightRow, cap: Any, counter: VisitCounter) -> None:
        self.rho, self.cap = read_order(rho), read_cap(cap)
        self._counter, self._weights = counter, weights
        self._log_mu: list[float] = []  # per pair, grows with the counter
        self._gradient = relative_gradient(self.rho, counter, self._log_mu)
        counter.listener = self._visited

    def of(self, pair: int | None) -> float:
        """Returns the reward of a visit of `pair` at the counts before it; 0 for None, which is no visit."""
        return 0.0 if pair is None else (min(self._relative(pair), self.cap) - 1) / (self.cap - 1)

    def of_key(self, key: Hashable, action: int = 0) -> float:
        """Returns the reward of a visit of the pair of a key, which need not have been met."""
        return (min(self.relative(key, action), self.cap) - 1) / (self.cap - 1)

    def relative(self, key: Hashable, action: int = 0) -> float:
        """Returns r of the pair of a key, which need not have been met."""
        state = self._counter.number(key)
        if state is None:
            return math.inf if self._weights(key)[action] > 0 else 0.0
        return self._relative(state * self._counter.num_actions + action)

    def weights_of(self, keys: Sequence[Hashable]) -> FloatArray:
        """Returns the weights mu of the pairs of these states, shape `[len(keys), A]`."""
        return np.array([self._weights(key) for key in keys]).reshape(len(keys), self._counter.num_actions)

    def _relative(self, pair: int) -> float:
        """Returns r: 0 for a pair of zero weight, infinite for a weighted pair that was never visited."""
        if self._log_weight(pair) == -math.inf:
            return 0.0
        return self._gradient.at(pair) if self._counter.counts[pair] else math.inf

    def _visited(self, pair: int) -> None:
        if self._log_weight(pair) > -math.inf:
            self._gradient.visited(pair)

    def _log_weight(self, pair: int) -> float:
        A = self._counter.num_actions
        while len(self._log_mu) <= pair:
            row = self._weights(self._counter.keys[len(self._log_mu) // A])
            self._log_mu += [math.log(weight) if weight > 0 else -math.inf for weight in row.tolist()]
        return self._log_mu[pair]
