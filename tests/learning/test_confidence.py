"""Confidence sets: against general solvers, against simulation at all times at once, and at their edges."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.stats import binom

from rhocover.errors import InvalidArgumentError
from rhocover.learning.confidence import (
    BALL,
    INTERVAL,
    ConfidenceSet,
    _evidence,
    make_confidence,
    mixture_interval,
)
from tiers import tiered


def random_counts(seed: int, n: int = 12, S: int = 6, mean: float = 20.0) -> np.ndarray:
    """Returns counts with sparse and full rows; the first row was never visited."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.4, mean / 0.4, size=(n, S)))
    counts[0] = 0
    return counts


def in_form(known: ConfidenceSet, form: int) -> ConfidenceSet:
    return replace(known, form=np.full(known.counts.shape[0], form))


def divergences(p_hat: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Returns KL(p_hat, p) along the last axis."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p_hat > 0, p_hat * np.log(p_hat / p), 0.0).sum(axis=-1)


def full_bounds(known: ConfidenceSet) -> tuple[np.ndarray, np.ndarray]:
    """Returns the intervals as dense (lower, upper), `[n, S]`."""
    counts, found = known.counts, known.intervals
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lower, upper = np.zeros(counts.shape), np.tile(found.unseen[:, None], counts.shape[1])
    lower[row, counts.indices], upper[row, counts.indices] = found.lower, found.upper
    return lower, upper


# --- maxima, against general solvers --------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_maximum_over_intervals_is_that_of_a_linear_program(seed):
    known = in_form(make_confidence(random_counts(seed), 0.1), INTERVAL)
    values = np.random.default_rng(seed).normal(size=6)
    lower, upper = full_bounds(known)
    highest, lowest = known.highest(values), known.lowest(values)
    for i in range(highest.size):
        bounds = list(zip(lower[i], upper[i], strict=True))
        for sign, found in ((-1, highest[i]), (1, lowest[i])):
            best = linprog(sign * values, A_eq=np.ones((1, 6)), b_eq=[1.0], bounds=bounds)
            assert found == pytest.approx(sign * best.fun, abs=1e-9)  # HiGHS' own tolerance is 1e-7 at worst


@pytest.mark.parametrize("seed", range(4))
def test_the_maximum_over_a_ball_is_that_of_a_conic_program(seed):
    counts = random_counts(seed, n=6, mean=[3.0, 20.0, 200.0, 2000.0][seed])
    known = in_form(make_confidence(counts, 0.1), BALL)
    values = np.random.default_rng(seed).normal(size=6)
    highest = known.highest(values)
    for i in np.flatnonzero(known.visits):
        p_hat, p = counts[i] / counts[i].sum(), cp.Variable(6, nonneg=True)
        seen = np.flatnonzero(p_hat)
        distance = cp.sum(cp.rel_entr(p_hat[seen], p[seen]))
        problem = cp.Problem(cp.Maximize(values @ p), [cp.sum(p) == 1, distance <= known.ball[i]])
        problem.solve(solver="CLARABEL")
        assert highest[i] == pytest.approx(problem.value, abs=1e-6)  # Clarabel's tolerance is 1e-8, scaled


@pytest.mark.parametrize("mean", [0.5, 5.0, 500.0, 1e8])
@pytest.mark.parametrize("form", [INTERVAL, BALL])
def test_rows_that_attain_the_maximum_lie_in_the_set(form, mean):
    for seed in range(5):
        counts = random_counts(seed, mean=mean)
        known = in_form(make_confidence(counts, 0.1), form)
        values = np.random.default_rng(seed).normal(size=6)
        rows = known.highest_rows(values).toarray()
        assert rows.min() >= 0
        assert rows.sum(axis=1) == pytest.approx(1.0, abs=1e-13)
        assert rows @ values == pytest.approx(known.highest(values), abs=1e-12)
        lower, upper = full_bounds(known)
        p_hat = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        if form == INTERVAL:
            assert (rows >= lower - 1e-15).all()
            assert (rows <= upper + 1e-15).all()
        else:  # the search stops within 1e-12 of the root
            assert (divergences(p_hat, rows) <= known.ball * (1 + 1e-7) + 1e-15).all()


def test_the_smaller_of_the_two_maxima_is_taken_and_a_settled_set_keeps_the_choice():
    known = make_confidence(random_counts(1), 0.1)
    values, others = np.random.default_rng(1).normal(size=(2, 6))
    both = [in_form(known, form).highest(values) for form in (INTERVAL, BALL)]
    assert known.highest(values) == pytest.approx(np.minimum(*both), abs=0)
    assert both[0] != pytest.approx(both[1], abs=1e-3)
    settled = known.settled_at(values)
    assert settled.highest(values) == pytest.approx(known.highest(values), abs=0)
    kept = np.array([in_form(known, form).highest(others) for form in (INTERVAL, BALL)])
    assert settled.highest(others) == pytest.approx(kept[settled.form - 1, np.arange(12)], abs=0)


def test_large_sparse_counts_give_what_each_row_gives_alone():
    """No row looks at another: one row's set at delta/n is its set among n."""
    drawn = sp.random_array((300, 400), density=0.01, format="csr", rng=np.random.default_rng(0))
    counts = sp.csr_array(
        (np.ceil(50 * drawn.data).astype(int), drawn.indices, drawn.indptr), shape=(300, 400)
    )
    values = np.random.default_rng(1).normal(size=400)
    together = make_confidence(counts, 0.3)
    for i in (0, 7, 299):
        alone = make_confidence(counts[[i]], 0.001)
        assert alone.highest(values)[0] == pytest.approx(together.highest(values)[i], abs=1e-12)


# --- probability ----------------------------------------------------------------------------------------


def paths(seed: int, rows: np.ndarray, steps: int) -> np.ndarray:
    """Returns cumulated counts `[steps, runs, S]` of draws from each row."""
    rng = np.random.default_rng(seed)
    drawn = (rng.random((steps, rows.shape[0], 1)) > np.cumsum(rows, axis=1)[None, :, :-1]).sum(axis=2)
    return np.cumsum(drawn[:, :, None] == np.arange(rows.shape[1]), axis=0)


RUNS, STEPS, SHARE = 1000, 2000, 0.1


def simulated(seed: int, S: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(seed).dirichlet(np.full(S, 0.5), size=RUNS)
    return rows, paths(seed + 1, rows, STEPS)


@pytest.mark.parametrize("S", [2, 5])
def test_a_ball_misses_its_row_at_any_time_no_more_often_than_promised(S):
    """Each row's ball has delta/2n, so at most 5% of runs may ever fail.

    A set that keeps the promise fails this test with probability 1e-6. A radius for one time, log(1/delta)
    without the price of looking again and again, does not pass.
    """
    rows, counts = simulated(S, S)
    missed, naive = np.zeros(RUNS, bool), np.zeros(RUNS, bool)
    for N in range(1, STEPS + 1):
        known = ConfidenceSet(sp.csr_array(counts[N - 1]), SHARE * RUNS)  # so that each row has SHARE / 2
        distance = divergences(counts[N - 1] / N, rows)
        missed |= distance > known.ball
        naive |= N * distance > np.log(2 / SHARE)
    allowed = binom.isf(1e-6, RUNS, SHARE / 2)
    assert missed.sum() <= allowed
    assert naive.sum() > allowed


@pytest.mark.parametrize("S", tiered([2, 5]))
def test_intervals_miss_an_entry_at_any_time_no_more_often_than_promised(S):
    """As above, for all entries of a row together; looking at fewer times can only miss less."""
    rows, counts = simulated(10 + S, S)
    missed = np.zeros(RUNS, bool)
    for N in [*range(1, 50), *range(50, STEPS + 1, 25)]:
        lower, upper = full_bounds(ConfidenceSet(sp.csr_array(counts[N - 1]), SHARE * RUNS))
        missed |= ((rows < lower) | (rows > upper)).any(axis=1)
    assert missed.sum() <= binom.isf(1e-6, RUNS, SHARE / 2)


def bernstein_interval(counts: np.ndarray, visits: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns (lower, upper) as `mixture_interval`, from the empirical variance; (0, 1) below two draws.

    Maurer and Pontil (2009, Theorem 4) on both sides with delta/(N (N+1)) for the N-th draw. It is what many
    methods use; it is wider than the mixture's, so the set does not spend any of its delta on it.
    """
    N = np.maximum(visits, 2).astype(float)
    p, level = counts / N, np.log(4 * N * (N + 1) / delta)
    width = np.sqrt(2 * p * (1 - p) * level / (N - 1)) + 7 * level / (3 * (N - 1))
    width = np.where(visits < 2, 1.0, width)
    return np.maximum(p - width, 0.0), np.minimum(p + width, 1.0)


def test_bernstein_intervals_miss_no_more_often_than_promised_and_are_wider():
    rng = np.random.default_rng(3)
    p = rng.random(RUNS) ** 3
    counts = np.cumsum(rng.random((STEPS, RUNS)) < p, axis=0)
    missed = np.zeros(RUNS, bool)
    for N in range(1, STEPS + 1):
        lower, upper = bernstein_interval(counts[N - 1], np.full(RUNS, N), SHARE)
        missed |= (p < lower) | (p > upper)
    assert missed.sum() <= binom.isf(1e-6, RUNS, SHARE)
    tighter = np.subtract(*mixture_interval(counts[-1], np.full(RUNS, STEPS), SHARE)[::-1])
    assert (tighter <= upper - lower).all()


# --- shape ----------------------------------------------------------------------------------------------


def test_thresholds_are_below_the_published_ones_with_a_flat_prior():
    """C(N+m-1, m-1) <= (e (1 + N/(m-1)))^(m-1), and no type class is larger than e^(N H)."""
    counts = random_counts(5, n=50, S=4, mean=300.0)[1:]
    N = counts.sum(axis=1)
    mixture = _evidence(N, 4.0) - _evidence(counts, 1.0).sum(axis=1)
    assert (mixture <= 3 * np.log(np.e * (1 + N / 3))).all()
    assert (mixture >= 0).all()  # no mixture of likelihoods is above the largest


@pytest.mark.parametrize("prior", [1e-4, 0.3, 0.5, 1.0])
def test_evidence_keeps_its_digits_for_counts_up_to_1e15(prior):
    for k in (1, 2, 49, 50, 51, 1000, 10**6, 10**15):
        with mpmath.workdps(50):
            a = mpmath.mpf(prior)
            exact = mpmath.loggamma(k + a) - mpmath.loggamma(a) - k * mpmath.log(k) + k
        assert _evidence(np.array([k]), prior)[0] == pytest.approx(float(exact), abs=2e-11)


def test_more_counts_in_the_same_shares_give_smaller_sets():
    counts, values = random_counts(2), np.random.default_rng(2).normal(size=6)
    sets = [make_confidence(counts * 4**k, 0.1) for k in range(12)]
    for small, large in zip(sets[1:], sets, strict=False):
        visited = large.visits > 0
        assert (small.ball[visited] < large.ball[visited]).all()
        assert (small.l1_radius <= large.l1_radius).all()
        assert (small.intervals.lower >= large.intervals.lower).all()
        assert (small.intervals.upper <= large.intervals.upper).all()
        assert (small.highest(values) <= large.highest(values) + 1e-12).all()
    shares = counts[1:] / counts[1:].sum(axis=1, keepdims=True)
    least = sets[-1].visits[sets[-1].visits > 0].min()
    width = np.sqrt(100 / least) * np.ptp(values)  # every threshold here is below 50
    assert sets[-1].highest(values)[1:][counts[1:].any(axis=1)] == pytest.approx(
        (shares @ values)[counts[1:].any(axis=1)], abs=width
    )


def test_an_unvisited_row_may_be_anything():
    known = make_confidence(np.zeros((2, 5), int), 0.1)
    values = np.array([0.0, 3.0, -1.0, 2.0, 1.0])
    assert (known.highest(values) == 3).all()
    assert (known.lowest(values) == -1).all()
    assert (known.l1_radius == 2).all()
    assert (known.intervals.unseen == 1).all()


def test_a_row_with_one_successor_has_closed_form_bounds():
    """p_hat = 1: N log 1/p <= threshold, so the lower bound is its exponential; the rest goes to one state."""
    known = make_confidence([[40, 0, 0]], 0.1)
    ball, found = float(known.ball[0]), known.intervals
    assert found.upper[0] == 1
    assert -40 * np.log(found.lower[0]) == pytest.approx(
        np.log(6 / 0.1) + _evidence(np.array([40]), 1.0)[0] - _evidence(np.array([40]), 1 / 3)[0], rel=1e-12
    )
    assert in_form(known, BALL).highest([0.0, 1.0, 0.5])[0] == pytest.approx(-np.expm1(-ball), rel=1e-9)
    assert in_form(known, BALL).highest([1.0, 0.0, 0.5])[0] == 1


def test_with_one_state_there_is_nothing_to_learn():
    known = make_confidence([[0], [7]], 0.1)
    assert known.highest([2.5]) == pytest.approx([2.5, 2.5], abs=1e-15)
    assert known.lowest([2.5]) == pytest.approx([2.5, 2.5], abs=1e-15)
    assert known.highest_rows([2.5]).toarray() == pytest.approx(np.ones((2, 1)), abs=1e-15)


def test_with_two_states_the_ball_is_an_interval():
    known = make_confidence([[30, 10]], 0.1)
    low, high = in_form(known, BALL).lowest([0.0, 1.0])[0], in_form(known, BALL).highest([0.0, 1.0])[0]
    for end in (low, high):
        assert divergences(np.array([0.75, 0.25]), np.array([1 - end, end])) == pytest.approx(
            known.ball[0], rel=1e-9
        )
    assert low < 0.25 < high


def test_constant_values_are_known_exactly():
    known = make_confidence(random_counts(3), 0.1)
    assert known.highest(np.full(6, 7.0)) == pytest.approx(7.0, abs=1e-14)


@pytest.mark.parametrize(
    ("counts", "delta", "message"),
    [
        ([[1.5, 2.0]], 0.1, "`counts` must hold whole numbers"),
        ([[1, -2]], 0.1, "`counts` must be non-negative, got -2"),
        ([1, 2], 0.1, "`counts` must be a matrix"),
        ([[1, 2]], 0.0, r"`delta` must be in \(0, 1\)"),
        ([[1, 2]], 1.0, r"`delta` must be in \(0, 1\)"),
    ],
)
def test_what_is_no_count_is_refused(counts, delta, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make_confidence(counts, delta)


def test_values_of_another_length_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"`values` must have shape \(2\), got \(3,\)"):
        make_confidence([[1, 2]], 0.1).highest([1.0, 2.0, 3.0])
