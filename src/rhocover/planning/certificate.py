"""Lower bounds on the optimum that hold whatever the solver did.

Any multipliers (nu, alpha, z >= 0) give y = K'nu + alpha - z with <y, d> <= Y for every d of the set,
Y = k0'nu + alpha - floor sum z. By Hölder's inequality every such d has

    D_rho(mubar || d) >= rho/(rho-1) log sum mubar y^((rho-1)/rho) - log Y,      y >= 0,

sum mubar log y - log Y at rho = 1, log sum mubar y - log Y at rho = inf. At rho = 0 Gibbs' variational
inequality gives KL(d || mubar) >= -Y - log sum mubar exp(-y), y of any sign.

Floating point: the exact y of these multipliers is no smaller than what is computed minus `_rounding`,
entry by entry, and the bounds grow with y; so they are taken at that lower end. Where it is negative all of
y is raised to 0, which makes <y, d> larger by just that, because d sums to 1. After division by Y, so that
the scale of the multipliers does not matter, what the logarithms and sums lose is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import log_sum_exp
from rhocover.planning.program import Program

EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """What a bound is made of: nu for the rows of K, alpha for the mass, z >= 0 for the floor."""

    nu: FloatArray
    alpha: float
    z: FloatArray | float = 0.0


def dual_bound(program: Program, multipliers: Multipliers) -> float:
    """Returns a number that no achievable divergence is below; -inf when the multipliers prove nothing."""
    nu, alpha, z = multipliers.nu, multipliers.alpha, 0.0
    if program.has_floor:
        z = np.maximum(multipliers.z, 0.0)
    if not (np.isfinite(nu).all() and np.isfinite(alpha)):
        return -np.inf
    total, error = _total(program, multipliers)
    y = program.KT @ nu + (alpha - z) - _rounding(program, nu, alpha, z)
    if not np.isfinite(total + y.sum()):
        return -np.inf
    if program.rho == 0:
        log_sum = log_sum_exp(program.coverage.log_mu_bar - y)
        return -total - log_sum - error - EPSILON * (_digits(program) + abs(log_sum))
    raised = max(0.0, -float(y.min()))
    if program.rho <= 1:  # a y of exactly 0 proves nothing there
        raised *= 2
    if total <= 0:
        return -np.inf
    most = total + raised + error
    mean, error = _power_mean_log(program, (y + raised) / most)
    return mean - error - 4 * EPSILON


def _power_mean_log(program: Program, y: FloatArray) -> tuple[float, float]:
    """Returns rho/(rho-1) log sum mubar y^((rho-1)/rho), its limits at 1 and inf, and its rounding error.

    In a sum of exponentials each share p_i is off by the rounding of its exponent, and the exponents
    of the shares that count are no larger than sum p log 1/p <= log n and the logarithm of the sum.
    """
    rho, k = program.rho, program.coverage.support
    with np.errstate(divide="ignore"):
        log_y = np.log(y[k])
    log_mu = program.coverage.log_mu_bar[k]
    error = EPSILON * _digits(program)
    if rho == 1:
        terms = np.exp(log_mu) * log_y
        return float(np.sum(terms)), error * float(np.sum(np.abs(terms)))
    power = 1.0 if rho == np.inf else (rho - 1) / rho
    if _is_flat(power * log_y):
        terms = np.exp(log_mu) * np.expm1(power * log_y)
        # the sum is above e^-1/2 - 1, so the logarithm makes its error less than twice as large
        return float(np.log1p(np.sum(terms))) / power, 2 * error * float(np.sum(np.abs(terms))) / abs(power)
    mean = log_sum_exp(log_mu + power * log_y) / power
    return mean, (error + EPSILON * abs(power * mean)) / abs(power)


def _is_flat(exponent: FloatArray) -> bool:
    """Whether expm1 is the accurate way: near rho = 1 the sum is 1 plus little."""
    return bool(np.abs(exponent).max() < 0.5)


def _digits(program: Program) -> float:
    """Returns how many units in the last place a sum over pairs loses.

    The additions of a pairwise sum are at most 12 + log2 n deep; log mubar enters with its own size.
    """
    n, log_mu = program.num_pairs, program.coverage.log_mu_bar[program.coverage.support]
    return 12 + float(np.log2(n) + np.log(n)) + 2 * abs(float(log_mu.min()))


def _total(program: Program, multipliers: Multipliers) -> tuple[float, float]:
    """Returns Y = k0'nu + alpha - floor sum z and its rounding error."""
    inflow, total_z = program.k0 * multipliers.nu, 0.0
    if program.has_floor:
        total_z = float(np.sum(program.floor * np.maximum(multipliers.z, 0.0)))
    total = float(np.sum(inflow)) + multipliers.alpha - total_z
    depth = 12 + float(np.log2(program.num_pairs))
    size = float(np.sum(np.abs(inflow))) + abs(multipliers.alpha) + total_z
    return total, depth * EPSILON * size


def _rounding(program: Program, nu: FloatArray, alpha: float, z: FloatArray | float) -> FloatArray:
    """Returns a bound on the error of each entry of K'nu + alpha - z, `[n]`.

    Each entry by its own terms: between parts that hardly exchange anything multipliers are large, and the
    entries of K that they meet are as small.
    """
    return (program.terms + 3) * EPSILON * (abs(program.KT) @ np.abs(nu) + (abs(alpha) + z))


def slack_of_point(program: Program, multipliers: Multipliers, d: FloatArray) -> float:
    """Returns what to add to D(d) for d's own errors: missed equations, and rounding in the sums.

    Off the set <y, d> exceeds Y by nu'(K d - k0) + alpha (sum d - 1) + z'(floor - d), and the bound on
    D(d) is lower by the logarithm of that, relative to Y.
    """
    z = np.maximum(multipliers.z, 0.0) if program.has_floor else 0.0
    total = 1.0 if program.rho == 0 else _total(program, multipliers)[0]
    scale = 1 / total if total > 0 else 1.0  # without Y there is no bound to repair
    off_mass = abs(float(d.sum()) - 1)
    repair = scale * float(np.abs(multipliers.nu) @ np.abs(program.K @ d - program.k0))
    repair += max(1.0, scale * abs(multipliers.alpha)) * off_mass
    repair += scale * float(np.sum(z * np.maximum(program.floor - d, 0.0)))
    return repair + rounding_of_point(program, d)


def rounding_of_point(program: Program, d: FloatArray) -> float:
    """Returns what rounding in d's own digits and in the sums may change of D(d)."""
    return _digits(program) * EPSILON * (1 + abs(program.coverage.divergence(d)))
