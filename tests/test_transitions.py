"""Every way to hand over transition probabilities gives the same model, and what is no model is refused.

Refusals are properties: Hypothesis breaks one thing of a valid model, and the error must be one of ours
and name the place. The caller's own arrays are never touched.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover import MDP
from rhocover.errors import InvalidArgumentError, InvalidModelError
from rhocover.transitions import check_fits_in_memory

FORMATS = ["csr", "csc", "coo", "bsr", "dok", "lil", "dia"]
reproducible = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def dense_models(draw):
    """Draws P `[S, A, S]` with one to five states and actions and a third of its entries zero."""
    S, A = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.67)
    P[..., 0] += P.sum(axis=2) == 0
    return P / P.sum(axis=2, keepdims=True)


@st.composite
def models_with_a_place(draw):
    """Draws P and the index of one of its entries."""
    P = draw(dense_models())
    return P, tuple(draw(st.integers(0, size - 1)) for size in P.shape)


def same(left: MDP, right: MDP) -> bool:
    return left.fingerprint == right.fingerprint and left.num_actions == right.num_actions


def rows_of(P):
    return P.reshape(-1, P.shape[2])


# --- one model, many forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(P=dense_models())
def test_dense_and_sparse_of_every_format_give_the_same_bits(format, container, P):
    # A mutant that reads rows as a*S + s gives another model.
    matrix = container(rows_of(P)).asformat(format)
    assert same(MDP(matrix, num_actions=P.shape[1]), MDP(P))


@reproducible
@given(dense_models())
def test_listed_pairs_in_any_order_give_the_same_bits(P):
    S, A, _ = P.shape
    order = np.random.default_rng(0).permutation(S * A)
    shuffled = MDP.from_pairs(rows_of(P)[order], order // A, order % A)
    assert same(shuffled, MDP(P))
    assert same(MDP.from_pairs(sp.csc_array(rows_of(P)[order]), order // A, order % A), MDP(P))


@reproducible
@given(dense_models())
def test_a_list_of_lists_is_an_array(P):
    assert same(MDP(P.tolist()), MDP(P))


@reproducible
@given(dense_models())
def test_a_model_read_again_is_the_same_to_the_bit(P):
    # The rows were divided by their sums once; dividing again would move last bits.
    mdp = MDP(P)
    assert same(MDP(mdp.dense()), mdp)
    assert same(MDP(mdp.transitions, num_actions=mdp.num_actions), mdp)
    assert same(MDP.from_pairs(mdp.transitions, mdp.pair_state, mdp.pair_action), mdp)


@pytest.mark.parametrize("num_states", [3, 100, 1000, 30_000])
def test_rows_over_many_states_are_also_read_again_to_the_bit(num_states):
    # Uniform rows are the worst case: every addition of 1/n rounds the same way.
    row = np.full(num_states, 1 / num_states)
    first = sp.csr_array((row, (np.zeros(num_states, int), np.arange(num_states))), shape=(1, num_states))
    others = sp.eye_array(num_states, format="csr")[1:]
    mdp = MDP(sp.vstack([first, others], format="csr"), num_actions=1)
    assert same(MDP(mdp.transitions, num_actions=1), mdp)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.longdouble]
)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array])
def test_any_real_type_of_number_is_read(dtype, form):
    P = np.zeros((3, 2, 3))
    P[:, 0, 0] = P[:, 1, 2] = 1
    given = form(rows_of(P).astype(dtype))
    arguments = {"num_actions": 2} if sp.issparse(given) else {}
    given = given if sp.issparse(given) else given.reshape(P.shape)
    mdp = MDP(given, **arguments)
    assert same(mdp, MDP(P))
    assert mdp.transitions.dtype == np.float64


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_float32_rows_are_divided_by_their_sums(form):
    # Ten times 0.1 in float32 is off by 1e-8 to 1e-7: above the tolerance of float64, and to be repaired.
    P = np.full((10, 1, 10), 0.1, np.float32)
    P[:, :, 0] += np.float32(3e-7)
    mdp = MDP(P) if form == "dense" else MDP(sp.csr_array(rows_of(P)), num_actions=1)
    assert abs(rows_of(P).astype(float).sum(axis=1) - 1).max() > 1e-8
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1, rtol=0, atol=4e-16)
    np.testing.assert_allclose(mdp.dense(), P / P.astype(float).sum(axis=2, keepdims=True), rtol=1e-15)
    with pytest.raises(InvalidModelError, match=r"P\[0, 0\] sums to"):
        MDP(P.astype(float))


def test_float16_is_read_like_float32():
    P = np.full((4, 1, 4), 0.25, np.float16)
    assert same(MDP(P), MDP(np.full((4, 1, 4), 0.25)))
    assert same(MDP.from_pairs(rows_of(P), [0, 1, 2, 3], [0] * 4), MDP(P))


# --- sparse input in disorder -------------------------------------------------------------------------


@reproducible
@given(dense_models(), st.integers(0, 2**32 - 1))
def test_duplicate_and_unsorted_entries_are_put_in_order_on_a_copy(P, seed):
    # Halves of each entry, shuffled within their row: exact in float64, so the sum is the entry again.
    rng = np.random.default_rng(seed)
    canonical = sp.csr_array(rows_of(P))
    data, indices, indptr = [], [], [0]
    for start, stop in zip(canonical.indptr[:-1], canonical.indptr[1:], strict=True):
        order = rng.permutation(2 * (stop - start))
        data.append(np.tile(canonical.data[start:stop] / 2, 2)[order])
        indices.append(np.tile(canonical.indices[start:stop], 2)[order])
        indptr.append(indptr[-1] + order.size)
    arrays = np.concatenate(data), np.concatenate(indices), np.array(indptr)
    copies = [array.copy() for array in arrays]
    mine = sp.csr_array(arrays, shape=canonical.shape, copy=False)
    assert same(MDP(mine, num_actions=P.shape[1]), MDP(P))
    assert same(MDP.from_pairs(mine, *np.divmod(np.arange(mine.shape[0]), P.shape[1])), MDP(P))
    for array, copy, kept in zip(arrays, copies, (mine.data, mine.indices, mine.indptr), strict=True):
        np.testing.assert_array_equal(array, copy)
        np.testing.assert_array_equal(kept, copy)
        assert kept.flags.writeable


def test_explicit_zeros_are_dropped_without_touching_the_callers_matrix():
    mine = sp.csr_array((np.array([1.0, 0.0, -0.0, 1.0]), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))
    mdp = MDP(mine, num_actions=1)
    assert mdp.transitions.nnz == 2
    assert mine.nnz == 4
    assert same(mdp, MDP(np.eye(2)[:, None, :]))


@pytest.mark.parametrize("format", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [-1, 2, 7, 2**30])
def test_an_index_outside_the_matrix_is_refused_before_scipy_reads_there(format, index):
    matrix = sp.csr_array(np.array([[0.5, 0.5], [0.25, 0.75]])).asformat(format)
    matrix.indices = matrix.indices.copy()
    matrix.indices[-1] = index
    for build in (lambda: MDP(matrix, num_actions=1), lambda: MDP.from_pairs(matrix, [0, 1], [0, 0])):
        with pytest.raises(InvalidModelError, match=f"is not a valid {format} matrix"):
            build()


# --- the caller's arrays ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["dense", *FORMATS])
def test_the_callers_array_is_not_changed(format):
    # The first row is divided by its sum: a mutant without a copy writes into the caller's array.
    P = np.full((2, 2, 2), 0.5)
    P[0, 0] = [0.5 + 2e-9, 0.5]
    mine = P.copy() if format == "dense" else sp.csr_array(rows_of(P)).asformat(format)
    mdp = MDP(mine) if format == "dense" else MDP(mine, num_actions=2)
    assert mdp.transitions.data[0] != 0.5 + 2e-9
    np.testing.assert_array_equal(mine if format == "dense" else mine.toarray().reshape(P.shape), P)


def test_a_dense_array_changed_later_does_not_change_the_model():
    P = np.full((2, 1, 2), 0.5)
    mdp = MDP(P)
    P[:] = 7
    np.testing.assert_array_equal(mdp.dense(), np.full((2, 1, 2), 0.5))


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_the_values_of_a_sparse_matrix_are_copied(format):
    matrix = sp.csr_array(np.full((2, 2), 0.5)).asformat(format)
    mdp = MDP(matrix, num_actions=1)
    fingerprint = mdp.fingerprint
    matrix.data *= 2
    assert mdp.fingerprint == fingerprint


def test_the_index_vectors_of_pairs_are_copied():
    states, actions = np.array([0, 1, 1]), np.array([0, 0, 1])
    mdp = MDP.from_pairs(np.full((3, 2), 0.5), states, actions)
    states[:], actions[:] = 0, 5
    np.testing.assert_array_equal(mdp.pair_state, [0, 1, 1])
    np.testing.assert_array_equal(mdp.pair_action, [0, 0, 1])
    assert states.flags.writeable
    assert actions.flags.writeable


# --- what is not a model ------------------------------------------------------------------------------


def every_route(P):
    """Yields the three constructors, each with P in its own form."""
    S, A, _ = P.shape
    yield lambda: MDP(P)
    yield lambda: MDP(sp.coo_array(rows_of(P)), num_actions=A)
    yield lambda: MDP.from_pairs(rows_of(P), *np.divmod(np.arange(S * A), A))


@reproducible
@given(models_with_a_place(), st.sampled_from([math.nan, math.inf, -math.inf, -1e-300, -0.5]))
def test_an_entry_that_is_not_a_probability_is_refused_by_its_place(model, value):
    P, place = model
    P[place] = value
    rule = "finite" if not math.isfinite(value) else "non-negative"
    name = f"P[{place[0]}, {place[1]}, {place[2]}]"
    for build in every_route(P):
        with pytest.raises(InvalidModelError) as caught:
            build()
        assert f"must be {rule}" in str(caught.value)
        assert name in str(caught.value)


@reproducible
@given(models_with_a_place(), st.floats(2e-8, 1e300) | st.floats(-1, -2e-8))
def test_a_row_that_does_not_sum_to_one_is_refused_by_its_pair(model, excess):
    P, (s, a, _) = model
    P[s, a] *= 1 + excess
    for build in every_route(P):
        with pytest.raises(InvalidModelError, match=rf"P\[{s}, {a}\] sums to .*, expected 1") as caught:
            build()
        assert "more rows" not in str(caught.value)


@reproducible
@given(models_with_a_place(), st.floats(-9e-9, 9e-9))
def test_a_row_sum_within_the_tolerance_is_repaired(model, excess):
    P, (s, a, _) = model
    Q = P.copy()
    Q[s, a] *= 1 + excess
    mdp = MDP(Q)
    np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(mdp.dense(), P, rtol=1e-14)  # a row off by less than 1e-14 is left alone


def test_rows_of_huge_entries_are_refused_without_a_warning():
    with pytest.raises(InvalidModelError, match=r"P\[0, 0\] sums to inf, expected 1 .* 3 more rows"):
        MDP(np.full((2, 2, 2), 1e308))


def test_a_long_double_beyond_float64_is_not_finite():
    P = np.full((2, 1, 2), 0.5, np.longdouble)
    if np.finfo(np.longdouble).max <= np.finfo(float).max:
        pytest.skip("this machine has no longer float")
    P[1, 0, 0] = np.longdouble("1e400")
    for build in every_route(P):
        with pytest.raises(InvalidModelError, match=r"must be finite, got P\[1, 0, 0\] = inf"):
            build()


@reproducible
@given(st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple))
def test_a_dense_array_of_another_shape_is_refused_with_both_shapes(shape):
    if len(shape) == 3 and shape[0] == shape[2] and 0 not in shape:
        return
    with pytest.raises(InvalidModelError) as caught:
        MDP(np.zeros(shape))
    assert "`P` must have shape (S, A, S)" in str(caught.value)
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("P", [None, "text", 5, {}, [], [[[]]], [[1, [2]]], [[["a"]]], object()])
def test_what_is_not_even_an_array_is_refused_by_name(P):
    with pytest.raises(InvalidArgumentError, match="`P` must"):
        MDP(P)


@pytest.mark.parametrize("dtype", [bool, object, complex, str, "datetime64[s]"])
def test_an_array_of_something_else_than_real_numbers_is_refused(dtype):
    P = np.ones((1, 1, 1)).astype(int).astype(dtype)
    for build in (lambda: MDP(P), lambda: MDP.from_pairs(rows_of(P), [0], [0])):
        with pytest.raises(InvalidModelError, match="must hold real numbers, got dtype"):
            build()
    if dtype in (bool, complex):
        with pytest.raises(InvalidModelError, match="`P` must hold real numbers"):
            MDP(sp.csr_array(rows_of(P)), num_actions=1)


@pytest.mark.parametrize(
    ("matrix", "num_actions", "message"),
    [
        (sp.csr_array((4, 2)), None, "`num_actions` is needed"),
        (sp.csr_array((4, 2)), 3, "4 rows, expected 6"),
        (sp.csr_array((5, 2)), 2, "5 rows, expected 4"),
        (sp.csr_array((4, 2)), 0, "`num_actions` must be at least 1"),
        (sp.csr_array((4, 2)), 2.5, "`num_actions` must be a whole number"),
        (sp.csr_array((4, 2)), True, "`num_actions` must be a whole number"),
        (sp.csr_array((4, 2)), "2", "`num_actions` must be a whole number"),
        (sp.csr_array((4, 2)), 2, r"P\[0, 0\] sums to 0, expected 1"),
        (sp.csr_array((0, 0)), 2, "`P` must be a matrix"),
        (sp.csr_array((0, 3)), 2, "`P` must be a matrix"),
        (sp.coo_array(np.ones(4)), 1, r"`P` must be a matrix .* got shape \(4,\)"),
        (sp.coo_array(np.ones((2, 2, 2))), 2, "`P` must be a matrix"),
    ],
)
def test_a_sparse_matrix_that_does_not_fit_is_refused(matrix, num_actions, message):
    with pytest.raises(InvalidArgumentError, match=message):
        MDP(matrix, num_actions=num_actions)


@pytest.mark.parametrize("num_actions", [1, 3, 2.5, "2", True, [1, 2]])
def test_a_number_of_actions_that_contradicts_a_dense_array_is_refused(num_actions):
    with pytest.raises(InvalidArgumentError, match="`num_actions`"):
        MDP(np.full((2, 2, 2), 0.5), num_actions=num_actions)


@pytest.mark.parametrize(
    ("transitions", "states", "actions", "message"),
    [
        (np.full((2, 2), 0.5), [0, 0], [0, 1], "state 1 has no action"),
        (np.full((2, 3), 1 / 3), [0, 2], [0, 0], "state 1 has no action"),
        (np.full((2, 2), 0.5), [1, 1], [0, 1], "state 0 has no action"),
        (np.full((3, 2), 0.5), [0, 1, 1], [0, 0, 0], r"pair \(1, 0\) is given twice"),
        (np.full((3, 2), 0.5), [1, 0, 1], [3, 0, 3], r"pair \(1, 3\) is given twice"),
        (np.full((2, 2), 0.5), [0, 2], [0, 0], "`states` must be below 2"),
        (np.full((2, 2), 0.5), [0, -1], [0, 0], "`states` must hold whole numbers"),
        (np.full((2, 2), 0.5), [0, 1], [0, -1], "`actions` must hold whole numbers"),
        (np.full((2, 2), 0.5), [0.0, 1.0], [0, 0], "`states` must hold whole numbers"),
        (np.full((2, 2), 0.5), [0, 1], [False, True], "`actions` must hold whole numbers"),
        (np.full((2, 2), 0.5), [0, 1, 1], [0, 0], r"`states` must have shape \(2.*\), got \(3,\)"),
        (np.full((2, 2), 0.5), [0, 1], [[0], [0]], "`actions` must have shape"),
        (np.full((2, 2), 0.5), [[0], [1, 1]], [0, 0], "`states` must be a rectangular array"),
        (np.full((2, 2), 0.5), 0, 0, "`states` must have shape"),
        (np.full((2, 2), 0.5), None, [0, 0], "`states` must have shape"),
        (np.ones((2, 1)), np.array([0, 2**64 - 1], np.uint64), [0, 0], "`states` must hold whole numbers"),
        (np.ones((2, 1)), [0, 0], np.array([0, 2**64 - 1], np.uint64), "`actions` must hold whole numbers"),
        (np.ones((2, 1)), [0, 0], [0, 2**40], "`actions` must hold whole numbers"),
        (np.ones((2, 1, 1)), [0, 0], [0, 1], "`transitions` must be a matrix"),
        (np.ones(2), [0, 0], [0, 1], "`transitions` must be a matrix"),
        (1.0, [0], [0], "`transitions` must be a matrix"),
        (np.ones((0, 0)), [], [], "`transitions` must be a matrix"),
        (np.ones((0, 2)), [], [], "`transitions` must be a matrix"),
        ([[1.0], [1.0, 0.0]], [0, 1], [0, 0], "`transitions` must be a rectangular array"),
        (sp.csr_array((2, 10**12)), [0, 1], [0, 0], "state 2 has no action"),
    ],
)
def test_pairs_that_do_not_make_a_model_are_refused_by_name(transitions, states, actions, message):
    with pytest.raises(InvalidArgumentError, match=message):
        MDP.from_pairs(transitions, states, actions)


@pytest.mark.parametrize(
    ("available", "message"),
    [
        ([[True, False], [False, False]], "state 1 has no action"),
        ([[True, True]], r"`available` must have shape \(2, 2\), got \(1, 2\)"),
        ([[1, 1], [1, 0]], "`available` must be a boolean array"),
        ([[True], [True, False]], "`available` must be a rectangular array"),
        ("all", "`available` must have shape"),
        (True, "`available` must have shape"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_by_name(available, message):
    with pytest.raises(InvalidArgumentError, match=message):
        MDP(np.full((2, 2, 2), 0.5), available=available)


@pytest.mark.parametrize("fill", [np.nan, -1.0, 0.0])
def test_rows_of_actions_that_are_not_available_may_hold_anything(fill):
    P = np.full((2, 2, 2), 0.5)
    P[1, 1] = fill
    available = np.array([[True, True], [True, False]])
    mdp = MDP(P, available=available)
    assert mdp.num_pairs == 3
    assert same(mdp, MDP.from_pairs(np.full((3, 2), 0.5), [0, 0, 1], [0, 1, 0]))
    P[1, 0, 0] = -1
    with pytest.raises(InvalidModelError, match=r"P\[1, 0, 0\] = -1"):
        MDP(P, available=available)


# --- memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_a_dense_array_too_large_for_memory_is_refused_with_the_sparse_route(dtype):
    # 1.6 TB as float64; a view of one number, so nothing is allocated before the check.
    P = np.broadcast_to(np.zeros(1, dtype), (100_000, 20, 100_000))
    with pytest.raises(InvalidArgumentError, match=r"`P` as a dense array takes .* GiB.*scipy.sparse"):
        MDP(P)
    rows = np.broadcast_to(np.zeros(1, dtype), (2_000_000, 100_000))
    with pytest.raises(InvalidArgumentError, match=r"`transitions` as a dense array .*scipy.sparse"):
        MDP.from_pairs(rows, [0], [0])


def test_what_counts_is_the_memory_as_float64(monkeypatch):
    # One byte a number would fit in the 100 bytes of this machine, eight do not.
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    P = np.ones((3, 3, 3), np.int8)
    with pytest.raises(InvalidArgumentError, match="`P` as a dense array"):
        MDP(P)


def test_a_machine_that_does_not_tell_its_memory_is_trusted(monkeypatch):
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    check_fits_in_memory("P", 10**30)


def test_a_large_sparse_model_is_refused_only_where_it_is_asked_to_be_dense():
    mdp = MDP(sp.eye_array(1_000_000, format="csr"), num_actions=1)
    with pytest.raises(InvalidArgumentError, match="`P` as a dense array takes 7450"):
        mdp.dense()
