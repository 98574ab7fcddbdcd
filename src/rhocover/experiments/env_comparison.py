"""The result of a comparison on environments: what each explorer found, and when.

A run is described by the steps at which it first saw each code and each held-out cell; every number here
follows from them exactly. `table` has one row per environment and explorer:

| number | meaning |
|---|---|
| codes | distinct codes of the states that were seen |
| cells | distinct held-out cells that were seen, in a code that no explorer knew |
| steps | when 95 % of the most cells that any run here found were seen; infinite if they never were |

The numbers are means over the seeds with the least and the largest. Without a held-out code, steps are those
to 95 % of the most codes. The most that was found need not be all that there is: nothing here says that an
environment was explored completely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.documents import from_document, plain
from rhocover.errors import FileFormatError
from rhocover.experiments.comparison import Comparison
from rhocover.experiments.env_question import KIND, EnvPlace, StoredEnvQuestion, check_tensors, run_name
from rhocover.experiments.finished_runs import check_done, load_finished, size_of
from rhocover.exploring.runs.result import grid_of_steps
from rhocover.files import save_tensors
from rhocover.printing import printed
from rhocover.report.figures.drawing import as_text, drawing
from rhocover.report.figures.lines import (
    Curve,
    draw_curves,
    one_panel,
    standard_error,
    time_axis,
    write_endings,
)
from rhocover.showing import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE = 0.95  # of the most that any run found
POINTS = 40  # of a curve, per factor of ten
KINDS = ("codes", "cells")


@dataclass(frozen=True)
class Range:
    """The mean over seeds, the least and the largest; infinite where a seed never got there."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isinf(self.low):
            return "never"
        if math.isinf(self.high):
            return f"{self.low:,.0f} at the earliest"
        spread = "" if self.low == self.high else f" ({self.low:,.0f} to {self.high:,.0f})"
        return f"{self.mean:,.0f}{spread}"


def range_of(values: Any) -> Range:
    """Returns mean, least and largest of one value per seed."""
    values = np.asarray(values, float)
    return Range(float(values.mean()), float(values.min()), float(values.max()))


@dataclass(frozen=True)
class FoundRow:
    """What one explorer found in one environment."""

    env: str
    explorer: str
    num_seeds: int
    codes: Range
    cells: Range | None  # None without a held-out code
    steps: Range
    num_reached: int  # seeds that saw 95 % of the most that was found

    def summary(self) -> dict[str, Any]:
        """Returns the row ready for JSON, infinities as text."""
        return plain(asdict(self))

    def __str__(self) -> str:
        cells = "" if self.cells is None else f", {self.cells} cells"
        at = "at step " if self.num_reached else ""
        return f"{self.env} {self.explorer}: {self.codes} codes{cells}, {SHARE:.0%} {at}{self.when}"

    @property
    def when(self) -> str:
        """The step at which 95 % of the most that any run found were seen; by how many seeds, if not all."""
        some = 0 < self.num_reached < self.num_seeds
        return f"{self.steps}, by {self.num_reached} of {self.num_seeds} seeds" if some else str(self.steps)


