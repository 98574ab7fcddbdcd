"""plan_agents(): the best coverage of several agents together, and who should cover what.

Agents have the states and actions of one world and may have different dynamics and starts. Agent k makes
a share w_k of all steps; what counts is the sum of their visits, sum_k w_k d_k with d_k in the agent's own
occupancy set. With x_k = w_k d_k this is one program in the solver's form (see `planning.groups`), in which
the groups are the pairs, and the flow rows are those of the agents, block by block:

    [ F_1          0 ] [x_1]   [w_1 g_1]
    [      F_2     0 ] [x_2] = [w_2 g_2] theta,      y = sum_k x_k.
    [ I     I     -I ] [ y ]   [   0   ]

With restarts the rows imply the mass of each x_k. Long-run visits have g = 0, so each agent but the last
gets one more row, 1'x_k = w_k sum_j 1'x_j. Multipliers of any size prove a bound, as they do for one agent.

The sum of the best visits is unique for 0 < rho < inf; who makes them often is not: two agents alike can
share every pair, or divide the world. The solver ends in the middle of all optimal divisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray, Matrix, frozen
from rhocover.coverage import Coverage
from rhocover.errors import (
    InvalidArgumentError,
    NotCommunicatingError,
    NotConvergedError,
    Setting,
    parse_text,
)
from rhocover.linalg.normal_equations import one_blas_thread
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import DISCOUNT, Occupancies
from rhocover.planning.groups import GroupProgram, group_program
from rhocover.planning.interior_point import Progress, interior_point
from rhocover.planning.problem import (
    LONG_RUN,
    Criterion,
    Objective,
    PlanningProblem,
    counted_visits,
    num_weighted_components,
    weights_of,
)
from rhocover.planning.program import Rows, rounding_of_point
from rhocover.printing import count_of, printed
from rhocover.progress import progress

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# The result.


@dataclass(frozen=True, eq=False)
class AgentsPlan:
    """A policy for each agent, and the proof of how close the sum of their visits is to the best.

    Tables are `[S, A]`, or `[H, S, A]` with a horizon; those of the agents have one more axis, the first.
    """

    agents: tuple[MDP, ...]
    shares: FloatArray  # [K], of the steps
    coverage: Coverage  # rho, and the weights of the pairs that some agent can visit
    weights: FloatArray  # as a table; zero where a pair was left out
    occupancies: FloatArray  # [K, ...], each sums to 1
    policies: FloatArray  # [K, ...]
    divergence: float  # of the sum of the visits
    gap: float  # certified: divergence - gap <= the smallest divergence possible
    worst_ratio: float
    steps: int
    restriction: str  # which pairs with weight no agent can visit; "" if none
    discount: float | None = None

    @property
    def rho(self) -> float:
        """The order of the objective."""
        return self.coverage.rho

    @property
    def lower_bound(self) -> float:
        """A lower bound on the divergence that any policies of these agents can reach."""
        return self.divergence - self.gap

    @property
    def occupancy(self) -> FloatArray:
        """The visits of all agents together, as a table that sums to 1."""
        return np.tensordot(self.shares, self.occupancies, axes=1)

    @property
    def division(self) -> FloatArray:
        """Which part of the visits of each pair is each agent's, `[K, ...]`; nan where nobody goes."""
        parts = self.occupancies * self.shares.reshape(-1, *[1] * (self.occupancies.ndim - 1))
        total = parts.sum(axis=0)
        return np.where(total > 0, parts / np.where(total > 0, total, 1.0), np.nan)

    def summary(self) -> dict[str, Any]:
        """Returns the numbers of the plan as a JSON document (infinities as text)."""
        numbers = {
            "rho": self.rho,
            "divergence": self.divergence,
            "gap": self.gap,
            "worst_ratio": self.worst_ratio,
        }
        return {
            "agents": [mdp.name or repr(mdp) for mdp in self.agents],
            "shares": self.shares.tolist(),
            **{key: value if np.isfinite(value) else str(value) for key, value in numbers.items()},
            "mostly_visited_by": self._main_pairs().tolist(),
            "steps": self.steps,
            "restriction": self.restriction,
        }

    def _main_pairs(self) -> IntArray:
        """Returns of how many pairs with weight each agent makes most of the visits, `[K]`."""
        most = np.argmax(np.nan_to_num(self.division), axis=0)
        return np.bincount(most[self.weights > 0], minlength=len(self.agents))

    @printed
    def __str__(self) -> str:
        horizon = len(self.weights) if self.weights.ndim == 3 else None
        visits = counted_visits(self.discount, horizon)
        lines = [
            f"Plan for {count_of(len(self.agents), 'agent')} at rho = {self.rho:g}"
            f"{'' if visits == LONG_RUN else f', {visits}'}.",
            f"  divergence  {self.divergence:.9g}  (at most {self.gap:.1e} above the best possible)",
            f"  worst ratio {self.worst_ratio:.6g}  (the worst pair has too few visits by this factor)",
        ]
        total = int((self.weights > 0).sum())
        for k, (mdp, pairs) in enumerate(zip(self.agents, self._main_pairs(), strict=True)):
            lines.append(
                f"  agent {k}{f' ({mdp.name})' if mdp.name else ''}: {self.shares[k]:.3g} of the steps, "
                f"most of the visits of {pairs:,} of {count_of(total, 'pair', ',')}"
            )
        return "\n".join([*lines, *([f"  {self.restriction}"] if self.restriction else [])])

    __repr__ = __str__


