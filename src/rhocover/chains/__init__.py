"""Markov chains: classes, end components, stationary distributions, spectral gaps.

A chain is a row-stochastic matrix `chain[s, s_next]`, dense or sparse; public functions check it first. A
policy turns an MDP into a chain (`policy_chain`); everything else here is computed from a chain or from an
MDP's graph.

**Classes** (`classes`). A recurrent class is a closed strongly connected component. An end component of an
MDP (`classes`) is a set of pairs that never leads out of itself and connects its states; a pair can
be visited infinitely often exactly when it lies in one. The maximal ones are found by removing pairs that
leave their strongly connected component (de Alfaro 1997), and the closed sets that this creates.

**Stationary distribution** (`stationary`). Grassmann, Taksar and Heyman (1985) eliminate states one by one:
with F the rates between distinct states, state k is removed from the chain by
F[i, j] += F[i, k] F[k, j] / out_k, out_k = sum_j F[k, j]. Nothing is ever subtracted, so every entry keeps
its *relative* accuracy, however weakly the parts of the chain are coupled (O'Cinneide 1993). Here the same
elimination is multifrontal (`stationary`): nested dissection gives the order, each separator
is one dense front, and the work is matrix products of non-negative numbers. Where the range of
float64 is too small, logarithms are used instead, and iteration where no small separators exist.

**Gaps** (`gaps`). The absolute spectral gap and Paulin's pseudo-spectral gap (2015), from dense spectra or,
for large chains, by iteration. Both are 0 for a periodic chain.

Weights and coverage are not used here.
"""

from rhocover.chains.classes import (
    EndComponents,
    is_communicating,
    maximal_end_components,
    period,
    policy_chain,
    reachable_states,
    recurrent_classes,
)
from rhocover.chains.gaps import is_reversible, pseudo_spectral_gap, spectral_gap
from rhocover.chains.stationary import stationary_distribution

__all__ = [
    "EndComponents",
    "is_communicating",
    "is_reversible",
    "maximal_end_components",
    "period",
    "policy_chain",
    "pseudo_spectral_gap",
    "reachable_states",
    "recurrent_classes",
    "spectral_gap",
    "stationary_distribution",
]
