"""Whatever is wrong with an argument of planning, the error is ours and names the argument.

Every call goes through `plan`, as a user's would; Hypothesis looks for values that slip through. What is
wrong with a model itself is in `test_transitions.py` and `test_mdp.py`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rhocover as rc
from rhocover.errors import InfeasibleFloorError, InvalidArgumentError, NotCommunicatingError, RhocoverError
from tiers import tiered

RIVER = rc.envs.river_swim()
INF = float("inf")
reproducible = settings(max_examples=60, deadline=None, derandomize=True)

NOT_A_NUMBER = [
    "2", "inf", "", b"2", bytearray(b"2"), memoryview(b"2"), True, False, np.True_, math.nan, 1j,
    np.complex64(1), np.complex128(2), [2.0], (2.0,), {}, {2}, np.array([2.0]), np.array("2"),
    np.float32("nan"), np.array([]), np.array(True), object(), float,
    np.datetime64("2020-01-01"), np.timedelta64(1, "s"),
]  # fmt: skip
# What float() or NumPy would read without complaint, though it is not a real number.
not_a_number = st.sampled_from([*NOT_A_NUMBER, 10**400]) | st.text() | st.binary() | st.complex_numbers()
not_an_int = st.sampled_from(
    [*NOT_A_NUMBER, 2.5, np.float64(3.5), Fraction(2), np.array(2)]
) | st.floats().filter(lambda number: not number.is_integer())


def refused(name: str, mdp=RIVER, **arguments) -> RhocoverError:
    """Returns the error of ours that planning raises; it must name the argument."""
    with pytest.raises(RhocoverError) as caught:
        rc.plan(mdp, **{"rho": 2.0} | arguments)
    message = str(caught.value)
    assert f"`{name}`" in message or f"{name}=" in message, message
    assert message.endswith(".")
    return caught.value


# --- rho ----------------------------------------------------------------------------------------------


@reproducible
@given(not_a_number | st.none())
def test_rho_is_a_number(rho):
    refused("rho", rho=rho)


@reproducible
@given(st.floats(max_value=-1e-300) | st.integers(max_value=-1))
def test_rho_is_not_negative(rho):
    assert "[0, inf]" in str(refused("rho", rho=rho))


@pytest.mark.parametrize(
    "rho", [2, np.int64(2), np.uint8(2), np.float32(2), np.array(2.0), Fraction(2), 2.0], ids=repr
)
def test_any_real_number_that_is_two_is_rho_two(rho):
    assert rc.plan(RIVER, rho).divergence == rc.plan(RIVER, 2.0).divergence


def test_at_rho_zero_every_pair_needs_a_weight():
    error = refused("rho", rho=0, mu=rc.weights.mask(RIVER, np.arange(6) < 5))
    assert "zero weight" in str(error)


# --- mu -----------------------------------------------------------------------------------------------


@reproducible
@given(
    hnp.arrays(float, (6, 2), elements=st.floats(0, 10)),
    st.integers(0, 5),
    st.integers(0, 1),
    st.sampled_from([math.nan, INF, -INF, -1e-300, -3.0]),
)
def test_mu_is_finite_and_not_negative(mu, state, action, bad):
    mu[state, action] = bad
    refused("mu", mu=mu)
    refused("mu", mu=RIVER.per_pair(np.where(np.isfinite(mu), mu, -1.0), "mu"))
    refused("mu", mu=np.broadcast_to(mu, (6, 6, 2)), horizon=6)


@pytest.mark.parametrize("criterion", [{}, {"discount": 0.9}, {"horizon": 4}])
def test_mu_has_a_positive_entry(criterion):
    assert "positive" in str(refused("mu", mu=np.zeros((6, 2)), **criterion))


@reproducible
@given(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=13))
def test_mu_has_the_shape_of_the_pairs(shape):
    if shape in ((6, 2), (12,)):
        return
    error = refused("mu", mu=np.ones(shape))
    assert str(shape) in str(error)


@reproducible
@given(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7))
def test_mu_of_a_horizon_has_the_shape_of_its_steps(shape):
    if shape in ((6, 2), (12,), (4, 6, 2), (20,)):
        return
    error = refused("mu", mu=np.ones(shape), horizon=4)
    assert "(4, 6, 2)" in str(error)


@pytest.mark.parametrize(
    "mu",
    [np.ones((6, 2), bool), np.ones((6, 2), complex), np.ones((6, 2), object), np.full((6, 2), "1"), "equal",
     [[1], [1, 2]], {"a": 1}, sp.csr_array(np.ones((6, 2))), np.full((6, 2), None), [[1.0, 10**400]] * 6],
    ids=lambda mu: type(mu).__name__,
)  # fmt: skip
def test_mu_is_an_array_of_real_numbers(mu):
    refused("mu", mu=mu)


@pytest.mark.parametrize(
    ("mu", "told"),
    [
        (
            {(0, 0): 1.0},
            "got a dict. Put its values into an array: mu = np.zeros(shape), then mu[key] = value",
        ),
        (
            [[True, False]] * 6,
            "got dtype bool. Convert it first, for example with np.array(mu).astype(float).",
        ),
        (np.ones((6, 2), bool), "got dtype bool. Convert it first, for example with mu.astype(float)."),
        (object(), "got one of type object. Pass an array or a list of numbers."),
    ],
    ids=["dict", "list", "array", "object"],
)
def test_the_way_out_fits_what_came(mu, told):
    assert told in str(refused("mu", mu=mu))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.longdouble])
def test_weights_of_any_real_type_are_read_and_not_touched(dtype):
    mu = np.array([[1, 2]] * 6, dtype)
    before = mu.copy()
    assert rc.plan(RIVER, 2.0, mu).divergence == rc.plan(RIVER, 2.0, mu.astype(float)).divergence
    np.testing.assert_array_equal(mu, before)
    assert mu.dtype == dtype
    assert mu.flags.writeable


# --- discount, horizon, start -------------------------------------------------------------------------


@reproducible
@given(not_a_number)
def test_a_discount_is_a_number(discount):
    refused("discount", discount=discount)


@reproducible
@given(st.floats(max_value=0) | st.floats(min_value=1))
def test_a_discount_is_between_zero_and_one(discount):
    assert "(0, 1)" in str(refused("discount", discount=discount))


@reproducible
@given(not_an_int)
def test_a_horizon_is_a_whole_number(horizon):
    refused("horizon", horizon=horizon)


@reproducible
@given(st.integers(max_value=0))
def test_a_horizon_is_at_least_one(horizon):
    assert "at least 1" in str(refused("horizon", horizon=horizon))


@pytest.mark.parametrize("horizon", [10**9, 10**15, 10**400])
def test_a_horizon_is_not_longer_than_solvers_can_number(horizon):
    assert "at most 178956970 for 12 pairs" in str(refused("horizon", horizon=horizon))  # (2^31 - 1) / 12


def test_a_discount_and_a_horizon_exclude_each_other():
    refused("horizon", discount=0.9, horizon=4)
    refused("discount", discount=0.9, horizon=4)


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 4}])
def test_restarts_need_a_start(criterion):
    refused("start", mdp=rc.MDP(np.full((2, 1, 2), 0.5)), **criterion)


@pytest.mark.parametrize("criterion", [{}, {"discount": 0.9}, {"horizon": 9}])
@reproducible
@given(
    st.integers(max_value=-1)
    | st.integers(min_value=6)
    | st.floats()
    | st.text()
    | st.sampled_from([True, np.False_, {}, 1j, [], [1.0], np.ones((6, 1)) / 6, np.ones(7) / 7, object()])
    | st.sampled_from([[0.5] * 6, [1.5, -0.5, 0, 0, 0, 0], [math.nan] * 6, [INF] * 6, [0.0] * 6, ["0"] * 6])
    | st.sampled_from([[True] + 5 * [False], [[1], [0, 0]], [1e308] * 6, sp.csr_array(np.eye(6)[:1])])
)
def test_a_start_is_a_state_or_a_distribution(criterion, start):
    # Also where it is not needed: a start that is wrong is a mistake of the caller's.
    refused("start", start=start, **criterion)


# --- eta ----------------------------------------------------------------------------------------------


@reproducible
@given(not_a_number | st.none())
def test_a_floor_is_a_number(eta):
    refused("eta", eta=eta)


@reproducible
@given(st.floats(max_value=-1e-300) | st.floats(min_value=0.5))
def test_a_floor_is_between_zero_and_one_half(eta):
    assert "[0, 1/2)" in str(refused("eta", eta=eta))


@reproducible
@given(st.floats(0.0217, 0.4999))
def test_a_floor_that_no_occupancy_has_is_refused_with_the_largest(eta):
    # t*/2 of RiverSwim-6 is 0.02168690.
    error = refused("eta", eta=eta)
    assert isinstance(error, InfeasibleFloorError)
    assert error.eta_max == pytest.approx(0.0433737987 / 2, abs=1e-9)
    assert "0.02169" in str(error)


@pytest.mark.parametrize("criterion", [{"discount": 0.9}, {"horizon": 9}])
def test_a_floor_that_no_restarting_occupancy_has_is_refused_too(criterion):
    error = refused("eta", eta=0.4, **criterion)
    assert isinstance(error, InfeasibleFloorError)
    assert 0 < error.eta_max < 0.1


# --- the rest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mdp", [None, 3, "river_swim", np.ones((1, 1, 1)), [[[1.0]]], rc.MDP])
def test_the_model_is_an_mdp(mdp):
    refused("mdp", mdp=mdp)


@reproducible
@given(not_a_number | st.floats(max_value=0))
def test_a_tolerance_is_a_positive_number(tol):
    refused("tol", tol=tol)


@reproducible
@given(not_an_int | st.integers(max_value=0))
def test_a_step_limit_is_a_whole_number_of_at_least_one(max_steps):
    refused("max_steps", max_steps=max_steps)


@pytest.mark.parametrize("method", ["interior", "", None, 3, ["leximin"], b"leximin"])
def test_an_unknown_method_is_answered_with_the_known_ones(method):
    with pytest.raises(RhocoverError, match=r"unknown method .* Known: .*interior_point"):
        rc.plan(RIVER, 2.0, method=method)


def test_leximin_needs_the_worst_case_and_takes_no_floor():
    assert "leximin" in str(refused("rho", method="leximin"))
    assert "leximin" in str(refused("eta", rho=INF, eta=0.01, method="leximin"))


def test_pairs_that_cannot_be_visited_for_ever_are_named_by_their_labels():
    mdp = rc.MDP([[[0.0, 1.0]], [[0.0, 1.0]]], state_labels=["shore", "sea"], start=1)
    for criterion in ({}, {"discount": 0.5}, {"horizon": 3}):
        with pytest.raises(NotCommunicatingError, match=r"\(shore, 0\).*restrict=True") as caught:
            rc.plan(mdp, 2.0, **criterion)
        assert caught.value.pairs == ((0, 0),)


# --- the smallest models are no mistake ---------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 64, INF], short=[2]))
@pytest.mark.parametrize("criterion", tiered([{}, {"discount": 0.9}, {"horizon": 2}]))
@pytest.mark.parametrize(("S", "A"), tiered([(1, 1), (1, 3), (3, 1)]))
def test_one_state_or_one_action_is_planned_for(rho, criterion, S, A):
    # P(s'|s,a) = 1/S and equal weights: uniform is the closed form for every rho.
    best = rc.plan(rc.MDP(np.full((S, A, S), 1 / S), start=np.full(S, 1 / S)), rho, **criterion)
    assert abs(best.divergence) <= 1e-8  # the planner's tolerance
    # Pinsker: rho/2 |d - u|^2 <= D_rho for rho <= 1, and D_rho grows with rho: at rho = 1/2 this is 2e-4.
    np.testing.assert_allclose(best.occupancy, 1 / best.occupancy.size, rtol=0, atol=2e-4)


def test_every_refusal_is_a_value_error_too():
    with pytest.raises(ValueError, match="`rho`"):
        rc.plan(RIVER, -1)
    assert issubclass(InvalidArgumentError, ValueError)
