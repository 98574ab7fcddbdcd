"""Learning: what counts of transitions tell about unknown dynamics, and how sure that is.

- `estimate`: the estimated model, smoothed, or drawn from its posterior; `rules`: weights that follow it;
- `confidence`: the models that the counts do not refute, at all times at once;
- `optimistic`: the least divergence that any of them allows, hence a certificate without the model;
- `discovery`: the fastest way to something new; `evidence`: how far away what was never met is at least;
- `markov`: whether the states are such that all of this means something;
- `model_error` and `reward_free`: what the data is worth, measured against the true model.

It knows nothing of explorers.
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
