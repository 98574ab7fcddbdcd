"""One run of a comparison: from a place in the grid to the rows of its trace, in any process.

What goes wrong becomes a value, too. Errors of this library have arguments that do not survive the way
between processes; their kind, their message and where they came from do.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import numpy as np

from rhocover import errors
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError, NotConvergedError, RhocoverError, SolverError
from rhocover.experiments.question import Place, Question
from rhocover.exploring import Run, explore
from rhocover.planning.threads import one_blas_thread

COLUMNS = (
    "regret", "bregman", "suboptimality", "excess", "pathwise_excess", "divergence", "gap", "worst_ratio",
    "visited", "least_count",
)  # fmt: skip
ENDS = ("model_error",)
FACTS = ("sigma", "kappa_min", "best_divergence", "best_worst_ratio", "num_weighted")
KINDS = {error.__name__: error for error in (InvalidArgumentError, NotConvergedError, SolverError)}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run left."""

    rows: FloatArray  # of its trace, [columns, times]
    ends: FloatArray  # what is known at its end only
    facts: FloatArray  # of its model and order


@dataclass(frozen=True)
class Failure:
    """Why a run left nothing."""

    kind: str
    message: str
    origin: str


def run_one(question: Question, place: Place) -> Outcome | Failure:
    """Returns the outcome of one run, or why there is none."""
    try:
        with one_blas_thread():
            return outcome_of(explore(**question.run_arguments(place)))
    except Exception as error:
        return failure_of(error)


def outcome_of(run: Run) -> Outcome:
    """Returns the columns and facts of a finished run."""
    facts = {
        "sigma": run.trace.sigma, "kappa_min": run.trace.kappa_min, "best_divergence": run.best.divergence,
        "best_worst_ratio": run.best.worst_ratio, "num_weighted": run.trace.num_weighted,
    }  # fmt: skip
    rows = np.array([run.trace[name] for name in COLUMNS], float)
    ends = np.array([run.model_error().l1_mean])
    return Outcome(rows, ends, np.array([facts[name] for name in FACTS], float))


def failure_of(error: Exception) -> Failure:
    """Returns the error being handled as a value; its kind is its name, or the one of ours that it is."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in KINDS), names[0])
    return Failure(kind, str(error), traceback.format_exc())


def error_of(failure: Failure, run: str) -> Exception:
    """Returns the error to raise: it says which run failed and why; a defect keeps its traceback."""
    message = f"the run of {run} failed: {failure.message}"
    if failure.kind in KINDS:
        return KINDS[failure.kind](message)
    if failure.kind == "MemoryError":
        return MemoryError(message)
    if hasattr(errors, failure.kind):
        return RhocoverError(message)
    return RuntimeError(f"{message} ({failure.kind})\n{failure.origin}")
