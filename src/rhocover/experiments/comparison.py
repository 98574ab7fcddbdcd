"""What a comparison returns: every run's numbers over time, side by side, and where they end.

Numbers are arrays over [envs, orders, explorers, seeds, times]. `curve` reads one line with its spread,
`table` the last row of all of them, `save` and `load` keep them, so that a picture is drawn again without
running again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray, frozen
from rhocover.errors import FileFormatError, InvalidArgumentError, shortened
from rhocover.experiments.ledger import FILE, KIND
from rhocover.experiments.rows import Row, make_row
from rhocover.experiments.runs import COLUMNS, ENDS, FACTS
from rhocover.exploring.models import KNOWN, model_from_document, model_name
from rhocover.files import load_tensors, save_tensors
from rhocover.printing import printed
from rhocover.report.curves import Curve, curve_of


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs of several explorers with the same seeds and budgets.

    `columns` are those of a run's trace, `[envs, orders, explorers, seeds, times]`, nan while coverage is
    incomplete; `ends` are numbers of the end of a run, `[envs, orders, explorers, seeds]`; `facts` are
    sigma, kappa_min, best_divergence, best_worst_ratio and num_weighted, `[envs, orders]`. `question` holds
    what was asked, as text and numbers.
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
        """What was not as it is by default: the model that was learned, the episodes all explorers played."""
        horizon, discount = self.question["horizon"], self.question["discount"]
        words = [f"model {self.model.replace('_', ' ')}"] * (self.model != KNOWN)
        words += [f"all in episodes of {horizon} steps"] * (horizon is not None)
        words += [f"all restarted with probability {1 - (discount or 1):.3g}"] * (discount is not None)
        return ", ".join(words)

    def values(self, env: str, rho: float, explorer: str, column: str) -> FloatArray:
        """Returns a column of the trace for every seed, `[seeds, times]`."""
        checks.choice(column, "column", COLUMNS)
        e, r = self._cell(env, rho)
        return self.columns[column][e, r, _find("explorer", explorer, self.explorers)]

    def at_end(self, env: str, rho: float, explorer: str, name: str) -> FloatArray:
        """Returns one of the `ends` for every seed, `[seeds]`."""
        checks.choice(name, "end", ENDS)
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
        checks.choice(name, "fact", FACTS)
        return float(self.facts[name][self._cell(env, rho)])

    def num_incomplete(self, env: str, rho: float, explorer: str) -> IntArray:
        """Returns how many seeds had a pair with a weight still unvisited, `[times]`."""
        visited = self.values(env, rho, explorer, "visited")
        return (visited < self.fact(env, rho, "num_weighted")).sum(axis=0)

    def follows_theorem(self, explorer: str) -> bool:
        """Whether an explorer is Algorithm 1 with the schedule and the known model of the paper's theorem."""
        settings = self.question["explorer_settings"][_find("explorer", explorer, self.explorers)] or {}
        schedule = settings.get("settings", {}).get("schedule") or [None]
        is_known = self.question["model"] == KNOWN
        return is_known and settings.get("name") == "algorithm1" and schedule[0] == "quadratic"

    def table(self) -> list[Row]:
        """Returns what was reached at the last step, a row for each model, order and explorer."""
        return [
            make_row(self, env, rho, explorer)
            for env in self.envs
            for rho in self.orders
            for explorer in self.explorers
        ]

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Writes everything to one file (see `rhocover.files`)."""
        done = np.ones(next(iter(self.columns.values())).shape[:-1], bool)
        tensors = {"steps": self.steps, "done": done, **self.columns, **self.ends, **self.facts}
        save_tensors(path, KIND, tensors, self.question, overwrite=overwrite)

    @classmethod
    def load(cls, path: Path | str) -> Comparison:
        """Returns the comparison of a file, or of the folder that `compare` wrote it to."""
        path = checks.place(path, "path")
        tensors, document = load_tensors(path / FILE if path.is_dir() else path, KIND)
        return from_file(tensors, document, str(path))

    @printed
    def __str__(self) -> str:
        size = f"{len(self.explorers)} explorers, {len(self.seeds)} seeds, {self.num_steps} steps"
        size += f"; {self.conditions}" if self.conditions else ""
        return "\n".join([f"Comparison of {size}", *(f"  {row}" for row in self.table())])

    __repr__ = __str__

    def _cell(self, env: str, rho: float) -> tuple[int, int]:
        rho = checks.number(rho, "rho")
        if rho not in self.orders:
            known = ", ".join(f"{order:g}" for order in self.orders)
            raise InvalidArgumentError(f"`rho` must be one of {known}, got {rho:g}.")
        return _find("env", env, self.envs), self.orders.index(rho)


def from_file(tensors: Mapping[str, np.ndarray], document: Mapping[str, Any], origin: str) -> Comparison:
    """Returns the comparison that tensors and a document describe; refuses one that is not finished."""
    try:
        done = tensors["done"]
        if not done.all():
            raise InvalidArgumentError(
                f"{origin!r} holds {int(done.sum())} of {done.size} runs. Call compare again with the same "
                "arguments: it goes on from there."
            )
        comparison = Comparison(
            steps=frozen(tensors["steps"]),
            envs=tuple(document["envs"]),
            orders=tuple(float(rho) for rho in document["rho"]),
            explorers=tuple(document["explorers"]),
            seeds=tuple(document["seeds"]),
            columns={name: frozen(tensors[name]) for name in COLUMNS},
            ends={name: frozen(tensors[name]) for name in ENDS},
            facts={name: frozen(tensors[name]) for name in FACTS},
            question=document,
        )
        if not all(isinstance(name, str) for name in (*comparison.envs, *comparison.explorers)):
            raise TypeError("a name that is text")
        _ = comparison.conditions  # reads what the question must have
        _ = [comparison.follows_theorem(explorer) for explorer in comparison.explorers]
    except InvalidArgumentError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise FileFormatError(
            f"{origin!r} does not hold a comparison: {shortened(error)} is missing."
        ) from error
    _check_shapes(comparison, origin)
    return comparison


def _check_shapes(found: Comparison, origin: str) -> None:
    cells = len(found.envs), len(found.orders)
    grid = (*cells, len(found.explorers), len(found.seeds), found.steps.size)
    fits = all(array.shape == grid for array in found.columns.values())
    fits &= all(array.shape == grid[:-1] for array in found.ends.values())
    if not fits or any(array.shape != cells for array in found.facts.values()):
        raise FileFormatError(f"{origin!r} holds arrays that do not fit its own question.")


def _find(kind: str, name: str, known: Sequence[str]) -> int:
    return known.index(checks.choice(name, kind, known))
