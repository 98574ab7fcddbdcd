"""A game of ladders, gaps and a key, in which most mistakes cost a life: for explorers that must come back.

The first room is modelled on a famous one. Its door opens with a key, which lies at the end of a long way:
down a ladder, over a gap that is deadly to fall into, down another ladder, over a rolling skull, up a third
one, and a jump. The rooms behind it are alike, without door and skull: who touches what lies in the place of
the key is in the next one. Who falls far, or meets the skull, is dead for some steps and then stands at the
entrance again; what was found is kept. An episode ends with the sixth life.

A step moves by 4 of 160 by 96 pixels; a jump takes six steps, in which no action does anything. With
probability 0.1 the last action is repeated. No machine is emulated, so that a million steps take seconds, and
no other package is needed.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

MAP = """\
D..................D
####..###H###..#####
.........H..........
.........H..........
.K.......H..........
.........H..........
##H...#######..####H
..H................H
..H................H
..H................H
..H................H
####################""".splitlines()
WALL, LADDER, KEY, DOOR = "#HKD"
TILE, STRIDE, FALL = 8, 4, 8  # pixels; of a tile, of a step, of a step of a fall
JUMP = (7, 5, 2, -2, -5, -7)  # pixels upward in each step of a jump
DEEP, DEAD, LIVES, STICKY = 22, 8, 6, 0.1  # pixels of a deadly fall; steps; lives; probability
FLOOR, LEFT, RIGHT, NEAR = 82, 36, 124, 6  # where the skull rolls, and what is too near
FIRST_DOOR, OTHERS = (76, 7), (12, 7)  # entrances
ACTIONS = [(0, 0, 0), (0, 0, 1), (0, -1, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (1, 0, 1), (-1, 0, 1)]


def tile(x: int, y: int) -> str:
    """Returns what a pixel shows; there are walls around the map."""
    column, row = x // TILE, y // TILE
    return MAP[row][column] if 0 <= column < len(MAP[0]) and 0 <= row < len(MAP) else WALL


def lands(x: int, y: int) -> bool:
    """Whether feet at a pixel stand on a wall."""
    return y % TILE == TILE - 1 and tile(x, y + 1) == WALL


class Platforms(gym.Env):
    """The game; an observation is room, x, y, key, steps of the jump, pixels of the fall, dying, skull."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 255, (8,), np.float64)
        self.action_space = gym.spaces.Discrete(len(ACTIONS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begins with all lives in the first room."""
        super().reset(seed=seed)
        self.room, self.key, self._lives, self._last, self._skull, self._roll = 1, 0, LIVES, 0, 100, -2
        self._enter()
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        """Moves by one step."""
        self._last = self._last if self.np_random.random() < STICKY else int(action)
        self._roll = 2 if self._skull < LEFT else -2 if self._skull > RIGHT else self._roll
        self._skull += self._roll
        if self._dying:
            self._die()
        else:
            self._move(*ACTIONS[self._last])
            self._meet()
        return self._shown(), 0.0, self._lives == 0, False, {}

    def _enter(self) -> None:
        self._x, self._y = FIRST_DOOR if self.room == 1 else OTHERS
        self._jump, self._aside, self._fallen, self._dying = -1, 0, 0, 0

    def _die(self) -> None:
        self._dying -= 1
        if self._dying == 0:
            self._lives -= 1
            self._enter()

    def _move(self, right: int, down: int, jump: int) -> None:
        x, y = self._x, self._y
        if self._jump >= 0:
            self._fly()
        elif not (lands(x, y) or LADDER in (tile(x, y), tile(x, y + 1))):
            self._fall()
        elif down and LADDER in (tile(x, y), tile(x, y + down)) and tile(x, y + STRIDE * down) != WALL:
            self._y += STRIDE * down
        elif jump:
            self._jump, self._aside = 0, STRIDE * right
        elif tile(x + STRIDE * right, y) != WALL and self._may_pass(x + STRIDE * right, y):
            self._x += STRIDE * right

    def _may_pass(self, x: int, y: int) -> bool:
        return self.key == 1 or self.room > 1 or tile(x, y) != DOOR

    def _fly(self) -> None:
        if tile(self._x + self._aside, self._y) != WALL and self._may_pass(self._x + self._aside, self._y):
            self._x += self._aside
        up = JUMP[self._jump]
        if up > 0 and tile(self._x, self._y - up) != WALL:
            self._y -= up
        self._jump += 1
        for _ in range(-up):
            if lands(self._x, self._y):
                self._jump = len(JUMP)
                break
            self._y += 1
        self._jump = -1 if self._jump == len(JUMP) else self._jump

    def _fall(self) -> None:
        for _ in range(FALL):
            if lands(self._x, self._y):
                break
            self._y += 1
            self._fallen += 1
        if lands(self._x, self._y):
            self._dying, self._fallen = DEAD if self._fallen > DEEP else 0, 0

    def _meet(self) -> None:
        """Takes what is there: the key, the door, the next room, the skull."""
        here = tile(self._x, self._y)
        if (here == DOOR and self.key and self.room == 1) or (here == KEY and self.room > 1):
            self.room, self.key = self.room + 1, 0
            self._enter()
        elif here == KEY:
            self.key = 1
        elif self.room == 1 and self._y > FLOOR and abs(self._x - self._skull) < NEAR:
            self._dying = DEAD

    def _shown(self) -> Any:
        parts = (self.room, self._x, self._y, self.key, self._jump, self._fallen, self._dying, self._skull)
        return np.array(parts, float)


def code(observation: Any) -> tuple[int, ...]:
    """Returns the room, the cell, the key, and what no action can change now: a jump, a fall, death."""
    room, x, y, key, jump, fallen, dying, _ = observation.astype(int).tolist()
    return room, x // TILE, y // TILE, key, 3 if dying else 1 if jump >= 0 else 2 if fallen else 0


def room(observation: Any) -> int:
    return int(observation[0])
