"""A model holds what it was given, in one canonical form, for ever.

Built by any route it is the same value; its arrays cannot be written; parts of it, files of it and
tables of it agree with loops over the dense array.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover import MDP, Layout, envs
from rhocover.errors import InvalidArgumentError, InvalidModelError, RhocoverError
from rhocover.layout import circle, line, rectangle

reproducible = settings(max_examples=60, deadline=None, derandomize=True)


def random_parts(seed: int):
    """Returns P `[S, A, S]` and a mask `[S, A]` of available actions, at least one a state."""
    rng = np.random.default_rng(seed)
    S, A = (int(k) for k in rng.integers(1, 7, 2))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.6)
    P[..., 0] += P.sum(axis=2) == 0
    available = rng.random((S, A)) < 0.6
    available[np.arange(S), rng.integers(0, A, S)] = True
    return P / P.sum(axis=2, keepdims=True), available


def furnished(seed: int) -> MDP:
    """Returns a random model with start, labels, layout and name."""
    P, available = random_parts(seed)
    rng = np.random.default_rng(seed)
    S, A, _ = P.shape
    return MDP(
        P,
        available=available,
        start=rng.dirichlet(np.ones(S)),
        state_labels=[f"state {s} · ü" for s in range(S)],
        action_labels=[f"do {a}" for a in range(A)],
        layout=Layout(rng.normal(size=(S, 2)), rng.normal(size=(A, 2))),
        name=f"random {seed}",
    )


def everything(mdp: MDP):
    """Returns all that a model holds as one comparable value; arrays as bytes."""
    layout = mdp.layout
    directions = None if layout is None or layout.directions is None else layout.directions.tobytes()
    return (
        mdp.fingerprint,
        mdp.num_states,
        mdp.num_actions,
        mdp.transitions.data.tobytes(),
        mdp.transitions.indices.tolist(),
        mdp.transitions.indptr.tolist(),
        mdp.pair_state.tolist(),
        mdp.pair_action.tolist(),
        None if mdp.start is None else mdp.start.tobytes(),
        mdp.state_labels,
        mdp.action_labels,
        None if layout is None else layout.positions.tobytes(),
        directions,
        mdp.name,
    )


seeds = st.integers(0, 2**32 - 1)


# --- what a model holds -------------------------------------------------------------------------------


@reproducible
@given(seeds)
def test_pairs_are_sorted_by_state_and_action_and_rows_are_those_of_the_dense_array(seed):
    P, available = random_parts(seed)
    mdp = MDP(P, available=available)
    listed = [(s, a) for s in range(P.shape[0]) for a in range(P.shape[1]) if available[s, a]]
    assert list(zip(mdp.pair_state.tolist(), mdp.pair_action.tolist(), strict=True)) == listed
    assert (mdp.num_states, mdp.num_actions, mdp.num_pairs) == (*P.shape[:2], len(listed))
    for i, (s, a) in enumerate(listed):
        np.testing.assert_allclose(mdp.transitions[[i]].toarray()[0], P[s, a], rtol=1e-14)
    np.testing.assert_allclose(mdp.dense(), np.where(available[..., None], P, 0), rtol=1e-14)


@reproducible
@given(seeds)
def test_dense_sparse_and_listed_pairs_are_three_routes_to_one_model(seed):
    P, available = random_parts(seed)
    S, A, _ = P.shape
    start = np.random.default_rng(seed).dirichlet(np.ones(S))
    dense = MDP(P, available=available, start=start)
    sparse = MDP(sp.coo_array(P.reshape(S * A, S)), num_actions=A, available=available, start=start)
    states, actions = np.nonzero(available)
    backwards = slice(None, None, -1)
    pairs = MDP.from_pairs(
        P[available][backwards], states[backwards], actions[backwards], num_actions=A, start=start
    )
    assert everything(dense) == everything(sparse) == everything(pairs)


@pytest.mark.parametrize(("S", "A"), [(1, 1), (1, 3), (4, 1)])
def test_one_state_or_one_action_is_a_model(S, A):
    mdp = MDP(np.full((S, A, S), 1 / S), start=0)
    assert (mdp.num_states, mdp.num_actions, mdp.num_pairs) == (S, A, S * A)
    np.testing.assert_array_equal(mdp.dense(), np.full((S, A, S), 1 / S))


def test_a_number_of_actions_larger_than_those_used_is_kept():
    mdp = MDP.from_pairs(np.eye(2), [0, 1], [0, 1], num_actions=4, action_labels=list("abcd"))
    assert mdp.num_actions == 4
    assert mdp.table([1, 2]).shape == (2, 4)
    with pytest.raises(InvalidArgumentError, match="`num_actions` must be at least 2"):
        MDP.from_pairs(np.eye(2), [0, 1], [0, 1], num_actions=1)


def test_the_text_of_a_model_says_its_size():
    assert repr(MDP(np.ones((1, 2, 1)))) == "MDP(1 state, 2 actions, 2 pairs)"
    assert repr(MDP(np.ones((1, 2, 1)), name="loop")) == "MDP(loop: 1 state, 2 actions, 2 pairs)"


# --- it never changes ---------------------------------------------------------------------------------


def test_no_array_of_a_model_can_be_written():
    mdp = furnished(3)
    arrays = {
        "data": mdp.transitions.data,
        "indices": mdp.transitions.indices,
        "indptr": mdp.transitions.indptr,
        "pair_state": mdp.pair_state,
        "pair_action": mdp.pair_action,
        "start": mdp.start,
        "positions": mdp.layout.positions,
        "directions": mdp.layout.directions,
    }
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        assert not array.flags.writeable, name


def test_no_field_of_a_model_can_be_set():
    mdp = furnished(3)
    for field in dataclasses.fields(mdp):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mdp, field.name, None)


def test_arguments_that_change_later_do_not_change_the_model():
    start, positions = np.array([0.5, 0.5]), np.zeros((2, 2))
    directions, available = np.zeros((1, 2)), np.ones((2, 1), bool)
    labels = ["x", "y"]
    layout = Layout(positions, directions)
    mdp = MDP(np.full((2, 1, 2), 0.5), start=start, state_labels=labels, layout=layout, available=available)
    before = everything(mdp)
    start[:], positions[:], directions[:], available[:] = 7, 7, 7, False
    labels[0] = "z"
    assert everything(mdp) == before
    assert start.flags.writeable
    assert positions.flags.writeable


def test_tables_and_dense_arrays_are_the_callers_to_change():
    mdp = furnished(4)
    before = everything(mdp)
    mdp.dense()[:] = 7
    mdp.table(np.ones(mdp.num_pairs))[:] = 7
    assert everything(mdp) == before


# --- tables -------------------------------------------------------------------------------------------


@reproducible
@given(seeds)
def test_values_survive_the_way_to_a_table_and_back(seed):
    # A mutant that lays tables out as [A, S] fails whenever S and A differ.
    mdp = furnished(seed)
    values = np.random.default_rng(seed).normal(size=mdp.num_pairs)
    table = mdp.table(values, fill=-99.0)
    np.testing.assert_array_equal(mdp.per_pair(table, "values"), values)
    np.testing.assert_array_equal(mdp.per_pair(values, "values"), values)
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            pair = np.flatnonzero((mdp.pair_state == s) & (mdp.pair_action == a))
            assert table[s, a] == (values[pair[0]] if pair.size else -99.0)


def test_one_number_fills_every_pair_of_a_table():
    mdp = MDP.from_pairs(np.eye(2), [0, 1], [0, 1])
    np.testing.assert_array_equal(mdp.table(3.0), [[3, 0], [0, 3]])


@pytest.mark.parametrize("values", [[1, 2, 3], [[1, 2], [3, 4]], [], [[1], [2]]])
def test_a_table_of_another_number_of_values_is_refused(values):
    with pytest.raises(InvalidArgumentError, match="`values` must have shape"):
        MDP.from_pairs(np.eye(2), [0, 1], [0, 1]).table(values)


@pytest.mark.parametrize(
    "values",
    [np.zeros(5), np.zeros((2, 3)), np.zeros((2, 2, 1)), 1.0, "x", None, [True, False], [math.nan] * 2],
)
def test_values_that_fit_neither_pairs_nor_table_are_refused_by_name(values):
    with pytest.raises(InvalidArgumentError, match="`mine`"):
        MDP.from_pairs(np.eye(2), [0, 1], [0, 1]).per_pair(values, "mine")


# --- start, labels, layout ----------------------------------------------------------------------------


def test_a_start_is_a_state_or_a_distribution_or_absent():
    P = np.full((3, 1, 3), 1 / 3)
    np.testing.assert_array_equal(MDP(P, start=1).start, [0, 1, 0])
    np.testing.assert_array_equal(MDP(P, start=np.int64(2)).start, [0, 0, 1])
    np.testing.assert_array_equal(MDP(P, start=[0.25, 0.25, 0.5]).start, [0.25, 0.25, 0.5])
    np.testing.assert_array_equal(MDP(P, start=[0, 0, 1]).start, [0, 0, 1])
    assert MDP(P).start is None


def test_a_start_within_the_tolerance_is_divided_by_its_sum():
    start = MDP(np.full((2, 1, 2), 0.5), start=[0.5 + 5e-9, 0.5]).start
    assert abs(start.sum() - 1) <= 2.3e-16


@pytest.mark.parametrize(
    "start",
    [-1, 2, 10**30, 0.5, 1.5, True, "0", dict, [1.0], [1.0, 0, 0], [0.5, 0.4], [1.5, -0.5],
     [math.nan, 1], [math.inf, 0], [True, False], ["a", "b"], [[0.5, 0.5]], [1e308, 1e308], [0, 0],
     [[1], [1, 2]], [1j, 0], sp.csr_array([[1.0, 0.0]])],
)  # fmt: skip
def test_a_start_that_is_no_distribution_is_refused_by_name(start):
    P = np.full((2, 1, 2), 0.5)
    for build in (lambda: MDP(P, start=start), lambda: MDP.from_pairs(P[:, 0], [0, 1], [0, 0], start=start)):
        with pytest.raises(InvalidArgumentError, match="`start` must"):
            build()


@pytest.mark.parametrize("which", ["state_labels", "action_labels"])
@pytest.mark.parametrize("labels", [["a"], ["a", "b", "c"], "ab", 5, []])
def test_labels_of_the_wrong_number_are_refused_by_name(which, labels):
    with pytest.raises(InvalidArgumentError, match=f"`{which}` must be 2 labels"):
        MDP(np.full((2, 2, 2), 0.5), **{which: labels})


def test_pairs_are_named_by_labels_where_there_are_any():
    P = np.full((2, 2, 2), 0.5)
    assert MDP(P).pair_name(2) == "(1, 0)"
    assert MDP(P, state_labels=("left", "right")).pair_name(3) == "(right, 1)"
    assert MDP(P, action_labels=["stay", "go"]).pair_name(1) == "(0, go)"
    assert MDP(P, state_labels=np.array(["x", "y"]), action_labels=[0, 1]).pair_name(0) == "(x, 0)"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (np.zeros((2, 2)), "`layout` must be a Layout, got ndarray"),
        (line(3), "`layout.positions` must have shape"),
        (Layout(np.zeros((2, 2)), np.zeros((3, 2))), "`layout.directions` must have shape"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout, message):
    with pytest.raises(InvalidArgumentError, match=message):
        MDP(np.full((2, 1, 2), 0.5), layout=layout)


@pytest.mark.parametrize(
    ("positions", "directions", "name"),
    [
        (np.zeros(2), None, "positions"),
        (np.zeros((2, 3)), None, "positions"),
        ([[0, math.nan]], None, "positions"),
        ([["a", "b"]], None, "positions"),
        (np.zeros((2, 2)), np.zeros(2), "directions"),
        (np.zeros((2, 2)), [[math.inf, 0]], "directions"),
    ],
)
def test_a_layout_of_anything_but_points_is_refused_by_name(positions, directions, name):
    with pytest.raises(InvalidArgumentError, match=f"`{name}`"):
        Layout(positions, directions)


def test_the_ready_made_layouts_put_states_where_they_say():
    np.testing.assert_array_equal(line(3).positions, [[0, 0], [1, 0], [2, 0]])
    np.testing.assert_array_equal(rectangle(2, 3).positions[[0, 2, 3]], [[0, 0], [2, 0], [0, 1]])
    ring = circle(4, radius=2.0).positions
    np.testing.assert_allclose(ring, [[0, -2], [2, 0], [0, 2], [-2, 0]], atol=1e-15)  # sin(pi) is 1e-16
    np.testing.assert_array_equal(circle(5, centre=True).positions[0], [0, 0])
    np.testing.assert_array_equal(line(3).subset([2, 0]).positions, [[2, 0], [0, 0]])


# --- parts of a model ---------------------------------------------------------------------------------


def two_rooms() -> MDP:
    """Returns states 0-1 and 2-3 as closed sets; action 1 of state 1 leads across, action 2 is state 3's."""
    rows = {
        (0, 0): [0, 1, 0, 0],
        (1, 0): [0.5, 0.5, 0, 0],
        (1, 1): [0, 0, 1, 0],
        (2, 0): [0, 0, 0, 1],
        (3, 0): [0, 0, 1, 0],
        (3, 2): [0, 0, 0.25, 0.75],
    }
    return MDP.from_pairs(
        np.array(list(rows.values()), float), *zip(*rows, strict=True),
        start=[0.5, 0, 0.125, 0.375], state_labels=list("abcd"),
        action_labels=["l", "m", "r"], layout=line(4), name="rooms",
    )  # fmt: skip


