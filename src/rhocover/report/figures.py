"""Pictures of coverage: where the visits go, which pairs get too few, what rho buys.

A *map* paints one number per pair on the cells of the model's layout; a model without one has a *ranked list*
of its pairs instead. A *summary* is several of either with one scale. A *frontier* shows divergence and worst
ratio against rho from 0 to infinity. Every function takes plain values and returns a matplotlib figure that
belongs to nobody: pyplot is never touched, so no window opens, no display is needed and nothing has to be
closed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.files import write_atomically
from rhocover.mdp import MDP
from rhocover.report.drawing import drawing, drawn
from rhocover.report.frontier import draw_frontier
from rhocover.report.maps import is_split, map_figure
from rhocover.report.ranked import ranked_figure
from rhocover.report.scales import occupancy_scale, ratio_scale

Quantity = Literal["occupancy", "ratio"]
FORMATS = (".png", ".svg", ".pdf")


def occupancy_figure(mdp: MDP, occupancy: Any, title: str = "") -> Figure:
    """Returns a map of the share of visits of each pair, given as `[S, A]` or `[n]`."""
    return summary_figure(mdp, {"": occupancy}, title)


def ratio_figure(mdp: MDP, ratio: Any, title: str = "") -> Figure:
    """Returns a map of target/visits of each pair, `[S, A]` or `[n]`; red is too few, blue too many.

    A ratio may be infinite (never visited: black) or 0 (no weight: hatched).
    """
    return summary_figure(mdp, {"": ratio}, title, quantity="ratio")


def summary_figure(
    mdp: MDP, panels: Mapping[str, Any], title: str = "", *, quantity: Quantity = "occupancy"
) -> Figure:
    """Returns one map per entry, subtitle to values, side by side with one colour scale.

    A model without a layout has ranked lists instead, of the fewest visits or the largest ratios.
    """
    if quantity not in _KINDS:
        raise InvalidArgumentError(f"`quantity` must be 'occupancy' or 'ratio', got {quantity!r}.")
    if not panels:
        raise InvalidArgumentError("`panels` must hold at least one map, got none.")
    read, choose, merged = _KINDS[quantity]
    values = {subtitle: read(mdp, table) for subtitle, table in panels.items()}
    with drawing():
        scale = choose(list(values.values()), "" if is_split(mdp) else merged)
        if mdp.layout is None:
            return ranked_figure(mdp, values, scale, title, largest_first=quantity == "ratio")
        return map_figure(mdp, values, scale, title)


def frontier_figure(rho: Any, divergence: Any, worst_ratio: Any, title: str = "") -> Figure:
    """Returns D_rho and the worst ratio of the optimum against rho, each `[k]`, rho from 0 to inf.

    The two curves share one axis: the worst ratio is exp(D_inf), so on the logarithmic scale of the
    right they bracket the minimax optimum and meet it at rho = inf, if that point is given.
    """
    rho = _increasing(rho)
    divergence = checks.float_array(divergence, "divergence", rho.shape)
    worst_ratio = checks.float_array(worst_ratio, "worst_ratio", rho.shape)
    if (worst_ratio <= 0).any():
        raise InvalidArgumentError(f"`worst_ratio` must be positive, got {worst_ratio.min():g}.")
    with drawing():
        return draw_frontier(rho, divergence, worst_ratio, title)


def save_figure(figure: Figure, path: Path | str, *, overwrite: bool = False, dpi: int = 150) -> None:
    """Writes the figure as PNG, SVG or PDF, by the ending of `path`, whole or not at all.

    The same figure gives the same bytes: no dates, no random identifiers. A figure that pyplot keeps
    is closed afterwards; the figures of this file need no closing.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgumentError(f"`path` must end in {', '.join(FORMATS)}, got {path.name!r}.")
    kind = path.suffix.lower()[1:]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    write_atomically(path, drawn(figure, kind, dpi=dpi, metadata=undated.get(kind)), overwrite=overwrite)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)


def _occupancies(mdp: MDP, occupancy: Any) -> FloatArray:
    values = mdp.per_pair(occupancy, "occupancy")
    checks.check_nonnegative(values, "occupancy")
    return values if is_split(mdp) else np.bincount(mdp.pair_state, values, mdp.num_states).astype(float)


def _ratios(mdp: MDP, ratio: Any) -> FloatArray:
    """Returns ratios per pair, or the largest of each state; NaN where a pair has no weight."""
    values = checks.real_array(ratio, "ratio")
    if values.shape == (mdp.num_states, mdp.num_actions):
        values = values[mdp.pair_state, mdp.pair_action]
    checks.check_shape(values.shape, "ratio", (mdp.num_pairs,))
    if np.isnan(values).any():
        raise InvalidArgumentError("`ratio` must not hold nan; use inf for pairs that were never visited.")
    checks.check_nonnegative(values, "ratio")
    if not is_split(mdp):
        largest = np.zeros(mdp.num_states)
        np.maximum.at(largest, mdp.pair_state, values)
        values = largest
    return np.where(values > 0, values, np.nan)


def _increasing(rho: Any) -> FloatArray:
    values = checks.real_array(rho, "rho")
    checks.check_shape(values.shape, "rho", (None,))
    checks.check_nonnegative(values, "rho")
    if values.size < 2 or not (np.diff(values) > 0).all():
        raise InvalidArgumentError("`rho` must hold at least two values in increasing order.")
    return values


_KINDS = {
    "occupancy": (_occupancies, occupancy_scale, ", all actions"),
    "ratio": (_ratios, ratio_scale, ", worst action"),
}
