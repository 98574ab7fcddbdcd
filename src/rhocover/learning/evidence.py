"""Pairs never visited and states never met: the fastest way to them, and how far away they must be.

`find_discovery_target` computes, from the transition counts, the policy that reaches something new in the
fewest expected steps. `find_evidence` lists what was never reached, with a lower bound on the expected steps
to it that holds for every behaviour with probability 1 - delta.

**Discovery targets.** Coverage cannot be optimised over what was never seen, so pairs never visited and
states never met must be reached on purpose. Pair i was visited N_i times and led N(s'|i) times to s'. We
assume that it leads to something new with probability

    p_i = 1 if pair i is wanted (by default: was never visited),    else p_i = k / (N_i + k),

and otherwise to its observed successors with probabilities N(s'|i)/N_i. The policy with the fewest expected
steps to something new solves a stochastic shortest path problem (`shortest_paths`).

**Why visited pairs stay uncertain.** If RiverSwim's `right` was tried once and did not move, the estimate
says that it never does. With p_i = 0 everything behind it would never be reached. With p_i = k/(N_i + k)
another try costs N_i/k + 1 expected steps, and is made when every alternative costs more. Each failure raises
this cost, so no state is ruled out and none is pursued forever. The same holds when all states are met but
pairs are still wanted. k/(N + k) is the probability of a new successor under a Dirichlet process of
concentration k (Blackwell and MacQueen 1973). With `prior=0` the estimate is taken as exact.

**The size of k.** We measured the steps until every pair was visited, compared with going to the nearest
unvisited pair with the true model. Small k wins: an untried pair is certainly new, so untried pairs should
come before doubts about visited ones. Between 0.01 and 0.1 the differences are within the noise; 0.5 costs a
third more steps on RiverSwim(20) and DeepSea(10), and 2 costs three times as many.

**When to compute a new target.** When something new was seen, and when the visits of some pair have doubled
since the last computation (`is_due`). The policy to a target is fixed and p_i is not updated while it is
followed, so without the second rule it could go round in circles forever. Computing a new target after
every step gains nothing measurable.

**Evidence.** A state that was not met in n steps may be unreachable, or far away, or simply not tried. The
transition rows that the counts do not refute form a confidence set C (`confidence`), which contains the true
rows with probability 1 - delta. Let U be the states never met and h(s) the fewest expected steps from s to
U, over all behaviours, under the true rows: h = 0 on U, and h(s) = min_i 1 + P_i h over the pairs i of s.
Nothing is known of the rows of U, so U is one goal: a bound for reaching any of them is a bound for each.

**Lower bound.** For any V >= 0 with V = 0 on U let

    b = max over met states s of  V(s) - min_{i of s} min_{P in C_i} P V.

Then V <= b h whenever C contains the true rows. Proof: V(s) <= b + P_i V for each pair i of s. Let tau be
the time at which some behaviour reaches U; by induction on k, V(s_0) <= b E[min(k, tau)] +
E V(s_min(k, tau)). If E tau is finite the last term tends to E V(s_tau) = 0, because V is bounded; if not,
there is nothing to prove. So V(s)/b is a bound for every V, and the iteration that finds V may stop at any
time. (The textbook choice V_0 = 0, V_{k+1}(s) = min_i 1 + min_{P in C_i} P V_k is a bound too: V_k <= h
gives V_{k+1} <= min_i 1 + P_i h = h. But it rises by at most 1 per sweep, and bounds of interest are
thousands of steps.)

**A good V.** Policy iteration on rows: for each pair take the row of C that is best for reaching U under the
last V, solve the shortest path problem with these rows (`shortest_paths`), and repeat with its steps as V. A
pair never visited may lead anywhere: from a state that has one, the bound is 1.

The bound is on the expected number of steps to states never met; it does not cover states that were met
once and are far away. Coverage and weights are not used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.learning.confidence import ConfidenceSet
from rhocover.learning.shortest_paths import shortest_paths
from rhocover.printing import count_of

# Discovery targets.

PRIOR = 0.1  # k: the weight of the prior, in visits


@dataclass(frozen=True, eq=False)
class DiscoveryTarget:
    """A policy `[n]` to something new, with one action per state, and its `expected_steps` `[S]`.

    Where something new can be reached, but not with probability 1, the steps are infinite and the policy goes
    towards it; where it cannot be reached, the policy is uniform. A state without pairs was never met: it is
    itself new.
    """

    policy: FloatArray
    expected_steps: FloatArray


def find_discovery_target(
    counts: Matrix,
    pair_state: Any,
    *,
    wanted: Any = None,
    new_states: bool = False,
    prior: float = PRIOR,
    warm: DiscoveryTarget | None = None,
) -> DiscoveryTarget:
    """Returns the policy that reaches something new in the fewest expected steps.

    `counts` `[n, S]` says how often s' followed pair i; `pair_state` `[n]` is sorted. `wanted` `[n]` marks
    pairs to visit; `new_states` says whether there may be states that were never met. With neither there is
    nothing to reach: the steps are infinite and the policy is uniform. `warm`, an earlier target over the
    first of these pairs, saves time.
    """
    counts, pair_state = read_counts(counts, pair_state)
    visits = row_sums(counts)
    wanted = visits == 0 if wanted is None else _read_wanted(wanted, visits.size)
    prior = _read_prior(prior)
    arrival = _arrival(visits, wanted, prior if new_states or wanted.any() else 0.0)
    share = (1 - arrival) / np.maximum(visits, 1)
    onward = sp.csr_array(
        (counts.data * np.repeat(share, np.diff(counts.indptr)), counts.indices, counts.indptr), counts.shape
    )
    first = np.searchsorted(pair_state, np.arange(counts.shape[1] + 1))
    found = shortest_paths(onward, arrival, first, None if warm is None else _choice(warm, first))
    return DiscoveryTarget(frozen(_policy(found.choice, pair_state, first)), frozen(found.steps))


def is_due(visits: IntArray, visits_then: IntArray) -> bool:
    """Returns whether some pair's visits `[n]` have doubled since the target was computed.

    A first visit counts as doubling. `visits_then` may lack the pairs of states met since then.
    """
    known = visits_then.size
    doubled = (visits[:known] > visits_then) & (visits[:known] >= 2 * visits_then)
    return bool(doubled.any() or (visits[known:] > 0).any())


def read_counts(counts: Any, pair_state: Any) -> tuple[Matrix, IntArray]:
    """Returns the counts as a csr_array and the pairs' states; refuses arrays that do not match."""
    if not (sp.issparse(counts) and counts.format == "csr" and counts.dtype.kind in "iu"):
        raise InvalidArgumentError.of(
            "counts",
            "must be a SciPy csr_array of whole numbers, one row per pair and one column per state",
            remedy="Convert it with scipy.sparse.csr_array(counts, dtype=numpy.int64).",
        )
    pair_state = checks.any_array(pair_state, "pair_state")
    checks.check_shape(pair_state.shape, "pair_state", (counts.shape[0],))
    if pair_state.dtype.kind not in "iu" or (np.diff(pair_state) < 0).any():
        raise InvalidArgumentError.of("pair_state", "must hold whole numbers in ascending order")
    if pair_state.size and not 0 <= pair_state[0] <= pair_state[-1] < counts.shape[1]:
        raise InvalidArgumentError.of(
            "pair_state",
            f"must be states in 0..{counts.shape[1] - 1} (the columns of `counts`)",
            f"{pair_state[0]} to {pair_state[-1]}",
        )
    if counts.data.size and counts.data.min() < 0:
        raise InvalidArgumentError.of("counts", "must be non-negative", f"{counts.data.min()}")
    return counts, pair_state.astype(np.int64, copy=False)


