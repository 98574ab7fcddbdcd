"""plan(): computes the best coverage that a model allows, with a certificate."""

from __future__ import annotations

import enum
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import (
    GapWarning,
    InvalidArgumentError,
    NotConvergedError,
    RhocoverError,
    Setting,
    parse_text,
    unknown_name,
)
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP
from rhocover.occupancy import Membership, Occupancies
from rhocover.planning.interior_point import interior_point
from rhocover.planning.plan_file import read_plan, write_plan
from rhocover.planning.problem import (
    LONG_RUN,
    Criterion,
    Objective,
    PlanningProblem,
    counted_visits,
    leximin_multipliers,
)
from rhocover.planning.program import Multipliers, dual_bound, rounding_of_point, slack_of_point
from rhocover.printing import count_of, printed
from rhocover.progress import progress
from rhocover.showing import Shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rhocover.arguments import Method, Start, Weights

# The result of planning.


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
    seconds: float  # with the time that compiling took, on first use
    stages: Mapping[str, float]  # seconds in each stage of the linear algebra, where there is one
    restriction: str  # what was dropped and how much weight it carried; "" if nothing
    discount: float | None = None  # of the visits; None for long-run visits and for episodes

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.coverage.rho

    @property
    def is_good(self) -> bool:
        """Whether the plan is within its tolerance, or within 1e-6 if no tolerance was given."""
        return self.status in (PlanStatus.SOLVED, PlanStatus.NEARLY)

    @property
    def ratio(self) -> FloatArray:
        """mubar/d of each pair as a table: 1 is its target share, 2 is half of it; 0 without weight."""
        weight = self.weights / self.weights.max()  # so that the sum cannot overflow
        weight = weight / weight.sum()
        seen = np.where(self.occupancy > 0, self.occupancy, 1.0)
        return np.where(weight > 0, np.where(self.occupancy > 0, weight / seen, np.inf), 0.0)

    @property
    def lower_bound(self) -> float:
        """A lower bound on the divergence of every occupancy of the set."""
        return self.divergence - self.gap

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
            f"  worst ratio {self.worst_ratio:.6g}  (the worst pair has too few visits by this factor)\n"
            f"  {count_of(self.steps, 'step')} of {self.method} in {self.seconds:.3g} s, compiling included"
        )
        return f"{text}\n  {self.restriction}" if self.restriction else text

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


# Planning.

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
AIM = 0.5  # of tol: the solver aims below it, because the check afterwards adds rounding
LARGEST_WARM = 1e6  # a larger potential is not from a plan of this model
MEMBERSHIP_TOLERANCE = 1e-9
EVALUATED_STATES = 100_000  # up to this size, evaluating the policy is faster than planning
FLOW_ROUNDING = 1e-13  # of a row, relative to the flow through it


@dataclass(frozen=True, eq=False)
class _Found:
    """The result of a solver, before it is checked."""

    d: FloatArray
    lower_bound: float
    multipliers: Multipliers
    steps: int
    is_out_of_steps: bool
    stages: Mapping[str, float] = field(default_factory=dict)


