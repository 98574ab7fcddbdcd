"""`rhocover plan`: the best coverage that a model allows, for one or more values of rho."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rhocover.cli import options as o
from rhocover.cli.outputs import check_free, write_all
from rhocover.cli.report_option import Context, Report, check_report, typed, write_report
from rhocover.cli.tables import plan_table, print_json, say, show
from rhocover.errors import InvalidArgumentError, NotConvergedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rhocover.planning import Plan
    from rhocover.report.page import Page


def plan(
    context: Context,
    env: o.Env,
    rho: o.Rho,
    mu: o.Mu = "uniform",
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
    report: Report = None,
    force: o.Force = False,
) -> None:
    """Finds the policy whose visits cover the weights best, and proves how good it is.

    For each rho there is a row: the *divergence* from the weights to the visits (0 is a perfect match),
    the *certified gap* (no policy has a divergence below divergence - gap), and the *worst ratio* (the
    pair that falls shortest gets 1/ratio of what it was to get).

    * `rhocover plan river_swim --rho 2`
    * `rhocover plan river_swim --set num_states=20 --rho 0 --rho 1 --rho inf --out results`
    * `rhocover plan grid_world --rho 2 --mu random:7 --json`
    * `rhocover plan four_rooms --rho 1 --discount 0.99 --start 0`
    * `rhocover plan model.safetensors --rho 1.5 --mu model_error --restrict`
    """
    from rhocover.cli.request import plan_files, read_request

    if start is not None and discount is None and horizon is None:
        raise InvalidArgumentError("`start` goes with --discount or --horizon: long-run visits have none.")
    request = read_request(
        env, settings or [], rho, mu,
        {"discount": discount, "horizon": horizon, "start": start, "eta": eta, "restrict": restrict,
         "method": method, "tol": tol, "max_steps": max_steps, "time_limit": time_limit},
    )  # fmt: skip
    page = check_report(report, force=force)
    folder = None if out is None else check_free(out, plan_files(request), force=force)
    plans = request.solve()
    if json:
        print_json(request.document(plans))
    else:
        show(plan_table(request.title, plans))
    if folder is not None:
        say(f"wrote {len(write_all(folder, plan_files(request, plans), force=force))} files to {out}")
    write_report(page, lambda: _page(plans, discount, horizon, typed(context)), force=force)
    _check_converged(plans)


def _page(plans: Sequence[Plan], discount: float | None, horizon: int | None, command: str) -> Page:
    from rhocover.report.page_plan import counted_visits, page_of_plans

    return page_of_plans(plans, visits=counted_visits(discount, horizon), command=command)


def _check_converged(plans: Sequence[Plan]) -> None:
    """Refuses to end well if a plan missed its tolerance; what was reached has been shown by then."""
    from rhocover.planning import PlanStatus

    for plan in plans:
        if plan.status is PlanStatus.NEARLY:
            say(f"rho = {plan.rho:g}: {plan.status.value}. The plan is right to its gap, {plan.gap:.2g}.")
    missed = [plan for plan in plans if not plan.is_good]
    if missed:
        worst = max(missed, key=lambda plan: plan.gap)
        raise NotConvergedError(
            f"{len(missed)} of {len(plans)} plans missed the tolerance. At rho = {worst.rho:g} "
            f"{worst.status.value}: gap {worst.gap:.2g}, flow residual {worst.residuals.flow:.2g}. "
            "Raise --tol to accept it, or --max-steps or --time-limit to go on.",
            worst,
        )
