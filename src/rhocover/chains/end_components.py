"""End components: the sets of pairs within which a policy can stay for ever and go anywhere.

The maximal ones are found by cutting, in turn, the pairs that leave their strongly connected component
(de Alfaro 1997) and the traps that cutting creates (`rhocover.chains.traps`), until nothing leaves. Only
components that lost a pair are computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csgraph

from rhocover.chains.reading import mixture
from rhocover.chains.traps import Traps
from rhocover.checks import BoolArray, IntArray, frozen
from rhocover.mdp import MDP

SEARCH_SHARE = 16  # searches for traps may cost this part of a recomputation: Python is as much slower


@dataclass(frozen=True, eq=False)
class EndComponents:
    """The maximal end components: their number per pair `[n]` and per state `[S]`, -1 for none.

    Components are numbered from 0 in the order of their lowest state.
    """

    pair_label: IntArray
    state_label: IntArray
    count: int


def maximal_end_components(mdp: MDP) -> EndComponents:
    """Returns the maximal sets of pairs within which one trajectory can stay and go anywhere.

    Linear in the usual case. At worst O(m^1.5) for m stored probabilities: searches that find no trap
    may together cost a fraction of m before the components are recomputed.
    """
    alive = np.ones(mdp.num_pairs, bool)
    label = np.zeros(mdp.num_states, np.int64)
    states = np.arange(mdp.num_states)
    traps: Traps | None = None
    while states.size:
        label[states] = label.max() + 1 + _strong_labels(mdp, alive, states)
        leaving = _leaving_pairs(mdp, alive, label)
        if not leaving.size:
            break
        traps = traps or Traps(mdp, alive, label)
        states = _cut(mdp, traps, leaving)
    return _numbered(mdp, alive, label)


def _strong_labels(mdp: MDP, alive: BoolArray, states: IntArray) -> IntArray:
    """Returns the strongly connected component of each of `states` under the pairs alive."""
    graph = mixture(mdp, alive.astype(np.float64))
    if states.size < mdp.num_states:
        graph = graph[states][:, states]
    return csgraph.connected_components(graph, connection="strong")[1].astype(np.int64)


def _leaving_pairs(mdp: MDP, alive: BoolArray, label: IntArray) -> IntArray:
    """Returns the pairs alive that may lead out of their state's component."""
    outside = label[mdp.transitions.indices] != np.repeat(
        label[mdp.pair_state], np.diff(mdp.transitions.indptr)
    )
    return np.flatnonzero(alive & np.logical_or.reduceat(outside, mdp.transitions.indptr[:-1]))


def _cut(mdp: MDP, traps: Traps, leaving: IntArray) -> IntArray:
    """Cuts the pairs and the traps that follow; returns the states whose component may have come apart."""
    label, alive = traps.label.copy(), traps.alive.copy()
    traps.cut_off(leaving.tolist(), allowance=mdp.transitions.nnz // SEARCH_SHARE)
    touched = np.zeros(label.max() + 1, bool)
    touched[label[mdp.pair_state[alive & ~traps.alive]]] = True
    return np.flatnonzero(touched[label] & (traps.left > 0))


def _numbered(mdp: MDP, alive: BoolArray, label: IntArray) -> EndComponents:
    """Returns the components in the order of their lowest state."""
    in_one = np.bincount(mdp.pair_state[alive], minlength=mdp.num_states) > 0
    _, first, inverse = np.unique(label[in_one], return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    state_label = np.full(mdp.num_states, -1, np.int64)
    state_label[in_one] = rank[inverse]
    pair_label = np.where(alive, state_label[mdp.pair_state], -1)
    return EndComponents(frozen(pair_label), frozen(state_label), int(first.size))


def is_communicating(mdp: MDP) -> bool:
    """Returns whether all pairs lie in one end component."""
    components = maximal_end_components(mdp)
    return components.count == 1 and bool((components.pair_label == 0).all())
