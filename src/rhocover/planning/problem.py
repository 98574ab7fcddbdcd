"""A planning problem: the caller's arguments, checked, on the pairs that can have a positive occupancy.

Other pairs are refused or dropped here, so that in the sets that solvers get every pair can have positive
occupancy. Afterwards results are put into tables of the caller's shape.

Under the average criterion d is a circulation: d_i > 0 is possible exactly when pair i lies in an end
component, and one trajectory stays in one of them. So all weighted pairs must lie in one maximal end
component. Under the discounted criterion the trajectory restarts again and again, and a pair can be visited
if its state can be reached from the start. A weighted pair without occupancy makes the divergence infinite
for every rho >= 1, so it is refused by name or, with `restrict`, dropped and reported. Pairs without weight
outside the kept part are never refused: they are dropped, and reported with a weight of 0.

The kept pairs are closed, so `mdp.subset(structure.kept)` is a model.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rhocover import checks
from rhocover.chains import EndComponents, maximal_end_components, reachable_states
from rhocover.checks import BoolArray, FloatArray, IntArray, frozen
from rhocover.coverage import Coverage, checked_weights
from rhocover.errors import (
    Call,
    InvalidArgumentError,
    NotCommunicatingError,
    RhocoverError,
    Setting,
    Text,
    join_texts,
    parse_text,
    short_names,
    unknown_name,
)
from rhocover.mdp import MDP, check_mdp
from rhocover.occupancy import Occupancies
from rhocover.planning.program import (
    Multipliers,
    Program,
    Rows,
    flow_rows,
    make_program,
    rounding_of_point,
    slack_of_point,
)
from rhocover.printing import count_of
from rhocover.weights import NAMED

# The pairs that can have a positive occupancy.

# Models never change, so components are found once; they are freed with their model.
_FOUND: WeakKeyDictionary[MDP, tuple[EndComponents, BoolArray]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Structure:
    """The pairs to plan on, `kept` `[n]`, and those dropped, with their share of the weight in [0, 1].

    `num_components` counts the maximal end components (1 if restarts connect everything), `reason` says
    briefly why the dropped pairs cannot have an occupancy.
    """

    kept: BoolArray
    dropped_pairs: IntArray
    dropped_weight: float
    num_components: int
    reason: str

    def describe(self, mdp: MDP) -> str:
        """Returns a paragraph about what was dropped; empty if nothing was."""
        if not self.dropped_pairs.size and self.dropped_weight == 0:
            return ""
        if not self.dropped_pairs.size:
            return f"Dropped {self.dropped_weight:.3g} of the weight ({self.reason})."
        num_states = np.unique(mdp.pair_state[self.kept]).size
        return (
            f"Dropped {self.dropped_pairs.size} of {count_of(mdp.num_pairs, 'pair')} with "
            f"{self.dropped_weight:.3g} of the weight ({self.reason}): {_names(mdp, self.dropped_pairs)}. "
            f"{count_of(int(self.kept.sum()), 'pair')} of {count_of(num_states, 'state')} remain."
        )


def average_structure(mdp: MDP, mu: Any, *, restrict: bool) -> Structure:
    """Returns the end component to plan on; raises unless it has all the weight or `restrict` is set.

    It is the one with the most weight; among equals the one with more pairs, then with the lowest state.
    If the model has a start, only components that can be reached from it are considered.
    """
    mu = _weights_of_pairs(mdp, mu)
    components, reached = components_of(mdp)
    best = _heaviest(mu, components, reached)
    kept = components.pair_label == best
    if best < 0 or (not restrict and (mu[~kept] > 0).any()):
        raise _not_communicating(mdp, mu, components, reached, best)
    causes = _by_cause(components, reached, best)
    text = {"transient": "in no end component", "elsewhere": "in another", "unreached": "in one out of reach"}
    reason = ", ".join(f"{where.sum()} {text[cause]}" for cause, where in causes.items() if where.any())
    return _make_structure(mu, kept, components.count, reason)


def reachable_structure(mdp: MDP, mu: Any, start: Any, *, restrict: bool) -> Structure:
    """Returns the pairs whose state `start` reaches; raises if weight lies elsewhere, unless `restrict`."""
    mu = _weights_of_pairs(mdp, mu)
    reached = reachable_states(mdp, start)
    kept = reached[mdp.pair_state]
    lost = np.flatnonzero((mu > 0) & ~kept)
    left = bool((mu[kept] > 0).any())
    if lost.size and not (restrict and left):
        within = count_of(int(reached.sum()), "state")
        remedy = parse_text(f"Pass `restrict=True` to plan on the {within} within reach.")
        raise _refusal(mdp, lost, _unreached(mdp, lost), remedy if left else _NOTHING_LEFT)
    return _make_structure(mu, kept, 1, "out of reach of the start")


def horizon_structure(mdp: MDP, mu: Any, reached: BoolArray, *, restrict: bool) -> Structure:
    """Returns the pairs that some step of an episode reaches; `reached` is `[H, S, A]`.

    Weights `[S, A]` are for the steps that reach the pair. Weights `[H, S, A]` are for particular steps, so
    weight on a step that is out of reach is refused, or dropped and reported.
    """
    ever: BoolArray = np.logical_or.reduce(reached, axis=0)
    weights = np.ones(ever.shape) if mu is None else np.asarray(mu, dtype=float)
    if weights.shape == (mdp.num_pairs,):
        weights = mdp.table(weights)
    possible = reached if weights.shape == reached.shape else ever
    if weights.shape != possible.shape:  # one weight for each entry of the set, all of them reached
        weights = possible.astype(float)
    weights = np.where(mdp.table(np.ones(mdp.num_pairs)) > 0, weights, 0.0)
    lost = (weights > 0) & ~possible
    if lost.any() and not restrict:
        somewhere: BoolArray = np.logical_or.reduce(lost.reshape(-1, *ever.shape), axis=0)
        pairs = np.flatnonzero(somewhere[mdp.pair_state, mdp.pair_action])
        where = f"within {count_of(len(reached), 'step')} of the start, at the steps that have weight"
        text = f"{count_of(pairs.size, 'pair')} cannot be reached {where}: {_names(mdp, pairs)}."
        raise _refusal(mdp, pairs, text, parse_text("Pass `restrict=True` to leave them out."))
    share = weights / weights.max()
    dropped = np.flatnonzero(~ever[mdp.pair_state, mdp.pair_action])
    weight = float(share[lost].sum() / share.sum())
    kept = frozen(ever[mdp.pair_state, mdp.pair_action])
    return Structure(kept, frozen(dropped), weight, 1, "out of reach within the horizon")


def _weights_of_pairs(mdp: MDP, mu: Any) -> FloatArray:
    checks.check_nonnegative(checks.float_array(mu, "mu"), "mu")  # named as the caller wrote it
    mu = mdp.per_pair(mu, "mu")
    if not (mu > 0).any():
        raise InvalidArgumentError.of("mu", "must be positive for at least one pair", "zeros only")
    return mu


def _make_structure(mu: FloatArray, kept: BoolArray, num_components: int, reason: str) -> Structure:
    share = mu / mu.max()  # so that the sum cannot overflow
    weight = float(share[~kept].sum() / share.sum())
    return Structure(frozen(kept), frozen(np.flatnonzero(~kept)), weight, num_components, reason)


def components_of(mdp: MDP) -> tuple[EndComponents, BoolArray]:
    """Returns the components and which of them the start reaches, computed once per model."""
    if mdp not in _FOUND:
        components = maximal_end_components(mdp)
        _FOUND[mdp] = components, _reached_components(mdp, components)
    return _FOUND[mdp]


def _reached_components(mdp: MDP, components: EndComponents) -> BoolArray:
    """Returns which components the model's start reaches, shape `[count]`; without a start, all."""
    if mdp.start is None:
        return np.ones(components.count, bool)
    labels = components.state_label[reachable_states(mdp, mdp.start)]
    return np.bincount(labels[labels >= 0], minlength=components.count) > 0


