"""Checks of arguments, made once in public functions; everything behind them may rely on the values."""

from __future__ import annotations

import errno
import inspect
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhocover.errors import InvalidArgumentError, short_names, shortened, unknown_name
from rhocover.printing import count_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
LARGEST_SIZE = 2**31 - 1  # sparse solvers use 32-bit indices
ASSUMED_MEMORY = 2**35  # bytes, if the system does not report it
LARGEST_SEED = 2**1024 - 1  # three hundred digits; generators accept larger ones
SMALLEST_CHANCE = 1e-300  # below it, halves and logarithms of a probability are no longer exact
Matrix = Any  # a scipy.sparse.csr_array; SciPy has no types for a type checker


def float_array(value: Any, name: str, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Returns `value` as a finite float64 array; `None` in `shape` stands for any length."""
    array = real_array(value, name)
    if shape is not None:
        check_shape(array.shape, name, shape)
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidArgumentError.of(name, "must be finite", f"{at(name, place)} = {array[place]}")
    return array


def real_array(value: Any, name: str) -> FloatArray:
    """Returns `value` as float64; refuses bool, object, complex and text arrays."""
    array = any_array(value, name)
    if array.dtype.kind not in "fiu":
        raise InvalidArgumentError.of(name, "must hold real numbers", *_what_to_do(value, array, name))
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, which is refused later
        return array.astype(np.float64, copy=False)


def _what_to_do(value: Any, array: NDArray[Any], name: str) -> tuple[str, str]:
    """Returns what came instead of real numbers, and the way out."""
    if isinstance(value, Mapping):
        fill = f"{name} = np.zeros(shape), then {name}[key] = value for each of them"
        return f"a {type(value).__name__}", f"Put its values into an array: {fill}."
    if array.ndim == 0 and array.dtype.kind == "O":
        return f"one of type {type(value).__name__}", "Pass an array or a list of numbers."
    convert = name if isinstance(value, np.ndarray) else f"np.array({name})"
    return f"dtype {array.dtype}", f"Convert it first, for example with {convert}.astype(float)."


def real_or_bool(value: Any, name: str) -> NDArray[Any]:
    """Returns `value` as an array of real numbers or booleans; NaN is allowed, for missing values."""
    array = any_array(value, name)
    return array if array.dtype.kind == "b" else real_array(array, name)


def any_array(value: Any, name: str) -> NDArray[Any]:
    """Returns `value` as an array of any type; refuses nested lists of different lengths."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidArgumentError.of(
            name, "has masked entries", remedy=f"Fill them first, with {name}.filled(...)."
        )
    try:
        return np.asarray(value)
    except (ValueError, TypeError, MemoryError, OverflowError) as error:
        raise InvalidArgumentError.of(name, "must be a rectangular array") from error


def check_instance(value: Any, kind: type, name: str, expected: str, remedy: str) -> None:
    """Refuses a value that is not of a class; the error has the class that it is of."""
    if not isinstance(value, kind):
        raise InvalidArgumentError.of(name, expected, type(value).__name__, remedy=remedy)


def check_shape(got: tuple[int, ...], name: str, expected: tuple[int | None, ...]) -> None:
    """Refuses a shape that does not match; the error has both shapes."""
    fits = len(got) == len(expected) and all(e is None or e == g for g, e in zip(got, expected, strict=True))
    if not fits:
        wanted = "(" + ", ".join("any" if e is None else str(e) for e in expected) + ")"
        raise InvalidArgumentError.of(name, f"must have shape {wanted}", f"{got}")


def check_nonnegative(array: FloatArray, name: str) -> None:
    """Refuses negative entries; the error names the first."""
    if (array < 0).any():
        place = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise InvalidArgumentError.of(name, "must be non-negative", f"{at(name, place)} = {array[place]:g}")


def at(name: str, place: tuple[int, ...]) -> str:
    """Returns the text of an indexed element, `mu[1, 2]`; a scalar is just its name."""
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def number(value: Any, name: str) -> float:
    """Returns `value` as a float that may be infinite but not NaN; refuses bool, complex and text."""
    if not _is_real(value):
        raise InvalidArgumentError.of(name, "must be a number", shortened(repr(value)))
    try:
        result = float(value)
    except OverflowError as error:
        raise InvalidArgumentError.of(name, "must be a number that float64 can hold") from error
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError.of(name, "must be a number", shortened(repr(value))) from error
    if math.isnan(result):
        raise InvalidArgumentError.of(name, "must be a number", "nan")
    return result


