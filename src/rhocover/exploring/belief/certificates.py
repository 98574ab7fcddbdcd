"""How close visits are to the best coverage when the model is not known.

A certificate has two figures. The plug-in gap compares the visits with the best coverage of the estimated
model: it is close to the truth, but not guaranteed. The certified gap compares them with the least divergence
of any model that the counts do not refute (`learning.optimistic`): it holds with probability 1 - delta, at
all times at once, and is wide.

If a rule computes the weights from the estimate, the certificate is about the weights as estimated now, not
about those of the true model, and says so. If the set of states is not known, nothing is certified: the
best policy may visit states that were never met.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import Coverage
from rhocover.exploring.belief.learned import Known, LearnedModel, make_known, weights_of
from rhocover.learning.confidence import make_confidence
from rhocover.learning.estimate import Estimate
from rhocover.learning.evidence import Evidence, find_evidence
from rhocover.learning.optimistic import certify
from rhocover.planning import plan

PLAN_TOLERANCE = 1e-8
OF_NOW = "for the weights as they are estimated now"
OF_CODES = "for the coded model only"
IF_MARKOV = "if these states were Markov, which they are not"
STATES_UNKNOWN = "while the set of states is not known"
TRIVIAL = 0.01  # of the divergence: with a lower bound below this fraction, the gap is about the divergence
SMALL = 0.01  # nats, about 1 % of every share: a gap this small is informative even if it needs no data


@dataclass(frozen=True)
class Certificate:
    """How close visits are to the best: `gap` holds with probability 1 - `delta`, `plug_in_gap` is estimated.

    Both are divergence minus that of the best, in nats. While some pair with a weight is unvisited, both are
    infinite. The plug-in gap may be negative: a short run can happen to do better than the long-run best.
    """

    divergence: float
    plug_in_gap: float
    gap: float
    lower_bound: float  # on the divergence of the best, with probability 1 - delta
    delta: float
    condition: str = ""  # what the certificate assumes; with an infinite gap, why nothing is certified

    @property
    def proves_nothing(self) -> bool:
        """Whether the gap is about the divergence itself, which needs no data: no divergence is below 0.

        Such a gap is still informative if the model is known, if the gap is small, or if the best policy of
        the estimated model also has a divergence of about 0.
        """
        most = (1 - TRIVIAL) * self.divergence
        is_trivial = np.isfinite(self.gap) and self.gap >= most and self.plug_in_gap < most
        return bool(is_trivial and self.delta > 0 and self.gap > SMALL)

    def __str__(self) -> str:
        if not np.isfinite(self.plug_in_gap):
            return "some pairs with a weight were never visited, so there is nothing to certify yet"
        if not np.isfinite(self.gap):
            return f"nothing is certified {self.condition} (plug-in estimate {self.plug_in_gap:.3g} nats)"
        if self.proves_nothing:
            return (
                f"proves nothing yet: at most {self.gap:.3g} nats above the best is about the divergence "
                f"itself, which holds without any data. More data narrows it (plug-in estimate "
                f"{self.plug_in_gap:.3g})"
            )
        condition = f"; it holds {self.condition}" if self.condition else ""
        return f"at most {self.gap:.3g} nats above the best, {self._source}{condition}"

    @property
    def _source(self) -> str:
        """What the gap was computed from: the model itself, or observed transitions alone."""
        if self.delta == 0:
            return "computed with the model itself"
        return (
            f"with probability {1 - self.delta:g}, from the data alone (plug-in estimate "
            f"{self.plug_in_gap:.3g})"
        )


def on_condition(certificate: Certificate, condition: str) -> Certificate:
    """Returns the certificate with one more condition; if it certifies nothing, there is none to add."""
    if not np.isfinite(certificate.gap):
        return certificate
    before = certificate.condition.replace(" and ", ", ")  # a list has one `and`
    return replace(certificate, condition=f"{before} and {condition}".removeprefix(" and "))


def known_from(belief: LearnedModel, moves: IntArray) -> Known:
    """Returns the estimate from the transitions `moves` over all pairs that are known to exist."""
    settings = belief.settings
    return make_known(belief.frame, moves, met_only=not settings.know_states, smoothing=settings.smoothing)


def certify_visits(belief: LearnedModel, moves: IntArray, delta: float) -> Certificate:
    """Returns how close the visits behind `moves` are to the best coverage."""
    known = known_from(belief, moves)
    estimate, coverage = known.estimate, Coverage(belief.frame.rho, weights_of(belief.frame, known))
    visits, mu = estimate.visits, belief.frame.mu
    nothing_matters = mu is not None and not mu[known.pairs].any()
    if nothing_matters or not (visits[coverage.support] > 0).all():
        return Certificate(np.inf, np.inf, np.inf, 0.0, delta)
    found = _certified(estimate, coverage, visits / visits.sum(), delta, belief.settings.know_states)
    return found if belief.frame.rule is None else on_condition(found, OF_NOW)


def _certified(
    estimate: Estimate, coverage: Coverage, d_hat: FloatArray, delta: float, know_states: bool
) -> Certificate:
    best = plan(estimate.model, coverage.rho, coverage.mu, tol=PLAN_TOLERANCE, throw=False)
    divergence = coverage.divergence_unchecked(d_hat)
    plug_in = divergence - best.divergence
    if not know_states:
        return Certificate(divergence, plug_in, np.inf, 0.0, delta, STATES_UNKNOWN)
    sure = certify(estimate.model, coverage, estimate.counts, delta, potential=best.potential)
    gap = max(divergence - sure.lower_bound, 0.0)
    return Certificate(divergence, plug_in, gap, sure.lower_bound, delta)


def evidence_of(belief: LearnedModel, moves: IntArray, state: int, delta: float) -> Evidence:
    """Returns what was never reached, with a lower bound on the expected steps to it from `state`.

    If the set of states is not known, the evidence is only about the states met.
    """
    frame = belief.frame
    if not belief.settings.know_states:
        return open_evidence(belief, moves, delta)
    return find_evidence(make_confidence(frame.counts(moves), delta), frame.world.pair_state, state)


def open_evidence(belief: LearnedModel, moves: IntArray, delta: float) -> Evidence:
    """Returns how often the pairs of met states were tried, when other states may exist."""
    known = known_from(belief, moves)
    visits = known.estimate.visits
    return Evidence(
        unmet=(),
        unvisited=tuple(known.pairs[visits == 0].tolist()),
        least_steps=np.nan,
        delta=delta,
        num_states=known.states.size,
        num_steps=int(visits.sum()),
        least_trials=int(visits.min()),
    )