@dataclass(frozen=True, eq=False)
class EnvComparison(Shown):
    """Runs of several explorers in environments, with the same seeds and budgets.

    `first` holds the steps at which something new was seen, by kind ("codes" or "cells") and position
    [env, explorer, seed], in increasing order. `question` holds the arguments, as text and numbers.
    """

    envs: tuple[str, ...]
    explorers: tuple[str, ...]
    seeds: tuple[int, ...]
    num_steps: int
    first: Mapping[str, Mapping[EnvPlace, IntArray]]
    question: Mapping[str, Any]

    @property
    def has_cells(self) -> bool:
        """Whether there was a held-out code in every environment."""
        return all(code is not None for code in self.question["held_out"])

    def found(self, env: str, explorer: str, kind: str) -> list[IntArray]:
        """Returns, for every seed, the steps at which a new code or cell was seen."""
        checks.choice(kind, "kind", KINDS)
        e, x = self._find("env", env, self.envs), self._find("explorer", explorer, self.explorers)
        return [self.first[kind][e, x, k] for k in range(len(self.seeds))]

    def most(self, env: str, kind: str) -> int:
        """Returns the most codes or cells that any run found in an environment."""
        return max(steps.size for x in self.explorers for steps in self.found(env, x, kind))

    def times(self, env: str, explorer: str, kind: str, share: float = SHARE) -> FloatArray:
        """Returns when each seed had seen this share of the most that any run found; inf for never."""
        needed = max(math.ceil(checks.probability(share, "share") * self.most(env, kind)), 1)
        found = self.found(env, explorer, kind)
        return np.array([steps[needed - 1] if steps.size >= needed else math.inf for steps in found], float)

    def curve(self, env: str, explorer: str, kind: str) -> Curve:
        """Returns how many were found against steps: mean, and the range over the seeds as a band."""
        grid = np.array(grid_of_steps(self.num_steps, POINTS, 1), np.int64)
        values = [np.searchsorted(steps, grid, "right") for steps in self.found(env, explorer, kind)]
        found = np.array(values, float)
        return Curve(
            grid, found.mean(axis=0), found.min(axis=0), np.median(found, axis=0), found.max(axis=0),
            standard_error(found), len(found), np.zeros(grid.size, np.int64),
        )  # fmt: skip

    def table(self) -> list[FoundRow]:
        """Returns one row per environment and explorer."""
        return [self._row(env, explorer) for env in self.envs for explorer in self.explorers]

    def _row(self, env: str, explorer: str) -> FoundRow:
        kind = KINDS[self.has_cells]
        codes, cells = ([steps.size for steps in self.found(env, explorer, name)] for name in KINDS)
        times = self.times(env, explorer, kind)
        return FoundRow(
            env, explorer, len(self.seeds), range_of(codes), range_of(cells) if self.has_cells else None,
            range_of(times), int(np.isfinite(times).sum()),
        )  # fmt: skip

    def plot(self, kind: str | None = None, *, env: str | None = None, title: str = "") -> Figure:
        """Returns what was found over time in one environment (None is the first), as a matplotlib figure."""
        return self._drawn(kind, title, env=env)

    def figure(self, env: str, *, title: str = "") -> Figure:
        """Returns held-out cells (codes without them) against steps: one line per explorer, range shaded."""
        kind = KINDS[self.has_cells]
        curves = {explorer: self.curve(env, explorer, kind) for explorer in self.explorers}
        number = len(self.seeds)
        note = f"mean of {number} runs; bands from the least to the most" if number > 1 else "one run"
        with drawing():
            figure, axes = one_panel(title or f"Found in {as_text(env)}", note)
            time_axis(axes, self.num_steps)
            endings = draw_curves(axes, curves)
            axes.set_ylim(0, 1.05 * self.most(env, kind))
            axes.set_ylabel("held-out cells" if self.has_cells else "codes")
            write_endings(axes, endings)
        return figure

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes everything to one file (see `rhocover.files`)."""
        tensors = {
            run_name(kind, place): steps for kind in KINDS for place, steps in self.first[kind].items()
        }
        shape = len(self.envs), len(self.explorers), len(self.seeds)
        save_tensors(
            path, KIND, {"done": np.ones(shape, bool), **tensors}, self.question, overwrite=overwrite
        )

    @classmethod
    def load(cls, path: Path | str) -> EnvComparison:
        """Returns the comparison in a file, or in the `out` folder of `compare`."""
        return from_tensors(*load_finished(path, KIND))

    @printed
    def __str__(self) -> str:
        size = size_of(self.explorers, self.seeds, self.num_steps)
        return "\n".join([f"Comparison of {size}", *(f"  {row}" for row in self.table())])

    __repr__ = __str__

    @staticmethod
    def _find(kind: str, name: str, known: tuple[str, ...]) -> int:
        return known.index(checks.choice(name, kind, known))


def load_comparison(path: Path | str) -> Any:
    """Returns the comparison in a file or folder, on models or on environments."""
    try:
        return EnvComparison.load(path)
    except FileFormatError:
        return Comparison.load(path)


def from_tensors(
    tensors: Mapping[str, np.ndarray], document: Mapping[str, Any], origin: str
) -> EnvComparison:
    """Returns the comparison that tensors and a document describe; raises if it is not finished."""
    said = f"{origin!r} does not hold a comparison"
    question = from_document(StoredEnvQuestion, document, f"{said}: its question")
    names = question.envs, question.explorers, question.seeds
    shape = len(names[0]), len(names[1]), len(names[2])
    if len(question.held_out) != shape[0]:
        raise FileFormatError(f"{said}: it has held-out codes of other environments.")
    check_tensors(tensors, shape, repr(origin))
    check_done(tensors["done"], origin)
    first = {kind: {p: frozen(tensors[run_name(kind, p)]) for p in np.ndindex(*shape)} for kind in KINDS}
    return EnvComparison(*names, question.num_steps, first, document)
