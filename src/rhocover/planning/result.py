"""What planning returns: one frozen value, whatever happened, with its certificate."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.files import save_tensors
from rhocover.mdp import MDP
from rhocover.occupancy import Membership
from rhocover.printing import printed


class PlanStatus(enum.Enum):
    """How planning ended."""

    SOLVED = "the certified gap is within the tolerance"
    NEARLY = "the certified gap is above the usual tolerance and at most 1e-6"
    OUT_OF_TIME = "the time limit was reached before the tolerance"
    OUT_OF_STEPS = "the step limit was reached before the tolerance"
    STALLED = "no further progress is possible in float64"


@dataclass(frozen=True, eq=False)
class Plan:
    """An occupancy close to the best coverage, and the proof of how close.

    `divergence - gap` is a lower bound on what any policy can reach: no occupancy of the set has a
    divergence below it, rounding included. Tables have the shape of the occupancy set, `[S, A]` or
    `[H, S, A]`; pairs that were dropped hold zero.
    """

    mdp: MDP
    coverage: Coverage  # rho, and the weights of the pairs that were planned for
    weights: FloatArray  # as a table; zero where a pair was dropped
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
    seconds: float
    stages: Mapping[str, float]  # seconds in each stage of the linear algebra, where there is one
    restriction: str  # what was dropped and how much weight it carried; "" if nothing

    @property
    def rho(self) -> float:
        """The order that was planned for."""
        return self.coverage.rho

    @property
    def is_good(self) -> bool:
        """Whether the plan is within its tolerance, or near enough to be handed over without one."""
        return self.status in (PlanStatus.SOLVED, PlanStatus.NEARLY)

    @property
    def ratio(self) -> FloatArray:
        """mubar/d of each pair as a table: 1 is its due, 2 is half of it; 0 where there is no weight."""
        weight = self.weights / self.weights.max()  # so that the sum cannot overflow
        weight = weight / weight.sum()
        seen = np.where(self.occupancy > 0, self.occupancy, 1.0)
        return np.where(weight > 0, np.where(self.occupancy > 0, weight / seen, np.inf), 0.0)

    @property
    def lower_bound(self) -> float:
        """What no occupancy of the set can fall below."""
        return self.divergence - self.gap

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the plan, ready for JSON (infinities as text)."""
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
        }

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes occupancy, policy, potential and the numbers to one file (see `rhocover.files`)."""
        tensors = {
            "weights": self.weights,
            "occupancy": self.occupancy,
            "policy": self.policy,
            "potential": self.potential,
        }
        save_tensors(path, "plan", tensors, self.summary(), overwrite=overwrite)

    @printed
    def __str__(self) -> str:
        text = (
            f"Plan for {self.mdp.name or 'the model'} at rho = {self.rho:g}: {self.status.value}.\n"
            f"  divergence  {self.divergence:.9g}  (at most {self.gap:.1e} above the best possible)\n"
            f"  worst ratio {self.worst_ratio:.6g}  (the worst pair falls short by this factor)\n"
            f"  {self.steps} steps of {self.method} in {self.seconds:.3g} s"
        )
        return f"{text}\n  {self.restriction}" if self.restriction else text

    __repr__ = __str__
