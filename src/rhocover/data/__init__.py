"""Data sets of transitions: what they hold, how far that is from the best, what is thin.

`audit` reads a data set of any form and judges it; `Tally` is what was counted, `Tallier` counts a stream,
and `observed_model` is the model that the counts show.
"""

from rhocover.data.audit import audit, audit_tally
from rhocover.data.audit_result import Audit
from rhocover.data.observed import Observed, observed_model
from rhocover.data.reading import read_tally
from rhocover.data.tally import Tally
from rhocover.data.tallying import Tallier

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
