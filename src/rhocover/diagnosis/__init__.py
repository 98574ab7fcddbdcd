"""What is installed, what it computes with, and whether it computes rightly: `diagnose()`.

Three questions, in the order in which things go wrong:

- `packages`: is every package there that is wanted, in a version that is known to work? Needs nothing but
  Python itself, so that it answers where an import fails (`packages`);
- `diagnose`: which of several ways to compute is taken here, and may compiled code be stored?
- `trials`: does the library give numbers that are known otherwise? About ten seconds.

Every answer is a `Finding`: ok, a note, or FAILED with the reason and the way out.
"""

from rhocover.diagnosis.diagnose import Diagnosis, diagnose
from rhocover.diagnosis.packages import FAILED, NOTE, OK, Finding

__all__ = ["FAILED", "NOTE", "OK", "Diagnosis", "Finding", "diagnose"]
