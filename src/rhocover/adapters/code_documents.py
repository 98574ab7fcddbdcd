"""A state code from what a file says of it. Files are data: none makes a function run."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from rhocover.adapters.axes import Axis
from rhocover.adapters.bin_code import BinCode
from rhocover.adapters.bins import space_bounds
from rhocover.adapters.spaces import counts_and_starts
from rhocover.adapters.state_code import StateCode
from rhocover.adapters.whole_numbers import WholeNumber, WholeNumbers
from rhocover.errors import InvalidDataError


def state_code_from_document(document: Any, space: Any) -> StateCode:
    """Returns the code that wrote `document`, for the same observation space.

    A document that names a function of the user's is refused: pass the function itself as `states`.
    """
    readers = {"discrete": _discrete, "multi_discrete": _multi_discrete, "bins": _bins, "function": _function}
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in readers:
        raise InvalidDataError(f"a code of states must be one of {', '.join(readers)}, got {kind!r}.")
    try:
        return readers[kind](document, space)
    except InvalidDataError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidDataError(f"the code of states is damaged or of another space: {error!r}.") from error


def _discrete(document: dict[str, Any], space: Any) -> StateCode:
    code = WholeNumber(int(document["count"]), int(document["start"]))
    return _same(code, WholeNumber(int(space.n), int(space.start)), space)


def _multi_discrete(document: dict[str, Any], space: Any) -> StateCode:
    code = WholeNumbers(tuple(map(int, document["counts"])), tuple(map(int, document["start"])))
    return _same(code, WholeNumbers(*counts_and_starts(space)), space)


def _same(code: StateCode, of_space: StateCode, space: Any) -> StateCode:
    if code != of_space:
        raise InvalidDataError(
            f"the states were {code.document()}, "
            f"but the observation space is {space}: these are another environment's."
        )
    return code


def _bins(document: dict[str, Any], space: Any) -> StateCode:
    of = document["of"]
    if isinstance(of, str):
        raise _needs_function(of)
    of = of and tuple(int(number) for number in of)
    parts = zip(document["edges"], document["ends"], document["names"], strict=True)
    axes = tuple(_axis(*part) for part in parts)
    return BinCode(axes, of).within(space_bounds(space, of, len(axes)))


def _axis(edges: Any, ends: Any, name: Any) -> Axis:
    inner = tuple(float(edge) for edge in edges)
    low = -math.inf if ends[0] is None else float(ends[0])
    high = math.inf if ends[1] is None else float(ends[1])
    whole = (low, *inner, high)
    if not all(a < b for a, b in pairwise(whole)):  # also refuses NaN
        raise InvalidDataError(f"the edges of the bins of {name} do not ascend: {whole}.")
    return Axis(inner, low, high, -math.inf, math.inf, str(name))


def _function(document: dict[str, Any], space: Any) -> StateCode:
    raise _needs_function(str(document["name"]))


def _needs_function(name: str) -> InvalidDataError:
    return InvalidDataError(
        f"the states came from the function {name}, which no file can hold: pass it as `states`."
    )
