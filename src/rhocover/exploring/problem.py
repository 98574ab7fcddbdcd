"""The problem that an explorer solves: a model to act in, an objective, and the best coverage.

Arguments are checked as for `plan`. Pairs that cannot be visited again and again are refused or dropped.
Weights are normalised, so that no reported number depends on their scale.

Runs with restarts are treated as long runs of an *acting model* that leads back to the start. The discounted
occupancy is the long-run occupancy of the model in which every step returns to the start with probability
1 - gamma; the occupancy of episodes of H steps is that of the model whose states are (step, state) and whose
last step leads to the start. So explorers, regrets and certificates need only the average criterion. The
pairs of the acting model are the entries of the occupancy set, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import FloatArray, Matrix, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, NotConvergedError
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import Plan, PlanStatus
from rhocover.planning.planner import plan_problem
from rhocover.planning.problem import AVERAGE, Criterion, Objective, PlanningProblem
from rhocover.theory.limits import Limits, PathwiseProblem, find_limits


def acting_model(members: Occupancies) -> MDP:
    """Returns the model in which a run of the set's criterion is one infinite trajectory."""
    if members.criterion == "average":
        return members.mdp
    if members.criterion == "discounted":
        return _restarting(members)
    return _unrolled(members)


def node_start(members: Occupancies, start: FloatArray) -> FloatArray:
    """Returns a start distribution over the acting model's states, from one over the model's."""
    if members.criterion != "horizon":
        return start
    result = np.zeros(members.flow.shape[0])
    first = members.step == 0
    states = members.mdp.pair_state[members.pair[first]]
    result[members.node[first]] = start[states]
    return result / result.sum()


def _restarting(members: Occupancies) -> MDP:
    """Returns the model that restarts with probability 1 - discount after each step."""
    mdp, discount, start = members.mdp, members.discount, members.start
    assert discount is not None
    assert start is not None
    again = sp.csr_array(np.ones((mdp.num_pairs, 1))) @ sp.csr_array(((1 - discount) * start)[None, :])
    return _model(members, discount * mdp.transitions + again)


def _unrolled(members: Occupancies) -> MDP:
    """Returns the model of (step, state) nodes; the last step leads to the start."""
    mdp, horizon = members.mdp, members.num_steps
    assert horizon is not None
    assert members.start is not None
    node = np.full((horizon, mdp.num_states), -1, np.int64)
    node[members.step, mdp.pair_state[members.pair]] = members.node
    moves = mdp.transitions[members.pair]
    entry = np.repeat(np.arange(members.num_pairs), np.diff(moves.indptr))
    inner = members.step[entry] < horizon - 1
    later = node[members.step[entry[inner]] + 1, moves.indices[inner]]
    shape = (members.num_pairs, members.flow.shape[0])
    onward = sp.csr_array((moves.data[inner], (entry[inner], later)), shape=shape)
    last = (members.step == horizon - 1).astype(float)
    back = sp.csr_array(last[:, None]) @ sp.csr_array(node_start(members, members.start)[None, :])
    return _model(members, onward + back)


def _model(members: Occupancies, rows: Matrix) -> MDP:
    actions = members.mdp.pair_action[members.pair]
    return MDP.from_pairs(rows, members.node, actions, name=members.mdp.name)


PLAN_TOLERANCE = 1e-10
SMALLEST_SHARE = 1e-9  # of 1/n: a pair with less is visited once and then no more
NEGLIGIBLE = 1e-3  # of 1/n: a pair without weight and with less is not visited on purpose
USABLE_GAP = 1e-3  # a plan with a larger gap cannot be used as a target


