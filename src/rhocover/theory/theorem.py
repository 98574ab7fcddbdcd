"""The constants of the paper's convergence theorem for Algorithm 1, and its bound as a curve.

Episodes have lengths tau_k = tau_1 k^2 and begin at t_k = tau_1 (k-1)k(2k-1)/6 + 1. With n pairs, S states
and A(s) actions in state s the appendix ("Proof of Theorem 1") has, with probability 1 - delta in each
episode,

    |psi_hat - psi| <= a_1 / sqrt(tau_k) + a_2 / tau_k   for every pair,
    a_1 = sqrt(2 B / gamma_min) + sqrt(log(4 n / delta) / 2),      a_2 = 20 B / gamma_min,
    B   = log( S n prod_s A(s) / (delta/2) ) + log(1/eta) / 2,

which is the paper's log(S^2 A^(S+1) / (delta/2) sqrt(1/eta)) where every state has A actions. From there

    c_1 = n (mu_max/eta)^rho a_1,    c_2 = n (mu_max/eta)^rho a_2,
    b_delta = 3 c_1/sqrt(tau_1) + 3 c_2/(tau_1 k_delta) + 9 C,     C = 2^(rho+1) C_eta.

The main text says that b_delta "absorbs all constant factors"; the line above is the appendix's, from beta_k
< 3/k and k >= k_delta, with C_eta replaced by the constant that holds where d_hat >= eta only.

**k_delta** is not worked out in the paper. Each psi_k is at least 2 eta, so averaging the first display over
the episodes before k, with weights tau_j/(t_k - 1) and sum_{j<k} j = k(k-1)/2,

    d_hat(t_k) >= 2 eta - 3 a_1 / (sqrt(tau_1) (2k-1)) - 6 a_2 / (tau_1 k (2k-1)),

and k_delta is the first k >= 2 for which the right side is at least eta: the root of a quadratic.

**The bound.** With q = k_delta and every K >= q,

    xi_K = U(d*) - U(d_hat(t_K)) <= (tau_1 / (3 (t_K - 1)))^(1/3) (q xi_q + 2 b_delta log K).

xi_q is not known beforehand; all that is known at q is d_hat >= eta, so xi_q <= U(d*) - U(eta, ..., eta) is
used.

**What the proof leaves open.** The concentration lemma is for reversible chains; for others Paulin's
pseudo-spectral gap replaces the gap. It counts deterministic policies (prod A(s)), while those of
D_eta are random. It holds for one episode: for the first K together pass delta/K. And gamma_min is a minimum
over all stationary policies, which cannot be computed: here it is over the given policies.

The bound is vacuous at practical t. On RiverSwim with 6 states at rho = 2 it begins to hold at t = 1e9 and is
below |U*| from t = 1e18 on (the example below). It says that Algorithm 1 converges and how fast at worst, and
should be shown next to a measured curve only as that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rhocover import chains, checks
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage, log_sum_exp
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import Plan, plan

# The order, the floor and the gap, given or chosen.

SHARE_OF_OPTIMUM = 0.9  # the floor 2 eta as a share of min d*, so that d* lies inside D_eta


def checked_order(rho: Any) -> float:
    """Returns an order for which U_rho is smooth."""
    rho = checks.number(rho, "rho")
    if not 0 < rho < math.inf:
        raise InvalidArgumentError.of(
            "rho",
            "must be in (0, inf)",
            f"{rho:g}: the theorem needs a smooth U_rho",
            remedy="A large rho such as 100 approximates the worst case.",
        )
    return rho


def read_floor(mdp: MDP, eta: Any, d_star: FloatArray) -> float:
    """Returns eta, given or chosen, such that d* lies in D_eta."""
    least = float(d_star.min())  # at most t*, the largest floor of any occupancy
    if eta is None:
        return SHARE_OF_OPTIMUM * least / 2
    eta = checks.number(eta, "eta")
    if not 0 < eta < 0.5:
        raise InvalidArgumentError.of("eta", "must be in (0, 1/2)", f"{eta:g}", remedy="None chooses one.")
    if 2 * eta > least:
        Occupancies.average(mdp, eta=eta).check_floor()
        raise InvalidArgumentError(
            f"eta={eta:g} asks every pair for {2 * eta:g} of the visits; the optimum gives one only "
            f"{least:.4g}, so it is not in D_eta and Algorithm 1 does not converge to it.",
            argument="eta",
            remedy=f"Pass eta <= {least / 2:.4g}.",
        )
    return eta


def read_gap(mdp: MDP, gamma_min: Any, policies: Any, best: Plan) -> tuple[float, str]:
    """Returns gamma_min, given or computed, and its source."""
    if gamma_min is not None:
        if policies is not None:
            raise InvalidArgumentError("pass `gamma_min` or `policies`, not both.", argument="gamma_min")
        gamma_min = checks.number(gamma_min, "gamma_min")
        if not 0 < gamma_min <= 1:
            raise InvalidArgumentError.of("gamma_min", "must be in (0, 1]", f"{gamma_min:g}")
        return gamma_min, "as given"
    if policies is None:
        gap, kind = _gap(mdp, best.policy, "the optimal policy")
        return gap, f"{kind} gap of the optimal policy alone, not the minimum over all policies"
    policies = tuple(policies)
    if not policies:
        raise InvalidArgumentError.of("policies", "must hold at least one policy `[S, A]`", "none")
    gaps = [_gap(mdp, policy, f"policies[{i}]") for i, policy in enumerate(policies)]
    gap, kind = min(gaps)
    return gap, f"{kind} gap, the smallest of {len(gaps)} given policies, not of all"


def _gap(mdp: MDP, policy: Any, name: str) -> tuple[float, str]:
    """Returns the gap of a policy's chain and its kind; the pseudo-spectral one unless it is reversible."""
    chain = chains.policy_chain(mdp, policy)
    if len(chains.recurrent_classes(chain)) > 1:
        raise InvalidArgumentError(
            f"{name} has several recurrent classes: its visits depend on where it starts, and it has no gap.",
            argument="policies",
            remedy="Pass policies that visit every state.",
        )
    reversible = chains.is_reversible(chain)
    gap = chains.spectral_gap(chain) if reversible else chains.pseudo_spectral_gap(chain)
    if not gap > 0:
        raise InvalidArgumentError(
            f"{name} makes a chain without a spectral gap (periodic, or too slow for float64): the theorem "
            "says nothing about it.",
            argument="gamma_min",
            remedy="Pass `gamma_min`, or `policies` that are not periodic.",
        )
    return gap, "spectral" if reversible else "pseudo-spectral"