def reachable_part(mdp: MDP) -> BoolArray:
    """Returns which pairs `[n]` can be visited again and again after the model's start, if it has one."""
    components, reached = components_of(mdp)
    return (components.pair_label >= 0) & np.append(reached, False)[components.pair_label]


def num_weighted_components(mdp: MDP, mu: FloatArray) -> int:
    """Returns in how many end components within reach of the start some pair has weight."""
    components, reached = components_of(mdp)
    labels = components.pair_label[mu > 0]
    return int(reached[np.unique(labels[labels >= 0])].sum())


def _heaviest(mu: FloatArray, components: EndComponents, reached: BoolArray) -> int:
    """Returns the component to plan on, or -1 if none within reach has weight."""
    inside = components.pair_label >= 0
    labels, share = components.pair_label[inside], mu[inside] / mu.max()
    weight = np.where(reached, np.bincount(labels, share, components.count), 0.0)
    if not (weight > 0).any():
        return -1
    tied = weight >= weight.max() * (1 - 1e-12)  # sums of the same weights in another order
    size = np.bincount(labels, minlength=components.count)
    return int(np.argmax(np.where(tied, size, 0)))  # the first: components are ordered by lowest state


def _by_cause(components: EndComponents, reached: BoolArray, best: int) -> dict[str, BoolArray]:
    """Returns, per cause, which pairs `[n]` cannot have an occupancy because of it."""
    label = components.pair_label
    within = (label >= 0) & np.append(reached, False)[label]  # label -1 reads the appended entry
    return {
        "transient": label < 0,
        "elsewhere": within & (label != best),
        "unreached": (label >= 0) & ~within,
    }


