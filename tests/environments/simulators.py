"""Small stand-ins for MiniGrid, the Arcade Learning Environment and MuJoCo, so that tests need none of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Thing(SimpleNamespace):
    """An object of a grid: `type`, `color`, and for doors `is_open` and `is_locked`."""


class KeyRoom(gym.Env):
    """A row of cells with a key and a locked door; turn left, turn right, forward, pick up, drop, toggle.

    The agent begins at the left end of a row of `width` cells; the key lies in cell 2, the door is in a cell
    that the seed draws. The names are those of MiniGrid.
    """

    action_space = spaces.Discrete(7)
    height = 3

    def __init__(self, width: int = 8, *, is_drawn: bool = True) -> None:
        self.width, self._is_drawn = width, is_drawn
        self.observation_space = spaces.Dict(direction=spaces.Discrete(4), mission=spaces.Text(40))
        self.agent_pos: Any = None
        self.agent_dir, self.carrying, self.step_count = -1, None, 0
        self.grid = SimpleNamespace(grid=[])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        wall = Thing(type="wall", color="grey")
        self.row = [None] * self.width
        self.row[0] = self.row[-1] = wall
        self.row[2] = Thing(type="key", color="yellow")
        self.at_door = int(self.np_random.integers(4, self.width - 2)) if self._is_drawn else 5
        self.row[self.at_door] = Thing(type="door", color="yellow", is_open=False, is_locked=True)
        self.grid.grid = [wall] * self.width + self.row + [wall] * self.width
        self.agent_pos, self.agent_dir, self.carrying, self.step_count = (1, 1), 0, None, 0
        return self._shown(), {}

    def _shown(self):
        return {"direction": self.agent_dir, "mission": "open the door"}

    def step(self, action):
        self.step_count += 1
        x = self.agent_pos[0]
        ahead = x + {0: 1, 2: -1}.get(self.agent_dir, 0)
        thing = self.row[ahead] if ahead != x else Thing(type="wall", color="grey")
        is_door = thing is not None and thing.type == "door"
        if action in (0, 1):
            self.agent_dir = (self.agent_dir + (1 if action else -1)) % 4
        elif action == 2 and (thing is None or (is_door and thing.is_open)):
            self.agent_pos = (ahead, 1)
        elif action == 3 and thing is not None and thing.type == "key":
            self.carrying, self.row[ahead] = thing, None
        elif action == 5 and is_door and (self.carrying is not None or not thing.is_locked):
            thing.is_locked, thing.is_open = False, not thing.is_open
        self.grid.grid[self.width : 2 * self.width] = self.row
        return self._shown(), 0.0, False, self.step_count >= 100, {}


class Console(gym.Env):
    """A game of 128 bytes: the player moves by 16 pixels in rooms that are 160 pixels wide; byte 65 is a key."""

    observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = spaces.Discrete(3)  # left, right, grab

    def __init__(self) -> None:
        self.step_count = 0
        self.ale = SimpleNamespace(getRAM=lambda: self.ram.copy())
        self.ram = np.zeros(128, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ram[:], self.step_count = 0, 0
        self.ram[[3, 42, 43]] = 1, 80, 148
        return np.zeros((4, 4, 3), np.uint8), {}

    def step(self, action):
        self.step_count += 1
        x = int(self.ram[42]) + (-16, 16, 0)[action]
        if not 0 <= x < 160:
            room = int(self.ram[3]) + (1 if x > 0 else -1)
            x, self.ram[3] = (x % 160, room) if 0 <= room <= 2 else (min(max(x, 0), 144), self.ram[3])
        self.ram[42] = x
        if action == 2 and self.ram[3] == 2:
            self.ram[65] = 2
        return np.zeros((4, 4, 3), np.uint8), 0.0, False, self.step_count >= 60, {}


class Slider(gym.Env):
    """A point in the plane with a hinge: `data.qpos` has x, y and an angle."""

    observation_space = spaces.Box(-np.inf, np.inf, (5,))
    action_space = spaces.Discrete(4)

    def __init__(self) -> None:
        self.data = SimpleNamespace(qpos=np.zeros(3))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.data.qpos[:] = 0
        return np.zeros(5, np.float32), {}

    def step(self, action):
        move = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[action] * 0.1
        self.data.qpos[:2] = np.clip(self.data.qpos[:2] + move, -0.5, 0.5)
        self.data.qpos[2] += 0.01
        return np.zeros(5, np.float32), 0.0, False, False, {}
