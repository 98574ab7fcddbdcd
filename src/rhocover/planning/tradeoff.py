"""tradeoff(): how much coverage a return costs, point by point, each with a certificate.

The best coverage subject to a return of at least v is a convex and increasing function of v at rho >= 1; its
slope is the price of the condition. The curve runs from the return that the best coverage has anyway to
just below the best return, where only the optimal policies would remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import Occupancies
from rhocover.planning.conditions import at_least, unit_of, values_per_entry
from rhocover.planning.feasibility import best
from rhocover.planning.planner import plan
from rhocover.planning.result import Plan
from rhocover.printing import printed
from rhocover.progress import progress
from rhocover.showing import Shown

if TYPE_CHECKING:
    from rhocover.arguments import Covered, Start, Values, Weights, Whole

MOST_POINTS = 1_000  # of a curve: each is a plan
SOMETHING = 1e-9  # of the best return's size: a smaller difference of returns is rounding


@dataclass(frozen=True, eq=False)
class Tradeoff(Shown):
    """The best coverage for several least returns: the frontier of coverage against return."""

    plans: tuple[Plan, ...]  # by return, the smallest first; each meets one condition, the return
    best: float  # the largest return of any policy, in the units of `at_least`

    @property
    def mdp(self) -> MDP:
        """The model."""
        return self.plans[0].mdp

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.plans[0].rho

    @property
    def name(self) -> str:
        """The name of the return."""
        return self.plans[0].conditions[0].name

    @property
    def returns(self) -> FloatArray:
        """The return of each plan."""
        return self._numbers(plan.conditions[0].value for plan in self.plans)

    @property
    def divergence(self) -> FloatArray:
        """The divergence of each plan."""
        return self._numbers(plan.divergence for plan in self.plans)

    @property
    def gap(self) -> FloatArray:
        """The certified gap of each plan."""
        return self._numbers(plan.gap for plan in self.plans)

    @property
    def price(self) -> FloatArray:
        """By how much the divergence rises with one more unit of return: the slope of the curve."""
        return self._numbers(plan.conditions[0].price for plan in self.plans)

    @staticmethod
    def _numbers(values: Iterable[float]) -> FloatArray:
        return frozen(np.array(list(values), dtype=float))

    def summary(self) -> dict[str, Any]:
        """Returns the curve as a JSON document."""
        return {
            "model": self.mdp.name or repr(self.mdp),
            "rho": self.rho if np.isfinite(self.rho) else str(self.rho),
            "cover": self.plans[0].cover,
            "best": self.best,
            "returns": self.returns.tolist(),
            "divergence": self.divergence.tolist(),
            "gap": self.gap.tolist(),
            "price": self.price.tolist(),
        }

    @printed
    def __str__(self) -> str:
        lines = [
            f"Coverage of {self.mdp.name or 'the model'} against {self.name} at rho = {self.rho:g}; "
            f"the best {self.name} is {self.best:.6g}.",
            f"  {'return':>12}{'divergence':>14}{'gap':>11}{'price':>11}",
        ]
        rows = zip(self.returns, self.divergence, self.gap, self.price, strict=True)
        return "\n".join([*lines, *(f"  {r:12.6g}{d:14.6f}{g:11.1e}{p:11.4g}" for r, d, g, p in rows)])

    __repr__ = __str__


def tradeoff(
    mdp: MDP,
    rho: float,
    reward: Values,
    mu: Weights | None = None,
    *,
    cover: Covered = "pairs",
    num_points: Whole = 9,
    closest: float = 0.99,
    discount: float | None = None,
    horizon: int | None = None,
    start: Start | None = None,
    restrict: bool = False,
    tol: float | None = None,
) -> Tradeoff:
    """Returns the best coverage for `num_points` least returns: what a return costs in coverage.

    `reward` has one value per pair (`[S, A]` or `[n]`) or per state (`[S]`), or is a function of the model;
    for a budget pass minus the cost. The first point is the best coverage without any condition; the last is
    `closest` of the way from its return to the best one. All other arguments are those of `plan`.

    >>> import rhocover as rc
    >>> river = rc.envs.river_swim()
    >>> curve = rc.tradeoff(river, 2, [[0.005, 0]] + [[0, 0]] * 4 + [[0, 1]], num_points=3)
    >>> curve.divergence.round(4).tolist()
    [0.293, 0.8341, 4.6329]
    """
    count = checks.integer(num_points, "num_points", least=2, most=MOST_POINTS)
    closest = checks.probability(closest, "closest", open_ends=True)
    check_mdp(mdp)
    full = Occupancies.of(mdp, discount=discount, horizon=horizon, start=start)
    lowest = unit_of(full) * float(values_per_entry(full, reward, "reward").min())

    def planned(limit: float) -> Plan:
        return plan(
            mdp, rho, mu, cover=cover, subject_to=at_least(reward, limit, name="return"), discount=discount,
            horizon=horizon, start=start, restrict=restrict, tol=tol,
        )  # fmt: skip

    most = best(mdp, reward, discount=discount, horizon=horizon, start=start)
    plans = [planned(lowest)]  # a condition that always holds
    least = plans[0].conditions[0].value
    if not most - least > SOMETHING * max(abs(most), abs(least)):
        raise InvalidArgumentError.of(
            "reward", "must be larger for some policy than for the best coverage", f"{most:g} for both"
        )
    with progress("planning the trade-off") as told:
        for k in range(1, count):
            plans.append(planned(least + closest * k / (count - 1) * (most - least)))
            told.note(f"point {k + 1} of {count}")
    return Tradeoff(tuple(plans), most)
