"""Plan: the result of planning, with its certificate.

`divergence - gap` is a lower bound on what any policy can reach. How a plan is found is in `planner`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.mdp import MDP
from rhocover.occupancy import Membership
from rhocover.planning.conditions import MetCondition
from rhocover.planning.cover import PAIRS, group_name, unit_name
from rhocover.planning.plan_file import read_plan, write_plan
from rhocover.planning.problem import LONG_RUN, counted_visits
from rhocover.printing import count_of, printed
from rhocover.showing import Shown


class PlanStatus(enum.Enum):
    """How planning ended."""

    SOLVED = "the certified gap is within the tolerance"
    NEARLY = "the certified gap is above the usual tolerance and at most 1e-6"
    OUT_OF_TIME = "the time limit was reached before the tolerance"
    OUT_OF_STEPS = "the step limit was reached before the tolerance"
    STALLED = "no further progress is possible in float64"


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """An occupancy close to the best coverage, and the proof of how close.

    `divergence - gap` is a lower bound on what any policy can reach: no occupancy of the set has a
    divergence below it, rounding included. Tables have the shape of the occupancy set, `[S, A]` or
    `[H, S, A]`; pairs that were dropped hold zero.
    """

    mdp: MDP
    coverage: Coverage  # rho, and the weights of the pairs that were planned for
    weights: FloatArray  # of the pairs as a table, or of the groups `[G]`; zero where one was dropped
    occupancy: FloatArray
    policy: FloatArray
    divergence: float  # D_rho(mubar || d); KL(d || mubar) at rho = 0
    gap: float  # certified: divergence - gap <= the smallest divergence possible
    worst_ratio: float  # max mubar/d
    value: float  # U_rho as the paper has it
    potential: FloatArray  # dual potential of each state `[S]` or `[H, S]`, nan where dropped
    residuals: Membership  # how exactly the occupancy satisfies the equations
    status: PlanStatus
    method: str
    steps: int
    seconds: float  # with the time that compiling took, on first use
    stages: Mapping[str, float]  # seconds in each stage of the linear algebra, where there is one
    restriction: str  # what was dropped and how much weight it carried; "" if nothing
    discount: float | None = None  # of the visits; None for long-run visits and for episodes
    cover: str = PAIRS  # what is covered: "pairs", "states", "transitions", "visits", "labels" or "matrix"
    conditions: tuple[MetCondition, ...] = ()
    group_shares: FloatArray | None = None  # of the visits, like `weights`; None for pairs

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.coverage.rho

    @property
    def is_good(self) -> bool:
        """Whether the plan is within its tolerance, or within 1e-6 if no tolerance was given."""
        return self.status in (PlanStatus.SOLVED, PlanStatus.NEARLY)

    @property
    def shares(self) -> FloatArray:
        """The share of the visits of each pair (the occupancy) or of each group, like `weights`."""
        return self.occupancy if self.group_shares is None else self.group_shares

    @property
    def ratio(self) -> FloatArray:
        """mubar/d of each pair or group, like `weights`: 1 is its target share, 2 is half."""
        weight = self.weights / self.weights.max()  # so that the sum cannot overflow
        weight = weight / weight.sum()
        seen = np.where(self.shares > 0, self.shares, 1.0)
        return np.where(weight > 0, np.where(self.shares > 0, weight / seen, np.inf), 0.0)

    @property
    def lower_bound(self) -> float:
        """A lower bound on the divergence of every occupancy of the set."""
        return self.divergence - self.gap

    def group_name(self, group: int) -> str:
        """Returns the name of a group that is covered, by its place in `shares.ravel()`."""
        if self.cover != PAIRS:
            return group_name(self.mdp, self.cover, group)
        *step, state, action = (int(k) for k in np.unravel_index(group, self.shares.shape))
        s = self.mdp.state_labels[state] if self.mdp.state_labels else state
        a = self.mdp.action_labels[action] if self.mdp.action_labels else action
        return f"({s}, {a})" + (f" at step {step[0]}" if step else "")

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the plan as a JSON document (infinities as text)."""
        numbers = {
            "rho": self.rho,
            "divergence": self.divergence,
            "gap": self.gap,
            "worst_ratio": self.worst_ratio,
            "value": self.value,
        }
        return {
            "model": self.mdp.name or repr(self.mdp),
            "fingerprint": self.mdp.fingerprint,
            **{key: value if np.isfinite(value) else str(value) for key, value in numbers.items()},
            "status": self.status.name.lower(),
            "method": self.method,
            "steps": self.steps,
            "seconds": self.seconds,
            "flow_residual": self.residuals.flow,
            "restriction": self.restriction,
            **({} if self.cover == PAIRS else {"cover": self.cover, "least_covered": self._least_covered}),
            **({"conditions": [one.summary() for one in self.conditions]} if self.conditions else {}),
        }

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes the plan and its model to one file (see `rhocover.files`); `Plan.load` reads it."""
        write_plan(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str) -> Plan:
        """Returns the plan that `save` or `rhocover plan --out` wrote, every field as it was.

        >>> import rhocover as rc
        >>> import tempfile
        >>> file = f"{tempfile.mkdtemp()}/plan.safetensors"
        >>> best = rc.plan(rc.envs.river_swim())
        >>> best.save(file)
        >>> bool((rc.Plan.load(file).policy == best.policy).all())
        True
        """
        return cls(**read_plan(path, PlanStatus.__members__))

    @printed
    def __str__(self) -> str:
        text = (
            f"Plan for {self.mdp.name or 'the model'} at rho = {self.rho:g}{self._criterion}: "
            f"{self.status.value}.\n"
            f"  divergence  {self.divergence:.9g}  (at most {self.gap:.1e} above the best possible)\n"
            f"  worst ratio {self.worst_ratio:.6g}  "
            f"(the worst {self.unit} has too few visits by this factor)\n"
            f"  {count_of(self.steps, 'step')} of {self.method} in {self.seconds:.3g} s, compiling included"
        )
        notes = [*self._groups, *map(str, self.conditions), *([self.restriction] if self.restriction else [])]
        return "\n  ".join([text, *notes])

    @property
    def unit(self) -> str:
        """What is covered, in the singular: "pair", "state", "transition" or "group"."""
        return unit_name(self.cover)

    @property
    def _groups(self) -> list[str]:
        """A sentence about what is covered; none for pairs."""
        if self.cover == PAIRS:
            return []
        number = count_of(int((self.weights > 0).sum()), self.unit)
        return [f"covers {number}; the least covered is {self._least_covered}"]

    @property
    def _least_covered(self) -> str:
        return self.group_name(int(np.argmax(self.ratio)))

    @property
    def horizon(self) -> int | None:
        """The number of steps of an episode; None for long-run and discounted visits."""
        return len(self.occupancy) if self.occupancy.ndim == 3 else None

    @property
    def _criterion(self) -> str:
        visits = counted_visits(self.discount, self.horizon)
        return "" if visits == LONG_RUN else f", {visits}"

    __repr__ = __str__


def missed_plans(plans: Iterable[Plan]) -> list[Plan]:
    """Returns the plans that missed their tolerance, the one with the largest gap first."""
    return sorted((plan for plan in plans if not plan.is_good), key=lambda plan: plan.gap, reverse=True)
