"""What `rhocover plan` was asked for: read from texts, solved, and written to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rhocover._version import __version__
from rhocover.checks import FloatArray
from rhocover.cli.inputs import order_text, read_model, read_orders, read_weights
from rhocover.cli.outputs import Writer
from rhocover.cli.pictures import LEAST_FRONTIER, frontier_picture, occupancy_picture, ratio_picture
from rhocover.cli.tables import json_text
from rhocover.files import write_atomically
from rhocover.mdp import MDP
from rhocover.planning import Plan, plan
from rhocover.report.drawing import as_text


@dataclass(frozen=True, eq=False)
class Request:
    """A model, weights `[S, A]`, orders, and the keyword arguments of `plan`."""

    mdp: MDP
    orders: list[float]
    weights: FloatArray
    arguments: dict[str, Any]
    words: dict[str, Any]  # model and weights, as they were typed

    @property
    def title(self) -> str:
        """What is planned, in one line."""
        visits = "long-run visits"
        if self.arguments["discount"] is not None:
            visits = f"visits discounted by {self.arguments['discount']:g}"
        if self.arguments["horizon"] is not None:
            visits = f"visits in episodes of {self.arguments['horizon']} steps"
        mdp = self.mdp
        size = f"{mdp.num_states} states, {mdp.num_actions} actions, {mdp.num_pairs} pairs"
        return f"{mdp.name or self.words['environment']}: {size}; {self.words['mu']} weights, {visits}"

    def solve(self) -> list[Plan]:
        """Returns a plan for each order, whether or not it reached the tolerance."""
        mu = None if self.words["mu"] == "uniform" else self.weights
        return [plan(self.mdp, rho, mu, throw=False, **self.arguments) for rho in self.orders]

    def document(self, plans: Sequence[Plan]) -> dict[str, Any]:
        """Returns what was asked and what was found, ready for JSON."""
        return {
            "rhocover": __version__,
            "parameters": self.words | {"rho": self.orders} | self.arguments,
            "plans": [found.summary() for found in plans],
        }


def read_request(
    env: str, settings: Sequence[str], rho: Sequence[float], mu: str, arguments: dict[str, Any]
) -> Request:
    """Returns the request with its texts read; refuses what is wrong with them."""
    orders = read_orders(rho)
    mdp, parameters = read_model(env, settings)
    words = {"environment": env, "set": parameters, "mu": mu}
    return Request(mdp, orders, read_weights(mu, mdp), arguments, words)


def plan_files(request: Request, plans: Sequence[Plan] = ()) -> dict[str, Writer]:
    """Returns the files to write by name; the names are known before there are plans."""
    files: dict[str, Writer] = {}
    name = as_text(request.mdp.name or "the model")
    step = "" if request.arguments["horizon"] is None else ", worst step"
    for k, text in enumerate(map(order_text, request.orders)):
        mine = plans[k : k + 1]
        files |= {
            f"plan-rho-{text}.safetensors": partial(_write_plan, mine),
            f"occupancy-rho-{text}.png": partial(occupancy_picture, mine, f"Visits of {name}"),
            f"ratio-rho-{text}.png": partial(ratio_picture, mine, f"Target / visits of {name}{step}"),
        }
    if len(request.orders) >= LEAST_FRONTIER:
        files["frontier.png"] = partial(frontier_picture, plans, rf"What $\rho$ buys on {name}")
    return files | {"plan.json": partial(_write_document, request, plans)}


def _write_plan(plans: Sequence[Plan], path: Path) -> None:
    plans[0].save(path)


def _write_document(request: Request, plans: Sequence[Plan], path: Path) -> None:
    write_atomically(path, json_text(request.document(plans)).encode())