# Planning.

SHARE_OF_UNIFORM = 0.25  # of the tolerance: a share of uniform visits connects what an agent never leaves
MAX_STEPS = 200
MEMBERSHIP = 1e-9  # the largest residual of an occupancy


def plan_agents(
    agents: Sequence[MDP],
    rho: float = 2.0,
    mu: ArrayLike | None = None,
    *,
    shares: ArrayLike | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    restrict: bool = False,
    tol: float = 1e-8,
) -> AgentsPlan:
    """Returns a policy for each agent, so that the sum of their visits has the best coverage.

    `agents` are models with the same numbers of states and actions, and possibly other dynamics, starts and
    missing actions. `shares` says which part of all steps each agent makes; None is equal parts. `rho`, `mu`
    (weights `[S, A]`, or `[H, S, A]` with a horizon), `discount`, `horizon` and `restrict` are those of
    `plan`; runs begin at the start of each agent's model. A pair has to be within reach of one agent only.

    The gap is certified for the visits of the policies together; if it is larger than `tol` (below rho = 1
    than `tol * rho`), `NotConvergedError` is raised.

    >>> import rhocover as rc
    >>> river = rc.envs.river_swim()
    >>> alone, pair = rc.plan(river, 2.0), rc.plan_agents([river, river], 2.0)
    >>> abs(alone.divergence - pair.divergence) < 2e-8
    True
    """
    models = _read_agents(agents)
    shares = _read_shares(shares, len(models))
    tol = checks.positive(tol, "tol")
    criterion = Criterion(discount, horizon, None, True)
    weights = _read_weights(models, mu, horizon)
    problems = [_read_problem(k, mdp, weights, criterion) for k, mdp in enumerate(models)]
    together = _Together.of(problems, shares, weights, restrict)
    asked = together.program(rho)
    tol = max(tol * min(1.0, asked.program.rho or 1.0), 1e-12)
    with one_blas_thread(), progress(f"planning for {count_of(len(models), 'agent')}") as told:
        end = interior_point(
            asked.program, tol=tol / 2, max_steps=MAX_STEPS,
            report=lambda state: told.note(f"step {state.steps}, gap {abs(state.gap):.1e}"),
        )  # fmt: skip
    found = _checked(together, asked, end, tol)
    if not found.gap <= tol:
        raise NotConvergedError(_explain(found, tol))
    return found


def _explain(found: AgentsPlan, tol: float) -> str:
    end = f"pass tol={found.gap * 1.1:.2g} to accept it" if np.isfinite(found.gap) else "it proves nothing"
    return f"tol={tol:g} was not reached at rho={found.rho:g}: the gap is {found.gap:.2g}; {end}."


