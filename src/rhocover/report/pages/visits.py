"""Visits against their targets: the sections that pages of plans, runs and data sets share.

`PairShares` holds the target share and the visited share of each pair and, if known, the number of visits and
the share in the best plan. The maps and the table of the least covered pairs are made from it. Tables are
`[S, A]`, or `[H, S, A]` for episodes of H steps.

Two curves replace figures that are not available: the sorted shares of all pairs, if the states have no
layout to draw a map on, and the number of visited pairs over time, if coverage is incomplete and nothing
else can be drawn over time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import thinnest_first
from rhocover.mdp import MDP
from rhocover.report.figures import BLUE, summary_figure
from rhocover.report.figures.drawing import drawing
from rhocover.report.figures.lines import GREY, Ending, one_panel, time_axis, write_endings
from rhocover.report.pages import (
    Cell,
    Fold,
    Picture,
    Section,
    Share,
    Table,
    fraction_words,
    ratio_words,
    section,
    share_words,
)

# Two curves: the sorted shares of all pairs, and the number of visited pairs over time.

MOST_POINTS = 2_000  # on a curve
MOST_TICKS = 8
HEADROOM = 1.15
BELOW = 2.0  # pairs without a visit are drawn this factor below the least share, apart from its ticks


def shares_figure(
    ratio: FloatArray, best: FloatArray | None = None, *, unit: str = "pair", title: str = ""
) -> Figure:
    """Returns the shares 1/ratio of all pairs in increasing order, and those of the best plan.

    Pairs without a visit are drawn below all others, on a line labelled "none".
    """
    lines = {"visited": (1 / ratio, BLUE)} | ({} if best is None else {"best plan": (1 / best, GREY)})
    shares = np.concatenate([share for share, _ in lines.values()])
    least, has_none = float(shares[shares > 0].min(initial=1.0)), bool((shares == 0).any())
    lowest = least / BELOW if has_none else least
    with drawing():
        figure, axes = one_panel(title)
        axes.axhline(1, color=GREY, linestyle="--", linewidth=1, gid="due", zorder=1.5)
        endings = [Ending("target", 1.0, GREY)]
        for name, (share, colour) in lines.items():
            place, height = _thinned(np.maximum(np.sort(share), lowest))
            axes.plot(place, height, color=colour, linewidth=1.8, gid=name)
            endings.append(Ending(name, float(height[-1]), colour))
        _share_axes(axes, lowest / HEADROOM, HEADROOM * float(shares.max()), len(ratio))
        axes.set_xlabel(f"{unit}s, least covered first")
        if has_none:
            _name_none(axes, lowest, least)
        write_endings(axes, endings)
    return figure


def discovery_figure(steps: IntArray, visited: IntArray, number: int, title: str = "") -> Figure:
    """Returns the curve of visited pairs, out of `number`, after each of `steps`."""
    last = int(visited[-1])
    with drawing():
        figure, axes = one_panel(title)
        time_axis(axes, int(steps[-1]), int(steps[0]))
        axes.plot(steps, visited, color=BLUE, linewidth=1.8, gid="visited")
        axes.axhline(number, color=GREY, linestyle="--", linewidth=1, gid="all", zorder=1.5)
        axes.set_ylim(0, 1.06 * number)
        axes.set_ylabel("pairs visited")
        endings = [Ending(f"visited: {last:,}", last, BLUE), Ending(f"all: {number:,}", number, GREY)]
        write_endings(axes, endings)
    return figure


def _share_axes(axes: Axes, low: float, high: float, number: int) -> None:
    axes.set_yscale("log")
    axes.set_ylim(low, max(high, HEADROOM))
    axes.yaxis.set_major_locator(FixedLocator(_ticks(low, max(high, HEADROOM))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: share_words(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlim(0, number)
    axes.set_ylabel("visits, as a share of the target")
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _name_none(axes: Axes, lowest: float, least: float) -> None:
    """Labels the line of pairs without a visit "none", because its height is not a share."""
    shares = _ticks(least / HEADROOM, axes.get_ylim()[1])
    axes.yaxis.set_major_locator(FixedLocator([lowest, *shares]))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: share_words(value) if value > lowest else "none")
    )


def _ticks(low: float, high: float) -> list[float]:
    """Returns round shares within the axis, including 100%, few enough to be readable."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**power for power in powers for m in mantissas if low <= m * 10.0**power <= high]
        if len(ticks) <= MOST_TICKS:
            return ticks
    return [tick for tick in ticks if round(np.log10(tick)) % (len(ticks) // MOST_TICKS + 1) == 0]


def _thinned(share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the coordinates of at most `MOST_POINTS` points, including the first and the last."""
    kept = np.unique(np.linspace(0, len(share) - 1, min(len(share), MOST_POINTS)).astype(np.int64))
    return kept.astype(float) + 0.5, share[kept]


# Maps of the visits, and the table of the least covered pairs.

SHOWN, ALL, LONGEST = 10, 16, 100  # pairs in a table, in a table without a fold, with the fold
SHARES = (
    "Each cell is a state, divided among its actions. Bright pairs have many visits, dark ones few, white "
    "ones none; all maps use the same logarithmic scale."
)
MISSING = (
    "The target share of each pair, divided by its share of the visits. Red pairs have too few visits, blue "
    "ones more than their target, white ones match it."
)
LISTED = "The pairs with the fewest visits, on a logarithmic scale."
CURVE = (
    "All pairs, sorted from the least covered to the most covered. A pair on the dashed line has exactly its "
    "target share, a pair at 10% has a tenth of it."
)


@dataclass(frozen=True, eq=False)
class PairShares:
    """The target share and the visited share of each pair; both sum to 1."""

    mdp: MDP
    target: FloatArray
    share: FloatArray
    counts: IntArray | None = None  # None: a plan, without actual visits
    best: FloatArray | None = None  # the share in the best plan, nan if not known
    unit: str = "pair"  # what each share belongs to
    names: Callable[[int], str] | None = None  # of groups by their position; None for pairs

    @cached_property
    def ratio(self) -> FloatArray:
        """Target share / visited share: inf if never visited, 0 if the weight is 0."""
        return _ratio(self.target, self.share)

    @cached_property
    def best_ratio(self) -> FloatArray | None:
        """The same for the best plan, if known."""
        return None if self.best is None else _ratio(self.target, self.best)

    @cached_property
    def order(self) -> IntArray:
        """The pairs with positive weight, as positions in the flat table, least covered first."""
        return thinnest_first(self.target, self.share)

    @property
    def num_unvisited(self) -> int:
        """The number of pairs with positive weight and no visit."""
        return int(np.isinf(self.ratio).sum())

    @property
    def least_covered(self) -> str:
        """The name of the least covered pair."""
        return self.name(int(self.order[0]))

    def name(self, position: int) -> str:
        """Returns the name of the pair at a position in the flat table, with its step if there is one."""
        if self.names is not None:
            return self.names(position)
        *step, state, action = (int(k) for k in np.unravel_index(position, self.target.shape))
        s = self.mdp.state_labels[state] if self.mdp.state_labels else state
        a = self.mdp.action_labels[action] if self.mdp.action_labels else action
        return f"({s}, {a})" + (f" at step {step[0]}" if step else "")


def visits_section(heading: str, visits: PairShares, shares: Mapping[str, FloatArray]) -> Section:
    """Returns maps of the tables in `shares`, by name, and maps of target / share for each of them.

    The first map shows the target. A model without a layout has a curve instead of maps.
    """
    if not has_map(visits.mdp) or visits.names is not None:
        best = None if visits.best_ratio is None else visits.best_ratio.ravel()[visits.order]
        best = None if best is not None and np.isnan(best).any() else best
        figure = shares_figure(visits.ratio.ravel()[visits.order], best, unit=visits.unit)
        unseen = f" {visits.num_unvisited:,} {visits.unit}s at the left were never visited."
        caption = CURVE.replace("pair", visits.unit) + unseen * bool(visits.num_unvisited)
        return section(heading, Picture(figure, caption, _missing_alt(visits, "A curve of")))
    asked = {"target": visits.target} | dict(shares)
    flat = {name: over_steps(table) for name, table in asked.items()}
    missing = {name: worst_step(_ratio(visits.target, table)) for name, table in shares.items()}
    note = " Black ones were never visited." if visits.num_unvisited else ""
    note += _grey(visits.mdp)
    note += " With episodes, the worst step is shown." if visits.target.ndim == 3 else ""
    return section(
        heading,
        Picture(summary_figure(visits.mdp, flat), SHARES, _shares_alt(asked)),
        Picture(
            summary_figure(visits.mdp, missing, quantity="ratio"), MISSING + note,
            _missing_alt(visits, "Maps of"),
        ),
    )  # fmt: skip


def _grey(mdp: MDP) -> str:
    """Returns a note on the bins of a grid that are not states; "" if all of them are."""
    rulers = mdp.layout.rulers if mdp.layout is not None else ()
    number = math.prod(len(ruler.edges) - 1 for ruler in rulers)
    return " Grey bins were never visited and have no target." if mdp.num_states < number else ""


def _shares_alt(tables: Mapping[str, FloatArray]) -> str:
    names = ", ".join(f"“{name}”" for name in tables)
    return f"Maps of each pair's share of the visits, side by side: {names}."


def _missing_alt(visits: PairShares, what: str) -> str:
    worst = float(visits.ratio.ravel()[visits.order[0]])
    return (
        f"{what} target share against visited share of each {visits.unit}. The least covered {visits.unit}, "
        f"{visits.least_covered}, has {fraction_words(worst)}. The table of the least covered {visits.unit}s "
        "has the numbers."
    )


def least_section(visits: PairShares, where: str = "") -> Section:
    """Returns the table of the least covered pairs, and the next ones in a fold."""
    units = f"{visits.unit}s"
    heading, number = f"Least covered {units}{where}", len(visits.order)
    if number <= ALL:
        return section(heading, _table(visits, visits.order, f"All {units}, least covered first."))
    caption = f"The {SHOWN} least covered of {number:,} {units}."
    rest = f"other {number - SHOWN}" if number <= LONGEST else f"next {LONGEST - SHOWN}"
    others = f"The {rest} {units}"
    behind = _table(visits, visits.order[SHOWN:LONGEST], f"{others}, least covered first.")
    return section(heading, _table(visits, visits.order[:SHOWN], caption), Fold(others, (behind,)))


def few_pairs(visits: PairShares, number: int) -> Table:
    """Returns a short table of the least covered pairs."""
    shown = visits.order[:number]
    return _table(visits, shown, f"The {len(shown)} least covered of {len(visits.order):,} {visits.unit}s.")


def visits_figure(visits: PairShares, shares: Mapping[str, FloatArray], title: str = "") -> Figure:
    """Returns maps of shares by name, or a list of the pairs with the fewest visits."""
    return summary_figure(visits.mdp, {name: over_steps(table) for name, table in shares.items()}, title)


def ratios_figure(visits: PairShares, shares: Mapping[str, FloatArray], title: str = "") -> Figure:
    """Returns maps of target / share by name, or a list of the pairs with the largest ratios."""
    if visits.names is not None:
        return shares_figure(visits.ratio.ravel()[visits.order], unit=visits.unit, title=title)
    panels = {name: worst_step(_ratio(visits.target, table)) for name, table in shares.items()}
    return summary_figure(visits.mdp, panels, title, quantity="ratio")


def visits_picture(visits: PairShares, shares: Mapping[str, FloatArray]) -> Picture:
    """Returns the picture of shares by name with its caption: maps, or a list without a layout."""
    caption = SHARES if has_map(visits.mdp) else LISTED
    return Picture(visits_figure(visits, shares), caption, _missing_alt(visits, "A picture of"))


def _table(visits: PairShares, positions: IntArray, caption: str) -> Table:
    amount = "visits per 1,000 steps" if visits.counts is None else "visits"
    headings = (visits.unit, amount, "share of target", "ratio")
    if visits.best is not None:
        headings = (*headings, "ratio in the best plan")
    return Table(caption, headings, tuple(_row(visits, int(k)) for k in positions))


def _row(visits: PairShares, position: int) -> tuple[Cell, ...]:
    ratio = float(visits.ratio.ravel()[position])
    part = 1 / ratio if ratio > 0 else 0.0
    amount = f"{1000 * float(visits.share.ravel()[position]):.3g}"
    if visits.counts is not None:
        amount = f"{int(visits.counts.ravel()[position]):,}"
    best = [] if visits.best_ratio is None else [ratio_words(float(visits.best_ratio.ravel()[position]))]
    return visits.name(position), amount, Share(part, share_words(part)), ratio_words(ratio), *best


def has_map(mdp: MDP) -> bool:
    """Whether there is a map of this model: that needs a layout of its states."""
    return mdp.layout is not None


def _ratio(target: FloatArray, share: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(target > 0, target / share, 0.0)


def over_steps(table: FloatArray) -> FloatArray:
    """Returns shares `[S, A]`, summed over the steps of an episode."""
    return table if table.ndim == 2 else table.sum(axis=0)


def worst_step(ratio: FloatArray) -> FloatArray:
    """Returns ratios `[S, A]`, those of the worst step of an episode."""
    return ratio if ratio.ndim == 2 else ratio.max(axis=0)
