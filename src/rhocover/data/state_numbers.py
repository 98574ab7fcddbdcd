"""States of a data set as whole numbers from 0, for counting, and what they are called afterwards.

`Ids` are numbers already. `CodedStates` are observations that a code with known keys reads many at once.
`ListedStates` are what a function of the user's says, one by one, in order of appearance.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rhocover.checks import IntArray
from rhocover.data.columns import whole_numbers
from rhocover.data.declared import Declared
from rhocover.data.tally import Tally


class StateNumbers(Protocol):
    """Observations to numbers, and a tally of numbers to one of states."""

    @property
    def count(self) -> int | None:
        """How many numbers there can be; None where nobody knows."""
        ...

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each observation, `[T]`."""
        ...

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with the states' own keys, names and places."""
        ...


@dataclass(frozen=True)
class Ids:
    """States that are whole numbers from 0."""

    count: int | None = None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the ids, checked to be whole numbers."""
        return whole_numbers(values, name, first_row)

    def named(self, tally: Tally) -> Tally:
        """Returns the tally as it is; where their number was said, all of them are declared."""
        declared = None if self.count is None else Declared(range(self.count), is_asked=True)
        return replace(tally, declared=declared)


@dataclass(frozen=True)
class CodedStates:
    """Observations that a code of known keys reads."""

    code: Any  # adapters.codes.StateCode with num_keys

    @property
    def count(self) -> int | None:
        """How many keys the code has."""
        return self.code.num_keys

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the place of each observation's key among the code's."""
        return self.code.keys(values) - self.code.every_key.start

    def named(self, tally: Tally) -> Tally:
        """Returns the tally by the code's keys."""
        start = self.code.every_key.start
        ends = tuple(int(number) + start for number in _integers(tally.end_keys))
        return _called(tally, [number + start for number in _integers(tally.keys)], self.code, ends)


@dataclass(frozen=True)
class ListedStates:
    """Observations that a function reads one by one; keys are numbered as they appear."""

    code: Any  # adapters.codes.StateCode without num_keys
    number_of: dict[Hashable, int] = field(default_factory=dict)
    count: int | None = None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each observation's key."""
        number_of, key = self.number_of, self.code.key
        found = (number_of.setdefault(key(value), len(number_of)) for value in values)
        return np.fromiter(found, np.int64, count=len(values))

    def named(self, tally: Tally) -> Tally:
        """Returns the tally by the function's keys."""
        keys = list(self.number_of)
        ends = tuple(keys[number] for number in _integers(tally.end_keys))
        return _called(tally, [keys[number] for number in _integers(tally.keys)], self.code, ends)


def _integers(keys: tuple[Hashable, ...]) -> list[int]:
    return [int(key) for key in keys]  # type: ignore[call-overload]


def _called(tally: Tally, keys: list[Any], code: Any, end_keys: tuple[Hashable, ...]) -> Tally:
    names = tuple(code.name(key) for key in keys)
    declared = None if code.every_key is None else Declared(code.every_key, code)
    tally = replace(tally, keys=tuple(keys), end_keys=end_keys, state_names=names, declared=declared)
    return replace(tally, layout=code.layout(keys))


def make_state_numbers(code: Any) -> StateNumbers:
    """Returns the numbering of a state code of `adapters.codes`."""
    return ListedStates(code) if code.num_keys is None else CodedStates(code)
