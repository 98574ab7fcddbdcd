"""Views of collections and top-ups: those of the audits of their data, and what an addition brings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rhocover.collecting.datasheet import Collection, head_of_collection, page_of_collection
from rhocover.collecting.top_up_result import TopUp, head_of_top_up, page_of_top_up, what_it_brings
from rhocover.report import pages
from rhocover.report.cards import make_view
from rhocover.report.columns import columns_of_audit
from rhocover.report.figures.drawing import as_text
from rhocover.report.pages.audit import visits_of_audit
from rhocover.report.pages.visits import PairShares, few_pairs, ratios_figure, visits_figure, visits_picture
from rhocover.report.views import AUDIT_VIEW, FEW, card, with_order
from rhocover.showing import Columns

# Collections: the same pictures and tables as of their audit.


def _of_audit(draw: Any, found: Collection, title: str) -> Figure:
    return draw(found.audit, title)


def card_of_collection(found: Collection) -> pages.Page:
    """Returns the card of a collection."""
    seen = visits_of_audit(found.audit)
    picture = visits_picture(seen, {"": found.audit.occupancy})
    return card(head_of_collection(found), few_pairs(seen, FEW), picture)


COLLECTION_VIEW = make_view(
    {kind: partial(_of_audit, draw) for kind, draw in AUDIT_VIEW.pictures.items()},
    {"pairs": lambda found: columns_of_audit(found.audit)},
    page_of_collection,
    card_of_collection,
)


# Top-ups.


def shares_of_top_up(found: TopUp) -> dict[str, np.ndarray]:
    """Returns the shares of the visits by name, over the states of the audit before."""
    new = found.before.num_steps / (found.before.num_steps + found.num_steps)
    union = new * found.before.occupancy + (1 - new) * found.predicted.psi
    return {"before": found.before.occupancy, "predicted": union} | _after(found)


def _after(found: TopUp) -> dict[str, np.ndarray]:
    """Returns the shares after the addition, if it met no other states."""
    if found.after is None or found.after.tally.keys != found.before.tally.keys:
        return {}
    return {"after": found.after.occupancy}


def plot_top_up(found: TopUp, title: str) -> Figure:
    """Returns each pair's share of the visits: before, predicted and, if it was collected, after."""
    return visits_figure(_before(found), shares_of_top_up(found), title or _title(found, "Visits"))


def plot_top_up_ratio(found: TopUp, title: str) -> Figure:
    """Returns target share / visited share: before, predicted and, if it was collected, after."""
    return ratios_figure(_before(found), shares_of_top_up(found), title or _title(found, "Target / visits"))


def _before(found: TopUp) -> PairShares:
    return visits_of_audit(found.before)


def _title(found: TopUp, what: str) -> str:
    name = as_text(found.before.tally.source)
    return with_order(f"{what} in {name} with {found.num_steps:,} more steps", found.before.rho)


def columns_of_top_up(found: TopUp) -> Columns:
    """Returns one row per pair of the data before, with `addition`, its share of the new visits."""
    before = columns_of_audit(found.before)
    return dict(before) | {"addition": found.predicted.psi.ravel(), "policy": found.policy.ravel()}


def columns_after(found: TopUp) -> Columns:
    """Returns one row per pair of the union; of the data before if nothing was collected."""
    return columns_of_audit(found.after or found.before)


def card_of_top_up(found: TopUp) -> pages.Page:
    """Returns the card of a top-up."""
    seen = _before(found)
    shares = shares_of_top_up(found)
    picture = replace(
        visits_picture(seen, shares),
        caption="Visits before, as predicted and, if collected, after the addition.",
    )
    return card(head_of_top_up(found), what_it_brings(found), picture)


TOP_UP_VIEW = make_view(
    {"visits": plot_top_up, "ratio": plot_top_up_ratio},
    {"pairs": columns_of_top_up, "after": columns_after},
    lambda found: page_of_top_up(found, ""),
    card_of_top_up,
)