def _read_agents(agents: Any) -> tuple[MDP, ...]:
    if isinstance(agents, MDP) or not isinstance(agents, Sequence) or not len(agents):
        what = f"a {type(agents).__name__}" if not isinstance(agents, Sequence) else "an empty list"
        raise InvalidArgumentError.of("agents", "must be a list of models", what)
    for k, mdp in enumerate(agents):
        check_mdp(mdp, f"agents[{k}]")
        shape, first = (mdp.num_states, mdp.num_actions), (agents[0].num_states, agents[0].num_actions)
        if shape != first:
            raise InvalidArgumentError.of(
                f"agents[{k}]",
                f"must have as many states and actions as agents[0], {first[0]} and {first[1]}",
                f"{shape[0]} and {shape[1]}",
                remedy="Agents share one numbering; actions may be missing.",
            )
    return tuple(agents)


def _read_shares(shares: Any, num_agents: int) -> FloatArray:
    if shares is None:
        return np.full(num_agents, 1 / num_agents)
    shares = checks.float_array(shares, "shares", (num_agents,))
    if not (shares > 0).all():
        k = int(np.argmin(shares))
        raise InvalidArgumentError.of(
            "shares",
            "must be positive",
            f"{shares[k]:g} for agent {k}",
            remedy="Leave out who makes no steps.",
        )
    return shares / shares.max() / (shares / shares.max()).sum()


def _read_weights(models: tuple[MDP, ...], mu: Any, horizon: Any) -> FloatArray:
    """Returns the weights of the pairs that some model has, `[S, A]` or `[H, S, A]`."""
    grid = (models[0].num_states, models[0].num_actions)
    exists = np.logical_or.reduce([mdp.table(np.ones(mdp.num_pairs)) > 0 for mdp in models])
    if mu is None:
        return exists.astype(float)
    mu = checks.float_array(weights_of(models[0], mu), "mu")
    if mu.ndim != 3 or horizon is None:
        checks.check_shape(mu.shape, "mu", grid)
    else:
        checks.check_shape(mu.shape, "mu", (checks.integer(horizon, "horizon", least=1), *grid))
    checks.check_nonnegative(mu, "mu")
    missing = np.argwhere((mu > 0) & ~exists)
    if missing.size:
        place = tuple(int(i) for i in missing[0])
        raise InvalidArgumentError.of(
            "mu", "must be zero where no agent has the action", f"{mu[place]:g} at {place}"
        )
    if not (mu > 0).any():
        raise InvalidArgumentError.of("mu", "must be positive for at least one pair", "zeros only")
    return mu


def _read_problem(k: int, mdp: MDP, weights: FloatArray, criterion: Criterion) -> PlanningProblem:
    """Returns the problem of one agent, over what it can visit."""
    table = weights.max(axis=0) if weights.ndim == 3 else weights
    own = mdp.per_pair(np.where(mdp.table(np.ones(mdp.num_pairs)) > 0, table > 0, 0.0), "mu")
    _check_agent(k, mdp, own, criterion)
    if own.any():
        with suppress(NotCommunicatingError):
            return PlanningProblem.read(mdp, Objective(1.0, own), criterion)
    again = "" if criterion.has_restarts else " again and again"
    raise InvalidArgumentError.of(
        f"agents[{k}]", f"must be able to visit a pair with weight{again}",
        remedy="Leave this agent out, or give weight to what it can visit.",
    )  # fmt: skip


def _check_agent(k: int, mdp: MDP, own: FloatArray, criterion: Criterion) -> None:
    """Refuses an agent without a start where runs begin at one, and one that has to choose where to stay."""
    if criterion.has_restarts:
        if mdp.start is None:
            raise InvalidArgumentError.of(
                f"agents[{k}]", "must have a start, at which runs begin", "a model without one",
                remedy="Make the model with rc.MDP(P, start=...).",
            )  # fmt: skip
        return
    count = num_weighted_components(mdp, own)
    if count > 1:
        raise InvalidArgumentError.of(
            f"agents[{k}]", "must have all weight that it can reach in one end component", f"{count} of them",
            remedy=("Leave out all but one with mdp.subset(pairs), or pass ", DISCOUNT, " to connect them."),
        )  # fmt: skip


