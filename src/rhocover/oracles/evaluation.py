"""Gain, bias and occupancy of a chain, by sparse direct solves with I - P or by sweeps.

The average reward of a chain with one recurrent class follows from a renewal theorem. Fix one state, the
anchor, and let u, w be the expected reward and time until the chain is back there:

    M u = reward, M w = 1, M = I - P without the anchor's row and column;
    gain = (reward + P u)(anchor) / (1 + P w)(anchor),   bias h = u - gain w,   h(anchor) = 0,

and M'x = P(anchor, .) holds the expected visits in between, so that one factorisation gives the gain,
the bias and the stationary distribution. `restart` > 0 sends the chain back to the anchor with that
probability at each step: then every chain has one recurrent class, and no time exceeds 1/restart.

M is an M-matrix: its diagonal is summed from the probabilities of leaving rather than subtracted from 1,
which is accurate for states that are hardly ever left, and it needs no pivoting, so that SuperLU can order it
by its symmetric pattern. On a 100×100 grid: 18 ms, against 44 ms with COLAMD and its pivoting.

**Sweeps.** Models that mix fast need no factorisation: sweeps alone give their values and visits. Values:
h <- T h until all states change equally, T h - h = constant; between two sweeps over all entries there are
some over the best of them alone, which cost less (modified policy iteration, Puterman and Shin 1978). Visits:
x <- inflow + keep x P until nothing changes. Both converge as fast as the chain mixes. On random graphs that
is a factor of two or more per step, while a factorisation fills in: with 10,000 states and 5 successors it
took 90 s, and sweeps take 15 ms. On grids it is the other way round. So a few sweeps are tried, and given up
as soon as they do not converge fast; the result is certified like any other.

The compiled sweeps sum a row from its first entry to its last without reassociation, so that the bits are
those of `reward + keep * (matrix @ h)` in SciPy and NumPy, without temporaries and without a Python call per
sweep. `first` is where the entries of each node begin; the entries of a node are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from rhocover.chains import recurrent_classes, stationary_distribution
from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.compiling import compiled
from rhocover.errors import SolverError
from rhocover.oracles.response import EPSILON, Choices, centred

# Compiled sweeps.


@compiled
def best_entry(indptr, indices, data, begin, end, reward, keep, h):
    """Returns the largest of reward + keep (row @ h) over a run of entries, and the first that has it."""
    most, best = -np.inf, begin
    for i in range(begin, end):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * h[indices[p]]
        if reward[i] + keep * total > most:
            most, best = reward[i] + keep * total, i
    return most, best


@compiled
def best_values(indptr, indices, data, first, reward, keep, h, sweeps):
    """Returns h after some sweeps h <- max over the entries of a node of reward + keep (row @ h)."""
    for _ in range(sweeps):
        after = np.empty_like(h)
        for s in range(first.size):
            last = first[s + 1] if s + 1 < first.size else reward.size
            after[s], _ = best_entry(indptr, indices, data, first[s], last, reward, keep, h)
        h = after
    return h


@compiled
def improved_values(indptr, indices, data, first, reward, keep, h, sweeps):
    """Returns h after one sweep over all entries and some over those that were best in it.

    Also returns by how much more the first sweep changed one node than another.
    """
    after, chosen = np.empty_like(h), np.empty(first.size, np.int64)
    low, high = np.inf, -np.inf
    for s in range(first.size):
        last = first[s + 1] if s + 1 < first.size else reward.size
        after[s], chosen[s] = best_entry(indptr, indices, data, first[s], last, reward, keep, h)
        low, high = min(low, after[s] - h[s]), max(high, after[s] - h[s])
    for _ in range(sweeps):
        h, after = after, np.empty_like(h)
        for s in range(first.size):
            total = 0.0
            for p in range(indptr[chosen[s]], indptr[chosen[s] + 1]):
                total += data[p] * h[indices[p]]
            after[s] = reward[chosen[s]] + keep * total
    return after, high - low


@compiled
def moved_visits(indptr, indices, data, inflow, keep, x, sweeps):
    """Returns x after some sweeps x <- inflow + keep (x @ matrix), and how much the last one changed."""
    last = x
    for _ in range(sweeps):
        after = inflow.copy()
        for s in range(x.size):
            share = keep * x[s]
            for p in range(indptr[s], indptr[s + 1]):
                after[indices[p]] += share * data[p]
        last, x = x, after
    return x, np.abs(x - last).sum()


# Sweeps for models that mix fast.

SMALL = 50  # below this many states a factorisation takes no longer than sweeps
BATCH = 10  # sweeps between two checks
FAST = 0.7  # of the spread that a batch may leave: 0.6 at first, 0.01 later; on grids it grows at first
FORGETFUL = 0.1  # of what moves a batch may leave
ALIKE = 1e-12  # changes of states that differ by less count as equal: rewards are near 1
STILL = 1e-15  # of all visits may move in a sweep; rounding leaves 1e-17 to 1e-16
NEARLY_STILL = 1e-14  # ... where rounding leaves more


def values_by_sweeps(choices: Choices, reward: FloatArray, h: FloatArray, keep: float) -> FloatArray | None:
    """Returns h `[S]` with T h - h the same everywhere, T h = max reward + keep P h; None if that is slow.

    Sweeps begin with the `h` given.
    """
    if choices.num_nodes < SMALL:
        return None
    P, last = choices.members.mdp.transitions, np.inf
    while True:
        after, uneven = improved_values(P.indptr, P.indices, P.data, choices.first, reward, keep, h, BATCH)
        if uneven <= ALIKE:
            return h
        if not uneven <= FAST * last:
            return None
        h, last = centred(after), uneven


def visits_by_sweeps(chain: Matrix, inflow: FloatArray, keep: float) -> FloatArray | None:
    """Returns x `[S]` with x = inflow + keep x P, of mass 1 as the fixed point is; None if that is slow."""
    size = chain.shape[0]
    if size < SMALL:
        return None
    x, last = np.full(size, 1 / size), 2.0
    while True:
        x, moved = moved_visits(chain.indptr, chain.indices, chain.data, inflow, keep, x, BATCH)
        if moved <= STILL:
            return x
        if not moved <= FORGETFUL * last:
            return x if moved <= NEARLY_STILL else None
        last = moved


# Direct solves.

BALANCE = 1e-12  # largest imbalance of a stationary distribution; solves leave 1e-16 to 1e-14
FAR = 10  # times the number of states: the mean return time of the most visited state is at most that number
MAX_EXCHANGES = 3
RARE = 1e-3  # an anchor visited this much less than the most visited state is replaced by that state


class Factor:
    """LU of I - (1 - restart) P, with identity rows and columns for the `anchors`."""

    def __init__(self, chain: Matrix, restart: float = 0.0, anchors: IntArray | None = None) -> None:
        size = chain.shape[0]
        pinned = np.zeros(size, bool)
        pinned[anchors if anchors is not None else []] = True
        rows = np.repeat(np.arange(size), np.diff(chain.indptr))
        leaves = chain.indices != rows
        out = np.bincount(rows[leaves], chain.data[leaves], size)
        diagonal = np.where(pinned, 1.0, restart + (1 - restart) * out)
        kept = leaves & ~pinned[rows] & ~pinned[chain.indices]
        values = np.concatenate([diagonal, -(1 - restart) * chain.data[kept]])
        places = np.arange(size)
        columns = np.concatenate([places, rows[kept]])  # transposed, because SuperLU uses columns
        rows = np.concatenate([places, chain.indices[kept]])
        self._lu = _factor(sp.csc_array((values, (rows, columns)), shape=(size, size)))

    def solve(self, right: FloatArray) -> FloatArray:
        """Returns the solution of M y = right; `right` is `[S]` or `[S, k]`."""
        return self._lu.solve(right, trans="T")

    def solve_transposed(self, right: FloatArray) -> FloatArray:
        """Returns the solution of M'y = right."""
        return self._lu.solve(right)


