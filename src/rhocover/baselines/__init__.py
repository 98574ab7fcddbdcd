"""The systems that the paper cites, one file each, from their papers, behind the contract of explorers.

Each docstring says what the system maximises, where it stands on the axis from rho = 0 to infinity or why it
stands outside, and what differs from its paper. What a run is measured by is the objective of the caller.
"""

from rhocover.baselines.games import CovGame, EntGame
from rhocover.baselines.generative_sampling import GenerativeSampling, generative_world
from rhocover.baselines.maxent import MaxEnt, WeightedMaxEnt
from rhocover.baselines.model_estimation import ActiveExploration, FWModest
from rhocover.baselines.reward_free import RFUCRL, RewardFree, RFExpress
from rhocover.baselines.state_marginal_matching import MaxRenyi, StateMarginalMatching
from rhocover.baselines.uniform_random import UniformRandom

__all__ = [
    "RFUCRL",
    "ActiveExploration",
    "CovGame",
    "EntGame",
    "FWModest",
    "GenerativeSampling",
    "MaxEnt",
    "MaxRenyi",
    "RFExpress",
    "RewardFree",
    "StateMarginalMatching",
    "UniformRandom",
    "WeightedMaxEnt",
    "generative_world",
]
