"""Experiments: comparisons of explorers under the same conditions, and reproductions of published results."""

from rhocover.experiments.compare import compare
from rhocover.experiments.comparison import Comparison
from rhocover.experiments.reproducing import Reproduction, reproduce
from rhocover.experiments.shards import FinishedShard

__all__ = ["Comparison", "FinishedShard", "Reproduction", "compare", "reproduce"]