def row_sums(counts: Matrix) -> IntArray:
    """Returns the visits of each pair, `[n]`."""
    total = np.concatenate([[0], np.cumsum(counts.data, dtype=np.int64)])
    return total[counts.indptr[1:]] - total[counts.indptr[:-1]]


def _read_wanted(wanted: Any, num_pairs: int) -> BoolArray:
    array = checks.any_array(wanted, "wanted")
    checks.check_shape(array.shape, "wanted", (num_pairs,))
    if array.dtype != bool:
        raise InvalidArgumentError.of("wanted", "must be a boolean array", f"dtype {array.dtype}")
    return array


def _read_prior(prior: Any) -> float:
    value = checks.number(prior, "prior")
    if not 0 <= value < np.inf:
        raise InvalidArgumentError.of("prior", "must be a number of visits, 0 or more", f"{value:g}")
    return value


def _arrival(visits: IntArray, wanted: BoolArray, prior: float) -> FloatArray:
    """Returns p `[n]`; an unvisited pair that is not wanted has 1, or 0 if the prior is 0."""
    doubt = np.ones(visits.size) if prior else np.zeros(visits.size)
    np.divide(prior, visits + prior, out=doubt, where=visits > 0)
    return np.where(wanted, 1.0, doubt)


def _choice(warm: DiscoveryTarget, first: IntArray) -> IntArray:
    """Returns the pair that the warm policy takes in each state, -1 where it is not deterministic."""
    choice = np.full(first.size - 1, -1, np.int64)
    taken = np.flatnonzero(warm.policy[: first[-1]] == 1.0)
    choice[np.searchsorted(first, taken, side="right") - 1] = taken
    return choice


