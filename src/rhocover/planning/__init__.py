"""Planning: computes the best coverage that a model allows, with a certificate."""

from rhocover.planning.agents import AgentsPlan, plan_agents
from rhocover.planning.features import FeaturePlan, plan_features
from rhocover.planning.planner import METHODS, Plan, PlanStatus, plan

__all__ = [
    "METHODS", "AgentsPlan", "FeaturePlan", "Plan", "PlanStatus", "plan", "plan_agents", "plan_features",
]  # fmt: skip
