"""Statements of the paper about U_rho that no formula of the code is by itself: lemma 1, concavity, priorities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rhocover import Coverage

SEEDS = range(5)
RHOS = [0.0, 0.5, 1.0, 1.5, 2.0, 8.0, math.inf]


def weights_and_occupancies(seed: int, num_pairs: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return 3 * rng.random(num_pairs) + 0.1, *rng.dirichlet(np.ones(num_pairs), size=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_at_one_the_value_is_minus_the_mass_times_relative_entropy_plus_entropy(seed: int) -> None:
    """Lemma 1: U_1(d) = -M (KL(mubar || d) + H(mubar)). Mutants: KL(d || mubar), the factor M left out."""
    mu, d, _ = weights_and_occupancies(seed)
    bar = mu / mu.sum()
    relative, entropy = float(np.sum(bar * np.log(bar / d))), -float(np.sum(bar * np.log(bar)))
    coverage = Coverage(1.0, mu)
    assert coverage.value(d) == pytest.approx(-mu.sum() * (relative + entropy), rel=1e-13)
    assert coverage.divergence(d) == pytest.approx(relative, rel=1e-13)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_occupancies_the_better_value_has_the_smaller_divergence(rho: float, seed: int) -> None:
    """Maximising U_rho is minimising D_rho, for every rho: the order is reversed exactly."""
    mu, d, other = weights_and_occupancies(seed)
    coverage = Coverage(rho, mu)
    is_better = coverage.value(d) > coverage.value(other)
    assert is_better == (coverage.divergence(d) < coverage.divergence(other))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_of_a_mixture_is_above_the_mixture_of_the_values(rho: float, seed: int) -> None:
    """U_rho is concave, strictly for finite rho: additional visits are worth less and less."""
    mu, d, other = weights_and_occupancies(seed)
    coverage = Coverage(rho, mu)
    for share in (0.1, 0.5, 0.9):
        mixed = coverage.value(share * d + (1 - share) * other)
        chord = share * coverage.value(d) + (1 - share) * coverage.value(other)
        assert mixed >= chord - 1e-12 * abs(chord)  # rounding; a convex U misses by far more
        if rho < math.inf:
            assert mixed > chord


@pytest.mark.parametrize("seed", SEEDS)
def test_the_priority_of_the_worse_covered_pair_is_the_rho_th_power_of_its_lag(seed: int) -> None:
    """U'_i/U'_j = ((mu_i/d_i)/(mu_j/d_j))^rho, which tends to infinity where the ratio is above 1."""
    mu, d, _ = weights_and_occupancies(seed)
    worst, next_worst = np.argsort(-mu / d)[:2]
    lag = float(np.log((mu / d)[worst] / (mu / d)[next_worst]))
    priorities = []
    for rho in (1.0, 10.0, 100.0, 1000.0):
        gradient = Coverage(rho, mu).log_gradient(d)
        priorities.append(gradient[worst] - gradient[next_worst])
        assert priorities[-1] == pytest.approx(rho * lag, rel=1e-10)
    assert priorities == sorted(priorities)
