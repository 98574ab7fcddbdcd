"""Estimates are the smoothed frequencies, communicate from the first step on, and have a Dirichlet posterior."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rhocover import MDP
from rhocover.learning import estimate as module
from rhocover.learning.estimate import HOME, LEAST, Estimate, exact_estimate
from small_models import random_model

CHANCE = 1e-6  # of a statistical test to fail though all is well


def walked(seed: int, num_steps: int, num_roots: int = 1, smoothing: float = 0.5) -> Estimate:
    """Returns the estimate of uniform random walks from some roots, over the states that they met."""
    world, rng = random_model(seed, 12, 3, holes=0.7), np.random.default_rng(seed)
    P, roots = world.transitions.toarray(), rng.choice(12, num_roots, replace=False)
    counts = np.zeros((world.num_pairs, 12), np.int64)
    met = np.isin(np.arange(12), roots)
    for s in np.repeat(roots, 1):
        for _ in range(num_steps // num_roots):
            pair = rng.choice(np.flatnonzero(world.pair_state == s))
            s = rng.choice(12, p=P[pair])
            counts[pair, s] += 1
            met[s] = True
    pairs, number = met[world.pair_state], np.cumsum(met) - 1
    return Estimate(
        sp.csr_array(counts[pairs][:, met]), number[world.pair_state[pairs]], world.pair_action[pairs],
        world.num_actions, np.sort(number[roots]), smoothing,
    )  # fmt: skip


def is_communicating(mdp: MDP) -> bool:
    state = sp.csr_array((np.ones(mdp.num_pairs), (mdp.pair_state, np.arange(mdp.num_pairs))))
    return connected_components(state @ mdp.transitions, directed=True, connection="strong")[0] == 1


@pytest.mark.parametrize("num_roots", [1, 3])
@pytest.mark.parametrize("num_steps", [0, 1, 7, 400])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_counts_with_k_over_m_added_divided_by_visits_plus_k(seed, num_steps, num_roots):
    # Mutants: k for k/m, m of the wrong axis, rows divided by N instead of N + k.
    for k in (0.5, 3.0, 0.01):
        estimate = walked(seed, num_steps, num_roots, k)
        N, m = estimate.counts.toarray(), estimate.num_states
        rows = estimate.model.transitions.toarray()
        expected = (N + k / m) / (N.sum(axis=1, keepdims=True) + k)
        np.testing.assert_allclose(rows, expected, rtol=2e-15)  # two divisions and a sum of m terms
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-15)
        assert estimate.visits.sum() == num_steps // num_roots * num_roots
        np.testing.assert_array_equal(estimate.model.pair_state, estimate.pair_state)
        np.testing.assert_array_equal(estimate.model.pair_action, estimate.pair_action)


@pytest.mark.parametrize("entries", [1 << 20, 0], ids=["full rows", "sparse rows"])
@pytest.mark.parametrize("num_roots", [1, 2])
@pytest.mark.parametrize("num_steps", [0, 1, 2, 5, 30, 300])
def test_an_estimate_communicates_from_the_first_step_on(num_steps, num_roots, entries, monkeypatch):
    # Mutant: the large model spreads all of k over what follows, and nothing over the roots.
    monkeypatch.setattr(module, "FULL_ENTRIES", entries)
    for seed in range(6):
        estimate = walked(seed, num_steps, num_roots)
        assert is_communicating(estimate.model)
        assert is_communicating(estimate.sample(np.random.default_rng(seed)))


@pytest.mark.parametrize("num_steps", [0, 3, 200])
@pytest.mark.parametrize("num_roots", [1, 3])
def test_a_model_too_large_for_full_rows_spreads_k_over_where_its_state_led_and_the_roots(
    num_roots, num_steps, monkeypatch
):
    """The same written down a second time, row by row."""
    monkeypatch.setattr(module, "FULL_ENTRIES", 0)
    estimate = walked(2, num_steps, num_roots)
    N, model = estimate.counts.toarray(), estimate.model
    rows = model.transitions.toarray()
    home = np.isin(np.arange(estimate.num_states), estimate.roots) / num_roots
    for i, s in enumerate(estimate.pair_state):
        led = N[estimate.pair_state == s].sum(axis=0)
        near = led / led.sum() if led.any() else np.eye(estimate.num_states)[s]
        expected = (N[i] + 0.5 * ((1 - HOME) * near + HOME * home)) / (N[i].sum() + 0.5)
        np.testing.assert_allclose(rows[i], expected, rtol=1e-14)  # a few more sums than in full rows
        # Sparse: what no action of the state led to is not stored, but for the roots.
        assert np.count_nonzero(rows[i]) <= np.count_nonzero(near) + num_roots
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-15)


def test_the_border_between_full_and_sparse_rows_is_the_number_of_entries(monkeypatch):
    estimate = walked(2, 200)
    n, m = estimate.counts.shape
    assert (estimate.model.transitions.toarray() > 0).all()
    for entries, is_full in ((n * m, True), (n * m - 1, False)):
        monkeypatch.setattr(module, "FULL_ENTRIES", entries)
        again = walked(2, 200)
        assert (again.model.transitions.nnz == n * m) is is_full


def test_no_probability_is_so_small_that_a_linear_program_reads_it_as_zero():
    counts = sp.csr_array(np.array([[10**15, 0], [0, 0]]))
    estimate = Estimate(counts, np.array([0, 1]), np.zeros(2, np.int64), 1, np.array([0]))
    rows = estimate.model.transitions.toarray()
    assert rows[0, 1] == pytest.approx(LEAST, rel=1e-9)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_array_equal(rows[1], [0.5, 0.5])


def within(mean: np.ndarray, expected: np.ndarray, variance: np.ndarray, num: int) -> bool:
    """Returns whether means of `num` draws from [0, 1] are where Bernstein's inequality has them all."""
    level = np.log(2 * mean.size / CHANCE)
    width = level / (3 * num) + np.sqrt((level / (3 * num)) ** 2 + 2 * variance * level / num)
    return bool((np.abs(mean - expected) <= width).all())


