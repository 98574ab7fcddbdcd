"""`diagnose()`: what is installed, which back ends are used, and whether the results are right.

It answers three questions, in the order in which things go wrong:

- packages: is every required package installed, in a version that is known to work? The module `packages`
  needs only the standard library, so that it works even if an import fails.
- machine: which back ends are used, and can compiled code be stored?
- self-test: does the library compute results that are known by other means? It takes about ten seconds.

Every answer is a `Finding`: ok, a note, or FAILED with the reason and how to fix it.
"""

from rhocover.diagnosis.diagnose import Diagnosis, diagnose
from rhocover.diagnosis.packages import FAILED, NOTE, OK, Finding

__all__ = ["FAILED", "NOTE", "OK", "Diagnosis", "Finding", "diagnose"]