def _policy(choice: IntArray, pair_state: IntArray, first: IntArray) -> FloatArray:
    """Returns the policy `[n]` of the choices; uniform in states without a choice."""
    policy = 1.0 / np.diff(first)[pair_state]
    chosen = choice[pair_state]
    decided = chosen >= 0
    policy[decided] = chosen[decided] == np.flatnonzero(decided)
    return policy


# Evidence.

ROUNDS = 30  # of policy iteration on rows; it needs fewer than ten
ENOUGH = 0.01  # relative: a bound this close to the best that C allows is good enough


@dataclass(frozen=True)
class Evidence:
    """What was never reached in `num_steps` steps, with a bound that holds with probability 1 - `delta`."""

    unmet: tuple[int, ...]  # states never met
    unvisited: tuple[int, ...]  # pairs of met states never visited
    least_steps: float  # no behaviour reaches an unmet state in fewer expected steps from the last state
    delta: float
    num_states: int
    num_steps: int
    least_trials: int | None = None  # of a pair, if the set of states is not known; else None
    unmet_names: tuple[str, ...] = ()  # if they have names
    unvisited_names: tuple[str, ...] = ()
    noun: str = "states"  # plural noun for states in messages, such as "bins"
    num_possible: int | None = None  # the most states there can be, if only that is known

    def __str__(self) -> str:
        states = self._states() if self.least_trials is None else self._open()
        return " ".join([states, *self._pairs()])

    def _open(self) -> str:
        """Returns how many states were met and how often they were tried, when other states may exist."""
        tried = f", and each pair of them was tried {_times(self.least_trials)}" if self.least_trials else ""
        return f"{self._met()} met in {count_of(self.num_steps, 'step', ',')}{tried}.{self._others()}"

    def _met(self) -> str:
        """Returns how many states were met, and of how many if that is known: `25 of 30 bins were`."""
        were = "was" if self.num_states == 1 else "were"
        if self.num_possible is None:
            return f"{self.num_states:,} {self.noun if self.num_states != 1 else 'state'} {were}"
        most = "" if self.noun == "bins" else "at most "
        return f"{self.num_states:,} of {most}{self.num_possible:,} {self.noun} {were}"

    def _others(self) -> str:
        """Returns a sentence about the states that were not met."""
        if self.num_possible is None:
            return f" It is not known whether there are other {self.noun}."
        return (
            ""
            if self.num_states == self.num_possible
            else " It is not known whether the others can be reached."
        )

    def _states(self) -> str:
        if not self.unmet:
            many = f"All {self.num_states:,} {self.noun} were"
            every = "The only state was" if self.num_states == 1 else many
            return f"{every} met in {count_of(self.num_steps, 'step', ',')}."
        were = "was" if len(self.unmet) == 1 else "were"
        return (
            f"{len(self.unmet):,} of {self.num_states:,} {self.noun} {were} never met "
            f"({checks.name_some(self.unmet_names or self.unmet)}) in "
            f"{count_of(self.num_steps, 'step', ',')}{self._bound()}"
        )

    def _bound(self) -> str:
        """Returns the bound as text, rounded down so that it stays a bound."""
        them = "it" if len(self.unmet) == 1 else "one of them"
        if self.least_steps < 2:
            return f", which proves nothing: {them} may be one step away."
        return (
            f": with probability {1 - self.delta:g} no policy reaches {them} in fewer than "
            f"{count_of(math.floor(self.least_steps), 'step', ',')} on average."
        )

    def _pairs(self) -> list[str]:
        if not self.unvisited:
            return []
        names = self.unvisited_names or self.unvisited
        were = "pair of a met state was" if len(self.unvisited) == 1 else "pairs of met states were"
        return [f"{len(self.unvisited):,} {were} never visited ({checks.name_some(names)})."]


