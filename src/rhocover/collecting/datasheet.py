"""The datasheet of a collection: what it covers, how far that is from the best, and how to repeat it."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from rhocover._version import __version__
from rhocover.collecting.expedition import Expedition
from rhocover.collecting.scoped import scope_document
from rhocover.datasets.result import Audit
from rhocover.documents import plain
from rhocover.environments.encoding import BinCode, FunctionCode
from rhocover.exploring.models import model_document, model_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.registry import explorer_document, explorer_name
from rhocover.exploring.run import Run
from rhocover.files import FORMAT_VERSION
from rhocover.learning.rules import rule_document
from rhocover.occupancy import Occupancies

PACKAGES = ("gymnasium", "minari", "numpy", "scipy")


def make_datasheet(
    trip: Expedition, audit: Audit, *, problem: Problem | None, command: str | None, run: Run | None = None
) -> dict[str, Any]:
    """Returns the datasheet, ready for JSON; nothing in it depends on when or how fast it was made.

    `problem` is the one whose best is about the pairs that are judged, None where there is none. Random
    actions are compared with complete coverage only.
    """
    return {
        "verdict": audit.verdict,
        "coverage": audit.summary(),
        **({} if run is None else scope_document(run)),
        "uniform_random_worst_ratio": plain(random_worst_ratio(problem if audit.is_complete else None)),
        "settings": settings_of(trip),
        "repeat": command or repeat_call(trip),
        **provenance(),
    }


def random_worst_ratio(problem: Problem | None) -> float:
    """Returns the worst ratio of the uniformly random policy in a model; nan where there is none."""
    if problem is None:
        return np.nan
    members = Occupancies.average(problem.mdp)
    states = problem.mdp.pair_state
    d = members.from_policy(1 / np.bincount(states)[states])
    return float(problem.coverage.worst_ratio(d))


def settings_of(trip: Expedition) -> dict[str, Any]:
    """Returns what decides the collection, as a document."""
    settings, name = trip.settings, explorer_name(trip.settings.explorer)
    mu: Any = "uniform"
    if trip.rule is not None:
        mu = rule_document(trip.rule)
    elif settings.mu is not None or trip.weights is not None:
        mu = "weights given as an array"
    return {
        "environment": spec_of(trip),
        "rho": repr(settings.rho),
        "mu": mu,
        "num_steps": settings.num_steps,
        "algorithm": {"Adding": "top_up"}.get(name, name),
        "explorer": explorer_document(settings.explorer) or explorer_name(settings.explorer),
        "model": model_document(settings.model),
        "seed": settings.seed,
        "states": trip.states.document(),
        "actions": trip.actions.document(),
    }


def spec_of(trip: Expedition) -> str:
    """Returns what the environment says of itself; its class where it says nothing."""
    spec = getattr(trip.env, "spec", None)
    if spec is None:
        return type(trip.env.unwrapped).__qualname__
    try:
        return spec.to_json()
    except (TypeError, ValueError):  # arguments that no JSON holds
        return str(spec.id)


def repeat_call(trip: Expedition, verb: str = "collect(") -> str:
    """Returns the call that does the same again; `...` stands for what no text can hold."""
    s = trip.settings
    rho = 'float("inf")' if s.rho == np.inf else f"{s.rho:g}"
    parts = [_make_call(trip), f"rho={rho}", f"num_steps={s.num_steps}", f"seed={s.seed}"]
    if s.mu is not None or trip.weights is not None:
        parts.append("mu=...")
    if isinstance(trip.states, BinCode | FunctionCode):
        parts.append("states=...")
    if hasattr(trip.action_space, "low"):
        parts.append("actions=...")
    if verb.startswith("collect"):
        parts.append(f"explorer={explorer_name(s.explorer)!r}")
    if trip.table is None:
        parts.append(f"model={model_name(s.model)!r}")
    if s.until is not None:
        parts.append(f"until={s.until!r}")
    return f"rhocover.{verb}{', '.join(parts)}, out=...)"


def _make_call(trip: Expedition) -> str:
    """Returns the call that makes the environment, as far as its spec says."""
    spec = getattr(trip.env, "spec", None)
    if spec is None:
        return "env"
    given = dict(getattr(spec, "kwargs", {}) or {})
    plain = {key: value for key, value in given.items() if isinstance(value, str | int | float | bool)}
    if not trip.is_vector:
        import gymnasium as gym

        usual = getattr(gym.registry.get(spec.id), "max_episode_steps", None)
        if spec.max_episode_steps != usual:
            plain["max_episode_steps"] = -1 if spec.max_episode_steps is None else spec.max_episode_steps
        wrapped = "" if not getattr(spec, "additional_wrappers", ()) else " in its wrappers"
        words = ", ".join([repr(spec.id), *(f"{key}={value!r}" for key, value in plain.items())])
        return f"gymnasium.make({words}){wrapped}"
    return f"gymnasium.make_vec({spec.id!r}, num_envs={trip.env.num_envs})"


def provenance() -> dict[str, Any]:
    """Returns the format of the document, and the versions of what took part in making it."""
    return {"format": FORMAT_VERSION, "versions": versions()}


def versions() -> dict[str, str]:
    """Returns the versions of what took part."""
    found = {"rhocover": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
