"""Journeys: the fastest way to something new, by what was seen so far.

Before coverage can be steered, pairs never visited and states never met must be reached on purpose. Pair i
was visited N_i times and led N(s'|i) times to s'. It is taken to lead to something new with probability

    p_i = 1 if pair i is wanted (by default: was never visited),    else p_i = k / (N_i + k),

and otherwise to its successors as they were seen, N(s'|i)/N_i. The policy that needs the fewest expected
steps to something new solves a stochastic shortest path (`shortest_paths`).

**Why doubt a pair that was visited.** One visit of RiverSwim's `right` that stayed says that it always
stays. With p_i = 0 everything behind it would be shut off for ever. With p_i = k/(N_i + k) trying again
always has a price, N_i/k + 1 steps, and is worth it when all else costs more; each disappointment makes it
dearer, so no state is shut off and none is insisted on for ever. This holds also when all states are met but
pairs are still wanted. k/(N + k) is the chance of a new successor under a Dirichlet process of concentration
k (Blackwell and MacQueen 1973). `prior=0` trusts the estimate.

**The size of k.** Measured until every pair was visited, against going to the nearest unvisited pair with
the true model: small k wins, because what was never tried is new for sure and should be exhausted before
what was tried is doubted. Between 0.01 and 0.1 the differences are within the noise; 0.5 costs a third more
steps on RiverSwim(20) and DeepSea(10), and 2 costs three times as many.

**When to look again.** When something new was seen, and when the visits of some pair have doubled since the
last look (`is_due`): a journey is a fixed policy and doubts do not grow while it is followed, so without the
second rule it can go round in circles for ever. Looking after every step gains nothing measurable.

Knows nothing of coverage, of weights, or of how sure the estimate is (see `evidence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.learning.shortest_paths import shortest_paths

PRIOR = 0.1  # k: how many visits the doubt about a pair is worth


@dataclass(frozen=True, eq=False)
class Journey:
    """A way to something new: `policy` `[n]` takes one action a state; `expected_steps` `[S]`.

    Where something new may be reached but not for sure, the steps are infinite and the policy heads for it;
    where it cannot be reached, the policy is uniform. A state without pairs was never met: it is new itself.
    """

    policy: FloatArray
    expected_steps: FloatArray


def find_journey(
    counts: Matrix,
    pair_state: Any,
    *,
    wanted: Any = None,
    new_states: bool = False,
    prior: float = PRIOR,
    warm: Journey | None = None,
) -> Journey:
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
    return Journey(frozen(_policy(found.choice, pair_state, first)), frozen(found.steps))


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
        raise InvalidArgumentError(
            "`counts` must be a SciPy csr_array of whole numbers, one row a pair and one column a state. "
            "Convert it with scipy.sparse.csr_array(counts, dtype=numpy.int64)."
        )
    pair_state = checks.any_array(pair_state, "pair_state")
    checks.check_shape(pair_state.shape, "pair_state", (counts.shape[0],))
    if pair_state.dtype.kind not in "iu" or (np.diff(pair_state) < 0).any():
        raise InvalidArgumentError("`pair_state` must hold whole numbers in ascending order.")
    if pair_state.size and not 0 <= pair_state[0] <= pair_state[-1] < counts.shape[1]:
        raise InvalidArgumentError(
            f"`pair_state` must be states in 0..{counts.shape[1] - 1} (the columns of `counts`), "
            f"got {pair_state[0]} to {pair_state[-1]}."
        )
    if counts.data.size and counts.data.min() < 0:
        raise InvalidArgumentError(f"`counts` must be non-negative, got {counts.data.min()}.")
    return counts, pair_state.astype(np.int64, copy=False)


def row_sums(counts: Matrix) -> IntArray:
    """Returns the visits of each pair, `[n]`."""
    total = np.concatenate([[0], np.cumsum(counts.data, dtype=np.int64)])
    return total[counts.indptr[1:]] - total[counts.indptr[:-1]]


def _read_wanted(wanted: Any, num_pairs: int) -> BoolArray:
    array = checks.any_array(wanted, "wanted")
    checks.check_shape(array.shape, "wanted", (num_pairs,))
    if array.dtype != bool:
        raise InvalidArgumentError(f"`wanted` must be a boolean array, got dtype {array.dtype}.")
    return array


def _read_prior(prior: Any) -> float:
    value = checks.number(prior, "prior")
    if not 0 <= value < np.inf:
        raise InvalidArgumentError(f"`prior` must be a number of visits, 0 or more, got {value:g}.")
    return value


def _arrival(visits: IntArray, wanted: BoolArray, prior: float) -> FloatArray:
    """Returns the probability of something new for each pair; nothing is known of an unvisited one."""
    doubt = np.ones(visits.size) if prior else np.zeros(visits.size)
    np.divide(prior, visits + prior, out=doubt, where=visits > 0)
    return np.where(wanted, 1.0, doubt)


def _choice(warm: Journey, first: IntArray) -> IntArray:
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
