"""The page of plans: the best coverage that a model allows, for one or more values of rho.

The verdict and the table of pairs are about the plan with the largest rho, which protects the worst pair
most. With three plans or more, the page shows the frontier: divergence and worst ratio against rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.planning.cover import PAIRS
from rhocover.planning.problem import counted_visits
from rhocover.planning.result import Plan, missed_plans
from rhocover.report import pages
from rhocover.report.figures import frontier_figure
from rhocover.report.pages.visits import PairShares, least_section, visits_picture, visits_section

MOST_MAPS = 5  # of plans; six together with the target
LEAST_FRONTIER = 3  # fewer points do not make a curve
MATCHED = 1.0005  # a worst ratio below this is shown as 1.00


def page_of_plans(plans: Sequence[Plan], *, visits: str = "", command: str = "") -> pages.Page:
    """Returns the page of plans for one model; `visits` says which visits count, `command` repeats it."""
    if not plans:
        raise InvalidArgumentError.of("plans", "must hold at least one plan", "none")
    plans = sorted(plans, key=lambda plan: plan.rho)
    main = plans[-1]
    seen = visits_of_plan(main)
    shares = {f"rho = {pages.order_words(plan.rho)}": plan.occupancy for plan in _mapped(plans)}
    where = f" at rho = {pages.order_words(main.rho)}" if len(plans) > 1 else ""
    entries = [
        *pages.model_entries(main.mdp), ("rho", _orders(plans)),
        ("weights mu", pages.weights_words(main.weights, main.unit)),
        ("visits that count", visits or _counted(main)), ("dropped", main.restriction),
        ("method", main.method),
    ]  # fmt: skip
    return replace(
        head_of_plans(plans),
        sections=pages.sections(
            visits_section("Where the visits go, and where they should be", seen, shares),
            _pairs_section(main, seen),
            least_section(seen, where),
            pages.section(f"Conditions{where}", conditions_table(main)),
            _frontier_section(plans),
            pages.settings_section(entries, command),
            pages.glossary_section(
                "pair", "mu", "rho", "occupancy", "divergence", "worst ratio", "certified gap", "plan"
            ),
        ),
    )


def head_of_plans(plans: Sequence[Plan]) -> pages.Page:
    """Returns the page of plans in the order of rho without its sections: the verdict, and some numbers."""
    seen, name = visits_of_plan(plans[-1]), plans[-1].mdp.name or "the model"
    title = f"{name}, rho = {_orders(plans)}"
    return pages.Page("The best possible coverage", title, _verdict(plans, seen), _numbers(plans, seen))


def _pairs_section(plan: Plan, seen: PairShares) -> pages.Section | None:
    """Returns the visits of pairs where groups are covered; None where pairs are."""
    if seen.names is None:
        return None
    return pages.section("Visits of pairs", visits_picture(seen, {"": plan.occupancy}))


def _orders(plans: Sequence[Plan]) -> str:
    return ", ".join(pages.order_words(plan.rho) for plan in plans)


def visits_of_plan(plan: Plan) -> PairShares:
    """Returns the target shares and those of the plan."""
    weights = plan.weights / plan.weights.max()
    names = None if plan.cover == PAIRS else plan.group_name
    return PairShares(plan.mdp, weights / weights.sum(), plan.shares, unit=plan.unit, names=names)


def _counted(plan: Plan) -> str:
    return counted_visits(plan.discount, plan.horizon)


def _verdict(plans: Sequence[Plan], seen: PairShares) -> pages.Verdict:
    main = plans[-1]
    if missed := missed_plans(plans):
        worst = missed[0]
        return pages.Verdict(
            f"{len(missed)} of {len(plans)} plans missed the tolerance: at rho = "
            f"{pages.order_words(worst.rho)} "
            f"{worst.status.value}. The page shows what was reached, which is at most "
            f"{pages.small_words(worst.gap)} nats from the best.",
            "Not solved", "poor",
        )  # fmt: skip
    if main.worst_ratio < MATCHED:
        return pages.Verdict(
            f"The visits can match the target exactly: every {main.unit} gets its share.",
            "Exact match",
            "good",
        )
    return pages.Verdict(f"{_shortfall(plans, seen)} {_proof(plans)}", "Solved and certified", "good")


def _shortfall(plans: Sequence[Plan], seen: PairShares) -> str:
    first, main = plans[0], plans[-1]
    text = (
        f"No policy{_under(main)} gives every {main.unit} its target share. At rho = "
        f"{pages.order_words(main.rho)} the best policy leaves {seen.least_covered} with "
        f"{pages.fraction_words(main.worst_ratio)}, and no {main.unit} with less"
    )
    if len(plans) == 1 or first.worst_ratio < 1.005 * main.worst_ratio:
        return f"{text}."
    worst = pages.fraction_words(first.worst_ratio)
    return f"{text}; at rho = {pages.order_words(first.rho)} the worst {main.unit} has {worst}."


def _proof(plans: Sequence[Plan]) -> str:
    gap = max(plan.gap for plan in plans)
    return f"Proved: no policy{_under(plans[0])} is closer to the target by more than {_at_most(gap)} nats."


def _under(plan: Plan) -> str:
    """Returns what restricts the policies besides the model; "" if nothing does."""
    return " that meets the conditions" if plan.conditions else ""


def _at_most(gap: float) -> str:
    return pages.small_words(gap).removeprefix("< ")


def _numbers(plans: Sequence[Plan], seen: PairShares) -> tuple[pages.KeyNumber, ...]:
    main = plans[-1]
    gap = max(plan.gap for plan in plans)
    at = f" at rho = {pages.order_words(main.rho)}" if len(plans) > 1 else ""
    return (
        pages.KeyNumber(
            pages.ratio_words(main.worst_ratio), f"worst ratio{at}",
            f"The least covered {main.unit} gets 1/{pages.ratio_words(main.worst_ratio)} of its share. 1 "
            "means all of it.",
        ),
        pages.KeyNumber(pages.small_words(main.divergence), f"divergence{at}",
                  "Distance from the target to what is possible, in nats; 0 is a perfect match."),
        pages.KeyNumber(pages.small_words(gap), "certified gap",
                  "Proved: no policy has a smaller divergence by more than this many nats."),
        pages.KeyNumber(f"{len(seen.order):,}", f"{main.unit}s", _counted_as(main)),
    )  # fmt: skip


def _counted_as(plan: Plan) -> str:
    return (
        "State-action pairs" if plan.unit == "pair" else f"{plan.unit.capitalize()}s"
    ) + " with positive weight."


def conditions_table(plan: Plan) -> pages.Table | None:
    """Returns the conditions with their values and prices; None if there are none."""
    if not plan.conditions:
        return None
    rows = tuple(
        (one.name, one.demand, f"{one.value:.6g}", f"{one.slack:.3g}", f"{one.price:.4g}")
        for one in plan.conditions
    )
    caption = (
        "The price is by how much one more unit of the limit would lower the divergence: 0 does not bind."
    )
    return pages.Table(caption, ("", "condition", "value", "slack", "price"), rows, words=(1,))


def _mapped(plans: Sequence[Plan]) -> Sequence[Plan]:
    """Returns the plans to map: all, or a few evenly spaced ones including the first and the last."""
    kept = np.unique(np.linspace(0, len(plans) - 1, min(len(plans), MOST_MAPS)).round().astype(int))
    return [plans[k] for k in kept]


def _frontier_section(plans: Sequence[Plan]) -> pages.Section | None:
    if len(plans) == 1:
        return None
    points = _points(plans)
    picture = None
    if len(points) >= LEAST_FRONTIER:
        rho, divergence, worst_ratio = points.T
        picture = pages.Picture(frontier_figure(rho, divergence, worst_ratio), FRONTIER, _frontier_alt(plans))
    return pages.section("Effect of rho", picture, _table(plans))


FRONTIER = (
    "From left to right, the least covered pair counts more and more. The worst ratio (orange) improves at "
    "the cost of a larger divergence (blue)."
)


def _frontier_alt(plans: Sequence[Plan]) -> str:
    first, last = plans[0], plans[-1]
    return (
        f"Two curves against rho. From rho = {pages.order_words(first.rho)} to "
        f"{pages.order_words(last.rho)} the worst "
        f"ratio goes from {pages.ratio_words(first.worst_ratio)} to "
        f"{pages.ratio_words(last.worst_ratio)}, and the "
        f"divergence to {pages.small_words(last.divergence)}. The table below has all values."
    )


def _points(plans: Sequence[Plan]) -> FloatArray:
    """Returns rho, divergence and worst ratio of the plans where they are finite."""
    found = [(plan.rho, plan.divergence, plan.worst_ratio) for plan in plans]
    return np.array([point for point in found if np.isfinite(point[1:]).all()])


def _table(plans: Sequence[Plan]) -> pages.Table:
    note = f" {pages.AT_ZERO}" * (plans[0].rho == 0)
    rows = tuple(
        (pages.order_words(plan.rho), f"{plan.divergence:.6f}", f"{plan.gap:.1e}", f"{plan.worst_ratio:.4f}",
         plan.status.name.lower().replace("_", " "))
        for plan in plans
    )  # fmt: skip
    headings = ("rho", "divergence, nats", "certified gap", "worst ratio", "status")
    return pages.Table(f"One plan per rho.{note}", headings, rows, words=(4,))
