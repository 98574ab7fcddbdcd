"""How close visits are to the best coverage, for someone who does not know the model.

Two figures, side by side. The plug-in gap compares with the best coverage of the estimated model: near the
truth, and no promise. The certified gap compares with the least divergence of any model that the counts do
not refute (`learning.optimistic`): it holds with probability 1 - delta, at all times at once, and is wide.

Weights that a rule says are those of now: the certificate is then about the objective as it is understood
now, not about that of the true model, and says so. Where not even the states are known nothing can be
certified: the best may visit states that nobody has met.
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
STATES_UNKNOWN = "where it is not known which states there are"
NOTHING = 0.01  # of the divergence: a bound below this part of it leaves the gap as good as the divergence
SMALL = 0.01  # nats, a hundredth of every share: so small a gap is worth knowing, whatever proves it


@dataclass(frozen=True)
class Certificate:
    """What visits are worth: `gap` is certified with probability 1 - `delta`, `plug_in_gap` is an estimate.

    Both are in nats: divergence minus that of the best. While a pair with a weight is unvisited both are
    infinite. The plug-in figure may be negative: a short run may be luckier than the long-run best.
    """

    divergence: float
    plug_in_gap: float
    gap: float
    lower_bound: float  # of the divergence of the best, with probability 1 - delta
    delta: float
    condition: str = ""  # what it takes for granted

    @property
    def proves_nothing(self) -> bool:
        """Whether the gap is about the divergence itself: no divergence is below 0, so that needs no data.

        It says something all the same where the model is known, where the gap is small, and where the best of
        the estimate has a divergence of about 0, too.
        """
        most = (1 - NOTHING) * self.divergence
        is_trivial = np.isfinite(self.gap) and self.gap >= most and self.plug_in_gap < most
        return bool(is_trivial and self.delta > 0 and self.gap > SMALL)

    def __str__(self) -> str:
        if not np.isfinite(self.plug_in_gap):
            return "not every pair with a weight was visited: there is nothing to certify yet"
        if not np.isfinite(self.gap):
            return f"nothing can be certified {self.condition} (plug-in estimate {self.plug_in_gap:.3g} nats)"
        condition = f" {self.condition}" if self.condition else ""
        if self.proves_nothing:
            return (
                f"proves nothing yet: {self.gap:.3g} nats above the best at most is about the divergence "
                f"itself, which holds without any data. More data narrows it (plug-in estimate "
                f"{self.plug_in_gap:.3g}{condition})"
            )
        return (
            f"{self.gap:.3g} nats above the best at most{condition}, with probability {1 - self.delta:g} "
            f"(plug-in estimate {self.plug_in_gap:.3g})"
        )


def whole(belief: LearnedModel, moves: IntArray) -> Known:
    """Returns what transitions tell about all pairs that are known to exist."""
    settings = belief.settings
    return make_known(belief.frame, moves, met_only=not settings.know_states, smoothing=settings.smoothing)


def certify_visits(belief: LearnedModel, moves: IntArray, delta: float) -> Certificate:
    """Returns how close the visits behind `moves` are to the best coverage."""
    known = whole(belief, moves)
    estimate, coverage = known.estimate, Coverage(belief.frame.rho, weights_of(belief.frame, known))
    visits, mu = estimate.visits, belief.frame.mu
    nothing_matters = mu is not None and not mu[known.pairs].any()
    if nothing_matters or not (visits[coverage.support] > 0).all():
        return Certificate(np.inf, np.inf, np.inf, 0.0, delta)
    found = _certified(estimate, coverage, visits / visits.sum(), delta, belief.settings.know_states)
    return found if belief.frame.rule is None else replace(found, condition=OF_NOW)


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
    """Returns what was never reached, and how far away it is at least, seen from `state`.

    Where it is not known which states there are, nothing can be said of others than those met.
    """
    frame = belief.frame
    if not belief.settings.know_states:
        return open_evidence(belief, moves, delta)
    return find_evidence(make_confidence(frame.counts(moves), delta), frame.world.pair_state, state)


def open_evidence(belief: LearnedModel, moves: IntArray, delta: float) -> Evidence:
    """Returns how often what was met was tried, where nobody knows what else there is."""
    known = whole(belief, moves)
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
