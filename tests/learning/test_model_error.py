"""The error of an estimated model is the distance of its rows from the true ones, sparse or not."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from rhocover import envs
from rhocover.errors import InvalidArgumentError
from rhocover.learning.estimate import model_error, read_counts, row_errors, shrinkage
from rhocover.mdp import MDP
from small_models import random_model

SIGMAS = 4.9  # a normal variable is further out with probability 1e-6


def drawn(mdp: MDP, visits: int, seed: int) -> np.ndarray:
    """Returns counts [n, S]: every pair tried `visits` times."""
    return np.random.default_rng(seed).multinomial(visits, mdp.transitions.toarray())


def many_rows(num_pairs: int) -> MDP:
    rows = np.random.default_rng(3).dirichlet(np.full(4, 5.0), size=(4, num_pairs // 4))
    return MDP(rows)


# Closed forms.


def test_two_states_by_hand() -> None:
    truth = MDP([[[0.5, 0.5]], [[1.0, 0.0]]])
    found = model_error(truth, np.array([[3, 1], [0, 7]]))
    assert found.l1_mean == (0.5 + 2.0) / 2
    assert found.l2_mean == (2 / 16 + 2.0) / 2
    assert (found.l1_worst, found.l2_worst, found.worst_pair, found.num_unvisited) == (2.0, 2.0, 1, 0)


def test_exact_counts_have_no_error() -> None:
    truth = MDP([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.125, 0.875]]])
    found = model_error(truth, (truth.transitions.toarray() * 8).astype(int))
    assert (found.l1_mean, found.l1_worst, found.l2_mean, found.l2_worst) == (0.0, 0.0, 0.0, 0.0)


def test_unvisited_rows_are_uniform() -> None:
    truth = MDP([[[1.0, 0.0, 0.0, 0.0]]] + 3 * [[[0.25, 0.25, 0.25, 0.25]]])
    found = model_error(truth, sp.csr_array((4, 4), dtype=np.int64))
    assert (found.l1_worst, found.l1_mean, found.worst_pair) == (1.5, 1.5 / 4, 0)  # 3/4 + 3 times 1/4
    assert found.l2_worst == 0.75**2 + 3 * 0.25**2
    assert found.num_unvisited == 4


def test_one_state_is_always_known() -> None:
    truth = MDP(np.ones((1, 3, 1)))
    assert model_error(truth, np.array([[0], [1], [5]])).l1_worst == 0.0
    assert model_error(truth, np.array([[0], [1], [5]]), smoothing=0.5).l1_worst <= 1e-15  # one rounding


# A second method.


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_error_is_that_of_full_rows(seed: int, smoothing: float) -> None:
    truth = random_model(seed, 7, 3, holes=0.5)
    counts = drawn(truth, 6, seed)
    counts[::4] = 0
    weight = counts.sum(axis=1, keepdims=True) + smoothing
    with np.errstate(invalid="ignore"):
        estimate = np.where(weight > 0, (counts + smoothing / 7) / weight, 1 / 7)
    error = estimate - truth.transitions.toarray()
    l1, l2 = np.abs(error).sum(axis=1), (error**2).sum(axis=1)
    found = model_error(truth, sp.csr_array(counts), smoothing=smoothing)
    expected = (l1.mean(), l1.max(), l2.mean(), l2.max())
    got = (found.l1_mean, found.l1_worst, found.l2_mean, found.l2_worst)
    np.testing.assert_allclose(got, expected, rtol=1e-13)  # sums of 7 terms in another order
    assert found.worst_pair == np.argmax(l1)
    assert found.num_unvisited == (counts.sum(axis=1) == 0).sum()


def test_duplicate_and_stored_zero_entries_change_nothing() -> None:
    truth = MDP([[[0.5, 0.5]], [[1.0, 0.0]]])
    twice = sp.coo_array(([1, 2, 1, 0, 7], ([0, 0, 0, 1, 1], [0, 0, 1, 1, 0])), shape=(2, 2))
    assert model_error(truth, twice) == model_error(truth, [[3, 1], [7, 0]])


def test_a_large_model_is_never_stored_in_full() -> None:
    truth = envs.grid_world(num_rows=60)
    P = truth.transitions
    counts = sp.csr_array(((P.data > 0).astype(int), P.indices, P.indptr), shape=P.shape)
    tracemalloc.start()
    found = model_error(truth, counts, smoothing=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * truth.num_pairs * truth.num_states / 20  # full rows are 415 MB
    assert 0 < found.l1_mean < found.l1_worst < 2


# Statistics.


def test_the_expected_errors_are_the_asymptotic_ones() -> None:
    """E|P_hat - P|_1 = sum sqrt(2 p (1-p) / (pi N)), E|P_hat - P|_2^2 = sum p (1-p) / N, for N visits.

    The first is off by less than 1e-3 of itself at N p > 100; the mean over 10,000 independent rows is further
    than 4.9 standard errors (2% and 4%) from it with probability 1e-6.
    """
    truth, visits = many_rows(10_000), 10_000
    p = truth.transitions.toarray()
    counts = read_counts(truth, drawn(truth, visits, 11))
    l1, l2 = row_errors(truth, counts, *shrinkage(counts, 0.0))
    expected = np.sqrt(2 * p * (1 - p) / (np.pi * visits)).sum(axis=1).mean()
    assert abs(l1.mean() - expected) <= SIGMAS * l1.std() / 100 + 1e-3 * expected
    assert abs(l2.mean() - (p * (1 - p) / visits).sum(axis=1).mean()) <= SIGMAS * l2.std() / 100
    assert l1.std() / 100 < 0.01 * expected  # so that the band is narrow


def test_four_times_the_data_halve_the_error() -> None:
    """A ratio of two means with standard errors of 0.5% is off by more than 4% with probability below 1e-6."""
    truth = many_rows(10_000)
    ratio = (
        model_error(truth, drawn(truth, 1000, 1)).l1_mean / model_error(truth, drawn(truth, 4000, 2)).l1_mean
    )
    assert abs(ratio - 2) <= 0.08


# Bad input.


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        (np.zeros((3, 2), int), r"`transitions` must have shape \(2, 2\), got \(3, 2\)"),
        (np.zeros(2, int), "must have shape"),
        ([[1, -1], [0, 0]], r"non-negative, got transitions\[0, 1\] = -1"),
        (sp.csr_array([[1, 0], [0, -3]]), r"non-negative, got transitions\[1, 1\] = -3"),
        ([[0.5, 0.5], [1.0, 0.0]], "whole numbers, got dtype float64"),
        (np.zeros((2, 2), bool), "whole numbers, got dtype bool"),
        ([["1", "0"], ["0", "1"]], "whole numbers"),
        ([[1], [1, 2]], "rectangular"),
    ],
)
def test_what_is_no_count_is_refused(transitions, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        model_error(MDP([[[0.5, 0.5]], [[1.0, 0.0]]]), transitions)


@pytest.mark.parametrize("smoothing", [-0.1, np.inf, np.nan, "1", None])
def test_a_smoothing_constant_is_finite_and_not_negative(smoothing) -> None:
    with pytest.raises(InvalidArgumentError, match="`smoothing`"):
        model_error(MDP([[[0.5, 0.5]], [[1.0, 0.0]]]), [[1, 1], [1, 0]], smoothing=smoothing)
