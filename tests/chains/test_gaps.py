"""Spectral gaps against closed forms and definitions. The mutant: an eigenvalue that is not deflated."""

from __future__ import annotations

import numpy as np
import pytest
from chain_models import drifting_grid, random_chain, sparse_birth_death

from rhocover import chains
from rhocover.chains import gaps
from rhocover.linalg import dissection
from tiers import tiered


def reversible_chain(seed: int, num_states: int) -> np.ndarray:
    weight = np.random.default_rng(seed).random((num_states, num_states)) ** 3
    weight += weight.T
    return weight / weight.sum(axis=1, keepdims=True)


def test_gaps_of_two_states_and_of_a_lazy_cycle_are_their_closed_forms() -> None:
    for a, b in ((0.3, 0.2), (0.9, 0.8), (1e-12, 2e-12)):
        P = [[1 - a, a], [b, 1 - b]]
        assert chains.spectral_gap(P) == pytest.approx(1 - abs(1 - a - b), abs=1e-14)  # 1 - lambda rounds
    cycle = np.roll(np.eye(12), 1, axis=1)
    lazy = 0.5 * np.eye(12) + 0.25 * (cycle + cycle.T)
    assert chains.spectral_gap(lazy) == pytest.approx(0.5 - 0.5 * np.cos(np.pi / 6), abs=1e-14)


def test_a_periodic_chain_has_no_gap_and_a_single_state_all_of_it() -> None:
    cycle = np.roll(np.eye(12), 1, axis=1)
    even_odd = 0.5 * (cycle + cycle.T)
    for gap in (chains.spectral_gap, chains.pseudo_spectral_gap):
        assert [gap(P) for P in (cycle, even_odd, [[1.0]], [[1.0, 0.0], [0.5, 0.5]])] == [0, 0, 1, 1]


def test_reversible_means_symmetric_flows() -> None:
    assert chains.is_reversible(reversible_chain(0, 6))
    assert chains.is_reversible(sparse_birth_death([0.1, 1e-9], [0.7, 0.2]))
    assert not chains.is_reversible([[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]])


def test_large_chains_have_the_gap_of_the_closed_form() -> None:
    """A walk on a 40×40 grid: eigenvalues are means of those of two lines, and one is near -1."""
    P, _ = drifting_grid(40, ratio=1.0)
    assert chains.spectral_gap(P) == pytest.approx((1 - np.cos(np.pi / 40)) / 2, abs=1e-10)
    second = (1 + np.cos(np.pi / 40)) / 2
    assert chains.pseudo_spectral_gap(P) == pytest.approx(1 - second**2, abs=1e-10)  # Krylov's tolerance


@pytest.mark.parametrize("separator", tiered([4000, 5]), ids=["factored", "iterated"])
@pytest.mark.parametrize("chain", tiered([reversible_chain(1, 120), random_chain(2, 120, 1.0)]))
def test_dense_and_sparse_spectra_agree(chain: np.ndarray, separator: int, monkeypatch) -> None:
    dense = chains.spectral_gap(chain), chains.pseudo_spectral_gap(chain, max_power=1)
    pi = chains.stationary_distribution(chain)
    monkeypatch.setattr(gaps, "irreducible_distribution", lambda _: pi)
    monkeypatch.setattr(gaps, "DENSE_SPECTRUM", 100)
    monkeypatch.setattr(dissection, "LARGEST_SEPARATOR", separator)
    sparse = chains.spectral_gap(chain), chains.pseudo_spectral_gap(chain, max_power=1)
    assert sparse == pytest.approx(dense, abs=1e-9)  # ten times Krylov's tolerance


def pseudo_gap_by_definition(P: np.ndarray, most: int) -> float:
    """Returns max_k gap((P*)^k P^k) / k with the time reversal P* itself."""
    pi = chains.stationary_distribution(P)
    backwards = (pi[:, None] * P).T / pi[:, None]
    best, left, right = 0.0, np.eye(len(P)), np.eye(len(P))
    for k in range(1, most):
        left, right = left @ backwards, right @ P
        best = max(best, (1 - np.sort(np.linalg.eigvals(left @ right).real)[-2]) / k)
    return best


@pytest.mark.parametrize("seed", range(8))
def test_the_pseudo_gap_is_that_of_the_definition(seed: int) -> None:
    P = random_chain(seed, 7, 1.0, density=0.4)
    gap = chains.pseudo_spectral_gap(P)
    assert gap > 1 / 32  # so that every power was tried
    assert gap == pytest.approx(pseudo_gap_by_definition(P, 40), abs=1e-12)  # eigenvalues of products


def resetting_shift(num_states: int) -> np.ndarray:
    """Returns steps along a line, certain but for the last, which goes to one of the first two states."""
    P = np.eye(num_states, k=1)
    P[-1, :2] = 0.5
    return P


def test_a_chain_that_forgets_in_several_steps_has_a_pseudo_gap_by_a_higher_power() -> None:
    P = resetting_shift(3)
    assert chains.pseudo_spectral_gap(P, max_power=1) == pytest.approx(0, abs=1e-14)
    assert chains.pseudo_spectral_gap(P) == pytest.approx(pseudo_gap_by_definition(P, 40), abs=1e-12)
    assert chains.pseudo_spectral_gap(P) > 1 / 32


def test_a_small_pseudo_gap_is_bounded_from_below_by_at_least_its_half() -> None:
    P = resetting_shift(8)
    exact = pseudo_gap_by_definition(P, 1500)
    gap = chains.pseudo_spectral_gap(P)
    assert 0 < exact < 1 / 32
    assert exact / 2 <= gap <= exact + 1e-12
    assert chains.pseudo_spectral_gap(P, max_power=5) <= gap


def test_the_pseudo_gap_of_a_reversible_chain_needs_one_step() -> None:
    P = reversible_chain(3, 9)
    second = np.sort(np.abs(np.linalg.eigvals(P)))[-2]
    assert chains.pseudo_spectral_gap(P) == pytest.approx(1 - second**2, abs=1e-13)
