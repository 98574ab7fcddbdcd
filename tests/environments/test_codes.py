"""An observation has one state and an action one number, however they are read, and nothing foreign has any."""

from __future__ import annotations

import json
import math
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover.environments.encoding import (
    Bins,
    OutsideSpaceError,
    QuantileBins,
    StateCode,
    random_rollout,
    read_action_code,
    read_state_code,
    state_code_from_document,
)
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError, InvalidDataError

reproducible = settings(max_examples=100, deadline=None, derandomize=True)
BOX = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))
CUBE = spaces.Box(-1.0, 1.0, (3,), np.float64)
NAN, INF = float("nan"), float("inf")


def radius(observation):
    return float(np.hypot(observation[0], observation[1]))


def corner(observation):
    return float(observation[0]), float(observation[2])


CODES = {
    "discrete": (None, spaces.Discrete(7)),
    "discrete with a start": (None, spaces.Discrete(7, start=-3)),
    "multi-discrete": (None, spaces.MultiDiscrete([3, 1, 4], start=[0, 5, -2])),
    "multi-discrete table": (None, spaces.MultiDiscrete([[3, 2], [2, 4]])),
    "multi-binary": (None, spaces.MultiBinary(4)),
    "one axis": (Bins(5), spaces.Box(-1.0, 1.0, (1,))),
    "no axis to count": (Bins(5), spaces.Box(-1.0, 1.0, ())),
    "two axes": (Bins((12, 11)), BOX),
    "three axes": (Bins(4), CUBE),
    "a matrix": (Bins(3), spaces.Box(-1.0, 1.0, (2, 2))),
    "narrower": (Bins(4, low=-0.5, high=[0.5, 0.25, 0.1]), CUBE),
    "components": (Bins((4, 3), of=(2, 0)), CUBE),
    "one component": (Bins(6, of=1), CUBE),
    "a function of one number": (Bins(6, low=0, high=1.5, of=radius), CUBE),
    "a function of two": (Bins((6, 5), low=-1, high=1, of=corner), CUBE),
    "quantiles": (QuantileBins((3, 4, 5)).fit(np.random.default_rng(0).normal(0, 0.4, (500, 3))), CUBE),
    "bytes": (Bins(4), spaces.Box(0, 255, (2,), np.uint8)),
}


@pytest.fixture(params=CODES)
def code_and_space(request):
    states, space = CODES[request.param]
    return read_state_code(states, space), space


# One observation and many.


def test_one_by_one_or_all_at_once_an_observation_has_the_same_key(code_and_space) -> None:
    code, space = code_and_space
    space.seed(1)
    observations = [space.sample() for _ in range(200)]
    keys = code.keys(np.array(observations))
    assert keys.dtype == np.int64
    assert keys.tolist() == [code.key(observation) for observation in observations]
    assert all(type(code.key(observation)) is int for observation in observations)
    assert set(keys.tolist()) <= set(code.every_key)
    assert len(code.every_key) == code.num_keys


@pytest.mark.parametrize("name", [name for name in CODES if "discrete" in name or "binary" in name])
def test_every_key_of_a_finite_space_is_met(name) -> None:
    """At most 48 states, met with equal probability: 2,000 samples miss one with probability below 1e-16."""
    code, space = read_state_code(*CODES[name]), CODES[name][1]
    space.seed(2)
    keys = code.keys(np.array([space.sample() for _ in range(2_000)]))
    assert set(keys.tolist()) == set(code.every_key)


@reproducible
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2), st.sampled_from([np.float32, np.float64])
)
def test_key_and_keys_agree_on_any_numbers(values, dtype) -> None:
    space = spaces.Box(-1.0, 1.0, (2,), dtype)
    code = read_state_code(Bins((7, 10)), space)
    observation = np.array(values, dtype)
    assert code.key(observation) == code.keys(observation[None])[0] == code.key(observation.tolist())


