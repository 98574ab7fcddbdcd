"""Data sets of transitions: what they hold, how far that is from the best, what is thin.

`audit` reads a data set of any form and judges it; `Tally` is what was counted, `Tallier` counts a stream,
and `observed_model` is the model that the counts show.
"""

from rhocover.datasets.audit import audit, audit_tally
from rhocover.datasets.builder import Tallier
from rhocover.datasets.empirical_model import Observed, observed_model
from rhocover.datasets.reading import read_tally
from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally

__all__ = [
    "Audit",
    "Observed",
    "Tallier",
    "Tally",
    "audit",
    "audit_tally",
    "observed_model",
    "read_tally",
]
