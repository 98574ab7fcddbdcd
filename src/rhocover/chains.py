"""Facts about chains: classes, end components, stationary distributions, spectral gaps.

A chain is a row-stochastic matrix `chain[s, s_next]`, dense or sparse; it is checked at the door. A
policy turns an MDP into a chain; everything else here is asked of a chain or of an MDP's graph.

**Classes.** A recurrent class is a closed strongly connected component. An end component of an MDP is
a set of pairs that never leads out of itself and connects its states; a pair can be visited for ever
exactly when it lies in one. The maximal ones are found by cutting, in turn, the pairs that leave their
strongly connected component (de Alfaro 1997) and the closed sets, or traps, that cutting creates; traps
are searched forwards from the states that lost a pair, so a corridor that unravels one state at a time
costs one pass and not one pass a state (after Chatterjee and Henzinger 2014).

**Stationary distribution.** Grassmann, Taksar and Heyman (1985) eliminate states one by one: with F the
rates between distinct states, state k is taken out of the chain by F[i, j] += F[i, k] F[k, j] / out_k,
out_k = sum_j F[k, j]. Nothing is ever subtracted, so every entry keeps its *relative* accuracy, however
weakly the parts of the chain are coupled (O'Cinneide 1993). Here the same elimination is multifrontal:
nested dissection gives the order, each separator is one dense front, and the work is matrix products of
non-negative numbers. The chain's own time scale is divided out first: F is the chain of jumps, and
pi_s is proportional to flow_s / (probability of leaving s).

**Gaps.** With M = D^(1/2) P D^(-1/2), D = diag(pi), the absolute spectral gap is 1 - max |lambda| over all
eigenvalues but one copy of 1, and the pseudo-spectral gap (Paulin 2015) is
max_k (1 - sigma_2(M^k)^2) / k; sigma_2 is the second singular value. Both are 0 for a periodic chain.

Nothing here knows of weights or coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh, splu

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.errors import InvalidArgumentError, SolverError
from rhocover.mdp import MDP

SEARCH_SHARE = 16  # searches for traps may cost this part of a recomputation: Python is as much slower
LEAF_STATES = 64  # parts this small are one dense front: below it Python costs more than arithmetic
PANEL = 64  # pivots whose effect on the rest of a front is one matrix product
LARGEST_SEPARATOR = 4000  # a front is then about 1 GiB at most; larger separators mean an expander
HUB_DEGREE = 20  # times the mean: such states (restarts) hide distances, so they are eliminated last
LOG_STATES = 500  # up to here logarithms take about a second
TINY = 1e-303  # a sum of a thousand denormal roundings (5e-324) is 5e-18 of it
MAX_RESTARTS = 8
MAX_SWEEPS = 5000
SWEEP_AGREEMENT = 1e-13  # a few hundred roundings; starts cannot be told apart any closer
BALANCE_TOLERANCE = 1e-10  # elimination leaves 1e-15 to 1e-13; anything near 1e-10 is a failure
DENSE_SPECTRUM = 1000  # states; a dense spectrum takes about a second there
POWER_FILL = 4  # times the entries of M: powers denser than this cost more than they tell
EVERY_POWER = 32  # pseudo_spectral_gap tries each k up to here, and doubles after


# --- Reading ------------------------------------------------------------------------------------------


def policy_chain(mdp: MDP, policy: Any) -> Matrix:
    """Returns the chain of a policy, sparse `[S, S]`; `policy` holds pi(a | s) as `[n]` or `[S, A]`."""
    choice = mdp.per_pair(policy, "policy")
    checks.check_nonnegative(checks.float_array(policy, "policy"), "policy")  # named as the caller wrote it
    sums = np.bincount(mdp.pair_state, choice, mdp.num_states)
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-8)
    if wrong.size:
        raise InvalidArgumentError(
            f"`policy` must sum to 1 in every state, got {sums[wrong[0]]:.9g} in state {wrong[0]}. "
            "Divide it by its sum over the actions of the state."
        )
    chain = _mixture(mdp, choice / sums[mdp.pair_state])
    chain.sort_indices()
    chain.eliminate_zeros()  # products of two probabilities may underflow
    return chain


def _mixture(mdp: MDP, weight: FloatArray) -> Matrix:
    """Returns sum_a weight(s, a) P(. | s, a) per state, `[S, S]`; no entry is stored twice.

    SciPy's search for strong components does not return if one is.
    """
    used = weight > 0
    first = np.append(0, np.cumsum(used))[np.searchsorted(mdp.pair_state, np.arange(mdp.num_states + 1))]
    shape = (mdp.num_states, mdp.num_pairs)
    return sp.csr_array(
        sp.csr_array((weight[used], np.flatnonzero(used), first), shape=shape) @ mdp.transitions
    )


def _read_chain(chain: Any) -> Matrix:
    """Returns `chain` as canonical rows without stored zeros; what is not a chain is refused."""
    rows = _read_matrix(chain)
    checks.check_shape(rows.shape, "chain", (rows.shape[0], rows.shape[0]))
    _refuse_entries(rows, ~np.isfinite(rows.data), "finite")
    _refuse_entries(rows, rows.data < 0, "non-negative")
    rows.eliminate_zeros()
    sums = np.asarray(rows.sum(axis=1)).ravel()
    tolerance = 1e-5 if getattr(chain, "dtype", None) == np.float32 else 1e-8  # S roundings of 6e-8
    wrong = np.flatnonzero(np.abs(sums - 1) > tolerance)
    if wrong.size:
        raise InvalidArgumentError(
            f"`chain` must have rows that sum to 1, got {sums[wrong[0]]:.9g} in row {wrong[0]}."
        )
    return rows


def _read_matrix(chain: Any) -> Matrix:
    if not sp.issparse(chain):
        chain = sp.csr_array(np.atleast_2d(checks.real_array(chain, "chain")))
    if chain.ndim != 2 or 0 in chain.shape or chain.dtype.kind not in "fiu":
        raise InvalidArgumentError(
            f"`chain` must be a matrix [S, S] of real numbers, got shape {chain.shape}, dtype {chain.dtype}."
        )
    rows = sp.csr_array(chain, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    return rows


def _refuse_entries(rows: Matrix, bad: BoolArray, rule: str) -> None:
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        entry = checks.at("chain", (int(_row_of(rows)[place]), int(rows.indices[place])))
        raise InvalidArgumentError(f"`chain` must be {rule}, got {entry} = {rows.data[place]:g}.")


def _row_of(rows: Matrix) -> IntArray:
    """Returns the row of each stored entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


