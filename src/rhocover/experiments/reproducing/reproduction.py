"""The result of a reproduction: our numbers next to those that were published or proved, and its runs.

A row holds one number of ours, which is a mean over seeds with its standard error if it was measured, and the
number it is compared with. There are two kinds of rows:

- a measured number and a published one. `ratio` compares them; there is no verdict, because a published mean
  has no spread of its own runs;
- a statement with a left and a right side. `relation` is "=", "<=", or "->" if the right side is a limit, and
  `allowed` is the difference that is allowed: rounding, the bound of a theorem, or the random error of a
  mean. `holds` is the verdict.

`note` says what is not reproduced, or what is different here; notes are printed below the table.

A `Job` is one run: the name of its model and its explorer with all settings. So its result does not depend on
the process that runs it, nor on the number of processes. It returns a few numbers that one of the `MEASURES`
computes from the finished run. Processes are those of `experiments.pool`.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rhocover import checks, envs
from rhocover.checks import FloatArray
from rhocover.documents import plain
from rhocover.experiments.comparison import MeanEstimate, estimate
from rhocover.experiments.pool import run_items
from rhocover.experiments.question import Failure, error_of, failure_of
from rhocover.exploring import Run, explore
from rhocover.progress import Report

PAGE = 100  # characters in a line of prose
MEASURED = 4  # digits of a mean with a standard error


@dataclass(frozen=True)
class ReproducedRow:
    """One number of ours and the number it is compared with, or None."""

    group: str  # the model
    label: str
    ours: MeanEstimate
    published: float | None = None  # or the right-hand side of a statement
    asymptotic: float | None = None  # the limit in the long run
    relation: str = ""  # "=", "->" or "<=" for statements
    allowed: float | None = None
    is_comparable: bool = True  # False if the settings differ from the published ones
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours / published; None if the settings differ."""
        if not self.published or not self.is_comparable:
            return None
        return self.ours.mean / self.published

    @property
    def difference(self) -> float | None:
        """Ours - published."""
        return None if self.published is None else self.ours.mean - self.published

    @property
    def holds(self) -> bool | None:
        """Whether a statement holds within the allowed difference; None if the row is not a statement."""
        if self.difference is None or self.allowed is None or math.isnan(self.difference):
            return None
        missed = self.difference if self.relation == "<=" else abs(self.difference)
        return bool(missed <= self.allowed)

    def summary(self) -> dict[str, Any]:
        """Returns the row ready for JSON."""
        found = {name: value for name, value in asdict(self).items() if name != "ours"}
        derived = {"ratio": self.ratio, "difference": self.difference, "holds": self.holds}
        numbers = {"mean": self.ours.mean, "standard_error": self.ours.standard_error}
        return {name: plain(value) for name, value in (numbers | found | derived).items()}


