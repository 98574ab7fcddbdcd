"""Gymnasium's spaces as JSON documents and back, for the manifest of a collection.

| space | document |
|---|---|
| `Discrete` | `n`, `start` |
| `MultiDiscrete` | `nvec`, `start`, `dtype` |
| `MultiBinary` | `n` |
| `Box` | `low` and `high` (one number if all are equal, else nested lists), `shape`, `dtype` |
| `Dict`, `Tuple` | the documents of the parts |

An infinite bound is the text `inf` or `-inf`. A document may come from anywhere: it is read strictly, no
program is run, and how much memory a space takes is checked before it is made.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from rhocover.documents import refuse
from rhocover.errors import FileFormatError

if TYPE_CHECKING:
    import gymnasium as gym

MOST_NUMBERS = 2**26  # of an observation: half a gigabyte as float64
DEEPEST = 32  # nested spaces


def space_document(space: gym.Space[Any]) -> dict[str, Any]:
    """Returns a space as a document; only for spaces whose values are arrays of numbers."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        ends = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"kind": "MultiDiscrete", **ends, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "n": np.array(space.n).tolist()}
    if isinstance(space, spaces.Box):
        ends = {"low": _bounds(space.low), "high": _bounds(space.high)}
        return {"kind": "Box", **ends, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Dict):
        return {
            "kind": "Dict",
            "spaces": {key: space_document(part) for key, part in space.spaces.items()},
        }
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "spaces": [space_document(part) for part in space.spaces]}
    raise TypeError(f"no document holds a {type(space).__name__}")  # `space_leaves` has refused it


def _bounds(array: Any) -> Any:
    """Returns one number if all are equal, else nested lists; infinite ones as text."""
    flat = array.ravel()
    if flat.size and (flat == flat[0]).all():
        return _number(flat[0].item())
    return _numbers(array.tolist())


def _numbers(values: Any) -> Any:
    return [_numbers(value) for value in values] if isinstance(values, list) else _number(values)


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def read_space(document: Any, what: str) -> gym.Space[Any]:
    """Returns the space that a document describes; messages call it `what`."""
    try:
        return _read(document, "", 0)
    except (ValueError, TypeError, KeyError, OverflowError, AssertionError, AttributeError) as error:
        raise FileFormatError(f"{what} is damaged: {error}.") from error


def _read(document: Any, at: str, depth: int) -> gym.Space[Any]:
    from gymnasium import spaces

    if not isinstance(document, dict) or depth > DEEPEST:
        refuse(at, "a space", document)
    kind = document.get("kind")
    if kind == "Discrete":
        return spaces.Discrete(_whole(document, "n", at), start=_whole(document, "start", at))
    if kind == "MultiDiscrete":
        nvec, start = (np.array(document[name]) for name in ("nvec", "start"))
        return spaces.MultiDiscrete(nvec, dtype=_type(document, at), start=start)
    if kind == "MultiBinary":
        n = document["n"]
        _check_size(n if isinstance(n, list) else [n], at)
        return spaces.MultiBinary(n)
    if kind == "Box":
        return _read_box(document, at)
    if kind == "Dict" and isinstance(document.get("spaces"), dict):
        parts = document["spaces"].items()
        read = {key: _read(part, f"{at}.{key}", depth + 1) for key, part in parts}
        return spaces.Dict(OrderedDict(read))  # Gymnasium sorts the keys of a plain one
    if kind == "Tuple" and isinstance(document.get("spaces"), list):
        parts = enumerate(document["spaces"])
        return spaces.Tuple([_read(part, f"{at}.{k}", depth + 1) for k, part in parts])
    refuse(f"{at}.kind", "the kind of a space", kind)


def _read_box(document: dict[str, Any], at: str) -> gym.Space[Any]:
    from gymnasium import spaces

    shape = document["shape"]
    _check_size(shape, at)
    form = _type(document, at)
    low, high = (_as_bound(document[name], shape, form) for name in ("low", "high"))
    return spaces.Box(low, high, tuple(shape), form)  # type: ignore[arg-type]


def _as_bound(value: Any, shape: list[int], form: Any) -> Any:
    """Returns a bound as an array; infinite bounds of whole numbers are what Gymnasium makes of them."""
    array = np.array(value)
    array = array.astype(float) if array.dtype.kind in "US" else array
    return np.broadcast_to(array.astype(form), tuple(shape)).copy()


def _whole(document: dict[str, Any], name: str, at: str) -> int:
    value = document.get(name)
    if type(value) is not int or not -(2**62) < value < 2**62:
        refuse(f"{at}.{name}", "a whole number", value)
    return value


def _type(document: dict[str, Any], at: str) -> Any:
    form = np.dtype(document["dtype"]) if isinstance(document.get("dtype"), str) else None
    if form is None or form.kind not in "biuf" or form.itemsize > 8:
        refuse(f"{at}.dtype", "a type of number", document.get("dtype"))
    return form


def _check_size(shape: Any, at: str) -> None:
    is_shape = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or math.prod(shape) > MOST_NUMBERS:
        refuse(f"{at}.shape", f"a shape of at most {MOST_NUMBERS} numbers", shape)