# --- Classes, reachability, period --------------------------------------------------------------------


def recurrent_classes(chain: Any) -> list[IntArray]:
    """Returns the sorted states of each recurrent class, the class of the lowest state first."""
    return _closed_classes(_read_chain(chain))


def _closed_classes(rows: Matrix) -> list[IntArray]:
    count, label = csgraph.connected_components(rows, connection="strong")
    origin = label[_row_of(rows)]
    closed = np.ones(count, bool)
    closed[origin[label[rows.indices] != origin]] = False
    members = np.flatnonzero(closed[label])
    members = members[np.argsort(label[members], kind="stable")]
    sizes = np.bincount(label, minlength=count)[closed]
    return sorted(np.split(members, np.cumsum(sizes)[:-1]), key=lambda states: int(states[0]))


def _recurrent_part(rows: Matrix) -> tuple[IntArray, Matrix]:
    """Returns the states of the one recurrent class and the chain among them."""
    classes = _closed_classes(rows)
    if len(classes) > 1:
        some = checks.name_some([int(states[0]) for states in classes])
        raise InvalidArgumentError(
            f"`chain` must have one recurrent class, got {len(classes)}, with these states among them, one "
            f"of each: {some}. Pass one class alone: c = recurrent_classes(chain)[0]; chain[c][:, c]."
        )
    states = classes[0]
    return states, rows if states.size == rows.shape[0] else sp.csr_array(rows[states][:, states])


