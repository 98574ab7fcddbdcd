"""Planning: computes the best coverage that a model allows, with a certificate."""

from rhocover.planning.agents import AgentsPlan, plan_agents
from rhocover.planning.planner import METHODS, Plan, PlanStatus, plan

__all__ = ["METHODS", "AgentsPlan", "Plan", "PlanStatus", "plan", "plan_agents"]