def _is_real(value: Any) -> bool:
    """Returns whether float() may convert `value`; it would also accept text and complex numbers."""
    if isinstance(value, np.generic | np.ndarray):
        return value.dtype.kind in "fiu" and not isinstance(value, np.ma.MaskedArray)
    return not isinstance(value, bool) and (hasattr(value, "__float__") or hasattr(value, "__index__"))


def integer(value: Any, name: str, *, least: int, most: int | None = None) -> int:
    """Returns `value` as an int of at least `least`; 1e4 is 10,000, but 2.5 is refused."""
    if not _is_whole(value):
        raise InvalidArgumentError.of(name, "must be a whole number", shortened(repr(value)))
    value = int(value)
    if value < least:
        raise InvalidArgumentError.of(name, f"must be at least {least}", f"{value}")
    if most is not None and value > most:
        raise InvalidArgumentError.of(
            name, f"must be at most {float_or_more(most)}", f"{float_or_more(value)}"
        )
    return value


def flag(value: Any, name: str) -> bool:
    """Returns True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError.of(name, "must be True or False", f"a {type(value).__name__}")
    return bool(value)


def seed(value: Any, name: str = "seed") -> int:
    """Returns a seed, at most as large as a file can store."""
    return integer(value, name, least=0, most=LARGEST_SEED)


def seed_or_drawn(value: Any) -> int:
    """Returns a seed; None draws one of 32 bits, which the result has to record."""
    return int(np.random.SeedSequence().generate_state(1)[0]) if value is None else seed(value)


def size(value: Any, name: str, *, least: int) -> int:
    """Returns `value` as a number of states, actions or rows, which must fit into 32 bits."""
    return integer(value, name, least=least, most=LARGEST_SIZE)


def memory_bytes() -> int:
    """Returns how much memory this process may use: the machine's, or the system's limit if it is lower."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ImportError, AttributeError, ValueError, OSError):  # systems that do not report it
        return ASSUMED_MEMORY
    return there if limit == resource.RLIM_INFINITY else min(there, limit)


def float_or_more(value: int) -> str:
    """Returns a whole number as a short text."""
    return str(value) if abs(value) < 10**20 else f"one of {value.bit_length()} bits"


def is_gymnasium_id(text: str) -> bool:
    """Returns whether a text looks like the id of a Gymnasium environment: it ends in a version."""
    return re.fullmatch(r"([\w.]+:)?([\w-]+/)*[\w.-]+-v\d+", text) is not None


def choice(value: Any, name: str, known: Iterable[str], *, kind: str = "") -> str:
    """Returns `value`, which must be one of the `known` names; messages call it `kind`, or `name`."""
    if not isinstance(value, str) or value not in known:
        raise unknown_name(kind or name, value, tuple(known), argument=name)
    return value


