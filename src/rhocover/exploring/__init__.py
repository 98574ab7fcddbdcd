"""Exploring: runs that act in a model or environment to cover it, with a trace and a certificate."""

from rhocover.exploring.belief.certificates import Certificate
from rhocover.exploring.belief.learned import Learned
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.explorers.algorithm1 import (
    Algorithm1,
    Constant,
    Doubling,
    LineSearch,
    Power,
    Quadratic,
)
from rhocover.exploring.explorers.feedback import Feedback
from rhocover.exploring.explorers.registry import explorer_names
from rhocover.exploring.explorers.stationary import Stationary
from rhocover.exploring.explorers.tracking import Tracking
from rhocover.exploring.runs.explore import explore, resume
from rhocover.exploring.runs.result import Run, Trace
from rhocover.exploring.runs.runner import Episode
from rhocover.exploring.runs.stopping import CertifiedGap, EveryPair, SmallModelError
from rhocover.exploring.worlds import LowestScore, SamplePolicy

__all__ = [
    "Algorithm1",
    "Block",
    "Certificate",
    "CertifiedGap",
    "Constant",
    "Doubling",
    "Episode",
    "EveryPair",
    "Feedback",
    "Learned",
    "LineSearch",
    "LowestScore",
    "Power",
    "Quadratic",
    "Run",
    "SamplePolicy",
    "SmallModelError",
    "State",
    "Stationary",
    "Trace",
    "Tracking",
    "explore",
    "explorer_names",
    "initial_state",
    "resume",
]
