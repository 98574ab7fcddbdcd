"""Frozen dataclasses as JSON documents and back, by the types of their fields.

| type | in the document |
|---|---|
| `str`, `bool`, `int`, `None`, `Literal["a text"]` | the value itself |
| `float` | a number that is not NaN; infinite where the class allows it; a whole number stays whole |
| `X | Y` | as the first of them that fits |
| `tuple[X, ...]`, `tuple[X, Y]` | a list |
| a dataclass | an object with a key for each field that `__init__` takes, in their order |
| `Annotated[X, form]` | what `form.write(value)` returns, and `form.read(document, at)` reads |
| `dict[str, Any]`, `Any` and other types | the value itself, which must be valid JSON |

Reading is strict, because a document determines a run: a missing key, an unknown key or a value of another
type is refused, with the key, what was expected and what came; so are values that a class refuses in its
`__post_init__`. Arrays are stored next to documents, not in them (`rhocover.files`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np

from rhocover.errors import FileFormatError, shortened

ADDED_LATER = {"may_be_absent": True}  # metadata of a field that files of earlier versions do not have
LEFT_OUT = {"may_be_absent": True, "is_left_out": True}  # the same; not written if it is the default
# What a class may raise for values that it does not expect.
WRONG = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
LARGEST = int(np.finfo(float).max)  # larger whole numbers are not a float64
SHAPES: dict[Any, tuple[tuple[type, ...], str]] = {  # of the values of a type in a document
    str: ((str,), "text"), bool: ((bool,), "true or false"), int: ((int,), "a whole number"),
    float: ((int, float), "a number"), NoneType: ((NoneType,), "null"), tuple: ((list,), "a list"),
    dict: ((dict,), "an object"),
}  # fmt: skip


def to_document(value: Any) -> dict[str, Any]:
    """Returns a dataclass as a document; raises TypeError if some value cannot be in a document."""
    parts = [(kind, field, getattr(value, field.name)) for kind, field in _fields(type(value))]
    return {
        field.name: _write(kind, part) for kind, field, part in parts
        if not (field.metadata.get("is_left_out") and part == field.default)
    }  # fmt: skip


def from_document(kind: Any, document: Any, what: str) -> Any:
    """Returns the value of a type or family that a document describes; messages call it `what`."""
    try:
        return kind.read(document, "") if isinstance(kind, Family) else read(kind, document, "")
    except ValueError as error:
        raise FileFormatError(f"{what} cannot be read: {error}.") from error


def refuse(at: str, expected: str, came: Any) -> NoReturn:
    """Raises the error about the part of a document at `at` that is not as expected."""
    name = f"`{at.removeprefix('.')}`" if at else "it"
    raise ValueError(f"{name} must be {expected}, got {shortened(repr(came), 100)}")


@cache
def _fields(kind: type) -> tuple[tuple[Any, dataclasses.Field[Any]], ...]:
    """Returns the fields that `__init__` of a dataclass takes, each with its type."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):  # a plug-in may use names that only a type checker knows
        hints = {}
    return tuple((hints.get(field.name, Any), field) for field in dataclasses.fields(kind) if field.init)


