"""The result of a comparison: the traces of all runs, and a table of what they reach.

Numbers are arrays over [envs, orders, explorers, seeds, times]. `curve` returns one line with its spread,
`table` the last values of all of them; `save` and `load` store them, so that figures can be drawn again
without new runs. The table has one row per model, order and explorer, with these numbers:

| number | possible |
|---|---|
| regret | 0: the best for the same noise |
| scaled_bregman, n times the Bregman part | kappa_min, a lower bound for every explorer on average |
| worst_ratio | that of the best plan |
| excess, divergence - D* | 0 in the long run; may be negative in a finite run |
| exponent of the regret, over the last two decades of steps | the theorem: at most -1/3 for Algorithm 1 |
| model_error, the mean L1 error of rows estimated from the observed transitions | 0 in the long run |

Means are over all seeds, or nan if a seed did not visit every pair: a mean over the others would be too good.
The model error always has a mean: a row without observations is estimated as uniform.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.documents import from_document, plain
from rhocover.errors import FileFormatError, InvalidArgumentError, naming
from rhocover.experiments.finished_runs import check_done, load_finished, size_of
from rhocover.experiments.question import COLUMNS, ENDS, FACTS, KIND, StoredQuestion
from rhocover.exploring.explorers.algorithm1 import Quadratic
from rhocover.exploring.explorers.registry import explorer_from_document
from rhocover.exploring.runs.result import regret_column
from rhocover.exploring.runs.spec import KNOWN, model_from_document, model_name
from rhocover.files import save_tensors
from rhocover.printing import count_of, printed
from rhocover.report.figures.drawing import as_text
from rhocover.report.figures.lines import Curve, curve_of, standard_error
from rhocover.report.figures.over_time import Part, regret_figure, worst_ratio_figure
from rhocover.showing import Shown
from rhocover.theory import measured_exponent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The rows of the table.

THEOREM = -1 / 3  # up to a logarithm
FITTED = 100  # the exponent is fitted from num_steps/100 on


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over seeds and its standard error; the error is nan for one seed."""

    mean: float
    standard_error: float

    def __str__(self) -> str:
        error = "" if math.isnan(self.standard_error) else f" ± {self.standard_error:.1g}"
        return "-" if math.isnan(self.mean) else f"{self.mean:.4g}{error}"


@dataclass(frozen=True)
class Row:
    """One explorer on one model at one order, after the last step."""

    env: str
    rho: float
    explorer: str
    num_seeds: int
    num_incomplete: int
    regret: MeanEstimate
    regret_unit: str  # "U", or "nats" for 8 < rho < inf, where U has no readable unit
    scaled_bregman: MeanEstimate
    kappa_min: float
    worst_ratio: MeanEstimate
    best_worst_ratio: float
    excess: MeanEstimate
    exponent: MeanEstimate
    theorem_exponent: float | None
    model_error: MeanEstimate

    def summary(self) -> dict[str, Any]:
        """Returns the row ready for JSON: None for nan, infinities as text."""
        return plain(asdict(self))

    def __str__(self) -> str:
        head = f"{self.env} rho={self.rho:g} {self.explorer}:"
        if self.num_incomplete:
            return f"{head} {self.num_incomplete} of {count_of(self.num_seeds, 'seed')} incomplete"
        return (
            f"{head} regret {self.regret}, worst ratio {self.worst_ratio} (best {self.best_worst_ratio:.4g})"
        )


def make_row(comparison: Comparison, env: str, rho: float, explorer: str) -> Row:
    """Returns the row of one explorer on one model at one order."""

    def last(column: str) -> FloatArray:
        return comparison.values(env, rho, explorer, column)[:, -1]

    return Row(
        env=env,
        rho=rho,
        explorer=explorer,
        num_seeds=len(comparison.seeds),
        num_incomplete=int(comparison.num_incomplete(env, rho, explorer)[-1]),
        regret=estimate(last(regret_column(rho))),
        regret_unit="U" if regret_column(rho) == "regret" else "nats",
        scaled_bregman=estimate(comparison.num_steps * last("bregman")),
        kappa_min=comparison.fact(env, rho, "kappa_min"),
        worst_ratio=estimate(last("worst_ratio")),
        best_worst_ratio=comparison.fact(env, rho, "best_worst_ratio"),
        excess=estimate(last("excess")),
        exponent=exponent(comparison.steps, comparison.values(env, rho, explorer, regret_column(rho))),
        theorem_exponent=THEOREM if comparison.follows_theorem(explorer) else None,
        model_error=estimate(comparison.at_end(env, rho, explorer, "model_error")),
    )


def estimate(values: FloatArray) -> MeanEstimate:
    """Returns the mean of values, one per seed, with its standard error."""
    with np.errstate(invalid="ignore"):
        return MeanEstimate(float(values.mean()), float(standard_error(values)))


