"""What `rhocover explore` was asked for in a Gymnasium environment: read from texts, and run.

A run in an environment is shown like any other. It is stored with its data, by `rhocover collect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rhocover.cli.data_inputs import read_actions, read_data_mu, read_states
from rhocover.cli.environments import close, read_place
from rhocover.cli.inputs import read_orders
from rhocover.cli.runs import TRACE_POINTS, Expedition, Report
from rhocover.cli.until import read_doubt, read_until
from rhocover.collecting.expedition import read_expedition
from rhocover.errors import InvalidArgumentError
from rhocover.exploring import Run, explore
from rhocover.locks import Hold


@dataclass(frozen=True, eq=False)
class Outing(Expedition):
    """A run in an environment; `given` are the keyword arguments of `explore`."""

    env: Any
    given: dict[str, Any]

    def check(self) -> None:
        """Refuses to make room in a folder: a run in an environment is not stored."""
        raise InvalidArgumentError(
            "`out` is for models: a run in an environment is stored with its data, by rhocover collect."
        )

    def run(self, out: Hold | None, report: Report) -> Run:
        """Returns the finished run; the environment is closed then."""
        try:
            return explore(self.env, out=out, report=report, trace_points=TRACE_POINTS, **self.given)
        finally:
            close(self.env)


def read_outing(
    env: str, settings: Sequence[str], mu: str, arguments: dict[str, Any], until: dict[str, Any], delta: float
) -> Outing:
    """Returns what to do with its texts read; refuses what is wrong with them."""
    [rho] = read_orders([arguments["rho"]])
    place, delta = read_place(env, settings), read_doubt(delta)
    shown = {name: value for name, value in arguments.items() if name != "step_timeout"}
    words = {"environment": env, "set": place.arguments, "mu": mu, **shown, **until, "delta": delta}
    given = arguments | {
        "rho": rho, "mu": read_data_mu(mu), "until": read_until(until, delta),
        "states": read_states(arguments["states"], place.make_one, arguments["seed"]),
        "actions": read_actions(arguments["actions"]),
    }  # fmt: skip
    names = ("rho", "num_steps", "mu", "explorer", "model", "schedule", "seed", "until", "states", "actions",
             "step_timeout")  # fmt: skip
    world = place.make()
    trip = read_expedition(world, trace_points=TRACE_POINTS, **{name: given[name] for name in names})
    return Outing(trip.settings, words, delta, world, given)
