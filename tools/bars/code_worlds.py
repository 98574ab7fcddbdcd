"""The worlds of the bar `codes`: mazes, PointMaze, MiniGrid, a game of platforms, Montezuma's Revenge.

A world says how it is made, how its observations are coded, which held-out cells are counted, and how many
of those can be reached (None where nobody knows). Every explorer sees the same observations and chooses among
the same actions.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import rhocover as rc
from tools.bars import platforms

ROOT = Path(__file__).resolve().parents[2]
REACHABLE = Path("out/bars/reachable.json")


@dataclass(frozen=True, eq=False)
class World:
    """An environment with its codes. `make` makes it, `reachable` returns how many held-out cells it has.

    With `repeat`, every explorer holds each action for so many steps; all of them count, but observations in
    between are not seen.
    """

    make: Callable[[], gym.Env]
    states: Any
    held_out: Any
    reachable: Callable[[], int | None]
    num_steps: int
    others: tuple[str, ...]
    actions: Any = None
    repeat: int = 1


# A snake maze.


def mazes() -> Any:
    """Returns the module of the mazes in the tests."""
    sys.path.append(str(ROOT / "tests" / "collecting"))
    return __import__("mazes")


POSITIONS: dict[bytes, tuple[int, int]] = {}  # fine cells by the features that they were shown as


class Noting(gym.ObservationWrapper):
    """Notes the position behind each observation, for the held-out code alone."""

    def observation(self, observation: Any) -> Any:
        """Returns the observation as it is."""
        POSITIONS[observation.tobytes()] = fine_cell(self.env.unwrapped._at)  # type: ignore[attr-defined]
        return observation


def maze(size: int, embedding: int = 0) -> gym.Env:
    """Returns a snake maze that shows positions, or this many opaque features."""
    found = mazes()
    return Noting(found.Maze(found.snake(size), embedding))


def fine_cell(observation: Any) -> tuple[int, int]:
    """Returns the fine cell of a position."""
    return int(2 * observation[0]), int(2 * observation[1])


def noted_cell(observation: Any) -> tuple[int, int]:
    """Returns the fine cell of the position behind an observation."""
    return POSITIONS[observation.tobytes()]


def maze_world(size: int, embedding: int = 0) -> World:
    """Returns the maze with an untuned net, against PPO with three rewards."""
    found = mazes()
    cells = int(np.count_nonzero(~found.snake(size))) * found.FINE**2
    return World(partial(maze, size, embedding), rc.Net(), noted_cell, lambda: cells, 51_200, PPO)


# PointMaze.


def point_maze(**arguments: Any) -> gym.Env:
    import gymnasium_robotics

    gym.register_envs(gymnasium_robotics)
    return gym.make("PointMaze_Large-v3", **arguments)


class FromCorner(gym.Wrapper):
    """Every episode begins in the same corner, with the goal in the opposite one."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Resets to the corner."""
        corners = {"reset_cell": np.array([1, 1]), "goal_cell": np.array([7, 10])}
        return self.env.reset(seed=seed, options=corners)


class Held(gym.Wrapper):
    """Takes each action ten times."""

    STEPS = 10

    def step(self, action: Any) -> Any:
        """Steps the environment, until an episode ends."""
        for _ in range(self.STEPS):
            result = self.env.step(action)
            if result[2] or result[3]:
                break
        return result


def point_maze_from_corner() -> gym.Env:
    """Returns the maze with a fixed start."""
    return FromCorner(point_maze())


