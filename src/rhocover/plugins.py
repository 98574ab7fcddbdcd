"""What joins by an entry point: explorers and worlds of other rooms, and of other packages.

A room may use only the rooms above it. Where a high one has to hand on to a low one (an explorer by name,
an environment in the place of a model), it asks here, by the name of a group and of an entry in it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rhocover.errors import unknown_name

EXPLORERS, ADAPTERS, WORLDS = "rhocover.explorers", "rhocover.environments", "rhocover.worlds"


@cache
def members(group: str) -> dict[str, EntryPoint]:
    """Returns the entries of a group, by name."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load(group: str, name: str) -> Any:
    """Returns what the entry of that name stands for."""
    if name not in members(group):
        raise unknown_name(f"entry of {group}", name, tuple(members(group)))
    return members(group)[name].load()
