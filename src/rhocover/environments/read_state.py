"""What a simulator itself knows, as the observation: `ReadState(env, what)`.

Pixels and partial views are poor states; the simulator behind them has better ones. `what` is

| what | observation |
|---|---|
| minigrid | column, row, direction, type and colour of the carried object, doors |
| ram | the 128 bytes of an Atari game |
| ram:montezuma_revenge, ... | level, room, cell of the player (16 by 16 pixels), what the player carries |
| positions | the first two coordinates of a MuJoCo model, x and y |
| joints | all coordinates of a MuJoCo model |
| a function | what it returns for `env.unwrapped`: a number, or an array of them |

Whole numbers, except for the raw bytes, are states as they are and need no `states`; real numbers need a code
such as `rc.Net()`.

MiniGrid draws a new level at every reset, and Procgen and others do the same. Codes of different levels have
the same names, so a run would mix them. `level=7` resets with the seed 7 every time: always the same level,
and in it the same random numbers. Objects that lie around are not read: where a dropped key is, is not part
of the state, so leave `drop` out if that matters (`actions=[0, 1, 2, 3, 5]`).

Which bytes of a game's memory mean what is public knowledge (for example, the Atari Annotated RAM Interface
of Anand et al. 2019); cells of 16 pixels are those of Go-Explore (Ecoffet et al. 2021). No simulator is
imported here: it is used through the environment alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from rhocover import checks
from rhocover.environments.encoding.base import function_name
from rhocover.errors import InvalidArgumentError, RhocoverWarning, shortened, unknown_name

Read = Callable[[Any], Any]  # of `env.unwrapped`, so that a copy of the wrapper reads its own simulator

WIDEST = 2**31  # a function's whole numbers lie between minus this and this


# MiniGrid: https://minigrid.farama.org. Its objects have a `type` and a `color`, doors can be open or locked.

KINDS = ("wall", "floor", "door", "key", "ball", "box", "goal", "lava")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
MOST_DOORS = 20  # 3^20 states of all doors


def _minigrid(env: Any, level: int | None) -> tuple[Any, Read]:
    """Returns the space and the reader of a MiniGrid level; one that is fixed is made to count its doors."""
    inner = env.unwrapped
    _need(inner, ("agent_pos", "agent_dir", "carrying", "grid", "width", "height"), "minigrid", "a MiniGrid")
    doors = MOST_DOORS
    if level is not None:
        env.reset(seed=level)
        doors = len(_doors(inner.grid))
    counts = [inner.width, inner.height, 4, len(KINDS) + 1, len(COLOURS) + 1, 3**doors]

    def read(inner: Any) -> list[int]:
        x, y = inner.agent_pos
        held = inner.carrying
        carried = [0, 0] if held is None else [_place(KINDS, held.type), _place(COLOURS, held.color)]
        return [int(x), int(y), int(inner.agent_dir), *carried, _number(_doors(inner.grid))]

    return spaces.MultiDiscrete(counts), read


def _place(names: tuple[str, ...], name: str) -> int:
    return 1 + names.index(name) if name in names else len(names)


def _doors(grid: Any) -> list[int]:
    """Returns the states of all doors, in reading order: 0 closed, 1 open, 2 locked."""
    doors = [thing for thing in grid.grid if thing is not None and thing.type == "door"]
    if len(doors) > MOST_DOORS:
        raise InvalidArgumentError.of("what", f"reads at most {MOST_DOORS} doors", f"{len(doors)} in a level")
    return [1 if door.is_open else 2 if door.is_locked else 0 for door in doors]


def _number(digits: list[int]) -> int:
    """Returns numbers below 3 as the digits of one number."""
    return sum(3**place * digit for place, digit in enumerate(digits))


def _drawing(env: Any) -> Any:
    """Returns the objects of a level, to compare it with the next one; None for other worlds."""
    grid = getattr(getattr(env.unwrapped, "grid", None), "grid", None)
    return None if grid is None else [thing and (thing.type, thing.color) for thing in grid]


# Atari, through the environment's own `ale`.


class Game(NamedTuple):
    """Places of bytes in the memory of a game; `other` are level and inventory."""

    room: int
    x: int
    y: int
    other: tuple[int, ...] = ()


GAMES = {
    "montezuma_revenge": Game(3, 42, 43, (57, 65)),
    "private_eye": Game(92, 63, 86),
    "hero": Game(28, 27, 31, (117,)),
    "venture": Game(90, 85, 26),
}
RAM = "ram"
CELL = 16  # pixels


def _ram(env: Any) -> tuple[Any, Read]:
    """Returns the space and the reader of all bytes."""
    return spaces.Box(0, 255, (128,), np.uint8), _memory(env)


def _memory(env: Any) -> Read:
    _need(env.unwrapped, ("ale",), RAM, "an Atari")
    return lambda inner: inner.ale.getRAM()


def _game(env: Any, name: str) -> tuple[Any, Read]:
    """Returns the space and the reader of a game whose memory is known."""
    if name not in GAMES:
        raise unknown_name("game", name, tuple(GAMES), argument="what")
    game, memory = GAMES[name], _memory(env)

    def read(inner: Any) -> list[int]:
        ram = memory(inner)
        cell = [int(ram[game.x]) // CELL, int(ram[game.y]) // CELL]
        return [int(ram[game.room]), *cell, *(int(ram[place]) for place in game.other)]

    return spaces.MultiDiscrete([256, 256 // CELL, 256 // CELL] + [256] * len(game.other)), read


# MuJoCo.


def _coordinates(env: Any, what: str, number: int | None) -> tuple[Any, Read]:
    """Returns the space and the reader of the first coordinates of a MuJoCo model, None for all of them."""
    found = _mujoco(env.unwrapped)
    _need(found, ("data",), what, "a MuJoCo")
    size = found.data.qpos[:number].size
    space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
    return space, lambda inner: _mujoco(inner).data.qpos[:number]


def _mujoco(inner: Any) -> Any:
    """Returns the simulator, or the part of it, that has coordinates; itself if there is none."""
    if hasattr(getattr(inner, "data", None), "qpos"):
        return inner
    parts = (getattr(part, "unwrapped", None) for part in vars(inner).values())
    return next((part for part in parts if hasattr(getattr(part, "data", None), "qpos")), inner)


# A function of the simulator.


def _asked(env: Any, function: Callable[[Any], Any], level: int | None) -> tuple[Any, Read]:
    """Returns the space and the reader of a user's function; the environment is reset to try it."""
    inner = env.unwrapped
    env.reset(seed=level)
    try:
        example = np.asarray(function(inner))
    except Exception as error:
        name, said = function_name(function), f"{type(error).__name__}: {error}"
        raise InvalidArgumentError.of(
            "what", f": `{name}` failed on {type(inner).__name__}: {said}"
        ) from error
    if example.dtype.kind not in "biuf" or example.size == 0:
        raise InvalidArgumentError.of(
            "what", "must return a number or an array of numbers", shortened(repr(example))
        )
    if example.dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, (example.size,), np.float64), function
    size = example.size
    return spaces.MultiDiscrete([2 * WIDEST] * size, start=[-WIDEST] * size), function


