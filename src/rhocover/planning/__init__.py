"""Planning: computes the best coverage that a model allows, with a certificate."""

from rhocover.planning.agents import AgentsPlan, plan_agents
from rhocover.planning.conditions import Condition, MetCondition, at_least, at_most, within
from rhocover.planning.feasibility import best
from rhocover.planning.features import FeaturePlan, plan_features
from rhocover.planning.planner import plan
from rhocover.planning.result import METHODS, Plan, PlanStatus
from rhocover.planning.tradeoff import Tradeoff, tradeoff

__all__ = [
    "METHODS",
    "AgentsPlan",
    "Condition",
    "FeaturePlan",
    "MetCondition",
    "Plan",
    "PlanStatus",
    "Tradeoff",
    "at_least",
    "at_most",
    "best",
    "plan",
    "plan_agents",
    "plan_features",
    "tradeoff",
    "within",
]
