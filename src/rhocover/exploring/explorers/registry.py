"""Explorers by name, and as documents that can be stored in a file.

The command line, `explore` and result files use names; an explorer object is a name with settings. Both are
written as a document {"name": ..., "settings": ...} and read back unchanged.

Other packages register explorers with an entry point of the group `rhocover.explorers` that names a class
whose settings can be stored in a document; the methods of `rhocover.baselines` are registered in this way.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import EntryPoint
from typing import Any

from rhocover.documents import Family, from_document
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.explorers import Explorer
from rhocover.exploring.explorers.algorithm1 import Algorithm1, Constant, LineSearch
from rhocover.exploring.explorers.feedback import Feedback
from rhocover.exploring.explorers.stationary import Stationary
from rhocover.exploring.explorers.tracking import Tracking
from rhocover.plugins import EXPLORERS, members

CLASSES: dict[str, type] = {
    "feedback": Feedback, "tracking": Tracking, "stationary": Stationary, "algorithm1": Algorithm1,
}  # fmt: skip
VARIANTS = {
    "algorithm1_short": Algorithm1(schedule=Constant(50)),
    "algorithm1_adaptive": Algorithm1(schedule=LineSearch()),
}


def plugins() -> dict[str, EntryPoint]:
    """Returns the explorers that other packages registered, by name."""
    return members(EXPLORERS)


def explorer_names() -> tuple[str, ...]:
    """Returns the names that `explore` accepts."""
    return (*CLASSES, *VARIANTS, *plugins())


def make_explorer(explorer: Any, schedule: Any = None) -> Explorer:
    """Returns the explorer of that name, or the object itself; `schedule` is for Algorithm 1."""
    if isinstance(explorer, str):
        explorer = _named(explorer)
    missing = [part for part in ("init", "policy", "update") if not callable(getattr(explorer, part, None))]
    if missing or isinstance(explorer, type):
        raise InvalidArgumentError.of(
            "explorer",
            "must be a name or an object with init, policy and update",
            f"{_shown(explorer)}",
            remedy=f"Names: {', '.join(explorer_names())}.",
        )
    if schedule is None:
        return explorer
    if not isinstance(explorer, Algorithm1):
        raise InvalidArgumentError.of(
            "schedule",
            f"is for Algorithm 1 only: {explorer_name(explorer)!r} chooses its own blocks",
            remedy="Leave it out.",
        )
    return dataclasses.replace(explorer, schedule=schedule)


def _shown(explorer: Any) -> str:
    if isinstance(explorer, type):
        return f"the class {explorer.__name__}; write {explorer.__name__}()"
    return type(explorer).__name__


def _named(name: str) -> Any:
    if name in VARIANTS:
        return VARIANTS[name]
    return _class(name)()


def _class(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    if name in plugins():
        return plugins()[name].load()
    raise unknown_name("explorer", name, explorer_names())


def _name_of_class(kind: type) -> str | None:
    """Returns the registry's name of a class; None if it has none."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    known = {known: name for name, known in CLASSES.items()}
    return known.get(kind) or next((n for n, point in plugins().items() if point.value == place), None)


def explorer_name(explorer: Any) -> str:
    """Returns the registry's name of an explorer, or that of its class."""
    variants = (name for name, variant in VARIANTS.items() if variant == explorer)
    return next(variants, None) or _name_of_class(type(explorer)) or type(explorer).__name__


class _Explorers(Family):
    """Explorers by name; registered ones are loaded when they are needed."""

    def name_of(self, value: Any) -> str:
        """Returns the registry's name of the class of an explorer."""
        return _name_of_class(type(value)) or super().name_of(value)

    def class_of(self, name: Any, at: str) -> Any:
        """Returns the class of that name, if it is a dataclass: others have no settings to read."""
        kind = _class(name) if name in (*CLASSES, *plugins()) else None
        return kind if dataclasses.is_dataclass(kind) else super().class_of(None, at)


EXPLORER = _Explorers("an explorer", CLASSES)


def explorer_document(explorer: Any) -> dict[str, Any] | None:
    """Returns an explorer as a document; None if it, or a setting, is not registered."""
    try:
        return EXPLORER.write(explorer)
    except TypeError:
        return None


def explorer_from_document(document: Any) -> Any:
    """Returns the explorer that a document describes."""
    return from_document(EXPLORER, document, "the explorer")
