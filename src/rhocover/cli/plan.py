"""`rhocover plan`: the best coverage that a model allows, for one or more values of rho."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover._version import __version__
from rhocover.checks import FloatArray
from rhocover.cli import options as o
from rhocover.cli import outputs
from rhocover.cli.covering import parse_conditions, parse_cover, parse_group_weights
from rhocover.cli.output import json_text, plan_table, print_json, print_message, print_result
from rhocover.cli.parsing import format_order, parse_model, parse_orders
from rhocover.errors import InvalidArgumentError, NotConvergedError, calling
from rhocover.files import write_atomically
from rhocover.mdp import MDP, size_text
from rhocover.planning import Plan
from rhocover.planning import plan as make_plan
from rhocover.planning.cover import PAIRS
from rhocover.planning.problem import counted_visits
from rhocover.printing import count_of
from rhocover.report.figures import frontier_figure, save_figure, summary_figure
from rhocover.report.figures.drawing import as_text

if TYPE_CHECKING:
    from rhocover.report.pages import Page


def plan(
    context: outputs.Context,
    env: o.Env,
    rho: o.Orders = None,
    mu: o.Mu = "uniform",
    cover: o.Cover = "pairs",
    at_most: o.AtMost = None,
    at_least: o.AtLeast = None,
    settings: o.Set = None,
    discount: o.Discount = None,
    horizon: o.Horizon = None,
    start: o.Start = None,
    eta: o.Eta = 0.0,
    restrict: o.Restrict = False,
    method: o.Method = "interior_point",
    tol: o.Tol = None,
    max_steps: o.MaxSteps = None,
    time_limit: o.TimeLimit = None,
    json: o.Json = False,
    out: o.Out = None,
    report: outputs.Report = None,
    force: o.Force = False,
) -> None:
    """Finds the policy whose visits match the weights best, and certifies how good it is.

    There is one row per rho: the *divergence* from the weights to the visits (0 is a perfect match), the
    *certified gap* (no policy has a divergence below divergence - gap), and the *worst ratio* (the least
    covered pair gets 1/ratio of its target share). The *time* includes compiling on first use. With `--json`
    each plan also has its policy, one row per state (per step and state with `--horizon`); `--out` writes it
    too, and `rc.Plan.load` reads that file.

    * `rhocover plan river_swim --rho 2`
    * `rhocover plan river_swim --set num_states=20 --rho 0 --rho 1 --rho inf --out results`
    * `rhocover plan grid_world --mu random:7 --json`
    * `rhocover plan four_rooms --rho 1 --discount 0.99 --start 0`
    * `rhocover plan four_rooms --cover states --rho 0`
    * `rhocover plan model.safetensors --rho 1.5 --mu model_error --restrict`
    """
    if start is not None and discount is None and horizon is None:
        raise InvalidArgumentError.of(
            "start",
            "needs --discount or --horizon: long-run visits do not depend on the start",
            remedy="Leave it out.",
        )
    request = read_request(
        env, settings or [], rho or [2.0],
        {"mu": mu, "cover": cover, "at_most": at_most, "at_least": at_least},
        {"discount": discount, "horizon": horizon, "start": start, "eta": eta, "restrict": restrict,
         "method": method, "tol": tol, "max_steps": max_steps, "time_limit": time_limit},
    )  # fmt: skip
    page = outputs.check_report(report, force=force)
    folder = None if out is None else outputs.check_free(out, plan_files(request), force=force)
    plans = request.solve()
    if json:
        print_json(request.document(plans))
    else:
        print_result(plan_table(request.title, plans))
    if folder is not None:
        written = outputs.write_all(folder, plan_files(request, plans), force=force)
        print_message(f"wrote {count_of(len(written), 'file')} to {out}")
    outputs.write_report(
        page, lambda: _page(plans, discount, horizon, outputs.format_command(context)), force=force
    )
    _check_converged(plans)


def _page(plans: Sequence[Plan], discount: float | None, horizon: int | None, command: str) -> Page:
    from rhocover.report.pages.plan import page_of_plans

    return page_of_plans(plans, visits=counted_visits(discount, horizon), command=command)


def _check_converged(plans: Sequence[Plan]) -> None:
    """Raises if a plan missed its tolerance; called after the results have been shown."""
    from rhocover.planning.result import PlanStatus, missed_plans

    for plan in plans:
        if plan.status is PlanStatus.NEARLY:
            print_message(
                f"rho = {plan.rho:g}: {plan.status.value}. The plan is accurate up to the gap {plan.gap:.2g}."
            )
    missed = missed_plans(plans)
    if not missed:
        return
    worst = missed[0]
    raise NotConvergedError(
        f"{len(missed)} of {count_of(len(plans), 'plan')} missed the tolerance. At rho = {worst.rho:g} "
        f"{worst.status.value}: gap {worst.gap:.2g}, flow residual {worst.residuals.flow:.2g}. "
        "Raise --tol to accept it, or --max-steps or --time-limit to continue.",
        worst,
    )


# Figures of plans: the visits, the pairs that fall short, the effect of rho.

LEAST_FRONTIER = 3  # fewer points do not make a curve


def occupancy_picture(
    plans: Sequence[Plan], title: str, path: Path, *, first: Mapping[str, FloatArray] | None = None
) -> None:
    """Writes a map of the visits of each plan, summed over steps, after the panels in `first`."""
    panels = dict(first or {}) | {panel_name(plan): visits(plan) for plan in plans}
    save_figure(summary_figure(plans[0].mdp, panels, title), path)


def ratio_picture(plans: Sequence[Plan], title: str, path: Path) -> None:
    """Writes a map of target share / visited share of each plan."""
    if plans[0].cover != PAIRS:
        return save_figure(plans[0].plot("ratio", title=title), path)
    panels = {panel_name(plan): ratio(plan) for plan in plans}
    save_figure(summary_figure(plans[0].mdp, panels, title, quantity="ratio"), path)


def frontier_picture(plans: Sequence[Plan], title: str, path: Path) -> None:
    """Writes divergence and worst ratio against rho; nothing if fewer than three plans are finite."""
    points = sorted((plan.rho, plan.divergence, plan.worst_ratio) for plan in plans)
    points = [point for point in points if np.isfinite(point[1:]).all()]
    if len(points) >= LEAST_FRONTIER:
        rho, divergence, worst_ratio = np.array(points).T
        save_figure(frontier_figure(rho, divergence, worst_ratio, title), path)


def panel_name(plan: Plan) -> str:
    """Returns the subtitle of a map."""
    return f"$\\rho$ = {format_order(plan.rho).replace('inf', '∞')}"


def visits(plan: Plan) -> FloatArray:
    """Returns each pair's share of the visits `[S, A]`, summed over steps."""
    return plan.occupancy if plan.occupancy.ndim == 2 else plan.occupancy.sum(axis=0)