# The program.


@dataclass(frozen=True, eq=False)
class _Together:
    """The occupancy sets of all agents, and the weights of the pairs."""

    problems: tuple[PlanningProblem, ...]
    shares: FloatArray  # [K]
    weights: FloatArray  # table
    where: tuple[IntArray, ...]  # the place in the table of each pair that is covered
    group: tuple[IntArray, ...]  # per agent, which of them each entry is
    restriction: str

    @classmethod
    def of(
        cls, problems: list[PlanningProblem], shares: FloatArray, weights: FloatArray, restrict: bool
    ) -> _Together:
        """Returns the sets with what they can cover together; weight elsewhere is refused or left out."""
        tables = [_entries(problem) for problem in problems]
        reached = np.logical_or.reduce([table >= 0 for table in tables])
        _check_reached(weights, reached, restrict)
        left_out = _left_out(weights, reached)
        weights = np.where(reached, weights, 0.0)
        number = np.cumsum(reached).reshape(reached.shape) - 1
        group = [number[table >= 0][np.argsort(table[table >= 0])] for table in tables]
        return cls(tuple(problems), shares, weights, np.nonzero(reached), tuple(group), left_out)

    def program(self, rho: float) -> GroupProgram:
        """Returns the program that covers the sum of the visits."""
        group = np.concatenate(self.group)
        C = sp.csr_array(
            (np.ones(group.size), (group, np.arange(group.size))), shape=(self.where[0].size, group.size)
        )
        flow = [problem.rows.K for problem in self.problems]
        inflow = [share * problem.rows.k0 for share, problem in zip(self.shares, self.problems, strict=True)]
        K, k0 = sp.csr_array(sp.block_diag(flow, format="csr")), np.concatenate(inflow)
        members = _side_by_side(self.problems, self.shares)
        if members.criterion == "average":
            balance = _balance([problem.members.num_pairs for problem in self.problems], self.shares)
            K = sp.csr_array(sp.vstack([K, balance], format="csr"))
            k0 = np.append(k0, np.zeros(balance.shape[0]))
        none = np.zeros(0, np.int64)
        coverage = self._coverage(rho)
        asked = group_program(
            members, coverage.rho, coverage.mu, C, rows=Rows(K, k0, [], none, none, none, none)
        )
        terms = asked.program.terms + 2 * len(self.problems) + max(len(p.rows.labels) for p in self.problems)
        return replace(asked, program=replace(asked.program, terms=terms))

    def _coverage(self, rho: float) -> Coverage:
        """Returns the objective; KL(d || mu) is infinite if any weight is zero."""
        coverage = Coverage(rho, self.weights[self.where])
        if coverage.rho == 0 and not coverage.support.all():
            raise InvalidArgumentError(
                "rho=0 measures KL(d || mu), which is infinite once a pair of zero weight is visited.",
                argument="mu",
                remedy=("Pass ", Setting("rho", "0.05"), ", a small order, or give every pair some weight."),
            )
        return coverage

    def split(self, x: FloatArray) -> list[FloatArray]:
        """Returns the part of each agent, scaled to sum to 1."""
        parts = np.split(x, np.cumsum([group.size for group in self.group])[:-1])
        return [part / part.sum() for part in parts]


def _entries(problem: PlanningProblem) -> IntArray:
    """Returns the number of the entry at each place of the table; -1 where there is none."""
    return problem.table(np.arange(1.0, problem.members.num_pairs + 1)).astype(np.int64) - 1


