"""plan(): computes the best coverage that a model allows, with a certificate."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.errors import (
    Call,
    GapWarning,
    InvalidArgumentError,
    NotConvergedError,
    Setting,
    parse_text,
    unknown_name,
)
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP
from rhocover.planning.cover import is_pairs
from rhocover.planning.covering import CoverProblem, plan_covering
from rhocover.planning.interior_point import interior_point
from rhocover.planning.problem import (
    Criterion,
    Objective,
    PlanningProblem,
    leximin_multipliers,
    visits_of_policy,
)
from rhocover.planning.program import Multipliers, dual_bound
from rhocover.planning.result import (
    FRANK_WOLFE,
    METHODS,
    Plan,
    PlanStatus,
    SolverResult,
    StopRules,
    describe_nearly,
    explain_missed,
    read_limits,
    reporting,
    status_of,
)
from rhocover.progress import progress

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from rhocover.arguments import Conditions, Covered, Method, Start, Weights

AIM = 0.5  # of tol: the solver aims below it, because the check afterwards adds rounding
LARGEST_WARM = 1e6  # a larger potential is not from a plan of this model
MEMBERSHIP_TOLERANCE = 1e-9
LEAST_SHARE = Call("subject_to=rc.at_least(indicator, 0.01)", "--at-least indicator.npy:0.01")


def plan(
    mdp: MDP,
    rho: float = 2.0,
    mu: Weights | None = None,
    *,
    cover: Covered = "pairs",
    subject_to: Conditions | None = None,
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

    `cover` says what is covered instead of pairs: `"states"`, `"transitions"`, `"visits"` (pairs, summed over
    the steps of an episode), groups of pairs by a label for each state (`[S]`) or pair (`[S, A]` or `[n]`;
    negative: in no group), or a matrix `[G, n]` whose entry (g, i) says how much of a visit of pair i counts
    for group g. `mu` then has one weight per group. `subject_to` are conditions that must hold: `at_most`,
    `at_least`, `within`, or a list of them; `plan.conditions` has their values and prices. If no policy meets
    them, `InfeasibleConditionsError` says why. `eta`, `warm` and other methods are for pairs alone.

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
    limits = read_limits(method, tol, max_steps, time_limit)
    criterion = Criterion(discount, horizon, start, restrict)
    objective = Objective(rho, mu)
    if is_pairs(cover) and subject_to is None:
        problem = PlanningProblem.read(mdp, objective, criterion, eta)
        limits, result = _planned(problem, method, limits, warm)
    else:
        _check_group_options(method, eta)
        asked = CoverProblem.read(mdp, objective, criterion, cover, subject_to)
        limits, result = plan_covering(asked, limits)
    if result.status is PlanStatus.NEARLY and throw:
        warnings.warn(describe_nearly(result, limits), GapWarning, stacklevel=2)
    if throw and not result.is_good:
        raise NotConvergedError(explain_missed(result, limits), result)
    return result


def _check_group_options(method: str, eta: Any) -> None:
    """Refuses what planning for groups and under conditions does not have."""
    what = parse_text("cannot be combined with `cover` or `subject_to`")
    if method != METHODS[0]:
        raise InvalidArgumentError.of("method", what, repr(method), remedy="Leave it out.")
    if checks.number(eta, "eta") != 0:
        raise InvalidArgumentError.of(
            "eta", what, f"{eta:g}",
            remedy=("Ask for least shares: ", LEAST_SHARE, "."),
        )  # fmt: skip


def plan_problem(problem: PlanningProblem, tol: float, warm: FloatArray | None = None) -> Plan:
    """Returns the plan of a problem that was read before, whatever its gap."""
    method = METHODS[0]
    return _planned(problem, method, read_limits(method, tol, None, None), warm)[1]


def _planned(problem: PlanningProblem, method: str, limits: StopRules, warm: Any) -> tuple[StopRules, Plan]:
    """Returns the limits that hold for the problem, and the plan that was reached within them."""
    # D_rho is near rho KL(d || mu) for small rho, so the tolerance shrinks with it.
    limits = limits.scaled(min(1.0, problem.program.rho or 1.0))
    nu = _read_warm(problem, warm)
    result = _checked(problem, _solve(problem, method, limits, nu), method, limits)
    if nu is not None and not result.is_good:  # the warm start may be the cause
        result = _checked(problem, _solve(problem, method, limits, None), method, limits)
    return limits, result


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


def _solve(problem: PlanningProblem, method: str, limits: StopRules, warm: FloatArray | None) -> SolverResult:
    if method == "leximin":
        return _solve_leximin(problem)
    with progress(f"planning rho = {problem.program.rho:g}") as told:
        report = reporting(told.note)
        if method in FRANK_WOLFE:
            return _solve_frank_wolfe(problem, FRANK_WOLFE[method], limits, report)
        with one_blas_thread():
            end = interior_point(
                problem.program, tol=AIM * limits.tol, max_steps=limits.max_steps, report=report, warm=warm,
                deadline=limits.deadline,
            )  # fmt: skip
    is_out = end.taken >= limits.max_steps
    return SolverResult(end.d, end.lower_bound, end.multipliers, end.taken, is_out, end.stages)


def _solve_frank_wolfe(
    problem: PlanningProblem, variant: str, limits: StopRules, report: Any
) -> SolverResult:
    from rhocover.planning.frank_wolfe import frank_wolfe

    end = frank_wolfe(
        problem.members, problem.program.coverage, variant=variant, tol=limits.tol,
        max_steps=limits.max_steps, report=report, deadline=limits.deadline,
    )  # fmt: skip
    nowhere = Multipliers(np.zeros(problem.program.K.shape[0]), 0.0)
    return SolverResult(end.d, end.lower_bound, nowhere, end.steps, end.steps >= limits.max_steps)


def _solve_leximin(problem: PlanningProblem) -> SolverResult:
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
    return SolverResult(end.d, dual_bound(problem.program, multipliers), multipliers, end.num_levels, False)


def _checked(problem: PlanningProblem, found: SolverResult, method: str, limits: StopRules) -> Plan:
    """Returns the plan, with every number computed again from the visits of its policy."""
    members, coverage = problem.members, problem.program.coverage
    d, slack = visits_of_policy(problem, found.d, found.multipliers, limits.tol)
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
        status=status_of(gap, found, limits),
        method=method,
        steps=found.steps,
        seconds=time.perf_counter() - limits.began,
        stages=found.stages,
        restriction=problem.restriction,
        discount=members.discount,
    )
