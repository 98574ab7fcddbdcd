"""Transition matrices from lists of outcomes: in these states, this action leads there with this probability.

An outcome is `(states, action, next_states, probability)`; each part is one value or an array, and the four
are broadcast against each other. P(s_next | s, a) is the sum over all outcomes with these states and action,
so boundaries need no special case: clip the next state and let the two outcomes add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from rhocover.checks import Matrix

Outcome = tuple[Any, Any, Any, Any]


def outcome_matrix(num_states: int, num_actions: int, outcomes: Iterable[Outcome]) -> Matrix:
    """Returns P as a sparse `[S*A, S]` matrix whose row `s*A + a` adds up the outcomes of (s, a)."""
    index = np.int32 if num_states * num_actions < 2**31 else np.int64
    rows, columns, masses = [], [], []
    for states, action, next_states, probability in outcomes:
        row = np.asarray(states, index) * index(num_actions) + np.asarray(action, index)
        parts = np.broadcast_arrays(row, np.asarray(next_states, index), np.asarray(probability, float))
        for part, column in zip(parts, (rows, columns, masses), strict=True):
            column.append(part.ravel())
    place = np.concatenate(rows), np.concatenate(columns)
    shape = (num_states * num_actions, num_states)
    return sp.coo_array((np.concatenate(masses), place), shape=shape).tocsr()
