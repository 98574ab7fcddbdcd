"""Actions of a table as numbers from 0, and their names.

`ActionIds` are numbers already. `NamedActions` are texts, numbered in sorted order. `CodedActions` follow a
list or levels that the caller chose; real actions without bounds are cut into bins at their quantiles,
because levels need a smallest and a largest action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import IntArray
from rhocover.datasets.columns import are_names, texts, whole_numbers
from rhocover.datasets.tally import Tally
from rhocover.environments.encoding import QuantileBins, read_action_code
from rhocover.environments.encoding.base import MAX_ACTIONS, check_number_of_actions
from rhocover.errors import InvalidDataError, inside, parse_text


class ActionNumbers(Protocol):
    """Maps actions to numbers, and a tally of them to one with their names."""

    @property
    def count(self) -> int | None:
        """How many actions there are; None if the data say."""
        ...

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each action, `[T]`."""
        ...

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with the names of the actions."""
        ...


@dataclass(frozen=True)
class ActionIds:
    """Actions that are integers from 0."""

    count: int | None = None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the ids as int64; raises if they are not whole numbers."""
        try:
            return whole_numbers(values, name, first_row)
        except InvalidDataError as error:
            if _is_real(values):
                error.remedy = parse_text(
                    "Real actions need `actions`: 3 for three bins per dimension, at quantiles of the data, "
                    "or an array with one action per row."
                )
            raise

    def named(self, tally: Tally) -> Tally:
        """Returns the tally as it is."""
        return tally


def _is_real(values: Any) -> bool:
    array = np.asarray(values)
    return array.dtype.kind == "f" or (array.dtype.kind in "iu" and array.ndim > 1)


@dataclass(frozen=True)
class NamedActions:
    """Actions that are texts; `labels` are those of a known model, None if the data name them all."""

    num_actions: int | None = None
    labels: tuple[str, ...] | None = None
    number_of: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int | None:
        """None: actions are numbered as they appear."""
        return None

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each text."""
        found, place = np.unique(texts(values, name, first_row), return_inverse=True)
        self.check(found.tolist(), name)
        number_of = self.number_of
        return np.array([number_of.setdefault(text, len(number_of)) for text in found.tolist()], np.int64)[
            place
        ]

    def check(self, names: list[str], column: str) -> None:
        """Raises if a name is not one of the known model's."""
        if self.labels is None:
            return
        other = [name for name in names if name not in self.labels]
        if not other:
            return
        known = (
            f"its actions are {checks.name_some(list(self.labels))}" if self.labels else "it has numbers only"
        )
        raise InvalidDataError.of(
            column,
            f"names the action {other[0]!r}, which the given model or environment does not have: {known}",
            remedy=f'Number them as it does, for example data["{column}"].map({{"{other[0]}": 0, ...}}).',
        )

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with the actions in sorted order, or in that of the known model."""
        names = self.labels or tuple(sorted(self.number_of))
        if self.num_actions is not None and len(names) > self.num_actions:
            raise InvalidDataError.of(
                "num_actions",
                f"is {self.num_actions}, but the data name {len(names)}: {checks.name_some(list(names))}",
            )
        unnamed = range(len(names), self.num_actions or 0)
        place = {name: number for number, name in enumerate(names)}
        new = np.array([place[name] for name in self.number_of], np.int64)
        return tally.with_actions(new, [*names, *(f"unnamed {number}" for number in unnamed)])


@dataclass(frozen=True)
class CodedActions:
    """Actions that a code numbers: an `ActionCode`, or bins."""

    code: Any
    names: tuple[str, ...]
    remark: str = ""

    @property
    def count(self) -> int | None:
        """How many actions the code has."""
        return len(self.names)

    def numbers(self, values: Any, name: str, first_row: int) -> IntArray:
        """Returns the number of each action."""
        return self.code(values)

    def named(self, tally: Tally) -> Tally:
        """Returns the tally with the names of the actions, and a remark about bins."""
        remarks = (*tally.remarks, self.remark) if self.remark else tally.remarks
        return replace(tally, action_names=self.names, remarks=remarks)


def make_action_numbers(
    actions: Any, example: Any, column: str, num_actions: int | None, labels: Any, space: Any
) -> ActionNumbers:
    """Returns the numbering of actions like those of `example`, the first ones of a table.

    `labels` are the names of the actions of a known model, an empty tuple if it has none, None without a
    model. `space` is the action space of the environment, None if it is not known.
    """
    if actions is None:
        if are_names(example, column):
            return NamedActions(num_actions, None if labels is None else tuple(labels))
        return ActionIds(num_actions)
    example = _flat(example, actions)
    space = _space_of(example, actions) if space is None else space
    if needs_quantiles(actions, space) and _is_real(example):
        return quantile_actions(actions, example)
    code = read_action_code(actions, space)
    names = code.names or tuple(str(number) for number in range(len(code.values)))
    is_one = not getattr(space, "shape", None)  # one whole number, also if it is stored as [1] or as a float
    return CodedActions(lambda values: code.numbers(_flat(values, actions) if is_one else values), names)


def _flat(values: Any, actions: Any) -> Any:
    """Returns a column `[T, 1]` of whole numbers as `[T]`, if the chosen actions are such numbers."""
    array, listed = np.asarray(values), checks.any_array(actions, "actions")
    is_column = array.ndim == 2 and array.shape[1] == 1 and array.dtype.kind in "iu"
    return array[:, 0] if is_column and listed.ndim == 1 and listed.dtype.kind in "iu" else values


def _space_of(example: Any, actions: Any) -> Any:
    """Returns the space of actions like these: finite if they and the listed ones are whole numbers."""
    from gymnasium import spaces

    given, listed = np.asarray(example), checks.any_array(actions, "actions")
    if given.dtype.kind not in "iu" or listed.dtype.kind not in "iu" or listed.ndim != given.ndim:
        return spaces.Box(-np.inf, np.inf, given.shape[1:], np.float64)
    if given.ndim == 1:
        return spaces.Discrete(MAX_ACTIONS)
    most = listed.reshape(len(listed), -1).max(axis=0, initial=0) + 1
    return spaces.MultiDiscrete(np.maximum(most, 1))


# Real actions without bounds.


def needs_quantiles(actions: Any, space: Any) -> bool:
    """Returns whether a number of levels is asked for in a space that has no bounds."""
    is_open = hasattr(space, "low") and not (np.isfinite(space.low).all() and np.isfinite(space.high).all())
    given = checks.any_array(actions, "actions")
    return is_open and given.ndim < 2 and given.dtype.kind in "iu"


def quantile_actions(actions: Any, values: Any) -> CodedActions:
    """Returns bins with equally many of these actions each; `actions` is their number per dimension."""
    array = np.asarray(values, float)
    array = array.reshape(len(array), -1)
    names = [f"a{number}" for number in range(array.shape[1])]  # states have x0, x1, ...
    with inside("actions", "names"):
        code = QuantileBins(actions if np.ndim(actions) else int(actions), names=names).fit(array)
    check_number_of_actions(math.prod(code.counts))
    bins = " x ".join(map(str, code.counts))
    return CodedActions(
        code.keys,
        tuple(code.name(key) for key in range(code.num_keys or 0)),
        f"Actions have no bounds: they are counted in {bins} bins, at quantiles of the first {len(array):,}.",
    )