def reachable_states(mdp: MDP, start: Any) -> BoolArray:
    """Returns which states some policy visits from `start` (a distribution or a state), shape `[S]`."""
    support = np.flatnonzero(checks.distribution(start, "start", mdp.num_states))
    return _depths(_mixture(mdp, np.ones(mdp.num_pairs)), support) >= 0


def _depths(graph: Matrix, roots: IntArray) -> IntArray:
    """Returns how many steps each state is from the nearest root, shape `[S]`; -1 out of reach.

    A state S that leads to every root makes it one search; its tree is then walked by pointer doubling.
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
    return _period(_recurrent_part(_read_chain(chain))[1])


def _period(part: Matrix) -> int:
    depth = _depths(part, np.zeros(1, np.int64))
    return int(np.gcd.reduce(depth[_row_of(part)] + 1 - depth[part.indices]))


# --- End components -----------------------------------------------------------------------------------


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
    traps: _Traps | None = None
    while states.size:
        label[states] = label.max() + 1 + _strong_labels(mdp, alive, states)
        leaving = _leaving_pairs(mdp, alive, label)
        if not leaving.size:
            break
        traps = traps or _Traps(mdp, alive, label)
        states = _cut(mdp, traps, leaving)
    return _numbered(mdp, alive, label)


def _strong_labels(mdp: MDP, alive: BoolArray, states: IntArray) -> IntArray:
    """Returns the strongly connected component of each of `states` under the pairs alive."""
    graph = _mixture(mdp, alive.astype(np.float64))
    if states.size < mdp.num_states:
        graph = graph[states][:, states]
    return csgraph.connected_components(graph, connection="strong")[1].astype(np.int64)


def _leaving_pairs(mdp: MDP, alive: BoolArray, label: IntArray) -> IntArray:
    """Returns the pairs alive that may lead out of their state's component."""
    outside = label[mdp.transitions.indices] != np.repeat(
        label[mdp.pair_state], np.diff(mdp.transitions.indptr)
    )
    return np.flatnonzero(alive & np.logical_or.reduceat(outside, mdp.transitions.indptr[:-1]))


