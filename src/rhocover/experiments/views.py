"""Views of comparisons, on models and on environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rhocover.experiments.comparison import (
    Comparison,
    comparison_regret_figure,
    comparison_worst_ratio_figure,
)
from rhocover.experiments.env_comparison import EnvComparison
from rhocover.printing import encodable
from rhocover.report import pages
from rhocover.report.cards import make_view
from rhocover.report.pages.comparison import (
    cells_of_comparison,
    head_of_comparison,
    page_of_comparison,
    ranked_table,
    worst_ratio_picture,
)
from rhocover.report.pages.found import found_picture, found_table, head_of_found, page_of_found
from rhocover.report.views import card
from rhocover.showing import Columns

# Comparisons on models.


def plot_regret(found: Comparison, title: str, env: str | None, rho: float | None) -> Figure:
    """Returns the regret of every explorer over time."""
    return comparison_regret_figure(found, *_cell(found, env, rho), title=title)


def plot_bregman(found: Comparison, title: str, env: str | None, rho: float | None) -> Figure:
    """Returns the Bregman part of the suboptimality of every explorer over time."""
    return comparison_regret_figure(found, *_cell(found, env, rho), part="bregman", title=title)


def plot_worst_ratio(found: Comparison, title: str, env: str | None, rho: float | None) -> Figure:
    """Returns the worst ratio of every explorer over time."""
    return comparison_worst_ratio_figure(found, *_cell(found, env, rho), title=title)


def _cell(found: Comparison, env: str | None, rho: float | None) -> tuple[str, float]:
    """Returns the model and the order that are asked for, by default the first; refuses others."""
    cell = found.envs[0] if env is None else env, found.orders[0] if rho is None else rho
    found.fact(*cell, "kappa_min")  # raises if there is no such cell
    return cell


def columns_of_runs(found: Comparison) -> Columns:
    """Returns one row per run, with its numbers at the end."""
    at_end = {name: values[..., -1] for name, values in found.columns.items()} | dict(found.ends)
    grid = next(iter(at_end.values())).shape
    return _named(found, grid) | {name: np.ravel(values) for name, values in at_end.items()}


def columns_of_traces(found: Comparison) -> Columns:
    """Returns one row per run and step of its trace."""
    grid = next(iter(found.columns.values())).shape
    steps = np.broadcast_to(found.steps, grid).ravel()
    named = _named(found, grid) | {"steps": steps}
    return named | {name: np.ravel(values) for name, values in found.columns.items()}


def _named(found: Comparison, grid: tuple[int, ...]) -> dict[str, Any]:
    """Returns the columns that name a run, for a grid `[envs, orders, explorers, seeds, ...]`."""
    env, rho, explorer, seed = (np.ravel(axis) for axis in np.indices(grid)[:4])
    return {
        "env": _texts(found.envs, env),
        "rho": np.array(found.orders)[rho],
        "explorer": _texts(found.explorers, explorer),
        "seed": [found.seeds[k] for k in seed.tolist()],
    }


def _texts(names: tuple[str, ...], places: Any) -> list[str]:
    texts = [encodable(name) for name in names]
    return [texts[k] for k in places.tolist()]


def card_of_comparison(found: Comparison) -> pages.Page:
    """Returns the card of a comparison: the first model and rho, and how many others there are."""
    cells = cells_of_comparison(found)
    others = len(cells) - 1
    rest = f"{others} more: plot(env=..., rho=...), table(), report(path)." if others else ""
    first = f"{cells[0][0].env}, rho = {pages.order_words(cells[0][0].rho)}"
    parts = [first, ranked_table(cells[0]), worst_ratio_picture(cells[0], found), rest]
    return card(head_of_comparison(found, cells), *(part for part in parts if part))


COMPARISON_VIEW = make_view(
    {"regret": plot_regret, "worst_ratio": plot_worst_ratio, "bregman": plot_bregman},
    {"runs": columns_of_runs, "trace": columns_of_traces},
    page_of_comparison,
    card_of_comparison,
)


# Comparisons on environments.


def plot_found(found: EnvComparison, title: str, env: str | None) -> Figure:
    """Returns what every explorer found over time."""
    return found.figure(found.envs[0] if env is None else env, title=title)


def columns_of_env_runs(found: EnvComparison) -> Columns:
    """Returns one row per run: the codes and cells it found, and when it had 95 % of the most."""
    kind = "cells" if found.has_cells else "codes"
    rows = [
        (env, explorer, seed, codes.size, cells.size, steps)
        for env in found.envs
        for explorer in found.explorers
        for seed, codes, cells, steps in zip(
            found.seeds, found.found(env, explorer, "codes"), found.found(env, explorer, "cells"),
            found.times(env, explorer, kind), strict=True,
        )
    ]  # fmt: skip
    return _turned(("env", "explorer", "seed", "codes", "cells", "steps"), rows)


def columns_of_discoveries(found: EnvComparison) -> Columns:
    """Returns one row per code or cell of each run, and the step at which it was first seen."""
    return _turned(("env", "explorer", "seed", "kind", "number", "step"), list(_discoveries(found)))


def _discoveries(found: EnvComparison) -> Iterator[tuple[Any, ...]]:
    for kind, runs in found.first.items():
        for (env, explorer, seed), steps in runs.items():
            names = found.envs[env], found.explorers[explorer], found.seeds[seed], kind
            for number, step in enumerate(steps.tolist(), start=1):
                yield *names, number, step


def _turned(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Columns:
    """Returns rows as columns; texts as UTF-8 can encode them."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return {
        name: [encodable(value) if isinstance(value, str) else value for value in column]
        for name, column in zip(names, columns, strict=True)
    }


def card_of_found(found: EnvComparison) -> pages.Page:
    """Returns the card of a comparison on environments: the first one."""
    env = found.envs[0]
    return card(head_of_found(found), env, found_table(found, env), found_picture(found, env))


ENV_COMPARISON_VIEW = make_view(
    {"found": plot_found},
    {"runs": columns_of_env_runs, "discoveries": columns_of_discoveries},
    page_of_found,
    card_of_found,
)
