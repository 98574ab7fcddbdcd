"""Entry points: explorers, worlds and views of results that other packages register.

A package of this library imports only the packages before it in the order of `tests/test_project.py`. Where
it needs something of a later package (an explorer by name, an environment instead of a model, a picture of a
result), it loads it here, by the names of a group and of an entry point.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rhocover.errors import unknown_name

EXPLORERS, ADAPTERS, WORLDS = "rhocover.explorers", "rhocover.environments", "rhocover.worlds"
VIEWS = "rhocover.views"


@cache
def members(group: str) -> dict[str, EntryPoint]:
    """Returns the entries of a group, by name."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load(group: str, name: str) -> Any:
    """Returns the object that the entry of that name refers to."""
    if name not in members(group):
        raise unknown_name(f"entry of {group}", name, tuple(members(group)))
    return members(group)[name].load()
