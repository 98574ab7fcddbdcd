"""States of a data set: their numbers from 0 for counting, their keys and names, and the declared states.

`Ids` are numbers already. `NamedStates` are texts, which are the keys. `CodedStates` are observations that a
code with known keys maps many at a time.
`ListedStates` are the return values of a user's function, numbered in order of appearance.

States can be declared, by their number or by a grid of bins. Then all of them count: declared states that are
not in the data are missing, and each of their pairs counts as never tried. No action is taken in a state that
was only met as the end of an episode, so its pairs do not count. The data cannot tell whether states that
were never met can be reached at all; `met_only` evaluates a data set on the states that it met.

A Discrete observation space does not declare states: it only labels them (Taxi has 500 labels and 404
states). Coverage then refers to the states in the data, and the texts say so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from rhocover.checks import IntArray
from rhocover.datasets.columns import texts, whole_numbers
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding.base import is_lossy, noun_of
from rhocover.learning.codes import Coded

# Declared states.

MOST_LISTED = 2**16  # pairs: naming and placing this many takes a second


@dataclass(frozen=True)
class Declared:
    """The keys of all states; `code` is the StateCode with their names and positions, None for numbers."""

    keys: range
    code: Any = None
    is_asked: bool = False  # whether the caller gave the number of states, and not the data or its bins

    @property
    def is_binding(self) -> bool:
        """Whether these are states to be covered, and not only the labels that a state may have."""
        return self.is_asked or hasattr(self.code, "axes")

    @property
    def noun(self) -> str:
        """The word for them in texts: bins, or states."""
        return "bins" if hasattr(self.code, "axes") else "states"


def named_by(code: Any, tally: Tally) -> Tally:
    """Returns a tally of the keys of a StateCode with its names, positions and declared states."""
    declared = None
    if code.every_key is not None:  # without the user's function, which names do not need and may not pickle
        declared = Declared(code.every_key, replace(code, of=None) if hasattr(code, "axes") else code)
    names = tuple(code.name(key) for key in tally.keys)
    coded = Coded(noun_of(code)) if is_lossy(code) else None
    return replace(tally, state_names=names, layout=code.layout(tally.keys), declared=declared, coded=coded)


def declared_of(tally: Tally) -> Declared | None:
    """Returns the declared states; None if there are none, or if the data have others."""
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
    """Returns the names of at most `number` pairs of declared states that were never met."""
    found = declared_of(tally)
    if found is None:
        return []
    known = {*tally.met_keys, *tally.end_keys}
    keys = list(islice((key for key in found.keys if key not in known), number))
    states = [str(key) if found.code is None else found.code.name(key) for key in keys]
    actions = tally.action_names or range(tally.num_actions)
    return [f"({state}, {action})" for state in states for action in actions][:number]


def over_declared(tally: Tally) -> tuple[Tally, int]:
    """Returns the tally over all declared states, and how many are left out because they are too many."""
    found, missing = declared_of(tally), num_unmet(tally)
    if found is None or not missing:
        return tally, 0
    if (tally.num_states + missing) * tally.num_actions > MOST_LISTED:
        return tally, missing
    ends = set(tally.end_keys)
    return _listed(tally, found, [key for key in found.keys if key not in ends]), 0


def over_all(tally: Tally) -> Tally:
    """Returns the tally over all declared states, including those that are only ends."""
    found = declared_of(tally)
    return tally if found is None else _listed(tally, found, list(found.keys))


def _listed(tally: Tally, found: Declared, keys: list[Any]) -> Tally:
    if tuple(keys) == tally.keys:
        return tally
    if found.code is None:
        return tally.over(keys)
    names = [found.code.name(key) for key in keys]
    return replace(tally.over(keys, names), layout=found.code.layout(keys))


# Numbers of states.


class StateNumbers(Protocol):
    """Maps observations to numbers, and a tally of numbers to one of states."""

    @property
    def count(self) -> int | None:
        """How many numbers there can be; None if unknown."""
        ...

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each observation, `[T]`."""
        ...

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with the keys, names and positions of the states."""
        ...


@dataclass(frozen=True)
class Ids:
    """States that are integers from 0."""

    count: int | None = None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the ids as int64; raises if they are not whole numbers."""
        return whole_numbers(values, name, first_row)

    def named(self, tally: Tally) -> Tally:
        """Returns the tally; if the number of states was given, all of them are declared."""
        declared = None if self.count is None else Declared(range(self.count), is_asked=True)
        return replace(tally, declared=declared)


@dataclass(frozen=True)
class NamedStates:
    """States that are texts, which are numbered as they appear; the tally has them in sorted order."""

    number_of: dict[str, int] = field(default_factory=dict)
    count: int | None = None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each text."""
        found, place = np.unique(texts(values, name, first_row), return_inverse=True)
        number_of = self.number_of
        numbers = [number_of.setdefault(text, len(number_of)) for text in found.tolist()]
        return np.array(numbers, np.int64)[place]

    def named(self, tally: Tally) -> Tally:
        """Returns the tally by the texts."""
        keyed = _keyed(tally, list(self.number_of).__getitem__)
        keyed = replace(keyed, end_keys=tuple(sorted(keyed.end_keys, key=str)))
        return keyed.over(sorted(keyed.keys, key=str))


@dataclass(frozen=True)
class CodedStates:
    """Observations mapped by a code whose keys are known."""

    code: Any  # a StateCode with num_keys

    @property
    def count(self) -> int | None:
        """How many keys the code has."""
        return self.code.num_keys

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the index of each observation's key among those of the code."""
        return self.code.keys(values) - self.code.every_key.start

    def named(self, tally: Tally) -> Tally:
        """Returns the tally by the code's keys."""
        every = self.code.every_key
        return named_by(self.code, _keyed(tally, every.__getitem__))


@dataclass(frozen=True)
class ListedStates:
    """Observations mapped by a function, one by one; keys are numbered as they appear."""

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


@dataclass(frozen=True)
class WatchedStates:
    """Numbers of states whose observations are also seen by `watch`, an `encoding.watching.Watch`."""

    inner: StateNumbers
    watch: Any
    first_name: list[str] = field(default_factory=list)  # that of the states

    @property
    def count(self) -> int | None:
        """How many numbers there can be."""
        return self.inner.count

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each observation."""
        found = self.inner.numbers(values, name, first_row)
        if not self.first_name:
            self.first_name.append(name)
        self.watch.see_all(values, is_sampled=name == self.first_name[0])
        return found

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with what was seen of the observations."""
        return replace(self.inner.named(tally), coded=self.watch.coded())


def make_state_numbers(code: Any, watch: Any = None) -> StateNumbers:
    """Returns the numbering of a state code of `environments.encoding`; `watch` sees the observations."""
    found = ListedStates(code) if code.num_keys is None else CodedStates(code)
    return found if watch is None else WatchedStates(found, watch)