@reproducible
@given(
    st.integers(1, 40), st.floats(-50, 50), st.floats(0.01, 100), st.integers(0, 40),
    st.sampled_from([-INF, 0.0, INF]), st.sampled_from([np.float32, np.float64]),
)  # fmt: skip
def test_key_and_keys_agree_on_the_edges_and_next_to_them(count, low, width, edge, towards, dtype) -> None:
    space = spaces.Box(-1e6, 1e6, (2,), dtype)
    code = read_state_code(Bins(count, low=low, high=low + width), space)
    x = dtype(np.linspace(low, low + width, count + 1)[min(edge, count)])
    x = np.nextafter(x, dtype(towards)) if towards else x
    observation = np.array([x, x], dtype)
    assert code.key(observation) == code.keys(observation[None])[0]


# What a bin is.


def test_a_bin_holds_its_lower_edge_and_the_last_one_its_upper_edge_too() -> None:
    code = read_state_code(Bins(4), spaces.Box(0.0, 1.0, (1,), np.float64))
    values = [0.0, 0.2499, 0.25, 0.5, 0.75, 1.0]
    assert [code.key(np.array([value])) for value in values] == [0, 0, 1, 2, 3, 3]


def test_cells_are_numbered_with_the_last_dimension_running_fastest() -> None:
    code = read_state_code(Bins((2, 3)), spaces.Box(0.0, 1.0, (2,), np.float64))
    assert code.key(np.array([0.1, 0.9])) == 2
    assert code.key(np.array([0.9, 0.1])) == 3


def test_values_beyond_narrower_bins_count_in_the_outer_ones() -> None:
    code = read_state_code(Bins(4, low=-0.5, high=0.5), spaces.Box(-INF, INF, (1,), np.float64))
    assert [code.key(np.array([value])) for value in (-1e9, -INF, 0.6, INF)] == [0, 0, 3, 3]


def test_a_rounding_of_the_bound_is_inside_and_more_is_not() -> None:
    code = read_state_code(Bins(4), spaces.Box(0.0, 0.7, (1,), np.float32))
    assert float(np.float32(0.7)) < 0.7  # the case at hand: the bound was rounded down
    assert code.key(np.array([0.7])) == 3
    with pytest.raises(OutsideSpaceError):
        code.key(np.array([0.7001]))


def test_quantile_bins_hold_equally_many_of_the_rollouts_observations() -> None:
    observations = np.random.default_rng(3).exponential(size=(10_000, 2))
    code = QuantileBins((4, 5)).fit(observations)
    x, y = np.divmod(code.keys(observations), 5)
    assert np.ptp(np.bincount(x)) <= 1  # no ties: every bin holds 10,000/n, rounded
    assert np.ptp(np.bincount(y)) <= 1


def test_quantiles_that_coincide_are_one_edge_and_no_bin_is_empty() -> None:
    observations = np.array([0.0] * 70 + [1.0] * 20 + [2.0] * 10)
    code = QuantileBins(10).fit(observations)
    assert code.num_keys == len(set(code.keys(observations).tolist())) == 3


def test_fitted_bins_refuse_what_the_space_does_not_hold() -> None:
    fitted = QuantileBins(3).fit(np.zeros((5, 3)) + np.arange(5)[:, None] / 10)
    assert fitted.key(np.array([9.0, 9.0, 9.0])) == 26
    with pytest.raises(OutsideSpaceError, match="x0 = 9, expected -1 to 1"):
        read_state_code(fitted, CUBE).key(np.array([9.0, 9.0, 9.0]))


# Outside.


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("wrong", [NAN, 1.5, -1.5, INF, -INF])
def test_what_lies_outside_the_space_or_is_no_number_is_refused_with_its_name(axes, wrong) -> None:
    space = spaces.Box(-1.0, 1.0, (axes,), np.float64)
    code = read_state_code(Bins(4, names=[f"part{k}" for k in range(axes)]), space)
    for k in range(axes):
        observation = np.zeros(axes)
        observation[k] = wrong
        with pytest.raises(OutsideSpaceError, match=f"part{k} = {wrong:g}"):
            code.key(observation)
        with pytest.raises(OutsideSpaceError, match=f"part{k} = {wrong:g}"):
            code.keys(np.stack([np.zeros(axes), observation]))