def _write(kind: Any, value: Any) -> Any:
    if value is None or (type(value) is kind and kind in SHAPES):
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return parts[1].write(value)
    if origin in (Union, UnionType):
        fits = [part for part in parts if type(value) in (part, get_origin(part))]
        return _write((fits or [part for part in parts if get_origin(part) is Annotated] or [Any])[0], value)
    if origin is tuple:
        return [_write(parts[0 if parts[-1] is Ellipsis else k], item) for k, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and type(value) is not kind:
        raise TypeError(f"no document holds a {type(value).__name__} as {kind}")
    return to_document(value) if dataclasses.is_dataclass(value) else value


def read(kind: Any, document: Any, at: str) -> Any:
    """Returns the value of a type that the part of a document at `at` describes; raises a ValueError."""
    if type(document) is kind and document == document:  # the usual case; NaN is not equal to itself
        return document
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return parts[1].read(document, at)
    if origin in (Union, UnionType):
        if document is None and NoneType in parts:
            return None
        fits = [part for part in parts if type(document) in _shape(part)[0]]
        fits = fits or refuse(at, " or ".join(_shape(part)[1] for part in parts), document)
        return read(fits[0], document, at)
    shape, words = _shape(kind)
    if type(document) not in shape or not _is_allowed(kind, document):
        refuse(at, words, document)
    if origin is tuple:
        return _read_list(parts, document, at)
    return _read_object(kind, document, at) if dataclasses.is_dataclass(kind) else document


def _is_allowed(kind: Any, document: Any) -> bool:
    """Whether a value of the right type is one of a literal's, or a number that float64 can hold."""
    if get_origin(kind) is Literal:
        return document in get_args(kind)
    if kind is not float:
        return True
    return not math.isnan(document) if type(document) is float else abs(document) <= LARGEST


def _shape(kind: Any) -> tuple[tuple[type, ...], str]:
    """Returns the JSON types that a type can have, and their name in messages."""
    if get_origin(kind) is Literal:
        return (str,), " or ".join(map(repr, get_args(kind)))
    every = (str, bool, int, float, NoneType, list, dict)
    other = SHAPES[dict] if dataclasses.is_dataclass(kind) else (every, "a value")
    return SHAPES.get(kind) or SHAPES.get(get_origin(kind)) or other


def _read_list(parts: tuple[Any, ...], document: list[Any], at: str) -> tuple[Any, ...]:
    if parts[-1] is Ellipsis:
        parts = parts[:1] * len(document)
    if len(parts) != len(document):
        refuse(at, f"a list of {len(parts)}", document)
    return tuple(read(part, item, f"{at}[{k}]") for k, (part, item) in enumerate(zip(parts, document)))  # noqa: B905


def _read_object(kind: Any, document: Any, at: str) -> Any:
    kinds = {field.name: part for part, field in _fields(kind)}
    may_be_absent = [field.name for _, field in _fields(kind) if field.metadata.get("may_be_absent")]
    check_keys(document, [*kinds], at, may_be_absent)
    given = {name: read(kinds[name], part, f"{at}.{name}") for name, part in document.items()}
    try:
        return kind(**given)
    except WRONG as error:
        said = shortened(str(error) or type(error).__name__).removesuffix(".")
        raise ValueError(f"`{at.removeprefix('.')}`: {said}" if at else said) from error


def check_keys(document: Any, keys: Sequence[str], at: str, may_be_absent: Sequence[str] = ()) -> None:
    """Refuses a document that is not an object, has an unknown key, or lacks one."""
    expected = f"an object with the keys {', '.join(keys)}" if keys else "an empty object"
    if type(document) is not dict or any(key not in keys for key in document):
        refuse(at, expected, document)
    for key in keys:
        if key not in document and key not in may_be_absent:
            raise ValueError(f"`{f'{at}.{key}'.removeprefix('.')}` is missing: expected {expected}")


@dataclass(frozen=True, eq=False)
class Family:
    """One of several classes, with its name: `{"name": ..., "settings": {...}}`.

    `tag` is the key of the name, `content` that of the fields; None if the fields are next to the name.
    """

    noun: str  # "a stopping rule"
    classes: Mapping[str, type]
    tag: str = "name"
    content: str | None = "settings"

    def name_of(self, value: Any) -> str:
        """Returns the name of the class of a value; raises TypeError for another class."""
        for name, kind in self.classes.items():
            if kind is type(value):
                return name
        raise TypeError(f"no document holds a {type(value).__name__} as {self.noun}")

    def class_of(self, name: Any, at: str) -> Any:
        """Returns the class of that name."""
        known = isinstance(name, str) and name in self.classes
        return self.classes[name] if known else refuse(at, f"one of {', '.join(self.classes)}", name)

    def write(self, value: Any) -> Any:
        """Returns a value with the name of its class."""
        name, fields = {self.tag: self.name_of(value)}, to_document(value)
        return name | (fields if self.content is None else {self.content: fields})

    def read(self, document: Any, at: str) -> Any:
        """Returns the value that a document describes."""
        if type(document) is not dict or self.tag not in document:
            refuse(at, f"{self.noun}, an object with the key {self.tag}", document)
        kind = self.class_of(document[self.tag], f"{at}.{self.tag}")
        if self.content is None:
            return read(kind, {key: part for key, part in document.items() if key != self.tag}, at)
        check_keys(document, [self.tag, self.content], at)
        return read(kind, document[self.content], f"{at}.{self.content}")


class RowFamily(Family):
    """One of several classes as a row, `[name, [first, second, ...]]`: the fields in their order."""

    def write(self, value: Any) -> Any:
        """Returns the name of the class of a value, and its fields."""
        return [self.name_of(value), list(to_document(value).values())]

    def read(self, document: Any, at: str) -> Any:
        """Returns the value that a row describes."""
        name, row = read(tuple[str, tuple[Any, ...]], document, at)
        kind = self.class_of(name, f"{at}[0]")
        names = [field.name for _, field in _fields(kind)]
        if len(row) != len(names):
            refuse(f"{at}[1]", f"[{', '.join(names)}]", list(row))
        return read(kind, dict(zip(names, row, strict=True)), at)


class _NumberAsText:
    """A float as the shortest text that reads back as the same number: JSON has no infinity."""

    def write(self, value: float) -> str:
        return repr(value)

    def read(self, document: Any, at: str) -> float:
        try:
            number = float(read(str, document, at))
        except ValueError:
            number = math.nan
        return refuse(at, "a number as text", document) if math.isnan(number) else number


TextNumber = Annotated[float, _NumberAsText()]


def plain(value: Any) -> Any:
    """Returns values that JSON can hold: infinities as text, None for NaN, tuples as lists."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and not math.isfinite(number):
        return None if math.isnan(number) else str(number)
    return number
