"""Experiments: many runs under the same conditions, and what they say together."""

from rhocover.experiments.compare import compare
from rhocover.experiments.comparison import Comparison

__all__ = ["Comparison", "compare"]