def plan(
    mdp: MDP,
    rho: float = 2.0,
    mu: Weights | None = None,
    *,
    discount: float | None = None,
    horizon: int | None = None,
    start: Start | None = None,
    eta: float = 0.0,
    restrict: bool = False,
    method: Method = "interior_point",
    tol: float | None = None,
    max_steps: int | None = None,
    time_limit: float | None = None,
    throw: bool = True,
    warm: ArrayLike | None = None,
) -> Plan:
    """Returns the occupancy and policy with the best coverage, with a certified gap.

    `rho` in [0, inf] says how much the worst pair counts: 0 is maximum entropy, 1 matches mu in
    relative entropy, 2 is average relative coverage, inf the worst case. `mu` are weights `[S, A]` (per
    pair, or `[H, S, A]` with a horizon); None is uniform; a pair of weight zero is not in the objective.

    Occupancies are long-run frequencies; with `discount` or `horizon` those of runs from `start`. With a
    horizon each step is covered separately: weights `[S, A]` are repeated for every step that can reach
    the pair.
    `eta` requires at least 2 eta for every pair. Pairs that cannot be visited again and again are refused, or
    dropped and reported with `restrict=True`. `method="leximin"` at rho = inf picks, among the
    minimax optima, the limit of the optima for growing rho. `warm` is the `potential` of a plan for a similar
    model; without restarts and floor the interior point then needs fewer steps.

    The occupancy is computed from the policy itself, and the gap is that of this occupancy. If an explicit
    `tol` is not reached, `NotConvergedError` is raised (below rho = 1 the tolerance is `tol * rho`, because
    D_rho is of that order there). Without `tol` the aim is 1e-8; with a gap above it, up to 1e-6, the plan is
    returned with a `GapWarning`, and only a larger one raises. `throw=False` returns the plan in any case.
    `time_limit` in seconds is checked after each step; the best plan found until then is used.
    Causes of a large gap and remedies: exact ties among the weights at rho = inf (use a large finite
    rho), a floor almost as large as possible (lower eta), too few steps for a Frank-Wolfe method (raise
    max_steps).

    >>> import rhocover as rc
    >>> best = rc.plan(rc.envs.river_swim(), rho=2)
    >>> round(best.divergence, 6), best.gap < 1e-8
    (0.293001, True)
    """
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", method, METHODS)
    limits = _read_limits(method, tol, max_steps, time_limit)
    criterion = Criterion(discount, horizon, start, restrict)
    problem = PlanningProblem.read(mdp, Objective(rho, mu), criterion, eta)
    limits, result = _planned(problem, method, limits, warm)
    if result.status is PlanStatus.NEARLY and throw:
        warnings.warn(_describe_nearly(result, limits), GapWarning, stacklevel=2)
    if throw and not result.is_good:
        raise NotConvergedError(_explain(result, limits), result)
    return result


def plan_problem(problem: PlanningProblem, tol: float, warm: FloatArray | None = None) -> Plan:
    """Returns the plan of a problem that was read before, whatever its gap."""
    method = METHODS[0]
    return _planned(problem, method, _read_limits(method, tol, None, None), warm)[1]


def _planned(problem: PlanningProblem, method: str, limits: _Limits, warm: Any) -> tuple[_Limits, Plan]:
    """Returns the limits that hold for the problem, and the plan that was reached within them."""
    # D_rho is near rho KL(d || mu) for small rho, so the tolerance shrinks with it.
    limits = limits.scaled(min(1.0, problem.program.rho or 1.0))
    nu = _read_warm(problem, warm)
    result = _checked(problem, _solve(problem, method, limits, nu), method, limits)
    if nu is not None and not result.is_good:  # the warm start may be the cause
        result = _checked(problem, _solve(problem, method, limits, None), method, limits)
    return limits, result


@dataclass(frozen=True)
class _Limits:
    """The gap to reach, the largest gap to return, and when to give up."""

    tol: float
    acceptable: float
    max_steps: int
    began: float
    deadline: float

    def scaled(self, unit: float) -> _Limits:
        """Returns the limits with both tolerances in this unit, at least 1e-12: float64 allows no less."""
        least = min(self.tol, 1e-12)
        return replace(self, tol=max(self.tol * unit, least), acceptable=max(self.acceptable * unit, least))

    @property
    def is_out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline


def _read_limits(method: str, tol: Any, max_steps: Any, time_limit: Any) -> _Limits:
    began, deadline = time.perf_counter(), np.inf
    if time_limit is not None:
        deadline = began + _positive(time_limit, "time_limit")
    acceptable = ACCEPTABLE if tol is None else _positive(tol, "tol")
    aim = DEFAULT_TOLERANCE if tol is None else acceptable
    return _Limits(aim, acceptable, _step_limit(method, max_steps), began, deadline)


def _positive(value: Any, name: str) -> float:
    value = checks.number(value, name)
    if not value > 0:
        raise InvalidArgumentError.of(name, "must be positive", f"{value:g}")
    return value


