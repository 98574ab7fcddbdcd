"""Positions of the states of a model, for drawings of occupancies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from rhocover.checks import FloatArray, any_array, float_array, frozen
from rhocover.documents import read, refuse
from rhocover.errors import InvalidArgumentError


class _OpenEnds:
    """Edges in a document: open ends are null."""

    def write(self, edges: tuple[float, ...]) -> list[float | None]:
        return [edge if math.isfinite(edge) else None for edge in edges]

    def read(self, document: Any, at: str) -> tuple[float, ...]:
        if not isinstance(document, list) or len(document) < 2:
            refuse(at, "a list of two numbers or more", document)
        low, *inner, high = document
        whole = [-math.inf if low is None else low, *inner, math.inf if high is None else high]
        return tuple(map(float, read(tuple[float, ...], whole, at)))


@dataclass(frozen=True)
class Ruler:
    """The scale along one side of a grid of cells: a name, and the n + 1 increasing edges of the n cells.

    The first edge is -inf and the last is inf if the outer cells are open.
    """

    name: str
    edges: Annotated[tuple[float, ...], _OpenEnds()]


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions `[S, 2]` (x to the right, y down, cells of side 1) and action directions `[A, 2]`.

    An action whose direction is (0, 0), or a layout without directions, is drawn as a bar of the cell;
    the four compass directions are drawn as the four triangles of the cell. `rulers` are the scales of a
    grid of cells: to the right, where cell k is at x = k, and up, where cell k of n is at y = n - 1 - k.
    """

    positions: FloatArray
    directions: FloatArray | None = None
    rulers: tuple[Ruler, ...] = ()

    def __post_init__(self) -> None:
        positions = float_array(self.positions, "positions", (None, 2))
        object.__setattr__(self, "positions", frozen(positions.copy()))
        if self.directions is not None:
            directions = float_array(self.directions, "directions", (None, 2))
            object.__setattr__(self, "directions", frozen(directions.copy()))

    def subset(self, states: Any) -> Layout:
        """Returns the layout of the kept states, in the order given."""
        states = any_array(states, "states")
        if states.ndim != 1 or states.dtype.kind not in "iub":
            raise InvalidArgumentError.of(
                "states", "must be a list of state numbers, or a boolean array that marks those to keep"
            )
        try:
            return Layout(self.positions[states], self.directions, self.rulers)
        except IndexError as error:
            raise InvalidArgumentError.of("states", f"must be states of the layout: {error}") from error


def line(num_states: int, directions: Any = None) -> Layout:
    """Returns a layout of states on a line."""
    x = np.arange(num_states, dtype=float)
    return Layout(np.stack([x, np.zeros_like(x)], axis=1), directions)


def rectangle(num_rows: int, num_columns: int, directions: Any = None) -> Layout:
    """Returns a layout of states on a grid of cells, row by row."""
    y, x = np.divmod(np.arange(num_rows * num_columns), num_columns)
    return Layout(np.stack([x, y], axis=1).astype(float), directions)


def circle(num_states: int, radius: float | None = None, centre: bool = False) -> Layout:
    """Returns a layout of states on a circle, the first at the top; with `centre`, state 0 is the centre."""
    ring = num_states - 1 if centre else num_states
    radius = max(1.5, 0.3 * ring) if radius is None else radius
    angle = 2 * np.pi * np.arange(ring) / max(ring, 1)
    points = radius * np.stack([np.sin(angle), -np.cos(angle)], axis=1)
    return Layout(np.vstack([np.zeros((1, 2)), points]) if centre else points)
