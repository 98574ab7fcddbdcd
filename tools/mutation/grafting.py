"""A mutant put into a program that runs: code objects are exchanged, and nothing is imported again.

The mutated source is executed beside the module, and what the mutated definition consists of is moved over:
the code and the defaults of functions, the plain values of a class or of the module. Every other module that
holds the function or the value then has the mutant, too. A compiled function is emptied of its machine code,
and so are those that call it and may have it inlined; no cache on disk is read or written for them.
"""

from __future__ import annotations

import sys
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

PLAIN = (int, float, tuple, dict)


def graft(module: ModuleType, source: bytes, function: str) -> None:
    """Puts the definition of `function` (<module>: the plain values) as in `source` into the module."""
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    exec(compile(source, module.__file__ or "", "exec"), fresh.__dict__)
    top = function.split(".")[0]
    if top == "<module>":
        _graft_values(module, fresh)
    else:
        _graft_object(vars(module)[top], vars(fresh)[top], module)


def _graft_values(module: ModuleType, fresh: ModuleType) -> None:
    """Sets plain values that differ, in this module and where they were imported to."""
    for name, value in vars(fresh).items():
        old = vars(module).get(name)
        if isinstance(value, PLAIN) and name[:2] != "__" and value != old:
            for other in list(sys.modules.values()):
                if vars(other).get(name) is old and old is not None:
                    setattr(other, name, value)


def _graft_object(old: Any, new: Any, owner: Any, name: str = "") -> None:
    if isinstance(old, Dispatcher):
        old.py_func.__code__ = new.py_func.__code__
        _forget_machine_code(old, vars(owner))
    elif isinstance(old, FunctionType):
        old.__code__, old.__defaults__, old.__kwdefaults__ = (
            new.__code__,
            new.__defaults__,
            new.__kwdefaults__,
        )
    elif isinstance(old, type):
        for key in vars(old).keys() & vars(new).keys():
            _graft_object(vars(old)[key], vars(new)[key], old, key)
    elif isinstance(old, property):
        _graft_object(old.fget, new.fget, owner)
    elif isinstance(old, cached_property):
        _graft_object(old.func, new.func, owner)
    elif isinstance(old, classmethod | staticmethod):
        _graft_object(old.__func__, new.__func__, owner)
    elif hasattr(old, "__wrapped__"):
        _graft_object(old.__wrapped__, new.__wrapped__, owner)
    elif isinstance(old, PLAIN) and name[:2] != "__" and old != new:
        setattr(owner, name, new)


def _forget_machine_code(changed: Dispatcher, names: dict[str, Any]) -> None:
    """Makes Numba compile a function again, and every function of the module that calls it."""
    compiled = {name: value for name, value in names.items() if isinstance(value, Dispatcher)}
    stale = {changed.py_func.__name__}
    while more := {n for n, f in compiled.items() if stale & {*f.py_func.__code__.co_names}} - stale:
        stale |= more
    for name in stale:
        compiled[name]._cache = NullCache()
        compiled[name]._make_finalizer()()
        compiled[name]._reset_overloads()
        compiled[name]._can_compile = True
