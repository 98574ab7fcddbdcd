"""The audit of a collection, judged by what there was to be covered: also by what was never met.

An audit of data knows the states that are in it. A collection knows more: how many bins were declared, that
nobody can say which states there are, or that they are not Markov.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.collecting.environment_run import EnvironmentRun
from rhocover.collecting.scope import Scope
from rhocover.collecting.tallied_run import TalliedRun, if_markov
from rhocover.datasets.result import Audit, ThinPair
from rhocover.documents import plain
from rhocover.errors import Note
from rhocover.exploring.certificates import Certificate
from rhocover.exploring.run import Run

NO_BEST = "The best is not known, because it is not known whether what was not met can be met."
FIRST = 3  # pairs in a sentence


def scoped(audit: Audit, run: Run) -> Audit:
    """Returns the audit with what was not met told: missing where it was declared, unknown where not."""
    if isinstance(run, TalliedRun) and run.markov.is_found and audit.certificate is not None:
        audit = replace(audit, certificate=if_markov(audit.certificate))
    if not isinstance(run, EnvironmentRun):
        return audit
    return _with_missing(audit, run.scope) if audit.num_pairs < run.scope.num_weighted else audit


def _with_missing(audit: Audit, scope: Scope) -> Audit:
    """Returns the audit with the pairs of states that were never met among those that were never tried."""
    divergence, worst_ratio = scope.figures(audit.rho)
    first = checks.name_some(scope.beyond_names[:FIRST], FIRST)
    delta = 0.05 if audit.certificate is None else audit.certificate.delta
    return replace(
        audit,
        divergence=divergence,
        worst_ratio=worst_ratio,
        num_pairs=scope.num_weighted,
        num_missing=scope.num_missing,
        best=None,
        best_occupancy=None,
        gap=np.nan,
        thin=_thin(audit, scope),
        certificate=Certificate(divergence, np.inf, np.inf, 0.0, delta),
        observed_note=Note(audit.observed_note, NO_BEST),
        verdict=f"Covers {scope.num_visited} of {scope.num_weighted} pairs; {scope.met_text}. Among those "
        f"that were never tried: {first}.",
    )


def _thin(audit: Audit, scope: Scope) -> tuple[ThinPair, ...]:
    """Returns the pairs with the smallest share of their due: those not met, then those met."""
    beyond = [ThinPair(name, 0, 0.0, np.nan) for name in scope.beyond_names]
    more = 1 + scope.weight_beyond / float(scope.weights.sum()) if scope.weights.any() else 1.0
    met = [replace(pair, share=pair.share * more, best_share=np.nan) for pair in audit.thin]
    return tuple(sorted([*beyond, *met], key=lambda pair: pair.share)[: max(len(audit.thin), 1)])


def scope_document(run: Run) -> dict[str, Any]:
    """Returns what a datasheet says of what was to be covered and whether its states are Markov."""
    found: dict[str, Any] = {}
    if isinstance(run, TalliedRun):
        found["markov"] = run.markov.document() | {"planned_distance": run.planned_distance}
        found["remarks"] = list(run.remarks)
    if isinstance(run, EnvironmentRun):
        figures = {"divergence": plain(run.divergence), "worst_ratio": plain(run.worst_ratio)}
        found["scope"] = run.scope.document() | figures
    return found
