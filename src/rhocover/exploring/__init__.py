"""Exploring: from a world to act in to visits that cover it, with a trace and a certificate."""

from rhocover.exploring.algorithm1 import Algorithm1
from rhocover.exploring.behaviours import Balanced, Sampled
from rhocover.exploring.certificates import Certificate
from rhocover.exploring.explorer import Block, State, initial_state
from rhocover.exploring.feedback import Feedback
from rhocover.exploring.learned import Learned
from rhocover.exploring.loop import explore
from rhocover.exploring.registry import explorer_names
from rhocover.exploring.resuming import resume
from rhocover.exploring.run import Run
from rhocover.exploring.runner import Episode
from rhocover.exploring.schedules import Constant, Doubling, LineSearch, Power, Quadratic
from rhocover.exploring.stationary import Stationary
from rhocover.exploring.stopping import CertifiedGap, EveryPair, SmallModelError
from rhocover.exploring.trace import Trace
from rhocover.exploring.tracking import Tracking

__all__ = [
    "Algorithm1",
    "Balanced",
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
    "Power",
    "Quadratic",
    "Run",
    "Sampled",
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
