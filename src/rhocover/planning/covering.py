"""Planning for groups of pairs and under conditions: the problem, its solution, and the check of it.

The problem is read like that of pairs (`problem`), but what must be possible are the groups: with long-run
visits one trajectory stays in one end component, the one whose groups have the most weight; with restarts a
group needs a pair that the start reaches. Groups with weight that cannot be visited are refused, or left out.

The solver's point is replaced by the visits of its policy, as for pairs. Two things are different:

- At the optimum many pairs may have no visits at all (states are covered by one action each), so the policy
  may fall into parts that it never leaves. Then a share of the uniform policy's visits connects them, the
  smallest of `SHARES` with which the certificate holds.
- Conditions bind at the optimum, so the policy's own visits may miss a limit by rounding. A violation v_k up
  to `MET` times the size of the condition is accepted, and sum_k price_k v_k is added to the gap: this is how
  much the divergence may be below that of policies that meet the conditions exactly.

If no plan within the tolerance is found, `feasibility` says whether the conditions are the reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.coverage import Coverage
from rhocover.errors import (
    InvalidArgumentError,
    NotCommunicatingError,
    RhocoverError,
    Setting,
    parse_text,
    short_names,
)
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP, check_mdp
from rhocover.planning.conditions import Sides, met_conditions, read_conditions, read_sides
from rhocover.planning.cover import PAIRS, SUM_TOLERANCE, Cover, is_pairs, read_cover
from rhocover.planning.feasibility import conflict
from rhocover.planning.groups import GroupProgram, group_program
from rhocover.planning.interior_point import Progress, interior_point
from rhocover.planning.merging import Merged, merged
from rhocover.planning.problem import (
    EVALUATED_STATES,
    FLOW_ROUNDING,
    Criterion,
    Objective,
    PlanningProblem,
    components_of,
)
from rhocover.planning.program import Multipliers, rounding_of_point, slack_of_point
from rhocover.planning.result import Plan, SolverResult, StopRules, reporting, status_of
from rhocover.printing import count_of
from rhocover.progress import progress

AIM = 0.25  # of the tolerance: the check afterwards adds rounding, and the price of violations
MEMBERSHIP = 1e-9  # the largest residual of an occupancy
MET = 1e-8  # of the size of a condition: the largest violation
SHARES = (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)  # of uniform visits; each is tried if the one before fails


# The problem.


@dataclass(frozen=True, eq=False)
class CoverProblem:
    """A checked problem: `base` has the kept pairs, `asked` what is covered of them, under `sides`."""

    base: PlanningProblem
    asked: GroupProgram
    coverage: Coverage  # of the groups that are planned for
    C: Matrix  # theirs, over the entries of the set
    offset: Merged  # from the divergence of what is asked to that of the groups
    cover: Cover | None  # None: pairs
    weights: FloatArray  # as a plan reports them, zero where a group was left out
    sides: Sides

    @classmethod
    def read(
        cls, mdp: Any, objective: Objective, criterion: Criterion, cover: Any, subject_to: Any
    ) -> CoverProblem:
        """Returns the checked problem; errors use the caller's names of arguments."""
        check_mdp(mdp)
        conditions, full = read_conditions(subject_to), criterion.occupancies(mdp)
        if is_pairs(cover):
            chosen = _pairs(mdp, objective, criterion)
        else:
            groups = read_cover(mdp, cover, has_steps=full.num_steps is not None)
            chosen = _groups(groups, objective, criterion)
        base, rows = chosen.base, np.flatnonzero(chosen.mu > 0)
        sides = read_sides(full, conditions, None if full.num_steps is not None else base.kept)
        C, coverage = sp.csr_array(chosen.C)[rows], Coverage(chosen.rho, chosen.mu[rows])
        less = merged(coverage.rho, coverage.mu, C)
        asked = group_program(base.members, coverage.rho, less.mu, less.C, sides.rows, base.rows)
        return cls(base, asked, coverage, C, less, chosen.cover, chosen.table, sides)

    def lower_bound(self, end: Progress) -> float:
        """Returns the bound that the solver's multipliers prove for the groups."""
        return end.lower_bound + self.offset.offset - self.offset.error

    @property
    def kind(self) -> str:
        """What is covered, in one word."""
        return PAIRS if self.cover is None else self.cover.kind

    def shares(self, d: FloatArray) -> FloatArray | None:
        """Returns the share of the visits of each group, as a plan reports it; None for pairs."""
        if self.cover is None:
            return None
        return frozen(self.cover.table(self.cover.over(self.base.members, self.base.kept) @ d))

    @cached_property
    def uniform(self) -> FloatArray:
        """The visits of the uniform policy."""
        members = self.base.members
        return members.from_policy(1 / np.bincount(members.node)[members.node])


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The pairs that are kept, and the groups over them with their weights: zero where one was left out."""

    base: PlanningProblem
    rho: float
    mu: FloatArray  # [G]
    C: Matrix
    cover: Cover | None
    table: FloatArray  # the weights as a plan reports them


def _pairs(mdp: MDP, objective: Objective, criterion: Criterion) -> _Chosen:
    """Returns the pairs as groups, read as without conditions."""
    base = PlanningProblem.read(mdp, objective, criterion)
    coverage = base.program.coverage
    C = sp.eye_array(coverage.mu.size, format="csr")
    return _Chosen(base, coverage.rho, coverage.mu, C, None, base.table(coverage.mu))


def _groups(groups: Cover, objective: Objective, criterion: Criterion) -> _Chosen:
    """Returns the groups that can be visited."""
    mu = groups.read_weights(objective.mu)
    rho = Coverage(objective.rho, mu).rho
    base, mu = _visited(groups, mu, criterion)
    C = groups.over(base.members, base.kept)
    _check_order(rho, mu, C)
    return _Chosen(base, rho, mu, C, groups, groups.table(mu))


def _visited(groups: Cover, mu: FloatArray, criterion: Criterion) -> tuple[PlanningProblem, FloatArray]:
    """Returns the pairs that can be visited as a problem, and the weights of the groups that they visit."""
    wanted = np.ones(groups.mdp.num_pairs) if criterion.has_restarts else _component(groups, mu)
    if not wanted.any():
        raise _refusal(groups, np.flatnonzero(mu > 0), criterion, is_any_left=False)
    base = PlanningProblem.read(groups.mdp, Objective(1.0, wanted), replace(criterion, restrict=True))
    reached = np.diff(sp.csr_array(groups.over(base.members, base.kept)).indptr) > 0
    lost = np.flatnonzero((mu > 0) & ~reached)
    left = bool((mu[reached] > 0).any())
    if lost.size and not (criterion.restrict and left):
        raise _refusal(groups, lost, criterion, is_any_left=left)
    return replace(base, restriction=_left_out(groups, mu, lost, base.kept)), np.where(reached, mu, 0.0)


def _component(groups: Cover, mu: FloatArray) -> FloatArray:
    """Returns 1 for the pairs of the end component to plan on, whose groups have the most weight.

    Among equals it is the one with more pairs, then with the lowest state; zeros if no group with weight can
    be visited again and again.
    """
    components, reached = components_of(groups.mdp)
    C = groups.matrix.tocoo()
    label = components.pair_label[C.col]
    inside = (label >= 0) & np.append(reached, False)[label]
    both = np.unique(np.array([label[inside], C.row[inside]]), axis=1)
    weight = np.bincount(both[0], mu[both[1]] / mu.max(), components.count)
    if not (weight > 0).any():
        return np.zeros(groups.mdp.num_pairs)
    size = np.bincount(components.pair_label[components.pair_label >= 0], minlength=components.count)
    best = int(np.argmax(np.where(weight >= weight.max() * (1 - 1e-12), size, 0)))
    return (components.pair_label == best).astype(float)


def _refusal(
    groups: Cover, lost: IntArray, criterion: Criterion, *, is_any_left: bool
) -> NotCommunicatingError:
    """Returns the error that names the groups with weight that cannot be visited."""
    where = "from the start" if criterion.has_restarts else "again and again by one trajectory"
    text = f"{_counted(groups, lost.size)} cannot be visited {where}: {_names(groups, lost)}."
    remedy = "Give weight to groups that can be visited."
    return NotCommunicatingError(
        text,
        argument="mu",
        remedy=parse_text("Pass `restrict=True` to leave them out.") if is_any_left else remedy,
    )


def _left_out(groups: Cover, mu: FloatArray, lost: IntArray, kept: BoolArray) -> str:
    """Returns a paragraph about groups and pairs that were left out; empty if there are none."""
    share = mu / mu.max()
    notes = []
    if lost.size:
        part = share[lost].sum() / share.sum()
        notes.append(
            f"Left out {_counted(groups, lost.size)} with {part:.3g} of the weight, which cannot be visited: "
            f"{_names(groups, lost)}."
        )
    if not kept.all():
        notes.append(
            f"{int(kept.sum())} of {count_of(kept.size, 'pair')} can be visited; the others were dropped."
        )
    return " ".join(notes)


def _counted(groups: Cover, number: int) -> str:
    return count_of(number, groups.plural.removesuffix("s"))


def _names(groups: Cover, some: IntArray, limit: int = 8) -> str:
    shown = ", ".join(short_names([groups.name(int(g)) for g in some[:limit]]))
    return f"{shown} and {some.size - limit} more" if some.size > limit else shown


def _check_order(rho: float, mu: FloatArray, C: Any) -> None:
    """Refuses rho = 0 if visits may go where there is no weight: KL(y || mu) would be infinite."""
    C = sp.csr_array(C)
    if rho > 0 or np.allclose((mu > 0) @ C, 1.0, rtol=0.0, atol=SUM_TOLERANCE):
        return
    raise InvalidArgumentError(
        "rho=0 measures KL(visits || mu), which is infinite once a visit is in no group with weight.",
        argument="mu",
        remedy=("Pass ", Setting("rho", "0.05"), ", a small order, or give every pair a group with weight."),
    )


# The solution.


def plan_covering(problem: CoverProblem, limits: StopRules) -> tuple[StopRules, Plan]:
    """Returns the limits that hold for the problem, and its plan, whatever the gap.

    Raises `InfeasibleConditionsError` if there is no plan within the tolerance because of the conditions.
    """
    limits = limits.scaled(min(1.0, problem.coverage.rho or 1.0))
    with one_blas_thread(), progress(f"planning rho = {problem.coverage.rho:g}") as told:
        end = interior_point(
            problem.asked.program, tol=AIM * limits.tol, max_steps=limits.max_steps,
            report=reporting(told.note), deadline=limits.deadline,
        )  # fmt: skip
    result = _checked(problem, end, limits)
    if not result.is_good and problem.sides.rows:
        impossible = conflict(problem.base.members, problem.sides)
        if impossible is not None:
            raise impossible
    return limits, result


@dataclass(frozen=True, eq=False)
class _Judged:
    """An occupancy with its divergence and its certified gap."""

    d: FloatArray
    divergence: float
    gap: float


def _judged(problem: CoverProblem, end: Progress, d: FloatArray, slack: float) -> _Judged:
    """Returns what is certified about d; `slack` is what its errors may cost."""
    asked = problem.asked
    divergence, bound = problem.coverage.divergence_unchecked(problem.C @ d), problem.lower_bound(end)
    missed = np.array([max(float(row.values @ d) - row.limit, 0.0) for row in asked.conditions])
    prices = asked.prices(end.multipliers)
    slack += float(prices @ missed)
    gap = max(divergence - bound, 0.0) + slack
    found = problem.base.members.membership(d)
    if (
        divergence < bound - slack  # below the proven bound: not an occupancy
        or max(found.flow, found.mass) > MEMBERSHIP
        or any(miss > MET * row.size for miss, row in zip(missed, asked.conditions, strict=True))
        or not np.isfinite(gap)
    ):
        gap = np.inf
    return _Judged(d, divergence, gap)


def _candidates(problem: CoverProblem, end: Progress) -> Iterator[tuple[FloatArray, float]]:
    """Yields occupancies near the solver's point, each with what its errors may cost."""
    asked, members = problem.asked, problem.base.members
    d = np.maximum(asked.occupancy(end.d), 0.0)
    d = d if np.isfinite(d).all() else problem.uniform
    is_large = members.flow.shape[0] > EVALUATED_STATES and problem.coverage.rho < np.inf
    if is_large and members.flow_error(d) <= FLOW_ROUNDING:
        yield d, slack_of_point(asked.program, end.multipliers, asked.point(d))
    for share in SHARES if members.criterion == "average" else SHARES[:1]:
        mixed = d if share == 0 else (1 - share) * d + share * problem.uniform
        with suppress(RhocoverError):
            visits = members.from_policy(members.to_policy(mixed))
            yield visits, rounding_of_point(asked.program, asked.point(visits))
    yield problem.uniform, 0.0


