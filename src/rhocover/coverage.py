"""The objective family U_rho and its scale-free form, the Rényi divergence D_rho.

For weights mu >= 0 (M = sum mu, mubar = mu/M) and an occupancy d that sums to 1 the paper's eq. (1) is

    U_rho(d) = sum_i mu_i^rho d_i^(1-rho) / (1-rho),   rho != 1,      U_1(d) = sum_i mu_i log d_i,

with gradient (mu/d)^rho. Maximising U_rho is minimising

    D_rho(mubar || d) = log( sum_i mubar_i^rho d_i^(1-rho) ) / (rho - 1),

because (1-rho) U_rho = M^rho exp((rho-1) D_rho). D_rho does not depend on the scale of mu, is >= 0,
and grows with rho: D_1 = KL(mubar || d), D_inf = log max mubar/d. It is what the library reports,
compares and uses to stop; U_rho is there because the paper uses it.

At rho = 0 the formula is constant and is replaced by its first-order term: D_rho/rho -> KL(d || mubar), so
`divergence` at rho = 0 is KL(d || mubar) and `value` its negative. At rho = inf `value` is minus the
worst ratio mu/d. A pair of zero weight is not in the objective (it stays in the dynamics).

Everything is computed from logarithms: rho = 10,000 or weights spread over 1e±100 do not overflow.
Markov decision processes are not used in this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, frozen
from rhocover.errors import InvalidArgumentError

DIGITS = 6  # of a logarithm: pairs that differ only by rounding keep their order
LARGEST_RHO = 1e100  # beyond it rho log(mu/d) may overflow, and the result is that of inf


@dataclass(frozen=True, eq=False, init=False)
class Coverage:
    """U_rho, D_rho and their derivatives for one `rho` in [0, inf] and weights `mu` of any shape.

    Arguments called `d` have the shape of `mu`, are non-negative, and should sum to 1.

    >>> import numpy as np
    >>> coverage = Coverage(rho=2, mu=[1.0, 1.0])
    >>> coverage.divergence([0.5, 0.5]), coverage.value([0.5, 0.5])
    (0.0, -4.0)
    """

    rho: float
    mu: FloatArray
    log_mu: FloatArray
    log_mu_bar: FloatArray
    support: BoolArray

    def __init__(self, rho: float, mu: Any) -> None:
        rho = checks.number(rho, "rho")
        if rho < 0:
            raise InvalidArgumentError.of("rho", "must be in [0, inf]", f"{rho:g}")
        if LARGEST_RHO < rho < np.inf:
            raise InvalidArgumentError.of("rho", f"must be at most {LARGEST_RHO:g} or inf", f"{rho:g}")
        mu = checked_weights(mu, "mu").copy()
        with np.errstate(divide="ignore"):
            log_mu = np.log(mu)
        put = object.__setattr__
        put(self, "rho", rho)
        put(self, "mu", frozen(mu))
        put(self, "log_mu", frozen(log_mu))
        put(self, "log_mu_bar", frozen(log_mu - log_sum_exp(log_mu)))
        put(self, "support", frozen(mu > 0))

    @property
    def mu_bar(self) -> FloatArray:
        """The weights divided by their sum."""
        return np.exp(self.log_mu_bar)

    @property
    def log_mass(self) -> float:
        """Log of M, the sum of the weights."""
        return log_sum_exp(self.log_mu)

    def divergence(self, d: Any) -> float:
        """Returns D_rho(mubar || d); KL(d || mubar) at rho = 0; inf where it is infinite."""
        return self.divergence_unchecked(self._occupancy(d))

    def divergence_unchecked(self, d: FloatArray) -> float:
        """Returns `divergence(d)` for a d known to be a finite, non-negative array of the right shape."""
        if self.rho == 0:
            return _reverse_divergence(d, self.log_mu_bar)
        k = self.support
        with np.errstate(divide="ignore"):
            log_ratio = self.log_mu_bar[k] - np.log(d[k])
        if self.rho == np.inf:
            return float(log_ratio.max())
        if self.rho < 0.5:
            return _small_order(self.rho, d[k], log_ratio)
        return _renyi(self.rho, self.log_mu_bar[k], log_ratio)

    def value(self, d: Any) -> float:
        """Returns U_rho(d) as the paper defines it; ±inf where float64 ends (see `log_abs_value`)."""
        if self.rho == 0:
            return -self.divergence(d)
        if self.rho == 1:
            return self._cross_entropy(self._occupancy(d))
        with np.errstate(over="ignore"):
            if self.rho == np.inf:
                return -float(np.exp(self.log_v(d)))
            return float(np.sign(1 - self.rho) * np.exp(self.log_abs_value(d)))

    def log_abs_value(self, d: Any) -> float:
        """Returns log |U_rho(d)| for rho other than 0, 1, inf: finite where U itself overflows."""
        if self.rho in (0, 1, np.inf):
            with np.errstate(divide="ignore"):
                return float(np.log(abs(self.value(d))))
        d = self._occupancy(d)
        return self._log_sum(d) - float(np.log(abs(1 - self.rho)))

    def log_v(self, d: Any) -> float:
        """Returns log V_rho, V_rho = ((1-rho) U_rho)^(1/rho) = (sum d (mu/d)^rho)^(1/rho).

        d_i^(1/rho) r_max <= V_rho <= r_max, so V_rho tends to the worst ratio as rho grows.
        """
        d = self._occupancy(d)
        if self.rho == np.inf:
            return float(np.max(self.log_ratio(d)))
        if self.rho == 0:
            return self.log_mass - _reverse_divergence(d, self.log_mu_bar)
        return self._log_sum(d) / self.rho

    def log_ratio(self, d: Any) -> FloatArray:
        """Returns log(mu/d), -inf where the weight is zero."""
        d = self._occupancy(d)
        with np.errstate(divide="ignore"):
            return np.where(self.support, self.log_mu - np.log(np.where(self.support, d, 1.0)), -np.inf)

    def ratio(self, d: Any) -> FloatArray:
        """Returns mubar/d: 1 means as many visits as wanted, 2 means half as many. 0 for zero weight."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_ratio(d) - self.log_mass)

    def worst_ratio(self, d: Any) -> float:
        """Returns max mubar/d, the factor by which the worst pair has too few visits."""
        return float(self.ratio(d).max())

    def log_gradient(self, d: Any) -> FloatArray:
        """Returns log of the gradient (mu/d)^rho.

        In logs because (mu/d)^rho leaves float64 early: with a count floor of 1e-6 it is 1e48 at
        rho = 8 and inf at rho = 64. Linear oracles are unchanged by a positive factor: see `reward`.
        """
        if self.rho in (0, np.inf):
            raise InvalidArgumentError.of(
                "log_gradient", "needs 0 < rho < inf", f"{self.rho:g}", remedy="Use `reward`, its limit."
            )
        return self.rho * self.log_ratio(d)

    def reward(self, d: Any) -> FloatArray:
        """Returns the gradient up to a positive factor and a constant, largest entry 1 for rho > 0.

        This is what a linear oracle needs. At rho = inf it marks the worst pairs; at rho = 0 it is
        log(mubar/d), the limit of ((mu/d)^rho - 1)/rho.
        """
        log_ratio = self.log_ratio(d)
        if self.rho == 0:
            return np.where(self.support, log_ratio - self.log_mass, -np.inf)
        top = log_ratio.max()
        if top == np.inf or self.rho == np.inf:
            return (log_ratio == top).astype(float)
        return np.exp(self.rho * (log_ratio - top))

    def log_curvature(self, d: Any) -> FloatArray:
        """Returns log of minus the Hessian's diagonal, rho mu^rho / d^(rho+1); 1/d at rho = 0."""
        d = self._occupancy(d)
        if self.rho == np.inf:
            raise InvalidArgumentError.of("log_curvature", "needs rho < inf: the worst case has no curvature")
        with np.errstate(divide="ignore"):
            log_d = np.log(np.where(self.support, d, 1.0))  # no curvature without weight, also at d = 0
        if self.rho == 0:
            return np.where(self.support, -log_d, -np.inf)
        return np.log(self.rho) + self.rho * self.log_ratio(d) - log_d

    def hessian_diagonal(self, d: Any) -> FloatArray:
        """Returns the diagonal of U_rho's Hessian (all other entries are zero)."""
        with np.errstate(over="ignore"):
            return -np.exp(self.log_curvature(d))

    def log_smoothness(self, eta: float, *, off_floor: bool = False) -> float:
        """Returns log C_eta, C_eta = rho mu_max^rho / (2 eta)^(rho+1), the constant on D_eta.

        The paper's proof uses it at empirical occupancies, which only satisfy d >= eta; there
        (`off_floor=True`) the constant is 2^(rho+1) C_eta.
        """
        eta = checks.number(eta, "eta")
        if not 0 < eta < 0.5:
            raise InvalidArgumentError.of("eta", "must be in (0, 1/2)", f"{eta:g}")
        if not 0 < self.rho < np.inf:
            raise InvalidArgumentError.of("log_smoothness", "needs 0 < rho < inf", f"{self.rho:g}")
        floor = eta if off_floor else 2 * eta
        top = float(self.log_mu.max())
        return float(np.log(self.rho) + self.rho * top - (self.rho + 1) * np.log(floor))

    def _occupancy(self, d: Any) -> FloatArray:
        d = checks.float_array(d, "d", self.mu.shape)
        checks.check_nonnegative(d, "d")
        return d

    def _log_sum(self, d: FloatArray) -> float:
        """Returns log sum mu^rho d^(1-rho)."""
        k = self.support
        with np.errstate(divide="ignore"):
            log_d = np.log(d[k])
        if self.rho == 1:
            return self.log_mass
        return log_sum_exp(self.rho * self.log_mu[k] + (1 - self.rho) * log_d)

    def _cross_entropy(self, d: FloatArray) -> float:
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.sum(self.mu[self.support] * np.log(d[self.support])))


