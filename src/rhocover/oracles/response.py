"""What an oracle answers, and the bound that makes the answer checkable.

For any potential h `[rows]` and any member d of {F d = g, d >= floor, sum d = 1},

    <reward, d> = g'h + <reward - F'h, d> <= g'h + floor sum_i c_i + (1 - floor N) max_i c_i,

c = reward - F'h. So every h gives an upper bound, whatever computed it; the potential of an optimal
policy (its bias or value function) makes it tight. Rounding is added, never hoped away: an entry of c
with k terms is off by at most about k units in the last place of the sum of its magnitudes.

With one sum of d for all steps, a constant added to h changes nothing; `centred` takes the one away that
costs digits (a discounted value function is a large constant, 1/(1-gamma), and small differences).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rhocover.checks import FloatArray, frozen
from rhocover.errors import InvalidArgumentError
from rhocover.occupancy import Occupancies
from rhocover.oracles.choices import EPSILON, Choices


@dataclass(frozen=True, eq=False)
class Response:
    """An occupancy that answers a reward, and what no occupancy of the set can exceed."""

    occupancy: FloatArray  # per entry, [N]
    policy: FloatArray  # per entry, [N]
    value: float  # <reward, occupancy>
    upper_bound: float  # certified: <reward, d> is at most this for every member d
    potential: FloatArray  # h behind the bound, [rows]
    iterations: int
    method: str

    @property
    def gap(self) -> float:
        """How far the value may be from the best, at most."""
        return self.upper_bound - self.value


class Oracle(Protocol):
    """Answers rewards over one set of occupancies."""

    members: Occupancies

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`, a finite table or one value an entry."""
        ...


@dataclass(frozen=True, eq=False)
class Question:
    """A reward divided by its largest magnitude: oracles see numbers near 1, answers are scaled back."""

    choices: Choices
    reward: FloatArray  # within [-1, 1], [N]
    size: float

    @classmethod
    def of(cls, choices: Choices, reward: Any) -> Question:
        """Returns the question that `reward`, a table or per entry, asks."""
        reward = choices.members.flatten(reward, "reward")
        size = float(np.abs(reward).max()) or 1.0
        return cls(choices, reward / size, size)

    def answer(
        self, occupancy: FloatArray, policy: FloatArray, potential: FloatArray, iterations: int, method: str
    ) -> Response:
        """Returns the response to the reward as it was asked; `potential` belongs to the scaled one."""
        potential = potential if self.choices.members.criterion == "horizon" else centred(potential)
        value = float(self.reward @ occupancy)
        bound = max(self.upper_bound(potential), value)
        return Response(
            frozen(occupancy), frozen(policy), self.size * value, self.size * bound,
            frozen(self.size * potential), iterations, method,
        )  # fmt: skip

    def upper_bound(self, h: FloatArray) -> float:
        """Returns a number that <reward, d> exceeds for no member d; `reward` is the scaled one."""
        members = self.choices.members
        advantage, error = self.advantage(h)
        most = advantage + error
        rest = max(0.0, 1 - members.floor * members.num_pairs)
        inflow = float(members.inflow @ h) + h.size * EPSILON * float(members.inflow @ np.abs(h))
        spread = members.floor * (float(most.sum()) + most.size * EPSILON * float(np.abs(most).sum()))
        return inflow + spread + rest * float(most.max())

    def advantage(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns c = reward - F'h per entry, and how far rounding may have moved it."""
        choices = self.choices
        here = h[choices.node]
        advantage = self.reward + choices.onward @ h - here
        size = np.abs(self.reward) + choices.onward @ np.abs(h) + np.abs(here)
        return advantage, choices.num_terms * EPSILON * size


def centred(h: FloatArray) -> FloatArray:
    """Returns h minus the middle of its range: the same potential with the smallest magnitudes."""
    return h - (float(h.max()) + float(h.min())) / 2


def refuse_floor(members: Occupancies, method: str) -> None:
    """Refuses a set with a floor: its best response is not a policy of the MDP."""
    if members.eta > 0:
        raise InvalidArgumentError(
            f"`method` {method!r} needs eta = 0, got eta={members.eta:g}: d >= 2 eta couples the states. "
            "Use method='lp'."
        )


def check_warm(members: Occupancies, warm: Response | None) -> None:
    """Refuses a response over another set."""
    if warm is not None and warm.policy.shape != (members.num_pairs,):
        raise InvalidArgumentError(
            f"`warm` must be a response over the same set, of {members.num_pairs} entries, got one of "
            f"{warm.policy.size}."
        )
