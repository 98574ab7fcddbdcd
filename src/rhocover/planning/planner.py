"""plan(): from a model to the best coverage it allows, with a certificate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.errors import InvalidArgumentError, NotConvergedError, RhocoverError, unknown_name
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning.certificate import Multipliers, dual_bound, slack_of_point
from rhocover.planning.interior_point import interior_point
from rhocover.planning.problem import Problem, leximin_multipliers, read_problem
from rhocover.planning.progress import progress_line
from rhocover.planning.result import Plan, PlanStatus
from rhocover.planning.threads import one_blas_thread

FRANK_WOLFE = {
    "frank_wolfe": "away",
    "frank_wolfe_line_search": "line_search",
    "frank_wolfe_plain": "plain",
}
METHODS = ("interior_point", *FRANK_WOLFE, "leximin")
DEFAULT_STEPS = {"interior_point": 200, "leximin": 0}
FRANK_WOLFE_STEPS = 20_000
AIM = 0.5  # the solver aims below tol, because the check afterwards adds its own rounding
LARGEST_WARM = 1e6  # a potential beyond this is no plan's of this model
MEMBERSHIP_TOLERANCE = 1e-9
FLOW_ROUNDING = 1e-10  # of a row, relative to what flows through it


@dataclass(frozen=True, eq=False)
class _Found:
    """What a method hands over before anything is checked."""

    d: FloatArray
    lower_bound: float
    multipliers: Multipliers
    steps: int
    is_out_of_steps: bool
    stages: Mapping[str, float] = field(default_factory=dict)


def plan(
    mdp: MDP,
    rho: float,
    mu: Any = None,
    *,
    discount: float | None = None,
    horizon: int | None = None,
    start: Any = None,
    eta: float = 0.0,
    restrict: bool = False,
    method: str = "interior_point",
    tol: float = 1e-8,
    max_steps: int | None = None,
    throw: bool = True,
    warm: Any = None,
) -> Plan:
    """Returns the occupancy and policy with the best coverage, with a certified gap.

    `rho` in [0, inf] says how much the worst pair counts: 0 is maximum entropy, 1 matches mu in
    relative entropy, 2 is average relative coverage, inf the worst case. `mu` are weights `[S, A]` (per
    pair, or `[H, S, A]` with a horizon); None is uniform; a pair of weight zero is out of the objective.

    Occupancies are long-run frequencies; with `discount` or `horizon` those of runs from `start`. With a
    horizon each step is covered for itself: weights `[S, A]` are repeated for every step that can reach
    the pair.
    `eta` asks for at least 2 eta on every pair. Pairs that cannot be visited for ever are refused, or
    dropped and reported with `restrict=True`. `method="leximin"` at rho = inf picks, among the
    minimax optima, the limit of the optima for growing rho. `warm` is the `potential` of a plan for a similar
    model; without restarts and floor the interior point then needs fewer steps.

    Raises `NotConvergedError` if the gap is above `tol` (below rho = 1: `tol * rho`, because D_rho is of
    that order there) at the end; `throw=False` returns the plan.
    Causes and remedies: pairs that are almost unreachable (give them less weight), exact ties among the
    weights at rho = inf (use a large finite rho), a floor almost as large as possible (lower eta), too
    few steps for a Frank-Wolfe method (raise max_steps).

    >>> import rhocover as rc
    >>> best = rc.plan(rc.envs.river_swim(), rho=2)
    >>> round(best.divergence, 6), best.gap < 1e-8
    (0.293001, True)
    """
    began = time.perf_counter()
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", method, METHODS)
    tol = checks.number(tol, "tol")
    if not tol > 0:
        raise InvalidArgumentError(f"`tol` must be positive, got {tol:g}.")
    problem = read_problem(mdp, rho, mu, discount, horizon, start, eta, restrict)
    max_steps = _step_limit(method, max_steps)
    # D_rho is near rho KL(d || mu) for small rho, so the tolerance shrinks with it.
    aim = max(tol * min(1.0, problem.program.rho or 1.0), min(tol, 1e-12))
    nu = _read_warm(problem, warm)
    result = _checked(problem, _solve(problem, method, aim, max_steps, nu), method, aim, began)
    if nu is not None and result.status is not PlanStatus.SOLVED:  # the wrong start, perhaps
        result = _checked(problem, _solve(problem, method, aim, max_steps, None), method, aim, began)
    if throw and result.status is not PlanStatus.SOLVED:
        raise NotConvergedError(_explain(result, aim), result)
    return result


def _step_limit(method: str, max_steps: Any) -> int:
    if max_steps is None:
        return DEFAULT_STEPS.get(method, FRANK_WOLFE_STEPS)
    return checks.integer(max_steps, "max_steps", least=1)


def _read_warm(problem: Problem, warm: Any) -> FloatArray | None:
    """Returns a potential as multipliers of the flow rows, without the last; None if there is none."""
    if warm is None or problem.members.criterion != "average":
        return None
    potential = checks.any_array(warm, "warm")
    checks.check_shape(potential.shape, "warm", (problem.mdp.num_states,))
    nu = potential[problem.states]
    if potential.dtype.kind not in "fiu" or not np.isfinite(nu).all():
        raise InvalidArgumentError("`warm` must be finite: pass the potential of a plan, or leave it out.")
    nu = nu.astype(float)
    nu = nu[:-1] - nu[-1]
    return nu if float(np.abs(nu).max(initial=0.0)) <= LARGEST_WARM else None


def _solve(problem: Problem, method: str, tol: float, max_steps: int, warm: FloatArray | None) -> _Found:
    if method == "leximin":
        return _solve_leximin(problem)
    if method in FRANK_WOLFE:
        return _solve_frank_wolfe(problem, FRANK_WOLFE[method], tol, max_steps)
    report, close = progress_line(problem.program.rho)
    try:
        with one_blas_thread():
            end = interior_point(
                problem.program, tol=AIM * tol, max_steps=max_steps, report=report, warm=warm
            )
    finally:
        close()
    return _Found(end.d, end.lower_bound, end.multipliers, end.taken, end.taken >= max_steps, end.stages)


def _solve_frank_wolfe(problem: Problem, variant: str, tol: float, max_steps: int) -> _Found:
    from rhocover.planning.frank_wolfe import frank_wolfe

    end = frank_wolfe(
        problem.members, problem.program.coverage, variant=variant, tol=tol, max_steps=max_steps
    )
    nowhere = Multipliers(np.zeros(problem.program.K.shape[0]), 0.0)
    return _Found(end.d, end.lower_bound, nowhere, end.steps, end.steps >= max_steps)


def _solve_leximin(problem: Problem) -> _Found:
    from rhocover.planning.leximin import leximin

    if problem.program.rho != np.inf:
        raise InvalidArgumentError(f"method='leximin' goes with rho=inf, got rho={problem.program.rho:g}.")
    if problem.program.has_floor:
        raise InvalidArgumentError("method='leximin' takes no floor: pass eta=0.")
    end = leximin(problem.members, problem.program.mu_bar)
    multipliers = leximin_multipliers(problem.members, end.potential)
    return _Found(end.d, dual_bound(problem.program, multipliers), multipliers, end.num_levels, False)


def _checked(problem: Problem, found: _Found, method: str, tol: float, began: float) -> Plan:
    """Returns the plan with every number computed again from the occupancy itself."""
    members, coverage = problem.members, problem.program.coverage
    d = _linked(problem, np.maximum(found.d, 0.0), 0.25 * tol)
    d = _occupancy_of_policy(members, d)
    divergence = coverage.divergence(d)
    slack = slack_of_point(problem.program, found.multipliers, d)
    gap = max(divergence - found.lower_bound, 0.0) + slack
    if divergence < found.lower_bound - slack or not np.isfinite(gap):
        gap = np.inf  # below the proven bound: the point is not an occupancy
    residuals = members.membership(d)
    is_member = max(residuals.flow, residuals.mass, residuals.floor_shortage) <= MEMBERSHIP_TOLERANCE
    status = PlanStatus.SOLVED if gap <= tol and is_member else (
        PlanStatus.OUT_OF_STEPS if found.is_out_of_steps else PlanStatus.STALLED
    )  # fmt: skip
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
        status=status,
        method=method,
        steps=found.steps,
        seconds=time.perf_counter() - began,
        stages=found.stages,
        restriction=problem.restriction,
    )


def _linked(problem: Problem, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits where pairs of no weight may be needed.

    At the optimum the ways between weighted parts may carry nothing at all, and a policy that never takes
    them stays in one part for ever. The share costs at most log 1/(1 - share) in divergence.
    """
    members, coverage = problem.members, problem.program.coverage
    if coverage.support.all() or members.criterion != "average":
        return d
    count = np.bincount(members.node)
    return (1 - share) * d + share * members.from_policy(1 / count[members.node])


def _occupancy_of_policy(members: Occupancies, d: FloatArray) -> FloatArray:
    """Returns d, or what its policy really visits where d misses the flow equations by more than rounding.

    A policy amplifies what d misses by as much as its chain mixes slowly: 1e-10 can become 1e-6.
    """
    if members.flow_error(d) <= FLOW_ROUNDING:
        return d
    try:
        return members.from_policy(members.to_policy(d))
    except RhocoverError:  # a policy with several recurrent classes visits what its start decides
        return d


def _explain(result: Plan, tol: float) -> str:
    """Returns the message of a plan that missed its tolerance: what was reached, and what to do."""
    remedy = {
        PlanStatus.OUT_OF_STEPS: f"Allow more than max_steps={result.steps}, or a larger tol.",
        PlanStatus.STALLED: "Raise tol, or the smallest weights: see the docstring of `plan`.",
    }
    return (
        f"tol={tol:g} was not reached at rho={result.rho:g}: {result.status.value}. Reached: gap "
        f"{result.gap:.2g}, flow residual {result.residuals.flow:.2g} after {result.steps} steps of "
        f"{result.method}. {remedy.get(result.status, '')} throw=False returns this plan."
    )
