"""Views of models, plans, runs, budgets, tallies and audits: their pictures, tables, pages and cards.

The card of a result is the head of its page, the least covered pairs, and one picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from rhocover.checks import FloatArray
from rhocover.datasets.result import Audit
from rhocover.datasets.tally import Tally
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run
from rhocover.exploring.runs.result import is_certificate_cheap
from rhocover.mdp import MDP
from rhocover.planning import Plan
from rhocover.report import columns, pages
from rhocover.report.cards import make_view
from rhocover.report.figures.drawing import as_text
from rhocover.report.figures.model import entropy_figure, transitions_figure
from rhocover.report.figures.over_time import run_figure
from rhocover.report.pages.audit import (
    head_of_audit,
    page_of_audit,
    progress_picture,
    shares_of_audit,
    visits_of_audit,
)
from rhocover.report.pages.budget import efforts_table, head_of_budget, page_of_budget
from rhocover.report.pages.model import head_of_model, model_picture, page_of_model, random_pairs
from rhocover.report.pages.plan import conditions_table, head_of_plans, page_of_plans, visits_of_plan
from rhocover.report.pages.run import (
    head_of_run,
    is_judged,
    page_of_run,
    regret_picture,
    time_picture,
    visits_of_run,
)
from rhocover.report.pages.tally import discovery_picture, head_of_tally, page_of_tally, visits_of_tally
from rhocover.report.pages.tradeoff import (
    head_of_tradeoff,
    page_of_tradeoff,
    points_table,
    tradeoff_picture,
)
from rhocover.report.pages.visits import PairShares, few_pairs, ratios_figure, visits_figure, visits_picture
from rhocover.theory import Budget

FEW = 5  # pairs in the table of a card


def card(head: pages.Page, *parts: pages.Part) -> pages.Page:
    """Returns the head of a page with the parts of a card."""
    return replace(head, sections=(pages.Section("", parts),))


def with_order(text: str, rho: float) -> str:
    """Returns a title that says at which rho."""
    return rf"{text}, $\rho$ = {pages.order_words(rho)}"


def name_of(mdp: MDP) -> str:
    """Returns the name of a model for a title."""
    return as_text(mdp.name or "the model")


Draw = Callable[[Any, str], Figure]


def pictures_of_visits(
    pairs: Callable[[Any], PairShares],
    shares: Callable[[Any], Mapping[str, FloatArray]],
    title: Callable[[str, Any], str],
) -> dict[str, Draw]:
    """Returns the pictures that every result with visits has: each pair's share, and target / share.

    `title` makes one from "Visits" or "Target / visits" and the result.
    """

    def draw_visits(result: Any, heading: str) -> Figure:
        return visits_figure(pairs(result), shares(result), heading or title("Visits", result))

    def draw_ratios(result: Any, heading: str) -> Figure:
        return ratios_figure(pairs(result), shares(result), heading or title("Target / visits", result))

    return {"visits": draw_visits, "ratio": draw_ratios}


# Models.


def plot_map(mdp: MDP, title: str) -> Figure:
    """Returns a map of how random each pair is; raises if the model has no layout."""
    if mdp.layout is None:
        remedy = "Use 'transitions', or pass layout=Layout(...) to MDP."
        raise InvalidArgumentError.of("kind", "cannot be 'map': the model has no layout", remedy=remedy)
    return entropy_figure(mdp, title or f"How random {name_of(mdp)} is")


def plot_transitions(mdp: MDP, title: str) -> Figure:
    """Returns the matrix of transitions."""
    return transitions_figure(mdp, title or f"Transitions of {name_of(mdp)}")


def plot_model(mdp: MDP, title: str) -> Figure:
    """Returns a map, or the matrix of transitions of a model without a layout."""
    return (plot_transitions if mdp.layout is None else plot_map)(mdp, title)


def card_of_model(mdp: MDP) -> pages.Page:
    """Returns the card of a model."""
    return card(head_of_model(mdp), random_pairs(mdp, FEW), model_picture(mdp))


MDP_VIEW = make_view(
    {"model": plot_model, "map": plot_map, "transitions": plot_transitions},
    {"transitions": columns.columns_of_model},
    page_of_model,
    card_of_model,
)


# Plans and budgets.


def title_of_plan(what: str, plan: Plan) -> str:
    """Returns the title of a picture of a plan."""
    return with_order(f"{what} of the best plan for {name_of(plan.mdp)}", plan.rho)


def card_of_plan(plan: Plan) -> pages.Page:
    """Returns the card of a plan."""
    seen = visits_of_plan(plan)
    met = [table for table in [conditions_table(plan)] if table is not None]
    return card(head_of_plans([plan]), few_pairs(seen, FEW), *met, visits_picture(seen, {"": plan.occupancy}))


def card_of_budget(budget: Budget) -> pages.Page:
    """Returns the card of a budget."""
    seen = visits_of_plan(budget.plan)
    return card(head_of_budget(budget), efforts_table(budget), visits_picture(seen, {"": seen.share}))


PLAN_PICTURES = pictures_of_visits(visits_of_plan, lambda plan: {"": plan.occupancy}, title_of_plan)
PLAN_VIEW = make_view(
    PLAN_PICTURES,
    {"pairs": columns.columns_of_plan, "groups": columns.columns_of_groups},
    lambda plan: page_of_plans([plan]),
    card_of_plan,
)
TRADEOFF_VIEW = make_view(
    {"frontier": lambda curve, title: tradeoff_picture(curve, title).figure},
    {"points": columns.columns_of_tradeoff},
    page_of_tradeoff,
    lambda curve: card(head_of_tradeoff(curve), points_table(curve), tradeoff_picture(curve)),
)
BUDGET_VIEW = make_view(
    {
        "visits": lambda budget, title: PLAN_PICTURES["visits"](budget.plan, title),
        "ratio": lambda budget, title: PLAN_PICTURES["ratio"](budget.plan, title),
    },
    {"policies": columns.columns_of_budget, "pairs": columns.columns_of_policies},
    page_of_budget,
    card_of_budget,
)


# Runs.


def title_of_run(what: str, run: Run) -> str:
    """Returns the title of a picture of a run; `what` ends with "of" or "by"."""
    return with_order(f"{what} {as_text(run.explorer)} on {name_of(run.mdp)}", run.rho)


def plot_over_time(run: Run, title: str) -> Figure:
    """Returns divergence, worst ratio and suboptimality over time, or how many pairs were visited."""
    if is_judged(run):
        return run_figure(run, title)
    return time_picture(run, title or title_of_run("Pairs visited by", run)).figure


def plot_regret(run: Run, title: str) -> Figure:
    """Returns the regret over time; raises if there is none to draw."""
    picture = regret_picture(run, title or title_of_run("Regret of", run)) if is_judged(run) else None
    if picture is None:
        why = "it was never positive" if is_judged(run) else f"coverage is {run.coverage_text}"
        raise InvalidArgumentError.of("kind", f"cannot be 'regret' here: {why}")
    return picture.figure


def shares_of_run(run: Run) -> dict[str, FloatArray]:
    """Returns the shares of the visits by name: of the run and, if it is for the same pairs, of the best."""
    best = visits_of_run(run).best
    return {f"after {run.num_steps:,} steps": run.occupancy} | ({} if best is None else {"best plan": best})


def whole_page_of_run(run: Run) -> pages.Page:
    """Returns the page of a run with its certificate, unless that takes minutes."""
    certificate = run.certificate() if is_certificate_cheap(run) else None
    return page_of_run(run, certificate=certificate, evidence=run.evidence())


def card_of_run(run: Run) -> pages.Page:
    """Returns the card of a run."""
    return card(head_of_run(run), few_pairs(visits_of_run(run), FEW), time_picture(run))


RUN_VIEW = make_view(
    {
        "over_time": plot_over_time,
        **pictures_of_visits(visits_of_run, shares_of_run, lambda what, run: title_of_run(f"{what} of", run)),
        "regret": plot_regret,
    },
    {"pairs": columns.columns_of_run, "trace": columns.columns_of_trace},
    whole_page_of_run,
    card_of_run,
)


# Tallies and audits.


def plot_tally(tally: Tally, title: str) -> Figure:
    """Returns each pair's share of the visits."""
    seen = _counted(tally)
    return visits_figure(seen, {"": seen.share}, title or f"Visits in {as_text(tally.source)}")


