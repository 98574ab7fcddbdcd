"""Where each pair of a model is painted: every state is a cell of side 1, divided among its actions.

Actions that point in different compass directions divide the cell by direction: two opposite ones take
the two halves, otherwise each takes the triangle on its side. Actions without a direction are stacked
as bars, the first on top. A model without a layout has no map but a list (`ranked`).
Only geometry here, x to the right and y down; colours are another file's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhocover.checks import FloatArray
from rhocover.errors import InvalidArgumentError
from rhocover.layout import Ruler
from rhocover.mdp import MDP

HALF = 0.5
SQUARE = HALF * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
COMPASS = {(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)}


@dataclass(frozen=True, eq=False)
class Cells:
    """A model on paper: positions `[S, 2]`, one polygon per action `[A, k, 2]` around the origin."""

    positions: FloatArray
    shapes: FloatArray
    directions: FloatArray | None
    rulers: tuple[Ruler, ...] = ()

    @property
    def is_lattice(self) -> bool:
        """Whether every state sits on whole coordinates, so that rows and columns mean something."""
        return bool((self.positions == np.round(self.positions)).all())

    @property
    def low(self) -> FloatArray:
        """The corner (x, y) of the box around all cells that is nearest to minus infinity."""
        return self.positions.min(axis=0) - HALF

    @property
    def high(self) -> FloatArray:
        """The opposite corner."""
        return self.positions.max(axis=0) + HALF

    @property
    def is_strip(self) -> bool:
        """Whether all states lie in one row; a strip may be stretched without loss."""
        return bool(np.ptp(self.positions[:, 1]) == 0 and len(self.positions) > 1)

    @property
    def has_room_below(self) -> bool:
        """Whether a line of text fits under every cell without touching another."""
        dx, dy = (self.positions[:, None] - self.positions[None]).T
        return not ((np.abs(dx) < 1) & (dy > 0) & (dy < 1.4)).any()

    def squares(self, states: np.ndarray) -> FloatArray:
        """Returns the outlines of these cells, `[len(states), 4, 2]`."""
        return self.positions[states][:, None, :] + SQUARE

    def polygons(self, states: np.ndarray, actions: np.ndarray) -> FloatArray:
        """Returns the polygon of each pair, `[n, k, 2]`."""
        return self.positions[states][:, None, :] + self.shapes[actions]

    def image(self, values: FloatArray) -> FloatArray:
        """Returns values per state as rows and columns of a lattice; places without a state hold NaN."""
        column, row = np.round(self.positions - self.positions.min(axis=0)).astype(np.int64).T
        result = np.full((row.max() + 1, column.max() + 1), np.nan)
        result[row, column] = values
        return result


def cells_of(mdp: MDP) -> Cells:
    """Returns where the states and pairs of a model with a layout are painted."""
    layout = mdp.layout
    if layout is None:
        raise InvalidArgumentError("`mdp` has no layout, so there is no map of it: pass layout=Layout(...).")
    directions = layout.directions
    if directions is not None and _is_compass(directions):
        return Cells(layout.positions, _by_direction(directions), directions, layout.rulers)
    return Cells(layout.positions, _bars(mdp.num_actions), None, layout.rulers)


def _is_compass(directions: FloatArray) -> bool:
    points = [(float(x), float(y)) for x, y in directions]
    return set(points) <= COMPASS and len(set(points)) == len(points)


def _by_direction(directions: FloatArray) -> FloatArray:
    are_opposite = len(directions) == 2 and not directions.sum(axis=0).any()
    return np.stack([_half(d) if are_opposite else _triangle(d) for d in directions])


def _half(direction: FloatArray) -> FloatArray:
    """Returns the half of the cell on the side of `direction`, `[4, 2]`."""
    across = HALF * direction[::-1]
    side = HALF * direction
    return np.stack([across, side + across, side - across, -across])


def _triangle(direction: FloatArray) -> FloatArray:
    """Returns the triangle from the middle of the cell to the side of `direction`, `[3, 2]`."""
    across = HALF * direction[::-1]
    side = HALF * direction
    return np.stack([np.zeros(2), side + across, side - across])


def _bars(num_actions: int) -> FloatArray:
    """Returns horizontal slices of the cell from top to bottom, `[A, 4, 2]`."""
    edges = np.linspace(-HALF, HALF, num_actions + 1)
    top, bottom = edges[:-1], edges[1:]
    left, right = np.full(num_actions, -HALF), np.full(num_actions, HALF)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
