"""Chains against closed forms, definitions by brute force, and arithmetic of many digits.

The named mutants: a transposed chain, a diagonal that is read, a pivot by subtraction, a front that forgets
an update, a trap that is not searched, an eigenvalue that is not deflated.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import rhocover as rc
from rhocover import chains
from rhocover.errors import InvalidArgumentError, SolverError

reproducible = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def random_mdp(seed: int, most_states: int = 5, most_actions: int = 3) -> rc.MDP:
    """Returns few pairs with one or two successors each, so that components of all kinds occur."""
    rng = np.random.default_rng(seed)
    num_states = int(rng.integers(1, most_states + 1))
    states = np.repeat(np.arange(num_states), rng.integers(1, most_actions + 1, num_states))
    rows = np.zeros((states.size, num_states))
    for row in rows:
        row[rng.choice(num_states, min(num_states, int(rng.integers(1, 3))), replace=False)] = 1
    actions = np.arange(states.size) - np.searchsorted(states, states)
    return rc.MDP.from_pairs(rows / rows.sum(axis=1, keepdims=True), states, actions)


def random_chain(seed: int, num_states: int, decades: float, density: float = 0.3) -> np.ndarray:
    """Returns an irreducible chain whose moves are spread evenly over so many decades."""
    rng = np.random.default_rng(seed)
    P = 10 ** -rng.uniform(0, decades, (num_states, num_states))
    P *= rng.random(P.shape) < density
    cycle = rng.permutation(num_states)
    P[cycle, np.roll(cycle, 1)] = 10 ** -rng.uniform(0, decades, num_states)
    np.fill_diagonal(P, 0)
    return with_diagonal(P * (0.5 / np.maximum(P.sum(axis=1, keepdims=True), 0.5)))


def with_diagonal(moves):
    return moves + np.diag(1 - moves.sum(axis=1))


def sparse_birth_death(up, down):
    num_states = len(up) + 1
    moves = sp.diags_array([up, down], offsets=[1, -1], shape=(num_states, num_states))
    return sp.csr_array(moves + sp.diags_array(1 - moves.sum(axis=1)))


def drifting_grid(side: int, ratio: float):
    """Returns a walk that prefers left and up by `ratio`, and its product form."""
    walk = sparse_birth_death(np.full(side - 1, 1 / (1 + ratio)), np.full(side - 1, ratio / (1 + ratio)))
    line = ratio ** -np.arange(side, dtype=float)
    eye = sp.eye_array(side)
    return (sp.kron(walk, eye) + sp.kron(eye, walk)) / 2, np.outer(line, line).ravel() / line.sum() ** 2


def expander(num_states: int, seed: int = 0):
    """Returns a walk with five random successors a state, and a cycle to connect it."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(num_states), 6)
    columns = rng.integers(0, num_states, (num_states, 6))
    columns[:, 0] = np.roll(np.arange(num_states), 1)
    return sp.csr_array((np.full(rows.size, 1 / 6), (rows, columns.ravel())), shape=(num_states, num_states))


def many_digits(P: np.ndarray, digits: int) -> list:
    """Returns the stationary distribution by Gaussian elimination with so many digits."""
    with mp.workdps(digits):
        moves = mp.matrix((P - np.diag(np.diag(P))).tolist())
        A = moves.T - mp.diag([mp.fsum(moves[i, :]) for i in range(len(P))])
        for j in range(len(P)):
            A[0, j] = 1
        return list(mp.lu_solve(A, mp.matrix([1] + [0] * (len(P) - 1))))


def relative_error(result, exact) -> float:
    """Returns the largest relative error among entries that float64 holds to full precision."""
    return max(float(abs(mp.mpf(float(p)) / e - 1)) for p, e in zip(result, exact, strict=True) if e > 1e-290)


# The chain of a policy, and what is refused.


def test_the_chain_of_a_policy_averages_the_rows_of_its_actions() -> None:
    mdp = rc.envs.river_swim(num_states=5)
    policy = np.random.default_rng(0).dirichlet([1, 1], 5)
    policy[2] = [1, 0]
    expected = np.einsum("sa,sat->st", policy, mdp.dense())
    for given_as in (policy, policy.ravel()):
        chain = chains.policy_chain(mdp, given_as)
        assert np.allclose(chain.toarray(), expected, rtol=1e-15, atol=0)  # two products and a sum
    assert (chain.data > 0).all()


