"""The runs of a reproduction: each one a value, done in any process, with the same result.

A job names its model and carries its explorer with all settings, so it means the same wherever it runs, and
the answer does not depend on how many processes share the work. What it hands back are a few numbers that
one `measure` reads off the finished run. How processes begin, end and fail is as in `experiments.pool`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhocover import checks, envs
from rhocover.checks import FloatArray
from rhocover.experiments.pool import run_items
from rhocover.experiments.rows import Estimate, estimate
from rhocover.experiments.runs import Failure, error_of, failure_of
from rhocover.exploring import Run, explore

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """One run: a model by name, what `explore` is given, and what is read off the run."""

    env: str
    explorer: Any
    rho: float
    num_steps: int
    seed: int
    measure: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the model
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `explore`

    def run(self) -> FloatArray:
        """Returns the numbers that the measure reads off the run."""
        mdp = envs.make(self.env, **self.parameters)
        run = explore(
            mdp, self.rho, self.num_steps, explorer=self.explorer, seed=self.seed,
            **{"trace_points": 1, **self.arguments},
        )  # fmt: skip
        return np.atleast_1d(np.asarray(MEASURES[self.measure](run), float))

    def __str__(self) -> str:
        return f"{self.explorer} on {self.env} at rho = {self.rho:g}, seed {self.seed}"


def l1_error(run: Run) -> float:
    """Returns (1/SA) sum ||P_hat - P||_1 of the transitions seen."""
    return run.model_error().l1_mean


def squared_error(run: Run) -> float:
    """Returns n sum ||P_hat - P||_2^2 over the pairs with a weight, which are those with noise."""
    P, N = run.problem.mdp.transitions, run.transitions
    visits = np.repeat(run.visits, np.diff(P.indptr))
    with np.errstate(invalid="ignore"):
        gap = (N.data / visits - P.data) ** 2
    each = np.add.reduceat(gap, P.indptr[:-1])
    return run.num_steps * float(each[run.coverage.support].sum())


def worst_share(run: Run) -> float:
    """Returns max (1/SA)/d_hat over the pairs of the caller's model; steps of an episode are added up."""
    visits = run.counts.sum(axis=0) if run.counts.ndim == 3 else run.counts
    visits = visits[run.mdp.pair_state, run.mdp.pair_action]
    return run.num_steps / visits.size / visits.min() if visits.min() else np.inf


def regret_curve(run: Run) -> FloatArray:
    """Returns the regret at the times of the trace; nan before every pair was visited."""
    return run.trace["regret"]


MEASURES: dict[str, Callable[[Run], Any]] = {
    "l1_error": l1_error, "squared_error": squared_error, "worst_share": worst_share,
    "regret_curve": regret_curve,
}  # fmt: skip


def run_jobs(jobs: Sequence[Job], workers: int | None, report: Report | None) -> list[FloatArray]:
    """Returns the numbers of each job, in the order of the jobs."""
    workers = os.cpu_count() or 1 if workers is None else checks.integer(workers, "workers", least=1)
    workers, found = min(workers, len(jobs)), {}
    with closing(run_items(_answer, jobs, workers, caller="reproduce")) as answers:
        for k, outcome in answers:
            if isinstance(outcome, Failure):
                raise error_of(outcome, str(jobs[k]))
            found[k] = outcome
            if report is not None:
                report(len(found), len(jobs))
    return [found[k] for k in range(len(jobs))]


def estimates(jobs: Sequence[Job], numbers: Sequence[FloatArray]) -> list[Estimate]:
    """Returns mean and standard error over the seeds, for jobs that have one number and differ in seed.

    Jobs of one estimate stand together; a new one begins where the first job's seed comes again.
    """
    begins = [k for k, job in enumerate(jobs) if job.seed == jobs[0].seed]
    ends = [*begins[1:], len(jobs)]
    return [estimate(np.concatenate(numbers[a:b])) for a, b in zip(begins, ends, strict=True)]


def _answer(job: Job) -> FloatArray | Failure:
    try:
        return job.run()
    except Exception as error:
        return failure_of(error)
