"""What an audit compares a data set with: its states and weights, the best, the certificate, the error bars.

**Target.** Without a model the states are the declared ones (`states`), otherwise those met, each with all
actions; weights by key may name more. With a model they are those of the model. A rule computes its weights
from the estimate of the data, or from the model itself.

**Best.** The best achievable is planned on the given model, or on the one observed in the data. It may refer
to fewer pairs than the audit: an observed model lacks pairs that were never tried, and pairs that cannot be
visited in the long run have no best. Comparisons are over the pairs of the best.

**Certificate.** How far a data set is from the best coverage, with probability 1 - delta. The next states of
a pair are independent draws from its row however the pair was chosen, so counts alone give confidence sets
(`learning.confidence`), and the behaviour need not be known. Ends lead to a new start. With one start state
that is a row like any other, and `learning.certify` gives the bound. With several, let e be the event that
the episode ends, and h a potential; then

    P_i . h <= max_{p in C_i} ( sum_s' p(s') h(s') + p(e) v ),      v = max_{q in C_start} q . h,

is the robust lift of (1) in `learning.optimistic`, and its bound (2) holds for any h: here for that of the
plan on the estimate. Rows and starts share delta. It assumes that there are no states other than those met,
and that all starts are drawn from one distribution.

**Error bars.** d_hat is the share of each pair among T dependent steps. With K batches of L steps and the
share x_k of a pair in batch k, batch means (Schmeiser 1982) give

    sigma^2 = L var(x_k),   standard error = sqrt(sigma^2 / T),   interval = ± t_{K-1} standard errors,

which is correct if batches are long enough to be almost independent. Summed over pairs, the ratio of sigma^2
to the p(1-p) of independent steps is the integrated autocorrelation time; T divided by it is the effective
number of independent steps. It may exceed T, if visits are steered to be even.

Two signs that this does not hold are checked. If neighbouring batches are correlated, the autocorrelation is
too long for the sample. If shares differ between the first and the second half by more than chance, the
behaviour changed over time, as that of every learner does; the interval is then not that of a fixed
behaviour, while d_hat itself remains correct. The bias of a short run towards its start is not included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from rhocover import checks
from rhocover.checks import FloatArray, Matrix, frozen
from rhocover.coverage import Coverage, checked_weights
from rhocover.datasets.empirical_model import KeyedModel, check_restarts, observed_model, over_model
from rhocover.datasets.states import declared_of, over_all, over_declared
from rhocover.datasets.tally import Tally, some_rows
from rhocover.errors import InvalidArgumentError, InvalidDataError, Note, parse_text
from rhocover.exploring.belief.certificates import Certificate
from rhocover.learning.confidence import make_confidence
from rhocover.learning.estimate import Estimate
from rhocover.learning.optimistic import certify, robust_bound
from rhocover.learning.rules import evaluated, final_weights, read_rule
from rhocover.mdp import MDP, NO_WEIGHTS
from rhocover.planning import Plan, plan
from rhocover.planning.problem import average_structure
from rhocover.planning.program import EPSILON
from rhocover.printing import count_of

# Certificate.

LARGEST = 100_000  # pairs times states up to which a certificate is computed by default
NO_OTHERS = "if there are no states but those met"
TOO_LARGE = Note(
    parse_text(
        f"by default, because pairs times states are more than {LARGEST:,}: `certificate=True` computes it"
    )
)
PLAN_TOLERANCE = 1e-8
MAX_ROUNDS = 2  # of the search for the best potential: more take long and hardly raise the bound


def estimate_of(tally: Tally) -> Estimate:
    """Returns the smoothed estimate over all states met and all their actions; ends lead to starts."""
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
    """Returns how far the data are from the best coverage; `coverage` has weights per pair `[S*A]`.

    If the computation takes long, it is done only if it `is_wanted`.
    """
    visits = tally.counts.ravel()
    if not (visits[coverage.support] > 0).all():
        return Certificate(np.inf, np.inf, np.inf, 0.0, delta)
    divergence = coverage.divergence(visits / visits.sum())
    if visits.size * tally.num_states > LARGEST and not is_wanted:
        return Certificate(divergence, plug_in_gap, np.inf, 0.0, delta, TOO_LARGE)
    bound = lower_bound(tally, coverage, delta)
    return Certificate(divergence, plug_in_gap, max(divergence - bound, 0.0), bound, delta, NO_OTHERS)


def lower_bound(tally: Tally, coverage: Coverage, delta: float) -> float:
    """Returns a lower bound on D* of the true model, valid with probability 1 - delta."""
    estimate = estimate_of(tally)
    begun = np.flatnonzero(tally.starts)
    if begun.size <= 1 or not tally.ends.any():
        return certify(
            estimate.model, coverage, _closed(tally, begun), delta, max_rounds=MAX_ROUNDS
        ).lower_bound
    best = plan(estimate.model, coverage.rho, coverage.mu, tol=PLAN_TOLERANCE, throw=False)
    return robust_bound(coverage, _lift(tally, best.potential, delta))


def _closed(tally: Tally, begun: np.ndarray) -> Matrix:
    """Returns the transition counts, with ends as transitions to the one start, int64 `[S*A, S]`."""
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
    )  # a start is never an end, so the value of an end is set to the least one
    highest = known.highest(np.append(h, v))[:n]
    return h[np.arange(n) // tally.num_actions] - highest - error


# Target.


@dataclass(frozen=True, eq=False)
class Target:
    """A tally over the audited states, and their weights `[S, A]`."""

    tally: Tally
    weights: FloatArray
    model: MDP | None = None
    is_rule: bool = False  # whether the weights are those of a rule on an estimate
    num_unlisted: int = 0  # pairs of declared states that were never met, too many for the tables

    @property
    def unlisted_weight(self) -> float:
        """The total weight of the unlisted pairs; nan for a rule, which was not evaluated on them."""
        return self.num_unlisted * (math.nan if self.is_rule else 1.0) if self.num_unlisted else 0.0


def read_target(tally: Tally, mu: Any, known: KeyedModel | None, *, met_only: bool = False) -> Target:
    """Returns the target of an audit; raises if weights or model do not fit the tally."""
    if known is not None:
        return Target(over_model(tally, known), frozen(_model_weights(known.mdp, mu)), known.mdp)
    if mu is not None and not isinstance(mu, str) and not callable(mu):
        return _by_key(tally, checked_weights(mu, "mu"))
    tally, num_unlisted = (tally, 0) if met_only else over_declared(tally)
    num_unlisted *= tally.num_actions
    if mu is None:
        return Target(tally, frozen(np.ones(tally.counts.shape)), num_unlisted=num_unlisted)
    estimate = estimate_of(tally)
    weights = estimate.table(evaluated(read_rule(mu), estimate))
    return Target(tally, frozen(weights), is_rule=True, num_unlisted=num_unlisted)


def _model_weights(model: MDP, mu: Any) -> FloatArray:
    if mu is None:  # one for each pair that can be visited in the long run: data cannot cover the others
        return model.table(
            average_structure(model, np.ones(model.num_pairs), restrict=True).kept.astype(float)
        )
    if isinstance(mu, str) or callable(mu):
        return model.table(final_weights(read_rule(mu), model))
    return model.table(checked_weights(model.per_pair(mu, "mu"), "mu"))


def _by_key(tally: Tally, mu: FloatArray) -> Target:
    """Returns the target over all states for which the weights have a row."""
    S, A = mu.shape if mu.ndim == 2 else (0, 0)
    declared = declared_of(tally)
    if declared is not None and (tally.num_actions, len(declared.keys)) == (A, S):
        return Target(over_all(tally), frozen(mu.copy()))
    if declared is not None and declared.is_asked:
        raise InvalidArgumentError.of(
            "mu",
            parse_text(
                f"must have shape ({len(declared.keys)}, {tally.num_actions}), one row for each of the "
                "`num_states` states"
            ),
            f"shape {mu.shape}",
        )
    by_number = all(isinstance(key, int) and 0 <= key < S for key in tally.keys)
    if tally.num_actions != A or not (by_number or tally.num_states == S):
        raise InvalidArgumentError.of(
            "mu",
            f"must have shape (states, {tally.num_actions}) with one row per state: {tally.source} has "
            f"{tally.num_states} states, {_range(tally)}; got shape {mu.shape}",
            remedy=NO_WEIGHTS,
        )
    return Target(tally.over(range(S)) if by_number else tally, frozen(mu.copy()))


def _range(tally: Tally) -> str:
    numbers = [key for key in tally.keys if isinstance(key, int)]
    if len(numbers) < len(tally.keys):
        return f"in this order: {checks.name_some(tally.keys, 3)}"
    return f"of which the largest is {max(numbers)}"


# Best.

LARGEST_PLAN = 200_000  # pairs up to which the best is planned by default: more take longer than reading


@dataclass(frozen=True, eq=False)
class Best:
    """A plan, its occupancy `[S*A]`, the weights that it uses `[S*A]`, and a note on what is left out."""

    plan: Plan | None
    occupancy: FloatArray | None
    coverage: Coverage | None
    note: str

    @property
    def worst_ratio(self) -> float:
        """The worst ratio of the plan; nan without a plan."""
        return math.nan if self.plan is None else self.plan.worst_ratio

    def gap(self, d_hat: FloatArray) -> float:
        """Returns the divergence of visits minus that of the best, over its pairs; nan without a plan."""
        if self.plan is None or self.coverage is None:
            return math.nan
        return self.coverage.divergence(d_hat) - self.plan.divergence

    def shares(self, mu_bar: FloatArray) -> FloatArray:
        """Returns the visits that the best gives each pair, as a share of its target; nan if unknown."""
        if self.occupancy is None:
            return np.full(mu_bar.size, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.occupancy > 0, self.occupancy / mu_bar, np.nan)


def find_best(target: Target, coverage: Coverage, wanted: bool | None) -> Best:
    """Returns the best for these weights `[S*A]`; `wanted=None` leaves very large models out."""
    tally, model = target.tally, target.model
    num_pairs = int(np.count_nonzero(tally.counts)) if model is None else model.num_pairs
    if wanted is False:
        return _none("")
    if wanted is None and num_pairs > LARGEST_PLAN:
        many = f"With {count_of(num_pairs, 'pair')} the best is not planned by default: pass `best=True`."
        return _none(Note(parse_text(many)))
    if model is not None:
        return _planned(model, model.pair_state * tally.num_actions + model.pair_action, coverage, "")
    try:
        seen = observed_model(tally)
    except InvalidDataError as error:
        return _none(str(error))
    return _planned(seen.mdp, seen.pairs, coverage, seen.note)


def _none(note: str) -> Best:
    return Best(None, None, None, note)


def _planned(mdp: MDP, rows: np.ndarray, coverage: Coverage, note: str) -> Best:
    """Returns the plan on a model whose pair i is row `rows[i]` of the weights."""
    if not coverage.support[rows].any():
        return _none(f"{note} No weighted pair can be visited in the long run in this model.".strip())
    found = plan(mdp, coverage.rho, coverage.mu[rows], restrict=True, throw=False)
    occupancy, weights = np.zeros(coverage.mu.size), np.zeros(coverage.mu.size)
    occupancy[rows] = mdp.per_pair(found.occupancy, "occupancy")
    weights[rows] = mdp.per_pair(found.weights, "weights")
    about = Coverage(coverage.rho, weights)
    return Best(found, frozen(occupancy), about, f"{note} {found.restriction}".strip())


# Error bars.

FEWEST = 8  # batches, below which their spread gives no usable estimate
ALIKE = 0.3  # correlation of neighbours, at which the variance is 1.6 times the estimated one
CHANCE = 1e-3  # probability that a steady behaviour is reported as changed
LEAST_VISITS = 2  # mean visits of a pair per batch, for its halves to be compared
SHUFFLED = 0.1  # share of jumps among the rows, above which they may have been shuffled


@dataclass(frozen=True, eq=False)
class Mixing:
    """Error bars for the shares of visits of a data set, from its batches."""

    error: FloatArray  # [S, A] standard error of d_hat; nan if it cannot be estimated
    half_width: FloatArray  # [S, A] of the interval around d_hat
    level: float  # of the interval
    autocorrelation_time: float  # in steps; 1 is independent
    effective_steps: float
    correlation: float  # of neighbouring batches
    num_changed: int  # pairs whose share differs between the halves
    num_batches: int
    batch_length: int
    is_settled: bool
    statement: str


def find_mixing(tally: Tally, level: float = 0.95) -> Mixing:
    """Returns error bars of d_hat and whether they can be trusted."""
    K, L, T, shape = tally.batches.shape[0], tally.batch_length, tally.num_steps, tally.counts.shape
    if K < FEWEST:
        nothing = frozen(np.full(shape, np.nan))
        text = (
            f"{T} steps are too few for error bars"
            if K
            else "no error bars: visits per batch were not counted"
        )
        return Mixing(nothing, nothing, level, np.nan, np.nan, np.nan, 0, K, L, False, text)
    mean, variance = _moments(tally.batches)  # of counts: L times the shares
    error = np.sqrt(variance / L / T).reshape(shape)
    spread = float(np.sum(mean * (L - mean))) / L
    time = float(variance.sum()) / spread if spread > 0 else 1.0
    correlation, changed = _correlation(tally.batches, mean, variance), _changed(tally.batches)
    worth = T / time if time > 0 else np.inf
    return Mixing(
        error=frozen(error),
        half_width=frozen(float(stats.t.ppf((1 + level) / 2, K - 1)) * error),
        level=level,
        autocorrelation_time=time,
        effective_steps=worth,
        correlation=correlation,
        num_changed=changed,
        num_batches=K,
        batch_length=L,
        is_settled=correlation <= ALIKE and not changed and tally.num_jumps <= SHUFFLED * T,
        statement=_statement(tally, correlation, changed, worth),
    )


def _moments(batches: Matrix) -> tuple[FloatArray, FloatArray]:
    """Returns mean and variance of each column of sparse counts `[K, n]`."""
    (K, n), data = batches.shape, batches.data.astype(float)
    mean = np.bincount(batches.indices, weights=data, minlength=n) / K
    squares = np.bincount(batches.indices, weights=data * data, minlength=n)
    return mean, np.maximum(squares - K * mean**2, 0.0) / (K - 1)


def _correlation(batches: Matrix, mean: FloatArray, variance: FloatArray) -> float:
    """Returns the correlation of neighbouring batches over all pairs; 0 if nothing varies."""
    K = batches.shape[0]
    total = (K - 1) * float(variance.sum())
    if total <= 0:
        return 0.0
    products = float(some_rows(batches, 0, K - 1).multiply(some_rows(batches, 1, K)).sum())
    ends = batches[[0, K - 1]].sum(axis=0)  # every batch but these has two neighbours
    return (products - float(mean @ (2 * K * mean - ends)) + (K - 1) * float(mean @ mean)) / total


def _changed(batches: Matrix) -> int:
    """Returns how many pairs have another share in the second half, by t-tests at joint level CHANCE."""
    half = batches.shape[0] // 2
    (a, var_a), (b, var_b) = (
        _moments(some_rows(batches, 0, half)),
        _moments(some_rows(batches, half, 2 * half)),
    )
    often = a + b >= 2 * LEAST_VISITS
    if not often.any():
        return 0
    bound = float(stats.t.isf(CHANCE / 2 / int(often.sum()), 2 * half - 2))
    difference = np.abs(a - b)[often]
    return int(np.count_nonzero(difference > bound * np.sqrt((var_a + var_b)[often] / half) + 1e-9))


def _statement(tally: Tally, correlation: float, changed: int, worth: float) -> str:
    """Returns the interpretation as text."""
    if tally.num_jumps > SHUFFLED * tally.num_steps:
        return (
            f"{tally.num_jumps} of {tally.num_steps} rows do not begin in the next state of the row before: "
            "if rows were shuffled, the error bars are too small"
        )
    if correlation > ALIKE:
        return "autocorrelation is too long for this sample, so the error bars are too small"
    if changed:
        have = "has" if changed == 1 else "have"
        pairs = f"{count_of(changed, 'pair')} {have} another share in the second half"
        return f"the behaviour changed over time: {pairs}"
    return f"settled: {tally.num_steps} steps are worth about {worth:.3g} independent ones"
