"""Functions that make weights mu.

Each returns non-negative weights `[S, A]`; only their proportions matter. Absent pairs have weight 0. Verbs
take those in `NAMED` by name, `mu="transition_std"`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import checked_weights
from rhocover.errors import Call, InvalidArgumentError
from rhocover.mdp import MDP, check_mdp


def uniform(mdp: MDP) -> FloatArray:
    """Returns weight 1 for every pair."""
    return check_mdp(mdp).table(np.ones(mdp.num_pairs))


def target(mdp: MDP, distribution: Any) -> FloatArray:
    """Returns a target distribution over pairs, given as `[S, A]` or `[n]`, divided by its sum."""
    weights = checked_weights(check_mdp(mdp).per_pair(distribution, "distribution"), "distribution")
    weights = weights / weights.max()  # so that the sum of large weights does not overflow
    return mdp.table(weights / weights.sum())


def per_state(mdp: MDP, values: Any) -> FloatArray:
    """Returns weights that divide each state's value `[S]` equally among its actions."""
    check_mdp(mdp)
    values = checked_weights(checks.float_array(values, "values", (mdp.num_states,)), "values")
    num_actions = np.bincount(mdp.pair_state, minlength=mdp.num_states)
    return mdp.table((values / num_actions)[mdp.pair_state])


def mask(mdp: MDP, pairs: Any) -> FloatArray:
    """Returns weight 1 for the marked pairs and 0 for the rest; `pairs` is `[S, A]`, `[S]` or `[n]`.

    A pair of zero weight is not in the objective; a policy may still use it to reach other pairs.
    """
    check_mdp(mdp)
    marks = checks.any_array(pairs, "pairs")
    if marks.dtype != bool:
        raise InvalidArgumentError.of("pairs", "must be a boolean array", f"dtype {marks.dtype}")
    if marks.shape == (mdp.num_states,):
        marks = marks[mdp.pair_state]
    weights = mdp.per_pair(marks.astype(float), "pairs")
    return mdp.table(checked_weights(weights, "pairs"))


def transition_std(mdp: MDP, *, min_weight: float = 0.0) -> FloatArray:
    """Returns sqrt(c), c(s,a) = sum_s' P(1-P): with rho = 2 the paper's model-estimation case.

    U_2 is then -n times the expected squared error of the estimated transitions. Deterministic pairs
    get weight 0, because one visit is enough to know them; `min_weight` keeps them in the objective.
    """
    return _floored(mdp, np.sqrt(_row_sums(mdp, _variance)), min_weight)


def model_error(mdp: MDP, *, min_weight: float = 0.0) -> FloatArray:
    """Returns V^(2/3), V(s,a) = sum_s' sqrt(P(1-P)): with rho = 3/2 the L1 model error.

    This is the asymptotic loss of Tarbouriech et al. (2020), sum V/sqrt(d), up to a factor.
    """
    return _floored(mdp, _row_sums(mdp, lambda p: np.sqrt(_variance(p))) ** (2 / 3), min_weight)


def _variance(p: FloatArray) -> FloatArray:
    """Returns P(1-P); a normalised row may have 1 - 1e-16, which counts as 1."""
    return np.where(p > 1 - 1e-15, 0.0, p * (1 - p))


def _row_sums(mdp: MDP, function: Any) -> FloatArray:
    check_mdp(mdp)
    return np.add.reduceat(function(mdp.transitions.data), mdp.transitions.indptr[:-1])


def _floored(mdp: MDP, weights: FloatArray, min_weight: float) -> FloatArray:
    min_weight = checks.number(min_weight, "min_weight")
    if not 0 <= min_weight < np.inf:
        raise InvalidArgumentError.of("min_weight", "must be in [0, inf)", f"{min_weight:g}")
    weights = np.maximum(weights, min_weight)
    if weights.max() == 0:
        raise InvalidArgumentError(
            "every pair is deterministic, so all weights are zero.",
            argument="mdp",
            remedy=(Call("Pass min_weight=1, or use uniform weights", "Pass --mu uniform"), "."),
        )
    return mdp.table(weights)


NAMED = {"uniform": uniform, "transition_std": transition_std, "model_error": model_error}
