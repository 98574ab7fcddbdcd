"""Error bars of shares of visits: right for chains whose spread is known, and warning where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from rhocover.datasets import Tallier, Tally
from rhocover.datasets.best import Mixing, find_mixing


def sticky(num_steps: int, seed: int, stay: float, *, share: float = 0.5) -> np.ndarray:
    """Returns a chain on two states that stays with probability `stay`, redrawn from (1-share, share) else."""
    rng = np.random.default_rng(seed)
    fresh = (rng.random(num_steps) < share).astype(np.int64)
    last = np.maximum.accumulate(np.where(rng.random(num_steps) < stay, 0, np.arange(num_steps)))
    return fresh[last]


def tally_of(states: np.ndarray) -> Tally:
    tallier = Tallier(1)
    after = np.append(states[1:], 0)
    tallier.add(states, np.zeros(states.size, np.int64), after, np.zeros(states.size, bool))
    return tallier.tally()


def mixing_of(states: np.ndarray) -> Mixing:
    return find_mixing(tally_of(states))


@pytest.mark.parametrize("stay", [0.0, 0.5, 0.9])
def test_the_autocorrelation_time_is_that_of_the_chain(stay: float) -> None:
    """A chain that forgets with probability 1 - c a step has the time (1+c)/(1-c).

    K is at least 32, so the relative error of a variance of K batch means is sqrt(2/31) = 0.25 at most; the
    mean over 40 seeds has 0.04, and is allowed five of them.
    """
    times = [mixing_of(sticky(20_000, seed, stay)).autocorrelation_time for seed in range(40)]
    assert np.mean(times) == pytest.approx((1 + stay) / (1 - stay), rel=0.2)


def test_intervals_hold_the_true_share_as_often_as_they_say() -> None:
    """95 % intervals of 300 chains; fewer than the 1e-6 quantile of a binomial is a failure, 5e-7 by chance.

    Batch means are slightly dependent: at 20000/64 steps a stretch and a time of 19 the variance is short by
    about 19/312, so a level of 0.94 is what can be asked for.
    """
    held = 0
    for seed in range(300):
        mixing, states = None, sticky(20_000, seed, 0.9, share=0.3)
        mixing = mixing_of(states)
        held += abs(states.mean() - 0.3) <= mixing.half_width[1, 0]
    assert binom.ppf(1e-6, 300, 0.94) <= held <= binom.ppf(1 - 1e-6, 300, 0.97)


def test_effective_steps_are_steps_divided_by_the_time() -> None:
    mixing = mixing_of(sticky(20_000, 0, 0.8))
    assert mixing.effective_steps == pytest.approx(20_000 / mixing.autocorrelation_time)
    assert mixing.is_settled
    assert mixing.statement.startswith("settled: ")


def test_steered_visits_are_worth_more_than_independent_ones() -> None:
    mixing = mixing_of(np.arange(10_000) % 2)
    assert mixing.autocorrelation_time < 0.1
    assert mixing.is_settled


def test_a_behaviour_that_changed_is_noticed_and_one_that_did_not_is_not() -> None:
    """The test errs with CHANCE = 1e-3 a data set: more than 4 of 200 is an event of probability 2e-6."""
    before, after = sticky(10_000, 0, 0.5, share=0.3), sticky(10_000, 1, 0.5, share=0.6)
    mixing = mixing_of(np.concatenate([before, after]))
    assert mixing.num_changed == 2
    assert not mixing.is_settled
    assert (
        "2 pairs have another share in the second half" in mixing.statement
        or "autocorrelation" in mixing.statement
    )
    assert sum(mixing_of(sticky(10_000, seed, 0.5)).num_changed > 0 for seed in range(200)) <= 4


def test_a_chain_slower_than_the_stretches_is_called_too_short() -> None:
    """Forgetting once in 2000 steps, 20 000 steps have ten lives: neighbours are alike."""
    found = [mixing_of(sticky(20_000, seed, 1 - 1 / 2000)) for seed in range(20)]
    assert all(not mixing.is_settled for mixing in found)
    assert sum(mixing.statement.startswith("autocorrelation is too long") for mixing in found) >= 15


def test_shuffled_rows_are_called_that() -> None:
    states = sticky(20_000, 0, 0.9)
    tallier = Tallier(1)
    order = np.random.default_rng(0).permutation(states.size - 1)
    zeros = np.zeros(order.size, np.int64)
    tallier.add(states[:-1][order], zeros, states[1:][order], zeros.astype(bool))
    assert "do not begin in the next state of the row before" in find_mixing(tallier.tally()).statement


def test_a_few_steps_have_no_error_bars() -> None:
    mixing = mixing_of(sticky(7, 0, 0.0))
    assert np.isnan(mixing.error).all()
    assert "7 steps are too few" in mixing.statement
    assert np.isfinite(mixing_of(sticky(8, 0, 0.0)).error).all()
