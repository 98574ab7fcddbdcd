"""Classes and periods of chains, reachable states, and end components of models.

A recurrent class is a closed strongly connected component. With `depth` the number of steps from some state
of a class, its period is the greatest common divisor of depth[s] + 1 - depth[s_next] over its transitions.
Only the graph is used: the size of a probability does not matter, only that it is not 0.

**Reading.** The caller's chain may be dense or sparse, may list an entry twice and may store zeros. It is
copied to rows in canonical form: sorted, each entry once, no zeros, non-negative, sums of 1. After that
nothing is checked again, and the caller's matrix is never changed.

**End components** are sets of pairs within which a policy can stay forever and reach every state. The maximal
ones are found by removing, in turn, the pairs that leave their strongly connected component (de Alfaro 1997)
and the traps that this creates, until no pair leaves. Only components that lost a pair are computed again.

**Traps** are closed sets of states that separate from a component when it loses pairs. They are searched
forwards from the states that lost a pair, so that a corridor which falls apart one state at a time costs one
pass and not one pass per state (after Chatterjee and Henzinger 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP

# Reading.


def policy_chain(mdp: MDP, policy: Any) -> Matrix:
    """Returns the chain of a policy, sparse `[S, S]`; `policy` holds pi(a | s) as `[n]` or `[S, A]`."""
    choice = mdp.per_pair(policy, "policy")
    checks.check_nonnegative(checks.float_array(policy, "policy"), "policy")  # named as the caller wrote it
    sums = np.bincount(mdp.pair_state, choice, mdp.num_states)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-8)
    if wrong.size:
        raise InvalidArgumentError.of(
            "policy",
            "must sum to 1 in every state",
            f"{sums[wrong[0]]:.9g} in state {wrong[0]}",
            remedy="Divide it by its sum over the actions of the state.",
        )
    chain = mixture(mdp, choice / sums[mdp.pair_state])
    chain.sort_indices()
    chain.eliminate_zeros()  # products of two probabilities may underflow
    return chain


def mixture(mdp: MDP, weight: FloatArray) -> Matrix:
    """Returns sum_a weight(s, a) P(. | s, a) per state, `[S, S]`; no entry is stored twice.

    With duplicate entries SciPy's search for strong components would not return.
    """
    used = weight > 0
    first = np.append(0, np.cumsum(used))[np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))]
    shape = (mdp.num_states, mdp.num_pairs)
    return sp.csr_array(
        sp.csr_array((weight[used], np.flatnonzero(used), first), shape=shape) @ mdp.transitions
    )


def read_chain(chain: Any) -> Matrix:
    """Returns `chain` as canonical rows without stored zeros; refuses what is not a chain."""
    rows = _read_matrix(chain)
    checks.check_shape(rows.shape, "chain", (rows.shape[0], rows.shape[0]))
    _refuse_entries(rows, ~np.isfinite(rows.data), "finite")
    _refuse_entries(rows, rows.data < 0, "non-negative")
    rows.eliminate_zeros()
    is_single = getattr(chain, "dtype", None) == np.float32
    _refuse_sums(rows, tolerance=1e-5 if is_single else 1e-8)  # S roundings of 6e-8
    return rows


def _read_matrix(chain: Any) -> Matrix:
    if not sp.issparse(chain):
        chain = sp.csr_array(np.atleast_2d(checks.real_array(chain, "chain")))
    if chain.ndim != 2 or 0 in chain.shape or chain.dtype.kind not in "fiu":
        raise InvalidArgumentError.of(
            "chain", "must be a matrix [S, S] of real numbers", f"shape {chain.shape}, dtype {chain.dtype}"
        )
    rows = sp.csr_array(chain, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    return rows


def _refuse_entries(rows: Matrix, bad: BoolArray, rule: str) -> None:
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        entry = checks.at("chain", (int(row_of(rows)[place]), int(rows.indices[place])))
        raise InvalidArgumentError.of("chain", f"must be {rule}", f"{entry} = {rows.data[place]:g}")


def _refuse_sums(rows: Matrix, tolerance: float) -> None:
    sums = np.asarray(rows.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if wrong.size:
        raise InvalidArgumentError.of(
            "chain", "must have rows that sum to 1", f"{sums[wrong[0]]:.9g} in row {wrong[0]}"
        )


def row_of(rows: Matrix) -> IntArray:
    """Returns the row of each stored entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


