"""Plan: the result of planning, with its certificate; and when a solver stops.

`divergence - gap` is a lower bound on what any policy can reach. A method is told `StopRules` and returns a
`SolverResult`; how close the plan is that is made of it decides its status, and what is said about it. How a
plan is found is in `planner`.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP
from rhocover.occupancy import Membership
from rhocover.planning.conditions import MetCondition
from rhocover.planning.cover import PAIRS, group_name, unit_name
from rhocover.planning.plan_file import read_plan, write_plan
from rhocover.planning.problem import LONG_RUN, counted_visits
from rhocover.planning.program import Multipliers
from rhocover.printing import count_of, printed
from rhocover.showing import Shown

# The plan.


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


# When a solver stops, what it returns, and what to say if that is not enough.

FRANK_WOLFE = {
    "frank_wolfe": "away",
    "frank_wolfe_line_search": "line_search",
    "frank_wolfe_plain": "plain",
}
METHODS = ("interior_point", *FRANK_WOLFE, "leximin")
DEFAULT_STEPS = {"interior_point": 200, "leximin": 0}
FRANK_WOLFE_STEPS = 20_000
DEFAULT_TOLERANCE = 1e-8
ACCEPTABLE = 1e-6  # without an explicit tol, a plan is returned up to this gap


class SolverProgress(Protocol):
    """What a method reports after a step."""

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def flow(self) -> float: ...  # noqa: D102
    @property
    def gap(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class SolverResult:
    """The result of a solver, before it is checked."""

    d: FloatArray
    lower_bound: float
    multipliers: Multipliers
    steps: int
    is_out_of_steps: bool
    stages: Mapping[str, float] = field(default_factory=dict)


def reporting(note: Callable[[str], None]) -> Callable[[SolverProgress], None]:
    """Returns a function that is called after each step and notes how close the solver is."""
    return lambda state: note(f"step {state.steps}, gap {abs(state.gap):.1e}, flow {state.flow:.1e}")


@dataclass(frozen=True)
class StopRules:
    """The gap to reach, the largest gap to return, and when to give up."""

    tol: float
    acceptable: float
    max_steps: int
    began: float
    deadline: float

    def scaled(self, unit: float) -> StopRules:
        """Returns the limits with both tolerances in this unit, at least 1e-12: float64 allows no less."""
        least = min(self.tol, 1e-12)
        return replace(self, tol=max(self.tol * unit, least), acceptable=max(self.acceptable * unit, least))

    @property
    def is_out_of_time(self) -> bool:
        """Whether the time limit has passed."""
        return time.perf_counter() >= self.deadline


def read_limits(method: str, tol: Any, max_steps: Any, time_limit: Any) -> StopRules:
    """Returns the limits that the arguments of `plan` describe; the clock starts now."""
    began, deadline = time.perf_counter(), np.inf
    if time_limit is not None:
        deadline = began + _positive(time_limit, "time_limit")
    acceptable = ACCEPTABLE if tol is None else _positive(tol, "tol")
    aim = DEFAULT_TOLERANCE if tol is None else acceptable
    return StopRules(aim, acceptable, step_limit(method, max_steps), began, deadline)


def _positive(value: Any, name: str) -> float:
    value = checks.number(value, name)
    if not value > 0:
        raise InvalidArgumentError.of(name, "must be positive", f"{value:g}")
    return value


def step_limit(method: str, max_steps: Any) -> int:
    """Returns the largest number of steps; None is the usual one of the method."""
    if max_steps is None:
        return DEFAULT_STEPS.get(method, FRANK_WOLFE_STEPS)
    return checks.integer(max_steps, "max_steps", least=1)


def status_of(gap: float, found: SolverResult, limits: StopRules) -> PlanStatus:
    """Returns how planning ended."""
    if gap <= limits.tol:
        return PlanStatus.SOLVED
    if gap <= limits.acceptable:
        return PlanStatus.NEARLY
    if limits.is_out_of_time:
        return PlanStatus.OUT_OF_TIME
    return PlanStatus.OUT_OF_STEPS if found.is_out_of_steps else PlanStatus.STALLED


def explain_missed(result: Plan, limits: StopRules) -> str:
    """Returns the message for a plan that missed its tolerance: the gap, and what to do."""
    accept = f"pass tol={_above(result.gap)} to accept it" if np.isfinite(result.gap) else "it proves nothing"
    remedy = {
        PlanStatus.OUT_OF_STEPS: f"Allow more than max_steps={result.steps}, or {accept}.",
        PlanStatus.OUT_OF_TIME: f"Allow a longer time_limit, or {accept}.",
        PlanStatus.STALLED: f"Here {accept}; the docstring of `plan` lists causes.",
    }
    return (
        f"tol={limits.acceptable:g} was not reached at rho={result.rho:g}: {result.status.value}. "
        f"Reached: gap {result.gap:.2g}, flow residual {result.residuals.flow:.2g} after {result.steps} "
        f"steps of {result.method}. {remedy.get(result.status, '')} throw=False returns this plan."
    )


def describe_nearly(result: Plan, limits: StopRules) -> str:
    """Returns the warning about a plan whose gap is larger than usual."""
    return (
        f"the certified gap at rho={result.rho:g} is {result.gap:.2g}, above the usual {limits.tol:g}. "
        f"The plan is right to that gap; pass tol={_above(result.gap)} to accept it without this warning."
    )


def _above(gap: float) -> str:
    """Returns the next number of one digit above a gap, as one would type it."""
    digits = 10.0 ** np.floor(np.log10(max(gap, 1e-300)))
    return f"{np.ceil(1.0001 * gap / digits) * digits:.0e}"
