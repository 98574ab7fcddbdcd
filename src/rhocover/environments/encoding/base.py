"""What turns an observation into a state, and what is said when it cannot.

A state of an environment is a *key*: a hashable Python value by which visits are counted. The codes of this
library give whole numbers; a function of the user's may also give texts and tuples. A code knows the space
it was made for and refuses what lies outside: an environment that breaks its own contract would otherwise
be counted in the wrong place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Layout, Ruler


class OutsideSpaceError(InvalidArgumentError):
    """An observation or an action does not lie in its space, or is not a number."""


@runtime_checkable
class StateCode(Protocol):
    """Observations to keys, and keys to words and pictures."""

    @property
    def num_keys(self) -> int | None:
        """How many keys there can be; None where nobody can know or list them, as for a function's."""
        ...

    @property
    def every_key(self) -> range | None:
        """The keys there can be; None where nobody can know."""
        ...

    def key(self, observation: Any, /) -> Hashable:
        """Returns the key of one observation."""
        ...

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the keys of many observations, `[T, ...]` to `[T]`; for codes with `num_keys`."""
        ...

    def name(self, key: Hashable) -> str:
        """Returns the key in words."""
        ...

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns where to draw these keys; None where there is no natural place."""
        ...

    def document(self) -> dict[str, Any]:
        """Returns what a file says of the code, ready for JSON."""
        ...


# An environment's actions as numbers 0..A-1: what to hand to `env.step`, and which number an action is.

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
            f"the actions make {number:.3g} combinations, at most {MAX_ACTIONS} can be counted.",
            argument="actions",
            remedy="Take fewer levels, or list the actions that matter in an array with one a row.",
        )


# What is asked of Gymnasium's spaces by more than one code.


def check_space(space: Any, name: str) -> None:
    """Refuses what is not a space of Gymnasium."""
    from gymnasium.spaces import Space

    if not isinstance(space, Space):
        raise InvalidArgumentError.of(
            name, "must be a space of Gymnasium, as env.observation_space is", type(space).__name__
        )


MOST_NUMBERS = 10**6  # of a state: a picture of 512 by 512 in three colours has fewer


def counts_and_starts(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns how many values each component of a MultiDiscrete or MultiBinary has, and its least."""
    from gymnasium.spaces import MultiBinary

    if isinstance(space, MultiBinary):
        size = math.prod(space.shape)
        if size > MOST_NUMBERS:
            raise InvalidArgumentError.of(
                "space",
                f"must have at most {MOST_NUMBERS} numbers",
                f"a MultiBinary of {size}",
                remedy="Make states of fewer: pass states=, a function of an observation.",
            )
        return (2,) * size, (0,) * size
    counts, starts = np.ravel(space.nvec).tolist(), np.ravel(space.start).tolist()
    return tuple(counts), tuple(starts)


# What a function of the user's is called and says, and where the cells of a grid are drawn.


def function_name(function: Callable[..., Any]) -> str:
    """Returns where a function is defined and what it is called, `package.module.function`."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name


def repr_of(key: object) -> str:
    """Returns a key as text; Python writes out no number of more than some thousand digits."""
    return hex(key) if isinstance(key, int) and key.bit_length() > 256 else repr(key)


def ask(function: Callable[[Any], Any], observation: Any, argument: str = "of") -> Any:
    """Returns what a function of the user's says of an observation; what it raises, with the observation."""
    try:
        return function(observation)
    except Exception as error:
        raise InvalidArgumentError(
            f"`{function_name(function)}` failed on the observation {observation!r}: "
            f"{type(error).__name__}: {error}",
            argument=argument,
        ) from error


def grid_layout(rulers: Sequence[Ruler], cells: Sequence[tuple[int, ...]]) -> Layout | None:
    """Returns a place for each cell of a line or a plane, x to the right and y upwards; None beyond."""
    if len(rulers) == 1:
        places = [(cell[0], 0) for cell in cells]
    elif len(rulers) == 2:
        top = len(rulers[1].edges) - 2
        places = [(cell[0], top - cell[1]) for cell in cells]
    else:
        return None
    return Layout(np.array(places, float).reshape(-1, 2), rulers=tuple(rulers))