def _times(number: int | None) -> str:
    return "once or more" if number == 1 else f"{number:,} times or more"


def find_evidence(confidence: ConfidenceSet, pair_state: Any, state: int) -> Evidence:
    """Returns what was not reached, with a bound on the expected steps from the current `state`.

    The columns of `confidence.counts` are all states that exist. A state is met if a transition led to it, if
    one of its pairs was visited, or if it is `state`. `pair_state` `[n]` may include pairs of unmet states.
    """
    make = "Make one with make_confidence(counts, delta)."
    checks.check_instance(confidence, ConfidenceSet, "confidence", "must be a ConfidenceSet", make)
    counts, pair_state = read_counts(confidence.counts, pair_state)
    state = _read_state(state, counts.shape[1])
    met = _met(confidence, pair_state, state)
    _check_actions(met, pair_state)
    bound = least_steps(confidence, pair_state, met)
    return Evidence(
        unmet=tuple(np.flatnonzero(~met).tolist()),
        unvisited=tuple(np.flatnonzero((confidence.visits == 0) & met[pair_state]).tolist()),
        least_steps=float(bound[state]) if not met.all() else math.inf,
        delta=confidence.delta,
        num_states=int(counts.shape[1]),
        num_steps=int(confidence.visits.sum()),
    )


def least_steps(confidence: ConfidenceSet, pair_state: IntArray, met: BoolArray) -> FloatArray:
    """Returns lower bounds `[S]` on the expected steps to a state not met, valid with probability 1 - delta.

    Infinite where every state was met.
    """
    best = np.where(met, 1.0, 0.0)  # at least one step is needed
    if met.all():
        return np.full(met.size, math.inf)
    values = best
    for _ in range(ROUNDS):
        values = _steps_of_best_rows(confidence, pair_state, met, values)
        slope = _largest_slope(confidence, pair_state, met, values)
        best = np.maximum(best, values / slope)
        if slope <= 1 + ENOUGH:
            break
    return best


def _steps_of_best_rows(
    confidence: ConfidenceSet, pair_state: IntArray, met: BoolArray, values: FloatArray
) -> FloatArray:
    """Returns the steps `[S]` under the rows of the set that are best for these values; 0 where not met."""
    own = met[pair_state]
    rows = confidence.highest_rows(-values)[own]
    arrival = rows @ (~met).astype(float)
    rows.data *= met[rows.indices]
    first = np.searchsorted(pair_state[own], np.arange(met.size + 1))
    steps = shortest_paths(rows, arrival, first).steps
    return np.minimum(steps, 2 * steps.max(initial=1.0, where=np.isfinite(steps)))  # V must be bounded


def _largest_slope(
    confidence: ConfidenceSet, pair_state: IntArray, met: BoolArray, values: FloatArray
) -> float:
    """Returns b, rounded up, because the difference has the rounding errors of numbers as large as V."""
    own = met[pair_state]
    slope = (values[pair_state] - confidence.lowest(values))[own]
    return float(slope.max()) + 1e-12 * float(values.max())


def _met(confidence: ConfidenceSet, pair_state: IntArray, state: int) -> BoolArray:
    met = np.zeros(confidence.counts.shape[1], bool)
    met[confidence.counts.indices] = True  # the set stores no zeros
    met[pair_state[confidence.visits > 0]] = True
    met[state] = True
    return met


def _check_actions(met: BoolArray, pair_state: IntArray) -> None:
    met = met.copy()
    met[pair_state] = False
    if met.any():
        raise InvalidArgumentError.of(
            "pair_state", f"must list the pairs of every met state; state {int(np.argmax(met))} has none"
        )


def _read_state(state: Any, num_states: int) -> int:
    state = checks.integer(state, "state", least=0)
    if state >= num_states:
        raise InvalidArgumentError.of("state", f"must be a state in 0..{num_states - 1}", f"{state}")
    return state