def _factor(matrix: Matrix) -> Any:
    try:
        return splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
            options={"SymmetricMode": True, "Equil": False},
        )  # fmt: skip
    except RuntimeError as error:
        raise SolverError(
            f"a chain's equations could not be factorised: {error}. Use method='lp'."
        ) from error


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The gain of a chain that restarts at its anchor, and its bias."""

    gain: float
    bias: FloatArray  # zero at the anchor, [S]
    noise: FloatArray  # rounding in the bias, [S]
    cycle: float  # expected time from one visit of the anchor to the next
    anchor: int
    factor: Factor
    leaving: FloatArray  # the anchor's row, without the anchor, [S]

    def likeliest(self) -> int:
        """Returns the state that is visited most."""
        visits = self.factor.solve_transposed(self.leaving)
        visits[self.anchor] = 1.0
        return int(np.argmax(visits))


def evaluate(chain: Matrix, reward: FloatArray, anchor: int, restart: float) -> Evaluation:
    """Returns what a chain that restarts at the anchor earns for `reward` `[S]`.

    An anchor to which the chain hardly ever returns is replaced by the state that it visits most: otherwise
    rewards and times between two returns would be so large that their difference has no digits left.
    """
    result = _evaluate(chain, reward, anchor, restart)
    for _ in range(MAX_EXCHANGES):
        if result.cycle <= FAR * reward.size:
            break
        result = _evaluate(chain, reward, result.likeliest(), restart)
    return result


def _evaluate(chain: Matrix, reward: FloatArray, anchor: int, restart: float) -> Evaluation:
    factor = Factor(chain, restart, np.array([anchor]))
    right = np.stack([reward, np.ones_like(reward)], axis=1)
    right[anchor] = 0.0
    until = factor.solve(right)
    leaving = (1 - restart) * _row(chain, anchor)
    earned, lasted = leaving @ until
    gain = float((reward[anchor] + earned) / (1 + lasted))
    leaving[anchor] = 0.0
    bias = until[:, 0] - gain * until[:, 1]
    noise = EPSILON * (np.abs(until[:, 0]) + abs(gain) * until[:, 1])
    return Evaluation(gain, bias, noise, 1 + float(lasted), anchor, factor, leaving)


def _row(chain: Matrix, state: int) -> FloatArray:
    row = np.zeros(chain.shape[0])
    run = slice(chain.indptr[state], chain.indptr[state + 1])
    row[chain.indices[run]] = chain.data[run]
    return row


def distribution(mass: FloatArray) -> FloatArray:
    """Returns non-negative masses that sum to 1: a solve leaves 1e-16 times the mean time to a restart."""
    mass = np.maximum(mass, 0.0)
    return mass / mass.sum()


def best_class(chain: Matrix, reward: FloatArray, potential: FloatArray) -> FloatArray:
    """Returns the stationary distribution `[S]` of the recurrent class that earns most.

    One class that mixes fast is swept. Otherwise anchors are where the potential is highest. If the anchor is
    visited once in 1e16 steps, the visits in between are lost in rounding. Then the balance is violated, and
    the class is eliminated state by state instead (`chains.stationary_distribution`).
    """
    classes = recurrent_classes(chain)
    states = np.concatenate(classes)
    label = np.repeat(np.arange(len(classes)), [c.size for c in classes])
    among = sp.csr_array(chain[states][:, states])
    with np.errstate(over="ignore", invalid="ignore"):
        mass = visits_by_sweeps(among, np.zeros(states.size), 1.0) if len(classes) == 1 else None
        if mass is None:
            mass = _visits(among, label, _highest(potential[states], label))
        mass /= np.bincount(label, mass)[label]
        missed = np.bincount(label, np.abs(mass @ among - mass))
    for k in np.flatnonzero(~(missed <= BALANCE)):
        mass[label == k] = stationary_distribution(among[label == k][:, label == k])
    best = label == np.argmax(np.bincount(label, mass * reward[states]))
    result = np.zeros(chain.shape[0])
    result[states[best]] = mass[best]
    return result


def _visits(chain: Matrix, label: IntArray, anchors: IntArray, tries: int = 3) -> FloatArray:
    """Returns the visits to each state between two of its class's anchor, for all classes at once."""
    leaving = np.asarray(chain[anchors].sum(axis=0)).ravel()
    leaving[anchors] = 0.0
    try:
        visits = np.maximum(Factor(chain, 0.0, anchors).solve_transposed(leaving), 0.0)
    except SolverError:  # the anchor is so rare that the rest is a closed class in float64
        return np.full(label.size, np.nan)
    visits[anchors] = 1.0
    likeliest = _highest(visits, label)
    if tries > 1 and (visits[likeliest] * RARE > 1).any():
        return _visits(chain, label, likeliest, tries - 1)
    return visits


def _highest(values: FloatArray, label: IntArray) -> IntArray:
    """Returns the place of the largest value of each class; `label` is sorted."""
    order = np.lexsort((-values, label))
    return order[np.searchsorted(label, np.arange(int(label[-1]) + 1))]
