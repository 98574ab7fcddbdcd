"""An environment's actions as numbers 0..A-1: what to hand to `env.step`, and which number an action is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError

MAX_ACTIONS = 2**16  # every one of them is a column of every table
WHAT = "an action"


@dataclass(frozen=True, eq=False)
class ActionCode:
    """The actions by number, ready for `env.step`, and the way back.

    `number` gives the number of one action, `numbers` those of many, `[T, ...]` to `[T]`; both refuse what
    lies outside the space. `names` is None where the numbers are all there is to say.
    """

    values: list[Any]
    names: tuple[str, ...] | None
    number: Callable[[Any], int]
    numbers: Callable[[Any], IntArray]
    description: dict[str, Any]

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return len(self.values)

    def document(self) -> dict[str, Any]:
        """Returns what a file says of the actions, ready for JSON."""
        return dict(self.description)


def check_number_of_actions(number: int) -> None:
    """Refuses more actions than tables have room for."""
    if number > MAX_ACTIONS:
        raise InvalidArgumentError(
            f"the actions make {number:.3g} combinations, at most {MAX_ACTIONS} can be counted. Take fewer "
            "levels, or list the actions that matter in an array with one a row."
        )
