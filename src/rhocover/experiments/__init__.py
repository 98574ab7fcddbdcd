"""Experiments: many runs under the same conditions, and what they say together."""

from rhocover.experiments.compare import compare
from rhocover.experiments.comparison import Comparison
from rhocover.experiments.reproducing import Reproduction, reproduce

__all__ = ["Comparison", "Reproduction", "compare", "reproduce"]