@dataclass(frozen=True, eq=False)
class Problem:
    """The model to act in, the objective over its pairs, and where runs start."""

    question: PlanningProblem  # of the caller, which has the shape of tables and the dropped pairs
    acting: PlanningProblem  # on the acting model, average criterion, weights that sum to 1
    start: FloatArray  # over the acting model's states
    tol: float = PLAN_TOLERANCE
    warm: FloatArray | None = None  # the potential of a plan for a similar model
    made: dict[str, Any] = field(default_factory=dict)  # cache of what explorers computed for this problem

    @property
    def mdp(self) -> MDP:
        """The acting model."""
        return self.acting.mdp

    @property
    def coverage(self) -> Coverage:
        """The objective over its pairs, with weights that sum to 1."""
        return self.acting.program.coverage

    @property
    def members(self) -> Occupancies:
        """Its occupancies, average criterion."""
        return self.acting.members

    @cached_property
    def best(self) -> Plan:
        """The best coverage that any behaviour reaches in the long run, in the acting model."""
        best = plan_problem(self.acting, self.tol, self.warm)
        if best.status is not PlanStatus.SOLVED and not best.gap <= USABLE_GAP:
            raise NotConvergedError(
                f"the run has no plan to follow: {best.status.value} at a gap of {best.gap:.2g}. "
                "Raise the smallest weights, or lower rho.",
                best,
            )
        return best

    @property
    def is_planned(self) -> bool:
        """Whether the best was already computed."""
        return "best" in self.__dict__

    def check_plan(self) -> None:
        """Raises if there is no usable plan, so that the error comes before the run begins."""
        _ = self.best

    @cached_property
    def d_star(self) -> FloatArray:
        """The best occupancy, per pair."""
        return frozen(self.mdp.per_pair(self.best.occupancy, "occupancy"))

    @property
    def idle(self) -> FloatArray:
        """1 for pairs without weight that the plan hardly visits, 0 elsewhere.

        It is added to the counts because visits are whole numbers: a pair with a tiny share would be behind
        its share until its first visit, and that visit would be wasted.
        """
        idle = ~self.coverage.support & (self.d_star < NEGLIGIBLE / self.d_star.size)
        return idle.astype(float)

    @cached_property
    def limits(self) -> Limits:
        """Limits that hold for every explorer."""
        return find_limits(self.members, self.coverage, self.d_star, self.best.potential)

    @cached_property
    def pathwise(self) -> PathwiseProblem:
        """The best coverage that a trajectory with given flow residuals could have had."""
        return PathwiseProblem(self.members, self.coverage)

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """Returns the result of `build`, computed at the first call with this name."""
        if name not in self.made:
            self.made[name] = build()
        return self.made[name]

    def table(self, values: Any) -> FloatArray:
        """Returns values per pair of the acting model in the caller's shape, `[S, A]` or `[H, S, A]`."""
        return self.question.table(np.asarray(values, float))

    def pair_name(self, pair: int) -> str:
        """Returns the pair's name in the caller's model, with its step where there is one."""
        members, question = self.question.members, self.question
        small = int(members.pair[pair])
        state, action = question.states[members.mdp.pair_state[small]], members.mdp.pair_action[small]
        same = (question.mdp.pair_state == state) & (question.mdp.pair_action == action)
        name = question.mdp.pair_name(int(np.flatnonzero(same)[0]))
        return name if members.num_steps is None else f"{name} at step {int(members.step[pair])}"

    @property
    def restriction(self) -> str:
        """What was dropped, and how this changes the start of the run; "" if nothing was dropped."""
        text, start = self.question.restriction, self.question.mdp.start
        if not text or start is None or self.question.members.criterion != "average":
            return text
        outside = 1 - float(start[self.question.states].sum())
        if outside <= 1e-12:
            return text
        return f"{text} The run starts in these; the model does so with probability {1 - outside:.3g}."


def make_problem(mdp: Any, objective: Objective, criterion: Criterion = AVERAGE) -> Problem:
    """Returns the checked problem; errors use the caller's names of arguments."""
    asked = criterion if criterion.has_restarts else replace(criterion, start=None)
    question = PlanningProblem.read(mdp, objective, asked)
    members = question.members
    begin = members.start if criterion.has_restarts else _checked_start(question, criterion.start)
    assert begin is not None
    if members.criterion == "average":
        return Problem(question, question.on_kept_pairs(), begin)
    weights = Objective(question.program.rho, question.program.coverage.mu_bar)
    acting = PlanningProblem.read(acting_model(members), weights)
    return Problem(question, acting, node_start(members, begin))


def _checked_start(question: PlanningProblem, start: Any) -> FloatArray:
    """Returns the start of a run without restarts: `start`, else the model's, else the first state."""
    kept, full = question.members.mdp, question.mdp
    if start is None:
        return kept.start if kept.start is not None else checks.distribution(0, "start", kept.num_states)
    start = checks.distribution(start, "start", full.num_states)
    inside = np.zeros(full.num_states, bool)
    inside[question.states] = True
    outside = np.flatnonzero((start > 0) & ~inside)
    if outside.size:
        raise InvalidArgumentError.of(
            "start",
            f"must lie in the end component that is explored: state {outside[0]} does not",
            remedy=f"Its states are {checks.name_some(question.states.tolist())}.",
        )
    return start[question.states]


def positive_shares(d: FloatArray) -> FloatArray:
    """Returns an occupancy, slightly positive everywhere, so that one can divide by it."""
    return np.maximum(d, SMALLEST_SHARE / d.size)