def test_a_closed_part_is_the_model_of_its_own_pairs():
    mdp = two_rooms()
    part, states = mdp.subset(mdp.pair_state >= 2)
    np.testing.assert_array_equal(states, [2, 3])
    np.testing.assert_array_equal(part.transitions.toarray(), [[0, 1], [1, 0], [0.25, 0.75]])
    np.testing.assert_array_equal(part.pair_state, [0, 1, 1])
    np.testing.assert_array_equal(part.pair_action, [0, 0, 2])
    np.testing.assert_array_equal(part.start, [0.25, 0.75])
    np.testing.assert_array_equal(part.layout.positions, [[2, 0], [3, 0]])
    assert (part.state_labels, part.action_labels) == (("c", "d"), ("l", "m", "r"))
    assert (part.num_actions, part.name) == (3, "rooms")


def test_a_part_that_the_start_does_not_meet_has_no_start():
    mdp = MDP(np.eye(2)[:, None, :], start=0)
    part, _ = mdp.subset(np.array([False, True]))
    assert part.start is None


def test_all_pairs_are_a_part_and_it_is_the_model_itself():
    mdp = two_rooms()
    part, states = mdp.subset(np.ones(6, bool))
    np.testing.assert_array_equal(states, np.arange(4))
    assert everything(part) == everything(mdp)


