"""Theory: what is promised beforehand, and what is possible at all.

- `theorem`: the constants of the paper's convergence theorem for Algorithm 1, and its bound as a curve;
- `exponent`: the exponent of a measured curve, to put beside it;
- `budget`: how many steps a wish costs ("every pair m times", "model error eps") at the best policy and at a
  given one, from `effort`, what one policy needs, `visits`, its expected visits over time, and `certainty`,
  the probability that they fall short;
- `limits`: the fluctuation sigma and the limit kappa_min that no explorer escapes.
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
