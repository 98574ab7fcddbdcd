"""Views of models, plans, runs, budgets, tallies and audits: their pictures, tables, pages and cards.

The card of a result is the head of its page, the least covered pairs, and one picture.
"""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

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
from rhocover.report.pages.plan import head_of_plans, page_of_plans, visits_of_plan
from rhocover.report.pages.run import (
    head_of_run,
    is_judged,
    page_of_run,
    regret_picture,
    time_picture,
    visits_of_run,
)
from rhocover.report.pages.tally import discovery_picture, head_of_tally, page_of_tally, visits_of_tally
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


def plot_plan(plan: Plan, title: str) -> Figure:
    """Returns each pair's share of the visits."""
    title = title or with_order(f"Visits of the best plan for {name_of(plan.mdp)}", plan.rho)
    return visits_figure(visits_of_plan(plan), {"": plan.occupancy}, title)


def plot_plan_ratio(plan: Plan, title: str) -> Figure:
    """Returns target share / share of the visits."""
    title = title or with_order(f"Target / visits of the best plan for {name_of(plan.mdp)}", plan.rho)
    return ratios_figure(visits_of_plan(plan), {"": plan.occupancy}, title)


def card_of_plan(plan: Plan) -> pages.Page:
    """Returns the card of a plan."""
    seen = visits_of_plan(plan)
    return card(head_of_plans([plan]), few_pairs(seen, FEW), visits_picture(seen, {"": plan.occupancy}))


def card_of_budget(budget: Budget) -> pages.Page:
    """Returns the card of a budget."""
    seen = visits_of_plan(budget.plan)
    return card(head_of_budget(budget), efforts_table(budget), visits_picture(seen, {"": seen.share}))


PLAN_VIEW = make_view(
    {"visits": plot_plan, "ratio": plot_plan_ratio},
    {"pairs": columns.columns_of_plan},
    lambda plan: page_of_plans([plan]),
    card_of_plan,
)
BUDGET_VIEW = make_view(
    {
        "visits": lambda budget, title: plot_plan(budget.plan, title),
        "ratio": lambda budget, title: plot_plan_ratio(budget.plan, title),
    },
    {"policies": columns.columns_of_budget, "pairs": columns.columns_of_policies},
    page_of_budget,
    card_of_budget,
)


# Runs.


def plot_over_time(run: Run, title: str) -> Figure:
    """Returns divergence, worst ratio and suboptimality over time, or how many pairs were visited."""
    if is_judged(run):
        return run_figure(run, title)
    found = title or with_order(f"Pairs visited by {as_text(run.explorer)} on {name_of(run.mdp)}", run.rho)
    return time_picture(run, found).figure


def plot_regret(run: Run, title: str) -> Figure:
    """Returns the regret over time; raises if there is none to draw."""
    title = title or with_order(f"Regret of {as_text(run.explorer)} on {name_of(run.mdp)}", run.rho)
    picture = regret_picture(run, title) if is_judged(run) else None
    if picture is None:
        why = "it was never positive" if is_judged(run) else f"coverage is {run.coverage_text}"
        raise InvalidArgumentError.of("kind", f"cannot be 'regret' here: {why}")
    return picture.figure


def plot_run(run: Run, title: str) -> Figure:
    """Returns each pair's share of the visits, next to that of the best plan."""
    title = title or with_order(f"Visits of {as_text(run.explorer)} on {name_of(run.mdp)}", run.rho)
    return visits_figure(visits_of_run(run), shares_of_run(run), title)


def plot_run_ratio(run: Run, title: str) -> Figure:
    """Returns target share / visited share, next to that of the best plan."""
    title = title or with_order(f"Target / visits of {as_text(run.explorer)} on {name_of(run.mdp)}", run.rho)
    return ratios_figure(visits_of_run(run), shares_of_run(run), title)


def shares_of_run(run: Run) -> dict[str, pages.FloatArray]:
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
    {"over_time": plot_over_time, "visits": plot_run, "ratio": plot_run_ratio, "regret": plot_regret},
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


def plot_audit(audit: Audit, title: str) -> Figure:
    """Returns each pair's share of the visits, next to that of the best plan."""
    title = title or with_order(f"Visits in {as_text(audit.tally.source)}", audit.rho)
    return visits_figure(visits_of_audit(audit), shares_of_audit(audit), title)


def plot_audit_ratio(audit: Audit, title: str) -> Figure:
    """Returns target share / visited share, next to that of the best plan."""
    title = title or with_order(f"Target / visits in {as_text(audit.tally.source)}", audit.rho)
    return ratios_figure(visits_of_audit(audit), shares_of_audit(audit), title)


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
    {"visits": plot_audit, "ratio": plot_audit_ratio, "over_time": plot_audit_over_time},
    {"pairs": columns.columns_of_audit},
    page_of_audit,
    card_of_audit,
)
