"""Every environment is what its docstring says: exact entries, closed forms, one property test for all."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from rhocover import MDP, envs
from rhocover.errors import InvalidArgumentError, UnknownNameError

NO_LAYOUT = {"garnet"}  # a random model lies nowhere
ONE_ULP_OF_ONE = 2.3e-16  # entries are sums of at most four products of numbers below 1


def entry(mdp: MDP, state: int, action: str) -> dict[int, float]:
    """Returns {next state: probability} of one pair."""
    assert mdp.action_labels is not None
    number = mdp.action_labels.index(action)
    pair = np.flatnonzero((mdp.pair_state == state) & (mdp.pair_action == number))[0]
    row = mdp.transitions[[pair]].tocoo()
    return dict(zip(row.col.tolist(), row.data.tolist(), strict=True))


def close_to(expected: dict[int, float]) -> object:
    return pytest.approx(expected, abs=4 * ONE_ULP_OF_ONE, rel=0)


def is_communicating(mdp: MDP) -> bool:
    """Every state reaches every other by some action: the union of all rows is one strong component."""
    graph = sp.csr_array(
        (np.ones(mdp.num_pairs), (mdp.pair_state, np.arange(mdp.num_pairs))),
        shape=(mdp.num_states, mdp.num_pairs),
    )
    return connected_components(graph @ mdp.transitions, connection="strong")[0] == 1


def largest_floor(mdp: MDP) -> float:
    """Returns max over occupancies d of min d, by one linear program written from scratch."""
    n = mdp.num_pairs
    leave = sp.csr_array((np.ones(n), (mdp.pair_state, np.arange(n))), shape=(mdp.num_states, n))
    balance = sp.vstack([leave - mdp.transitions.T, np.ones((1, n))])
    equal = sp.hstack([balance, sp.csr_array((mdp.num_states + 1, 1))])
    above = sp.hstack([-sp.eye_array(n), np.ones((n, 1))])
    right = np.append(np.zeros(mdp.num_states), 1.0)
    cost = np.append(np.zeros(n), -1.0)
    return -linprog(cost, A_ub=above, b_ub=np.zeros(n), A_eq=equal, b_eq=right).fun


# --- all environments -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", envs.names())
class TestEveryEnvironment:
    def test_is_a_named_model_whose_rows_are_distributions(self, name):
        mdp = envs.make(name)
        assert mdp.name == name
        assert (mdp.transitions.data > 0).all()
        np.testing.assert_allclose(mdp.transitions.sum(axis=1), 1, rtol=0, atol=4 * ONE_ULP_OF_ONE)

    def test_is_communicating(self, name):
        assert is_communicating(envs.make(name))

    def test_gives_every_state_a_place_of_its_own(self, name):
        layout = envs.make(name).layout
        if name in NO_LAYOUT:
            assert layout is None
            return
        gaps = np.abs(layout.positions[:, None] - layout.positions[None]).max(axis=2)
        assert gaps[~np.eye(len(gaps), dtype=bool)].min() >= 1, "cells of side 1 overlap"

    def test_has_different_labels_for_different_things(self, name):
        mdp = envs.make(name)
        for labels in (mdp.state_labels, mdp.action_labels):
            assert labels is None or len(set(labels)) == len(labels)
        assert name in NO_LAYOUT or mdp.action_labels is not None

    def test_starts_in_one_state_unless_it_is_random(self, name):
        start = envs.make(name).start
        assert (start is None) == (name == "garnet")
        assert start is None or start.max() == 1

    def test_comes_back_from_a_file_unchanged(self, name, tmp_path):
        mdp = envs.make(name)
        mdp.save(tmp_path / "model")
        loaded = MDP.load(tmp_path / "model")
        assert loaded.fingerprint == mdp.fingerprint
        assert (loaded.name, loaded.state_labels, loaded.action_labels) == (
            mdp.name,
            mdp.state_labels,
            mdp.action_labels,
        )

    def test_is_the_same_when_built_twice(self, name):
        assert envs.make(name).fingerprint == envs.make(name).fingerprint

    def test_takes_keywords_only_and_is_described_with_its_defaults(self, name):
        info = next(info for info in envs.describe() if info.name == name)
        mdp = envs.make(name, **info.parameters)
        assert (info.num_states, info.num_actions, info.num_pairs) == (
            mdp.num_states,
            mdp.num_actions,
            mdp.num_pairs,
        )
        assert info.summary
        assert not info.summary.startswith("Returns")
        with pytest.raises(TypeError):
            getattr(envs, name)(3)


# --- the registry -----------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_the_near_ones():
    with pytest.raises(UnknownNameError, match="river_swim"):
        envs.make("riverswim")


def test_an_unknown_parameter_is_answered_with_the_list_of_parameters():
    with pytest.raises(
        InvalidArgumentError, match=r"Did you mean 'num_states'\?.*num_states=31, failure=0.1"
    ):
        envs.make("double_chain", num_state=3)
    with pytest.raises(InvalidArgumentError, match="`six_arms` has no parameters"):
        envs.make("six_arms", arms=6)


def test_an_invalid_value_is_answered_with_the_list_of_parameters():
    with pytest.raises(InvalidArgumentError, match=r"`failure` must be in \[0, 1\], got 2.*num_states=31"):
        envs.make("double_chain", failure=2)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("river_swim", {"num_states": 1}),
        ("river_swim_strong_current", {"num_states": 2.5}),
        ("noisy_river_swim", {"num_states": 1}),
        ("forked_river_swim", {"length": 2}),
        ("double_chain", {"failure": -0.1}),
        ("double_chain", {"num_states": "31"}),
        ("wheel", {"num_states": 2}),
        ("grid_world", {"num_rows": 0}),
        ("grid_world", {"num_columns": 0}),
        ("grid_world", {"success": float("nan")}),
        ("four_rooms", {"success": 1.5}),
        ("n_room", {"num_rooms": 0}),
        ("deep_sea", {"size": 1}),
        ("garnet", {"num_successors": 51}),
        ("garnet", {"num_successors": 0}),
        ("garnet", {"self_loop": 2.0}),
        ("garnet", {"seed": -1}),
        ("garnet", {"num_actions": True}),
    ],
)
def test_parameters_are_checked_at_the_door(name, wrong):
    with pytest.raises(InvalidArgumentError, match=f"`{next(iter(wrong))}`"):
        envs.make(name, **wrong)


def test_texts_become_values_of_the_default_s_type():
    texts = ["num_rows=3", "num_columns = 5", "success=1"]
    assert envs.parse_parameters("grid_world", texts) == {"num_rows": 3, "num_columns": 5, "success": 1.0}
    assert envs.parse_parameters("grid_world", ["num_columns=None"]) == {"num_columns": None}
    assert envs.make("grid_world", **envs.parse_parameters("grid_world", texts)).num_states == 15


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num_states", "expected parameter=value"),
        ("num_states=many", "`num_states` must be a whole number, got 'many'"),
        ("failure=often", "`failure` must be a number, got 'often'"),
        ("states=3", "no parameter 'states'"),
    ],
)
def test_texts_that_are_no_parameters_are_refused_with_the_list(text, message):
    with pytest.raises(InvalidArgumentError, match=f"{message}.*num_states=31, failure=0.1"):
        envs.parse_parameters("double_chain", [text])
    with pytest.raises(InvalidArgumentError, match="given twice"):
        envs.parse_parameters("double_chain", ["failure=0", "failure=1"])


def test_importing_the_environments_does_not_import_matplotlib():
    code = "import sys, rhocover.envs; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- chains -----------------------------------------------------------------------------------------


def test_river_swim_has_the_published_entries():
    mdp = envs.river_swim(num_states=6)
    assert [entry(mdp, s, "left") for s in (0, 1, 5)] == [{0: 1}, {0: 1}, {4: 1}]
    assert entry(mdp, 0, "right") == close_to({0: 0.4, 1: 0.6})
    assert entry(mdp, 3, "right") == close_to({2: 0.05, 3: 0.6, 4: 0.35})
    assert entry(mdp, 5, "right") == close_to({4: 0.4, 5: 0.6})


def test_river_swim_with_the_strong_current_has_the_published_entries():
    mdp = envs.river_swim_strong_current(num_states=6)
    assert [entry(mdp, s, "left") for s in (0, 1, 5)] == [{0: 1}, {0: 1}, {4: 1}]
    assert entry(mdp, 0, "right") == close_to({0: 0.7, 1: 0.3})
    assert entry(mdp, 3, "right") == close_to({2: 0.1, 3: 0.6, 4: 0.3})
    assert entry(mdp, 5, "right") == close_to({4: 0.7, 5: 0.3})


def test_a_river_of_two_states_has_no_middle():
    mdp = envs.river_swim(num_states=2)
    assert entry(mdp, 0, "right") == close_to({0: 0.4, 1: 0.6})
    assert entry(mdp, 1, "right") == close_to({0: 0.4, 1: 0.6})


def test_noisy_river_swim_jumps_by_the_action_of_the_state_s_parity():
    mdp, river = envs.noisy_river_swim(num_states=12), envs.river_swim(num_states=12)
    anywhere = dict.fromkeys(range(12), 1 / 12)
    for state in range(12):
        jump, stay = ("odd", "even") if state % 2 else ("even", "odd")
        assert entry(mdp, state, jump) == close_to(anywhere)
        assert entry(mdp, state, stay) == {state: 1}
        assert entry(mdp, state, "right") == entry(river, state, "right")


@pytest.mark.parametrize(
    ("name", "worst_ratio", "digits"),
    [("river_swim", 1 / (12 * 0.0433737987), 9), ("noisy_river_swim", 1.129, 3), ("wheel", 1.160, 3)],
)
def test_the_best_worst_ratio_is_the_published_one(name, worst_ratio, digits):
    mdp = envs.make(name)
    ours = 1 / (mdp.num_pairs * largest_floor(mdp))
    assert ours == pytest.approx(worst_ratio, abs=0.6 * 10**-digits * worst_ratio)  # published digits


@pytest.mark.parametrize("failure", [0.0, 0.05, 0.1, 1.0])
def test_double_chain_is_its_own_mirror_image(failure):
    P = envs.double_chain(num_states=31, failure=failure).dense()
    np.testing.assert_array_equal(P[::-1, ::-1, ::-1], P)


@pytest.mark.parametrize("failure", [0.0, 0.05, 0.1, 1.0])
def test_the_uniform_occupancy_is_attainable_on_the_double_chain(failure):
    mdp = envs.double_chain(failure=failure)
    uniform = np.full(mdp.num_pairs, 1 / mdp.num_pairs)
    inflow = mdp.transitions.T @ uniform
    np.testing.assert_allclose(inflow, 1 / mdp.num_states, rtol=4 * ONE_ULP_OF_ONE)


def test_double_chain_has_the_published_entries():
    mdp = envs.double_chain(failure=0.05)
    assert entry(mdp, 7, "left") == close_to({6: 0.95, 8: 0.05})
    assert entry(mdp, 0, "left") == close_to({0: 0.95, 1: 0.05})
    assert mdp.start.argmax() == 15


def test_forked_river_swim_has_the_published_entries():
    mdp = envs.forked_river_swim(length=5)  # spring 0, river 1 is 1..4, river 2 is 5..8
    assert entry(mdp, 0, "right") == close_to({0: 0.7, 1: 0.3})
    assert entry(mdp, 2, "right") == close_to({1: 0.1, 2: 0.6, 3: 0.3})
    assert entry(mdp, 6, "right") == close_to({5: 0.1, 6: 0.6, 7: 0.3})
    assert entry(mdp, 5, "right") == close_to({0: 0.1, 5: 0.6, 6: 0.3})
    assert [entry(mdp, end, "right") for end in (4, 8)] == [close_to({e - 1: 0.7, e: 0.3}) for e in (4, 8)]
    assert [entry(mdp, s, "left") for s in (0, 1, 5, 6)] == [{0: 1}, {0: 1}, {0: 1}, {5: 1}]
    switched = [entry(mdp, s, "switch") for s in range(9)]
    assert switched == [{0: 1}, {5: 1}, {6: 1}, {7: 1}, {4: 1}, {1: 1}, {2: 1}, {3: 1}, {8: 1}]


# --- hubs -------------------------------------------------------------------------------------------


def test_wheel_has_the_published_entries():
    mdp = envs.wheel(num_states=5)
    for action in ("left", "right", "self", "centre"):
        assert entry(mdp, 0, action) == {0: 1}
    assert entry(mdp, 0, "noisy/spin") == {1: 0.25, 2: 0.25, 3: 0.25, 4: 0.25}
    assert [entry(mdp, 1, action) for action in ("left", "right", "self", "centre")] == [
        {4: 1}, {2: 1}, {1: 1}, {0: 1},
    ]  # fmt: skip
    assert entry(mdp, 1, "noisy/spin") == {0: 0.25, 1: 0.25, 2: 0.25, 4: 0.25}


def test_turning_the_wheel_changes_nothing():
    P = envs.wheel(num_states=8).dense()
    turned = np.concatenate([[0], 1 + (np.arange(7) + 3) % 7])
    np.testing.assert_array_equal(P[turned][:, :, turned], P)


def test_six_arms_has_the_published_entries():
    mdp = envs.six_arms()
    reach = [1, 0.15, 0.1, 0.05, 0.03, 0.01]
    assert entry(mdp, 0, "pull 1") == {1: 1}
    for arm in range(2, 7):
        assert entry(mdp, 0, f"pull {arm}") == close_to({0: 1 - reach[arm - 1], arm: reach[arm - 1]})
        stay = [entry(mdp, arm, f"pull {k}") == {arm: 1} for k in range(1, 7)]
        assert stay == [k == arm for k in range(1, 7)]
    assert [entry(mdp, 1, f"pull {k}") for k in range(1, 7)] == [
        {0: 1} if k == 5 else {1: 1} for k in range(1, 7)
    ]


# --- cells ------------------------------------------------------------------------------------------


def test_a_move_slips_to_the_other_neighbours_in_equal_parts():
    mdp = envs.grid_world(num_rows=3, success=0.7)  # reading order: 4 is the middle, 0 a corner, 1 an edge
    assert entry(mdp, 4, "up") == close_to({1: 0.7, 3: 0.1, 5: 0.1, 7: 0.1})
    assert entry(mdp, 0, "right") == close_to({1: 0.7, 3: 0.3})
    assert entry(mdp, 1, "down") == close_to({4: 0.7, 0: 0.15, 2: 0.15})


def test_a_move_into_a_wall_stays_or_slips():
    mdp = envs.grid_world(num_rows=3, success=0.7)
    assert entry(mdp, 0, "up") == close_to({0: 0.7, 1: 0.15, 3: 0.15})
    assert entry(mdp, 5, "right") == close_to({5: 0.7, 2: 0.1, 4: 0.1, 8: 0.1})


def test_a_cell_with_no_other_neighbour_cannot_slip():
    line = envs.grid_world(num_rows=1, num_columns=3, success=0.7)
    assert entry(line, 0, "right") == {1: 1}
    assert entry(line, 0, "left") == close_to({0: 0.7, 1: 0.3})
    alone = envs.grid_world(num_rows=1)
    assert [entry(alone, 0, action) for action in ("up", "right", "down", "left")] == 4 * [{0: 1}]


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_grid_world_is_its_own_mirror_image(shape):
    P = envs.grid_world(num_rows=shape[0], num_columns=shape[1]).dense().reshape(*shape, 4, *shape)
    up, right, down, left = range(4)
    np.testing.assert_array_equal(P[:, ::-1, [up, left, down, right], :, ::-1], P)
    np.testing.assert_array_equal(P[::-1, :, [down, right, up, left], ::-1, :], P)


@pytest.mark.parametrize("success", [0.0, 0.5, 1.0])
def test_cells_that_hang_together_are_communicating_for_every_success(success):
    assert is_communicating(envs.grid_world(num_rows=4, num_columns=3, success=success))
    assert is_communicating(envs.four_rooms(success=success))


def test_four_rooms_has_104_cells_and_four_doors():
    mdp = envs.four_rooms()
    assert mdp.num_states == 104
    doors = {f"r{r}c{c}" for r, c in ((2, 5), (5, 1), (6, 8), (9, 5))}
    narrow = [s for s in range(104) if len(np.unique(neighbours(mdp, s))) == 2]
    corners = {"r0c0", "r4c0", "r0c4", "r4c4", "r0c6", "r0c10", "r5c6", "r5c10"}
    corners |= {"r6c0", "r10c0", "r6c4", "r10c4", "r7c6", "r7c10", "r10c6", "r10c10"}
    assert {mdp.state_labels[s] for s in narrow} == doors | corners


def neighbours(mdp: MDP, state: int) -> np.ndarray:
    reached = mdp.transitions[mdp.pair_state == state].indices
    return reached[reached != state]


def test_four_rooms_works_two_times_in_three_by_default():
    mdp = envs.four_rooms()
    door = mdp.state_labels.index("r2c5")
    assert entry(mdp, door, "right") == close_to({door + 1: 2 / 3, door - 1: 1 / 3})
    assert entry(mdp, door, "up") == close_to({door: 2 / 3, door - 1: 1 / 6, door + 1: 1 / 6})


@pytest.mark.parametrize("num_rooms", [1, 2, 5, 7])
def test_n_room_has_25_cells_a_room_and_a_door_between_two(num_rooms):
    mdp = envs.n_room(num_rooms=num_rooms)
    assert mdp.num_states == 26 * num_rooms - 1
    assert is_communicating(mdp)
    assert mdp.state_labels[mdp.start.argmax()] == f"r2c{6 * (num_rooms // 2) + 2}"


def test_n_room_leaves_a_room_only_through_the_door():
    mdp = envs.n_room(num_rooms=2)
    door = mdp.state_labels.index("r2c5")
    ways = {mdp.state_labels[s] for s in range(mdp.num_states) if door in neighbours(mdp, s)}
    assert ways == {"r2c4", "r2c6"}
    without = np.delete(np.arange(mdp.num_states), door)
    graph = (mdp.dense().sum(axis=1) > 0)[np.ix_(without, without)]
    assert connected_components(sp.csr_array(graph), connection="strong")[0] == 2


def test_deep_sea_dives_one_row_a_step_and_starts_again():
    mdp = envs.deep_sea(size=4)
    state = {label: s for s, label in enumerate(mdp.state_labels)}
    assert entry(mdp, state["r1c1"], "left") == {state["r2c0"]: 1}
    assert entry(mdp, state["r1c0"], "left") == {state["r2c0"]: 1}
    assert entry(mdp, state["r1c1"], "right") == close_to({state["r2c2"]: 0.75, state["r2c1"]: 0.25})
    for column in range(4):
        for action in ("left", "right"):
            assert entry(mdp, state[f"r3c{column}"], action) == {0: 1}


def test_deep_sea_returns_every_n_steps_whatever_is_done():
    mdp = envs.deep_sea(size=5)
    walk = mdp.dense().mean(axis=1)
    assert np.linalg.matrix_power(walk, 5)[0, 0] == pytest.approx(1, abs=20 * ONE_ULP_OF_ONE)
    assert np.diag(np.linalg.matrix_power(walk, 4)).max() == 0


# --- random models ----------------------------------------------------------------------------------


def test_garnet_has_the_number_of_successors_it_was_asked_for():
    mdp = envs.garnet(num_states=30, num_actions=3, num_successors=7, seed=3)
    np.testing.assert_array_equal(np.diff(mdp.transitions.indptr), 7)


def test_garnet_follows_the_stated_draw():
    S, A, b = 6, 2, 3
    rng = np.random.default_rng(5)
    chosen = [[] for _ in range(S * A)]
    for j in range(S - b, S):
        for row, t in zip(chosen, rng.integers(0, j + 1, size=S * A).tolist(), strict=True):
            row.append(j if t in row else t)
    cuts = np.sort(rng.random((S * A, b - 1)), axis=1)
    P = np.zeros((S * A, S))
    for i, row in enumerate(chosen):
        P[i, row] = np.diff([0.0, *cuts[i], 1.0])
    ours = envs.garnet(num_states=S, num_actions=A, num_successors=b, seed=5)
    np.testing.assert_allclose(ours.transitions.toarray(), P, rtol=0, atol=4 * ONE_ULP_OF_ONE)


def test_garnet_draws_every_state_equally_often_as_successor():
    mdp = envs.garnet(num_states=10, num_actions=2000, num_successors=3, seed=1)
    counts = np.bincount(mdp.transitions.indices, minlength=10)
    expected, deviation = 20_000 * 0.3, np.sqrt(20_000 * 0.3 * 0.7)
    assert np.abs(counts - expected).max() < 5.3 * deviation  # fails once in 10^6 seeds, 10 states together


def test_garnet_mixes_in_the_self_loop():
    plain = envs.garnet(num_states=20, seed=2).dense()
    looped = envs.garnet(num_states=20, seed=2, self_loop=0.001).dense()
    stay = np.eye(20)[:, None, :]
    np.testing.assert_allclose(looped, 0.999 * plain + 0.001 * stay, rtol=0, atol=4 * ONE_ULP_OF_ONE)


def test_garnets_of_different_seeds_differ_and_one_or_all_successors_are_allowed():
    assert envs.garnet(seed=0).fingerprint != envs.garnet(seed=1).fingerprint
    assert set(envs.garnet(num_successors=1).transitions.data) == {1.0}
    assert envs.garnet(num_states=5, num_successors=5).transitions.nnz == 5 * 4 * 5