NAMES = ("minigrid", RAM, "positions", "joints", *(f"{RAM}:{name}" for name in GAMES))


def _reader(env: Any, what: Any, level: int | None) -> tuple[Any, Read]:
    """Returns the observation space and the function that reads an observation."""
    if callable(what):
        return _asked(env, what, level)
    if not isinstance(what, str):
        raise unknown_name("choice of `what`", what, NAMES, argument="what")
    if what == "minigrid":
        return _minigrid(env, level)
    if what == RAM:
        return _ram(env)
    if what in ("positions", "joints"):
        return _coordinates(env, what, 2 if what == "positions" else None)
    if what.startswith(f"{RAM}:"):
        return _game(env, what.removeprefix(f"{RAM}:"))
    raise unknown_name("choice of `what`", what, NAMES, argument="what")


def _need(inner: Any, names: tuple[str, ...], what: str, kind: str) -> None:
    """Raises if the simulator does not have these attributes."""
    lacks = [name for name in names if not hasattr(inner, name)]
    if lacks:
        raise InvalidArgumentError.of(
            "env",
            f"must be {kind} environment to read {what!r}",
            f"{type(inner).__name__}, which has no `{lacks[0]}`",
            remedy="Pass a function of env.unwrapped that returns numbers.",
        )


class ReadState(RecordConstructorArgs, gym.ObservationWrapper):
    """Shows what the simulator knows as the observation: position and doors, bytes of memory, joints.

    `what` is "minigrid", "ram", "ram:montezuma_revenge" (or private_eye, hero, venture), "positions",
    "joints", or a function of `env.unwrapped` that returns numbers: whole numbers are states as they are,
    real numbers need a code such as `rc.Net()`. `level` is the seed of every reset, for worlds that draw a
    new level each time; None leaves the seeds to the caller.

    >>> import gymnasium as gym, rhocover as rc
    >>> env = rc.ReadState(gym.make("CartPole-v1"), lambda cart: [int(x // 0.1) for x in cart.state[::2]])
    >>> run = rc.explore(env, rho=2, num_steps=1_000, model="from_scratch")
    >>> env.reset(seed=0)[0].tolist()
    [0, -1]
    """

    def __init__(self, env: gym.Env, what: Any, *, level: int | None = None) -> None:
        if not isinstance(env, gym.Env):
            remedy = (
                "Wrap each copy: gymnasium.make_vec(..., wrappers=[lambda env: rc.ReadState(env, what)])."
            )
            raise InvalidArgumentError.of("env", "must be a gymnasium.Env", type(env).__name__, remedy)
        self._level = None if level is None else checks.seed(level, "level")
        RecordConstructorArgs.__init__(self, what=what, level=self._level)
        gym.ObservationWrapper.__init__(self, env)
        self.observation_space, self._read = _reader(env, what, self._level)
        self._drawn: Any = None  # the level of the last episode; False once told that it changes

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment, with the seed of the level if there is one."""
        result = super().reset(seed=seed if self._level is None else self._level, options=options)
        if self._level is None and self._drawn is not False:
            self._compare_levels()
        return result

    def observation(self, observation: Any) -> NDArray[Any]:
        """Returns what the simulator knows now."""
        space = self.observation_space
        return np.array(self._read(self.unwrapped)).reshape(space.shape).astype(space.dtype)

    def _compare_levels(self) -> None:
        """Warns once if the level is another one than in the last episode."""
        drawn = _drawing(self.env)
        if drawn is None or self._drawn is None or self._drawn == drawn:
            self._drawn = drawn
            return
        self._drawn = False
        warnings.warn(
            "the environment draws a new level at each reset, so the same numbers stand for different "
            "places. Pass `level`, the seed of one level, to explore that one.",
            RhocoverWarning,
            stacklevel=3,
        )