def _cut(mdp: MDP, traps: _Traps, leaving: IntArray) -> IntArray:
    """Cuts the pairs and the traps that follow; returns the states whose component may have come apart."""
    label, alive = traps.label.copy(), traps.alive.copy()
    traps.cut_off(leaving.tolist(), allowance=mdp.transitions.nnz // SEARCH_SHARE)
    touched = np.zeros(label.max() + 1, bool)
    touched[label[mdp.pair_state[alive & ~traps.alive]]] = True
    return np.flatnonzero(touched[label] & (traps.left > 0))


class _Traps:
    """Cuts off closed sets inside components, beginning at the states that lost a pair.

    Between calls no pair alive leads from one label to another. A state without pairs is a trap of its
    own. Plain loops over memory views: only what is cut is visited, and then a few times.
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
        """Cuts `pairs`, then searches for traps from each state that lost one, while the allowance lasts.

        At first nearby, then further. A search costs the entries it looks at, except that each pair that
        it cuts pays for 64 of them. States that wait for a longer search wait in `far`.
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
        """Cuts the pairs; returns their states (keys alone: a set that keeps its order)."""
        for pair in pairs:
            self._alive[pair] = False
            self._left[self._pair_state[pair]] -= 1
        return dict.fromkeys(self._pair_state[pair] for pair in pairs)

    def _closure(self, state: int, reach: int) -> tuple[set[int], int]:
        """Returns all that `state` can reach, or nothing if that takes more than `reach` looks; the looks."""
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
        """Gives the trap a label of its own; returns the pairs alive that lead into it from outside."""
        for state in trap:
            self._label[state] = fresh
        into = set[int]()
        for state in trap:
            into.update(self._arrival[self._first_arrival[state] : self._first_arrival[state + 1]])
        return [p for p in into if self._alive[p] and self._label[self._pair_state[p]] != fresh]


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


# --- Stationary distribution --------------------------------------------------------------------------


def stationary_distribution(chain: Any) -> FloatArray:
    """Returns the stationary distribution of a chain with one recurrent class, shape `[S]`.

    The moves to other states are taken as given, the probability to stay is what they leave. Transient
    states get 0, periodic chains are welcome, and so are weak couplings: nothing is subtracted, so each
    entry is right to about 1e-14 of itself, down to 1e-308, where float64 itself ends.

    Two cases have less to offer. Where parts are coupled by less than 1e-303, logarithms take over (1e-12)
    up to 500 states, and `SolverError` is raised above. Where no 4,000 states or fewer separate the chain
    (large random graphs, not grids) it is iterated from three starts until all agree to 1e-13 in every
    entry, which is evidence but no proof; if it mixes too slowly for that, `SolverError` is raised.
    """
    rows = _read_chain(chain)
    states, part = _recurrent_part(rows)
    result = np.zeros(rows.shape[0])
    result[states] = _distribution(part)
    return result


def _distribution(part: Matrix) -> FloatArray:
    """Returns the stationary distribution of an irreducible chain."""
    if part.shape[0] == 1:
        return np.ones(1)
    jumps, rate = _jump_chain(part)
    digits, exponent = _flow(jumps, rate)
    _check_balance(jumps, np.ldexp(digits, exponent - exponent[digits > 0].max()))
    rate_digits, rate_exponent = np.frexp(rate)  # flow / rate may leave float64 before it is normalised
    exponent = exponent - rate_exponent
    weight = np.ldexp(digits / rate_digits, exponent - exponent[digits > 0].max())
    return weight / weight.sum()


def _jump_chain(part: Matrix) -> tuple[Matrix, FloatArray]:
    """Returns the chain seen only when the state changes, and the probability of changing, `[S]`."""
    row = _row_of(part)
    moves = part.indices != row
    row, column, data = row[moves], part.indices[moves], part.data[moves]
    rate = np.bincount(row, data, part.shape[0]).astype(np.float64, copy=False)
    return sp.csr_array((data / rate[row], (row, column)), shape=part.shape), rate


def _check_balance(jumps: Matrix, flow: FloatArray) -> None:
    """Refuses a flow that some state does not pass on as it got it, in proportion to its own size."""
    error = np.abs(jumps.T @ flow - flow)
    allowed = BALANCE_TOLERANCE * flow + TINY
    if not (np.isfinite(flow).all() and (flow >= 0).all() and (error <= allowed).all()):
        raise SolverError(
            f"the stationary distribution was not found: the flow through {int((~(error <= allowed)).sum())} "
            f"of {flow.size} states is off by more than {BALANCE_TOLERANCE:g} of itself."
        )


def _flow(jumps: Matrix, rate: FloatArray) -> tuple[FloatArray, IntArray]:
    """Returns the stationary flow of a chain of jumps, up to a factor, as digits and exponents of 2.

    The root, eliminated last, is the unit of the flow. A state that outweighs it by more than float64
    can say shows in the elimination; it becomes the root of the next attempt, or calls for logarithms.
    """
    graph = sp.csr_array(jumps + jumps.T)
    root = int(np.argmax(np.diff(graph.indptr)))
    for _ in range(MAX_RESTARTS):
        fronts = _dissect(graph, root)
        if fronts is None:
            return np.frexp(_swept_flow(jumps))
        try:
            return np.frexp(_eliminate(jumps, rate, fronts))
        except _RangeError as error:
            root = error.state
            if rate.size <= LOG_STATES:
                return _log_flow(jumps)
    raise SolverError(
        "parts of the chain are coupled by less than 1e-303: float64 cannot hold what they weigh relative to "
        "each other. Set such probabilities to 0 and treat the classes one by one."
    )


class _RangeError(Exception):
    """The weight of `state` relative to the root has left float64."""

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self.state = state


def _log_flow(jumps: Matrix) -> tuple[FloatArray, IntArray]:
    """Returns the flow by the same elimination on logarithms: any range, 1e-12 of accuracy, slowly."""
    with np.errstate(divide="ignore"):
        F = np.log2(jumps.toarray())
    pivot = np.zeros(F.shape[0])
    for k in range(F.shape[0] - 1, 0, -1):
        pivot[k] = np.logaddexp2.reduce(F[k, :k])
        F[:k, :k] = np.logaddexp2(F[:k, :k], F[:k, k, None] + (F[k, :k] - pivot[k]))
    flow = np.zeros(F.shape[0])
    for k in range(1, F.shape[0]):
        flow[k] = np.logaddexp2.reduce(flow[:k] + F[:k, k]) - pivot[k]
    exponent = np.ceil(flow - flow.max()).astype(np.int64)
    return np.exp2(flow - flow.max() - exponent), exponent


@dataclass(frozen=True)
class _Fronts:
    """States in `order`; front f eliminates order[first[f]:first[f + 1]], and precedes what it divides."""

    order: IntArray
    first: list[int]
    parent: list[int]


def _dissect(graph: Matrix, root: int) -> _Fronts | None:
    """Returns a nested dissection of a symmetric graph, or None if a separator is too large.

    The root comes first, with the hubs. Then all parts are cut at once, again and again; `owner` is the
    front that cut a state's part off.
    """
    pieces = [_hubs(graph, root)]
    sizes, parents = [np.array([pieces[0].size])], [np.array([-1])]
    states = np.setdiff1d(np.arange(graph.shape[0]), pieces[0])
    graph, owner, num_fronts = graph[states][:, states], np.zeros(states.size, np.int64), 1
    while sizes[-1].max() <= LARGEST_SEPARATOR:
        if not states.size:
            first = np.append(0, np.cumsum(np.concatenate(sizes)))
            return _Fronts(np.concatenate(pieces), first.tolist(), np.concatenate(parents).tolist())
        count, part = csgraph.connected_components(graph, directed=False)
        is_cut = _separators(graph, part)
        cut, keep = np.flatnonzero(is_cut), np.flatnonzero(~is_cut)
        cut = cut[np.argsort(part[cut], kind="stable")]
        pieces.append(states[cut])
        sizes.append(np.bincount(part[cut]))
        parents.append(owner[cut[np.cumsum(sizes[-1]) - 1]])
        states, graph, owner = states[keep], graph[keep][:, keep], num_fronts + part[keep]
        num_fronts += count
    return None


def _hubs(graph: Matrix, root: int) -> IntArray:
    """Returns the root and the states with very many neighbours."""
    degree = np.diff(graph.indptr)
    hubs = np.flatnonzero(degree > HUB_DEGREE * degree.mean())
    return np.append(root, hubs[hubs != root])


def _separators(graph: Matrix, part: IntArray) -> BoolArray:
    """Returns which states to take out: of each part a level half-way from its far end, or all if small."""
    size = np.bincount(part)
    some = np.unique(part, return_index=True)[1]
    by_depth = np.lexsort((_depths(graph, some), part))
    depth = _depths(graph, by_depth[np.cumsum(size) - 1])
    middle = np.lexsort((depth, part))[np.cumsum(size) - 1 - size // 2]
    return (depth == depth[middle][part]) | (size <= LEAF_STATES)[part]


def _eliminate(jumps: Matrix, rate: FloatArray, fronts: _Fronts) -> FloatArray:
    """Returns the stationary flow by elimination from the last front to the root and back."""
    jumps = sp.csr_array(jumps[fronts.order][:, fronts.order])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # `_RangeError` tells
        columns, pivot = _factor(jumps, fronts)
        flow = _substitute(columns, fronts)
    _check_range(flow, pivot, rate[fronts.order], fronts)
    result = np.empty(flow.size)
    result[fronts.order] = flow
    return result


def _check_range(flow: FloatArray, pivot: FloatArray, rate: FloatArray, fronts: _Fronts) -> None:
    """Refuses a flow in which underflow was magnified.

    A flow that underflows where the chain does not linger is 0 and right. Where it does linger (few
    leave: pivot or rate small) what came in may be denormal, or nothing, and what stays may not.
    """
    lingers = pivot * rate < 1e-10
    lost = ((flow * pivot < TINY) & lingers) | (pivot < TINY)
    if lost.any():
        raise _RangeError(int(fronts.order[np.argmax(lost)]))


def _factor(jumps: Matrix, fronts: _Fronts) -> tuple[list[tuple[IntArray, FloatArray]], FloatArray]:
    """Returns, per front, its border and the columns F[:, k] / out_k of its pivots; and all out_k."""
    arrivals = sp.csr_array(jumps.T)
    place = np.empty(jumps.shape[0], np.int64)
    pending: list[list[tuple[IntArray, FloatArray]]] = [[] for _ in fronts.parent]
    columns, pivot = [], np.ones(jumps.shape[0])
    for f in reversed(range(len(fronts.parent))):
        a, b = fronts.first[f], fronts.first[f + 1]
        border, F = _assemble(jumps, arrivals, a, b, pending[f], place)
        pending[f] = []
        pivot[a:b] = _censor(F, border.size)
        if not pivot[a:b].all():
            raise _RangeError(int(fronts.order[a + int(np.argmin(pivot[a:b]))]))
        columns.append((border, F[:, border.size :] / pivot[a:b]))
        if f:
            pending[fronts.parent[f]].append((border, F[: border.size, : border.size].copy()))
    return columns[::-1], pivot


def _assemble(
    jumps: Matrix,
    arrivals: Matrix,
    a: int,
    b: int,
    updates: list[tuple[IntArray, FloatArray]],
    place: IntArray,
) -> tuple[IntArray, FloatArray]:
    """Returns the border of the pivots a..b-1 and the rates among border and pivots, in that order.

    The border is every state not yet eliminated (those below a) that the pivots, or what was eliminated
    below them, exchange with. `place` is scratch: a state's row in this front.
    """
    leads, comes = (m.indices[m.indptr[a] : m.indptr[b]] for m in (jumps, arrivals))
    known = [leads, comes, *(border for border, _ in updates)]
    border = np.unique(np.concatenate([states[states < a] for states in known]))
    size = border.size + b - a
    place[border], place[a:b] = np.arange(border.size), np.arange(border.size, size)
    F = np.zeros((size, size))
    for matrix, limit, target in ((jumps, b, F), (arrivals, a, F.T)):
        entries = slice(matrix.indptr[a], matrix.indptr[b])
        row = np.repeat(np.arange(border.size, size), np.diff(matrix.indptr[a : b + 1]))
        here = matrix.indices[entries] < limit
        target[row[here], place[matrix.indices[entries][here]]] = matrix.data[entries][here]
    for border_below, update in updates:
        F[np.ix_(place[border_below], place[border_below])] += update
    return border, F


def _censor(F: FloatArray, border: int) -> FloatArray:
    """Eliminates the states after `border` in place, last first; returns out_k, 0 where one was lost.

    Row k becomes F[k, :k] / out_k. Within a panel each row and column is brought up to date when its turn
    comes; the rest of the front is, once a panel. The diagonal holds rubbish that nothing reads.
    """
    out = np.ones(F.shape[0] - border)
    for high in range(F.shape[0], border, -PANEL):
        low = max(border, high - PANEL)
        for k in range(high - 1, max(low, 1) - 1, -1):
            F[k, :k] += F[k, k + 1 : high] @ F[k + 1 : high, :k]
            F[:k, k] += F[:k, k + 1 : high] @ F[k + 1 : high, k]
            out[k - border] = F[k, :k].sum()
            if out[k - border] == 0:
                return out
            F[k, :k] /= out[k - border]
        F[:low, :low] += F[:low, low:high] @ F[low:high, :low]
    return out


def _substitute(columns: list[tuple[IntArray, FloatArray]], fronts: _Fronts) -> FloatArray:
    """Returns the flow in the fronts' order: flow_k = sum_{i < k} flow_i F[i, k] / out_k, root 1."""
    flow = np.zeros(fronts.order.size)
    flow[0] = 1.0
    for f, (border, column) in enumerate(columns):
        a, b = fronts.first[f], fronts.first[f + 1]
        flow[a:b] += flow[border] @ column[: border.size]
        inside = column[border.size :]
        for k in range(1, b - a):
            flow[a + k] += flow[a : a + k] @ inside[:k, k]
        lost = ~np.isfinite(flow[a:b])
        if lost.any():
            raise _RangeError(int(fronts.order[a + int(np.argmax(lost))]))
    return flow


def _swept_flow(jumps: Matrix) -> FloatArray:
    """Returns the flow by iterating from three starts, even and all in one state, until they agree."""
    arrivals = sp.csr_array(jumps.T)
    flow = np.zeros((jumps.shape[0], 3))
    flow[:, 0] = 1 / jumps.shape[0]
    flow[0, 1] = flow[-1, 2] = 1.0
    for _ in range(MAX_SWEEPS // 10):
        for _ in range(10):
            flow = (flow + arrivals @ flow) / 2  # the halves keep periodic chains from swinging
        flow /= flow.sum(axis=0)
        if (np.ptp(flow, axis=1) <= SWEEP_AGREEMENT * flow[:, 0]).all():
            return flow[:, 0]
    raise SolverError(
        f"the chain of {jumps.shape[0]} states has no small separators to eliminate along, and after "
        f"{MAX_SWEEPS} sweeps from different starts {np.ptp(flow, axis=1).sum():.2g} of the flow is still "
        "undecided. It mixes too slowly for iteration: lump or thin out states first."
    )


# --- Spectral gaps ------------------------------------------------------------------------------------


def is_reversible(chain: Any) -> bool:
    """Returns whether pi_s P(s_next | s) is symmetric on the one recurrent class, to 1e-9 of itself."""
    return _is_symmetric(_symmetrised(chain)[0])


def spectral_gap(chain: Any) -> float:
    """Returns the absolute spectral gap: 1 - max |lambda| over all eigenvalues but one copy of 1.

    Taken on the one recurrent class; 0 if that is periodic, 1 if it is a single state. The number bounds
    mixing of reversible chains; of others it is only the rate in the long run, and
    `pseudo_spectral_gap` is the one to use. Right to about 1e-14 (not of itself) up to 1,000 states;
    above that by Krylov iteration, to about 1e-10 and, if anything, too large.
    """
    M, root = _symmetrised(chain)
    symmetric = _is_symmetric(M)
    if root.size == 1 or _period(M) > 1:
        return float(root.size == 1)
    if root.size > DENSE_SPECTRUM and symmetric:
        return _gap(math.sqrt(max(0.0, _second_value(M @ M, root))))
    if root.size > DENSE_SPECTRUM:
        return _gap(_krylov(eigs, lambda x: M @ x, root))
    dense = M.toarray() - np.outer(root, root)
    values = np.linalg.eigvalsh((dense + dense.T) / 2) if symmetric else np.linalg.eigvals(dense)
    return _gap(float(np.abs(values).max()))


def pseudo_spectral_gap(chain: Any, *, max_power: int = 1024) -> float:
    """Returns max over k <= `max_power` of (1 - sigma_2(M^k)^2) / k, Paulin's pseudo-spectral gap.

    Any single k is a valid lower bound, so it is safe to leave some out, and none is needed once 1/k is
    below the best so far. Up to 1,000 states every k to 32 is tried and then each doubling: exact if the
    gap is above 1/32, else at least half of the maximum (the numerators grow with k) unless `max_power`
    ends it. Larger chains try doublings while M^k stays sparse, to about 1e-10 each.
    """
    max_power = checks.integer(max_power, "max_power", least=1)
    M, root = _symmetrised(chain)
    if root.size == 1 or _period(M) > 1:
        return float(root.size == 1)
    squared_norms = _dense_norms if root.size <= DENSE_SPECTRUM else _sparse_norms
    best = 0.0
    for k, squared in squared_norms(M, root):
        if k > max_power or k * best >= 1:
            break
        best = max(best, _gap(squared) / k)
    return best


def _dense_norms(M: Matrix, root: FloatArray) -> Iterator[tuple[int, float]]:
    """Yields k and sigma_2(M^k)^2 for k = 1, 2, ..., 32, 64, 128, ..."""
    base = power = M.toarray() - np.outer(root, root)
    k = 1
    while True:
        yield k, float(np.linalg.eigvalsh(power.T @ power)[-1])
        power, k = (power @ base, k + 1) if k < EVERY_POWER else (power @ power, 2 * k)


def _sparse_norms(M: Matrix, root: FloatArray) -> Iterator[tuple[int, float]]:
    """Yields k and sigma_2(M^k)^2 for k = 1, 2, 4, ... while M^k is sparse."""
    power, k = M, 1
    while power.nnz <= POWER_FILL * M.nnz:
        yield k, _second_value(power.T @ power, root)
        power, k = power @ power, 2 * k


def _second_value(A: Matrix, root: FloatArray) -> float:
    """Returns the largest eigenvalue of a symmetric A, 0 <= A <= 1, off its eigenvector `root`.

    Where small separators exist the gap may be tiny but a factorisation is cheap, so the inverse of
    shift - A is iterated; where they do not, the gap is wide and A itself will do.
    """
    A = sp.csr_array(A)
    if _dissect(A, 0) is None:
        return _krylov(eigsh, lambda x: A @ x, root)
    shift = 1 + 1e-6
    factors = splu(
        sp.csc_array(shift * sp.eye_array(A.shape[0]) - A),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return shift - 1 / _krylov(eigsh, factors.solve, root)


def _krylov(method: Any, apply: Callable[[Any], Any], root: FloatArray) -> float:
    """Returns the largest |eigenvalue| of `apply` off `root`; the start is fixed, so the answer is too."""
    v0 = np.random.default_rng(0).standard_normal(root.size)
    operator = _Projected(apply, root)
    try:
        values = method(operator, k=1, v0=v0, ncv=64, maxiter=300, tol=1e-10, return_eigenvectors=False)
    except ArpackError as error:
        raise SolverError(
            f"the second eigenvalue was not found: {error}. Up to {DENSE_SPECTRUM} states it always is."
        ) from error
    return float(np.abs(values).max())


class _Projected(LinearOperator):
    """x -> apply(x - root (root . x)) without its part along root."""

    def __init__(self, apply: Callable[[Any], Any], root: FloatArray) -> None:
        super().__init__(np.dtype(np.float64), (root.size, root.size))
        self._apply, self._root = apply, root

    def _matvec(self, x: Any) -> Any:
        return self._project(self._apply(self._project(x.ravel())))

    def _project(self, x: Any) -> Any:
        return x - self._root * (self._root @ x)


def _gap(largest: float) -> float:
    return max(0.0, 1.0 - largest)  # rounding may put an eigenvalue just above 1


def _is_symmetric(M: Matrix) -> bool:
    return bool((abs(M - M.T) - 1e-9 * (M + M.T)).max() <= 0)


def _symmetrised(chain: Any) -> tuple[Matrix, FloatArray]:
    """Returns M = D^(1/2) P D^(-1/2) on the one recurrent class, and the unit vector sqrt(pi)."""
    M = _recurrent_part(_read_chain(chain))[1]
    root = np.sqrt(_distribution(M))
    if not root.all():
        raise SolverError(f"{(root == 0).sum()} states are visited with probability below 1e-308: no gap.")
    row = _row_of(M)
    M.data *= root[row] / root[M.indices] / np.bincount(row, M.data)[row]  # rows may be 1e-8 off 1
    return M, root
