"""What can be said of a run without knowing its model: the certificate, what was never reached, the error.

Where the model was known, the certificate is that of the run's own table and nothing is left to find. Where
it was learned, a certificate costs about ten plans on irregular rows: a second for some hundred states,
minutes for some thousands. A command that was asked for a run does not make anyone wait for that.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from rhocover.cli.tables import empty_table
from rhocover.collecting.environment_run import EnvironmentRun
from rhocover.exploring import Run
from rhocover.exploring.certificates import Certificate
from rhocover.exploring.learned import LearnedModel
from rhocover.learning.evidence import Evidence
from rhocover.learning.model_error import ModelError

LARGEST = 100_000  # pairs times states up to which a learned model's certificate is made unasked
RULE = "The weights of plug-in and certificate are those that the transitions seen suggest."
LEFT_OUT = (
    "The certificate is left out: for so large a model it takes minutes. It is made with --until-gap, or in "
    "Python: rhocover.resume(DIR).certificate()."
)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The certificate of a run, what it never reached, and how far its estimate of the model is off."""

    certificate: Certificate | None  # None: left out
    evidence: Evidence | None  # None: the model was known
    model_error: ModelError | None  # None: nobody knows the model, so nobody knows the error

    def document(self, run: Run) -> dict[str, Any]:
        """Returns it ready for JSON, the pair of the largest error by its name, too."""
        certificate = self.certificate and asdict(self.certificate)
        evidence = self.evidence and asdict(self.evidence) | {"text": str(self.evidence)}
        error = self.model_error and asdict(self.model_error) | {
            "worst_pair_name": run.problem.pair_name(self.model_error.worst_pair)
        }
        return {"certificate": certificate, "evidence": evidence, "model_error": error}

    def tables(self, run: Run) -> list[Table]:
        """Returns the gap to the best as it is, as the explorer estimates it, and as it is sure of it."""
        if self.evidence is None:
            return []
        sure = f"at most, with probability {1 - self.evidence.delta:g}"
        first = "in what was seen" if self.model_error is None else "true"
        table = empty_table("", first, "plug-in", sure)
        table.add_row("gap to the best, nats", *map(_number, (_true_gap(run), *self._gaps())))
        if self.model_error is not None:
            table.add_row("model error", _number(self.model_error.l1_mean), "", "")
        return [table]

    def _gaps(self) -> tuple[float, float]:
        found = self.certificate
        return (math.nan, math.nan) if found is None else (found.plug_in_gap, found.gap)

    def sentences(self, run: Run) -> list[str]:
        """Returns what was never reached, why there is no certificate, and whose weights it has, if so."""
        if self.evidence is None:
            return []
        found = [RULE] if _is_by_rule(run) else []
        if self.certificate is None:
            found = [LEFT_OUT]
        elif self.certificate.proves_nothing:
            found = [*found, f"The certificate {self.certificate}."]
        elif not math.isfinite(self.certificate.gap):
            found = [f"{str(self.certificate).capitalize()}."]
        return [*found, str(self.evidence)] if is_lacking(self.evidence) else found


def knowledge_of(run: Run, delta: float, *, whatever_it_takes: bool = False) -> Knowledge:
    """Returns what can be said of a run, with probability 1 - delta where the model was not known."""
    certificate = run.certificate(delta) if whatever_it_takes or _is_cheap(run) else None
    is_known = not isinstance(run, EnvironmentRun)
    return Knowledge(certificate, run.evidence(delta), run.model_error() if is_known else None)


def _is_cheap(run: Run) -> bool:
    """Whether a certificate takes no plans on a large estimate: also where pairs are known to be missing."""
    mdp, belief = run.problem.mdp, run.belief
    if not isinstance(belief, LearnedModel) or mdp.num_pairs * mdp.num_states <= LARGEST:
        return True
    is_told = belief.settings.know_states or isinstance(run, EnvironmentRun)
    return is_told and run.num_missing > 0


def is_lacking(evidence: Evidence) -> bool:
    """Whether something was never met or never tried."""
    return bool(evidence.unmet or evidence.unvisited)


def _is_by_rule(run: Run) -> bool:
    return isinstance(run.belief, LearnedModel) and run.belief.frame.rule is not None


def _true_gap(run: Run) -> float:
    return float(run.trace["excess"][-1])


def _number(value: float) -> str:
    return format(value, ".3g") if math.isfinite(value) else "-"