def _step_limit(method: str, max_steps: Any) -> int:
    if max_steps is None:
        return DEFAULT_STEPS.get(method, FRANK_WOLFE_STEPS)
    return checks.integer(max_steps, "max_steps", least=1)


def _read_warm(problem: PlanningProblem, warm: Any) -> FloatArray | None:
    """Returns a potential as multipliers of the flow rows, without the last; None if there is none."""
    if warm is None or problem.members.criterion != "average":
        return None
    potential = checks.any_array(warm, "warm")
    checks.check_shape(potential.shape, "warm", (problem.mdp.num_states,))
    nu = potential[problem.states]
    if potential.dtype.kind not in "fiu" or not np.isfinite(nu).all():
        raise InvalidArgumentError.of("warm", "must be finite: pass the potential of a plan, or leave it out")
    nu = problem.rows.multipliers(nu.astype(float))
    return nu if float(np.abs(nu).max(initial=0.0)) <= LARGEST_WARM else None


def _solve(problem: PlanningProblem, method: str, limits: _Limits, warm: FloatArray | None) -> _Found:
    if method == "leximin":
        return _solve_leximin(problem)
    with progress(f"planning rho = {problem.program.rho:g}") as told:
        report = _reporting(told.note)
        if method in FRANK_WOLFE:
            return _solve_frank_wolfe(problem, FRANK_WOLFE[method], limits, report)
        with one_blas_thread():
            end = interior_point(
                problem.program, tol=AIM * limits.tol, max_steps=limits.max_steps, report=report, warm=warm,
                deadline=limits.deadline,
            )  # fmt: skip
    is_out = end.taken >= limits.max_steps
    return _Found(end.d, end.lower_bound, end.multipliers, end.taken, is_out, end.stages)


def _reporting(note: Callable[[str], None]) -> Callable[[SolverProgress], None]:
    """Returns a function that is called after each step and notes how close the solver is."""
    return lambda state: note(f"step {state.steps}, gap {abs(state.gap):.1e}, flow {state.flow:.1e}")


def _solve_frank_wolfe(problem: PlanningProblem, variant: str, limits: _Limits, report: Any) -> _Found:
    from rhocover.planning.frank_wolfe import frank_wolfe

    end = frank_wolfe(
        problem.members, problem.program.coverage, variant=variant, tol=limits.tol,
        max_steps=limits.max_steps, report=report, deadline=limits.deadline,
    )  # fmt: skip
    nowhere = Multipliers(np.zeros(problem.program.K.shape[0]), 0.0)
    return _Found(end.d, end.lower_bound, nowhere, end.steps, end.steps >= limits.max_steps)


def _solve_leximin(problem: PlanningProblem) -> _Found:
    from rhocover.planning.interior_point import leximin

    if problem.program.rho != np.inf:
        text = f"`method='leximin'` is for rho=inf only, got rho={problem.program.rho:g}."
        remedy = ("Pass ", Setting("rho", "math.inf", "inf"), ".")
        raise InvalidArgumentError(parse_text(text), argument="method", remedy=remedy)
    if problem.program.has_floor:
        raise InvalidArgumentError(
            parse_text("`method='leximin'` does not support a floor: pass `eta=0`."), argument="method"
        )
    end = leximin(problem.members, problem.program.mu_bar)
    multipliers = leximin_multipliers(problem.members, problem.rows, end.potential)
    return _Found(end.d, dual_bound(problem.program, multipliers), multipliers, end.num_levels, False)


