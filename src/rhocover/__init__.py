"""rhocover plans, runs and certifies exploration of Markov decision processes.

Names load on first use, so that `import rhocover` is fast.
"""

from __future__ import annotations

from rhocover._version import __version__

TYPE_CHECKING = False  # like typing's, without importing it: the command line handles Ctrl-C sooner
if TYPE_CHECKING:
    from typing import Any

    from rhocover import baselines, engines, envs, errors, learning, weights
    from rhocover.collecting import Collection, TopUp, collect, top_up
    from rhocover.coverage import Coverage
    from rhocover.datasets import Audit, audit
    from rhocover.environments.densities import DensityReward
    from rhocover.environments.densities.ellipse import Ellipse
    from rhocover.environments.densities.neighbours import Neighbours
    from rhocover.environments.encoding.bins import Bins, QuantileBins
    from rhocover.environments.encoding.encoders import LearnedFeatures
    from rhocover.environments.encoding.features import RandomFeatures
    from rhocover.environments.encoding.hashes import ImageCells, SimHash
    from rhocover.environments.encoding.nets import Net
    from rhocover.environments.read_state import ReadState
    from rhocover.environments.repeating import RepeatAction
    from rhocover.environments.sb3 import CoverageCallback, CoverageReplayBuffer, CoverageVecEnv
    from rhocover.environments.wrappers import (
        CountVisits,
        CountVisitsVector,
        CoverageReward,
        CoverageRewardVector,
    )
    from rhocover.experiments import Comparison, compare, reproduce
    from rhocover.exploring import (
        Algorithm1,
        CertifiedGap,
        Constant,
        Doubling,
        EveryPair,
        Feedback,
        Learned,
        LineSearch,
        Power,
        Quadratic,
        Run,
        SmallModelError,
        Stationary,
        Tracking,
        explore,
        resume,
    )
    from rhocover.layout import Layout
    from rhocover.mdp import MDP
    from rhocover.occupancy import Occupancies
    from rhocover.planning import (
        AgentsPlan,
        Condition,
        FeaturePlan,
        Plan,
        Tradeoff,
        at_least,
        at_most,
        best,
        plan,
        plan_agents,
        plan_features,
        tradeoff,
        within,
    )
    from rhocover.theory import Budget, budget

_HOME = {
    "MDP": "rhocover.mdp",
    "Layout": "rhocover.layout",
    "Coverage": "rhocover.coverage",
    "Occupancies": "rhocover.occupancy",
    "Plan": "rhocover.planning",
    "plan": "rhocover.planning",
    "AgentsPlan": "rhocover.planning",
    "plan_agents": "rhocover.planning",
    "FeaturePlan": "rhocover.planning",
    "plan_features": "rhocover.planning",
    "Condition": "rhocover.planning",
    "at_most": "rhocover.planning",
    "at_least": "rhocover.planning",
    "within": "rhocover.planning",
    "best": "rhocover.planning",
    "Tradeoff": "rhocover.planning",
    "tradeoff": "rhocover.planning",
    "Budget": "rhocover.theory",
    "budget": "rhocover.theory",
    "Bins": "rhocover.environments.encoding.bins",
    "QuantileBins": "rhocover.environments.encoding.bins",
    "Net": "rhocover.environments.encoding.nets",
    "SimHash": "rhocover.environments.encoding.hashes",
    "ImageCells": "rhocover.environments.encoding.hashes",
    "RandomFeatures": "rhocover.environments.encoding.features",
    "LearnedFeatures": "rhocover.environments.encoding.encoders",
    "CountVisits": "rhocover.environments.wrappers",
    "CoverageReward": "rhocover.environments.wrappers",
    "CountVisitsVector": "rhocover.environments.wrappers",
    "CoverageRewardVector": "rhocover.environments.wrappers",
    "CoverageCallback": "rhocover.environments.sb3",
    "ReadState": "rhocover.environments.read_state",
    "RepeatAction": "rhocover.environments.repeating",
    "CoverageReplayBuffer": "rhocover.environments.sb3",
    "CoverageVecEnv": "rhocover.environments.sb3",
    "DensityReward": "rhocover.environments.densities",
    "Neighbours": "rhocover.environments.densities.neighbours",
    "Ellipse": "rhocover.environments.densities.ellipse",
    "Audit": "rhocover.datasets",
    "audit": "rhocover.datasets",
    "Collection": "rhocover.collecting",
    "TopUp": "rhocover.collecting",
    "collect": "rhocover.collecting",
    "top_up": "rhocover.collecting",
    "Algorithm1": "rhocover.exploring",
    "Constant": "rhocover.exploring",
    "Doubling": "rhocover.exploring",
    "Feedback": "rhocover.exploring",
    "LineSearch": "rhocover.exploring",
    "Power": "rhocover.exploring",
    "Quadratic": "rhocover.exploring",
    "CertifiedGap": "rhocover.exploring",
    "EveryPair": "rhocover.exploring",
    "Learned": "rhocover.exploring",
    "SmallModelError": "rhocover.exploring",
    "Run": "rhocover.exploring",
    "Stationary": "rhocover.exploring",
    "Tracking": "rhocover.exploring",
    "explore": "rhocover.exploring",
    "Comparison": "rhocover.experiments",
    "compare": "rhocover.experiments",
    "reproduce": "rhocover.experiments",
    "resume": "rhocover.exploring",
}
_MODULES = ("baselines", "engines", "envs", "errors", "learning", "weights")

__all__ = [
    "MDP",
    "AgentsPlan",
    "Algorithm1",
    "Audit",
    "Bins",
    "Budget",
    "CertifiedGap",
    "Collection",
    "Comparison",
    "Condition",
    "Constant",
    "CountVisits",
    "CountVisitsVector",
    "Coverage",
    "CoverageCallback",
    "CoverageReplayBuffer",
    "CoverageReward",
    "CoverageRewardVector",
    "CoverageVecEnv",
    "DensityReward",
    "Doubling",
    "Ellipse",
    "EveryPair",
    "FeaturePlan",
    "Feedback",
    "ImageCells",
    "Layout",
    "Learned",
    "LearnedFeatures",
    "LineSearch",
    "Neighbours",
    "Net",
    "Occupancies",
    "Plan",
    "Power",
    "Quadratic",
    "QuantileBins",
    "RandomFeatures",
    "ReadState",
    "RepeatAction",
    "Run",
    "SimHash",
    "SmallModelError",
    "Stationary",
    "TopUp",
    "Tracking",
    "Tradeoff",
    "__version__",
    "at_least",
    "at_most",
    "audit",
    "baselines",
    "best",
    "budget",
    "collect",
    "compare",
    "engines",
    "envs",
    "errors",
    "explore",
    "learning",
    "plan",
    "plan_agents",
    "plan_features",
    "reproduce",
    "resume",
    "top_up",
    "tradeoff",
    "weights",
    "within",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"rhocover.{name}")
    else:
        raise AttributeError(f"module 'rhocover' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
