"""What the optimum gives every pair at least, without solving for it: from one known occupancy.

d* maximises U_rho over a convex set that holds d0, so <grad U(d*), d0 - d*> <= 0. For 0 < rho < inf, with
weights mu that sum to 1 and V(d) = sum_j mu_j^rho d_j^(1-rho), this is

    sum_j d0_j (mu_j/d*_j)^rho <= V(d*) <= V,      V = V(d0) for rho > 1, V = 1 for rho <= 1

(U prefers d* to d0; Hoelder). The terms of the other pairs are least, subject to shares of at most 1
altogether, at Q_i = (sum_{j != i} (d0_j mu_j^rho)^(1/(1+rho)))^(1+rho). Hence

    d*_i >= mu_i (d0_i/(V - Q_i))^(1/rho).

At rho = inf, d*_i >= mu_i/max_j(mu_j/d0_j). At rho = 0, d* is the projection of mu in relative entropy, so
KL(d0||d*) <= KL(d0||mu), and between the two cells "i" and "not i" already d0_i log(d0_i/d*_i) <=
KL(d0||mu) - (1-d0_i) log(1-d0_i).

Nothing here knows of plans or of explorers. A pair without weight has the bound 0.
"""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage

ROUNDING = 1e-12  # relative: V - Q is not taken to be smaller than this share of V


def least_shares(coverage: Coverage, d0: FloatArray) -> FloatArray:
    """Returns lower bounds on the best occupancy, `[n]`, from an occupancy `d0` without zeros."""
    if coverage.rho == 0:
        return _least_at_zero(coverage, d0)
    log_mu = np.where(coverage.support, coverage.log_mu_bar, -np.inf)
    if coverage.rho == np.inf:
        return np.exp(log_mu - coverage.divergence_unchecked(d0))
    log_rest = _log_rest(coverage.rho, log_mu, np.log(d0), coverage.divergence_unchecked(d0))
    return np.exp(log_mu + (np.log(d0) - log_rest) / coverage.rho)


def _log_rest(rho: float, log_mu: FloatArray, log_d0: FloatArray, divergence: float) -> FloatArray:
    """Returns log(V - Q), `[n]`; V(d0) is exp((rho-1) D_rho)."""
    log_v = max(rho - 1, 0.0) * divergence
    terms = (log_d0 + rho * log_mu) / (1 + rho)
    shares = np.exp(terms - terms.max())
    with np.errstate(divide="ignore"):  # a single pair has no others
        log_others = terms.max() + np.log(np.maximum(shares.sum() - shares, 0.0))
    missing = -np.expm1(np.minimum((1 + rho) * log_others - log_v, 0.0))
    return log_v + np.log(np.maximum(missing, ROUNDING))


def _least_at_zero(coverage: Coverage, d0: FloatArray) -> FloatArray:
    excess = coverage.divergence_unchecked(d0)  # KL(d0||mu) at rho = 0
    with np.errstate(divide="ignore", invalid="ignore"):  # a single pair has d0 = 1
        others = np.where(d0 < 1, -(1 - d0) * np.log1p(-np.minimum(d0, 1.0)), 0.0)
    return d0 * np.exp(-(excess + others) / d0)
