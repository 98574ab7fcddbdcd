"""Models that come apart: answer in each end component, and keep the best.

A pair has a positive share in some stationary occupancy exactly when it lies in an end component, a set of
pairs that one trajectory never has to leave; and an occupancy of the model is a mixture of occupancies
of its maximal end components. So the best response over the model is the best over one component, and
the largest of the components' upper bounds holds for the model. Each component is a communicating
model of its own, where the methods are at home: over the whole, potentials of unconnected parts differ
by as much as the solver's infinity, and their digits are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhocover.chains import EndComponents, maximal_end_components
from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.occupancy import Occupancies
from rhocover.oracles.response import Oracle, Response, check_warm


def comes_apart(members: Occupancies) -> EndComponents | None:
    """Returns the end components if the set is of average type and they are not one; None otherwise."""
    if members.criterion != "average" or members.eta > 0:
        return None
    found = maximal_end_components(members.mdp)
    whole = found.count == 1 and bool((found.pair_label == 0).all())
    return None if whole else found


@dataclass(frozen=True, eq=False)
class _Part:
    oracle: Oracle
    pairs: IntArray
    states: IntArray

    def respond(self, reward: FloatArray, warm: Response | None) -> Response:
        if warm is not None:
            warm = replace(
                warm, occupancy=warm.occupancy[self.pairs], policy=warm.policy[self.pairs],
                potential=warm.potential[self.states],
            )  # fmt: skip
        return self.oracle.respond(reward[self.pairs], warm=warm)


class ByComponent:
    """Best responses over a model of several end components.

    The policy stays in the end component that a state belongs to, and is uniform in states of none. The
    potential is that of each component, zero elsewhere: it bounds pairs of end components only.
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
