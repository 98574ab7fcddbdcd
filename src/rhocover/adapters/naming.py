"""What a function of the user's is called and says, and where the cells of a grid are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rhocover.errors import InvalidArgumentError
from rhocover.layout import Layout, Ruler


def function_name(function: Callable[..., Any]) -> str:
    """Returns where a function is defined and what it is called, `package.module.function`."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name


def repr_of(key: object) -> str:
    """Returns a key as text; Python writes out no number of more than some thousand digits."""
    return hex(key) if isinstance(key, int) and key.bit_length() > 256 else repr(key)


def ask(function: Callable[[Any], Any], observation: Any) -> Any:
    """Returns what a function of the user's says of an observation; what it raises, with the observation."""
    try:
        return function(observation)
    except Exception as error:
        raise InvalidArgumentError(
            f"`{function_name(function)}` failed on the observation {observation!r}: "
            f"{type(error).__name__}: {error}"
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