@dataclass(frozen=True)
class Reproduction:
    """Our numbers next to others; `columns` maps attributes of a row to their headings."""

    name: str
    title: str
    citation: str
    text: str  # what was run
    rows: tuple[ReproducedRow, ...]
    columns: Mapping[str, str]
    digits: int = 4

    @property
    def groups(self) -> tuple[str, ...]:
        """The models, in the order of their rows."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    @property
    def broken(self) -> tuple[ReproducedRow, ...]:
        """The statements that do not hold."""
        return tuple(row for row in self.rows if row.holds is False)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the rows, each once."""
        return tuple(dict.fromkeys(row.note for row in self.rows if row.note))

    def row(self, group: str, label: str) -> ReproducedRow:
        """Returns the row with this group and label."""
        return next(row for row in self.rows if (row.group, row.label) == (group, label))

    def cells(self, row: ReproducedRow) -> list[str]:
        """Returns a row as strings: its label with the number of its note, and its numbers."""
        mark = f" [{self.notes.index(row.note) + 1}]" if row.note else ""
        return [row.label + mark, *(self._cell(row, name) for name in self.columns)]

    def summary(self) -> dict[str, Any]:
        """Returns everything ready for JSON."""
        return {
            "name": self.name, "title": self.title, "citation": self.citation, "text": self.text,
            "rows": [row.summary() for row in self.rows],
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [self.title, *_wrapped(self.text), *_wrapped(f"Source: {self.citation}.")]
        for group in self.groups:
            rows = [self.cells(row) for row in self.rows if row.group == group]
            lines += ["", *_aligned([[group, *self.columns.values()], *rows])]
        lines += [""] * bool(self.notes)
        for k, note in enumerate(self.notes, 1):
            lines += _wrapped(f"[{k}] {note}")
        return "\n".join(lines)

    __repr__ = __str__

    def _cell(self, row: ReproducedRow, name: str) -> str:
        value = getattr(row, name)
        if name == "ours":
            return _spread(value, self.digits)
        if name == "holds":
            return {True: "yes", False: "NO", None: ""}[value]
        if value is None or isinstance(value, str):
            return value or ""
        form = {"ratio": ".3f", "difference": ".1e", "allowed": ".1e"}.get(name, f".{self.digits}g")
        return format(value, form)


def _spread(found: MeanEstimate, digits: int) -> str:
    """Returns mean ± standard error, the mean alone if there is no error, or "-" for nan."""
    if math.isnan(found.mean):
        return "-"
    if math.isnan(found.standard_error):
        return f"{found.mean:.{digits}g}"
    return f"{found.mean:.{MEASURED}g} ± {found.standard_error:.1g}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, PAGE, subsequent_indent="    " if text.startswith("[") else "")


def _aligned(table: list[list[str]]) -> list[str]:
    """Returns lines with aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]


def exactly(value: float) -> MeanEstimate:
    """Returns a computed number as an estimate without a standard error."""
    return MeanEstimate(float(value), math.nan)


# The runs of a reproduction.


@dataclass(frozen=True)
class Job:
    """One run: the name of a model, the arguments of `explore`, and the measure of the run."""

    env: str
    explorer: Any
    rho: float
    num_steps: int
    seed: int
    measure: str
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the model
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `explore`

    def run(self) -> FloatArray:
        """Returns the numbers that the measure computes from the run."""
        mdp = envs.make(self.env, **self.parameters)
        run = explore(
            mdp, self.rho, self.num_steps, explorer=self.explorer, seed=self.seed,
            **{"trace_points": 1, **self.arguments},
        )  # fmt: skip
        return np.atleast_1d(np.asarray(MEASURES[self.measure](run), float))

    def __str__(self) -> str:
        return f"{self.explorer} on {self.env} at rho = {self.rho:g}, seed {self.seed}"


def l1_error(run: Run) -> float:
    """Returns (1/SA) sum ||P_hat - P||_1 of the observed transitions."""
    return run.model_error().l1_mean


def squared_error(run: Run) -> float:
    """Returns n sum ||P_hat - P||_2^2 over the pairs with positive weight, which are those with noise."""
    P, N = run.problem.mdp.transitions, run.transitions
    visits = np.repeat(run.visits, np.diff(P.indptr))
    with np.errstate(invalid="ignore"):
        gap = (N.data / visits - P.data) ** 2
    each = np.add.reduceat(gap, P.indptr[:-1])
    return run.num_steps * float(each[run.coverage.support].sum())


def worst_share(run: Run) -> float:
    """Returns max (1/SA)/d_hat over the pairs of the caller's model, summed over steps of an episode."""
    visits = run.counts.sum(axis=0) if run.counts.ndim == 3 else run.counts
    visits = visits[run.mdp.pair_state, run.mdp.pair_action]
    return run.num_steps / visits.size / visits.min() if visits.min() else np.inf


def regret_curve(run: Run) -> FloatArray:
    """Returns the regret at the times of the trace; nan until every pair has been visited."""
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


def estimate_cells(
    cells: Sequence[tuple[str, str]],
    make_job: Callable[..., Job],
    num_steps: int,
    seeds: Sequence[int],
    workers: int | None,
    report: Report | None,
) -> dict[tuple[str, str], MeanEstimate]:
    """Returns mean and standard error over the seeds for each (model, label)."""
    jobs = [make_job(*cell, num_steps, seed) for cell in cells for seed in seeds]
    return dict(zip(cells, estimates(jobs, run_jobs(jobs, workers, report)), strict=True))


def estimates(jobs: Sequence[Job], numbers: Sequence[FloatArray]) -> list[MeanEstimate]:
    """Returns mean and standard error over the seeds, for jobs with one number each that differ in seed.

    Jobs of one estimate are adjacent; a new estimate begins where the seed of the first job occurs again.
    """
    begins = [k for k, job in enumerate(jobs) if job.seed == jobs[0].seed]
    ends = [*begins[1:], len(jobs)]
    return [estimate(np.concatenate(numbers[a:b])) for a, b in zip(begins, ends, strict=True)]


def _answer(job: Job) -> FloatArray | Failure:
    try:
        return job.run()
    except Exception as error:
        return failure_of(error)