def ratio(plan: Plan) -> FloatArray:
    """Returns target share / visited share `[S, A]`; with a horizon, of the worst step."""
    return plan.ratio if plan.ratio.ndim == 2 else plan.ratio.max(axis=0)


# The request of `rhocover plan`: parsed, solved and written to files.


@dataclass(frozen=True, eq=False)
class Request:
    """A model, what to cover of it, orders, and the other keyword arguments of `plan`."""

    mdp: MDP
    orders: list[float]
    asked: dict[str, Any]  # weights, groups and conditions
    arguments: dict[str, Any]
    words: dict[str, Any]  # model, weights, groups and conditions, as they were typed

    @property
    def title(self) -> str:
        """The model, the weights and the kind of visits, in one line."""
        visits = counted_visits(self.arguments["discount"], self.arguments["horizon"])
        mdp = self.mdp
        size = size_text(mdp.num_states, mdp.num_actions, mdp.num_pairs)
        groups = f" of {self.words['cover']}" if "cover" in self.words else ""
        name = mdp.name or self.words["environment"]
        return f"{name}: {size}; {self.words['mu']} weights{groups}, {visits}"

    def solve(self) -> list[Plan]:
        """Returns a plan for each order, whether or not it reached the tolerance."""
        with calling(subject_to="at_most" if "at_most" in self.words else "at_least"):
            return [
                make_plan(self.mdp, rho, throw=False, **self.asked, **self.arguments) for rho in self.orders
            ]

    def document(self, plans: Sequence[Plan]) -> dict[str, Any]:
        """Returns the request and the results with their policies, ready for JSON."""
        return {
            "rhocover": __version__,
            "parameters": self.words | {"rho": self.orders} | self.arguments,
            "plans": [
                found.summary() | _groups_of(found) | {"policy": found.policy.tolist()} for found in plans
            ],
            "states": self.mdp.state_labels,
            "actions": self.mdp.action_labels,
        }


def _groups_of(found: Plan) -> dict[str, Any]:
    """Returns the weights and the shares of the groups; nothing if pairs are covered."""
    if found.cover == PAIRS:
        return {}
    return {"weights": found.weights.tolist(), "shares": found.shares.tolist()}


def read_request(
    env: str, settings: Sequence[str], rho: Sequence[float], asked: dict[str, Any], arguments: dict[str, Any]
) -> Request:
    """Returns the request, parsed and checked; `asked` has the options as they were typed."""
    orders = parse_orders(rho)
    mdp, parameters = parse_model(env, settings)
    words = {"environment": env, "set": parameters, "mu": asked["mu"]}
    words |= {name: asked[name] for name in ("at_most", "at_least") if asked[name]}
    words |= {"cover": asked["cover"]} if asked["cover"] != PAIRS else {}
    cover, conditions = parse_cover(asked["cover"]), parse_conditions(asked["at_most"], asked["at_least"])
    mu = parse_group_weights(asked["mu"], mdp, cover)
    return Request(
        mdp, orders, {"mu": mu, "cover": cover, "subject_to": conditions or None}, arguments, words
    )


def plan_files(request: Request, plans: Sequence[Plan] = ()) -> dict[str, outputs.Writer]:
    """Returns the files to write by name; without plans, only the names are meaningful."""
    files: dict[str, outputs.Writer] = {}
    name = as_text(request.mdp.name or "the model")
    step = "" if request.arguments["horizon"] is None else ", worst step"
    for k, text in enumerate(map(format_order, request.orders)):
        mine = plans[k : k + 1]
        files |= {
            f"plan-rho-{text}.safetensors": partial(_write_plan, mine),
            f"occupancy-rho-{text}.png": partial(occupancy_picture, mine, f"Visits of {name}"),
            f"ratio-rho-{text}.png": partial(ratio_picture, mine, f"Target / visits of {name}{step}"),
        }
    if len(request.orders) >= LEAST_FRONTIER:
        files["frontier.png"] = partial(frontier_picture, plans, rf"Effect of $\rho$ on {name}")
    return files | {"plan.json": partial(_write_document, request, plans)}


def _write_plan(plans: Sequence[Plan], path: Path) -> None:
    plans[0].save(path)


def _write_document(request: Request, plans: Sequence[Plan], path: Path) -> None:
    write_atomically(path, json_text(request.document(plans)).encode())
