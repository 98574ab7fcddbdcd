"""Planning: from a model to the best coverage it allows, with a certificate."""

from rhocover.planning.planner import METHODS, Plan, PlanStatus, plan

__all__ = ["METHODS", "Plan", "PlanStatus", "plan"]
