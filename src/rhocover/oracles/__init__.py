"""Best responses: the occupancy of a set that earns most under a reward, with a certificate.

All methods have the same interface. `best_response(members, reward)` returns a `Response`: an occupancy d of
the set, its policy, its value <reward, d>, and a certified upper bound on the value of every other member.
For many rewards, keep the oracle and pass it the last answer:

    oracle = make_oracle(members)
    answer = oracle.respond(reward)
    answer = oracle.respond(another, warm=answer)

- "policy_iteration": Howard's method, one sparse factorisation per iteration. The default without a floor.
- "value_iteration": sweeps without a factorisation, for models whose factors would not fit.
- "lp": the only method with a floor, because d >= 2 eta couples the states.

The default is by measurement. On a slippery 100×100 grid with 4 actions, policy iteration needed 2 to 8
factorisations of 20 ms; it was 7 to 13 times faster than the linear program after a change of the reward by
3% or 30%, and 5 to 7 times where an explorer's last visits had moved the best place elsewhere, with the same
gain within 1e-13 of the largest reward.

**Several end components.** A pair has a positive share in some stationary occupancy exactly when it lies in
an end component, a set of pairs that one trajectory never has to leave; and an occupancy of the model is a
mixture of occupancies of its maximal end components. So the best response over the model is the best over one
component, and the largest of the components' upper bounds holds for the model. Each component is a
communicating model, which the methods require: over the whole model, potentials of unconnected parts differ
by as much as the solver's infinity, and their digits are lost.

**The linear program** max <reward, d> over {F d = g, sum d = 1, d >= 2 eta}, solved by HiGHS. With a floor
the best member is not the occupancy of a deterministic policy: 2 eta > 0 in one state fixes how often the
others are entered, so the states are coupled and dynamic programming does not apply. The constraints are
built once, and only the reward changes from call to call. The multipliers of the flow rows are the potential
h of the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.chains import EndComponents, maximal_end_components
from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.linear_program import InfeasibleProgramError, LinearProgram
from rhocover.occupancy import Occupancies
from rhocover.oracles.policy_iteration import PolicyIteration
from rhocover.oracles.response import Choices, Oracle, Response, ScaledReward, check_warm
from rhocover.oracles.value_iteration import ValueIteration

# Several end components.


def comes_apart(members: Occupancies) -> EndComponents | None:
    """Returns the end components if the set is of average type and has several; None otherwise."""
    if members.criterion != "average" or members.eta > 0:
        return None
    found = maximal_end_components(members.mdp)
    whole = found.count == 1 and bool((found.pair_label == 0).all())
    return None if whole else found


@dataclass(frozen=True, eq=False)
class _Part:
    """One end component with its oracle; `pairs` and `states` are its members in the whole model."""

    oracle: Oracle
    pairs: IntArray
    states: IntArray

    def respond(self, reward: FloatArray, warm: Response | None) -> Response:
        """Returns the best response in this component to a reward per pair of the whole model."""
        if warm is not None:
            warm = replace(
                warm, occupancy=warm.occupancy[self.pairs], policy=warm.policy[self.pairs],
                potential=warm.potential[self.states],
            )  # fmt: skip
        return self.oracle.respond(reward[self.pairs], warm=warm)


class ByComponent:
    """Best responses over a model of several end components.

    The policy stays in the end component that a state belongs to, and is uniform in states outside of them.
    The potential is that of each component, zero elsewhere: it bounds pairs of end components only.
    """

    def __init__(
        self, members: Occupancies, found: EndComponents, method: Callable[[Occupancies], Oracle]
    ) -> None:
        self.members = members
        self.parts = [_part(members, found.pair_label == k, method) for k in range(found.count)]
        free = (found.state_label < 0)[members.mdp.pair_state]
        self._policy = np.where(free, 1 / np.bincount(members.node)[members.node], 0.0)

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns the best of the components' responses, as a response over the model."""
        reward = self.members.flatten(reward, "reward")
        check_warm(self.members, warm)
        answers = [part.respond(reward, warm) for part in self.parts]
        best = int(np.argmax([answer.value for answer in answers]))
        occupancy, policy = np.zeros_like(reward), self._policy.copy()
        potential = np.zeros(self.members.mdp.num_states)
        occupancy[self.parts[best].pairs] = answers[best].occupancy
        for part, answer in zip(self.parts, answers, strict=True):
            policy[part.pairs] = answer.policy
            potential[part.states] = answer.potential
        return Response(
            frozen(occupancy), frozen(policy), answers[best].value,
            max(answer.upper_bound for answer in answers), frozen(potential),
            sum(answer.iterations for answer in answers), answers[best].method,
        )  # fmt: skip


def _part(members: Occupancies, pairs: Any, method: Callable[[Occupancies], Oracle]) -> _Part:
    model, states = members.mdp.subset(pairs)
    return _Part(method(Occupancies.average(model)), np.flatnonzero(pairs), states)


# The linear program.

NAME = "lp"


class LPOracle:
    """Best responses by linear programming, over a set with or without a floor.

    `keep_basis=True` starts each solve from the last: faster on random models and chains, slower on
    grids, and answers may then depend on earlier rewards (see `rhocover.linear_program`).
    """

    def __init__(self, members: Occupancies, *, keep_basis: bool = False) -> None:
        self.members = members
        self.choices = Choices(members)
        self.program = LinearProgram(*members.equations(), members.floor, keep_basis=keep_basis)

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`; `warm` is accepted and not used."""
        question = ScaledReward.of(self.choices, reward)
        try:
            solution = self.program.solve(question.reward)
        except InfeasibleProgramError:
            self.members.check_floor()  # its error says which floor this model allows
            raise
        d = solution.x.copy()
        policy = self.members.flatten(self.members.to_policy(d), "policy")
        potential = solution.dual[: self.choices.num_nodes].copy()
        return question.answer(d, policy, potential, solution.iterations, NAME)


# Best responses.

METHODS = {"policy_iteration": PolicyIteration, "value_iteration": ValueIteration, "lp": LPOracle}

__all__ = [
    "METHODS",
    "ByComponent",
    "LPOracle",
    "Oracle",
    "PolicyIteration",
    "Response",
    "ValueIteration",
    "best_response",
    "make_oracle",
]


def make_oracle(members: Occupancies, method: str = "auto") -> Oracle:
    """Returns the oracle of that name; "auto" is "lp" with a floor and "policy_iteration" without."""
    if not isinstance(members, Occupancies):
        raise InvalidArgumentError.of("members", "must be Occupancies", type(members).__name__)
    if checks.choice(method, "method", ("auto", *METHODS)) == "auto":
        method = "lp" if members.eta > 0 else "policy_iteration"
    found = comes_apart(members)
    return METHODS[method](members) if found is None else ByComponent(members, found, METHODS[method])


def best_response(
    members: Occupancies, reward: Any, *, method: str = "auto", warm: Response | None = None
) -> Response:
    """Returns a member of the set that maximises <reward, d>; `reward` is a table or per entry.

    `warm` is an answer to a similar reward over the same set. It saves time; if several members are
    best, it may change which of them is found.
    """
    return make_oracle(members, method).respond(reward, warm=warm)