def checked_weights(mu: Any, name: str) -> FloatArray:
    """Returns weights that are finite, non-negative and not all zero."""
    mu = checks.float_array(mu, name)
    checks.check_nonnegative(mu, name)
    if mu.size == 0 or mu.max() == 0:
        raise InvalidArgumentError.of(name, f"must have a positive entry: all {mu.size} weights are zero")
    return mu


def thinnest_first(target: FloatArray, share: FloatArray) -> IntArray:
    """Returns the flat indices of all pairs with a weight, those with the least of their target first.

    Messages, tables and pages all use this order; both arrays are `[..., S, A]`. Among the pairs without a
    visit, those come first whose state was visited: it can be reached. Ties keep their order.
    """
    is_far = np.repeat(share.sum(axis=-1) == 0, share.shape[-1])
    target, share = target.ravel(), share.ravel()
    weighted = np.flatnonzero(target > 0)
    with np.errstate(divide="ignore"):
        height = np.round(np.log(share[weighted]) - np.log(target[weighted]), DIGITS)
    return weighted[np.lexsort((is_far[weighted], height))]


def log_sum_exp(values: FloatArray) -> float:
    """Returns log sum exp(values); -inf and +inf entries are allowed."""
    top = float(values.max())
    if not np.isfinite(top):
        return top
    return top + float(np.log(np.sum(np.exp(values - top))))


