"""One model for every criterion: runs that restart are long runs of a model that leads back to the start.

The discounted occupancy of a model is the long-run occupancy of the model whose every step goes back to
the start with probability 1 - gamma; the occupancy of episodes of H steps is that of the model whose
states are (step, state) and whose last step leads to the start. So explorers, regrets and certificates
know only one criterion. Pairs of the acting model are the entries of the occupancy set, in order.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.mdp import MDP
from rhocover.occupancy import Occupancies


def acting_model(members: Occupancies) -> MDP:
    """Returns the model in which a run of the set's criterion is one endless trajectory."""
    if members.criterion == "average":
        return members.mdp
    if members.criterion == "discounted":
        return _restarting(members)
    return _unrolled(members)


def node_start(members: Occupancies, start: FloatArray) -> FloatArray:
    """Returns a start over the model's states as one over the acting model's."""
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