def place(value: Any, name: str, what: str = "file") -> Path:
    """Returns `value` as the path of a file, or of what `what` names."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or "\0" in text:
        raise InvalidArgumentError.of(name, f"must be the name of a {what}", shortened(repr(value)))
    try:
        os.lstat(text)
    except UnicodeEncodeError as error:
        raise InvalidArgumentError.of(
            name, f"must be the name of a {what}", f"{shortened(repr(text))}, which this system cannot encode"
        ) from error
    except OSError as error:  # a name may be of nothing yet, or of something that cannot be seen
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidArgumentError.of(
                name,
                f"must be the name of a {what}",
                f"one of {len(text)} characters, too long for this system: {shortened(repr(text))}",
            ) from error
    return Path(text)


def absolute_place(value: Any, name: str, what: str = "file") -> Path:
    """Returns `value` as an absolute path, which does not depend on later working directories."""
    path = place(value, name, what)
    try:
        return path.absolute()
    except OSError as error:
        raise InvalidArgumentError.of(
            name,
            f": {str(path)!r} is relative to the working directory, which is gone",
            remedy="Give an absolute path.",
        ) from error


def function_or_none(value: Any, name: str) -> Any:
    """Returns `value`, which must be None or callable."""
    if value is not None and not callable(value):
        raise InvalidArgumentError.of(name, "must be a function or None", type(value).__name__)
    return value


def one_argument(function: Any, name: str, what: str) -> Any:
    """Returns a function; refuses one that cannot be called with one argument, which is `what`."""
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise InvalidArgumentError.of(
            name, f"must be a function of one argument, {what}", _signature(function)
        ) from error
    except ValueError:  # a function in C that does not say what it takes
        pass
    return function


def _signature(function: Any) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}{inspect.signature(function)}"


def _is_whole(value: Any) -> bool:
    """Returns whether `value` is an integer, or a float without a fraction.

    bool and NumPy's timedelta64 are integers only by type.
    """
    if isinstance(value, float | np.floating):
        return bool(value.is_integer())
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def positive(value: Any, name: str) -> float:
    """Returns `value` as a float above zero and below infinity."""
    result = number(value, name)
    if not 0 < result < math.inf:
        raise InvalidArgumentError.of(name, "must be positive and finite", f"{result:g}")
    return result


def probability(value: Any, name: str, *, open_ends: bool = False) -> float:
    """Returns `value` in [0, 1], or in (0, 1) with `open_ends`."""
    result = number(value, name)
    inside = SMALLEST_CHANCE <= result < 1 if open_ends else 0 <= result <= 1
    if not inside:
        interval = "(0, 1)" if open_ends else "[0, 1]"
        raise InvalidArgumentError.of(name, f"must be in {interval}", f"{result:g}")
    return result


def distribution(value: Any, name: str, length: int) -> FloatArray:
    """Returns a probability vector, shape `[length]`; an int is the point mass on that index."""
    if _is_whole(value):
        return _point_mass(int(value), name, length)
    array = float_array(value, name, (length,)).copy()
    check_nonnegative(array, name)
    with np.errstate(over="ignore"):
        total = array.sum()
    if abs(total - 1) > 1e-8:
        raise InvalidArgumentError.of(name, "must sum to 1", f"{total:.9g}", remedy="Divide it by its sum.")
    return array if abs(total - 1) <= 1e-14 else array / total  # normalised input is not changed by a bit


def _point_mass(index: int, name: str, length: int) -> FloatArray:
    if not 0 <= index < length:
        raise InvalidArgumentError.of(name, f"must be a state in 0..{length - 1}", f"{index}")
    array = np.zeros(length)
    array[index] = 1.0
    return array


def labels(value: Sequence[str] | None, name: str, length: int) -> tuple[str, ...] | None:
    """Returns the labels as a tuple of the right length, or None."""
    if value is None:
        return None
    try:
        result = tuple(str(label) for label in itertools.islice(value, length + 1))
    except TypeError as error:
        expected = f"must be {count_of(length, 'label')}"
        raise InvalidArgumentError.of(name, expected, shortened(repr(value))) from error
    if isinstance(value, str) or len(result) != length:
        got = len(value) if isinstance(value, Sequence) else len(result)
        raise InvalidArgumentError.of(name, f"must be {count_of(length, 'label')}", f"{got}")
    return result


def round_below(number: float) -> float:
    """Returns a number of two digits below a positive one, which is easy to type."""
    unit = 10.0 ** (math.floor(math.log10(max(number, SMALLEST_CHANCE))) - 1)
    return max(math.floor(number / unit) - 1, 0) * unit


def frozen(array: Any) -> Any:
    """Returns the array, made read-only."""
    array.setflags(write=False)
    return array


def frozen_matrix(matrix: Matrix) -> Matrix:
    """Returns the sparse matrix, its arrays made read-only."""
    for array in (matrix.data, matrix.indices, matrix.indptr):
        frozen(array)
    return matrix


def name_some(items: Sequence[Any], limit: int = 8) -> str:
    """Returns the first items as text, and the number of the others."""
    shown = ", ".join(short_names(items[:limit]))
    rest = len(items) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown
