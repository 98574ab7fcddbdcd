"""A function of the user's as a code: states are what it says they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rhocover.checks import IntArray
from rhocover.environments.encoding.base import ask, function_name, repr_of
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Layout


@dataclass(frozen=True)
class FunctionCode:
    """Keys from a function of an observation: whole numbers, texts, or tuples of those."""

    function: Callable[[Any], Any]
    key: Callable[[Any], Hashable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _checked(self.function))

    def __reduce__(self) -> Any:
        return FunctionCode, (self.function,)

    @property
    def num_keys(self) -> int | None:
        """None: what a function may give is not known before it was asked."""
        return None

    @property
    def every_key(self) -> range | None:
        """None: what a function may give is not known before it was asked."""
        return None

    def keys(self, observations: Any, /) -> IntArray:
        """Refuses: the keys of a function need not be numbers."""
        raise InvalidArgumentError.of(
            f"states={function_name(self.function)}", "gives keys one by one: call `key` for each observation"
        )

    def name(self, key: Hashable) -> str:
        """Returns the key as text."""
        return key if isinstance(key, str) else repr_of(key)

    def layout(self, keys: Sequence[Hashable]) -> Layout | None:
        """Returns None: a key says nothing of where it lies."""
        return None

    def document(self) -> dict[str, Any]:
        """Returns the name of the function; no file can hold the function itself."""
        return {"kind": "function", "name": function_name(self.function)}


def _checked(function: Callable[[Any], Any]) -> Callable[[Any], Hashable]:
    """Returns the function, its results plain Python values or refused."""

    def key(observation: Any) -> Hashable:
        value = ask(function, observation, "states")
        if value.__class__ is int or value.__class__ is str:
            return value
        return _plain(value, function)

    return key


def _plain(value: Any, function: Callable[[Any], Any]) -> Hashable:
    if isinstance(value, tuple):
        return tuple(_plain(part, function) for part in value)
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, str):
        return str(value)
    raise InvalidArgumentError.of(
        f"states={function_name(function)}",
        "must give a whole number, a text or a tuple of those",
        f"{value!r} of type {type(value).__name__}",
        remedy="Round or name it inside the function, for example int(x // 0.1).",
    )