# Classes.


def recurrent_classes(chain: Any) -> list[IntArray]:
    """Returns the sorted states of each recurrent class, the class of the lowest state first."""
    return _closed_classes(read_chain(chain))


def _closed_classes(rows: Matrix) -> list[IntArray]:
    count, label = csgraph.connected_components(rows, connection="strong")
    origin = label[row_of(rows)]
    closed = np.ones(count, bool)
    closed[origin[label[rows.indices] != origin]] = False
    members = np.flatnonzero(closed[label])
    members = members[np.argsort(label[members], kind="stable")]
    sizes = np.bincount(label, minlength=count)[closed]
    return sorted(np.split(members, np.cumsum(sizes)[:-1]), key=lambda states: int(states[0]))


def recurrent_part(rows: Matrix) -> tuple[IntArray, Matrix]:
    """Returns the states of the one recurrent class and the chain among them."""
    classes = _closed_classes(rows)
    if len(classes) > 1:
        some = checks.name_some([int(states[0]) for states in classes])
        raise InvalidArgumentError.of(
            "chain",
            "must have one recurrent class",
            f"{len(classes)}, with these states, one from each: {some}",
            remedy="Pass one class alone: c = recurrent_classes(chain)[0]; chain[c][:, c].",
        )
    states = classes[0]
    return states, rows if states.size == rows.shape[0] else sp.csr_array(rows[states][:, states])


def reachable_states(mdp: MDP, start: Any) -> BoolArray:
    """Returns which states some policy visits from `start` (a distribution or a state), shape `[S]`."""
    support = np.flatnonzero(checks.distribution(start, "start", mdp.num_states))
    return depths(mixture(mdp, np.ones(mdp.num_pairs)), support) >= 0


def depths(graph: Matrix, roots: IntArray) -> IntArray:
    """Returns how many steps each state is from the nearest root, shape `[S]`; -1 out of reach.

    An extra state S that leads to every root makes it one search; depths follow by pointer doubling.
    """
    num_states = graph.shape[0]
    indices = np.concatenate([graph.indices, roots.astype(graph.indices.dtype)])
    indptr = np.append(graph.indptr, indices.size)
    rooted = sp.csr_array((np.ones(indices.size), indices, indptr), shape=(num_states + 1, num_states + 1))
    _, before = csgraph.breadth_first_order(rooted, num_states)
    jump = np.where(before < 0, num_states, before)
    depth = (np.arange(num_states + 1) != num_states).astype(np.int64)
    while (jump != num_states).any():
        depth, jump = depth + depth[jump], jump[jump]
    return np.where(before < 0, -1, depth - 1)[:num_states]


def period(chain: Any) -> int:
    """Returns the greatest common divisor of the cycle lengths of the one recurrent class."""
    return period_of(recurrent_part(read_chain(chain))[1])


def period_of(part: Matrix) -> int:
    """Returns the period of an irreducible chain."""
    depth = depths(part, np.zeros(1, np.int64))
    return int(np.gcd.reduce(depth[row_of(part)] + 1 - depth[part.indices]))


# Traps.


