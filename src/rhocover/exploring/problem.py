"""What an explorer is given: a model to act in, an objective, and the best that can be reached.

Arguments are checked as for `plan`. Pairs that cannot be visited for ever are refused or dropped; runs that
restart become long runs (see `restarts`); weights are normalised, so that no reported number depends on
their scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError, NotConvergedError
from rhocover.exploring.restarts import acting_model, node_start
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning import Plan, PlanStatus, plan
from rhocover.planning.problem import Problem as Question
from rhocover.planning.problem import read_problem
from rhocover.theory.limits import Limits, PathwiseProblem, find_limits

PLAN_TOLERANCE = 1e-10
USABLE_GAP = 1e-3  # a plan that stalled above this is no target


@dataclass(frozen=True, eq=False)
class Problem:
    """The acting model `mdp`, the objective over its pairs, and where runs start."""

    question: Question  # as the caller asked it: tables, dropped pairs
    mdp: MDP
    coverage: Coverage  # with weights that sum to 1
    members: Occupancies  # of the acting model, average criterion
    start: FloatArray  # over the acting model's states
    tol: float = PLAN_TOLERANCE
    warm: FloatArray | None = None  # the potential of a plan for a similar model
    made: dict[str, Any] = field(default_factory=dict)  # what explorers built for this problem

    @cached_property
    def best(self) -> Plan:
        """The best coverage that any behaviour reaches in the long run, in the acting model."""
        rho, mu = self.coverage.rho, self.coverage.mu
        best = plan(self.mdp, rho, mu, tol=self.tol, throw=False, warm=self.warm)
        if best.status is not PlanStatus.SOLVED and not best.gap <= USABLE_GAP:
            raise NotConvergedError(
                f"there is no plan to steer towards: {best.status.value} at a gap of {best.gap:.2g}. "
                "Raise the smallest weights, or lower rho.",
                best,
            )
        return best

    @property
    def is_planned(self) -> bool:
        """Whether the best was asked for yet."""
        return "best" in self.__dict__

    def check_plan(self) -> None:
        """Raises if there is no plan to steer towards: better before a run begins than in its midst."""
        _ = self.best

    @cached_property
    def d_star(self) -> FloatArray:
        """The best occupancy, per pair."""
        return frozen(self.mdp.per_pair(self.best.occupancy, "occupancy"))

    @cached_property
    def limits(self) -> Limits:
        """What nobody can do better."""
        return find_limits(self.members, self.coverage, self.d_star, self.best.potential)

    @cached_property
    def pathwise(self) -> PathwiseProblem:
        """The best coverage that a trajectory with given flow residuals could have had."""
        return PathwiseProblem(self.members, self.coverage)

    def once(self, name: str, build: Callable[[], Any]) -> Any:
        """Returns what `build` makes, made at the first call of this name."""
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
        """What was dropped, and where the run starts instead if that is concerned; "" if nothing."""
        text, start = self.question.restriction, self.question.mdp.start
        if not text or start is None or self.question.members.criterion != "average":
            return text
        outside = 1 - float(start[self.question.states].sum())
        if outside <= 1e-12:
            return text
        return f"{text} The run starts within what remains, where the model does with {1 - outside:.3g}."


def make_problem(
    mdp: Any, rho: Any, mu: Any, *, discount: Any = None, horizon: Any = None, start: Any = None,
    restrict: bool = False,
) -> Problem:  # fmt: skip
    """Returns the checked problem; refuses what is wrong, by the caller's own names."""
    restarts = discount is not None or horizon is not None
    question = read_problem(mdp, rho, mu, discount, horizon, start if restarts else None, 0.0, restrict)
    model = acting_model(question.members)
    coverage = Coverage(question.program.rho, question.program.coverage.mu_bar)
    begin = question.members.start if restarts else _checked_start(question, start)
    assert begin is not None
    members = Occupancies.average(model)
    return Problem(question, model, coverage, members, node_start(question.members, begin))


def _checked_start(question: Question, start: Any) -> FloatArray:
    """Returns where a run without restarts begins: as asked, else as the model says, else its first state."""
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
            remedy=f"Its {question.states.size} states are {checks.name_some(question.states.tolist())}.",
        )
    return start[question.states]
