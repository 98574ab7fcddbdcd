"""End components by their definition, out of all sets of pairs. The mutant: a trap that is not searched."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from chain_models import closure, random_mdp, reproducible, seeds, state_graph
from hypothesis import given

import rhocover as rc
from rhocover import chains
from rhocover.chains import classes
from tiers import tiered


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


@pytest.mark.parametrize("share", tiered([1, 10**9]), ids=["traps searched", "components recomputed"])
@reproducible
@given(seed=seeds)
def test_maximal_end_components_are_those_of_the_definition(share: int, seed: int) -> None:
    mdp = random_mdp(seed, most_states=5, most_actions=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "SEARCH_SHARE", share)
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
        monkeypatch.setattr(classes, "SEARCH_SHARE", share)
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
