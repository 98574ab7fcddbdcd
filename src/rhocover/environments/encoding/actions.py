"""Action codes: the actions of a space, numbered from 0.

Discrete spaces need no choice; a list of actions restricts them to those, and any other action is refused.
For a Box the user chooses: a number of levels per dimension, spaced evenly from the low to the high end of
the space, or the actions themselves.

A real-valued action that is not in the code, for example one in a data set, is counted as the nearest one.
With levels l_1 < l_2 < ... the boundaries are the midpoints (l_k + l_{k+1}) / 2, and values up to half a
level beyond the space are accepted. With listed actions the nearest one is that of least Euclidean distance,
each dimension measured in units of the range of the space.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray
from rhocover.environments.encoding.axes import Axis, as_points, locate, locate_many
from rhocover.environments.encoding.base import (
    WHAT,
    ActionCode,
    OutsideSpaceError,
    check_number_of_actions,
    check_space,
    counts_and_starts,
)
from rhocover.environments.encoding.discrete import (
    ravelled_number,
    ravelled_numbers,
    whole_number,
    whole_numbers,
)
from rhocover.errors import Argument, Call, InvalidArgumentError, Setting

# Actions of a Box: levels per dimension, or the actions themselves.


def level_actions(actions: Any, space: Any) -> ActionCode:
    """Returns the code with `actions` levels per dimension, one number for all of them or one each."""
    counts = _counts(actions, int(np.prod(space.shape)))
    check_number_of_actions(math.prod(counts))
    ends = _finite_bounds(space)
    levels = [_levels(count, *pair) for count, pair in zip(counts, ends, strict=True)]
    axes = [_axis(k, *parts) for k, parts in enumerate(zip(levels, ends, strict=True))]
    rows = list(itertools.product(*levels))
    return ActionCode(
        _values(rows, space), _names(rows), locate(axes, WHAT),
        lambda array: locate_many(as_points(array, len(axes), WHAT), axes, WHAT),
        {"kind": "levels", "levels": levels},
    )  # fmt: skip


def _counts(actions: Any, size: int) -> list[int]:
    counts = list(actions) if np.ndim(actions) else [actions] * size
    if len(counts) != size or np.asarray(counts).dtype.kind not in "iu":
        raise InvalidArgumentError.of(
            "actions",
            f"must be a number of levels, {size} of them, or an array of shape (A, {size}) with one action "
            "per row",
            repr(actions),
        )
    return [checks.integer(count, "actions", least=1) for count in counts]


LISTED = Call(" as an array with one action per row.", " in Python, as an array with one action per row.")


def _finite_bounds(space: Any) -> list[tuple[float, float]]:
    lows, highs = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    if not (np.isfinite(lows) & np.isfinite(highs)).all():
        raise InvalidArgumentError(
            (
                f"the action space {space} is unbounded, so it cannot be divided into levels: pass ",
                Argument("actions"),
                LISTED,
            ),
            argument="actions",
        )
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _levels(count: int, low: float, high: float) -> list[float]:
    return np.linspace(low, high, count).tolist() if count > 1 else [(low + high) / 2]


def _axis(number: int, levels: list[float], ends: tuple[float, float]) -> Axis:
    """Returns the axis cut at the midpoints; it accepts values up to half a level beyond the space."""
    low, high = ends
    middles = tuple((a + b) / 2 for a, b in itertools.pairwise(levels))
    half = (high - low) / 2 / max(len(levels) - 1, 1)
    return Axis(middles, low, high, low - half, high + half, f"a{number}")


def listed_actions(rows: FloatArray, space: Any) -> ActionCode:
    """Returns the code of the actions in `rows`, `[A, dim]`."""
    size = int(np.prod(space.shape))
    checks.check_shape(rows.shape, "actions", (None, size))
    check_number_of_actions(len(rows))
    _check_distinct_and_inside(rows, space)
    scale = _scale(rows, space)

    def numbers(array: Any) -> IntArray:
        points = as_points(array, size, WHAT)
        _check_inside(points, space)
        return np.array([_nearest(point, rows, scale) for point in points], np.int64)

    listed = rows.tolist()
    return ActionCode(
        _values(listed, space), _names(listed), lambda action: int(numbers([action])[0]), numbers,
        {"kind": "listed", "actions": listed},
    )  # fmt: skip


def _nearest(point: FloatArray, rows: FloatArray, scale: FloatArray) -> int:
    return int(np.argmin((((rows - point) / scale) ** 2).sum(axis=1)))


def _scale(rows: FloatArray, space: Any) -> FloatArray:
    """Returns the range of the space per dimension, or that of the actions where the space is unbounded."""
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    width = np.where(np.isfinite(low) & np.isfinite(high), high - low, np.ptp(rows, axis=0))
    return np.where(width > 0, width, 1.0)


def _check_distinct_and_inside(rows: FloatArray, space: Any) -> None:
    if len(rows) == 0 or len(np.unique(rows, axis=0)) < len(rows):
        raise InvalidArgumentError.of(
            "actions", "must contain at least one action, and all must be different"
        )
    _check_inside(rows.astype(space.dtype).astype(float), space)


def _check_inside(points: FloatArray, space: Any) -> None:
    low, high = np.ravel(space.low), np.ravel(space.high)
    inside = (points >= low) & (points <= high)  # False for NaN
    if not inside.all():
        row, k = (int(number) for number in np.argwhere(~inside)[0])
        raise OutsideSpaceError(
            f"{WHAT} has a{k} = {points[row, k]:g}, expected {low[k]:g} to {high[k]:g}, the "
            "bounds of its space."
        )


def _values(rows: Any, space: Any) -> list[Any]:
    """Returns arrays for `env.step`; read-only, because an environment may write into its argument."""
    return [checks.frozen(np.array(row, space.dtype).reshape(space.shape)) for row in rows]


def _names(rows: Any) -> tuple[str, ...]:
    texts = [[f"{value:g}" for value in row] for row in rows]
    return tuple(text[0] if len(text) == 1 else f"({', '.join(text)})" for text in texts)


# Some of the actions of a finite space.


def chosen_actions(actions: Any, every: ActionCode, space: Any) -> ActionCode:
    """Returns the code of the listed actions of a finite space, in their order; `every` is that of all."""
    size = len(space.shape or ())
    array = np.asarray(checks.any_array(actions, "actions"))
    if array.ndim != 1 + size or not array.size or array.dtype.kind not in "iub":
        example = "[[0, 1], [2, 0]]" if size else "[0, 1, 2]"
        raise InvalidArgumentError.of(
            "actions",
            f"must be a list of actions of {space}",
            repr(actions),
            remedy=(
                "Leave ", Argument("actions"), " out to use all of them, or list some: ",
                Call(example, "--actions 0,1"), ".",
            ),
        )  # fmt: skip
    try:
        chosen = every.numbers(array)
    except OutsideSpaceError as error:
        raise InvalidArgumentError.of("actions", f"must be actions of {space}", repr(actions)) from error
    if len(set(chosen.tolist())) < chosen.size:
        raise InvalidArgumentError.of("actions", "must all be different", repr(actions))
    position = np.full(every.num_actions, -1, np.int64)
    position[chosen] = np.arange(chosen.size)
    names = every.names or tuple(map(str, every.values))
    return ActionCode(
        [every.values[k] for k in chosen], tuple(names[k] for k in chosen),
        lambda action: _position(position, every.number(action), names),
        lambda array: _positions(position, every.numbers(array), names),
        {"kind": "chosen", "actions": np.reshape(array.astype(int), (chosen.size, -1)).tolist()},
        tuple(chosen.tolist()),
    )  # fmt: skip


def _position(position: IntArray, number: int, names: tuple[str, ...]) -> int:
    return int(_positions(position, np.array([number]), names)[0])


def _positions(position: IntArray, numbers: IntArray, names: tuple[str, ...]) -> IntArray:
    """Returns the places of actions among those chosen; raises for the first that was not."""
    found = position[numbers]
    if found.size and found.min() < 0:
        listed = [names[k] for k in np.flatnonzero(position >= 0)]
        raise OutsideSpaceError.of(
            "actions",
            f"lists {checks.name_some(listed)}",
            f"the action {names[int(numbers[np.argmin(found)])]}",
            remedy="List it too, or leave out the steps with it.",
        )
    return found


# Actions of any space.


def read_action_code(actions: Any, space: Any) -> ActionCode:
    """Returns the code of a space's actions.

    `actions` is None for all actions of a Discrete, MultiDiscrete or MultiBinary, or a list of some of them,
    `[A]` or `[A, dim]`; for a Box it is the number of levels per dimension (one number for all, or one each),
    or an array `[A, dim]` of the actions themselves. For a vector environment, pass its
    `single_action_space`.
    """
    from gymnasium import spaces

    check_space(space, "space")
    if isinstance(space, spaces.Box):
        return _box_code(actions, space)
    code = _finite_code(space)
    return code if actions is None else chosen_actions(actions, code, space)


def _finite_code(space: Any) -> ActionCode:
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return _discrete_code(int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return _multi_discrete_code(space)
    raise InvalidArgumentError(
        f"the action space {space} cannot be numbered.",
        argument="env",
        remedy="Wrap the environment with gymnasium.wrappers.TransformAction so that its actions are "
        "Discrete, MultiDiscrete or Box.",
    )


def _discrete_code(start: int, count: int) -> ActionCode:
    check_number_of_actions(count)
    read = whole_number(start, count, WHAT)
    return ActionCode(
        list(range(start, start + count)), None,
        read if start == 0 else lambda action: read(action) - start,
        lambda array: whole_numbers(array, start, count, WHAT) - start,
        {"kind": "discrete", "count": count, "start": start},
    )  # fmt: skip


def _multi_discrete_code(space: Any) -> ActionCode:
    counts, starts = counts_and_starts(space)
    check_number_of_actions(math.prod(counts))
    ranges = [range(first, first + count) for first, count in zip(starts, counts, strict=True)]
    rows = list(itertools.product(*ranges))
    values = [checks.frozen(np.array(row, space.dtype).reshape(space.shape)) for row in rows]
    return ActionCode(
        values, tuple(f"({', '.join(map(str, row))})" for row in rows),
        ravelled_number(counts, starts, WHAT),
        lambda array: ravelled_numbers(array, counts, starts, WHAT),
        {"kind": "multi_discrete", "counts": list(counts), "start": list(starts)},
    )  # fmt: skip


def _box_code(actions: Any, space: Any) -> ActionCode:
    if actions is None:
        levels = "three levels per dimension, the low end, the middle and the high end"
        python = f"{levels}, or an array with one action per row"
        raise InvalidArgumentError(
            f"the action space {space} is not finite.",
            argument="actions",
            remedy=("Pass ", Setting("actions", "3"), " for ", Call(python, levels), "."),
        )
    if checks.any_array(actions, "actions").ndim == 2:
        return listed_actions(checks.float_array(actions, "actions"), space)
    return level_actions(actions, space)
