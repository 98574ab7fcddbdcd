"""The interface of state and action codes, and the functions that several codes share.

A state of an environment is a *key*: a hashable Python value under which visits are counted. The codes of
this library return integers; a user's function may return any hashable value. A code knows the space it
was made for and raises for values outside of it: otherwise the visits of an environment that breaks its own
contract would be counted in the wrong place.
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
    """Maps observations to keys, and keys to names and positions in figures."""

    @property
    def num_keys(self) -> int | None:
        """How many keys are possible; None if that is unknown, as for a function, or too many to list."""
        ...

    @property
    def every_key(self) -> range | None:
        """The possible keys; None if they are unknown or too many to list."""
        ...

    def key(self, observation: Any, /) -> Hashable:
        """Returns the key of one observation."""
        ...

    def keys(self, observations: Any, /) -> IntArray:
        """Returns the keys of many observations, `[T, ...]` to `[T]`; only for codes with `num_keys`."""
        ...

    def name(self, key: Hashable) -> str:
        """Returns the name of a key's state."""
        ...

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns where to draw these keys; None if they have no natural positions."""
        ...

    def document(self) -> dict[str, Any]:
        """Returns the code in the form in which files store it, ready for JSON."""
        ...


def is_lossy(code: Any) -> bool:
    """Whether a state code may give different observations one key: not if they are numbers already."""
    return not getattr(code, "is_lossless", False)


def noun_of(code: Any) -> str:
    """Returns the word for the keys of a state code."""
    return "bins" if hasattr(code, "axes") else "codes" if is_lossy(code) else "states"


# An environment's actions as numbers 0..A-1.

MAX_ACTIONS = 2**16  # each of them is a column of every table
WHAT = "an action"


@dataclass(frozen=True, eq=False)
class ActionCode:
    """The actions by number, ready for `env.step`, and the functions from an action to its number.

    `number` returns the number of one action, `numbers` those of many, `[T, ...]` to `[T]`; both raise for
    actions outside the space. `names` is None if the actions have no names besides their numbers, `chosen`
    if they are all actions of the space; otherwise it holds their numbers among all of them.
    """

    values: list[Any]
    names: tuple[str, ...] | None
    number: Callable[[Any], int]
    numbers: Callable[[Any], IntArray]
    description: dict[str, Any]
    chosen: tuple[int, ...] | None = None

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return len(self.values)

    def document(self) -> dict[str, Any]:
        """Returns the code in the form in which files store it, ready for JSON."""
        return dict(self.description)


def check_number_of_actions(number: int) -> None:
    """Raises if there are more than `MAX_ACTIONS` actions."""
    if number > MAX_ACTIONS:
        raise InvalidArgumentError(
            f"there are {number:.3g} combinations of actions, but at most {MAX_ACTIONS} can be counted.",
            argument="actions",
            remedy="Use fewer levels, or pass the actions that matter as an array with one action per row.",
        )


# Gymnasium's spaces.


def check_space(space: Any, name: str) -> None:
    """Raises if `space` is not a Gymnasium space."""
    from gymnasium.spaces import Space

    if not isinstance(space, Space):
        raise InvalidArgumentError.of(
            name, "must be a Gymnasium space, such as env.observation_space", type(space).__name__
        )


MOST_NUMBERS = 10**6  # per state; an image of 512 by 512 pixels in three colours has fewer


def counts_and_starts(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns how many values each component of a MultiDiscrete or MultiBinary has, and the smallest one."""
    from gymnasium.spaces import MultiBinary

    if isinstance(space, MultiBinary):
        size = math.prod(space.shape)
        if size > MOST_NUMBERS:
            raise InvalidArgumentError.of(
                "space",
                f"must have at most {MOST_NUMBERS} numbers",
                f"a MultiBinary of {size}",
                remedy="Reduce an observation to fewer numbers: pass a function as states=.",
            )
        return (2,) * size, (0,) * size
    counts, starts = np.ravel(space.nvec).tolist(), np.ravel(space.start).tolist()
    return tuple(counts), tuple(starts)


# A user's function and its keys; the positions of a grid's cells.


def function_name(function: Callable[..., Any]) -> str:
    """Returns the full name of a function, `package.module.function`."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name


def repr_of(key: object) -> str:
    """Returns a key as text; large integers in hex, because Python limits how many decimals it prints.

    The members of a set are listed in the order of their texts: that of a set differs between processes.
    """
    if isinstance(key, frozenset):
        return f"{{{', '.join(sorted(map(repr_of, key)))}}}"
    if isinstance(key, tuple) and type(key) is tuple:
        return f"({', '.join(map(repr_of, key))}{',' * (len(key) == 1)})"
    return hex(key) if isinstance(key, int) and key.bit_length() > 256 else repr(key)


def ask(function: Callable[[Any], Any], observation: Any, argument: str = "of") -> Any:
    """Returns the value of a user's function; its exceptions are raised again, with the observation."""
    try:
        return function(observation)
    except Exception as error:
        raise InvalidArgumentError(
            f"`{function_name(function)}` failed on the observation {observation!r}: "
            f"{type(error).__name__}: {error}",
            argument=argument,
        ) from error


def grid_layout(rulers: Sequence[Ruler], cells: Sequence[tuple[int, ...]]) -> Layout | None:
    """Returns the positions of cells in one or two dimensions, x to the right, y upwards; otherwise None."""
    if len(rulers) == 1:
        places = [(cell[0], 0) for cell in cells]
    elif len(rulers) == 2:
        top = len(rulers[1].edges) - 2
        places = [(cell[0], top - cell[1]) for cell in cells]
    else:
        return None
    return Layout(np.array(places, float).reshape(-1, 2), rulers=tuple(rulers))