def _check_reached(weights: FloatArray, reached: BoolArray, restrict: bool) -> None:
    possible = np.logical_or.reduce(reached) if weights.ndim < reached.ndim else reached
    lost = np.argwhere((weights > 0) & ~possible)
    if not lost.size or restrict:
        return
    places = sorted({(int(place[-2]), int(place[-1])) for place in lost})
    names = ", ".join(f"({s}, {a})" for s, a in places[:8])
    raise NotCommunicatingError(
        f"{count_of(len(places), 'pair')} with weight cannot be visited by any agent"
        f"{' again and again' if reached.ndim == 2 else ' within the horizon'}: {names}"
        f"{f' and {len(places) - 8} more' if len(places) > 8 else ''}.",
        places, argument="mu", remedy=parse_text("Pass `restrict=True` to leave them out."),
    )  # fmt: skip


def _left_out(weights: FloatArray, reached: BoolArray) -> str:
    possible = np.logical_or.reduce(reached) if weights.ndim < reached.ndim else reached
    lost = (weights > 0) & ~possible
    if not lost.any():
        return ""
    share = weights / weights.max()
    return (
        f"Left out {count_of(int(lost.sum()), 'pair')} with {share[lost].sum() / share.sum():.3g} of the "
        f"weight: no agent can visit them."
    )


def _side_by_side(problems: Sequence[PlanningProblem], shares: FloatArray) -> Occupancies:
    """Returns the flow equations of all agents as one set, of no model: only the equations are read."""
    sets = [problem.members for problem in problems]
    return replace(
        sets[0],
        flow=sp.csr_array(sp.block_diag([members.flow for members in sets], format="csr")),
        inflow=np.concatenate([share * members.inflow for share, members in zip(shares, sets, strict=True)]),
        pair=np.concatenate([members.pair for members in sets]),
        step=np.concatenate([members.step for members in sets]),
    )


def _balance(sizes: list[int], shares: FloatArray) -> Matrix:
    """Returns the rows 1'x_k - w_k sum_j 1'x_j = 0 of all agents but the last."""
    agent = np.repeat(np.arange(len(sizes)), sizes)
    rows = [(agent == k) - shares[k] for k in range(len(sizes) - 1)]
    return sp.csr_array(np.array(rows).reshape(-1, agent.size))


# The check of the result.


def _checked(together: _Together, asked: GroupProgram, end: Progress, tol: float) -> AgentsPlan:
    """Returns the plan, with every number computed again from the visits of the policies."""
    problems, shares = together.problems, together.shares
    parts = together.split(np.maximum(asked.occupancy(end.d), 0.0))
    visits = [_visits(problem, d, SHARE_OF_UNIFORM * tol) for problem, d in zip(problems, parts, strict=True)]
    x = np.concatenate([share * d for share, d in zip(shares, visits, strict=True)])
    pairs = list(zip(problems, visits, strict=True))
    coverage = Coverage(asked.program.rho, together.weights[together.where])
    point = asked.point(x)
    y = asked.C @ x
    divergence = coverage.divergence(y)
    gap = max(divergence - end.lower_bound, 0.0) + rounding_of_point(asked.program, point)
    if not all(problem.members.contains(d, MEMBERSHIP) for problem, d in pairs):
        gap = np.inf
    return AgentsPlan(
        agents=tuple(problem.mdp for problem in problems),
        shares=frozen(shares),
        coverage=coverage,
        weights=frozen(together.weights),
        occupancies=frozen(np.array([problem.table(d) for problem, d in pairs])),
        policies=frozen(np.array([problem.policy_table(d) for problem, d in pairs])),
        divergence=divergence,
        gap=gap if np.isfinite(gap) else np.inf,
        worst_ratio=coverage.worst_ratio(y),
        steps=end.taken,
        restriction=together.restriction,
        discount=problems[0].members.discount,
    )  # fmt: skip


def _visits(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray:
    """Returns the visits of d's policy, with a share of uniform ones: d may lie in parts it never leaves."""
    members = problem.members
    if members.criterion == "average":
        uniform = members.from_policy(1 / np.bincount(members.node)[members.node])
        d = (1 - share) * d + share * uniform
    return members.from_policy(members.to_policy(d))
