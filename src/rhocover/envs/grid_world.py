"""Worlds of square cells: four moves, a slip onto another neighbour, walls that cannot be passed.

One rule for every map of free cells. A move goes where it points with probability `success`; the rest
is shared equally by the *other* free neighbours of the cell. A move that points at a wall or off the
map stays (again with `success`). A cell without another free neighbour has nowhere to slip, so there
the intended outcome is certain. If the free cells hang together the model is communicating, for
every `success` in [0, 1].
"""

from __future__ import annotations

import numpy as np

from rhocover import checks
from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.envs.outcomes import Outcome, outcome_matrix
from rhocover.layout import Layout
from rhocover.mdp import MDP

MOVES = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}  # (x, y), y points down
DIRECTIONS = np.array(list(MOVES.values()), float)


def grid_world(*, num_rows: int = 10, num_columns: int | None = None, success: float = 0.9) -> MDP:
    """Returns a GridWorld: an open rectangle of cells with the moves up, right, down, left.

    A move works with probability `success`, the rest goes in equal parts to the other neighbours of
    the cell; into a wall = stay; a cell with no other neighbour keeps all mass on the intended
    outcome. `num_columns=None` makes a square. States are in reading order. Starts in the middle,
    row num_rows // 2 and column num_columns // 2. Communicating.
    """
    num_rows = checks.size(num_rows, "num_rows", least=1)
    num_columns = num_rows if num_columns is None else num_columns
    num_columns = checks.size(num_columns, "num_columns", least=1)
    free = np.ones((num_rows, num_columns), bool)
    return cell_world(free, success, start=(num_rows // 2, num_columns // 2), name="grid_world")


def cell_world(free: BoolArray, success: float, *, start: tuple[int, int], name: str) -> MDP:
    """Returns the world of the cells marked in `free[row, column]`, in reading order."""
    success = checks.probability(success, "success")
    rows, columns = np.nonzero(free)
    number = np.full(free.shape, -1)
    number[rows, columns] = np.arange(rows.size)
    targets = _targets(number, rows, columns)
    return MDP(
        outcome_matrix(rows.size, 4, _slippery_moves(targets, success)),
        num_actions=4,
        start=int(number[start]),
        state_labels=[f"r{r}c{c}" for r, c in zip(rows.tolist(), columns.tolist(), strict=True)],
        action_labels=tuple(MOVES),
        layout=Layout(np.stack([columns, rows], axis=1).astype(float), DIRECTIONS),
        name=name,
    )


def _targets(number: IntArray, rows: IntArray, columns: IntArray) -> IntArray:
    """Returns where each move leads, `[4, S]`; a blocked move leads to the cell itself."""
    framed = np.pad(number, 1, constant_values=-1)
    here = number[rows, columns]
    there = np.stack([framed[rows + 1 + dy, columns + 1 + dx] for dx, dy in MOVES.values()])
    return np.where(there >= 0, there, here)


def _slippery_moves(targets: IntArray, success: float) -> list[Outcome]:
    states = np.arange(targets.shape[1])
    is_open = targets != states
    outcomes: list[Outcome] = []
    for action, target in enumerate(targets):
        others = [b for b in range(4) if b != action]
        num_others = is_open[others].sum(axis=0)
        slip = (1 - success) / np.maximum(num_others, 1)
        outcomes.append((states, action, target, np.where(num_others > 0, success, 1.0)))
        outcomes += [_slip(targets[b], is_open[b], action, slip) for b in others]
    return outcomes


def _slip(target: IntArray, is_open: BoolArray, action: int, probability: FloatArray) -> Outcome:
    return np.flatnonzero(is_open), action, target[is_open], probability[is_open]
