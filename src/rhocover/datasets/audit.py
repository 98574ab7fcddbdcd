"""audit(): what a data set covers, what it does not, and how far that is from the best achievable.

d_hat is the share of each state-action pair among the transitions, mubar its target share. The figures are
D_rho(mubar || d_hat) and the worst ratio max mubar/d_hat, next to those of the best policy: on the given
model, or otherwise on the model observed in the data. Nothing needs to be known about the behaviour that
collected the data.

How certain it is: the plug-in gap compares with the best of the observed model; the certificate holds with
probability 1 - delta; error bars give how far d_hat may be from the long-run shares of the behaviour (both in
`best`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage, thinnest_first
from rhocover.datasets.best import Best, Target, certify_data, find_best, find_mixing, read_target
from rhocover.datasets.empirical_model import read_model
from rhocover.datasets.read_options import ReadOptions
from rhocover.datasets.reading import read_data
from rhocover.datasets.result import Audit, Extent, Met, ThinPair, sentence, suspicion, unmet_words
from rhocover.datasets.states import declared_of, num_unmet, unmet_pairs
from rhocover.datasets.tally import Tally, first_steps
from rhocover.errors import Call, InvalidArgumentError, InvalidDataError, Note
from rhocover.exploring.belief.certificates import IF_MARKOV, OF_CODES, OF_NOW, Certificate, on_condition
from rhocover.learning.codes import Coded, CodeDiagnosis, diagnose, growth_of, share_of_stays, warn_of
from rhocover.progress import progress

if TYPE_CHECKING:
    from rhocover.arguments import Actions, Columns, Data, Environment, States, WeightsOrRule
    from rhocover.mdp import MDP

NUM_THIN = 20


def audit(
    data: Data,
    rho: float = 2.0,
    mu: WeightsOrRule | None = None,
    *,
    model: MDP | Environment | None = None,
    states: States | None = None,
    actions: Actions | None = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    met_only: bool = False,
    delta: float = 0.05,
    best: bool | None = None,
    certificate: bool | None = None,
    held_out: States | None = None,
    columns: Columns | None = None,
    executor: Any = None,
) -> Audit:
    """Returns what a data set covers, compared with the best achievable.

    `data` is a Minari data set (id, folder or opened), a file of (s, a, s_next, done), several files or a
    folder of them, such columns themselves, episodes, a replay buffer, or a `Tally`, such as the `visits` of
    `CountVisits`; the table in "Environments and data sets" lists all forms. `columns` names the columns that
    are not found by themselves: `{"s": "pos", "a": "act"}`. `rho` in [0, inf] sets how
    much the worst pair counts. `mu` are weights `[S, A]` by state number, or the name or function of a rule
    as in `explore`; None gives every pair of every state the weight 1.

    With `model`, an MDP or a Gymnasium environment with a table, the states and the best are exactly those of
    the model; otherwise the best is that of the model observed in the data. `states` and `actions` encode
    observations and actions, as in `collect`. The possible states are given by `num_states`, or by the bins
    or the space of the observations: those never met count as never tried, unless `met_only=True`, for data
    that cannot reach them. Otherwise they are the states met. `best=False` skips planning, `best=True` plans
    even if the data set is very large; `certificate` does the same for the certificate. `held_out` is a
    second code of the observations, as for `states`, which is only counted beside them.

    `executor` counts files in ranges of rows, in other processes or on other machines: anything with
    `submit(function, *args)` that returns a future, such as a `ProcessPoolExecutor`, or
    `client.get_executor()` of Dask. The result is the same to the bit. The states and actions must be
    numbers or names.

    >>> from rhocover.datasets import audit
    >>> seen = audit(([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [False] * 4))
    >>> seen.verdict
    'Covers 3 of 4 pairs; 1 was never tried: collect (0, 0) first.'
    """
    known = read_model(model, actions)
    if num_actions is None and known is not None:
        num_actions = known.mdp.num_actions
    how = ReadOptions(
        states=states, actions=actions, num_states=num_states, num_actions=num_actions, held_out=held_out,
        columns=columns, executor=executor, spaces=None if known is None else known.spaces,
        action_labels=None if known is None else known.mdp.action_labels or (),
    )  # fmt: skip
    with progress("auditing"):
        tally = read_data(data, how).tally
        asked = AuditOptions(met_only, delta, best, certificate)
        found = audit_tally(tally, rho, mu, model=known, options=asked)
    if found.codes is not None:
        warn_of(found.codes, stacklevel=2)
    return found


@dataclass(frozen=True)
class AuditOptions:
    """The options of an audit besides the objective; the fields are arguments of `audit`."""

    met_only: bool = False
    delta: float = 0.05
    best: bool | None = None
    certificate: bool | None = None


def audit_tally(
    tally: Tally, rho: float = 2.0, mu: Any = None, *, model: Any = None, options: AuditOptions | None = None
) -> Audit:
    """Returns the audit of a tally; the arguments are those of `audit`."""
    asked = options or AuditOptions()
    if not isinstance(tally, Tally):
        raise InvalidArgumentError.of(
            "tally", "must be a Tally", type(tally).__name__, remedy="For other data use `audit`."
        )
    if not tally.num_steps:
        raise InvalidDataError(f"{tally.source} has no transitions: there is nothing to evaluate.")
    delta = checks.probability(asked.delta, "delta", open_ends=True)
    target = read_target(tally, mu, read_model(model), met_only=asked.met_only)
    tally = target.tally
    coverage = Coverage(rho, target.weights.ravel())
    d_hat = tally.counts.ravel() / tally.num_steps
    found = find_best(target, coverage, _wanted_best(asked.best, asked.certificate))
    thin = _thin(target, coverage, d_hat, found)
    num_pairs = int(np.count_nonzero(coverage.support)) + target.num_unlisted
    missing = int(np.count_nonzero(coverage.support & (d_hat == 0))) + target.num_unlisted
    met = _met(target) if asked.met_only or missing else None
    extent = Extent(num_pairs, missing, met, _num_known(target, mu))
    divergence, worst_ratio = _figures(target, coverage, d_hat)
    certifying = partial(_certificate, target, coverage, d_hat, found, delta, asked.certificate)
    visited, gap = _visited_figures(coverage, d_hat), found.gap(d_hat)
    return Audit(
        tally=tally,
        rho=coverage.rho,
        weights=target.weights,
        counts=tally.counts,
        occupancy=frozen(d_hat.reshape(tally.counts.shape)),
        divergence=divergence,
        worst_ratio=worst_ratio,
        visited_divergence=visited[0],
        visited_worst_ratio=visited[1],
        best=found.plan,
        best_occupancy=None if found.occupancy is None else found.occupancy.reshape(tally.counts.shape),
        gap=gap,
        certified=certifying() if asked.certificate else certifying,
        met=met,
        mixing=find_mixing(tally, 1 - delta),
        thin=thin,
        num_pairs=num_pairs,
        num_missing=missing,
        is_exact=target.model is not None,
        layout=tally.layout if target.model is None else target.model.layout,
        observed_note=Note(found.note, "" if asked.met_only else unmet_words(met)),
        verdict=sentence(extent, thin, worst_ratio, found.worst_ratio, coverage.rho) + suspicion(gap),
        codes=_diagnosis(target, coverage.rho),
    )


def _diagnosis(target: Target, rho: float) -> CodeDiagnosis | None:
    """Returns how far the codes of the states may be trusted; None if the states are numbers already."""
    tally = target.tally
    if tally.coded is None:
        return None
    declared, visits, weights = declared_of(tally), tally.counts, target.weights
    if target.num_unlisted:  # as one more code without a visit
        weights = np.vstack([weights, np.full(tally.num_actions, target.unlisted_weight / tally.num_actions)])
        visits = np.vstack([visits, np.zeros(tally.num_actions, np.int64)])
    possible = None if declared is None else len(declared.keys)
    growth = growth_of(first_steps(tally), tally.num_steps, possible, tally.coded.noun)
    return diagnose(tally.coded, growth, share_of_stays(tally.moves, tally.num_actions), weights, visits, rho)


def _met(target: Target) -> Met | None:
    """Returns how many of the declared states were met; None if all were, or if a model is given."""
    declared, number = declared_of(target.tally), num_unmet(target.tally)
    if target.model is not None or declared is None or not number:
        return None
    total = len(declared.keys)
    return Met(total - number, total, declared.noun)


def _num_known(target: Target, mu: Any) -> int | None:
    """Returns how many states are in the data; None if the states are given by model, weights or user."""
    has_weights = mu is not None and not isinstance(mu, str) and not callable(mu)
    is_said = target.model is not None or declared_of(target.tally) is not None or has_weights
    return None if is_said else target.tally.num_states


def _figures(target: Target, coverage: Coverage, d_hat: FloatArray) -> tuple[float, float]:
    """Returns divergence and worst ratio over all pairs; the unlisted ones count as one pair, not tried."""
    weight = target.unlisted_weight
    if not weight:
        return coverage.divergence(d_hat), coverage.worst_ratio(d_hat)
    if math.isnan(weight):
        return math.inf if coverage.rho >= 1 else math.nan, math.inf
    whole, d = Coverage(coverage.rho, np.append(coverage.mu, weight)), np.append(d_hat, 0.0)
    return whole.divergence(d), whole.worst_ratio(d)


def _visited_figures(coverage: Coverage, d_hat: FloatArray) -> tuple[float, float]:
    """Returns divergence and worst ratio over the visited pairs; infinite if none of them has a weight."""
    weights = np.where(d_hat > 0, coverage.mu, 0.0)
    if not weights.any():
        return math.inf, math.inf
    seen = Coverage(coverage.rho, weights)
    return seen.divergence(d_hat), seen.worst_ratio(d_hat)


def _wanted_best(best: bool | None, certificate: bool | None) -> bool | None:
    """Returns whether to plan the best; `certificate=True` needs it."""
    if certificate and best is False:
        insists, leaves_out = Call("`certificate=True`", "--certificate"), Call("`best=False`", "--no-best")
        raise InvalidArgumentError(
            (insists, " compares with the best, which ", leaves_out, " does not plan."),
            argument="certificate",
            remedy=("Leave ", leaves_out, " out."),
        )
    return True if certificate else best


def _certificate(
    target: Target, coverage: Coverage, d_hat: FloatArray, best: Best, delta: float, wanted: bool | None
) -> Certificate | None:
    """Returns how far the data are from the best, exactly if a model is given; None without a best."""
    if best.plan is None or best.coverage is None or wanted is False:
        return None
    if target.num_unlisted:
        return Certificate(math.inf, math.inf, math.inf, 0.0, delta)
    if target.model is None:
        sure = certify_data(target.tally, coverage, best.gap(d_hat), delta, is_wanted=bool(wanted))
        sure = on_condition(sure, OF_NOW) if target.is_rule else sure
        return _of_codes(sure, target.tally.coded)
    if not (d_hat[best.coverage.support] > 0).all():
        return Certificate(math.inf, math.inf, math.inf, 0.0, 0.0)
    divergence, gap = best.coverage.divergence(d_hat), best.gap(d_hat)
    return Certificate(divergence, gap, max(gap + best.plan.gap, 0.0), best.plan.lower_bound, 0.0)


def _of_codes(certificate: Certificate, coded: Coded | None) -> Certificate:
    """Returns the certificate with what it assumes of codes."""
    if coded is None or not coded.is_lossy:
        return certificate
    found = on_condition(certificate, OF_CODES)
    is_refuted = coded.markov is not None and coded.markov.is_found
    return on_condition(found, IF_MARKOV) if is_refuted else found


def _thin(target: Target, coverage: Coverage, d_hat: FloatArray, best: Best) -> tuple[ThinPair, ...]:
    """Returns the pairs with the smallest share of their target, thinnest first."""
    tally = target.tally
    table = tally.counts.shape
    pairs = thinnest_first(coverage.mu_bar.reshape(table), d_hat.reshape(table))[:NUM_THIN]
    share, possible = d_hat[pairs] / coverage.mu_bar[pairs], best.shares(coverage.mu_bar)
    listed = [
        ThinPair(tally.pair_name(pair), int(tally.counts.ravel()[pair]), float(part), float(possible[pair]))
        for pair, part in zip(pairs.tolist(), share.tolist(), strict=True)
    ]
    if not target.num_unlisted:
        return tuple(listed)
    others = [ThinPair(name, 0, 0.0, math.nan) for name in unmet_pairs(tally, NUM_THIN)]
    return tuple([*(pair for pair in listed if pair.count == 0), *others][:NUM_THIN])
