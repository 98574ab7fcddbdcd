"""The problem that a learner plans on: the estimated model of the states met so far, with their weights."""

from __future__ import annotations

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.exploring.frame import Frame, Known
from rhocover.exploring.problem import Problem
from rhocover.learning.estimate import Estimate
from rhocover.learning.rules import Rule
from rhocover.occupancy import Occupancies
from rhocover.planning.problem import read_problem

LEAST_ORDER, VISITS_PER_ORDER = 2.0, 4  # of plans: the order is at most a quarter of a pair's visits
LEAST_WEIGHT = 1e-3  # of the largest, at rho = 0
PLAN_TOLERANCE = 1e-7  # of plans on an estimate: its own error is far larger


def estimated_problem(
    frame: Frame, known: Known, num_steps: int, *, sample: bool, warm: FloatArray | None
) -> Problem:
    """Returns the problem after some steps: the estimate, or a draw from the posterior, and its weights.

    `warm` is the potential of the last plan over the world's states.
    """
    estimate = known.estimate
    model = estimate.model
    if sample:
        model = estimate.sample(np.random.default_rng([frame.seed, num_steps]))
    rho = min(frame.rho, order_of(num_steps, known.pairs.size))
    question = read_problem(model, rho, _weights_now(frame, known, num_steps), None, None, None, 0.0, False)
    start = np.zeros(estimate.num_states)
    start[estimate.roots] = 1 / estimate.roots.size
    coverage = Coverage(question.program.rho, question.program.coverage.mu_bar)
    members = Occupancies.average(model)
    warm = None if warm is None else warm[known.states]
    return Problem(question, model, coverage, members, start, tol=PLAN_TOLERANCE, warm=warm)


def _weights_now(frame: Frame, known: Known, num_steps: int) -> FloatArray:
    """Returns the weights; says when and what for a rule failed."""
    try:
        return weights_of(frame, known)
    except InvalidArgumentError as error:
        error.add_remedy(
            parse_text(
                f"The rule for `mu` returned that after {num_steps} steps, for the {known.pairs.size} pairs "
                "met so far."
            )
        )
        raise


def order_of(num_steps: int, num_pairs: int) -> float:
    """Returns the largest order that so many visits can tell apart.

    At rho = inf the best occupancy is often not unique, and where it is, it moves a lot with a little of the
    estimate: visits could not follow. Orders that grow with the visits of a pair have the same limit.
    """
    return max(LEAST_ORDER, num_steps / (VISITS_PER_ORDER * num_pairs))


def weights_of(frame: Frame, known: Known) -> FloatArray:
    """Returns the weights of the known pairs; ones while none of them matters."""
    if frame.rule is not None:
        return _by_rule(frame.rule, frame.rho, known.estimate)
    assert frame.mu is not None
    weights = frame.mu[known.pairs]
    return weights if weights.any() else np.ones(weights.size)


def _by_rule(rule: Rule, rho: float, estimate: Estimate) -> FloatArray:
    """Returns the weights that a rule says now; ones while it says that nothing matters yet.

    At rho = 0 a weight of zero would forbid the pair; an estimate may find one by chance.
    """
    weights = estimate.model.per_pair(rule(estimate), "mu")
    if not weights.any():
        return np.ones(weights.size)
    weights = checked_weights(weights, "mu")
    return np.maximum(weights, LEAST_WEIGHT * weights.max()) if rho == 0 else weights
