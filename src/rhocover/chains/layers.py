"""The mass of each state at each step, where every move leads to the next step: one sweep fills all."""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.compiling import compiled


def layered_masses(flow: Any, inflow: FloatArray, node: IntArray, policy: FloatArray) -> FloatArray:
    """Returns the masses m with m = inflow + what flows in, `[rows]`, of rows that come step by step.

    `flow` is the flow matrix `[rows, entries]`, `node` the row that an entry leaves from and `policy` its
    probability there. A Python loop over the steps takes minutes where there are a million of them.
    """
    return _swept(flow.indptr, flow.indices, flow.data, inflow, node, policy)


@compiled
def _swept(
    begins: IntArray, columns: IntArray, values: FloatArray, inflow: FloatArray, node: IntArray,
    policy: FloatArray,
) -> FloatArray:  # fmt: skip
    mass = np.empty(inflow.size)
    for row in range(inflow.size):
        leaving = 0.0
        for k in range(begins[row], begins[row + 1]):
            entry = columns[k]
            if node[entry] != row:  # its own entries leave, all others come from the step before
                leaving += values[k] * (mass[node[entry]] * policy[entry])
        mass[row] = inflow[row] - leaving
    return mass
