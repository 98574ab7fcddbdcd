"""Planning: from a model to the best coverage it allows, with a certificate."""

from rhocover.planning.planner import METHODS, plan
from rhocover.planning.result import Plan, PlanStatus

__all__ = ["METHODS", "Plan", "PlanStatus", "plan"]