def test_a_part_that_leads_out_of_itself_is_refused():
    mdp = two_rooms()
    with pytest.raises(InvalidArgumentError, match="`pairs` must be closed"):
        mdp.subset(mdp.pair_state <= 1)


@pytest.mark.parametrize(
    "pairs", [np.zeros(6, bool), np.ones(5, bool), [0, 1], np.arange(6), True, "all", None]
)
def test_a_part_is_marked_by_one_boolean_a_pair(pairs):
    with pytest.raises(InvalidArgumentError, match="`pairs` must"):
        two_rooms().subset(pairs)


# --- fingerprints and files ---------------------------------------------------------------------------


@reproducible
@given(seeds)
def test_a_model_comes_back_from_its_file_bit_by_bit(tmp_path_factory, seed):
    mdp = furnished(seed)
    path = tmp_path_factory.mktemp("models") / "model.rhocover"
    mdp.save(path)
    assert everything(MDP.load(path)) == everything(mdp)
    assert everything(MDP.load(str(path))) == everything(mdp)


def test_a_bare_model_comes_back_bare(tmp_path):
    mdp = MDP(np.full((3, 2, 3), 1 / 3))
    mdp.save(tmp_path / "bare")
    back = MDP.load(tmp_path / "bare")
    assert everything(back) == everything(mdp)
    assert (back.start, back.layout, back.state_labels, back.action_labels) == (None,) * 4


