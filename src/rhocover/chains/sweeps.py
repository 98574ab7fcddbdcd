"""Sweeps: the flow by iteration, for chains without small separators.

Such chains (large random graphs) mix fast. That several starts agree is evidence, not proof; where a chain
mixes too slowly for it, that is an error and not an answer.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rhocover.checks import FloatArray, Matrix
from rhocover.errors import SolverError

MAX_SWEEPS = 5000
SWEEP_AGREEMENT = 1e-13  # a few hundred roundings; starts cannot be told apart any closer


def swept_flow(jumps: Matrix) -> FloatArray:
    """Returns the flow by iterating from three starts, even and all in one state, until they agree."""
    arrivals = sp.csr_array(jumps.T)
    flow = np.zeros((jumps.shape[0], 3))
    flow[:, 0] = 1 / jumps.shape[0]
    flow[0, 1] = flow[-1, 2] = 1.0
    for _ in range(MAX_SWEEPS // 10):
        for _ in range(10):
            flow = (flow + arrivals @ flow) / 2  # the halves keep periodic chains from swinging
        flow /= flow.sum(axis=0)
        if (np.ptp(flow, axis=1) <= SWEEP_AGREEMENT * flow[:, 0]).all():
            return flow[:, 0]
    raise SolverError(
        f"the chain of {jumps.shape[0]} states has no small separators to eliminate along, and after "
        f"{MAX_SWEEPS} sweeps from different starts {np.ptp(flow, axis=1).sum():.2g} of the flow is still "
        "undecided. It mixes too slowly for iteration: lump or thin out states first."
    )
