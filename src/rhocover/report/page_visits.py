"""Where the visits went against where they should be: what pages of plans, runs and data sets share.

`Visits` holds for each pair the share that was asked for, the share it got, and where they are known the
number of visits and the best share possible. From it come the maps, and the table of the least covered
pairs. Tables are `[S, A]`, or `[H, S, A]` for episodes of H steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rhocover.checks import FloatArray, IntArray
from rhocover.coverage import thinnest_first
from rhocover.mdp import MDP
from rhocover.report.figures import summary_figure
from rhocover.report.page import Cell, Fold, Picture, Section, Share, Table, section
from rhocover.report.page_shares import shares_figure
from rhocover.report.page_words import fraction_words, ratio_words, share_words

SHOWN, ALL, LONGEST = 10, 16, 100  # pairs in a table, in one that is whole, behind the fold
SHARES = (
    "Each cell is a state, divided among its actions. Bright pairs have many visits, dark ones few, white "
    "ones none; all maps have one logarithmic scale."
)
MISSING = (
    "What each pair was to get, divided by what it got. Red pairs have too few visits, blue ones more than "
    "they were to get, white ones their share."
)
CURVE = (
    "All pairs in order, the least covered first. A pair on the dashed line has exactly its share, a pair at "
    "10% a tenth of it."
)


@dataclass(frozen=True, eq=False)
class Visits:
    """What each pair was to get, `target`, and got, `share`; both sum to 1."""

    mdp: MDP
    target: FloatArray
    share: FloatArray
    counts: IntArray | None = None  # None: a plan, which has not acted
    best: FloatArray | None = None  # the share of the best plan, nan where that is not known

    @cached_property
    def ratio(self) -> FloatArray:
        """Target share / share: inf where never visited, 0 where there is no weight."""
        return _ratio(self.target, self.share)

    @cached_property
    def best_ratio(self) -> FloatArray | None:
        """The same of the best plan, where that is known."""
        return None if self.best is None else _ratio(self.target, self.best)

    @cached_property
    def order(self) -> IntArray:
        """The pairs with a weight, as positions in the flat table, the least covered first."""
        return thinnest_first(self.target, self.share)

    @property
    def num_unvisited(self) -> int:
        """How many pairs with a weight have no visit."""
        return int(np.isinf(self.ratio).sum())

    @property
    def least_covered(self) -> str:
        """The name of the pair that falls shortest."""
        return self.name(int(self.order[0]))

    def name(self, position: int) -> str:
        """Returns the name of a pair by its position in the flat table, with its step where it has one."""
        *step, state, action = (int(k) for k in np.unravel_index(position, self.target.shape))
        s = self.mdp.state_labels[state] if self.mdp.state_labels else state
        a = self.mdp.action_labels[action] if self.mdp.action_labels else action
        return f"({s}, {a})" + (f" at step {step[0]}" if step else "")


def visits_section(heading: str, visits: Visits, shares: Mapping[str, FloatArray]) -> Section:
    """Returns maps of `shares`, tables by the name of what has them, and of what each of them misses.

    What was asked for comes first, as a map of its own. Where states lie nowhere there is a curve instead.
    """
    if not has_map(visits.mdp):
        best = None if visits.best_ratio is None else visits.best_ratio.ravel()[visits.order]
        best = None if best is not None and np.isnan(best).any() else best
        figure = shares_figure(visits.ratio.ravel()[visits.order], best)
        unseen = f" {visits.num_unvisited:,} pairs at the left were never visited."
        caption = CURVE + unseen * bool(visits.num_unvisited)
        return section(heading, Picture(figure, caption, _missing_alt(visits, "A curve of")))
    asked = {"asked for": visits.target} | dict(shares)
    flat = {name: _over_steps(table) for name, table in asked.items()}
    missing = {name: _worst_step(_ratio(visits.target, table)) for name, table in shares.items()}
    note = " Black ones were never visited." if visits.num_unvisited else ""
    note += _grey(visits.mdp)
    note += " Of the steps of an episode the worst one is shown." if visits.target.ndim == 3 else ""
    return section(
        heading,
        Picture(summary_figure(visits.mdp, flat), SHARES, _shares_alt(asked)),
        Picture(
            summary_figure(visits.mdp, missing, quantity="ratio"), MISSING + note,
            _missing_alt(visits, "Maps of"),
        ),
    )  # fmt: skip


def _grey(mdp: MDP) -> str:
    """Returns what places of a grid of bins are that are no states; "" where all of them are."""
    rulers = mdp.layout.rulers if mdp.layout is not None else ()
    number = math.prod(len(ruler.edges) - 1 for ruler in rulers)
    return " Grey bins were never acted in, and nothing is asked of them." if mdp.num_states < number else ""


def _shares_alt(tables: Mapping[str, FloatArray]) -> str:
    names = ", ".join(f"“{name}”" for name in tables)
    return f"Maps of the share of the visits that each pair has, side by side: {names}."


def _missing_alt(visits: Visits, what: str) -> str:
    worst = float(visits.ratio.ravel()[visits.order[0]])
    return (
        f"{what} what each pair was to get against what it got. The pair that falls shortest, "
        f"{visits.least_covered}, has {fraction_words(worst)}. The table of the least covered pairs has the "
        "numbers."
    )


def least_section(visits: Visits, where: str = "") -> Section:
    """Returns the table of the least covered pairs, and behind a fold the pairs that come next."""
    heading, number = f"Least covered pairs{where}", len(visits.order)
    if number <= ALL:
        return section(heading, _table(visits, visits.order, "All pairs, in the order of what they miss."))
    caption = f"The {SHOWN} of {number:,} pairs that fall shortest of what was asked for."
    others = f"The other {number - SHOWN} pairs" if number <= LONGEST else f"The next {LONGEST - SHOWN} pairs"
    behind = _table(visits, visits.order[SHOWN:LONGEST], f"{others}, in the order of what they miss.")
    return section(heading, _table(visits, visits.order[:SHOWN], caption), Fold(others, (behind,)))


def _table(visits: Visits, positions: IntArray, caption: str) -> Table:
    amount = "visits per 1,000 steps" if visits.counts is None else "visits"
    headings = ("pair", amount, "share of what was asked", "missing factor")
    if visits.best is not None:
        headings = (*headings, "factor in the best plan")
    return Table(caption, headings, tuple(_row(visits, int(k)) for k in positions))


def _row(visits: Visits, position: int) -> tuple[Cell, ...]:
    ratio = float(visits.ratio.ravel()[position])
    part = 1 / ratio if ratio > 0 else 0.0
    amount = f"{1000 * float(visits.share.ravel()[position]):.3g}"
    if visits.counts is not None:
        amount = f"{int(visits.counts.ravel()[position]):,}"
    best = [] if visits.best_ratio is None else [ratio_words(float(visits.best_ratio.ravel()[position]))]
    return visits.name(position), amount, Share(part, share_words(part)), ratio_words(ratio), *best


def has_map(mdp: MDP) -> bool:
    """Whether there is a map of this model: without a layout its states lie nowhere."""
    return mdp.layout is not None


def _ratio(target: FloatArray, share: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(target > 0, target / share, 0.0)


def _over_steps(table: FloatArray) -> FloatArray:
    return table if table.ndim == 2 else table.sum(axis=0)


def _worst_step(ratio: FloatArray) -> FloatArray:
    return ratio if ratio.ndim == 2 else ratio.max(axis=0)
