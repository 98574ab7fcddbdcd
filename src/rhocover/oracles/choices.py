"""A set of occupancies seen as decisions: nodes, the entries to choose from in each, where they lead.

A node is a state, or a (step, state) with a horizon. The flow matrix is F' = E - K: E says which node
an entry belongs to, row i of K what it leads to (P, gamma P, or P into the next step). One step of
dynamic programming is then h <- max over the entries of each node of reward + K h, for every criterion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, IntArray, Matrix
from rhocover.occupancy import Occupancies

EPSILON = float(np.finfo(float).eps)


class Choices:
    """The nodes of a set, and K; entries are sorted by node, so that each node's are one run."""

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
        """Returns the likeliest entry of each node under a policy per entry, `[rows]`."""
        return self.greedy(np.asarray(policy, float))


def _onward(members: Occupancies) -> Matrix:
    """Returns K = E - F', without the zeros that the subtraction leaves behind."""
    if members.criterion == "average":
        return members.mdp.transitions
    if members.discount is not None:
        return members.discount * members.mdp.transitions
    count = members.num_pairs
    own = sp.csr_array((np.ones(count), members.node, np.arange(count + 1)), shape=members.flow.shape[::-1])
    onward = sp.csr_array(own - members.flow.T.tocsr())
    onward.eliminate_zeros()
    return onward
