"""What a reproduction returns: our numbers beside those that were published or proved.

A row holds one number of ours, a mean over seeds with its standard error where it was measured, and the
number it is to be held against. Two kinds of rows share the type:

- a measured number beside a published one. `ratio` says how far they are apart; nothing is called right
  or wrong, because a published mean comes without the spread of its own runs;
- a statement with a left and a right side. `relation` says how they are to stand to each other, "=", "<=",
  or "->" where the right side is a limit, and `allowed` by how much they may miss that: rounding, a bound
  that a theorem gives, or what chance does to a mean. `holds` is the verdict.

`note` says what is not reproduced, or what is different here; notes stand below the table.

The runs of a reproduction: each one a value, done in any process, with the same result.

A job names its model and carries its explorer with all settings, so it means the same wherever it runs,
and the answer does not depend on how many processes share the work. What it hands back are a few numbers
that one `measure` reads off the finished run. How processes begin, end and fail is as in
`experiments.pool`.
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

PAGE = 100  # letters in a line of prose
MEASURED = 4  # digits of a mean that has an error


@dataclass(frozen=True)
class ReproducedRow:
    """One number of ours beside another; None where there is none."""

    group: str  # the model
    label: str
    ours: MeanEstimate
    published: float | None = None  # or the right-hand side of a statement
    asymptotic: float | None = None  # what the long run tends to
    relation: str = ""  # "=", "->" or "<=" for statements
    allowed: float | None = None
    is_comparable: bool = True  # with other settings than the published ones it is not
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours over the other; None where they are not of the same settings."""
        if not self.published or not self.is_comparable:
            return None
        return self.ours.mean / self.published

    @property
    def difference(self) -> float | None:
        """Ours minus the other."""
        return None if self.published is None else self.ours.mean - self.published

    @property
    def holds(self) -> bool | None:
        """Whether a statement holds within what is allowed; None for rows that are none."""
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
    """Our numbers beside others; `columns` maps what a row has to the heading that it is shown under."""

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
        """Returns the row of that label."""
        return next(row for row in self.rows if (row.group, row.label) == (group, label))

    def cells(self, row: ReproducedRow) -> list[str]:
        """Returns a row as texts: its label, its numbers, and the number of its note."""
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
    """Returns mean ± standard error; the mean alone where there is no error, "-" where there is neither."""
    if math.isnan(found.mean):
        return "-"
    if math.isnan(found.standard_error):
        return f"{found.mean:.{digits}g}"
    return f"{found.mean:.{MEASURED}g} ± {found.standard_error:.1g}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, PAGE, subsequent_indent="    " if text.startswith("[") else "")


def _aligned(table: list[list[str]]) -> list[str]:
    """Returns lines in which columns stand below each other: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]


def exactly(value: float) -> MeanEstimate:
    """Returns a number that was computed, not measured: an estimate without an error."""
    return MeanEstimate(float(value), math.nan)


# The runs of a reproduction: each one a value, done in any process, with the same result.

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