def test_a_policy_is_refused_by_the_state_where_it_does_not_sum_to_one() -> None:
    policy = np.full((6, 2), 0.5)
    policy[3] = 0.4
    with pytest.raises(InvalidArgumentError, match=r"`policy` must sum to 1 .* got 0\.8 in state 3"):
        chains.policy_chain(rc.envs.river_swim(num_states=6), policy)
    policy[3] = [1.4, -0.4]
    with pytest.raises(InvalidArgumentError, match=r"non-negative, got policy\[3, 1\] = -0\.4"):
        chains.policy_chain(rc.envs.river_swim(num_states=6), policy)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ([[0.5, 0.4], [0, 1]], r"sum to 1, got 0\.9 in row 0"),
        ([[1.5, -0.5], [0, 1]], r"non-negative, got chain\[0, 1\] = -0\.5"),
        ([[np.nan, 1], [0, 1]], r"finite, got chain\[0, 0\] = nan"),
        (np.ones((2, 3)) / 3, r"shape \(2, 2\), got \(2, 3\)"),
        (np.ones((1, 1), bool), "real numbers"),
        (sp.csr_array((0, 0)), "matrix"),
        (sp.csr_array(np.eye(2) * 1j), "real numbers"),
    ],
)
def test_what_is_not_a_chain_is_refused_at_the_door(chain, words: str) -> None:
    for question in (chains.stationary_distribution, chains.recurrent_classes, chains.period):
        with pytest.raises(InvalidArgumentError, match=words):
            question(chain)


