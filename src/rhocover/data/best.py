"""The best achievable beside a data set: on the model that is given, or on the one that the data shows.

It may be about fewer pairs than the data is judged by: what was never tried is no part of a model that was
observed, and what cannot be visited for ever has no best. Comparisons are over the pairs that it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.data.observed import observed_model
from rhocover.data.targets import Target
from rhocover.errors import InvalidDataError
from rhocover.mdp import MDP
from rhocover.planning import Plan, plan

LARGEST_PLAN = (
    200_000  # pairs up to which the best is planned unasked: more takes longer than reading the data
)


@dataclass(frozen=True, eq=False)
class Best:
    """A plan, what it visits `[S*A]`, the weights it is about `[S*A]`, and what is left out, in words."""

    plan: Plan | None  # None where there is none
    occupancy: FloatArray | None
    coverage: Coverage | None
    note: str

    @property
    def worst_ratio(self) -> float:
        """The worst ratio of the plan; nan where there is none."""
        return math.nan if self.plan is None else self.plan.worst_ratio

    def gap(self, d_hat: FloatArray) -> float:
        """Returns how much more divergence visits have than the best, over its pairs; nan without one."""
        if self.plan is None or self.coverage is None:
            return math.nan
        return self.coverage.divergence(d_hat) - self.plan.divergence

    def shares(self, mu_bar: FloatArray) -> FloatArray:
        """Returns what the best gives each pair, as a share of its due; nan where that is not known."""
        if self.occupancy is None:
            return np.full(mu_bar.size, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.occupancy > 0, self.occupancy / mu_bar, np.nan)


def find_best(target: Target, coverage: Coverage, wanted: bool | None) -> Best:
    """Returns the best for these weights `[S*A]`; `wanted=None` leaves very large models out."""
    tally, model = target.tally, target.model
    num_pairs = int(np.count_nonzero(tally.visits)) if model is None else model.num_pairs
    if wanted is False:
        return _none("")
    if wanted is None and num_pairs > LARGEST_PLAN:
        return _none(f"{num_pairs} pairs are many, so no best was planned: pass best=True.")
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
        return _none(f"{note} No pair with a weight can be visited for ever in what was seen.".strip())
    found = plan(mdp, coverage.rho, coverage.mu[rows], restrict=True, throw=False)
    occupancy, weights = np.zeros(coverage.mu.size), np.zeros(coverage.mu.size)
    occupancy[rows] = mdp.per_pair(found.occupancy, "occupancy")
    weights[rows] = mdp.per_pair(found.weights, "weights")
    about = Coverage(coverage.rho, weights)
    return Best(found, frozen(occupancy), about, f"{note} {found.restriction}".strip())
