"""Evidence: what was never reached, and how long at least it would take, whatever is done.

A state that was not met in n steps may be out of reach, or far, or simply not tried. The counts can tell:
rows of the transitions that they do not refute form a confidence set C (`confidence`), which holds the true
rows with probability 1 - delta. Let U be the states never met and h(s) the fewest expected steps from s to
U, over all behaviours, under the true rows: h = 0 on U, and h(s) = min_i 1 + P_i h over the pairs i of s.
Nothing is known of the rows of U, so U is one goal: a bound for reaching any of them is a bound for each.

**Lower bound.** For any V >= 0 with V = 0 on U let

    b = max over met states s of  V(s) - min_{i of s} min_{P in C_i} P V.

Then V <= b h whenever C holds the true rows. Proof: V(s) <= b + P_i V for each pair i of s. Let tau be the
time at which some behaviour reaches U; by induction on k, V(s_0) <= b E[min(k, tau)] + E V(s_min(k, tau)).
If E tau is finite the last term tends to E V(s_tau) = 0, V being bounded; if not, there is nothing to prove.
So V(s)/b is a bound for every V, and there is no iteration that must have converged: one may stop at any
time. (The textbook choice V_0 = 0, V_{k+1}(s) = min_i 1 + min_{P in C_i} P V_k is a bound too: V_k <= h
gives V_{k+1} <= min_i 1 + P_i h = h. It rises by at most 1 a sweep, and bounds of interest are thousands of
steps.)

**A good V.** Policy iteration on rows: take for each pair the row of C that is best for reaching U by the
last V, solve the shortest path that these rows make (`shortest_paths`), again with its steps as V. A pair
never visited may lead anywhere: from a state that has one, the bound is 1.

The bound is over the expected number of steps. It says nothing of states that were met once and are far.

Journeys: the fastest way to something new, by what was seen so far.

Before coverage can be steered, pairs never visited and states never met must be reached on purpose. Pair
i was visited N_i times and led N(s'|i) times to s'. It is taken to lead to something new with probability

    p_i = 1 if pair i is wanted (by default: was never visited),    else p_i = k / (N_i + k),

and otherwise to its successors as they were seen, N(s'|i)/N_i. The policy that needs the fewest expected
steps to something new solves a stochastic shortest path (`shortest_paths`).

**Why doubt a pair that was visited.** One visit of RiverSwim's `right` that stayed says that it always
stays. With p_i = 0 everything behind it would be shut off for ever. With p_i = k/(N_i + k) trying again
always has a price, N_i/k + 1 steps, and is worth it when all else costs more; each disappointment makes
it dearer, so no state is shut off and none is insisted on for ever. This holds also when all states are
met but pairs are still wanted. k/(N + k) is the chance of a new successor under a Dirichlet process of
concentration k (Blackwell and MacQueen 1973). `prior=0` trusts the estimate.

**The size of k.** Measured until every pair was visited, against going to the nearest unvisited pair with
the true model: small k wins, because what was never tried is new for sure and should be exhausted before
what was tried is doubted. Between 0.01 and 0.1 the differences are within the noise; 0.5 costs a third
more steps on RiverSwim(20) and DeepSea(10), and 2 costs three times as many.

**When to look again.** When something new was seen, and when the visits of some pair have doubled since
the last look (`is_due`): a journey is a fixed policy and doubts do not grow while it is followed, so
without the second rule it can go round in circles for ever. Looking after every step gains nothing
measurable.

Knows nothing of coverage, of weights, or of how sure the estimate is (see `evidence`).
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

# Journeys: the fastest way to something new, by what was seen so far.

PRIOR = 0.1  # k: how many visits the doubt about a pair is worth


@dataclass(frozen=True, eq=False)
class DiscoveryTarget:
    """A way to something new: `policy` `[n]` takes one action a state; `expected_steps` `[S]`.

    Where something new may be reached but not for sure, the steps are infinite and the policy heads for it;
    where it cannot be reached, the policy is uniform. A state without pairs was never met: it is new itself.
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
    """Returns the policy that is expected to reach something new soonest.

    `counts` `[n, S]` says how often s' followed pair i; `pair_state` `[n]` is sorted. `wanted` `[n]` marks
    pairs to visit; `new_states` says whether there may be states that were never met. With neither there is
    nothing to reach: infinite steps, and the uniform policy. `warm`, a journey over the first pairs of these,
    saves time.
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
    """Returns whether some pair's visits `[n]` have doubled since the journey was found.

    A pair visited for the first time has doubled. `visits_then` may lack the pairs of states met since then.
    """
    known = visits_then.size
    doubled = (visits[:known] > visits_then) & (visits[:known] >= 2 * visits_then)
    return bool(doubled.any() or (visits[known:] > 0).any())


def read_counts(counts: Any, pair_state: Any) -> tuple[Matrix, IntArray]:
    """Returns the counts as a csr_array and the pairs' states; refuses what does not fit together."""
    if not (sp.issparse(counts) and counts.format == "csr" and counts.dtype.kind in "iu"):
        raise InvalidArgumentError.of(
            "counts",
            "must be a SciPy csr_array of whole numbers, one row a pair and one column a state",
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
    """Returns the probability of something new for each pair; nothing is known of an unvisited one."""
    doubt = np.ones(visits.size) if prior else np.zeros(visits.size)
    np.divide(prior, visits + prior, out=doubt, where=visits > 0)
    return np.where(wanted, 1.0, doubt)


def _choice(warm: DiscoveryTarget, first: IntArray) -> IntArray:
    """Returns the pair that the warm journey takes in each state, -1 where it takes none for sure."""
    choice = np.full(first.size - 1, -1, np.int64)
    taken = np.flatnonzero(warm.policy[: first[-1]] == 1.0)
    choice[np.searchsorted(first, taken, side="right") - 1] = taken
    return choice


def _policy(choice: IntArray, pair_state: IntArray, first: IntArray) -> FloatArray:
    """Returns 0/1 for each pair by the choices, uniform where there is none."""
    policy = 1.0 / np.diff(first)[pair_state]
    chosen = choice[pair_state]
    decided = chosen >= 0
    policy[decided] = chosen[decided] == np.flatnonzero(decided)
    return policy


# Evidence: what was never reached, and how long at least it would take, whatever is done.

ROUNDS = 30  # of choosing rows; fewer than ten are needed, as for policy iteration
ENOUGH = 0.01  # relative: a bound this close to the best that C allows is as good


@dataclass(frozen=True)
class Evidence:
    """What was never reached in `num_steps` steps, with a bound that holds with probability 1 - `delta`."""

    unmet: tuple[int, ...]  # states never met
    unvisited: tuple[int, ...]  # pairs of met states never visited
    least_steps: float  # no behaviour reaches an unmet state in fewer expected steps from where it stands
    delta: float
    num_states: int
    num_steps: int
    least_trials: int | None = None  # of a pair, where it is not known which states there are; else None
    unmet_names: tuple[str, ...] = ()  # what they are called, where they have names
    unvisited_names: tuple[str, ...] = ()
    noun: str = "states"  # what states are called
    num_possible: int | None = None  # how many there can be, where that is known and not which there are

    def __str__(self) -> str:
        states = self._states() if self.least_trials is None else self._open()
        return " ".join([states, *self._pairs()])

    def _open(self) -> str:
        """Returns what was met and how often it was tried, where nobody knows what else there is."""
        tried = f", and each pair of them was tried {_times(self.least_trials)}" if self.least_trials else ""
        return f"{self._met()} met in {self.num_steps:,} steps{tried}.{self._others()}"

    def _met(self) -> str:
        """Returns how many states were met, and of how many where that is known: `25 of 30 bins were`."""
        were = "was" if self.num_states == 1 else "were"
        if self.num_possible is None:
            return f"{self.num_states:,} {self.noun if self.num_states != 1 else 'state'} {were}"
        most = "" if self.noun == "bins" else "at most "
        return f"{self.num_states:,} of {most}{self.num_possible:,} {self.noun} {were}"

    def _others(self) -> str:
        """Returns what is not known of states that were not met."""
        if self.num_possible is None:
            return f" Whether there are other {self.noun} is not known."
        return "" if self.num_states == self.num_possible else " Whether the others can be met is not known."

    def _states(self) -> str:
        if not self.unmet:
            return f"All {self.num_states:,} {self.noun} were met in {self.num_steps:,} steps."
        were = "was" if len(self.unmet) == 1 else "were"
        return (
            f"{len(self.unmet):,} of {self.num_states:,} {self.noun} {were} never met "
            f"({checks.name_some(self.unmet_names or self.unmet)}) in {self.num_steps:,} steps{self._bound()}"
        )

    def _bound(self) -> str:
        """Returns the bound in words, rounded down so that it stays one."""
        them = "it" if len(self.unmet) == 1 else "one of them"
        if self.least_steps < 2:
            return f", and that proves nothing: {them} may be a step away."
        return (
            f": with probability {1 - self.delta:g} nothing reaches {them} in fewer than "
            f"{math.floor(self.least_steps):,} steps on average."
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
    """Returns what was not reached, seen from `state`, where the trajectory stands.

    The columns of `confidence.counts` are all states there are; a state is met if it was stood on: led to,
    left by some pair, or `state`. `pair_state` `[n]` may include pairs of states that were not met.
    """
    if not isinstance(confidence, ConfidenceSet):
        raise InvalidArgumentError.of(
            "confidence", "must be a ConfidenceSet", f"{type(confidence).__name__}: see make_confidence"
        )
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
    best = np.where(met, 1.0, 0.0)  # a step is needed at least
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
    """Returns the steps `[S]` by the rows of the set that are best for these values; 0 where not met."""
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
    """Returns b, rounded up: what is subtracted is as large as V, so its rounding counts."""
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
