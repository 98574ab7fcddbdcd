"""How far a data set is from the best coverage, with probability 1 - delta, whoever collected it.

Successors of a pair are independent draws from its row whatever chose the pair, so counts alone make
confidence sets (`learning.confidence`), and the behaviour need not be known. Ends lead to a new start. With
one start state that is a row like any other, and `learning.certify` gives the bound. With several, let e be
the event that the episode ends, and h a potential; then

    P_i . h <= max_{p in C_i} ( sum_s' p(s') h(s') + p(e) v ),      v = max_{q in C_start} q . h,

is the robust lift of (1) in `learning.optimistic`, and its bound (2) holds for any h: here for that of the
plan on the estimate. Rows and starts share delta.

What it takes for granted: that there are no states but those met, and that starts are drawn alike.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.coverage import Coverage
from rhocover.data.observed import check_restarts
from rhocover.data.tally import Tally
from rhocover.exploring.certificates import Certificate
from rhocover.learning.confidence import make_confidence
from rhocover.learning.estimate import Estimate
from rhocover.learning.optimistic import certify, robust_bound
from rhocover.planning import plan
from rhocover.planning.certificate import EPSILON

LARGEST = 100_000  # pairs times states up to which a certificate is made unasked
NO_OTHERS = "if there are no states but those met"
TOO_LARGE = f"unasked where pairs times states are more than {LARGEST:,}: certificate=True insists"
PLAN_TOLERANCE = 1e-8
MAX_ROUNDS = 2  # of the search for the best potential: more take long and hardly raise the bound


def estimate_of(tally: Tally) -> Estimate:
    """Returns the smoothed estimate over all states met and all their actions, ends led to starts."""
    S, A = tally.num_states, tally.num_actions
    starts = tally.starts if tally.starts.any() else np.ones(S)
    check_restarts(tally, tally.ends, starts)
    again = sp.csr_array(tally.ends[:, None].astype(float)) @ sp.csr_array((starts / starts.sum())[None, :])
    roots = np.flatnonzero(starts)
    pair = np.arange(S * A)
    return Estimate(sp.csr_array(tally.moves + again), pair // A, pair % A, A, roots, name=tally.source)


def certify_data(
    tally: Tally, coverage: Coverage, plug_in_gap: float, delta: float, *, is_wanted: bool = False
) -> Certificate:
    """Returns how far the data is from the best coverage; `coverage` has weights per pair `[S*A]`.

    Where that takes long, it is found only if it `is_wanted`.
    """
    visits = tally.visits.ravel()
    if not (visits[coverage.support] > 0).all():
        return Certificate(np.inf, np.inf, np.inf, 0.0, delta)
    divergence = coverage.divergence(visits / visits.sum())
    if visits.size * tally.num_states > LARGEST and not is_wanted:
        return Certificate(divergence, plug_in_gap, np.inf, 0.0, delta, TOO_LARGE)
    bound = lower_bound(tally, coverage, delta)
    return Certificate(divergence, plug_in_gap, max(divergence - bound, 0.0), bound, delta, NO_OTHERS)


def lower_bound(tally: Tally, coverage: Coverage, delta: float) -> float:
    """Returns what D* of the true model is at least, with probability 1 - delta."""
    estimate = estimate_of(tally)
    begun = np.flatnonzero(tally.starts)
    if begun.size <= 1 or not tally.ends.any():
        return certify(
            estimate.model, coverage, _closed(tally, begun), delta, max_rounds=MAX_ROUNDS
        ).lower_bound
    best = plan(estimate.model, coverage.rho, coverage.mu, tol=PLAN_TOLERANCE, throw=False)
    return robust_bound(coverage, _lift(tally, best.potential, delta))


def _closed(tally: Tally, begun: np.ndarray) -> Matrix:
    """Returns the moves, ends among them as moves to the one start, int64 `[S*A, S]`."""
    if not tally.ends.any():
        return tally.moves
    home = sp.csr_array(([1], ([0], [int(begun[0])])), shape=(1, tally.num_states), dtype=np.int64)
    return sp.csr_array(tally.moves + sp.csr_array(tally.ends[:, None]) @ home)


def _lift(tally: Tally, h: FloatArray, delta: float) -> FloatArray:
    """Returns the robust lift of each pair `[S*A]`; the last row is the start, the last column the end."""
    n, S = tally.moves.shape
    ended, begun = sp.csr_array(tally.ends[:, None]), sp.csr_array(tally.starts[None, :])
    counts = sp.block_array([[tally.moves, ended], [begun, None]], format="csr")
    known = make_confidence(sp.csr_array(counts, dtype=np.int64), delta)
    h = h - h.max()
    error = EPSILON * (S + 9) * float(np.abs(h).max())
    v = (
        float(known.highest(np.append(h, h.min()))[n]) + error
    )  # a start is no end: what is said of it is least
    highest = known.highest(np.append(h, v))[:n]
    return h[np.arange(n) // tally.num_actions] - highest - error
