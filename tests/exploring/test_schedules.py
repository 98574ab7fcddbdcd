"""Episode lengths in exact integers: the theorem's formulas hold at 10^12 steps as they do at 10."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rhocover as rc
from rhocover.errors import InvalidArgumentError, UnknownNameError
from rhocover.exploring.explorers.algorithm1 import SCHEDULES, check_schedule, read_schedule
from rhocover.exploring.explorers.registry import (
    explorer_document,
    explorer_from_document,
    explorer_names,
    make_explorer,
)

reproducible = settings(max_examples=200, deadline=None, derandomize=True)
FIRST = [rc.Quadratic, rc.Power, rc.Doubling, rc.LineSearch]


# --- the theorem's schedule ---------------------------------------------------------------------------


@pytest.mark.parametrize("tau_1", [1, 7, 10, 1000])
def test_the_steps_before_an_episode_are_the_lengths_of_all_before_it(tau_1):
    schedule, t = rc.Quadratic(tau_1), 0
    for k in range(1, 2000):
        assert schedule.begins(k) == t
        t += schedule.length(k, t)


@reproducible
@given(st.integers(1, 10**9), st.integers(1, 10**12))
def test_times_and_step_sizes_are_exact_at_any_size(tau_1, k):
    """t_k - 1 = tau_1 (k-1)k(2k-1)/6 and beta_k = 6k/((k+1)(2k+1)), in fractions."""
    schedule = rc.Quadratic(tau_1)
    t, tau, later = schedule.begins(k), schedule.length(k, 0), schedule.begins(k + 1)
    assert t == Fraction(tau_1 * (k - 1) * k * (2 * k - 1), 6)
    assert later - t == tau == tau_1 * k**2
    beta = Fraction(tau, later)
    assert beta == Fraction(6 * k, (k + 1) * (2 * k + 1))
    assert Fraction(1, k) <= beta < Fraction(3, k)
    assert (beta == 1) == (k == 1)


def test_a_run_of_more_than_a_million_million_steps_is_counted_to_the_last():
    schedule = rc.Quadratic(10)
    k = 6694  # the episode in which 10^12 falls
    assert schedule.begins(k) <= 10**12 < schedule.begins(k + 1)
    assert schedule.begins(k) == sum(10 * j * j for j in range(1, k))
    assert isinstance(schedule.length(10**9, 10**27), int)


# --- fractional powers --------------------------------------------------------------------------------


def is_ceiling(value: int, tau_1: int, k: int, p: Fraction) -> bool:
    """Whether `value` is the smallest integer >= tau_1 k^p, by integers alone."""
    target = tau_1**p.denominator * k**p.numerator
    return value**p.denominator >= target and (value - 1) ** p.denominator < target


@reproducible
@given(st.integers(1, 10**6), st.integers(1, 10**9), st.fractions(0, 4, max_denominator=64))
def test_a_power_is_rounded_up_from_its_exact_value(tau_1, k, p):
    assert is_ceiling(rc.Power(tau_1, float(p)).length(k, 0), tau_1, k, p)


@pytest.mark.parametrize("p", [0.5, 1.5, 1.25, 2 / 3, 2.0, 0.0])
@pytest.mark.parametrize("k", [1, 2, 3, 10**4, 10**8 + 1, 10**15])
def test_a_power_agrees_with_fifty_digits_of_decimal_arithmetic(k, p):
    with localcontext() as context:
        context.prec = 80
        exact = 10 * Decimal(k) ** (Decimal(Fraction(p).limit_denominator(64).numerator)
                                    / Decimal(Fraction(p).limit_denominator(64).denominator))  # fmt: skip
        nearest = exact.to_integral_value()
        expected = nearest if abs(exact - nearest) < Decimal(10) ** -40 else math.ceil(exact)
    assert rc.Power(10, p).length(k, 0) == int(expected)


def test_a_power_of_two_is_the_quadratic_schedule():
    for k in (1, 2, 99, 10**9 + 7):
        assert rc.Power(13, 2.0).length(k, 0) == rc.Quadratic(13).length(k, 0)


def test_floats_would_have_been_wrong():
    # The mutant ceil(tau_1 * k ** p): at k = 10^16 + 1 its square root is one of 10^8.
    k = 10**16 + 1
    assert rc.Power(1, 0.5).length(k, 0) == 10**8 + 1
    assert math.ceil(1 * k**0.5) == 10**8


# --- the others ---------------------------------------------------------------------------------------


def test_doubling_takes_as_many_steps_as_there_were():
    t, schedule = 0, rc.Doubling(10)
    for k in range(1, 60):
        t += schedule.length(k, t)
        assert t == 10 * 2 ** (k - 1)


def test_a_share_of_the_way_takes_its_share_of_the_steps():
    """After tau more steps d_hat has moved tau/(t + tau) of the way."""
    schedule = rc.LineSearch(10)
    for t in (100, 10**6, 10**12):
        for share in (0.01, 0.2, 0.49):
            tau = schedule.stretch(t, share)
            assert (tau - 1) / (t + tau - 1) < share <= (tau + 1e-6 * tau) / (t + tau) or tau == 10
        assert schedule.stretch(t, 0.0) == 10
        assert schedule.stretch(t, 0.5) == schedule.stretch(t, 1.0) == t


def test_a_constant_schedule_is_constant():
    assert {rc.Constant(50).length(k, 10 * k) for k in range(1, 100)} == {50}


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", FIRST)
@pytest.mark.parametrize("tau_1", [0, -1, np.int64(-5)])
def test_a_first_episode_without_steps_is_refused(schedule, tau_1):
    with pytest.raises(InvalidArgumentError, match=rf"^`tau_1` must be at least 1, got {tau_1}\.$"):
        schedule(tau_1)


@pytest.mark.parametrize("schedule", FIRST)
@pytest.mark.parametrize("tau_1", [10.5, "10", None, True, np.float64(3.5), Fraction(3)])
def test_a_first_episode_is_a_whole_number_of_steps(schedule, tau_1):
    with pytest.raises(InvalidArgumentError, match=r"^`tau_1` must be a whole number, got "):
        schedule(tau_1)


@pytest.mark.parametrize("tau", [0, -3])
def test_a_constant_schedule_without_steps_is_refused(tau):
    with pytest.raises(InvalidArgumentError, match=rf"^`tau` must be at least 1, got {tau}\.$"):
        rc.Constant(tau)


@pytest.mark.parametrize("p", [-0.1, 17, math.inf])
def test_an_exponent_outside_its_range_is_refused(p):
    with pytest.raises(InvalidArgumentError, match=rf"^`p` must be in \[0, 16\], got {p:g}\.$"):
        rc.Power(10, p)


@pytest.mark.parametrize("p", [math.nan, "2", None, 2j])
def test_an_exponent_is_a_number(p):
    with pytest.raises(InvalidArgumentError, match=r"^`p` must be a number, got "):
        rc.Power(10, p)


# --- texts and documents ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quadratic:10", rc.Quadratic(10)),
        ("quadratic", rc.Quadratic()),
        ("power:10,1.5", rc.Power(10, 1.5)),
        ("power:7,2", rc.Power(7, 2.0)),
        ("constant:50", rc.Constant(50)),
        ("doubling:3", rc.Doubling(3)),
        ("line_search:20", rc.LineSearch(20)),
    ],
)
def test_a_schedule_is_read_from_its_text(text, expected):
    assert read_schedule(text) == expected
    assert check_schedule(text) == expected
    assert rc.Algorithm1(schedule=text).schedule == expected


@pytest.mark.parametrize(
    "text", ["quadratic:ten", "constant:1,2", "power:1,2,3", "quadratic:1e3", "power:10,x"]
)
def test_a_text_that_is_no_schedule_is_refused_with_what_was_expected(text):
    name = text.partition(":")[0]
    with pytest.raises(InvalidArgumentError) as caught:
        read_schedule(text)
    expected = (
        f"`schedule` {text!r} cannot be read: expected {name}:TAU, or power:TAU,P. Pass schedule='{name}:"
    )
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("text", "name"), [("quadratic:0", "tau_1"), ("constant:-1", "tau"), ("power:10,99", "p")]
)
def test_a_text_with_numbers_out_of_range_is_refused_for_the_number(text, name):
    with pytest.raises(InvalidArgumentError, match=rf"^`{name}` must be "):
        read_schedule(text)


def test_an_unknown_schedule_is_refused_with_all_names():
    with pytest.raises(UnknownNameError) as caught:
        rc.Algorithm1(schedule="cubic:3")
    assert str(caught.value).startswith("unknown schedule 'cubic'.")
    for name in SCHEDULES:
        assert name in str(caught.value)


@pytest.mark.parametrize("schedule", [None, 10, rc.Quadratic, object(), ["quadratic", 10]])
def test_what_is_no_schedule_is_refused_with_what_is(schedule):
    with pytest.raises(InvalidArgumentError, match=r"^`schedule` must be .* Quadratic\(\).* LineSearch\(\)"):
        check_schedule(schedule)


@pytest.mark.parametrize(
    "schedule", [rc.Quadratic(3), rc.Power(4, 1.25), rc.Constant(9), rc.Doubling(), rc.LineSearch(2)]
)
def test_an_explorer_comes_back_from_its_document_unchanged(schedule):
    import json

    explorer = rc.Algorithm1(schedule=schedule, eta=0.001, count_floor=0.25, oracle="fixed_point")
    document = json.loads(json.dumps(explorer_document(explorer)))
    assert explorer_from_document(document) == explorer


@pytest.mark.parametrize("name", explorer_names())
def test_every_named_explorer_comes_back_from_its_document_unchanged(name):
    explorer = make_explorer(name)
    assert explorer_from_document(explorer_document(explorer)) == explorer
