"""What a data set is judged by: over which states, with which weights.

Without a model the states are those that were declared (`declared`), or else those met, each with all
actions; weights by key may name more. With a model they are the model's. A rule says its weights of the
estimate that the data makes, or of the model itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.coverage import checked_weights
from rhocover.data.certainty import estimate_of
from rhocover.data.declared import declared_of, over_all, over_declared
from rhocover.data.known_model import KnownModel, over_model
from rhocover.data.tally import Tally
from rhocover.errors import InvalidArgumentError
from rhocover.learning.rules import evaluated, read_rule, weights_in_the_end
from rhocover.mdp import MDP
from rhocover.structure import average_structure


@dataclass(frozen=True, eq=False)
class Target:
    """A tally over the states that are judged, and their weights `[S, A]`."""

    tally: Tally
    weights: FloatArray
    model: MDP | None = None
    is_rule: bool = False  # whether the weights are those of a rule on an estimate
    num_unlisted: int = 0  # pairs of states that were declared and never met, too many for the tables

    @property
    def unlisted_weight(self) -> float:
        """The weight of all pairs that are not listed; nan where a rule would have to say it."""
        return self.num_unlisted * (math.nan if self.is_rule else 1.0) if self.num_unlisted else 0.0


def read_target(tally: Tally, mu: Any, known: KnownModel | None, *, met_only: bool = False) -> Target:
    """Returns what a tally is judged by; refuses weights and models that do not fit it."""
    if known is not None:
        return Target(over_model(tally, known), frozen(_model_weights(known.mdp, mu)), known.mdp)
    if mu is not None and not isinstance(mu, str) and not callable(mu):
        return _by_key(tally, checked_weights(mu, "mu"))
    tally, num_unlisted = (tally, 0) if met_only else over_declared(tally)
    num_unlisted *= tally.num_actions
    if mu is None:
        return Target(tally, frozen(np.ones(tally.visits.shape)), num_unlisted=num_unlisted)
    estimate = estimate_of(tally)
    weights = estimate.table(evaluated(read_rule(mu), estimate))
    return Target(tally, frozen(weights), is_rule=True, num_unlisted=num_unlisted)


def _model_weights(model: MDP, mu: Any) -> FloatArray:
    if mu is None:  # one for each pair that can be visited for ever: no data could cover others
        return model.table(
            average_structure(model, np.ones(model.num_pairs), restrict=True).kept.astype(float)
        )
    if isinstance(mu, str) or callable(mu):
        return model.table(weights_in_the_end(read_rule(mu), model))
    return model.table(checked_weights(model.per_pair(mu, "mu"), "mu"))


def _by_key(tally: Tally, mu: FloatArray) -> Target:
    """Returns the tally over all states that the weights have a row for."""
    S, A = mu.shape if mu.ndim == 2 else (0, 0)
    declared = declared_of(tally)
    if declared is not None and (tally.num_actions, len(declared.keys)) == (A, S):
        return Target(over_all(tally), frozen(mu.copy()))
    if declared is not None and declared.is_asked:
        raise InvalidArgumentError(
            f"`mu` must have shape ({len(declared.keys)}, {tally.num_actions}), a row for each of the "
            f"`num_states`, got shape {mu.shape}."
        )
    by_number = all(isinstance(key, int) and 0 <= key < S for key in tally.keys)
    if tally.num_actions != A or not (by_number or tally.num_states == S):
        raise InvalidArgumentError(
            f"`mu` must have shape (states, {tally.num_actions}) with a row for every state: {tally.source} "
            f"has {tally.num_states}, {_range(tally)}; got shape {mu.shape}."
        )
    return Target(tally.over(range(S)) if by_number else tally, frozen(mu.copy()))


def _range(tally: Tally) -> str:
    numbers = [key for key in tally.keys if isinstance(key, int)]
    if len(numbers) < len(tally.keys):
        return f"in this order: {checks.name_some(tally.keys, 3)}"
    return f"the largest being {max(numbers)}"