_NOTHING_LEFT = "No other pair has weight: give weight to pairs that can be visited again and again."


def _not_communicating(
    mdp: MDP, mu: FloatArray, components: EndComponents, reached: BoolArray, best: int
) -> NotCommunicatingError:
    """Returns the error that names the weighted pairs, cause by cause, and the remedies."""
    say = {"transient": _transient, "elsewhere": _elsewhere, "unreached": _unreached}
    causes = {
        cause: np.flatnonzero(where & (mu > 0))
        for cause, where in _by_cause(components, reached, best).items()
    }
    text = join_texts(*(say[cause](mdp, pairs) for cause, pairs in causes.items() if pairs.size))
    num_states = int((components.state_label == best).sum())
    largest = count_of(num_states, "state")
    remedy = parse_text(f"Pass `restrict=True` to plan on the end component of {largest}.")
    pairs = np.sort(np.concatenate(list(causes.values())))
    return _refusal(mdp, pairs, text, remedy if best >= 0 else _NOTHING_LEFT)


def _transient(mdp: MDP, pairs: IntArray) -> str:
    return f"{count_of(pairs.size, 'pair')} can never be visited again once left: {_names(mdp, pairs)}."


def _elsewhere(mdp: MDP, pairs: IntArray) -> Text:
    return (
        f"The weight lies in several end components, and one trajectory stays in one of them; "
        f"{count_of(pairs.size, 'pair')} outside the heaviest: {_names(mdp, pairs)}. To connect them, pass ",
        Call("discount= or horizon=", "--discount or --horizon"),
        ".",
    )


def _unreached(mdp: MDP, pairs: IntArray) -> str:
    return f"{count_of(pairs.size, 'pair')} cannot be reached from the start: {_names(mdp, pairs)}."


def _refusal(mdp: MDP, pairs: IntArray, message: Text, remedy: Text) -> NotCommunicatingError:
    named = zip(mdp.pair_state[pairs].tolist(), mdp.pair_action[pairs].tolist(), strict=True)
    return NotCommunicatingError(message, list(named), argument="mu", remedy=remedy)


def _names(mdp: MDP, pairs: IntArray, limit: int = 8) -> str:
    """Returns the names of the first pairs and how many more there are."""
    shown = ", ".join(short_names([mdp.pair_name(int(pair)) for pair in pairs[:limit]]))
    return f"{shown} and {pairs.size - limit} more" if pairs.size > limit else shown


# The problem.