def exponent(steps: Any, regret: FloatArray) -> MeanEstimate:
    """Returns the exponent of regret over the last two decades of steps where all seeds have a regret."""
    late = (steps >= steps[-1] / FITTED) & ~np.isnan(regret).any(axis=0)
    try:
        slope, error, _ = measured_exponent(steps[late], regret[:, late])
    except InvalidArgumentError:  # fewer than two times, or no positive regret
        return MeanEstimate(math.nan, math.nan)
    return MeanEstimate(slope, error)


# The comparison.


@dataclass(frozen=True, eq=False)
class Comparison(Shown):
    """Runs of several explorers with the same seeds and budgets.

    `columns` are those of a run's trace, `[envs, orders, explorers, seeds, times]`, nan while coverage is
    incomplete; `ends` are numbers at the end of a run, `[envs, orders, explorers, seeds]`; `facts` are
    sigma, kappa_min, best_divergence, best_worst_ratio and num_weighted, `[envs, orders]`. `question` holds
    the arguments, as text and numbers.
    """

    steps: IntArray
    envs: tuple[str, ...]
    orders: tuple[float, ...]
    explorers: tuple[str, ...]
    seeds: tuple[int, ...]
    columns: Mapping[str, FloatArray]
    ends: Mapping[str, FloatArray]
    facts: Mapping[str, FloatArray]
    question: Mapping[str, Any]

    @property
    def num_steps(self) -> int:
        """The budget of every run."""
        return int(self.steps[-1])

    @property
    def model(self) -> str:
        """What the explorers knew: "known", "learned", "posterior" or "from_scratch"."""
        return model_name(model_from_document(self.question["model"]))

    @property
    def conditions(self) -> str:
        """The settings that are not the default: a learned model, episodes, restarts."""
        horizon, discount = self.question["horizon"], self.question["discount"]
        words = [f"model {self.model.replace('_', ' ')}"] * (self.model != KNOWN)
        words += [f"all in episodes of {count_of(horizon, 'step')}"] * (horizon is not None)
        words += [f"all restarted with probability {1 - (discount or 1):.3g}"] * (discount is not None)
        return ", ".join(words)

    def values(self, env: str, rho: float, explorer: str, column: str) -> FloatArray:
        """Returns a column of the trace for every seed, `[seeds, times]`."""
        checks.choice(column, "column", COLUMNS)
        e, r = self._cell(env, rho)
        return self.columns[column][e, r, _find("explorer", explorer, self.explorers)]

    def at_end(self, env: str, rho: float, explorer: str, name: str) -> FloatArray:
        """Returns one of the `ends` for every seed, `[seeds]`."""
        checks.choice(name, "name", ENDS, kind="end")
        e, r = self._cell(env, rho)
        return self.ends[name][e, r, _find("explorer", explorer, self.explorers)]

    def curve(self, env: str, rho: float, explorer: str, column: str) -> Curve:
        """Returns mean, quantiles and standard error over the seeds, `[times]` each.

        A point is nan unless every seed has a number there; `num_incomplete` counts those without.
        """
        return curve_of(self.steps, self.values(env, rho, explorer, column))

    def curves(self, env: str, rho: float, column: str) -> dict[str, Curve]:
        """Returns the curve of each explorer."""
        return {name: self.curve(env, rho, name, column) for name in self.explorers}

    def fact(self, env: str, rho: float, name: str) -> float:
        """Returns one of the `facts` of a model and an order."""
        checks.choice(name, "name", FACTS, kind="fact")
        return float(self.facts[name][self._cell(env, rho)])

    def num_incomplete(self, env: str, rho: float, explorer: str) -> IntArray:
        """Returns how many seeds had not yet visited all pairs with positive weight, `[times]`."""
        visited = self.values(env, rho, explorer, "visited")
        return (visited < self.fact(env, rho, "num_weighted")).sum(axis=0)

    def follows_theorem(self, explorer: str) -> bool:
        """Whether an explorer is Algorithm 1 with the schedule and the known model of the paper's theorem."""
        document = self.question["explorer_settings"][_find("explorer", explorer, self.explorers)]
        if self.question["model"] != KNOWN or document is None or document["name"] != "algorithm1":
            return False
        return isinstance(explorer_from_document(document).schedule, Quadratic)

    def table(self) -> list[Row]:
        """Returns what was reached at the last step, one row per model, order and explorer."""
        return [
            make_row(self, env, rho, explorer)
            for env in self.envs
            for rho in self.orders
            for explorer in self.explorers
        ]

    def plot(
        self, kind: str | None = None, *, env: str | None = None, rho: float | None = None, title: str = ""
    ) -> Figure:
        """Returns regret (the usual kind), worst ratio or Bregman part over time, as a matplotlib figure.

        `env` and `rho` are one of the comparison; None is the first.
        """
        return self._drawn(kind, title, env=env, rho=rho)

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes everything to one file (see `rhocover.files`)."""
        done = np.ones(next(iter(self.columns.values())).shape[:-1], bool)
        tensors = {"steps": self.steps, "done": done, **self.columns, **self.ends, **self.facts}
        save_tensors(path, KIND, tensors, self.question, overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str) -> Comparison:
        """Returns the comparison in a file, or in the `out` folder of `compare`."""
        return from_file(*load_finished(path, KIND))

    @printed
    def __str__(self) -> str:
        size = size_of(self.explorers, self.seeds, self.num_steps)
        size += f"; {self.conditions}" if self.conditions else ""
        return "\n".join([f"Comparison of {size}", *(f"  {row}" for row in self.table())])

    __repr__ = __str__

    def _cell(self, env: str, rho: float) -> tuple[int, int]:
        rho = checks.number(rho, "rho")
        if rho not in self.orders:
            known = ", ".join(f"{order:g}" for order in self.orders)
            raise InvalidArgumentError.of("rho", f"must be one of {known}", f"{rho:g}")
        return _find("env", env, self.envs), self.orders.index(rho)


def from_file(tensors: Mapping[str, np.ndarray], document: Mapping[str, Any], origin: str) -> Comparison:
    """Returns the comparison that tensors and a document describe; raises if it is not finished."""
    said = f"{origin!r} does not hold a comparison"
    question = from_document(StoredQuestion, document, f"{said}: its question")
    if missing := [name for name in ("done", "steps", *COLUMNS, *ENDS, *FACTS) if name not in tensors]:
        raise FileFormatError(f"{said}: {missing[0]} is missing.")
    check_done(tensors["done"], origin)
    comparison = Comparison(
        steps=frozen(tensors["steps"]),
        envs=question.envs,
        orders=question.rho,
        explorers=question.explorers,
        seeds=question.seeds,
        columns={name: frozen(tensors[name]) for name in COLUMNS},
        ends={name: frozen(tensors[name]) for name in ENDS},
        facts={name: frozen(tensors[name]) for name in FACTS},
        question=document,
    )
    _check_shapes(comparison, origin)
    with naming(origin):
        _ = [
            comparison.follows_theorem(explorer) for explorer in comparison.explorers
        ]  # checks that they can be read
    return comparison


def _check_shapes(found: Comparison, origin: str) -> None:
    cells = len(found.envs), len(found.orders)
    grid = (*cells, len(found.explorers), len(found.seeds), found.steps.size)
    fits = len(found.question["explorer_settings"]) == len(found.explorers)
    fits &= all(array.shape == grid for array in found.columns.values())
    fits &= all(array.shape == grid[:-1] for array in found.ends.values())
    if not fits or any(array.shape != cells for array in found.facts.values()):
        raise FileFormatError(f"{origin!r} holds arrays whose shapes do not match its question.")


def _find(kind: str, name: str, known: Sequence[str]) -> int:
    return known.index(checks.choice(name, kind, known))


# Figures of a comparison for one model and one order: regret and worst ratio.

TITLES = {"regret": "Regret", "bregman": "Bregman part of the suboptimality"}


def comparison_regret_figure(
    comparison: Comparison, env: str, rho: float, *, part: Part = "regret", title: str = ""
) -> Figure:
    """Returns regret, or the Bregman part of the suboptimality, against steps for every explorer."""
    theorem = [name for name in comparison.explorers if comparison.follows_theorem(name)]
    column = regret_column(rho) if part == "regret" else part
    in_nats = column == "pathwise_excess"
    return regret_figure(
        comparison.curves(env, rho, column),
        kappa_min=np.nan if in_nats else comparison.fact(env, rho, "kappa_min"),
        unit="nats" if in_nats else "U",
        theorem_for=theorem[0] if theorem else None,
        part=part,
        title=title or f"{TITLES.get(part, part)}: {as_text(env)}, {order_name(rho)}",
    )


def comparison_worst_ratio_figure(comparison: Comparison, env: str, rho: float, *, title: str = "") -> Figure:
    """Returns the worst ratio against steps for every explorer, and that of the best plan."""
    return worst_ratio_figure(
        comparison.curves(env, rho, "worst_ratio"),
        best=comparison.fact(env, rho, "best_worst_ratio"),
        title=title or f"Worst ratio: {as_text(env)}, {order_name(rho)}",
    )


def order_name(rho: float) -> str:
    """Returns rho as shown in figures."""
    return rf"$\rho$ = {'∞' if rho == float('inf') else f'{rho:g}'}"