def point_world(make: Callable[[], gym.Env], repeat: int = 1) -> World:
    """Returns a PointMaze with a net over positions, against PPO with two rewards."""
    net = rc.Net(of="achieved_goal", rollout_steps=1_000 // repeat)
    made = make if repeat == 1 else lambda: Held(make())
    return World(made, net, half_unit, half_units, 50_000, ("ppo_rnd", "ppo_coverage"), 3, repeat)


def half_unit(observation: Any) -> tuple[int, int]:
    """Returns the half-unit cell of a position in the maze of 9 by 12, whose centre is the origin."""
    x, y = observation["achieved_goal"]
    return int(np.floor(2 * (x + 6))), int(np.floor(2 * (y + 4.5)))


def half_units() -> int:
    env = point_maze()
    walls = np.array(env.unwrapped.maze.maze_map, object) == 1  # type: ignore[attr-defined]
    env.close()
    return 4 * int(np.count_nonzero(~walls))


# MiniGrid: position, direction, what is carried, and the state of the door.


class FixedGrid(gym.Wrapper):
    """MiniGrid with one layout, shown as five numbers."""

    SEED = 0

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 32, (5,), np.float64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Resets to the one layout."""
        _, info = self.env.reset(seed=self.SEED, options=options)
        return self._shown(), info

    def step(self, action: Any) -> Any:
        """Steps the environment."""
        _, *rest = self.env.step(action)
        return self._shown(), *rest

    def _shown(self) -> Any:
        return np.array(grid_state(self.env.unwrapped), float)


def grid_state(env: Any) -> tuple[int, ...]:
    """Returns x, y, direction, whether something is carried, and the door: 0 locked, 1 closed, 2 open."""
    doors = [cell for cell in env.grid.grid if cell is not None and cell.type == "door"]
    door = 0 if not doors or doors[0].is_locked else 2 if doors[0].is_open else 1
    x, y = (int(number) for number in env.agent_pos)
    return x, y, int(env.agent_dir), int(env.carrying is not None), door


def as_tuple(observation: Any) -> tuple[int, ...]:
    return tuple(int(number) for number in observation)


def grid(name: str) -> gym.Env:
    import minigrid  # noqa: F401  # registers the environments

    return FixedGrid(gym.make(f"MiniGrid-{name}-v0"))


def four_rooms() -> gym.Env:
    return grid("FourRooms")


def door_key() -> gym.Env:
    return grid("DoorKey-8x8")


def grid_states(make: Callable[[], gym.Env]) -> int:
    """Returns how many codes can be reached, by a search through the full state; kept in a file."""
    known = json.loads(REACHABLE.read_text()) if REACHABLE.exists() else {}
    name = make.__name__
    if name not in known:
        known[name] = _search(make)
        REACHABLE.parent.mkdir(parents=True, exist_ok=True)
        REACHABLE.write_text(json.dumps(known))
    return known[name]


def _search(make: Callable[[], gym.Env]) -> int:
    first = make()
    first.reset()
    waiting: list[Any] = [first.unwrapped]
    codes, seen = {grid_state(waiting[0])}, {_full(waiting[0])}
    while waiting:
        here = waiting.pop()
        for action in range(6):  # the seventh does nothing
            there = copy.deepcopy(here)
            there.step_count = 0
            ended = there.step(action)[2]
            codes.add(grid_state(there))
            if not ended and (full := _full(there)) not in seen:
                seen.add(full)
                waiting.append(there)
    return len(codes)


def _full(env: Any) -> tuple[Any, ...]:
    return *grid_state(env), env.grid.encode().tobytes()


# Rooms behind keys: a game of platforms, and Montezuma's Revenge from the memory of the console.

ROOM, X, Y, CARRIED = 3, 42, 43, 65  # bytes of the memory
DYING, JUMPING, FALLING = 55, 86, 88  # steps left, left (255: none) and so far
EIGHT = [0, 1, 2, 3, 4, 5, 11, 12]  # nothing, jump, up, right, left, down, jump to the right, to the left
HOLD = 4  # steps


def platforms_held() -> gym.Env:
    return rc.RepeatAction(platforms.Platforms(), HOLD)


def montezuma() -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    return gym.make("ALE/MontezumaRevenge-v5", obs_type="ram")


def montezuma_held() -> gym.Env:
    return rc.RepeatAction(montezuma(), HOLD)


def memory_code(observation: Any) -> tuple[int, ...]:
    """Returns the room, the cell of 8 by 8 pixels, what is carried, and what no action can change now.

    Who jumps, falls or dies goes on doing so: without that, one cell is several states.
    """
    room, x, y, carried = (int(observation[k]) for k in (ROOM, X, Y, CARRIED))
    dying, jumping, falling = (int(observation[k]) for k in (DYING, JUMPING, FALLING))
    return room, x // 8, y // 8, carried, 3 if dying else 1 if jumping != 255 else 2 if falling else 0


def room(observation: Any) -> int:
    return int(observation[ROOM])


PPO = ("ppo_rnd", "ppo_apt", "ppo_counts")
GRID_OTHERS = (*PPO, "counts", "uniform_random")  # a table can be learned there: also Q-learning with counts
WORLDS = {
    "maze": maze_world(15), "embedded": maze_world(15, 32),
    "maze17": maze_world(17), "embedded17": maze_world(17, 32),
    "maze19": maze_world(19), "embedded19": maze_world(19, 32),
    "pointmaze": point_world(point_maze), "pointmaze_corner": point_world(point_maze_from_corner),
    "pointmaze_held": point_world(point_maze, Held.STEPS),
    "pointmaze_corner_held": point_world(point_maze_from_corner, Held.STEPS),
    "four_rooms": World(
        four_rooms, as_tuple, as_tuple, lambda: grid_states(four_rooms), 100_000, GRID_OTHERS
    ),
    "door_key": World(
        door_key, as_tuple, as_tuple, lambda: grid_states(door_key), 200_000, GRID_OTHERS
    ),
    "platforms": World(
        platforms_held, platforms.code, platforms.room, lambda: None, 300_000, ("ppo_rnd",), None, HOLD
    ),
    "montezuma": World(montezuma, memory_code, room, lambda: None, 1_000_000, ("ppo_rnd",)),
    "montezuma_held": World(
        montezuma_held, memory_code, room, lambda: None, 1_000_000, ("ppo_rnd",), EIGHT, HOLD
    ),
}  # fmt: skip
