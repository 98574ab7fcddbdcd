"""Unknown dynamics: the belief is a model estimated from the observed transitions.

Before the first step a learner knows a frame: the numbering of states and actions, where the run began, and
the objective. States are added when they are met, each with its actions. The problem to plan on is the
estimated model of the states met so far, with their weights. It is made anew when t has grown by a factor,
and whenever a phase of discovery ends (see `discovery`); in between, the explorer tracks the plan it has.
This costs little: the optimum is interior, so a model error of t^-1/2 costs 1/t of coverage. It also helps:
in the model of its own transitions a trajectory has no flow residual, so each new plan corrects for the
random fluctuations of the run so far.

With `know_states=False` even the number of states is not known: there may always be more. With `sample=True`
the explorer plans on a draw from the posterior instead of its mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import InvalidArgumentError, parse_text
from rhocover.exploring.problem import Problem
from rhocover.exploring.worlds import (
    Behaviour,
    Index,
    OpenIndex,
    Visits,
    checked_behaviour,
    counts_of_moves,
    placed,
)
from rhocover.learning.estimate import SMOOTHING, Estimate
from rhocover.learning.rules import Rule
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies
from rhocover.planning.problem import Objective, PlanningProblem
from rhocover.printing import count_of


@dataclass(frozen=True, eq=False)
class Frame:
    """What a learner may know before the first step: numbers of states and actions, roots, the objective.

    `world` and `members` are used for their index only: which action of which state a pair is. Their
    probabilities are not read.
    """

    world: Index
    members: Occupancies | None  # of the caller's criterion: which step and pair a pair of the world is
    rho: float
    mu: FloatArray | None  # per pair of the world; None if a rule computes it
    rule: Rule | None
    roots: IntArray
    seed: int

    def counts(self, moves: IntArray) -> sp.csr_array:
        """Returns how often each state followed each pair, `[n, S]` of the world."""
        return counts_of_moves(self.world, moves)

    def grown(self, index: Index) -> Frame:
        """Returns the frame with the states and pairs that have been met since."""
        if not isinstance(index, OpenIndex):
            return self
        mu = self.mu if self.mu is None else index.weights
        return replace(self, world=index, mu=mu, roots=index.roots)


@dataclass(frozen=True, eq=False)
class Known:
    """The part of the world that is known: its states, their pairs, and the estimate over them."""

    states: IntArray  # the world's numbers, in order
    pairs: IntArray
    estimate: Estimate


def met_states(frame: Frame, counts: sp.csr_array) -> BoolArray:
    """Returns which states of the world were met: a run began there, or a transition led there."""
    met = np.full(frame.world.num_states, isinstance(frame.world, OpenIndex))
    met[frame.roots] = True
    met[counts.indices] = True
    return met


def allowed_pairs(world: Index) -> BoolArray:
    """Returns which pairs of the world can be played, `[n]`."""
    allowed = world.allowed if isinstance(world, OpenIndex) else None
    return np.ones(world.num_pairs, bool) if allowed is None else allowed


def make_known(frame: Frame, moves: IntArray, *, met_only: bool, smoothing: float) -> Known:
    """Returns what is known from the transitions `moves`, for the states met or for all states."""
    world = frame.world
    counts = frame.counts(moves)
    met = met_states(frame, counts) if met_only else np.ones(world.num_states, bool)
    states, pairs = np.flatnonzero(met), np.flatnonzero(met[world.pair_state] & allowed_pairs(world))
    number = np.cumsum(met) - 1
    if pairs.size < world.num_pairs:
        counts = counts[pairs]
        shape = (pairs.size, states.size)
        counts = sp.csr_array((counts.data, number[counts.indices], counts.indptr), shape=shape)
    estimate = Estimate(
        counts, number[world.pair_state[pairs]], world.pair_action[pairs], world.num_actions,
        number[frame.roots], smoothing, world.name,
    )  # fmt: skip
    return Known(states, pairs, estimate)


LEAST_ORDER, VISITS_PER_ORDER = 2.0, 4  # a plan's order is at most a quarter of the visits per pair
LEAST_WEIGHT = 1e-3  # of the largest, at rho = 0
PLAN_TOLERANCE = 1e-7  # of a plan on an estimate, whose own error is far larger


def estimated_problem(
    frame: Frame, known: Known, num_steps: int, *, sample: bool, warm: FloatArray | None
) -> Problem:
    """Returns the problem after `num_steps`: the estimate or a draw from the posterior, with its weights.

    `warm` is the potential of the last plan over the world's states.
    """
    estimate = known.estimate
    model = estimate.model
    if sample:
        model = estimate.sample(np.random.default_rng([frame.seed, num_steps]))
    rho = min(frame.rho, order_of(num_steps, known.pairs.size))
    weights = Coverage(rho, checked_weights(_weights_now(frame, known, num_steps), "mu")).mu_bar
    question = PlanningProblem.read(model, Objective(rho, weights))
    start = np.zeros(estimate.num_states)
    start[estimate.roots] = 1 / estimate.roots.size
    warm = None if warm is None else warm[known.states]
    return Problem(question, question, start, tol=PLAN_TOLERANCE, warm=warm)


def _weights_now(frame: Frame, known: Known, num_steps: int) -> FloatArray:
    """Returns the weights; if a rule failed, the error also says after how many steps and pairs."""
    try:
        return weights_of(frame, known)
    except InvalidArgumentError as error:
        error.add_remedy(
            parse_text(
                f"The rule for `mu` returned this after {count_of(num_steps, 'step')}, for the "
                f"{count_of(known.pairs.size, 'pair')} met so far."
            )
        )
        raise


def order_of(num_steps: int, num_pairs: int) -> float:
    """Returns the largest order to plan with after `num_steps`.

    At rho = inf the best occupancy is often not unique, and where it is, a small change of the estimate moves
    it far: visits could not follow. Orders that grow with the visits per pair have the same limit.
    """
    return max(LEAST_ORDER, num_steps / (VISITS_PER_ORDER * num_pairs))


def weights_of(frame: Frame, known: Known) -> FloatArray:
    """Returns the weights of the known pairs; ones while all of them are zero."""
    if frame.rule is not None:
        return _by_rule(frame.rule, frame.rho, known.estimate)
    assert frame.mu is not None
    weights = frame.mu[known.pairs]
    return weights if weights.any() else np.ones(weights.size)


def _by_rule(rule: Rule, rho: float, estimate: Estimate) -> FloatArray:
    """Returns the weights that a rule computes from the estimate; ones while all of them are zero.

    At rho = 0 a weight of zero would forbid the pair, and an estimated weight may be zero by chance.
    """
    weights = estimate.model.per_pair(rule(estimate), "mu")
    if not weights.any():
        return np.ones(weights.size)
    weights = checked_weights(weights, "mu")
    return np.maximum(weights, LEAST_WEIGHT * weights.max()) if rho == 0 else weights


@dataclass(frozen=True)
class Learned:
    """How to learn: `growth` of t between two plans, `smoothing` of the estimate, prior knowledge."""

    growth: float = 1.2
    smoothing: float = SMOOTHING
    know_states: bool = True
    sample: bool = False
    discovery: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "growth", checks.number(self.growth, "growth"))
        object.__setattr__(self, "smoothing", checks.positive(self.smoothing, "smoothing"))
        if not 1 < self.growth < np.inf:
            raise InvalidArgumentError.of("growth", "must be above 1", f"{self.growth:g}")
        for name in ("know_states", "sample", "discovery"):
            object.__setattr__(self, name, _truth(getattr(self, name), name))
        if not self.know_states and not self.discovery:
            raise InvalidArgumentError(
                "`know_states`=False needs `discovery`=True: only discovery looks for unknown states.",
                argument="know_states",
            )


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError.of(name, "must be True or False", repr(value))
    return bool(value)


def model_index(belief: LearnedModel) -> MDP:
    """Returns the true model, for explorers that need its states and successors."""
    world = belief.frame.world
    if not isinstance(world, MDP):
        raise InvalidArgumentError.of("explorer", "needs a model whose states and successors are known")
    return world


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """The belief after some blocks; its problem was made from `renewed_moves` after `renewed_steps`."""

    settings: Learned
    frame: Frame
    scope: str  # "met": the states met so far; "all": every state that exists
    moves: IntArray
    num_steps: int = 0
    renewed_moves: IntArray | None = None  # None: before the first step
    renewed_steps: int = 0
    potential: FloatArray | None = None  # of the last plan, per state of the world
    last_potential: FloatArray | None = None  # of the plan on this problem, if a checkpoint had it
    is_outdated: bool = False  # something was discovered that the problem does not have
    made: dict[str, Any] = field(default_factory=dict)  # cache of what was computed for this problem

    @property
    def is_due(self) -> bool:
        """Whether t has grown by the factor, or something was discovered."""
        return self.is_outdated or self.num_steps >= self._next_plan() or self._has_grown()

    def _has_grown(self) -> bool:
        """Whether there are new pairs; without discovery, these need a new problem at once."""
        num_pairs = int(allowed_pairs(self.frame.world).sum())
        return self.scope == "all" and self.planned.pairs.size < num_pairs

    @property
    def counts(self) -> IntArray:
        """Visits of the problem's pairs when it was made."""
        return self.planned.estimate.visits

    @property
    def patience(self) -> int:
        """Steps until t has grown by the factor, at least one."""
        return max(1, self._next_plan() - self.num_steps)

    def _next_plan(self) -> int:
        return max(self.renewed_steps + 1, int(np.ceil(self.settings.growth * self.renewed_steps)))

    def observe(self, visits: Visits) -> LearnedModel:
        """Returns the belief after a block: new counts, and the same problem as before."""
        return self.at(visits, self.num_steps + visits.num_steps)

    def at(self, visits: Visits, num_steps: int) -> LearnedModel:
        """Returns the belief after `num_steps` in total."""
        frame = self.frame.grown(visits.index)
        return dataclasses.replace(self, frame=frame, moves=visits.moves.copy(), num_steps=num_steps)

    def outdated(self) -> LearnedModel:
        """Returns the belief, marked as needing a new problem."""
        return dataclasses.replace(self, is_outdated=True)

    def renewed(self) -> LearnedModel:
        """Returns the belief with a problem made from all observations so far."""
        return dataclasses.replace(
            self, renewed_moves=self.moves, renewed_steps=self.num_steps, potential=self._last_potential(),
            made={"known": self.known}, is_outdated=False, last_potential=None,
        )  # fmt: skip

    def _last_potential(self) -> FloatArray | None:
        """Returns the potential of the last plan over the world's states; 0 for states it did not know."""
        problem = self.made.get("problem")
        if problem is None or not problem.is_planned:
            before = self.potential if self.last_potential is None else self.last_potential
            return None if before is None else self._over_states(np.arange(before.size), before)
        return self._over_states(self.planned.states, problem.best.potential)

    def _over_states(self, states: IntArray, values: FloatArray) -> FloatArray:
        """Returns values of some states as an array over all states; 0 for the others."""
        result = np.zeros(self.frame.world.num_states)
        result[states] = values
        return result

    @cached_property
    def known(self) -> Known:
        """What is known now."""
        return self._known(self.moves)

    @property
    def planned(self) -> Known:
        """What was known when the problem was made."""
        return self._once("known", lambda: self._known(self._renewed_moves))

    @property
    def _renewed_moves(self) -> IntArray:
        return np.zeros_like(self.moves) if self.renewed_moves is None else self.renewed_moves

    @property
    def problem(self) -> Problem:
        """The problem of the estimated model."""
        return self._once("problem", self._make_problem)

    def _make_problem(self) -> Problem:
        return estimated_problem(
            self.frame, self.planned, self.renewed_steps, sample=self.settings.sample, warm=self.potential
        )

    def _known(self, moves: IntArray) -> Known:
        met_only, smoothing = self.scope == "met", self.settings.smoothing
        return make_known(self.frame, moves, met_only=met_only, smoothing=smoothing)

    def _once(self, name: str, build: Callable[[], Any]) -> Any:
        """Returns the result of `build`, computed once per problem."""
        if name not in self.made:
            self.made[name] = build()
        return self.made[name]

    def own(self, visits: Visits) -> Visits:
        """Returns the visits of the problem's pairs; `moves` stays over the world's."""
        return dataclasses.replace(visits, pairs=visits.pairs[self.planned.pairs])

    def place(self, behaviour: Behaviour) -> Behaviour:
        """Returns a behaviour over the problem's pairs as one over the world's."""
        behaviour = checked_behaviour(behaviour, self.problem.mdp)
        return placed(behaviour, self.planned.pairs, self.frame.world.num_pairs)

    def spread(self, values: FloatArray) -> FloatArray:
        """Returns values of the problem's pairs as those of the world's; 0 for pairs it does not know."""
        result = np.zeros(self.frame.world.num_pairs)
        result[self.planned.pairs] = values
        return result

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns the current counts and those that the problem was made from."""
        steps = np.array([self.num_steps, self.renewed_steps])
        tensors = {"moves": self.moves, "renewed_moves": self._renewed_moves, "steps": steps}
        last = self._last_potential()
        tensors |= {} if self.potential is None else {"potential": self.potential}
        return tensors if last is None else tensors | {"last_potential": last}

    def restored(self, tensors: dict[str, np.ndarray]) -> LearnedModel:
        """Returns the belief that `tensors` were taken from; refuses invalid counts."""
        steps = tensors["steps"].astype(np.int64, casting="safe")
        for name, total in (("moves", steps[0]), ("renewed_moves", steps[1])):
            moves = tensors[name]
            if moves.dtype != np.int64 or moves.shape != self.moves.shape or moves.min(initial=0) < 0:
                raise ValueError(f"belief.{name} must be non-negative int64 counts of transitions")
            if moves.sum() != total:
                raise ValueError(f"belief.{name} must add up to {total} steps")
        return dataclasses.replace(
            self, moves=tensors["moves"], renewed_moves=tensors["renewed_moves"],
            num_steps=int(steps[0]), renewed_steps=int(steps[1]), potential=tensors.get("potential"),
            last_potential=tensors.get("last_potential"),
        )  # fmt: skip
