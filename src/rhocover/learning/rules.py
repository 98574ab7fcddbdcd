"""Weights that are learned: mu as a rule that is evaluated again for each new estimate of the model.

The right weights may depend on the dynamics. The error of an estimated row is larger where the next state is
more uncertain, and this uncertainty is learned during the run:

- `StdRule`: sqrt(c), c(s,a) = sum_s' P(1-P). With rho = 2 the objective is the squared error of the model.
- `ErrorRule`: V^(2/3), V(s,a) = sum_s' sqrt(P(1-P)). With rho = 3/2 it is its L1 error.

After few visits a pair may look deterministic by chance, and with a weight of zero it would never be visited
again. So a bonus sqrt(2 log(1/delta)/(N-1)) is added to sqrt(c) and to V, the form that Maurer and Pontil
(2009) prove for the standard deviation of one number. For rows with more than two outcomes it is an upper
confidence bound of sqrt(c) only as N grows, and for V it is not a proven bound; its purpose is to keep every
pair in the plan until its N is large. `upper=False` leaves it out, and then a pair that was tried once is
never tried again.

Your own rule can be any function of an `Estimate` that returns non-negative weights `[n]` or `[S, A]`; it can
use the counts, the visits and the estimated model. Only the proportions of weights matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks, weights
from rhocover.checks import FloatArray
from rhocover.coverage import checked_weights
from rhocover.documents import Family, from_document
from rhocover.errors import InvalidArgumentError, parse_text, unknown_name
from rhocover.learning.estimate import Estimate, exact_estimate, settled_estimate
from rhocover.mdp import MDP

Rule = Callable[[Estimate], Any]


@dataclass(frozen=True)
class UniformRule:
    """Weight 1 for every pair."""

    def __call__(self, estimate: Estimate) -> FloatArray:
        """Returns ones `[n]`."""
        return np.ones(estimate.num_pairs)


@dataclass(frozen=True)
class _WithBonus:
    """A rule with a bonus at level `delta` that decreases with the visits; `upper=False` leaves it out."""

    upper: bool = True
    delta: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))
        object.__setattr__(self, "upper", bool(self.upper))


@dataclass(frozen=True)
class StdRule(_WithBonus):
    """sqrt(c), c = sum_s' P(1-P), with a bonus that decreases with the visits unless `upper=False`."""

    def __call__(self, estimate: Estimate) -> FloatArray:
        """Returns weights `[n]`."""
        spread = np.sqrt(_row_sums(estimate, lambda p: p * (1 - p)))
        return spread + self.upper * bonus(estimate, self.delta)


@dataclass(frozen=True)
class ErrorRule(_WithBonus):
    """V^(2/3), V = sum_s' sqrt(P(1-P)), with a bonus on V that falls with the visits unless `upper=False`."""

    def __call__(self, estimate: Estimate) -> FloatArray:
        """Returns weights `[n]`."""
        spread = _row_sums(estimate, lambda p: np.sqrt(p * (1 - p)))
        return (spread + self.upper * bonus(estimate, self.delta)) ** (2 / 3)


RULES: dict[str, type] = {"uniform": UniformRule, "transition_std": StdRule, "model_error": ErrorRule}
RULE = Family("a rule", RULES)


def bonus(estimate: Estimate, delta: float) -> FloatArray:
    """Returns sqrt(2 log(1/delta)/(N-1)), at most 1, `[n]`."""
    visits = np.asarray(estimate.visits, float)
    return np.minimum(1.0, np.sqrt(2 * np.log(1 / delta) / np.maximum(visits - 1, 1.0)))


def _row_sums(estimate: Estimate, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Returns the sum of a function of N/N_i over each row; 0 for a pair without visits."""
    counts, visits = estimate.counts, np.asarray(estimate.counts.sum(axis=1), float).ravel()
    share = counts.data / np.repeat(np.maximum(visits, 1e-300), np.diff(counts.indptr))
    share = np.where(share > 1 - 1e-15, 1.0, share)
    pair = np.repeat(np.arange(visits.size), np.diff(counts.indptr))
    return np.bincount(pair, weights=function(share), minlength=visits.size).astype(float)


def evaluated(rule: Rule, estimate: Estimate) -> FloatArray:
    """Returns the weights of a rule, checked, `[n]`."""
    weights = estimate.model.per_pair(rule(estimate), "mu")
    if not weights.any():
        raise InvalidArgumentError.of(
            "mu",
            ": the rule gives every pair of this model weight 0, because nothing in it is uncertain",
            remedy=parse_text("Use uniform weights: leave `mu` out."),
        )
    return checked_weights(weights, "mu")


def final_weights(rule: Rule, mdp: MDP) -> FloatArray:
    """Returns the weights to which a rule converges in this model, `[n]`: a run is evaluated with them.

    Rules of this library are evaluated with infinitely many visits. Your own rule may not expect that, so it
    is evaluated as if each pair had a billion visits, distributed by the true probabilities.
    """
    return evaluated(rule, exact_estimate(mdp) if type(rule) in RULES.values() else settled_estimate(mdp))


def read_rule(mu: Any) -> Rule:
    """Returns the rule of that name, or the function itself."""
    if isinstance(mu, str):
        if mu not in RULES:
            raise unknown_name(parse_text("rule for `mu`"), mu, tuple(RULES), argument="mu")
        return RULES[mu]()
    named = [name for name, function in weights.NAMED.items() if function is mu]
    if named:
        return RULES[named[0]]()
    if isinstance(mu, type) or not callable(mu):
        raise InvalidArgumentError.of(
            "mu",
            f"must be weights, a rule's name ({', '.join(RULES)}) or a function of an Estimate",
            repr(mu),
        )
    return checks.one_argument(mu, "mu", "an Estimate (its counts, visits and model)")


def rule_document(rule: Rule) -> Any:
    """Returns a rule as a document; for your own rule its name and a digest of its code."""
    if type(rule) in RULES.values():
        return RULE.write(rule)
    return f"{getattr(rule, '__name__', type(rule).__name__)} {_print_of(rule)}".strip()


def _print_of(rule: Any) -> str:
    """Returns a short digest of a function's code, to notice another function of the same name."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return ""
    held = [cell.cell_contents for cell in rule.__closure__ or ()]
    plain = [value for value in (*held, *(rule.__defaults__ or ())) if isinstance(value, int | float | str)]
    constants = [value for value in code.co_consts if not hasattr(value, "co_code")]
    text = f"{code.co_code.hex()} {code.co_names} {constants} {plain}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def rule_from_document(document: Any) -> Rule:
    """Returns the rule that a document describes."""
    return from_document(RULE, document, "the rule")
