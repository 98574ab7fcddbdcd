"""States of a data set as whole numbers from 0, for counting, and what they are called afterwards.

`Ids` are numbers already. `CodedStates` are observations that a code with known keys reads many at once.
`ListedStates` are what a function of the user's says, one by one, in order of appearance.

The states that there are, where somebody said so: as a number of states, or by a grid of bins.

Whoever names a set of states asks for all of them: those that the data never met are unseen, not absent,
and every pair of them counts as never tried. A state that was only ever met as the end of an episode is
no place to act in, so nothing is asked of it. Whether what was never met can be reached at all, no data
can tell; `met_only` judges a data set by the states that it met.

An environment's space of whole numbers names no such set: it is how states are labelled (Taxi has 500
labels and 404 states), so coverage is then of the states in the data, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from rhocover.checks import IntArray
from rhocover.datasets.columns import whole_numbers
from rhocover.datasets.tally import Tally

# The states that there are, where somebody said so: as a number of states, or by a grid of bins.

MOST_LISTED = 2**16  # pairs: to name and to place so many takes a second, more would be waited for


@dataclass(frozen=True)
class Declared:
    """The keys of all states; `code`, a StateCode, says their names and places, None for numbers."""

    keys: range
    code: Any = None
    is_asked: bool = False  # whether the caller said how many there are, and not the data or its bins

    @property
    def is_binding(self) -> bool:
        """Whether these are states to be covered, and not only the labels that a state may have."""
        return self.is_asked or hasattr(self.code, "axes")

    @property
    def noun(self) -> str:
        """What the states are called: bins, or states."""
        return "bins" if hasattr(self.code, "axes") else "states"


def named_by(code: Any, tally: Tally) -> Tally:
    """Returns a tally of the keys of a StateCode with its names, places and states."""
    declared = None
    if code.every_key is not None:  # without the user's function: names need none, and some cannot be pickled
        declared = Declared(code.every_key, replace(code, of=None) if hasattr(code, "axes") else code)
    names = tuple(code.name(key) for key in tally.keys)
    return replace(tally, state_names=names, layout=code.layout(tally.keys), declared=declared)


def declared_of(tally: Tally) -> Declared | None:
    """Returns the states that there are; None where nobody said, or where the data has others."""
    found = tally.declared
    if found is None or not found.is_binding:
        return None
    return found if all(key in found.keys for key in tally.keys) else None


def num_unmet(tally: Tally) -> int:
    """Returns how many states were declared and never met, not even as ends."""
    found = declared_of(tally)
    if found is None:
        return 0
    known = {*tally.met_keys, *(key for key in tally.end_keys if key in found.keys)}
    return len(found.keys) - len(known)


def unmet_pairs(tally: Tally, number: int) -> list[str]:
    """Returns the names of so many pairs of states that were declared and never met."""
    found = declared_of(tally)
    if found is None:
        return []
    known = {*tally.met_keys, *tally.end_keys}
    keys = list(islice((key for key in found.keys if key not in known), number))
    states = [str(key) if found.code is None else found.code.name(key) for key in keys]
    actions = tally.action_names or range(tally.num_actions)
    return [f"({state}, {action})" for state in states for action in actions][:number]


def over_declared(tally: Tally) -> tuple[Tally, int]:
    """Returns the tally over all states that there are, and how many are too many to be listed in it."""
    found, missing = declared_of(tally), num_unmet(tally)
    if found is None or not missing:
        return tally, 0
    if (tally.num_states + missing) * tally.num_actions > MOST_LISTED:
        return tally, missing
    ends = set(tally.end_keys)
    return _listed(tally, found, [key for key in found.keys if key not in ends]), 0


def over_all(tally: Tally) -> Tally:
    """Returns the tally over all states that were declared, those that are only ends among them."""
    found = declared_of(tally)
    return tally if found is None else _listed(tally, found, list(found.keys))


def _listed(tally: Tally, found: Declared, keys: list[Any]) -> Tally:
    if tuple(keys) == tally.keys:
        return tally
    if found.code is None:
        return tally.over(keys)
    names = [found.code.name(key) for key in keys]
    return replace(tally.over(keys, names), layout=found.code.layout(keys))


# States of a data set as whole numbers from 0, for counting, and what they are called afterwards.


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

    code: Any  # a StateCode with num_keys

    @property
    def count(self) -> int | None:
        """How many keys the code has."""
        return self.code.num_keys

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the place of each observation's key among the code's."""
        return self.code.keys(values) - self.code.every_key.start

    def named(self, tally: Tally) -> Tally:
        """Returns the tally by the code's keys."""
        every = self.code.every_key
        return named_by(self.code, _keyed(tally, every.__getitem__))


@dataclass(frozen=True)
class ListedStates:
    """Observations that a function reads one by one; keys are numbered as they appear."""

    code: Any  # a StateCode without num_keys
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
        return named_by(self.code, _keyed(tally, keys.__getitem__))


def _keyed(tally: Tally, key: Callable[[Any], Hashable]) -> Tally:
    """Returns a tally of numbers with the key of each number."""
    return replace(tally, keys=tuple(map(key, tally.keys)), end_keys=tuple(map(key, tally.end_keys)))


def make_state_numbers(code: Any) -> StateNumbers:
    """Returns the numbering of a state code of `environments.encoding`."""
    return ListedStates(code) if code.num_keys is None else CodedStates(code)