def test_a_sparse_chain_may_list_an_entry_twice_and_is_not_touched() -> None:
    chain = sp.csr_array((np.array([0.5, 0.5, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert chains.stationary_distribution(chain).tolist() == [0.5, 0.5]
    assert chain.nnz == 3


# Classes, reachability, period.


def closure(graph: np.ndarray) -> np.ndarray:
    """Returns who reaches whom in any number of steps, none included."""
    reach = graph | np.eye(len(graph), dtype=bool)
    for k in range(len(graph)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def state_graph(mdp: rc.MDP) -> np.ndarray:
    graph = np.zeros((mdp.num_states, mdp.num_states), bool)
    np.logical_or.at(graph, mdp.pair_state, mdp.transitions.toarray() > 0)
    return graph


@reproducible
@given(seeds)
def test_a_recurrent_class_is_what_its_states_reach_and_no_more(seed: int) -> None:
    mdp = random_mdp(seed, most_states=7, most_actions=1)
    reach = closure(mdp.transitions.toarray() > 0)
    recurrent = [s for s in range(len(reach)) if (reach[:, s] >= reach[s]).all()]
    expected = {tuple(np.flatnonzero(reach[s]).tolist()) for s in recurrent}
    found = [tuple(states.tolist()) for states in chains.recurrent_classes(mdp.transitions)]
    assert found == sorted(expected)


@reproducible
@given(seeds)
def test_reachable_states_are_those_of_the_transitive_closure(seed: int) -> None:
    mdp = random_mdp(seed, most_states=7)
    reach = closure(state_graph(mdp))
    start = np.zeros(mdp.num_states)
    start[[0, -1]] = 0.5
    start /= start.sum()
    assert chains.reachable_states(mdp, start).tolist() == (reach[0] | reach[-1]).tolist()
    assert chains.reachable_states(mdp, 0).tolist() == reach[0].tolist()


def test_the_period_is_the_common_divisor_of_the_cycles() -> None:
    cycle = np.roll(np.eye(12), 1, axis=1)
    short = cycle.copy()
    short[7, [8, 0]] = 0.5  # cycles of 12 and of 8
    lazy = cycle.copy()
    lazy[3, [3, 4]] = 0.5
    leading_in = np.block([[cycle, np.zeros((12, 1))], [np.eye(1, 12), np.zeros((1, 1))]])
    assert [chains.period(P) for P in (cycle, short, lazy, leading_in)] == [12, 4, 1, 12]
    assert chains.period([[1.0]]) == 1


# End components.


def components_by_definition(mdp: rc.MDP) -> list[set[int]]:
    """Returns the maximal sets of pairs that are closed and connect their states, out of all sets."""
    successors = [set(np.flatnonzero(row).tolist()) for row in mdp.transitions.toarray()]
    found: list[set[int]] = []
    for size in range(mdp.num_pairs, 0, -1):
        for pairs in map(set, itertools.combinations(range(mdp.num_pairs), size)):
            if not any(pairs <= larger for larger in found) and is_end_component(mdp, pairs, successors):
                found.append(pairs)
    return sorted(found, key=min)


def is_end_component(mdp: rc.MDP, pairs: set[int], successors: list[set[int]]) -> bool:
    states = sorted({int(mdp.pair_state[p]) for p in pairs})
    graph = np.zeros((mdp.num_states, mdp.num_states), bool)
    for p in pairs:
        graph[mdp.pair_state[p], list(successors[p])] = True
    is_closed = all(successors[p] <= set(states) for p in pairs)
    return is_closed and bool(closure(graph)[np.ix_(states, states)].all())


@pytest.mark.parametrize("share", [1, 10**9], ids=["traps searched", "components recomputed"])
@reproducible
@given(seed=seeds)
def test_maximal_end_components_are_those_of_the_definition(share: int, seed: int) -> None:
    mdp = random_mdp(seed, most_states=5, most_actions=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "SEARCH_SHARE", share)
        components = chains.maximal_end_components(mdp)
    expected = components_by_definition(mdp)
    assert components.count == len(expected)
    for label, pairs in enumerate(expected):
        assert set(np.flatnonzero(components.pair_label == label).tolist()) == pairs
        states = np.unique(mdp.pair_state[sorted(pairs)])
        assert np.flatnonzero(components.state_label == label).tolist() == states.tolist()
    assert (components.pair_label >= 0).sum() == sum(map(len, expected))


@pytest.mark.parametrize("seed", range(20))
def test_searching_traps_and_recomputing_components_agree_on_larger_models(seed: int, monkeypatch) -> None:
    mdp = random_mdp(seed, most_states=400, most_actions=4)
    labels = []
    for share in (1, 16, 10**9):
        monkeypatch.setattr(chains, "SEARCH_SHARE", share)
        labels.append(chains.maximal_end_components(mdp).pair_label.tolist())
    assert labels[0] == labels[1] == labels[2]


def corridor(num_states: int, can_stay: bool) -> rc.MDP:
    """Returns a pit at 0 and states that step to both sides at once, or stay if they can."""
    states = np.arange(1, num_states)
    step = sp.csr_array(
        (
            np.full(2 * states.size, 0.5),
            np.stack([states - 1, np.minimum(states + 1, num_states - 1)], axis=1).ravel(),
            2 * np.arange(states.size + 1),
        ),
        shape=(states.size, num_states),
    )
    stay = sp.eye_array(num_states, format="csr")[: num_states if can_stay else 1]
    rows = sp.vstack([stay, step], format="csr")
    all_states = np.concatenate([np.arange(stay.shape[0]), states])
    return rc.MDP.from_pairs(rows, all_states, np.repeat([0, 1], [stay.shape[0], states.size]))


def test_a_corridor_unravels_into_the_pit_or_into_single_states() -> None:
    """20,000 states that come apart one by one; a recomputation for each would take minutes."""
    lost = chains.maximal_end_components(corridor(20_000, can_stay=False))
    assert lost.count == 1
    assert np.flatnonzero(lost.pair_label >= 0).tolist() == [0]
    single = chains.maximal_end_components(corridor(20_000, can_stay=True))
    assert single.state_label.tolist() == list(range(20_000))
    assert (single.pair_label >= 0).sum() == 20_000


@reproducible
@given(seeds)
def test_a_model_communicates_iff_its_states_reach_each_other(seed: int) -> None:
    mdp = random_mdp(seed, most_states=4)
    assert chains.is_communicating(mdp) == closure(state_graph(mdp)).all()


# Stationary distributions.


def test_two_states_share_in_proportion_to_the_way_back() -> None:
    result = chains.stationary_distribution([[0.9, 0.1], [0.3, 0.7]])
    assert np.allclose(result, [0.75, 0.25], rtol=1e-15, atol=0)  # a transposed chain gives 1/2 or worse


def test_transient_states_get_nothing_and_periodic_chains_get_their_average() -> None:
    P = [[0, 0.5, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert np.allclose(chains.stationary_distribution(P), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-15, atol=0)
    assert chains.stationary_distribution([[1.0, 0.0], [0.5, 0.5]]).tolist() == [1, 0]


def test_several_recurrent_classes_are_refused_with_a_state_of_each() -> None:
    P = np.eye(4)
    P[2] = [0.5, 0, 0, 0.5]
    with pytest.raises(InvalidArgumentError, match=r"one recurrent class, got 3, .* of each: 0, 1, 3\."):
        chains.stationary_distribution(P)
    one = chains.recurrent_classes(P)[0]
    assert chains.stationary_distribution(P[one][:, one]).tolist() == [1.0]


@pytest.mark.parametrize("coupling", [1e-6, 1e-12, 1e-16, 1e-100, 1e-300])
def test_nearly_uncoupled_blocks_keep_every_digit(coupling: float) -> None:
    """A pivot by subtraction loses all of them at 1e-16, four at 1e-12."""
    rng = np.random.default_rng(0)
    P = np.kron(np.eye(2), np.ones((10, 10))) * rng.random((20, 20))
    P /= P.sum(axis=1, keepdims=True)
    P[3, 15], P[17, 2] = coupling, 2 * coupling
    P[[3, 17], [3, 17]] -= [coupling, 2 * coupling]
    error = relative_error(chains.stationary_distribution(P), many_digits(P, 700))
    assert error < 1e-13  # a few roundings in each of 20 eliminations


@reproducible
@given(seeds, st.sampled_from([2, 50, 300]), st.booleans())
def test_birth_and_death_multiply_ratios_down_to_1e_300(seed: int, decades: int, shuffle: bool) -> None:
    rng = np.random.default_rng(seed)
    up, down = 0.5 * 10 ** -rng.uniform(0, decades, (2, 14))
    P = sparse_birth_death(up, down).toarray()
    exact = [mp.mpf(1)]
    for u, d in zip(up, down, strict=True):
        exact.append(exact[-1] * mp.mpf(u) / mp.mpf(d))
    order = rng.permutation(15) if shuffle else np.arange(15)
    result = chains.stationary_distribution(P[np.ix_(order, order)])
    total = mp.fsum(exact)
    error = relative_error(result, [exact[i] / total for i in order])
    assert error < (1e-14 if decades < 300 else 1e-11)  # logarithms near 10,000 carry 12 digits


@reproducible
@given(seeds, st.sampled_from([0.0, 12.0, 60.0]), st.sampled_from([2, 7, 1000]))
def test_fronts_of_any_size_give_the_digits_of_gaussian_elimination(
    seed: int, decades: float, size: int
) -> None:
    P = random_chain(seed, 4 + seed % 20, decades, density=0.15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "LEAF_STATES", size)
        patch.setattr(chains, "PANEL", min(size, 5))
        patch.setattr(chains, "HUB_DEGREE", 1.5)
        result = chains.stationary_distribution(P)
    assert relative_error(result, many_digits(P, 200)) < 1e-13  # a few roundings in each elimination


def test_a_grid_of_100_000_states_keeps_its_product_form() -> None:
    P, exact = drifting_grid(316, ratio=1.5)
    result = chains.stationary_distribution(P)
    assert result.min() < 1e-110
    # 1.5^-600 is off by 600 roundings in the closed form itself
    assert np.allclose(result, exact, rtol=1e-12, atol=0)


def test_a_line_of_100_000_states_is_in_detailed_balance() -> None:
    up, down = np.random.default_rng(0).uniform(0.1, 0.4, (2, 99_999))
    down = np.sort(up)[np.argsort(np.argsort(down))]  # the same numbers, so that no end outweighs the other
    result = chains.stationary_distribution(sparse_birth_death(up, down))
    assert np.allclose(result[1:] * down, result[:-1] * up, rtol=1e-13, atol=0)  # one elimination each
    assert result.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("num_states", [400, 900])
def test_what_is_too_light_for_a_float_is_zero_and_the_rest_is_right(num_states: int) -> None:
    line = sparse_birth_death(np.full(num_states - 1, 0.1), np.full(num_states - 1, 0.7))
    exact = 7.0 ** -np.arange(350)
    for order in (np.arange(num_states), np.random.default_rng(0).permutation(num_states)):
        result = np.empty(num_states)
        result[order] = chains.stationary_distribution(line[order][:, order])
        assert np.allclose(result[:350] / result[0], exact, rtol=1e-12, atol=0)  # 350 factors
        assert result[365:].max() < 1e-308  # denormal, with fewer digits
        assert result[-1] == 0


def two_wells(num_states: int):
    """Returns a line that falls off to both ends by 1/100 a step, and what its states weigh."""
    half = num_states // 2
    up = np.concatenate([np.full(half, 0.004), np.full(num_states - half - 1, 0.4)])
    down = np.concatenate([np.full(half, 0.4), np.full(num_states - half - 1, 0.004)])
    down[-1] = 0.1
    weight = [mp.mpf(1)]
    for u, d in zip(up, down, strict=True):
        weight.append(weight[-1] * mp.mpf(u) / mp.mpf(d))
    return sparse_birth_death(up, down), [w / mp.fsum(weight) for w in weight]


def test_two_wells_are_weighed_though_the_way_between_them_leaves_the_range_of_floats() -> None:
    """The barrier is 1e-420; shuffled, so that the order of the states is no help."""
    P, exact = two_wells(420)
    order = np.random.default_rng(0).permutation(420)
    result = np.empty(420)
    result[order] = chains.stationary_distribution(P[order][:, order])
    assert relative_error(result, exact) < 1e-10  # logarithms near 1,400, 420 times


def test_two_wells_of_many_states_are_refused_rather_than_guessed() -> None:
    P, _ = two_wells(1200)
    order = np.random.default_rng(0).permutation(1200)
    with pytest.raises(SolverError, match="coupled by less than 1e-303"):
        chains.stationary_distribution(P[order][:, order])


def test_restarts_do_not_hide_the_separators(monkeypatch) -> None:
    """Every state leads back to two hubs; checked by balance, to roundings, state by state."""
    P, _ = drifting_grid(80, ratio=1.0)
    hubs = (np.ones(2 * 6400), (np.repeat(np.arange(6400), 2), np.tile([1234, 5000], 6400)))
    P = 0.99 * P + 0.005 * sp.csr_array(hubs, shape=P.shape)
    monkeypatch.setattr(chains, "LARGEST_SEPARATOR", 160)
    monkeypatch.setattr(chains, "_swept_flow", None)  # so that it would fail if it were used
    result = chains.stationary_distribution(P)
    assert np.allclose(P.T @ result, result, rtol=1e-13, atol=0)


def test_sweeps_agree_with_elimination_where_both_work(monkeypatch) -> None:
    P = expander(600)
    exact = chains.stationary_distribution(P)
    monkeypatch.setattr(chains, "LARGEST_SEPARATOR", 10)
    monkeypatch.setattr(chains, "_eliminate", None)  # so that it would fail if it were used
    assert np.allclose(chains.stationary_distribution(P), exact, rtol=1e-12, atol=0)  # starts agree to 1e-13


@pytest.mark.parametrize("coupling", [1e-9, 1e-20])
def test_sweeps_do_not_mistake_uncoupled_halves_for_a_limit(coupling: float, monkeypatch) -> None:
    P = sp.block_diag([expander(300), expander(300, seed=1)], format="lil")
    P[5, 400], P[500, 7] = coupling, 3 * coupling
    monkeypatch.setattr(chains, "LARGEST_SEPARATOR", 10)
    monkeypatch.setattr(chains, "MAX_SWEEPS", 500)
    with pytest.raises(SolverError, match="mixes too slowly"):
        chains.stationary_distribution(P)


def test_a_solver_that_returns_nonsense_is_not_believed(monkeypatch) -> None:
    for nonsense in (np.array([0.5, 0.5, 0.5]), np.array([np.nan, 1, 1]), np.array([-1.0, 1, 1])):
        monkeypatch.setattr(chains, "_eliminate", lambda *_, flow=nonsense: flow)
        with pytest.raises(SolverError, match="was not found"):
            chains.stationary_distribution([[0.5, 0.5, 0], [0.1, 0, 0.9], [0.2, 0.8, 0]])


# Spectral gaps.


def reversible_chain(seed: int, num_states: int) -> np.ndarray:
    weight = np.random.default_rng(seed).random((num_states, num_states)) ** 3
    weight += weight.T
    return weight / weight.sum(axis=1, keepdims=True)


def test_gaps_of_two_states_and_of_a_lazy_cycle_are_their_closed_forms() -> None:
    for a, b in ((0.3, 0.2), (0.9, 0.8), (1e-12, 2e-12)):
        P = [[1 - a, a], [b, 1 - b]]
        assert chains.spectral_gap(P) == pytest.approx(1 - abs(1 - a - b), abs=1e-14)  # 1 - lambda rounds
    cycle = np.roll(np.eye(12), 1, axis=1)
    lazy = 0.5 * np.eye(12) + 0.25 * (cycle + cycle.T)
    assert chains.spectral_gap(lazy) == pytest.approx(0.5 - 0.5 * np.cos(np.pi / 6), abs=1e-14)


def test_a_periodic_chain_has_no_gap_and_a_single_state_all_of_it() -> None:
    cycle = np.roll(np.eye(12), 1, axis=1)
    even_odd = 0.5 * (cycle + cycle.T)
    for gap in (chains.spectral_gap, chains.pseudo_spectral_gap):
        assert [gap(P) for P in (cycle, even_odd, [[1.0]], [[1.0, 0.0], [0.5, 0.5]])] == [0, 0, 1, 1]


def test_reversible_means_symmetric_flows() -> None:
    assert chains.is_reversible(reversible_chain(0, 6))
    assert chains.is_reversible(sparse_birth_death([0.1, 1e-9], [0.7, 0.2]))
    assert not chains.is_reversible([[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]])


def test_large_chains_have_the_gap_of_the_closed_form() -> None:
    """A walk on a 40×40 grid: eigenvalues are means of those of two lines, and one is near -1."""
    P, _ = drifting_grid(40, ratio=1.0)
    assert chains.spectral_gap(P) == pytest.approx((1 - np.cos(np.pi / 40)) / 2, abs=1e-10)
    second = (1 + np.cos(np.pi / 40)) / 2
    assert chains.pseudo_spectral_gap(P) == pytest.approx(1 - second**2, abs=1e-10)  # Krylov's tolerance


@pytest.mark.parametrize("separator", [4000, 5], ids=["factored", "iterated"])
@pytest.mark.parametrize("chain", [reversible_chain(1, 120), random_chain(2, 120, 1.0)])
def test_dense_and_sparse_spectra_agree(chain: np.ndarray, separator: int, monkeypatch) -> None:
    dense = chains.spectral_gap(chain), chains.pseudo_spectral_gap(chain, max_power=1)
    pi = chains.stationary_distribution(chain)
    monkeypatch.setattr(chains, "_distribution", lambda _: pi)
    monkeypatch.setattr(chains, "DENSE_SPECTRUM", 100)
    monkeypatch.setattr(chains, "LARGEST_SEPARATOR", separator)
    sparse = chains.spectral_gap(chain), chains.pseudo_spectral_gap(chain, max_power=1)
    assert sparse == pytest.approx(dense, abs=1e-9)  # ten times Krylov's tolerance


def pseudo_gap_by_definition(P: np.ndarray, most: int) -> float:
    """Returns max_k gap((P*)^k P^k) / k with the time reversal P* itself."""
    pi = chains.stationary_distribution(P)
    backwards = (pi[:, None] * P).T / pi[:, None]
    best, left, right = 0.0, np.eye(len(P)), np.eye(len(P))
    for k in range(1, most):
        left, right = left @ backwards, right @ P
        best = max(best, (1 - np.sort(np.linalg.eigvals(left @ right).real)[-2]) / k)
    return best


@pytest.mark.parametrize("seed", range(8))
def test_the_pseudo_gap_is_that_of_the_definition(seed: int) -> None:
    P = random_chain(seed, 7, 1.0, density=0.4)
    gap = chains.pseudo_spectral_gap(P)
    assert gap > 1 / 32  # so that every power was tried
    assert gap == pytest.approx(pseudo_gap_by_definition(P, 40), abs=1e-12)  # eigenvalues of products


def resetting_shift(num_states: int) -> np.ndarray:
    """Returns steps along a line, certain but for the last, which goes to one of the first two states."""
    P = np.eye(num_states, k=1)
    P[-1, :2] = 0.5
    return P


def test_a_chain_that_forgets_in_several_steps_has_a_pseudo_gap_by_a_higher_power() -> None:
    P = resetting_shift(3)
    assert chains.pseudo_spectral_gap(P, max_power=1) == pytest.approx(0, abs=1e-14)
    assert chains.pseudo_spectral_gap(P) == pytest.approx(pseudo_gap_by_definition(P, 40), abs=1e-12)
    assert chains.pseudo_spectral_gap(P) > 1 / 32


def test_a_small_pseudo_gap_is_bounded_from_below_by_at_least_its_half() -> None:
    P = resetting_shift(8)
    exact = pseudo_gap_by_definition(P, 1500)
    gap = chains.pseudo_spectral_gap(P)
    assert 0 < exact < 1 / 32
    assert exact / 2 <= gap <= exact + 1e-12
    assert chains.pseudo_spectral_gap(P, max_power=5) <= gap


def test_the_pseudo_gap_of_a_reversible_chain_needs_one_step() -> None:
    P = reversible_chain(3, 9)
    second = np.sort(np.abs(np.linalg.eigvals(P)))[-2]
    assert chains.pseudo_spectral_gap(P) == pytest.approx(1 - second**2, abs=1e-13)
