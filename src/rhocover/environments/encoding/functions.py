"""A state code that calls a user's function: its return values are the states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.environments.encoding.base import ask, function_name, repr_of
from rhocover.errors import InvalidArgumentError, shortened
from rhocover.layout import Layout


@dataclass(frozen=True)
class FunctionCode:
    """Keys returned by a function of an observation: any values that can be compared and hashed."""

    function: Callable[[Any], Any]
    key: Callable[[Any], Hashable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _checked(self.function))

    def __reduce__(self) -> Any:
        return FunctionCode, (self.function,)

    @property
    def num_keys(self) -> int | None:
        """None: the values that a function may return are not known in advance."""
        return None

    @property
    def every_key(self) -> range | None:
        """None: the values that a function may return are not known in advance."""
        return None

    def keys(self, observations: Any, /) -> IntArray:
        """Always raises, because the keys of a function need not be numbers."""
        raise InvalidArgumentError.of(
            f"states={function_name(self.function)}",
            "returns one key at a time: call `key` for each observation",
        )

    def name(self, key: Hashable) -> str:
        """Returns the key as text."""
        return key if type(key) is str else repr_of(key)

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns None: a function's keys have no positions."""
        return None

    def document(self) -> dict[str, Any]:
        """Returns the name of the function, ready for JSON; the function itself cannot be stored."""
        return {"kind": "function", "name": function_name(self.function)}


def _checked(function: Callable[[Any], Any]) -> Callable[[Any], Hashable]:
    """Returns the function with its results checked and converted to plain Python values."""

    def key(observation: Any) -> Hashable:
        value = ask(function, observation, "states")
        if value.__class__ is int or value.__class__ is str:
            return value
        return _plain(value, function)

    return key


def _plain(value: Any, function: Callable[[Any], Any]) -> Hashable:
    if type(value) is tuple:
        return tuple(_plain(part, function) for part in value)
    if isinstance(value, int | np.integer | np.bool_) and not isinstance(value, Enum):
        return int(value)
    if isinstance(value, str) and not isinstance(value, Enum):
        return str(value)
    if _is_key(value):
        return value.item() if isinstance(value, np.generic) else value
    raise InvalidArgumentError.of(
        f"states={function_name(function)}",
        "must return a hashable value, such as an integer, a string or a tuple of those",
        f"{shortened(repr(value))} of type {type(value).__name__}",
        remedy="Convert the value inside the function, for example int(x // 0.1) or tuple(x).",
    )


def _is_key(value: Any) -> bool:
    """Whether equal values are one key: not if it is unhashable, not a number, or compared by identity."""
    if type(value).__hash__ in (None, object.__hash__) and value is not None:
        return False
    try:
        hash(value)
        return bool(value == value)  # False for nan
    except Exception:  # a list within, or an own comparison that fails
        return False
