"""What is known of the dynamics. Here: everything.

A belief turns what was observed into the problem that an explorer plans on. `KnownModel` has the true
model from the start, so observations change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from rhocover.errors import unknown_name
from rhocover.exploring.problem import Problem
from rhocover.exploring.simulator import Visits


class Belief(Protocol):
    """What an explorer takes the dynamics to be."""

    @property
    def problem(self) -> Problem:
        """The problem to plan on now."""
        ...

    def observe(self, visits: Visits) -> Belief:
        """Returns the belief after these visits."""
        ...


@dataclass(frozen=True, eq=False)
class KnownModel:
    """The model itself."""

    problem: Problem

    def observe(self, visits: Visits) -> KnownModel:
        """Returns the belief unchanged."""
        return self


BELIEFS: dict[str, Any] = {"known": KnownModel}


def check_model(model: Any) -> str:
    """Returns the name of a belief; refuses what is none."""
    if not isinstance(model, str) or model not in BELIEFS:
        raise unknown_name("model", model, tuple(BELIEFS))
    return model


def make_belief(model: Any, problem: Problem) -> Belief:
    """Returns the belief of that name for a problem."""
    return BELIEFS[check_model(model)](problem)
