"""Which parameter sets `make test` leaves to the thorough tier.

`make test` runs at least one set of parameters of every theorem and of every promise, `make test-thorough` the
rest. The rest is marked where it is written: `tiered(RHOS)` in `parametrize` keeps the first set in the short
tier, `@pytest.mark.thorough` above a test, or `pytestmark` in a file, keeps none. Without `-m`, pytest runs both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def tiered(sets: Iterable[Any], *, short: int | Collection[Any] = 1) -> list[Any]:
    """Returns the parameter sets for `parametrize`, marked thorough but for `short`.

    `short` is how many of the first stay in the short tier, or which. A tuple is a set of several arguments.
    """
    every = list(sets)
    kept = range(short) if isinstance(short, int) else [every.index(values) for values in short]
    return [values if k in kept else _thorough(values) for k, values in enumerate(every)]


def _thorough(values: Any) -> Any:
    if hasattr(values, "marks"):  # already a pytest.param
        return pytest.param(*values.values, marks=[*values.marks, pytest.mark.thorough], id=values.id)
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=pytest.mark.thorough)