def _checked(problem: PlanningProblem, found: _Found, method: str, limits: _Limits) -> Plan:
    """Returns the plan, with every number computed again from the visits of its policy."""
    members, coverage = problem.members, problem.program.coverage
    d, slack = _visits_of_policy(problem, found, limits.tol)
    divergence = coverage.divergence(d)
    gap = max(divergence - found.lower_bound, 0.0) + slack
    if divergence < found.lower_bound - slack or not np.isfinite(gap):
        gap = np.inf  # below the proven bound: the point is not an occupancy
    residuals = members.membership(d)
    if max(residuals.flow, residuals.mass, residuals.floor_shortage) > MEMBERSHIP_TOLERANCE:
        gap = np.inf
    return Plan(
        mdp=problem.mdp,
        coverage=coverage,
        weights=frozen(problem.table(coverage.mu)),
        occupancy=frozen(problem.table(d)),
        policy=frozen(problem.policy_table(d)),
        divergence=divergence,
        gap=gap,
        worst_ratio=coverage.worst_ratio(d),
        value=coverage.value(d),
        potential=frozen(problem.potential_table(found.multipliers)),
        residuals=residuals,
        status=_status(gap, found, limits),
        method=method,
        steps=found.steps,
        seconds=time.perf_counter() - limits.began,
        stages=found.stages,
        restriction=problem.restriction,
        discount=members.discount,
    )


def _status(gap: float, found: _Found, limits: _Limits) -> PlanStatus:
    if gap <= limits.tol:
        return PlanStatus.SOLVED
    if gap <= limits.acceptable:
        return PlanStatus.NEARLY
    if limits.is_out_of_time:
        return PlanStatus.OUT_OF_TIME
    return PlanStatus.OUT_OF_STEPS if found.is_out_of_steps else PlanStatus.STALLED


def _visits_of_policy(problem: PlanningProblem, found: _Found, tol: float) -> tuple[FloatArray, float]:
    """Returns the occupancy of the policy of the solver's point, and what to add to the gap for its errors.

    The policy amplifies the point's residuals of the flow equations, the more the slower its chain mixes:
    1e-10 can become nats. So the policy's own visits are computed, each entry to 14 digits. Above 100,000
    states that takes longer than planning. There, for a finite rho, the point itself is used if the flow of
    every state and of every nearly closed part holds up to rounding. To first order, evaluation would change
    the divergence by the residual times the potentials, and this is added to the gap.
    """
    program, members = problem.program, problem.members
    d = _linked(problem, np.maximum(found.d, 0.0), 0.25 * tol)
    is_large = d.size > 0 and members.flow.shape[0] > EVALUATED_STATES and program.rho < np.inf
    if not (is_large and program.row_error(d) <= FLOW_ROUNDING):
        visits = _evaluated(problem, d, 0.25 * tol)
        if visits is not None and not program.has_floor:
            return visits, rounding_of_point(program, visits)
        d = d if visits is None else visits  # a policy's visits may be below a floor by rounding
    return d, slack_of_point(program, found.multipliers, d)


def _evaluated(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray | None:
    """Returns the occupancy of d's policy; None if no method finds it.

    A policy with several recurrent classes has no unique occupancy; a share of the uniform policy's visits
    connects them.
    """
    members = problem.members
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(d))
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(_joined(members, d, share)))
    return None


def _linked(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits if pairs without weight may be needed.

    At the optimum the pairs that connect weighted parts may have no visits at all, and a policy that never
    takes them stays in one part forever. The share costs at most log 1/(1 - share) in divergence.
    """
    members, coverage = problem.members, problem.program.coverage
    if coverage.support.all() or members.criterion != "average":
        return d
    return _joined(members, d, share)


def _joined(members: Occupancies, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits."""
    count = np.bincount(members.node)
    return (1 - share) * d + share * members.from_policy(1 / count[members.node])


def _explain(result: Plan, limits: _Limits) -> str:
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


def _describe_nearly(result: Plan, limits: _Limits) -> str:
    return (
        f"the certified gap at rho={result.rho:g} is {result.gap:.2g}, above the usual {limits.tol:g}. "
        f"The plan is right to that gap; pass tol={_above(result.gap)} to accept it without this warning."
    )


def _above(gap: float) -> str:
    """Returns the next number of one digit above a gap, as one would type it."""
    digits = 10.0 ** np.floor(np.log10(max(gap, 1e-300)))
    return f"{np.ceil(1.0001 * gap / digits) * digits:.0e}"
