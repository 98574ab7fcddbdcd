"""The published methods that ship as baselines, one file each, with the interface of explorers.

Each docstring gives the objective of the method, its place on the axis from rho = 0 to infinity or why it has
none, and the differences from its paper. A run is always measured by the objective of the caller.
"""

from rhocover.baselines.active_exploration import ActiveExploration
from rhocover.baselines.cov_game import CovGame
from rhocover.baselines.ent_game import EntGame
from rhocover.baselines.fw_modest import FWModest
from rhocover.baselines.generative_sampling import GenerativeSampling, generative_world
from rhocover.baselines.max_renyi import MaxRenyi
from rhocover.baselines.maxent import MaxEnt
from rhocover.baselines.reward_free import RewardFree
from rhocover.baselines.rf_express import RFExpress
from rhocover.baselines.rf_ucrl import RFUCRL
from rhocover.baselines.state_marginal_matching import StateMarginalMatching
from rhocover.baselines.uniform_random import UniformRandom
from rhocover.baselines.weighted_maxent import WeightedMaxEnt

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
