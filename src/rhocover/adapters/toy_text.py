"""What the states and actions of Gymnasium's tabular environments are called, and where they lie.

FrozenLake and CliffWalking are maps of cells in reading order. A state of Taxi is a cell, where the
passenger is and where it wants to go: its picture is a map for each pair of those, the passenger's place
from left to right and the destination from top to bottom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover.layout import Layout, rectangle

LEFT, DOWN, RIGHT, UP, STILL = (-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)  # (x, y), y points down


@dataclass(frozen=True, eq=False)
class Picture:
    """Names of all states and actions of an environment, and where to draw them; None where unknown."""

    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None
    layout: Layout | None = None


def picture(env: Any) -> Picture:
    """Returns what is known of an environment's looks, by its number of a state; nothing of a foreign one."""
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    inner = env.unwrapped
    if isinstance(inner, FrozenLakeEnv):
        num_rows, num_columns = inner.desc.shape
        return _map(num_rows, num_columns, {"left": LEFT, "down": DOWN, "right": RIGHT, "up": UP})
    if isinstance(inner, CliffWalkingEnv):
        return _map(*inner.shape, {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT})
    if isinstance(inner, TaxiEnv):
        return _taxi()
    return Picture()


def _map(num_rows: int, num_columns: int, moves: dict[str, tuple[int, int]]) -> Picture:
    labels = tuple(f"r{row}c{column}" for row in range(num_rows) for column in range(num_columns))
    return Picture(
        labels, tuple(moves), rectangle(num_rows, num_columns, np.array(list(moves.values()), float))
    )


def _taxi() -> Picture:
    row, column, passenger, destination = np.unravel_index(np.arange(500), (5, 5, 5, 4))
    places = ("at R", "at G", "at Y", "at B", "aboard")
    labels = tuple(
        f"r{r}c{c} {places[p]} to {'RGYB'[d]}"
        for r, c, p, d in zip(row, column, passenger, destination, strict=True)
    )
    moves = {"south": DOWN, "north": UP, "east": RIGHT, "west": LEFT, "pick up": STILL, "drop off": STILL}
    positions = np.stack([6 * passenger + column, 6 * destination + row], axis=1).astype(float)
    return Picture(labels, tuple(moves), Layout(positions, np.array(list(moves.values()), float)))