@pytest.mark.parametrize(
    "states",
    [Bins(3, low=-1, high=1), Bins(3, of=(0, 1, 2)), Bins(3, low=(0,), high=(1,), of=lambda o: o[1])],
)
def test_nan_is_refused_wherever_bins_are_open(states) -> None:
    code = read_state_code(states, CUBE if states.of else spaces.Box(-INF, INF, (3,)))
    with pytest.raises(OutsideSpaceError, match="nan"):
        code.key(np.array([0.0, NAN, 0.0]))
    with pytest.raises(OutsideSpaceError, match="nan"):
        code.keys(np.array([[0.0, NAN, 0.0]]))


@pytest.mark.parametrize("wrong", [7, -1, 2.0, "2", None, np.array([2]), np.float32(2), NAN, (2,), 10**30])
def test_a_discrete_observation_is_a_whole_number_of_the_space(wrong) -> None:
    with pytest.raises(OutsideSpaceError, match="0 to 6"):
        read_state_code(None, spaces.Discrete(7)).key(wrong)


@pytest.mark.parametrize(
    "wrong", [[7], [-1], [2.0], ["2"], [[2]], [NAN], [10**30], np.array([2**63], np.uint64)]
)
def test_many_discrete_observations_are_whole_numbers_of_the_space(wrong) -> None:
    with pytest.raises(OutsideSpaceError):
        read_state_code(None, spaces.Discrete(7)).keys(wrong)


@pytest.mark.parametrize("wrong", [[3, 0], [0, -1], [0], [0, 0, 0], [0.0, 1.0], 1, None, "01", [[0], [0, 1]]])
def test_a_multi_discrete_observation_outside_its_table_is_refused(wrong) -> None:
    code = read_state_code(None, spaces.MultiDiscrete([3, 2]))
    for given_as in (
        wrong,
        np.array(wrong, object) if isinstance(wrong, list) and len(wrong) == 2 else wrong,
    ):
        with pytest.raises(InvalidArgumentError):
            code.key(given_as)
    assert code.key([2, 1]) == code.key(np.array([2, 1], np.int8)) == 5


@pytest.mark.parametrize("wrong", [[0.0], [0.0, 0.0, 0.0], 0.0, "ab", None, [[0.0], [0.0, 1.0]], {"a": 1}])
def test_an_observation_of_another_shape_is_refused(wrong) -> None:
    for states in (Bins(3), Bins(3, of=(0, 1))):
        code = read_state_code(states, BOX)
        if states.of and isinstance(wrong, list) and len(wrong) == 3:
            continue  # the components are there
        with pytest.raises(InvalidArgumentError):
            code.key(wrong)


def test_components_that_an_observation_lacks_are_not_made_up() -> None:
    code = read_state_code(Bins(3, of=(0, 2)), CUBE)
    for call, observation in ((code.key, np.zeros(2)), (code.keys, np.zeros((4, 2)))):
        with pytest.raises(OutsideSpaceError, match="0 to 1"):
            call(observation)


# Functions of the user's.


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (3, 3), (np.int16(3), 3), (True, 1), (np.True_, 1), ("a", "a"), (np.str_("a"), "a"),
        ((1, "b"), (1, "b")), ((np.int64(1), (np.uint8(2), "c")), (1, (2, "c"))), ((), ()),
    ],
)  # fmt: skip
def test_a_function_may_give_numbers_texts_and_tuples_of_them(value, key) -> None:
    code = read_state_code(lambda observation: value, CUBE)
    assert repr(code.key(np.zeros(3))) == repr(key)
    assert code.num_keys is None
    assert code.every_key is None
    assert code.name(key) == str(key)


@pytest.mark.parametrize("value", [np.nan, object(), [1], np.array([1, 2]), (1, [2.0]), {"a": 1}, {1}])
def test_a_function_that_gives_something_else_is_refused_at_once(value) -> None:
    def rounded(observation):
        return value

    with pytest.raises(InvalidArgumentError, match=r"rounded.*must return a hashable value"):
        read_state_code(rounded, CUBE).key(np.zeros(3))