def test_posterior_rows_have_the_mean_and_the_variance_of_the_dirichlet_distribution():
    """Two tests of 4 numbers each; Bernstein's inequality makes each fail with probability 1e-6 at most."""
    alike, draws, row = 300, 100, np.array([12, 3, 0, 1])
    estimate = Estimate(
        sp.csr_array(np.tile(row, (4 * alike, 1))), np.repeat(np.arange(4), alike),
        np.tile(np.arange(alike), 4), alike, np.array([0]), smoothing=2.0,
    )  # fmt: skip
    rng, num = np.random.default_rng(5), 4 * alike * draws
    X = np.concatenate([estimate.sample(rng).transitions.toarray() for _ in range(draws)])
    alpha = row + 2.0 / 4
    p = alpha / alpha.sum()
    variance = p * (1 - p) / (alpha.sum() + 1)
    assert within(X.mean(axis=0), p, variance, num)
    square = (X - p) ** 2  # in [0, 1], so its own variance is at most its mean
    assert within(square.mean(axis=0), variance, variance, num)
    # The mutant that adds k instead of k/m is told apart by these many draws.
    wrong = (row + 2.0) / (row + 2.0).sum()
    assert not within(X.mean(axis=0), wrong, variance, num)


def test_a_posterior_row_whose_draws_all_underflow_is_still_a_row():
    counts = sp.csr_array(np.zeros((3, 3), np.int64))
    estimate = Estimate(counts, np.arange(3), np.zeros(3, np.int64), 1, np.array([0]), smoothing=1e-6)
    for seed in range(50):
        rows = estimate.sample(np.random.default_rng(seed)).transitions.toarray()
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-15)
        assert rows.min() >= LEAST * (1 - 1e-9)


def test_the_same_generator_draws_the_same_model():
    estimate = walked(1, 50)
    one, other = (estimate.sample(np.random.default_rng([3, 7])) for _ in range(2))
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != estimate.sample(np.random.default_rng([3, 8])).fingerprint


@pytest.mark.parametrize("seed", range(3))
def test_who_knows_the_model_estimates_it_exactly(seed):
    world = random_model(seed, 7, 3, holes=0.5)
    exact = exact_estimate(world)
    np.testing.assert_array_equal(exact.model.transitions.toarray(), world.transitions.toarray())
    np.testing.assert_array_equal(exact.model.pair_action, world.pair_action)
    assert (exact.visits == np.inf).all()
    assert exact.num_pairs == world.num_pairs
    np.testing.assert_array_equal(
        exact.table(np.arange(world.num_pairs)), world.table(np.arange(world.num_pairs))
    )