def _renyi(rho: float, log_mu_bar: FloatArray, log_ratio: FloatArray) -> float:
    """Returns D_rho from u = log(mubar/d): log(sum mubar e^((rho-1)u)) / (rho-1).

    Near rho = 1 the sum is close to 1; expm1 and log1p keep the digits that a plain logarithm would cancel.
    For a sum near 0 (d and mu hardly overlap) it is the reverse: 1 + excess cancels, and the logarithm is
    exact.
    """
    if rho == 1:
        return float(np.sum(np.exp(log_mu_bar) * log_ratio))
    exponent = (rho - 1) * log_ratio
    if exponent.max() < 1:
        excess = float(np.sum(np.exp(log_mu_bar) * np.expm1(exponent)))
        if excess > -0.5:
            return float(np.log1p(excess)) / (rho - 1)
    return log_sum_exp(log_mu_bar + exponent) / (rho - 1)


def _small_order(rho: float, d: FloatArray, log_ratio: FloatArray) -> float:
    """Returns D_rho for 0 < rho < 1/2 from log(sum d e^(rho u)) / (rho-1), accurate as rho -> 0."""
    seen = d > 0  # d e^(rho u) = mubar^rho d^(1-rho) is 0 at d = 0
    d, exponent = d[seen], rho * log_ratio[seen]
    if d.size == 0:
        return np.inf
    if exponent.max() < 1:
        excess = float(d.sum() - 1 + np.sum(d * np.expm1(exponent)))
        if excess > -0.5:
            return float(np.log1p(excess)) / (rho - 1)
    return log_sum_exp(np.log(d) + exponent) / (rho - 1)


def _reverse_divergence(d: FloatArray, log_mu_bar: FloatArray) -> float:
    """Returns KL(d || mubar); inf if d visits a pair of zero weight."""
    seen = d > 0
    return float(np.sum(d[seen] * (np.log(d[seen]) - log_mu_bar[seen])))