def weights_of(mdp: MDP, mu: Any) -> Any:
    """Returns the weights that a name or a function of the model describes; anything else as it is."""
    if isinstance(mu, str):
        if mu not in NAMED:
            raise unknown_name(parse_text("weights for `mu`"), mu, tuple(NAMED), argument="mu")
        return NAMED[mu](mdp)
    return checks.one_argument(mu, "mu", "the model")(mdp) if callable(mu) else mu


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective: the order `rho` and the weights `mu`, as the caller gave them."""

    rho: Any
    mu: Any = None  # None: equal weights


@dataclass(frozen=True, eq=False)
class Criterion:
    """The set of occupancies: long-run ones, or those of runs from `start`; whether to drop pairs."""

    discount: Any = None
    horizon: Any = None
    start: Any = None
    restrict: bool = False

    @property
    def has_restarts(self) -> bool:
        """Whether runs restart: with some probability, or after a number of steps."""
        return self.discount is not None or self.horizon is not None

    def occupancies(self, mdp: MDP, eta: Any = 0.0) -> Occupancies:
        """Returns the set over all pairs of the model."""
        return Occupancies.of(mdp, discount=self.discount, horizon=self.horizon, start=self.start, eta=eta)


AVERAGE = Criterion()


LONG_RUN = "long-run visits"


def counted_visits(discount: float | None = None, horizon: int | None = None) -> str:
    """Returns a description of the visits that count."""
    if horizon is not None:
        return f"visits in episodes of {count_of(horizon, 'step')}"
    return LONG_RUN if discount is None else f"visits discounted by {discount:g}"


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """A checked problem: `members` has the kept pairs of `mdp`, `states` their old state numbers."""

    mdp: MDP
    members: Occupancies
    program: Program
    rows: Rows
    states: IntArray
    kept: BoolArray
    restriction: str

    @classmethod
    def read(
        cls, mdp: Any, objective: Objective, criterion: Criterion = AVERAGE, eta: Any = 0.0
    ) -> PlanningProblem:
        """Returns the checked problem; errors use the caller's names of arguments."""
        check_mdp(mdp)
        rho, mu = objective.rho, objective.mu
        full = criterion.occupancies(mdp, eta)
        mu = None if mu is None else _read_weights(mdp, weights_of(mdp, mu))
        weights = np.ones(full.num_pairs) if mu is None else full.flatten(mu, "mu")
        if mu is not None:
            checked_weights(mu, "mu")
        structure = _structure(full, mu, weights, criterion.restrict)
        coverage = Coverage(rho, checked_weights(weights, "mu"))
        members, kept_weights, states = _kept(full, weights, structure)
        if kept_weights is not weights:
            coverage = Coverage(rho, kept_weights)
        if coverage.rho == 0 and not coverage.support.all():
            raise InvalidArgumentError(
                "rho=0 measures KL(d || mu), which is infinite once a pair of zero weight is visited.",
                argument="mu",
                remedy=("Pass ", Setting("rho", "0.05"), ", a small order, or give every pair some weight."),
            )
        members.check_floor()
        rows = flow_rows(members)
        program = make_program(members, coverage, rows)
        return cls(mdp, members, program, rows, states, structure.kept, structure.describe(mdp))

    def on_kept_pairs(self) -> PlanningProblem:
        """Returns the same problem on the model of the kept pairs, with weights that sum to 1."""
        mdp, members = self.members.mdp, self.members
        coverage = Coverage(self.program.rho, self.program.coverage.mu_bar)
        return PlanningProblem(
            mdp, members, make_program(members, coverage, self.rows), self.rows,
            np.arange(mdp.num_states), np.ones(mdp.num_pairs, bool), "",
        )  # fmt: skip

    def table(self, d: FloatArray) -> FloatArray:
        """Returns values per entry as a table over all of the caller's states and actions."""
        small = self.members.table(d)
        if self.states.size == self.mdp.num_states:
            return small
        large = np.zeros((*small.shape[:-2], self.mdp.num_states, self.mdp.num_actions))
        large[..., self.states, :] = small
        return large

    def policy_table(self, d: FloatArray) -> FloatArray:
        """Returns the policy of d as a table; dropped states choose uniformly among their actions."""
        policy = self.members.to_policy(d)
        if self.kept.all() and self.members.num_steps is None:
            return policy
        policy = self.table(self.members.flatten(policy, "policy"))
        allowed = self.mdp.table(np.ones(self.mdp.num_pairs))
        uniform = allowed / allowed.sum(axis=1, keepdims=True)
        return np.where(policy.sum(axis=-1, keepdims=True) > 0, policy, uniform)

    def potential_table(self, multipliers: Multipliers) -> FloatArray:
        """Returns the potential of each state, `[S]` or `[H, S]`; nan where the problem has none."""
        members = self.members
        nu = self.rows.potential(multipliers.nu)
        if members.criterion != "average":
            nu = nu + multipliers.alpha * members.unit_potential()
        shape = (*members.shape[:-2], self.mdp.num_states)
        result = np.full(shape, np.nan)
        states = self.states[members.mdp.pair_state[members.pair]]
        result[states if members.num_steps is None else (members.step, states)] = nu[members.node]
        return result


