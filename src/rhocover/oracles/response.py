"""The response of an oracle, its certified bound, and occupancy sets as decision problems.

For any potential h `[rows]` and any member d of {F d = g, d >= floor, sum d = 1},

    <reward, d> = g'h + <reward - F'h, d> <= g'h + floor sum_i c_i + (1 - floor N) max_i c_i,

c = reward - F'h. So every h gives an upper bound, whatever computed it; the potential of an optimal
policy (its bias or value function) makes it tight. Rounding errors are added: the error of an entry
of c with k terms is at most about k units in the last place of the sum of its magnitudes.

With one sum of d for all steps, a constant added to h changes nothing; `centred` removes the
constant that costs digits (a discounted value function is a large constant, 1/(1-gamma), and small
differences).

**Decisions.** A node is a state, or a (step, state) with a horizon. The flow matrix is F' = E - K: E says
which node an entry belongs to, and row i of K where it leads (P, gamma P, or P into the next step). One step
of dynamic programming is then h <- max over the entries of each node of reward + K h, for every criterion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, IntArray, Matrix, frozen
from rhocover.coverage import Coverage
from rhocover.errors import InvalidArgumentError
from rhocover.occupancy import Occupancies

# Decisions.

EPSILON = float(np.finfo(float).eps)


class Choices:
    """The nodes of a set, and K; entries are sorted by node, so that those of a node are contiguous."""

    def __init__(self, members: Occupancies) -> None:
        self.members = members
        self.node = members.node
        self.num_nodes = int(members.flow.shape[0])
        self.first = np.searchsorted(self.node, np.arange(self.num_nodes))
        self.onward = _onward(members)
        self.num_terms = int(np.diff(self.onward.indptr).max(initial=0)) + 4

    def best(self, q: FloatArray) -> FloatArray:
        """Returns the largest value among each node's entries, `[rows]`."""
        return np.maximum.reduceat(q, self.first)

    def greedy(self, q: FloatArray) -> IntArray:
        """Returns the first entry that attains each node's largest value, `[rows]`."""
        entries = np.flatnonzero(q == self.best(q)[self.node])[::-1]
        chosen = np.empty(self.num_nodes, np.int64)
        chosen[self.node[entries]] = entries
        return chosen

    def better(self, advantage: FloatArray, error: FloatArray, chosen: IntArray) -> IntArray:
        """Returns the best entry of each node where it beats the chosen one by more than rounding."""
        best = self.greedy(advantage)
        certain = advantage[best] - error[best] > advantage[chosen] + error[chosen]
        return np.where(certain, best, chosen)

    def chain(self, chosen: IntArray) -> Matrix:
        """Returns the rows of K that the policy takes, `[rows, rows]`."""
        return self.onward[chosen]

    def one_hot(self, chosen: IntArray) -> FloatArray:
        """Returns the policy per entry that takes the chosen ones."""
        policy = np.zeros(self.node.size)
        policy[chosen] = 1.0
        return policy

    def chosen(self, policy: Any) -> IntArray:
        """Returns the most likely entry of each node under a policy per entry, `[rows]`."""
        return self.greedy(np.asarray(policy, float))


def _onward(members: Occupancies) -> Matrix:
    """Returns K = E - F', without the zeros that the subtraction leaves."""
    if members.criterion == "average":
        return members.mdp.transitions
    if members.discount is not None:
        return members.discount * members.mdp.transitions
    count = members.num_pairs
    own = sp.csr_array((np.ones(count), members.node, np.arange(count + 1)), shape=members.flow.shape[::-1])
    onward = sp.csr_array(own - members.flow.T.tocsr())
    onward.eliminate_zeros()
    return onward


# Responses.


@dataclass(frozen=True, eq=False)
class Response:
    """A best response to a reward, and an upper bound on the value of every occupancy of the set."""

    occupancy: FloatArray  # per entry, [N]
    policy: FloatArray  # per entry, [N]
    value: float  # <reward, occupancy>
    upper_bound: float  # certified: <reward, d> is at most this for every member d
    potential: FloatArray  # h behind the bound, [rows]
    iterations: int
    method: str

    @property
    def gap(self) -> float:
        """A bound on the distance of the value from the best."""
        return self.upper_bound - self.value


class Oracle(Protocol):
    """Computes best responses over one set of occupancies."""

    members: Occupancies

    def respond(self, reward: Any, *, warm: Response | None = None) -> Response:
        """Returns a best response to `reward`, a finite table or one value per entry."""
        ...


@dataclass(frozen=True, eq=False)
class ScaledReward:
    """A reward divided by its largest magnitude, so that oracles compute with numbers near 1."""

    choices: Choices
    reward: FloatArray  # within [-1, 1], [N]
    size: float

    @classmethod
    def of(cls, choices: Choices, reward: Any) -> ScaledReward:
        """Returns the scaled form of `reward`, a table or per entry."""
        reward = choices.members.flatten(reward, "reward")
        size = float(np.abs(reward).max()) or 1.0
        return cls(choices, reward / size, size)

    def answer(
        self, occupancy: FloatArray, policy: FloatArray, potential: FloatArray, iterations: int, method: str
    ) -> Response:
        """Returns the response to the caller's reward; `potential` belongs to the scaled one."""
        potential = potential if self.choices.members.criterion == "horizon" else centred(potential)
        value = float(self.reward @ occupancy)
        bound = max(self.upper_bound(potential), value)
        with np.errstate(over="ignore"):  # of a reward near the end of float64: inf is still a bound
            potential = self.size * potential
        return Response(
            frozen(occupancy), frozen(policy), self.size * value, self.size * bound,
            frozen(potential), iterations, method,
        )  # fmt: skip

    def upper_bound(self, h: FloatArray) -> float:
        """Returns an upper bound on <reward, d> for every member d; `reward` is the scaled one."""
        members = self.choices.members
        advantage, error = self.advantage(h)
        most = advantage + error
        rest = max(0.0, 1 - members.floor * members.num_pairs)
        inflow = float(members.inflow @ h) + h.size * EPSILON * float(members.inflow @ np.abs(h))
        spread = members.floor * (float(most.sum()) + most.size * EPSILON * float(np.abs(most).sum()))
        return inflow + spread + rest * float(most.max())

    def advantage(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns c = reward - F'h per entry, and a bound on its rounding error."""
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
        raise InvalidArgumentError.of(
            "method",
            f"{method!r} needs eta = 0",
            f"eta={members.eta:g}: d >= 2 eta couples the states",
            remedy="Use method='lp'.",
        )


def check_warm(members: Occupancies, warm: Response | None) -> None:
    """Refuses a response over another set."""
    if warm is not None and warm.policy.shape != (members.num_pairs,):
        raise InvalidArgumentError.of(
            "warm",
            f"must be a response over the same set, of {members.num_pairs} entries",
            f"one of {warm.policy.size}",
        )


def gradient_reward(coverage: Coverage, d: FloatArray) -> FloatArray:
    """Returns p/d, so that <reward, d> = 1; log(mubar/d) at rho = 0."""
    reward = coverage.reward(d)
    return reward if coverage.rho == 0 else reward / float(reward @ d)


def certified_gap(rho: float, reward: FloatArray, d: FloatArray, answer: Response) -> float:
    """Returns a certified bound on the distance of D_rho(d) from the smallest."""
    return answer.upper_bound - float(reward @ d) if rho == 0 else float(np.log(answer.upper_bound))
