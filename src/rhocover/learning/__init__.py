"""Learning: estimating unknown dynamics from transition counts, and how certain the estimates are.

- `estimate`: the estimated model, smoothed or drawn from its posterior, and its error against the true model;
- `rules`: weights that are computed from the estimate;
- `confidence`: the models that the counts do not refute, at all times at once;
- `optimistic`: the least divergence that any of them allows, which gives a certificate without the model;
- `evidence`: the fastest way to something new, and a lower bound on the distance to states never met;
- `shortest_paths`: the solver behind it;
- `markov`: a test of whether the states are Markov, which all of this assumes;
- `reward_free`: what is lost by planning on the data for rewards that are given later.

Explorers are not part of this package.
"""

from rhocover.learning.confidence import ConfidenceSet, make_confidence
from rhocover.learning.estimate import Estimate, ModelError, model_error
from rhocover.learning.evidence import DiscoveryTarget, Evidence, find_discovery_target, find_evidence
from rhocover.learning.markov import MarkovTest, markov_test
from rhocover.learning.optimistic import Guarantee, certify
from rhocover.learning.reward_free import PlanningRegret, planning_regret
from rhocover.learning.rules import ErrorRule, StdRule, UniformRule

__all__ = [
    "ConfidenceSet",
    "DiscoveryTarget",
    "ErrorRule",
    "Estimate",
    "Evidence",
    "Guarantee",
    "MarkovTest",
    "ModelError",
    "PlanningRegret",
    "StdRule",
    "UniformRule",
    "certify",
    "find_discovery_target",
    "find_evidence",
    "make_confidence",
    "markov_test",
    "model_error",
    "planning_regret",
]
