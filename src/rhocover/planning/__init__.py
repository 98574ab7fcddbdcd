"""Planning: computes the best coverage that a model allows, with a certificate."""

from rhocover.planning.planner import METHODS, Plan, PlanStatus, plan

__all__ = ["METHODS", "Plan", "PlanStatus", "plan"]
