"""Classes: which states of a chain are visited for ever, which can be reached, and with what period.

A recurrent class is a closed strongly connected component. With `depth` the number of steps from some
state of a class, its period is the greatest common divisor of depth[s] + 1 - depth[s_next] over its moves.
All here is asked of the graph alone; the size of a probability does not matter, only that it is not 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from rhocover import checks
from rhocover.chains.reading import mixture, read_chain, row_of
from rhocover.checks import BoolArray, IntArray, Matrix
from rhocover.errors import InvalidArgumentError
from rhocover.mdp import MDP


def recurrent_classes(chain: Any) -> list[IntArray]:
    """Returns the sorted states of each recurrent class, the class of the lowest state first."""
    return _closed_classes(read_chain(chain))


def _closed_classes(rows: Matrix) -> list[IntArray]:
    count, label = csgraph.connected_components(rows, connection="strong")
    origin = label[row_of(rows)]
    closed = np.ones(count, bool)
    closed[origin[label[rows.indices] != origin]] = False
    members = np.flatnonzero(closed[label])
    members = members[np.argsort(label[members], kind="stable")]
    sizes = np.bincount(label, minlength=count)[closed]
    return sorted(np.split(members, np.cumsum(sizes)[:-1]), key=lambda states: int(states[0]))


def recurrent_part(rows: Matrix) -> tuple[IntArray, Matrix]:
    """Returns the states of the one recurrent class and the chain among them."""
    classes = _closed_classes(rows)
    if len(classes) > 1:
        some = checks.name_some([int(states[0]) for states in classes])
        raise InvalidArgumentError(
            f"`chain` must have one recurrent class, got {len(classes)}, with these states among them, one "
            f"of each: {some}. Pass one class alone: c = recurrent_classes(chain)[0]; chain[c][:, c]."
        )
    states = classes[0]
    return states, rows if states.size == rows.shape[0] else sp.csr_array(rows[states][:, states])


def reachable_states(mdp: MDP, start: Any) -> BoolArray:
    """Returns which states some policy visits from `start` (a distribution or a state), shape `[S]`."""
    support = np.flatnonzero(checks.distribution(start, "start", mdp.num_states))
    return depths(mixture(mdp, np.ones(mdp.num_pairs)), support) >= 0


def depths(graph: Matrix, roots: IntArray) -> IntArray:
    """Returns how many steps each state is from the nearest root, shape `[S]`; -1 out of reach.

    A state S that leads to every root makes it one search; its tree is then walked by pointer doubling.
    """
    num_states = graph.shape[0]
    indices = np.concatenate([graph.indices, roots.astype(graph.indices.dtype)])
    indptr = np.append(graph.indptr, indices.size)
    rooted = sp.csr_array((np.ones(indices.size), indices, indptr), shape=(num_states + 1, num_states + 1))
    _, before = csgraph.breadth_first_order(rooted, num_states)
    jump = np.where(before < 0, num_states, before)
    depth = (np.arange(num_states + 1) != num_states).astype(np.int64)
    while (jump != num_states).any():
        depth, jump = depth + depth[jump], jump[jump]
    return np.where(before < 0, -1, depth - 1)[:num_states]


def period(chain: Any) -> int:
    """Returns the greatest common divisor of the cycle lengths of the one recurrent class."""
    return period_of(recurrent_part(read_chain(chain))[1])


def period_of(part: Matrix) -> int:
    """Returns the period of an irreducible chain."""
    depth = depths(part, np.zeros(1, np.int64))
    return int(np.gcd.reduce(depth[row_of(part)] + 1 - depth[part.indices]))
