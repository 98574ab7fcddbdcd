"""The code of a space's actions, by the kind of the space.

Discrete spaces need no choice; what to take of a Box is the user's choice (`rhocover.adapters.box_actions`).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.adapters.action_code import WHAT, ActionCode, check_number_of_actions
from rhocover.adapters.box_actions import level_actions, listed_actions
from rhocover.adapters.spaces import check_space, counts_and_starts
from rhocover.adapters.whole_numbers import ravelled_number, ravelled_numbers, whole_number, whole_numbers
from rhocover.errors import InvalidArgumentError


def read_action_code(actions: Any, space: Any) -> ActionCode:
    """Returns the code of a space's actions.

    `actions` is None for Discrete, MultiDiscrete and MultiBinary; for a Box it is the number of levels of
    each dimension (one for all, or one each), or an array `[A, dim]` of the actions themselves. Of a vector
    environment, pass its `single_action_space`.
    """
    from gymnasium import spaces

    check_space(space, "space")
    if isinstance(space, spaces.Box):
        return _box_code(actions, space)
    if actions is not None:
        raise InvalidArgumentError(f"`actions` is for spaces of real numbers (Box), got one for {space}.")
    if isinstance(space, spaces.Discrete):
        return _discrete_code(int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return _multi_discrete_code(space)
    raise InvalidArgumentError(
        f"the action space {space} cannot be numbered. Wrap the environment with "
        "gymnasium.wrappers.TransformAction so that its actions are Discrete, MultiDiscrete or Box."
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
        raise InvalidArgumentError(
            f"the action space {space} has no finite actions: pass `actions`, the number of levels of each "
            "dimension (actions=3: the low end, the middle, the high end), or an array of them, one a row."
        )
    if checks.any_array(actions, "actions").ndim == 2:
        return listed_actions(checks.float_array(actions, "actions"), space)
    return level_actions(actions, space)
