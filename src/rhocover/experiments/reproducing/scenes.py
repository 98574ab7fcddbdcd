"""Where the paper's statements are put to the test: three models, weights, and one occupancy.

Weights are 1, 2, 3 in turn over the pairs, so that M = sum mu is not 1 and a lost factor M shows. The
occupancy is that of the uniform policy: positive everywhere, and no optimum of anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rhocover import envs
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.experiments.reproducing.reproduction import Row, exactly
from rhocover.experiments.rows import Estimate
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import Plan, plan

ROUNDING = 1e-12  # relative: sums of some hundred terms, each with a few roundings of 1e-16
CHANCE = 1 / 16_000  # how often a statement about runs may fail by chance: four standard errors of many runs
TOLERANCE = 1e-10  # of plans
PROGRAM = 1e-8  # relative: what linear programs are checked to

SCENES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "RiverSwim(6)": ("river_swim", {}),
    "Wheel(5)": ("wheel", {}),
    "Garnet(20, 3, 4)": ("garnet", {"num_states": 20, "num_actions": 3, "num_successors": 4}),
}


@dataclass(frozen=True, eq=False)
class Scene:
    """A model by name, its weights and an occupancy, per pair."""

    title: str
    env: str
    parameters: Mapping[str, Any]

    @cached_property
    def mdp(self) -> MDP:
        """The model."""
        return envs.make(self.env, **self.parameters)

    @cached_property
    def mu(self) -> FloatArray:
        """1, 2, 3, 1, 2, 3, ... `[n]`."""
        return 1.0 + (np.arange(self.mdp.num_pairs) % 3).astype(np.float64)

    @property
    def mass(self) -> float:
        """M, the sum of the weights."""
        return float(self.mu.sum())

    @property
    def mu_bar(self) -> FloatArray:
        """The weights divided by their sum."""
        return self.mu / self.mass

    @cached_property
    def members(self) -> Occupancies:
        """All occupancies."""
        return Occupancies.average(self.mdp)

    @cached_property
    def d(self) -> FloatArray:
        """The long-run visits of the uniform policy `[n]`."""
        share = 1 / np.bincount(self.mdp.pair_state)
        return self.members.from_policy(share[self.mdp.pair_state])

    def coverage(self, rho: float) -> Coverage:
        """Returns the objective of that order."""
        return Coverage(rho, self.mu)

    def best(self, rho: float, method: str = "interior_point") -> Plan:
        """Returns the best plan of that order."""
        tol = TOLERANCE if method == "interior_point" else 1e-6
        return plan(self.mdp, rho, self.mdp.table(self.mu), tol=tol, method=method)

    def per_pair(self, best: Plan) -> FloatArray:
        """Returns a plan's occupancy `[n]`."""
        return self.mdp.per_pair(best.occupancy, "occupancy")

    def identity(self, label: str, left: float, right: float, *, note: str = "") -> Row:
        """Returns the row of left = right, up to rounding."""
        return self.near(label, left, right, ROUNDING * max(1.0, abs(right)), relation="=", note=note)

    def near(
        self, label: str, left: float, right: float, allowed: float, *, relation: str = "->", note: str = ""
    ) -> Row:
        """Returns the row of a left side that is within `allowed` of the right one, which is its limit."""
        ours, right = exactly(left), float(right)
        return Row(self.title, label, ours, right, relation=relation, allowed=float(allowed), note=note)

    def at_most(
        self, label: str, left: float | Estimate, right: float, *, allowed: float | None = 0.0, note: str = ""
    ) -> Row:
        """Returns the row of left <= right."""
        ours = left if isinstance(left, Estimate) else exactly(left)
        return Row(self.title, label, ours, float(right), relation="<=", allowed=allowed, note=note)


def scenes() -> list[Scene]:
    """Returns the scenes, made anew."""
    return [Scene(title, *found) for title, found in SCENES.items()]
