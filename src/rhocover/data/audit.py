"""audit(): what a data set covers, what it does not, and how far that is from the best achievable.

d_hat is the share of each state-action pair among the transitions, mubar what it should be. The figures are
D_rho(mubar || d_hat) and the worst ratio max mubar/d_hat, beside those of the best policy: on the model that
is given, or else on the one that the data shows (`observed`). Nothing about the behaviour that collected the
data is needed or asked.

How sure it is: the plug-in gap compares with the best of the observed model; the certificate holds with
probability 1 - delta (`certainty`); error bars say how far d_hat may be from the behaviour's long-run shares
(`mixing`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.data.audit_result import Audit
from rhocover.data.best import Best, find_best
from rhocover.data.certainty import certify_data
from rhocover.data.known_model import read_model
from rhocover.data.mixing import find_mixing
from rhocover.data.reading import read_tally
from rhocover.data.tally import Tally
from rhocover.data.targets import Target, read_target
from rhocover.data.verdict import NAMED, ThinPair, sentence, suspicion
from rhocover.errors import InvalidArgumentError
from rhocover.exploring.certificates import OF_NOW, Certificate

NUM_THIN = 20


def audit(
    data: Any,
    rho: float = 2.0,
    mu: Any = None,
    *,
    model: Any = None,
    states: Any = None,
    actions: Any = None,
    num_states: int | None = None,
    num_actions: int | None = None,
    delta: float = 0.05,
    best: bool | None = None,
) -> Audit:
    """Returns what a data set covers, against the best achievable.

    `data` is a Minari data set (id, folder or opened), a Parquet, NPZ or CSV file of (s, a, s_next, done),
    such columns themselves, or a `Tally`. `rho` in [0, inf] says how much the worst pair counts. `mu` are
    weights `[S, A]` by state number, a rule's name or function as in `explore`; None is one for every pair
    of every state met.

    With `model`, an MDP or a Gymnasium environment with a table, the states and the best are the model's,
    exactly; otherwise they are what the data shows. `states` and `actions` make numbers of observations and
    actions, as in `collect`; `num_states` and `num_actions` say how many there are. `best=False` leaves
    planning out, `best=True` insists where the data is very large.

    >>> from rhocover.data import audit
    >>> seen = audit(([0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 1, 1], [False] * 4))
    >>> seen.verdict
    'Covers 3 of 4 pairs; 1 was never tried: collect (0, 0) first.'
    """
    known = read_model(model)
    if num_actions is None and known is not None:
        num_actions = known.mdp.num_actions
    tally = read_tally(
        data, states=states, actions=actions, num_states=num_states, num_actions=num_actions,
        spaces=None if known is None else known.spaces,
    )  # fmt: skip
    return audit_tally(tally, rho, mu, model=known, delta=delta, best=best)


def audit_tally(
    tally: Tally,
    rho: float = 2.0,
    mu: Any = None,
    *,
    model: Any = None,
    delta: float = 0.05,
    best: bool | None = None,
) -> Audit:
    """Returns the audit of counts at hand; the arguments are those of `audit`."""
    if not isinstance(tally, Tally):
        raise InvalidArgumentError(
            f"`tally` must be a Tally, got {type(tally).__name__}. `audit` reads data."
        )
    delta = checks.probability(delta, "delta", open_ends=True)
    target = read_target(tally, mu, read_model(model))
    tally = target.tally
    coverage = Coverage(rho, target.weights.ravel())
    d_hat = tally.visits.ravel() / tally.num_steps
    found = find_best(target, coverage, best)
    thin = _thin(tally, coverage, d_hat, found)
    first = _first_to_collect(tally, coverage, d_hat, found) or [pair.name for pair in thin]
    num_pairs = int(np.count_nonzero(coverage.support))
    missing = int(np.count_nonzero(coverage.support & (d_hat == 0)))
    worst_ratio = coverage.worst_ratio(d_hat)
    visited, gap = _visited_figures(coverage, d_hat), found.gap(d_hat)
    return Audit(
        tally=tally,
        rho=coverage.rho,
        weights=target.weights,
        counts=tally.visits,
        occupancy=frozen(d_hat.reshape(tally.visits.shape)),
        divergence=coverage.divergence(d_hat),
        worst_ratio=worst_ratio,
        visited_divergence=visited[0],
        visited_worst_ratio=visited[1],
        best=found.plan,
        best_occupancy=None if found.occupancy is None else found.occupancy.reshape(tally.visits.shape),
        gap=gap,
        certificate=_certificate(target, coverage, d_hat, found, delta),
        mixing=find_mixing(tally, 1 - delta),
        thin=thin,
        num_pairs=num_pairs,
        num_missing=missing,
        is_exact=target.model is not None,
        layout=tally.layout if target.model is None else target.model.layout,
        observed_note=found.note,
        verdict=sentence(num_pairs, missing, thin, worst_ratio, found.worst_ratio, first, coverage.rho)
        + suspicion(gap),
    )


def _visited_figures(coverage: Coverage, d_hat: FloatArray) -> tuple[float, float]:
    """Returns divergence and worst ratio over the visited pairs; infinite if none of them has a weight."""
    weights = np.where(d_hat > 0, coverage.mu, 0.0)
    if not weights.any():
        return math.inf, math.inf
    seen = Coverage(coverage.rho, weights)
    return seen.divergence(d_hat), seen.worst_ratio(d_hat)


def _certificate(
    target: Target, coverage: Coverage, d_hat: FloatArray, best: Best, delta: float
) -> Certificate | None:
    """Returns how far the data is from the best: exactly where the model is given; None without a best."""
    if best.plan is None or best.coverage is None:
        return None
    if target.model is None:
        sure = certify_data(target.tally, coverage, best.gap(d_hat), delta)
        condition = f"{sure.condition}, {OF_NOW}".removeprefix(", ")
        return replace(sure, condition=condition) if target.is_rule else sure
    if not (d_hat[best.coverage.support] > 0).all():
        return Certificate(math.inf, math.inf, math.inf, 0.0, 0.0)
    divergence, gap = best.coverage.divergence(d_hat), best.gap(d_hat)
    return Certificate(divergence, gap, max(gap + best.plan.gap, 0.0), best.plan.lower_bound, 0.0)


def _thin(tally: Tally, coverage: Coverage, d_hat: FloatArray, best: Best) -> tuple[ThinPair, ...]:
    """Returns the pairs with the smallest share of their due, thinnest first."""
    pairs = np.flatnonzero(coverage.support)
    share = d_hat[pairs] / coverage.mu_bar[pairs]
    few = _smallest(share, NUM_THIN)
    possible = best.shares(coverage.mu_bar)
    return tuple(
        ThinPair(tally.pair_name(pair), int(tally.visits.ravel()[pair]), float(part), float(possible[pair]))
        for pair, part in zip(pairs[few].tolist(), share[few].tolist(), strict=True)
    )


def _first_to_collect(tally: Tally, coverage: Coverage, d_hat: FloatArray, best: Best) -> list[str]:
    """Returns the pairs that fall shortest of what the best policy gives them."""
    if best.occupancy is None:
        return []
    due = best.occupancy
    pairs = np.flatnonzero(coverage.support & (d_hat < due))
    few = _smallest(d_hat[pairs] / due[pairs], NAMED)
    return [tally.pair_name(pair) for pair in pairs[few].tolist()]


def _smallest(values: FloatArray, number: int) -> np.ndarray:
    """Returns the places of the smallest values, in order."""
    number = min(number, values.size)
    few = np.argpartition(values, number - 1)[:number] if number < values.size else np.arange(values.size)
    return few[np.argsort(values[few], kind="stable")]