# The constants and the bound.

PLAIN_LOG = 100.0  # beyond e^100 the root of the cubic is the cube root, to 1e-15


@dataclass(frozen=True)
class TheoremConstants:
    """The numbers of the theorem; those that leave float64 early are logarithms.

    >>> import rhocover as rc
    >>> constants = theorem_constants(rc.envs.river_swim(), rho=2)
    >>> print(f"{constants.log10_valid_from():.1f} {constants.log10_informative_from():.1f}")
    9.0 17.9
    >>> print(f"{constants.bound(3e4)} {constants.bound(1e30):.3f}")
    inf 0.031
    """

    rho: float
    eta: float
    delta: float
    tau_1: int
    gamma_min: float
    gamma_source: str  # where gamma_min comes from
    B: float
    log_smoothness: float  # log C_eta, on D_eta
    log_smoothness_used: float  # log 2^(rho+1) C_eta, where d >= eta only
    log_c_1: float
    log_c_2: float
    k_delta: int  # the first episode from which d_hat >= eta is guaranteed; q of the bound
    log_b_delta: float
    log_xi_q: float  # log of the largest suboptimality with d_hat >= eta
    log_abs_optimum: float  # log |U*|

    def log_bound(self, t: Any) -> FloatArray:
        """Returns log of the bound on U(d*) - U(d_hat(t)), in the shape of `t`; inf before `valid_from`.

        The theorem is about the ends of episodes, t = t_K; between them this is the curve through them.
        """
        t = checks.float_array(t, "t")
        if (t < 1).any():
            raise InvalidArgumentError.of("t", "must be at least 1", f"{t.min():g}")
        with np.errstate(divide="ignore"):
            return self._log_bound(np.log(t - 1))

    def bound(self, t: Any) -> FloatArray:
        """Returns the bound itself, in the shape of `t`; inf where it leaves float64 or is not valid."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_bound(t))

    def log10_valid_from(self) -> float:
        """Returns log10 of t at the beginning of episode k_delta: the theorem does not hold before."""
        return self._log_time(self.k_delta) / math.log(10)

    def log10_informative_from(self) -> float:
        """Returns log10 of the t from which on the bound is below |U*|; inf if U* = 0.

        Until then the bound on the error is larger than the optimum itself.
        """
        if self.log_abs_optimum == -np.inf:
            return math.inf
        low = self._log_time(max(self.k_delta, 3))  # from K = e on the bound falls
        high = low + 1
        while self._log_bound(np.asarray(high)) > self.log_abs_optimum:
            low, high = high, 2 * high
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            too_early = self._log_bound(np.asarray(middle)) > self.log_abs_optimum
            low, high = (middle, high) if too_early else (low, middle)
        return high / math.log(10)

    def summary(self) -> dict[str, Any]:
        """Returns the constants and the two times as a JSON document."""
        times = (self.log10_valid_from(), self.log10_informative_from())
        names = ("log10_valid_from", "log10_informative_from")
        numbers = asdict(self) | dict(zip(names, times, strict=True))
        is_plain = {key: not isinstance(x, float) or math.isfinite(x) for key, x in numbers.items()}
        return {key: x if is_plain[key] else str(x) for key, x in numbers.items()}

    def __str__(self) -> str:
        return (
            f"The theorem's constants at rho = {self.rho:g}, eta = {self.eta:.4g}, delta = {self.delta:g}, "
            f"tau_1 = {self.tau_1}:\n"
            f"  gamma_min {self.gamma_min:.4g}  ({self.gamma_source})\n"
            f"  C_eta {_power(self.log_smoothness)}, c_1 {_power(self.log_c_1)}, "
            f"c_2 {_power(self.log_c_2)}, b_delta {_power(self.log_b_delta)}\n"
            f"  holds from episode k_delta = {self.k_delta:.4g} on, t = 1e{self.log10_valid_from():.1f}\n"
            f"  is below |U*| = {_power(self.log_abs_optimum)} from t = 1e"
            f"{self.log10_informative_from():.1f} on: before that the bound is not useful."
        )

    def _log_time(self, k: int) -> float:
        """Returns log(t_k - 1)."""
        return math.log(self.tau_1) + math.log(k - 1) + math.log(k) + math.log(2 * k - 1) - math.log(6)

    def _log_bound(self, log_time: FloatArray) -> FloatArray:
        """Returns log of the bound from log(t - 1)."""
        log_k = _log_episode(log_time + math.log(3 / self.tau_1))
        is_valid = log_time >= self._log_time(self.k_delta) - 1e-12
        start = math.log(self.k_delta) + self.log_xi_q
        safe = np.where(is_valid, log_k, 1.0)
        tail = math.log(2) + self.log_b_delta + np.log(safe)
        with np.errstate(invalid="ignore"):
            curve = np.logaddexp(start, tail) - (log_time + math.log(3 / self.tau_1)) / 3
        return np.where(is_valid, curve, np.inf)


def theorem_constants(
    mdp: MDP,
    rho: float,
    mu: Any = None,
    *,
    eta: float | None = None,
    delta: float = 0.05,
    tau_1: int = 10,
    gamma_min: float | None = None,
    policies: Sequence[Any] | None = None,
) -> TheoremConstants:
    """Returns the constants of the theorem for Algorithm 1 on `mdp`, for 0 < `rho` < inf and weights > 0.

    `eta` is half the floor of D_eta; None is 0.45 min d*, because the proof needs d* in D_eta.
    `gamma_min` is the smallest gap of the chains that the algorithm runs. None takes the smallest over
    `policies` (tables `[S, A]`), and without them that of the optimal policy alone, which is an optimistic
    guess: `gamma_source` says which one was used.
    """
    rho = checked_order(rho)
    delta = checks.probability(delta, "delta", open_ends=True)
    tau_1 = checks.integer(tau_1, "tau_1", least=1, most=2**53)
    best = plan(mdp, rho, mu)
    if not best.coverage.support.all() or best.coverage.mu.size < mdp.num_pairs:
        raise InvalidArgumentError.of("mu", "must be positive for every pair: the theorem assumes it")
    d_star = mdp.per_pair(best.occupancy, "occupancy")
    eta = read_floor(mdp, eta, d_star)
    gamma = read_gap(mdp, gamma_min, policies, best)
    return _assemble(mdp, best.coverage, d_star, eta, delta, tau_1, gamma)


def _assemble(
    mdp: MDP, coverage: Coverage, d_star: FloatArray, eta: float, delta: float, tau_1: int,
    gamma: tuple[float, str],
) -> TheoremConstants:  # fmt: skip
    gap, source = gamma
    B = _union(mdp, eta, delta)
    a_1 = math.sqrt(2 * B / gap) + math.sqrt(math.log(4 * mdp.num_pairs / delta) / 2)
    a_2 = 20 * B / gap
    log_slope = math.log(mdp.num_pairs) + coverage.rho * (float(coverage.log_mu.max()) - math.log(eta))
    log_c_1, log_c_2 = log_slope + math.log(a_1), log_slope + math.log(a_2)
    k_delta = _first_episode(a_1, a_2, eta, tau_1)
    used = coverage.log_smoothness(eta, off_floor=True)
    terms = (
        math.log(3) + log_c_1 - math.log(tau_1) / 2,
        math.log(3) + log_c_2 - math.log(tau_1) - math.log(k_delta),
        math.log(9) + used,
    )
    return TheoremConstants(
        rho=coverage.rho, eta=eta, delta=delta, tau_1=tau_1, gamma_min=gap, gamma_source=source, B=B,
        log_smoothness=coverage.log_smoothness(eta), log_smoothness_used=used,
        log_c_1=log_c_1, log_c_2=log_c_2, k_delta=k_delta, log_b_delta=log_sum_exp(np.array(terms)),
        log_xi_q=_log_largest_suboptimality(coverage, d_star, eta),
        log_abs_optimum=coverage.log_abs_value(d_star),
    )  # fmt: skip


def _union(mdp: MDP, eta: float, delta: float) -> float:
    """Returns B: the logarithm of the number of events in the union bound of the concentration lemma."""
    num_actions = np.bincount(mdp.pair_state, minlength=mdp.num_states)
    events = math.log(mdp.num_states) + math.log(mdp.num_pairs) + float(np.log(num_actions).sum())
    return events + math.log(2 / delta) - math.log(eta) / 2


def _first_episode(a_1: float, a_2: float, eta: float, tau_1: int) -> int:
    """Returns the smallest k >= 2 with 3 a_1/(sqrt(tau_1)(2k-1)) + 6 a_2/(tau_1 k(2k-1)) <= eta.

    Times k(2k-1) it is 2 eta k^2 - (eta + 3 a_1/sqrt(tau_1)) k - 6 a_2/tau_1 >= 0.
    """
    linear = eta + 3 * a_1 / math.sqrt(tau_1)
    root = (linear + math.hypot(linear, math.sqrt(48 * eta * a_2 / tau_1))) / (4 * eta)
    if not math.isfinite(root):
        raise InvalidArgumentError.of(
            "eta", "or `gamma_min` is too small: no float64 holds the first episode"
        )
    return max(2, math.ceil(root))


def _log_largest_suboptimality(coverage: Coverage, d_star: FloatArray, eta: float) -> float:
    """Returns log of U(d*) - U(eta, ..., eta) = sum_i mu_i^rho int_eta^d*_i u^-rho du: no cancellation."""
    order = abs(coverage.rho - 1)
    length = np.log(d_star / eta)
    base = np.log(np.full_like(d_star, eta) if coverage.rho > 1 else d_star)
    integral = length if order == 0 else -np.expm1(-order * length) / order
    return log_sum_exp(coverage.rho * coverage.log_mu + (1 - coverage.rho) * base + np.log(integral))


def _log_episode(log_y: FloatArray) -> FloatArray:
    """Returns log K for y = 3(t - 1)/tau_1, the real root of (K - 1/2)^3 - (K - 1/2)/4 = y.

    With K - 1/2 = cosh(theta)/sqrt(3) the left side is cosh(3 theta)/(12 sqrt(3)).
    """
    moderate = np.exp(np.minimum(log_y, PLAIN_LOG))
    theta = np.arccosh(np.maximum(12 * math.sqrt(3) * moderate, 1.0)) / 3
    return np.where(log_y > PLAIN_LOG, log_y / 3, np.log(0.5 + np.cosh(theta) / math.sqrt(3)))


def _power(logarithm: float) -> str:
    """Returns e^logarithm as text, `3.2e+401`, even if it overflows float64."""
    if not math.isfinite(logarithm):
        return f"{math.exp(logarithm):g}" if logarithm < 0 else "inf"
    exponent = math.floor(logarithm / math.log(10))
    return f"{math.exp(logarithm - exponent * math.log(10)):.2f}e{exponent:+d}"
