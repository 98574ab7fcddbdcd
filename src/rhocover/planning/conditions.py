"""Conditions on the visits: costs that may not be exceeded, returns that must be kept.

A condition is low <= <values, visits> <= high. What `<values, visits>` means depends on which visits count:

- long-run visits: the average of `values` per step;
- with a discount: the average per step of the discounted visits, (1 - discount) times the discounted sum;
- with a horizon: the total of an episode, `horizon` times the average per step.

For the solver each end of a condition is one row <values, d> <= limit (`groups.SideCondition`); an end that
no occupancy can miss is left out. The price of an end is the slope of the best divergence: how much one more
unit of the limit lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, frozen
from rhocover.documents import TextNumber
from rhocover.errors import InvalidArgumentError
from rhocover.occupancy import Occupancies
from rhocover.planning.groups import SideCondition

if TYPE_CHECKING:
    from rhocover.arguments import Values

# What the caller asks for.


@dataclass(frozen=True, eq=False)
class Condition:
    """low <= <values, visits> <= high: what `at_most`, `at_least` and `within` return."""

    values: Any  # [S, A], one per pair [n], one per state [S], or a function of the model
    low: float
    high: float
    name: str = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _values(self.values, "values"))
        object.__setattr__(self, "low", checks.number(self.low, "low"))
        object.__setattr__(self, "high", checks.number(self.high, "high"))
        _name(self.name, "")
        if not self.low < self.high:
            raise InvalidArgumentError.of(
                "high", f"must be above low={self.low:g}", f"{self.high:g}",
                remedy="Leave some room between the two.",
            )  # fmt: skip

    @property
    def demand(self) -> str:
        """The condition in words: "at most 0.4"."""
        return demand_words(self.low, self.high)


def demand_words(low: float, high: float) -> str:
    """Returns a range in words: "at most 0.4", "from 0.2 to 0.4"."""
    if low == -np.inf:
        return f"at most {high:g}"
    return f"at least {low:g}" if high == np.inf else f"from {low:g} to {high:g}"


def at_most(cost: Values, limit: float, *, name: str = "") -> Condition:
    """Returns the condition that `cost` is at most `limit`, for `plan(subject_to=...)`.

    `cost` has one value per pair (`[S, A]` or `[n]`) or per state (`[S]`), or is a function of the model. It
    is counted per step: on average in the long run, or over the discounted visits; with a horizon `limit` is
    for the total of an episode. `name` is used in messages.

    >>> import rhocover as rc
    >>> river = rc.envs.river_swim()
    >>> seldom_right = rc.at_most([[0, 1]] * 6, 0.4, name="right")
    >>> rc.plan(river, 2, subject_to=seldom_right).conditions[0].value <= 0.4 + 1e-8
    True
    """
    return Condition(_values(cost, "cost"), -np.inf, _limit(limit, "limit"), _name(name, "cost"))


def at_least(reward: Values, limit: float, *, name: str = "") -> Condition:
    """Returns the condition that `reward` is at least `limit`; values and units are those of `at_most`.

    `rc.at_least(reward, 0.9 * rc.best(mdp, reward))` keeps nine tenths of the best return.
    """
    return Condition(_values(reward, "reward"), _limit(limit, "limit"), np.inf, _name(name, "reward"))


def within(values: Values, low: float, high: float, *, name: str = "") -> Condition:
    """Returns the condition that `values` are from `low` to `high`, in the units of `at_most`."""
    low, high = _limit(low, "low"), _limit(high, "high")
    return Condition(_values(values, "values"), low, high, _name(name, "value"))


def _limit(value: Any, name: str) -> float:
    value = checks.number(value, name)
    if not np.isfinite(value):
        raise InvalidArgumentError.of(name, "must be finite", f"{value:g}")
    return value


def _values(values: Any, name: str) -> Any:
    if callable(values):
        return checks.one_argument(values, name, "the model")
    values = _numbers(values, name)
    if values.ndim == 0:
        raise InvalidArgumentError.of(name, "must have one value per state or per pair", "one number")
    return frozen(values.copy())


def _numbers(values: Any, name: str) -> FloatArray:
    """Returns values as floats; True counts as 1, because conditions are often about being somewhere."""
    if isinstance(values, np.ndarray) and values.dtype == bool:
        values = values.astype(float)
    return checks.float_array(values, name)


def _name(name: Any, usual: str) -> str:
    if not isinstance(name, str):
        raise InvalidArgumentError.of("name", "must be text", type(name).__name__)
    return name or usual


def read_conditions(subject_to: Any) -> tuple[Condition, ...]:
    """Returns the conditions in the argument `subject_to`: None, one, or several."""
    if subject_to is None:
        return ()
    if isinstance(subject_to, Condition):
        return (subject_to,)
    found = tuple(subject_to) if isinstance(subject_to, list | tuple) else (subject_to,)
    for one in found:
        if not isinstance(one, Condition):
            raise InvalidArgumentError.of(
                "subject_to", "must be a condition or a list of them", type(one).__name__,
                remedy="Such as rc.at_most(cost, 0.4) or rc.at_least(reward, 0.3).",
            )  # fmt: skip
    return found


# What the solver gets.


@dataclass(frozen=True, eq=False)
class Sides:
    """The conditions over the entries of an occupancy set, and their ends as rows <values, d> <= limit."""

    conditions: tuple[Condition, ...]
    values: tuple[FloatArray, ...]  # per condition, per entry, in the condition's unit
    rows: tuple[SideCondition, ...]
    source: tuple[int, ...]  # which condition a row is an end of

    def name(self, k: int) -> str:
        """Returns the name of condition k for a sentence."""
        return name_of(self.conditions, k)


def read_sides(full: Occupancies, conditions: tuple[Condition, ...], kept: BoolArray | None = None) -> Sides:
    """Returns the conditions over the entries of a set, or over those of its entries that are `kept`."""
    values = [_per_entry(full, condition, k) for k, condition in enumerate(conditions)]
    if kept is not None:
        values = [row[kept] for row in values]
    rows, source = [], []
    for k, (condition, row) in enumerate(zip(conditions, values, strict=True)):
        if row.max() > condition.high:
            rows.append(SideCondition(row, condition.high))
            source.append(k)
        if row.min() < condition.low:
            rows.append(SideCondition(-row, -condition.low))
            source.append(k)
    return Sides(conditions, tuple(values), tuple(rows), tuple(source))


def _per_entry(full: Occupancies, condition: Condition, k: int) -> FloatArray:
    """Returns the values of a condition per entry, times the number of steps of an episode."""
    name = "subject_to" if k == 0 else f"subject_to[{k}]"
    return unit_of(full) * values_per_entry(full, condition.values, name)


def values_per_entry(full: Occupancies, values: Any, name: str) -> FloatArray:
    """Returns values per entry of a set: given per state, as a table, per pair, or by a function."""
    mdp = full.mdp
    if callable(values):
        values = checks.one_argument(values, name, "the model")(mdp)
    values = _numbers(values, name)
    if values.shape == (mdp.num_states,):
        return values[mdp.pair_state[full.pair]]
    return full.flatten(values, name)


def unit_of(full: Occupancies) -> float:
    """Returns the number of steps that a value is the total of: those of an episode, or one."""
    return 1.0 if full.num_steps is None else float(full.num_steps)


# What a plan reports.


@dataclass(frozen=True)
class MetCondition:
    """How a plan meets a condition.

    `price` is how much one more unit of the limit would lower the best divergence; 0 if the condition does
    not bind. It is a slope: a larger change of the limit gains less per unit.
    """

    name: str
    value: float
    low: TextNumber
    high: TextNumber
    slack: float  # the distance from the nearer limit; below zero by at most 1e-8 of the size of the values
    price: TextNumber

    @property
    def demand(self) -> str:
        """The condition in words: "at most 0.4"."""
        return demand_words(self.low, self.high)

    def summary(self) -> dict[str, Any]:
        """Returns the numbers as a JSON document; a limit that does not exist is None."""
        limits = {"low": self.low, "high": self.high}
        return {
            "name": self.name, "value": self.value,
            **{key: limit if np.isfinite(limit) else None for key, limit in limits.items()},
            "slack": self.slack, "price": self.price if np.isfinite(self.price) else str(self.price),
        }  # fmt: skip

    def __str__(self) -> str:
        text = f"{self.name}: {self.value:.6g}, {self.demand}"
        if self.price <= 0:
            return f"{text} (slack {self.slack:.3g})"
        return f"{text}; one more unit lowers the divergence by {self.price:.4g}"


def met_conditions(sides: Sides, d: FloatArray, prices: FloatArray) -> tuple[MetCondition, ...]:
    """Returns how the occupancy d meets the conditions; `prices` has one entry per row."""
    found = []
    binding = [
        float(price) if price * row.size > -float(row.row @ d) else 0.0  # the product of both vanishes
        for price, row in zip(prices, sides.rows, strict=True)
    ]
    for k, (condition, values) in enumerate(zip(sides.conditions, sides.values, strict=True)):
        value = float(values @ d)
        price = sum(one for one, source in zip(binding, sides.source, strict=True) if source == k)
        slack = min(condition.high - value, value - condition.low)
        found.append(MetCondition(sides.name(k), value, condition.low, condition.high, slack, price))
    return tuple(found)


def name_of(conditions: Sequence[Condition], k: int) -> str:
    """Returns the name of condition k, with its number if others have the same name."""
    name = conditions[k].name
    return name if [one.name for one in conditions].count(name) == 1 else f"{name} {k + 1}"