class Traps:
    """Removes closed sets inside components, starting at the states that lost a pair.

    Between calls no remaining pair leads from one label to another. A state without pairs is a trap itself.
    These are plain loops over memory views: only what is removed is visited, and then a few times.
    """

    def __init__(self, mdp: MDP, alive: BoolArray, label: IntArray) -> None:
        arrivals = mdp.transitions.tocsc()
        self.alive, self.label, self.left = alive, label, np.bincount(mdp.pair_state)
        self._alive, self._label, self._left = alive.data, label.data, self.left.data
        self._first_pair = np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1)).data
        self._pair_state = mdp.pair_state.data
        self._first_next, self._next = mdp.transitions.indptr.data, mdp.transitions.indices.data
        self._first_arrival, self._arrival = arrivals.indptr.data, arrivals.indices.data

    def cut_off(self, pairs: list[int], allowance: int) -> None:
        """Removes `pairs`, then searches for traps from each state that lost one, while the allowance lasts.

        Searches are short at first, then longer. A search costs the entries that it reads, but each pair that
        it removes pays for 64 of them. States that wait for a longer search are in `far`.
        """
        reach, fresh = 4, int(self.label.max()) + 1
        near, far = self._lose(pairs), dict[int, None]()
        while near and allowance >= 0:
            state = near.popitem()[0]
            trap, cost = self._closure(state, reach)
            found = self._detach(trap, fresh) if trap else []
            far |= {} if trap else {state: None}
            near |= {s: None for s in self._lose(found) if s not in far}
            allowance -= max(0, cost - 64 * len(found))
            fresh += 1
            if not near:
                near, far, reach = far, {}, 4 * reach

    def _lose(self, pairs: list[int]) -> dict[int, None]:
        """Removes the pairs; returns their states (as keys of a dict: a set that keeps its order)."""
        for pair in pairs:
            self._alive[pair] = False
            self._left[self._pair_state[pair]] -= 1
        return dict.fromkeys(self._pair_state[pair] for pair in pairs)

    def _closure(self, state: int, reach: int) -> tuple[set[int], int]:
        """Returns all that `state` can reach, or nothing above `reach` reads; and the number of reads."""
        seen, stack, looks = {state}, [state], 0
        while stack:
            state = stack.pop()
            for pair in (
                range(self._first_pair[state], self._first_pair[state + 1]) if self._left[state] else ()
            ):
                looks += 1
                if looks > reach:
                    return set(), looks
                if self._alive[pair]:
                    ahead = self._next[self._first_next[pair] : self._first_next[pair + 1]]
                    looks += len(ahead)
                    stack.extend(s for s in ahead if s not in seen)
                    seen.update(ahead)
        return seen, looks

    def _detach(self, trap: set[int], fresh: int) -> list[int]:
        """Gives the trap its own label; returns the remaining pairs that lead into it from outside."""
        for state in trap:
            self._label[state] = fresh
        into = set[int]()
        for state in trap:
            into.update(self._arrival[self._first_arrival[state] : self._first_arrival[state + 1]])
        return [p for p in into if self._alive[p] and self._label[self._pair_state[p]] != fresh]


# End components.

SEARCH_SHARE = 16  # searches for traps may cost this fraction of a recomputation: Python is slower by as much


@dataclass(frozen=True, eq=False)
class EndComponents:
    """The maximal end components: their number per pair `[n]` and per state `[S]`, -1 for none.

    Components are numbered from 0 in the order of their lowest state.
    """

    pair_label: IntArray
    state_label: IntArray
    count: int


def maximal_end_components(mdp: MDP) -> EndComponents:
    """Returns the maximal sets of pairs within which one trajectory can stay and reach every state.

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
    """Returns the strongly connected component of each of `states` under the remaining pairs."""
    graph = mixture(mdp, alive.astype(np.float64))
    if states.size < mdp.num_states:
        graph = graph[states][:, states]
    return csgraph.connected_components(graph, connection="strong")[1].astype(np.int64)


def _leaving_pairs(mdp: MDP, alive: BoolArray, label: IntArray) -> IntArray:
    """Returns the remaining pairs that may lead out of their state's component."""
    outside = label[mdp.transitions.indices] != np.repeat(
        label[mdp.pair_state], np.diff(mdp.transitions.indptr)
    )
    return np.flatnonzero(alive & np.logical_or.reduceat(outside, mdp.transitions.indptr[:-1]))


def _cut(mdp: MDP, traps: Traps, leaving: IntArray) -> IntArray:
    """Removes the pairs and the traps that follow; returns the states whose component may have split."""
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