@pytest.mark.parametrize("states", [lambda o: 1 // 0, Bins(2, low=0, high=1, of=lambda o: 1 // 0)])
def test_a_function_that_raises_is_named_with_the_observation(states) -> None:
    with pytest.raises(InvalidArgumentError, match=r"lambda.*array\(\[0., 0., 0.\]\).*ZeroDivisionError"):
        read_state_code(states, CUBE).key(np.zeros(3))


def test_the_keys_of_a_function_come_one_by_one() -> None:
    with pytest.raises(InvalidArgumentError, match="call `key`"):
        read_state_code(len, CUBE).keys(np.zeros((4, 3)))


# Names, places, documents.


def test_a_bin_is_named_by_its_ends_and_an_open_one_by_the_end_it_has() -> None:
    code = read_state_code(Bins((12, 11), names=("position", "velocity")), BOX)
    assert code.name(0) == "(position -1.20..-1.05, velocity -0.070..-0.057)"
    code = read_state_code(Bins(3, low=-1.5, high=1.5), spaces.Box(-INF, INF, (1,)))
    assert [code.name(k) for k in range(3)] == ["(x0 below -0.5)", "(x0 -0.5..0.5)", "(x0 from 0.5)"]
    code = read_state_code(Bins(1, low=0, high=1), spaces.Box(-INF, INF, (1,)))
    assert code.name(0) == "(x0 any)"
    code = read_state_code(Bins(2, low=-0.5, high=0.5, of=2), CUBE)
    assert code.name(0) == "(x2 -1.0..0.0)"  # the outer bin reaches to the end of the space


def test_every_state_has_its_own_name(code_and_space) -> None:
    code, _ = code_and_space
    names = [code.name(key) for key in code.every_key]
    assert len(set(names)) == code.num_keys


def test_numbers_are_named_as_they_are_observed() -> None:
    assert read_state_code(None, spaces.Discrete(7, start=-3)).name(-3) == "-3"
    code = read_state_code(None, spaces.MultiDiscrete([3, 4], start=[0, -2]))
    assert code.name(code.key(np.array([2, -1]))) == "(2, -1)"


def test_two_dimensions_are_drawn_with_the_second_upwards() -> None:
    code = read_state_code(Bins((2, 3)), BOX)
    layout = code.layout(list(code.every_key))
    assert layout is not None
    assert layout.positions.tolist() == [[0, 2], [0, 1], [0, 0], [1, 2], [1, 1], [1, 0]]
    line = read_state_code(Bins(4), spaces.Box(0.0, 1.0, (1,))).layout([3, 1])
    assert line is not None
    assert line.positions.tolist() == [[3, 0], [1, 0]]
    assert read_state_code(Bins(2), CUBE).layout([0]) is None


def test_a_document_makes_the_same_code_again(code_and_space) -> None:
    code, space = code_and_space
    document = json.loads(json.dumps(code.document(), allow_nan=False))
    if isinstance(document.get("of"), str):
        with pytest.raises(InvalidDataError, match="Pass states="):
            state_code_from_document(document, space)
        return
    again = state_code_from_document(document, space)
    space.seed(4)
    observations = np.array([space.sample() for _ in range(100)])
    assert again == code
    assert again.keys(observations).tolist() == code.keys(observations).tolist()


def test_a_code_survives_a_copy_to_another_process(code_and_space) -> None:
    code, space = code_and_space
    again = pickle.loads(pickle.dumps(code))
    assert again == code
    assert again.key(space.sample()) in again.every_key
    assert isinstance(again, StateCode)


def test_the_document_of_a_function_is_its_name() -> None:
    document = read_state_code(radius, CUBE).document()
    assert document == {"kind": "function", "name": f"{__name__}.radius"}
    with pytest.raises(InvalidDataError, match=r"radius.*Pass states=radius\."):
        state_code_from_document(document, CUBE)


GOOD = {
    "kind": "bins",
    "edges": [[0.0], [0.0]],
    "ends": [[-1, None], [None, None]],
    "names": ["a", "b"],
    "of": None,
}


@pytest.mark.parametrize(
    "document",
    [
        None, {}, [], {"kind": "pickle"}, {"kind": ["bins"]}, {"kind": "bins"}, {"kind": "discrete"},
        GOOD | {"edges": [[0.0]]}, GOOD | {"edges": [[1.0, 0.0], []]}, GOOD | {"edges": [[NAN], [0.0]]},
        GOOD | {"edges": [[-2.0], [0.0]]}, GOOD | {"edges": 3}, GOOD | {"of": [7, 1]}, GOOD | {"of": [0]},
        GOOD | {"of": "os.system"}, GOOD | {"ends": [[0], [0]]}, {"kind": "discrete", "count": 4, "start": 0},
        {"kind": "multi_discrete", "counts": [2], "start": [0]},
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_document_is_refused(document) -> None:
    assert state_code_from_document(GOOD, BOX).num_keys == 4
    with pytest.raises(InvalidDataError):
        state_code_from_document(document, BOX)


def test_the_document_of_another_space_is_refused() -> None:
    document = read_state_code(None, spaces.Discrete(7)).document()
    with pytest.raises(InvalidDataError, match="another environment"):
        state_code_from_document(document, spaces.Discrete(8))


# What may be asked for.


@pytest.mark.parametrize(
    ("states", "space", "message"),
    [
        (None, BOX, r"Pass states=rc\.Bins\(8\)"),
        (None, spaces.Dict(a=BOX), "a function from an observation"),
        (None, spaces.Text(3), "a function from an observation"),
        (None, "Discrete(3)", "`space` must be a Gymnasium space"),
        (Bins(3), spaces.Discrete(9), "Box space"),
        (Bins(3), spaces.Box(-INF, INF, (2,)), "dimension 0 of the observations has no finite low bound"),
        (Bins(3, low=0, high=[1, None]), spaces.Box(-INF, INF, (2,)), "dimension 1 of the observations has no finite high bound"),
        (Bins(3, of=radius), CUBE, "has no finite low bound"),
        (Bins(0), CUBE, "`counts`"),
        (Bins(2.5), CUBE, "`counts`"),
        (Bins((2, 2)), CUBE, "`counts` must be one number or 3"),
        (Bins(2, low=(0, 0)), CUBE, "`low` must be one number or 3"),
        (Bins(2, low=1, high=0), CUBE, "`low` must be below `high`"),
        (Bins(2, low=-INF, high=0), CUBE, "`low` must be finite"),
        (Bins(2, low="a"), CUBE, "`low` must be a number"),
        (Bins(2, of=3), CUBE, "`of` must hold component numbers from 0 to 2, got 3"),
        (Bins(2, of="xy"), CUBE, "`of` must be component numbers or a function"),
        (Bins(2, names=("a",)), CUBE, "`names` must be 3 labels"),
        (Bins(10**7), CUBE, "at most 1048576 per dimension"),
        (QuantileBins(3), CUBE, r"\.fit\(observations\)"),
        (QuantileBins(3).fit([[1.0, 2.0]]), CUBE, "bins 2 numbers, but the observation space has 3"),
        ("bins", CUBE, "`states` must be None"),
        (3, CUBE, "`states` must be None"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_code_is_refused_with_the_way_out(states, space, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_state_code(states, space)


@pytest.mark.parametrize(
    "wrong", [[], np.zeros((0, 2)), [[NAN, 1.0]], [["a", "b"]], 3.0, [[1.0], [1.0, 2.0]]]
)
def test_quantiles_of_nothing_or_of_no_numbers_are_refused(wrong) -> None:
    with pytest.raises(InvalidArgumentError):
        QuantileBins(3).fit(wrong)


# Actions.


ACTIONS = {
    "discrete": (None, spaces.Discrete(4)),
    "discrete with a start": (None, spaces.Discrete(4, start=-1)),
    "multi-discrete": (None, spaces.MultiDiscrete([2, 3], start=[1, 0])),
    "multi-binary": (None, spaces.MultiBinary(3)),
    "torques": (3, spaces.Box(-2.0, 2.0, (1,))),
    "two dimensions": ((2, 3), spaces.Box(-1.0, 1.0, (2,))),
    "a matrix": (2, spaces.Box(-1.0, 1.0, (2, 2))),
    "one level": (1, spaces.Box(-1.0, 3.0, (1,))),
    "listed": ([[0.0, 0.0], [1.0, 0.5], [-1.0, 0.1]], spaces.Box(-1.0, 1.0, (2,))),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_of_a_code_lies_in_its_space_and_has_its_own_number(name) -> None:
    code = read_action_code(*ACTIONS[name])
    space = ACTIONS[name][1]
    assert all(space.contains(value) for value in code.values)
    assert [code.number(value) for value in code.values] == list(range(code.num_actions))
    numbers = code.numbers(np.array(code.values))
    assert numbers.dtype == np.int64
    assert numbers.tolist() == list(range(code.num_actions))
    assert code.names is None or len(set(code.names)) == code.num_actions
    json.dumps(code.document(), allow_nan=False)


@pytest.mark.parametrize("name", ACTIONS)
def test_one_by_one_or_all_at_once_an_action_has_the_same_number(name) -> None:
    code, space = read_action_code(*ACTIONS[name]), ACTIONS[name][1]
    space.seed(5)
    taken = [space.sample() for _ in range(200)]
    assert code.numbers(np.array(taken)).tolist() == [code.number(action) for action in taken]


@pytest.mark.parametrize("name", ["torques", "two dimensions", "a matrix", "listed"])
def test_an_action_counts_as_the_nearest_one(name) -> None:
    code, space = read_action_code(*ACTIONS[name]), ACTIONS[name][1]
    space.seed(6)
    width = (space.high - space.low).ravel()
    for action in (space.sample() for _ in range(200)):
        apart = [np.sum(((action - value).ravel() / width) ** 2) for value in code.values]
        assert apart[code.number(action)] <= min(apart) + 1e-6  # float32


def test_levels_go_evenly_from_the_low_end_to_the_high_end() -> None:
    code = read_action_code(3, spaces.Box(-2.0, 2.0, (1,), np.float32))
    assert [value.tolist() for value in code.values] == [[-2.0], [0.0], [2.0]]
    assert all(value.dtype == np.float32 for value in code.values)
    assert code.names == ("-2", "0", "2")
    assert read_action_code(1, spaces.Box(-1.0, 3.0, (1,))).values[0].tolist() == [1.0]


def test_half_a_level_beyond_the_space_is_the_outer_level_and_more_is_refused() -> None:
    code = read_action_code(3, spaces.Box(-2.0, 2.0, (1,)))
    assert code.number(np.array([3.0])) == 2
    for wrong in (3.01, -3.01, NAN, INF):
        with pytest.raises(OutsideSpaceError, match="an action has a0"):
            code.number(np.array([wrong]))
        with pytest.raises(OutsideSpaceError, match="an action has a0"):
            code.numbers(np.array([[wrong]]))


@pytest.mark.parametrize("wrong", [[1.5, 0.0], [NAN, 0.0], [0.0], None])
def test_an_action_outside_the_space_is_none_of_the_listed_ones(wrong) -> None:
    code = read_action_code(*ACTIONS["listed"])
    with pytest.raises(OutsideSpaceError, match="an action"):
        code.number(wrong)


def test_an_environment_cannot_write_into_the_actions() -> None:
    for name in ("torques", "multi-discrete", "listed"):
        with pytest.raises(ValueError, match="read-only"):
            read_action_code(*ACTIONS[name]).values[0][0] = 1


@pytest.mark.parametrize(
    ("actions", "space", "message"),
    [
        (None, spaces.Box(-1.0, 1.0, (1,)), "Pass actions=3 for three levels"),
        (3, spaces.Discrete(4), r"`actions` must be a list of actions of Discrete\(4\)"),
        ([], spaces.Discrete(4), "a list of actions"),
        ([0.0, 1.0], spaces.Discrete(4), "a list of actions"),
        ([0, 4], spaces.Discrete(4), r"`actions` must be actions of Discrete\(4\), got \[0, 4\]"),
        ([1, 1], spaces.Discrete(4), "must all be different"),
        ([0, 1], spaces.MultiDiscrete([2, 3]), r"or list some: \[\[0, 1\], \[2, 0\]\]"),
        ([[0, 3]], spaces.MultiDiscrete([2, 3]), "must be actions of MultiDiscrete"),
        (None, spaces.Dict(a=spaces.Discrete(2)), "cannot be numbered"),
        (None, 4, "`space` must be a Gymnasium space"),
        (0, spaces.Box(-1.0, 1.0, (1,)), "`actions`"),
        (2.5, spaces.Box(-1.0, 1.0, (1,)), "`actions` must be a number of levels"),
        ((2, 2), spaces.Box(-1.0, 1.0, (3,)), "`actions` must be a number of levels, 3 of them"),
        ([-2.0, 0.0, 2.0], spaces.Box(-2.0, 2.0, (1,)), r"shape \(A, 1\)"),
        (3, spaces.Box(-INF, 1.0, (1,)), "unbounded"),
        (9, spaces.Box(-1.0, 1.0, (8,)), "at most"),
        (None, spaces.MultiBinary(20), "at most"),
        ([[0.0], [0.0]], spaces.Box(-1.0, 1.0, (1,)), "different"),
        ([[2.0]], spaces.Box(-1.0, 1.0, (1,)), "a0 = 2, expected -1 to 1"),
        ([[0.0, 0.0]], spaces.Box(-1.0, 1.0, (1,)), "`actions` must have shape"),
        ([[NAN]], spaces.Box(-1.0, 1.0, (1,)), "`actions` must be finite"),
        (np.zeros((0, 1)), spaces.Box(-1.0, 1.0, (1,)), "at least one action"),
    ],
)  # fmt: skip
def test_what_cannot_be_numbered_is_refused_with_the_way_out(actions, space, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_action_code(actions, space)


# Pilot runs.


def test_a_random_rollout_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    env = gym.make("MountainCar-v0", max_episode_steps=50)
    first, second, other = (random_rollout(env, 200, seed) for seed in (7, 7, 8))
    assert first.shape == (200 + 1 + 4, 2)  # four episodes of 50 steps, a fifth begun
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert all(env.observation_space.contains(observation) for observation in first)


def test_a_random_rollout_of_dictionaries_feeds_bins_with_a_function() -> None:
    class Named(gym.ObservationWrapper):
        observation_space = spaces.Dict(place=BOX)

        def observation(self, observation):
            return {"place": observation}

    seen = random_rollout(Named(gym.make("MountainCar-v0")), 100, 0)
    assert seen.shape == (101,)
    code = QuantileBins((3, 3), of=lambda o: o["place"]).fit(seen)
    keys = read_state_code(code, Named.observation_space).keys(seen)
    assert keys.tolist() == [code.key(observation) for observation in seen]


def test_an_environment_that_fails_in_the_random_rollout_is_named() -> None:
    class Broken(gym.Env):
        observation_space, action_space = BOX, spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            raise RuntimeError("the motor is hot")

    with pytest.raises(EnvironmentFailedError, match=r"Broken failed.*the motor is hot"):
        random_rollout(Broken(), 10, 0)
    with pytest.raises(InvalidArgumentError, match="`env` must be a Gymnasium environment"):
        random_rollout("MountainCar-v0", 10, 0)
    with pytest.raises(InvalidArgumentError, match="`num_steps`"):
        random_rollout(Broken(), 0, 0)


def test_eight_by_eight_bins_of_the_pendulums_angle_and_speed_hold_its_observations() -> None:
    env = gym.make("Pendulum-v1")
    bins = Bins((8, 8), low=(-math.pi, -8), high=(math.pi, 8), names=("angle", "speed"),
                of=lambda o: (math.atan2(o[1], o[0]), o[2]))  # fmt: skip
    code = read_state_code(bins, env.observation_space)
    observations = random_rollout(env, 500, 0)
    angle, speed = np.divmod(code.keys(observations), 8)
    exact = np.arctan2(observations[:, 1].astype(float), observations[:, 0].astype(float))
    assert (angle == np.clip((exact + math.pi) // (math.pi / 4), 0, 7)).all()
    assert (speed == np.clip((observations[:, 2].astype(float) + 8) // 2, 0, 7)).all()
