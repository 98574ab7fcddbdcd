"""The weights mu of pairs that are met one by one.

`mu` is None (every pair the same), an array `[num_keys, A]` (row by row for the keys of the state code), or a
function of a key and an action's number. Weights are looked at when a state is first met, once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.adapters.state_code import StateCode
from rhocover.checks import FloatArray
from rhocover.coverage import checked_weights
from rhocover.errors import InvalidArgumentError

WeightRow = Callable[[Hashable], FloatArray]


def read_weights(mu: Any, code: StateCode, num_actions: int) -> WeightRow:
    """Returns the function from a key to the weights `[A]` of its pairs."""
    if mu is None:
        return lambda _: np.ones(num_actions)
    if callable(mu):
        return lambda key: np.array([_checked(mu(key, a), key, a) for a in range(num_actions)])
    if code.every_key is None:
        raise InvalidArgumentError(
            "`mu` as an array needs states that are numbered; `states` is a function, or too large a grid. "
            "Pass `mu` as a function of (key, action)."
        )
    table = checked_weights(checks.float_array(mu, "mu", (code.num_keys, num_actions)), "mu").copy()
    first = code.every_key.start
    return lambda key: table[key - first]  # type: ignore[operator]  # numbered keys are whole numbers


def plain(value: Any) -> Any:
    """Returns an array as nested lists; everything else as it is.

    What a wrapper says of its arguments is copied, compared and written to JSON; arrays do not compare.
    """
    return value.tolist() if isinstance(value, np.ndarray) else value


def _checked(weight: Any, key: Hashable, action: int) -> float:
    value = checks.number(weight, f"mu({key!r}, {action})")
    if not 0 <= value < np.inf:
        raise InvalidArgumentError(
            f"`mu` must be non-negative and finite, got mu({key!r}, {action}) = {value:g}."
        )
    return value
