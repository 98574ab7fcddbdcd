"""Compiled loops beside their plain Python twins, on every call that real work makes.

Inside `checking`, each compiled function of the library is stood in for by a `Twin`: a call runs the
compiled function and, on copies of the same arguments, its Python source, and compares what both return and
what both leave in their arguments, bit by bit. The Python source calls the stand-ins of the loops it uses, so
those which only compiled code calls are compared as well.
"""

from __future__ import annotations

import copy
import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

import rhocover

SKIPPED = ("rhocover.environments.sb3",)  # needs torch; has no loops of its own


def all_kernels() -> dict[str, Dispatcher]:
    """Returns every compiled function of the library by module and name."""
    found: dict[str, Dispatcher] = {}
    for info in pkgutil.walk_packages(rhocover.__path__, "rhocover."):
        if info.name in SKIPPED or info.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Dispatcher):
                found[f"{value.py_func.__module__}.{value.py_func.__name__}"] = value
    return found


@dataclass
class Ledger:
    """How often each compiled function was compared, and where the two differed."""

    calls: Counter[str] = field(default_factory=Counter)
    differences: dict[str, str] = field(default_factory=dict)


class Twin:
    """Stands in for a compiled function and compares it with its source."""

    def __init__(
        self, name: str, compiled: Dispatcher, ledger: Ledger, places: Places, rounding: float
    ) -> None:
        self._name, self._compiled, self._ledger, self._places = name, compiled, ledger, places
        self._rounding = rounding

    def __call__(self, *arguments: Any) -> Any:
        if any(isinstance(value, list) and not value for value in arguments):
            return self._compiled.py_func(*arguments)  # an empty list has no type that a compiler could see
        mine, theirs = copied(arguments), copied(arguments)
        answer = self._places.with_compiled(self._compiled, mine)
        with np.errstate(all="ignore"):  # compiled code divides by zero without a word
            other = self._compiled.py_func(*theirs)
        difference = unlike((answer, mine), (other, theirs), self._rounding)
        self._ledger.calls[self._name] += 1
        if difference:
            self._ledger.differences.setdefault(self._name, difference)
        for before, after in zip(arguments, mine, strict=True):
            write_back(before, after)
        return answer


class Places:
    """The module attributes that hold compiled functions, and the stand-ins for them."""

    def __init__(self, kernels: dict[str, Dispatcher], ledger: Ledger, rounded: dict[str, float]) -> None:
        twins = {id(k): Twin(name, k, ledger, self, rounded.get(name, 0.0)) for name, k in kernels.items()}
        self._places = [
            (module, key, value, twins[id(value)])
            for name, module in list(sys.modules.items())
            if name.startswith("rhocover")
            for key, value in list(vars(module).items())
            if isinstance(value, Dispatcher) and id(value) in twins
        ]

    def put(self, *, twins: bool) -> None:
        """Puts the stand-ins, or the compiled functions, into every module."""
        for module, key, compiled, twin in self._places:
            setattr(module, key, twin if twins else compiled)

    def with_compiled(self, compiled: Dispatcher, arguments: tuple[Any, ...]) -> Any:
        """Returns a compiled call's answer; should it have to be compiled now, it finds compiled functions."""
        if compiled.signatures and _is_known(compiled, arguments):
            return compiled(*arguments)
        self.put(twins=False)
        try:
            return compiled(*arguments)
        finally:
            self.put(twins=True)


def _is_known(compiled: Dispatcher, arguments: tuple[Any, ...]) -> bool:
    types = tuple(compiled.typeof_pyval(value) for value in arguments)
    return types in compiled.overloads


@contextmanager
def checking(kernels: dict[str, Dispatcher], rounded: dict[str, float]) -> Iterator[Ledger]:
    """Compares every call of a compiled function that is made inside; bit by bit if it is not `rounded`."""
    ledger = Ledger()
    places = Places(kernels, ledger, rounded)
    places.put(twins=True)
    try:
        yield ledger
    finally:
        places.put(twins=False)


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments with arrays and lists of their own; memory order and read-only flags are kept."""
    return tuple(_copy(value) for value in arguments)


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        parts = map(_copy, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return copy.copy(value) if isinstance(value, list) else value
    result = value.copy(order="K")
    if result.strides != value.strides:  # a view with gaps: compiled code may take another path for it
        wide = np.empty(tuple(2 * n for n in value.shape), value.dtype)
        result = wide[tuple(slice(0, 2 * n, 2) for n in value.shape)]
        result[...] = value
    result.setflags(write=value.flags.writeable)
    return result


def write_back(before: Any, after: Any) -> None:
    """Copies what a call changed into the caller's own arrays and lists."""
    if isinstance(before, tuple):
        for mine, changed in zip(before, after, strict=True):
            write_back(mine, changed)
    if isinstance(before, list):
        before[:] = after
    elif isinstance(before, np.ndarray) and before.flags.writeable:
        before[...] = after


def unlike(one: Any, other: Any, rounding: float = 0.0) -> str:
    """Returns what differs in the bits of two values, or by more than `rounding` of the largest entry."""
    if isinstance(one, tuple | list):
        if len(one) != len(other):
            return f"{len(one)} and {len(other)} parts"
        parts = (unlike(a, b, rounding) for a, b in zip(one, other, strict=True))
        return next(filter(None, parts), "")
    first, second = np.ascontiguousarray(one), np.ascontiguousarray(other)
    is_whole = first.dtype.kind in "iub" and second.dtype.kind in "iub"
    if isinstance(one, np.ndarray) and (first.shape, first.dtype) != (second.shape, second.dtype):
        return f"{first.dtype}{first.shape} and {second.dtype}{second.shape}"
    if first.tobytes() == second.tobytes() or (is_whole and np.array_equal(first, second)):
        return ""
    if rounding and first.dtype.kind == second.dtype.kind == "f" and _is_close(first, second, rounding):
        return ""
    place = np.flatnonzero(first.ravel() != second.ravel())[:1]
    return f"entry {place}: {first.ravel()[place]!r} and {second.ravel()[place]!r}"


def _is_close(one: np.ndarray, other: np.ndarray, rounding: float) -> bool:
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    size = np.abs(one[finite]).max(initial=0.0)
    return bool(np.abs(one[finite] - other[finite]).max(initial=0.0) <= rounding * size)
