"""How long each episode of Algorithm 1 lasts, in exact integers.

The theorem asks for tau_k = tau_1 k^2, so that t_k - 1 = tau_1 (k-1)k(2k-1)/6 and the step size
beta_k = tau_k/(t_{k+1} - 1) = 6k/((k+1)(2k+1)) lies in [1/k, 3/k) with beta_1 = 1. Python's integers have
no largest value, and a power with a fractional exponent is rounded up from its integer root, so that
10^12 steps and more are counted exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Protocol

from rhocover import checks
from rhocover.documents import RowFamily
from rhocover.errors import InvalidArgumentError, unknown_name

MAX_DENOMINATOR = 64  # of an exponent: enough for 3/2 or 1.25, and the integer roots stay cheap


class Schedule(Protocol):
    """Says how many steps episode k = 1, 2, ... takes, given the steps before it."""

    def length(self, k: int, num_steps: int) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Quadratic:
    """tau_k = tau_1 k^2, the schedule of the paper's theorem.

    >>> [Quadratic(10).length(k, 0) for k in (1, 2, 3)]
    [10, 40, 90]
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau_1 k^2."""
        return self.tau_1 * k * k

    def begins(self, k: int) -> int:
        """Returns t_k - 1, the steps before episode k: tau_1 (k-1)k(2k-1)/6."""
        return self.tau_1 * (k - 1) * k * (2 * k - 1) // 6


@dataclass(frozen=True)
class Power:
    """tau_k = ceil(tau_1 k^p) for an exponent p >= 0, computed without rounding.

    >>> [Power(10, 0.5).length(k, 0) for k in (1, 4, 5)]
    [10, 20, 23]
    """

    tau_1: int = 10
    p: float = 2.0

    def __post_init__(self) -> None:
        _check_first(self)
        p = checks.number(self.p, "p")
        if not 0 <= p <= 16:
            raise InvalidArgumentError.of("p", "must be in [0, 16]", f"{p:g}")
        object.__setattr__(self, "p", p)

    def length(self, k: int, num_steps: int) -> int:
        """Returns the smallest integer that is at least tau_1 k^p, p taken as a fraction."""
        p = Fraction(self.p).limit_denominator(MAX_DENOMINATOR)
        return _ceil_root(self.tau_1**p.denominator * k**p.numerator, p.denominator)


@dataclass(frozen=True)
class Constant:
    """tau_k = tau: short episodes, a fresh direction every tau steps."""

    tau: int = 50

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", checks.integer(self.tau, "tau", least=1))

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau."""
        return self.tau


@dataclass(frozen=True)
class Doubling:
    """tau_1 steps, then every episode as long as all before it: the number of steps doubles.

    >>> Doubling(10).length(1, 0), Doubling(10).length(2, 10), Doubling(10).length(3, 20)
    (10, 10, 20)
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns the number of steps so far, at least tau_1."""
        return max(self.tau_1, num_steps)


@dataclass(frozen=True)
class LineSearch:
    """Adaptive episodes: play the direction for as long as an exact line search would follow it.

    A share s of the way from d_hat to psi takes tau = s/(1-s) t more steps; at least tau_1, at most t.
    """

    tau_1: int = 10

    def __post_init__(self) -> None:
        _check_first(self)

    def length(self, k: int, num_steps: int) -> int:
        """Returns tau_1: before the first visit there is nothing to search from."""
        return self.tau_1

    def stretch(self, num_steps: int, share: float) -> int:
        """Returns the steps that take d_hat this share of the way."""
        if share >= 0.5:
            return max(self.tau_1, num_steps)
        return max(self.tau_1, math.ceil(num_steps * share / (1 - share)))


SCHEDULES: dict[str, type] = {
    "quadratic": Quadratic, "power": Power, "constant": Constant, "doubling": Doubling,
    "line_search": LineSearch,
}  # fmt: skip
StoredSchedule = Annotated[Schedule, RowFamily("a schedule", SCHEDULES)]


def read_schedule(text: str) -> Schedule:
    """Returns the schedule that a text such as `quadratic:10`, `power:10,1.5` or `constant:50` names."""
    name, _, rest = text.partition(":")
    if name not in SCHEDULES:
        raise unknown_name("schedule", name, tuple(SCHEDULES))
    try:
        numbers = [float(part) if "." in part else int(part) for part in rest.split(",") if part]
        return SCHEDULES[name](*numbers)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError.of(
            "schedule", f"{text!r} cannot be read: expected {name}:TAU, or power:TAU,P"
        ) from None


def check_schedule(schedule: Any) -> Schedule:
    """Returns the schedule, a text read; refuses what is none."""
    if isinstance(schedule, str):
        return read_schedule(schedule)
    if isinstance(schedule, type) or not callable(getattr(schedule, "length", None)):
        raise InvalidArgumentError.of(
            "schedule",
            "must be a text such as 'quadratic:10', or Quadratic(), Power(), Constant(), Doubling() or "
            "LineSearch()",
            repr(schedule),
        )
    return schedule


def _check_first(schedule: Any) -> None:
    object.__setattr__(schedule, "tau_1", checks.integer(schedule.tau_1, "tau_1", least=1))


def _ceil_root(value: int, degree: int) -> int:
    """Returns the smallest integer r with r^degree >= value."""
    low, high = 0, 1 << -(-value.bit_length() // degree) if degree > 1 else value
    if degree == 1:
        return value
    if degree == 2:
        root = math.isqrt(value)
        return root if root * root == value else root + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**degree >= value else (middle + 1, high)
    return low