def _read_weights(mdp: MDP, mu: Any) -> FloatArray:
    """Returns the weights in the caller's shape; one value per pair becomes `[S, A]`."""
    mu = checks.float_array(mu, "mu")
    checks.check_nonnegative(mu, "mu")
    return mdp.table(mu) if mu.shape == (mdp.num_pairs,) else mu


def _structure(full: Occupancies, mu: Any, weights: FloatArray, restrict: bool) -> Structure:
    if full.criterion == "average":
        return average_structure(full.mdp, weights, restrict=restrict)
    if full.criterion == "discounted":
        return reachable_structure(full.mdp, weights, full.start, restrict=restrict)
    return horizon_structure(full.mdp, mu, full.table(np.ones(full.num_pairs)) > 0, restrict=restrict)


def _kept(
    full: Occupancies, weights: FloatArray, structure: Structure
) -> tuple[Occupancies, FloatArray, IntArray]:
    """Returns the set, the weights and the old state numbers after dropping pairs.

    A horizon set contains only what can be reached, so nothing is dropped from it.
    """
    if full.num_steps is not None or structure.kept.all():
        return full, weights, np.arange(full.mdp.num_states)
    mdp, states = full.mdp.subset(structure.kept)
    start = None if full.start is None else full.start[states]
    members = Occupancies.of(mdp, discount=full.discount, start=start, eta=full.eta)
    return members, weights[structure.kept], states


def leximin_multipliers(members: Occupancies, rows: Rows, dual: FloatArray) -> Multipliers:
    """Returns a linear program's row multipliers in the form of a certificate."""
    if members.criterion != "average":
        return Multipliers(rows.multipliers(dual), 0.0)
    return Multipliers(rows.multipliers(dual[:-1]), float(dual[-1]))


# The visits of the policy behind a solver's point, and what the point's own errors may cost.

EVALUATED_STATES = 100_000  # up to this size, evaluating the policy is faster than planning
FLOW_ROUNDING = 1e-13  # of a row, relative to the flow through it


def visits_of_policy(
    problem: PlanningProblem, d: FloatArray, multipliers: Multipliers, tol: float
) -> tuple[FloatArray, float]:
    """Returns the occupancy of the policy of a solver's point d, and what to add to the gap for its errors.

    The policy amplifies the point's residuals of the flow equations, the more the slower its chain mixes:
    1e-10 can become nats. So the policy's own visits are computed, each entry to 14 digits. Above 100,000
    states that takes longer than planning. There, for a finite rho, the point itself is used if the flow of
    every state and of every nearly closed part holds up to rounding. To first order, evaluation would change
    the divergence by the residual times the potentials, and this is added to the gap.
    """
    program, members = problem.program, problem.members
    d = _linked(problem, np.maximum(d, 0.0), 0.25 * tol)
    is_large = d.size > 0 and members.flow.shape[0] > EVALUATED_STATES and program.rho < np.inf
    if not (is_large and program.row_error(d) <= FLOW_ROUNDING):
        visits = _evaluated(problem, d, 0.25 * tol)
        if visits is not None and not program.has_floor:
            return visits, rounding_of_point(program, visits)
        d = d if visits is None else visits  # a policy's visits may be below a floor by rounding
    return d, slack_of_point(program, multipliers, d)


def _evaluated(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray | None:
    """Returns the occupancy of d's policy; None if no method finds it.

    A policy with several recurrent classes has no unique occupancy; a share of the uniform policy's visits
    connects them.
    """
    members = problem.members
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(d))
    with suppress(RhocoverError):
        return members.from_policy(members.to_policy(joined(members, d, share)))
    return None


def _linked(problem: PlanningProblem, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits if pairs without weight may be needed.

    At the optimum the pairs that connect weighted parts may have no visits at all, and a policy that never
    takes them stays in one part forever. The share costs at most log 1/(1 - share) in divergence.
    """
    members, coverage = problem.members, problem.program.coverage
    if coverage.support.all() or members.criterion != "average":
        return d
    return joined(members, d, share)


def joined(members: Occupancies, d: FloatArray, share: float) -> FloatArray:
    """Returns d with a share of the uniform policy's visits."""
    count = np.bincount(members.node)
    return (1 - share) * d + share * members.from_policy(1 / count[members.node])