def test_saving_the_same_model_twice_gives_the_same_bytes(tmp_path):
    furnished(7).save(tmp_path / "one")
    furnished(7).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_loaded_model_cannot_be_written_either(tmp_path):
    furnished(8).save(tmp_path / "model")
    mdp = MDP.load(tmp_path / "model")
    for array in (mdp.transitions.data, mdp.transitions.indices, mdp.pair_state, mdp.start):
        assert not array.flags.writeable


def test_the_fingerprint_changes_with_the_dynamics_the_pairs_and_the_start_and_with_nothing_else():
    mdp = envs.river_swim()
    arrays = (mdp.transitions, mdp.pair_state, mdp.pair_action)
    renamed = MDP.from_pairs(*arrays, start=mdp.start, name="other", state_labels=list("abcdef"))
    assert renamed.fingerprint == mdp.fingerprint
    assert len(mdp.fingerprint) == 64

    nudged = mdp.transitions.copy()
    nudged.data = nudged.data.copy()
    row = nudged.indptr[1]
    nudged.data[row] = np.nextafter(nudged.data[row], 0)
    others = [
        MDP.from_pairs(nudged, *arrays[1:], start=mdp.start),
        MDP.from_pairs(*arrays),
        MDP.from_pairs(*arrays, start=1),
        MDP.from_pairs(mdp.transitions, mdp.pair_state, 1 - mdp.pair_action, start=mdp.start),
        MDP.from_pairs(mdp.transitions, mdp.pair_state, 2 * mdp.pair_action, start=mdp.start),
        MDP.from_pairs(mdp.transitions[:-1], mdp.pair_state[:-1], mdp.pair_action[:-1], start=mdp.start),
    ]
    fingerprints = {other.fingerprint for other in others}
    assert len(fingerprints) == len(others)
    assert mdp.fingerprint not in fingerprints


def test_the_errors_of_a_model_are_value_errors_too():
    # So that code which does not know this library catches them.
    with pytest.raises(ValueError, match="sums to"):
        MDP(np.full((2, 1, 2), 0.4))
    assert issubclass(InvalidModelError, InvalidArgumentError)
    assert issubclass(InvalidArgumentError, RhocoverError)
