"""When a solver stops, what it returns, and what to say if that is not enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.planning.program import Multipliers
from rhocover.planning.result import Plan, PlanStatus

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
