"""What turns an observation into a state, and what is said when it cannot.

A state of an environment is a *key*: a hashable Python value by which visits are counted. The codes of this
library give whole numbers; a function of the user's may also give texts and tuples. A code knows the space
it was made for and refuses what lies outside: an environment that breaks its own contract would otherwise
be counted in the wrong place.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, runtime_checkable

from rhocover.checks import IntArray
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Layout


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
