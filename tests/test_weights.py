"""Every builder of weights is its definition, written out as a loop over states, actions and successors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhocover import MDP, Coverage, envs, weights
from rhocover.errors import InvalidArgumentError

reproducible = settings(max_examples=60, deadline=None, derandomize=True)
SUM_OF_SIX = 1e-14  # relative: products and sums of at most six numbers, then a root


def random_model(seed: int) -> MDP:
    """Returns a model with state-dependent actions, a third of whose pairs are deterministic."""
    rng = np.random.default_rng(seed)
    S, A = (int(k) for k in rng.integers(1, 7, 2))
    P = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.7)
    P[..., 0] += P.sum(axis=2) == 0
    P[rng.random((S, A)) < 0.33] = np.eye(S)[rng.integers(S)]
    available = rng.random((S, A)) < 0.6
    available[np.arange(S), rng.integers(0, A, S)] = True
    return MDP(P / P.sum(axis=2, keepdims=True), available=available)


models = st.integers(0, 2**32 - 1).map(random_model)
stochastic_models = models.filter(lambda mdp: mdp.transitions.data.min() < 1)


def by_loops(mdp: MDP, function) -> np.ndarray:
    """Returns function(list of the probabilities of a pair) for every pair, zero where there is none."""
    result = np.zeros((mdp.num_states, mdp.num_actions))
    P = mdp.dense()
    for s, a in zip(mdp.pair_state, mdp.pair_action, strict=True):
        result[s, a] = function([float(P[s, a, k]) for k in range(mdp.num_states)])
    return result


def standard_deviation(row: list[float]) -> float:
    return math.sqrt(sum(p * (1 - p) for p in row if p < 1))


def error_weight(row: list[float]) -> float:
    return sum(math.sqrt(p * (1 - p)) for p in row if p < 1) ** (2 / 3)


# --- definitions --------------------------------------------------------------------------------------


@reproducible
@given(models)
def test_uniform_weights_are_one_for_every_pair(mdp):
    np.testing.assert_array_equal(weights.uniform(mdp), by_loops(mdp, lambda row: 1.0))


@reproducible
@given(models, st.integers(0, 2**32 - 1))
def test_a_target_is_divided_by_its_sum_over_the_pairs(mdp, seed):
    values = np.random.default_rng(seed).random(mdp.num_pairs) + 1e-3
    expected = np.zeros((mdp.num_states, mdp.num_actions))
    for i, (s, a) in enumerate(zip(mdp.pair_state, mdp.pair_action, strict=True)):
        expected[s, a] = values[i] / math.fsum(values)
    np.testing.assert_allclose(weights.target(mdp, values), expected, rtol=SUM_OF_SIX)
    np.testing.assert_allclose(weights.target(mdp, mdp.table(values)), expected, rtol=SUM_OF_SIX)


@reproducible
@given(models, st.integers(0, 2**32 - 1))
def test_a_states_value_is_shared_equally_by_its_actions(mdp, seed):
    # A mutant that divides by A instead of the state's own number of actions loses mass.
    values = np.random.default_rng(seed).random(mdp.num_states) + 1e-3
    expected = np.zeros((mdp.num_states, mdp.num_actions))
    for s in range(mdp.num_states):
        own = [a for t, a in zip(mdp.pair_state, mdp.pair_action, strict=True) if t == s]
        for a in own:
            expected[s, a] = values[s] / len(own)
    found = weights.per_state(mdp, values)
    np.testing.assert_allclose(found, expected, rtol=SUM_OF_SIX)
    np.testing.assert_allclose(found.sum(axis=1), values, rtol=SUM_OF_SIX)


@reproducible
@given(models, st.integers(0, 2**32 - 1))
def test_a_mask_by_state_by_pair_and_by_table_is_one_mask(mdp, seed):
    marked = np.random.default_rng(seed).random(mdp.num_states) < 0.5
    marked[0] = True
    expected = np.zeros((mdp.num_states, mdp.num_actions))
    for s, a in zip(mdp.pair_state, mdp.pair_action, strict=True):
        expected[s, a] = float(marked[s])
    per_pair = marked[mdp.pair_state]
    table = np.repeat(marked[:, None], mdp.num_actions, axis=1)
    for pairs in (marked, per_pair, table, marked.tolist()):
        np.testing.assert_array_equal(weights.mask(mdp, pairs), expected)


@reproducible
@given(stochastic_models)
def test_the_transition_deviation_is_the_root_of_the_summed_variances(mdp):
    np.testing.assert_allclose(
        weights.transition_std(mdp), by_loops(mdp, standard_deviation), rtol=SUM_OF_SIX
    )


@reproducible
@given(stochastic_models)
def test_the_model_error_is_the_summed_deviations_to_two_thirds(mdp):
    np.testing.assert_allclose(weights.model_error(mdp), by_loops(mdp, error_weight), rtol=SUM_OF_SIX)


def test_a_coin_has_deviation_one_over_root_two_and_error_one():
    # c = 1/4 + 1/4 and V = 1/2 + 1/2.
    mdp = MDP(np.full((2, 1, 2), 0.5))
    np.testing.assert_allclose(weights.transition_std(mdp), math.sqrt(0.5), rtol=2.3e-16)
    np.testing.assert_allclose(weights.model_error(mdp), 1.0, rtol=2.3e-16)


# --- what they are for --------------------------------------------------------------------------------


@reproducible
@given(stochastic_models, st.integers(0, 2**32 - 1))
def test_at_rho_two_the_deviation_makes_the_value_the_squared_error_of_the_estimate(mdp, seed):
    # U_2 = -sum c/d: with n visits pair i is seen n d_i times, and E |P_hat - P|^2 = c_i / (n d_i).
    d = np.random.default_rng(seed).dirichlet(np.ones(mdp.num_pairs))
    P = mdp.dense()
    error = 0.0
    for i, (s, a) in enumerate(zip(mdp.pair_state, mdp.pair_action, strict=True)):
        error += sum(p * (1 - p) for p in P[s, a] if p < 1) / d[i]
    mu = mdp.per_pair(weights.transition_std(mdp), "mu")
    assert Coverage(2, mu).value(d) == pytest.approx(-error, rel=1e-12)  # exp of logs of size 10


@reproducible
@given(stochastic_models, st.integers(0, 2**32 - 1))
def test_at_rho_three_halves_the_model_error_makes_the_value_twice_tarbouriechs_loss(mdp, seed):
    # U_(3/2) = -2 sum V / sqrt(d).
    d = np.random.default_rng(seed).dirichlet(np.ones(mdp.num_pairs))
    P = mdp.dense()
    loss = 0.0
    for i, (s, a) in enumerate(zip(mdp.pair_state, mdp.pair_action, strict=True)):
        loss += sum(math.sqrt(p * (1 - p)) for p in P[s, a] if p < 1) / math.sqrt(d[i])
    mu = mdp.per_pair(weights.model_error(mdp), "mu")
    assert Coverage(1.5, mu).value(d) == pytest.approx(-2 * loss, rel=1e-12)


# --- deterministic pairs ------------------------------------------------------------------------------


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
def test_deterministic_pairs_get_exactly_zero(builder):
    # RiverSwim: going left is deterministic, going right is not.
    found = builder(envs.river_swim())
    np.testing.assert_array_equal(found[:, 0], 0)
    assert (found[:, 1] > 0.5).all()


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
@pytest.mark.parametrize("almost", [1 - 2**-53, 1 + 4e-9, 1 - 4e-9])
def test_a_row_that_is_deterministic_up_to_rounding_gets_exactly_zero(builder, almost):
    mdp = MDP([[[almost, 0.0], [0.5, 0.5]], [[0.0, almost], [0.5, 0.5]]])
    np.testing.assert_array_equal(builder(mdp)[:, 0], 0)


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
@pytest.mark.parametrize("least", [0, 0.1, 0.6, 5])
def test_a_least_weight_lifts_the_pairs_below_it_and_no_others(builder, least):
    mdp = envs.river_swim()
    plain = builder(mdp)
    np.testing.assert_array_equal(builder(mdp, min_weight=least), np.where(plain < least, least, plain))


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
def test_a_least_weight_is_not_given_to_pairs_that_do_not_exist(builder):
    mdp = MDP.from_pairs(np.full((3, 2), 0.5), [0, 0, 1], [0, 1, 0])
    assert builder(mdp, min_weight=5)[1, 1] == 0


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
def test_a_deterministic_model_is_refused_with_the_way_out(builder):
    mdp = MDP(np.eye(3)[:, None, :])
    with pytest.raises(InvalidArgumentError, match=r"every pair is deterministic.*min_weight=1"):
        builder(mdp)
    np.testing.assert_array_equal(builder(mdp, min_weight=1), np.ones((3, 1)))


# --- extremes and refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e308, 1.7e308, 1e-300, 5e-324])
def test_a_target_of_extreme_size_is_still_divided_by_its_sum(size):
    # The sum of four times 1e308 is not a float64.
    mdp = MDP(np.full((2, 2, 2), 0.5))
    np.testing.assert_array_equal(weights.target(mdp, np.full(4, size)), np.full((2, 2), 0.25))


@pytest.mark.parametrize("builder", [weights.transition_std, weights.model_error])
@pytest.mark.parametrize("least", [-0.1, math.nan, math.inf, "1", None, True, [1.0]])
def test_a_least_weight_that_is_no_weight_is_refused_by_name(builder, least):
    with pytest.raises(InvalidArgumentError, match="`min_weight` must"):
        builder(envs.river_swim(), min_weight=least)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda mdp, value: weights.target(mdp, value), "distribution"),
        (lambda mdp, value: weights.per_state(mdp, value), "values"),
        (lambda mdp, value: weights.mask(mdp, value), "pairs"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [np.zeros(6), np.zeros(12), np.zeros((6, 2)), -np.ones((6, 2)), -np.ones(6), np.full((6, 2), np.nan),
     np.full(6, np.inf), np.ones(5), np.ones((2, 6)), np.ones((6, 3)), [], 1.0, None, "all", ["a"] * 6,
     [1j] * 6, [[1], [1, 2]], np.zeros(6, bool), np.zeros((6, 2), bool), np.ones(7, bool)],
)  # fmt: skip
def test_what_are_no_weights_is_refused_by_name(build, name, value):
    with pytest.raises(InvalidArgumentError, match=f"`{name}` must"):
        build(envs.river_swim(), value)


def test_a_mask_is_made_of_booleans_alone():
    with pytest.raises(InvalidArgumentError, match="`pairs` must be a boolean array, got dtype int64"):
        weights.mask(envs.river_swim(), np.array([0, 1, 1, 0, 0, 0]))


def test_builders_return_arrays_of_the_callers_own():
    mdp = envs.river_swim()
    mine = np.ones((6, 2))
    for found in (weights.uniform(mdp), weights.target(mdp, mine), weights.transition_std(mdp)):
        found[:] = 7
    np.testing.assert_array_equal(mine, 1)
    np.testing.assert_array_equal(weights.uniform(mdp), 1)
