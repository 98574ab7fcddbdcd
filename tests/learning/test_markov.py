"""The test of whether states are Markov: it never cries wolf more often than it says, and it finds wolves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rhocover.errors import InvalidArgumentError
from rhocover.learning import markov_test
from rhocover.learning.markov import BURN_IN, CAUTION, FALSE_ALARM, SMALLEST
from tiers import tiered


def walk(P: np.ndarray, num_steps: int, seed: int, episode: int = 40):
    """Returns steps in a model, its actions chosen by what happened before: the least tried, mostly."""
    rng, (S, A, _) = np.random.default_rng(seed), P.shape
    tried, state, rows = np.zeros((S, A)), 0, []
    for t in range(num_steps):
        began = t % episode == 0
        state = 0 if began else state
        action = int(np.argmin(tried[state] + 3 * rng.random(A)))
        after = int(np.searchsorted(np.cumsum(P[state, action]), rng.random() * 0.999999))
        rows.append((state, action, after, began))
        tried[state, action] += 1
        state = after
    return tuple(np.array(rows, np.int64).T)


def sticky(num_steps: int, seed: int, *, repeat: float):
    """Returns steps of a coin that shows its last side again with probability `repeat`, seen through one state.

    State 0 is the coin in the air; state 1 and 2 are its sides, so that what it showed is two steps ago.
    """
    rng, side, rows = np.random.default_rng(seed), 1, []
    for t in range(num_steps):
        new = side if rng.random() < repeat else 3 - side
        rows += [(0, 0, new, t == 0), (new, 0, 0, False)]
        side = new
    return tuple(np.array(rows, np.int64).T)


@pytest.mark.parametrize(("num_models", "most"), tiered([(100, 4), (1000, 10)]))
def test_states_that_are_markov_are_said_not_to_be_less_often_than_stated(num_models, most):
    """Models of 3 to 6 states, whose actions follow from what happened: adaptive, sparse, episodic.

    More alarms have probability below 1e-7 if each has at most 1e-3; a chi-square table has hundreds.
    """
    alarms = 0
    for seed in range(num_models):
        S, A = 3 + seed % 4, 1 + seed % 3
        P = np.random.default_rng(seed).dirichlet(np.full(S, 0.3), (S, A))
        alarms += markov_test(*walk(P, 300, seed)).is_found
    assert alarms <= most


@pytest.mark.thorough
def test_the_bet_has_a_mean_of_one_at_most():
    """Markov's inequality needs no more. 1/p >= E, and E is at most 1 on average: by 4,000 fair coins.

    The mean of 1/p is dominated by rare large values, so the check is of the tail: P(1/p >= 20) <= 1/20. By
    Hoeffding, 4,000 draws exceed 0.05 + 0.043 with probability below 1e-6.
    """
    P = np.full((2, 1, 2), 0.5)
    large = [markov_test(*walk(P, 60, seed)).p_value <= 1 / 20 for seed in range(4000)]
    assert np.mean(large) <= 0.05 + 0.043


@pytest.mark.parametrize("repeat", [0.9, 0.1])
def test_a_coin_that_remembers_is_found_and_a_fair_one_is_not(repeat):
    """1,000 throws; the information is that of a bit: log 2 - H(0.9), a half of the steps have it."""
    found = markov_test(*sticky(1000, 0, repeat=repeat))
    exact = (math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / 2
    assert found.is_found
    assert found.p_value < 1e-30
    assert abs(found.information - exact) < 5 * found.standard_error < 0.1
    assert "not Markov" in str(found)
    fair = markov_test(*sticky(1000, 0, repeat=0.5))
    assert not fair.is_found
    assert abs(fair.information) < 5 / 1000
    assert "does not prove" in str(fair)


def test_a_memory_of_how_long_a_state_was_stood_on_is_found():
    """Seven steps here, seven there: the state before is always known, and only the time tells."""
    phase = np.arange(3000) // 7 % 2
    found = markov_test(phase[:-1], phase[:-1] * 0, phase[1:], np.arange(2999) == 0)
    assert found.is_found


def test_one_pair_that_remembers_among_many_that_do_not_is_found():
    """The product over pairs alone would pay log 2 for each of 300 others: the sum does not."""
    rng = np.random.default_rng(0)
    states, nexts = rng.integers(0, 300, (2, 30_000))
    memory = sticky(500, 1, repeat=0.95)
    columns = [np.concatenate([a, b]) for a, b in zip(
        memory, (states + 10, states * 0, nexts + 10, states >= 0), strict=True)]  # fmt: skip
    assert markov_test(*columns).is_found
    assert not markov_test(states, states * 0, nexts, states >= 0).is_found


def test_the_bet_is_the_one_that_is_written_down():
    """By hand, step by step: predict with the counts so far, divide by the best row in hindsight."""
    states, actions, nexts, began = sticky(40, 3, repeat=0.8)
    pairs: dict[int, list] = {}
    for k, (s, y) in enumerate(zip(states.tolist(), nexts.tolist(), strict=True)):
        history = "start" if began[k] else states[k - 1]  # no state here is stood on twice in a row
        pairs.setdefault(s, []).append((history, y))
    logs = []
    for steps in pairs.values():
        early, late = steps[:BURN_IN], steps[BURN_IN:]
        known = sorted({y for _, y in early})
        K = len(known) + 1
        n = {y: sum(z == y for _, z in early) for y in [*known, "other"]}
        base = {y: (n[y] + 0.5) / (BURN_IN + K / 2) for y in n}
        log, counts, total = 0.0, {}, {}
        for x, y in late:
            y = y if y in known else "other"
            log += math.log((counts.get((x, y), 0) + CAUTION * base[y]) / (total.get(x, 0) + CAUTION))
            counts[x, y], total[x] = counts.get((x, y), 0) + 1, total.get(x, 0) + 1
        for y in n:
            times = sum(counts.get((x, y), 0) for x in total)
            log -= times * math.log(times / len(late)) if times else 0.0
        logs.append(log)
    product = sum(math.log((1 + math.exp(log)) / 2) for log in logs)
    one = sum(math.exp(log) / (k * (k + 1)) for k, log in enumerate(logs, 1)) + 1 / (len(logs) + 1)
    expected = math.exp(product) / 2 + one / 2
    found = markov_test(states, actions, nexts, began)
    assert found.p_value == pytest.approx(min(1.0, 1 / expected), rel=1e-9)
    assert found.p_value < 1


def test_copies_that_take_turns_are_read_each_for_itself():
    """Each throw of a fair coin is told twice, by two copies: only as one sequence do they seem to remember."""
    throws = [column.reshape(-1, 2) for column in sticky(600, 0, repeat=0.5)]
    columns = [np.stack([column, column], axis=1).ravel() for column in throws]
    copies = np.arange(columns[0].size) // 2 % 2
    assert not markov_test(*columns, copies).is_found
    assert markov_test(*columns).is_found


def test_too_few_visits_are_not_tested_and_that_is_said():
    for num_steps in (0, 1, BURN_IN):
        zeros = np.zeros(num_steps, np.int64)
        found = markov_test(zeros, zeros, zeros, zeros == 1)
        assert found.p_value == 1
        assert found.num_tested == 0
        assert math.isnan(found.information)
        assert "not tested" in str(found)
        assert found.document()["information"] is None


def test_a_p_value_stays_above_zero():
    found = markov_test(*sticky(3000, 0, repeat=0.99))
    assert found.p_value == SMALLEST < FALSE_ALARM
    assert "p < 1e-99" in str(found)


def test_columns_that_do_not_fit_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"one entry per step.*'nexts': 2"):
        markov_test([0, 1, 0], [0, 0, 0], [1, 0], [True, False, False])
    with pytest.raises(InvalidArgumentError, match="`states` must hold whole numbers"):
        markov_test([0.5], [0], [0], [True])