def plot_tally_over_time(tally: Tally, title: str) -> Figure:
    """Returns how many pairs were visited over time."""
    return discovery_picture(tally, title or f"Pairs visited in {as_text(tally.source)}").figure


def card_of_tally(tally: Tally) -> pages.Page:
    """Returns the card of a tally."""
    seen = _counted(tally)
    return card(head_of_tally(tally), few_pairs(seen, FEW), visits_picture(seen, {"": seen.share}))


def _counted(tally: Tally) -> PairShares:
    head_of_tally(tally)  # raises if there is nothing to show
    return visits_of_tally(tally)


def title_of_audit(what: str, audit: Audit) -> str:
    """Returns the title of a picture of an audit."""
    return with_order(f"{what} in {as_text(audit.tally.source)}", audit.rho)


def plot_audit_over_time(audit: Audit, title: str) -> Figure:
    """Returns how many pairs were visited over time."""
    return progress_picture(audit, title or f"Pairs visited in {as_text(audit.tally.source)}").figure


def card_of_audit(audit: Audit) -> pages.Page:
    """Returns the card of an audit."""
    seen = visits_of_audit(audit)
    picture = visits_picture(seen, {"": audit.occupancy})
    return card(head_of_audit(audit), few_pairs(seen, FEW), picture)


TALLY_VIEW = make_view(
    {"visits": plot_tally, "over_time": plot_tally_over_time},
    {"pairs": columns.columns_of_tally, "transitions": columns.columns_of_moves},
    page_of_tally,
    card_of_tally,
)
AUDIT_VIEW = make_view(
    {
        **pictures_of_visits(visits_of_audit, shares_of_audit, title_of_audit),
        "over_time": plot_audit_over_time,
    },
    {"pairs": columns.columns_of_audit},
    page_of_audit,
    card_of_audit,
)