def _checked(problem: CoverProblem, end: Progress, limits: StopRules) -> Plan:
    """Returns the plan, with every number computed again from the visits of its policy."""
    best = None
    for d, slack in _candidates(problem, end):
        judged = _judged(problem, end, d, slack)
        best = judged if best is None or judged.gap < best.gap else best
        if best.gap <= limits.tol:
            break
    assert best is not None
    base, asked, m = problem.base, problem.asked, problem.base.rows.K.shape[0]
    y, multipliers = problem.C @ best.d, end.multipliers
    found = SolverResult(
        best.d, problem.lower_bound(end), multipliers, end.taken, end.taken >= limits.max_steps
    )
    return Plan(
        mdp=base.mdp,
        coverage=problem.coverage,
        weights=frozen(problem.weights),
        occupancy=frozen(base.table(best.d)),
        policy=frozen(base.policy_table(best.d)),
        divergence=best.divergence,
        gap=best.gap,
        worst_ratio=problem.coverage.worst_ratio(y),
        value=problem.coverage.value(y),
        potential=frozen(base.potential_table(Multipliers(multipliers.nu[:m], multipliers.alpha))),
        residuals=base.members.membership(best.d),
        status=status_of(best.gap, found, limits),
        method="interior_point",
        steps=end.taken,
        seconds=time.perf_counter() - limits.began,
        stages=end.stages,
        restriction=base.restriction,
        discount=base.members.discount,
        cover=problem.kind,
        group_shares=problem.shares(best.d),
        conditions=met_conditions(problem.sides, best.d, asked.prices(multipliers)),
    )
