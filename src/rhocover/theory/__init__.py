"""Theory: guarantees before a run, and limits that hold for every explorer.

- `theorem`: the constants of the paper's convergence theorem for Algorithm 1, and its bound as a curve;
- `budget`: how many steps a goal takes ("every pair m times", "model error eps") with the best policy and
  with a given one;
- `certainty`: a policy's expected visits over time, and the probability that they are too few;
- `limits`: the fluctuation sigma and the limit kappa_min, which hold for every explorer, pathwise optima, and
  the exponent of a measured curve.
"""

from rhocover.theory.budget import Budget, Effort, budget
from rhocover.theory.limits import Exponent, Limits, find_limits, measured_exponent
from rhocover.theory.theorem import TheoremConstants, theorem_constants

__all__ = [
    "Budget",
    "Effort",
    "Exponent",
    "Limits",
    "TheoremConstants",
    "budget",
    "find_limits",
    "measured_exponent",
    "theorem_constants",
]
