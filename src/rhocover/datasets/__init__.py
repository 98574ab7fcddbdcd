"""Data sets of transitions: what they cover, how far that is from the best, which pairs are thin.

`audit` reads a data set in any supported form and evaluates its coverage; `Tally` holds the counts, `Tallier`
counts a stream, and `observed_model` is the empirical model of the counts.
"""

from rhocover.datasets.audit import audit, audit_tally
from rhocover.datasets.builder import Tallier
from rhocover.datasets.empirical_model import Observed, observed_model
from rhocover.datasets.partial import PartialTally, merged
from rhocover.datasets.reading import read_tally
from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally

__all__ = [
    "Audit",
    "Observed",
    "PartialTally",
    "Tallier",
    "Tally",
    "audit",
    "audit_tally",
    "merged",
    "observed_model",
    "read_tally",
]
