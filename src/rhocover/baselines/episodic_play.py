"""The interface and the settings that the episodic baselines share.

A method plays one episode at a time, each planned on all visits and transitions so far (see `episodic`).
There are two kinds:

- **games** reward the sampler by the current weights of a forecaster, and plan optimistically: `bonus` scales
  the optimism, which is guaranteed with probability 1 - `delta` at 1; `scope` is what visits are counted for,
  a pair at a step or a pair at any step;
- **error bounds** are played greedily: `scale` multiplies the bonus of the bound, `truncate` caps it at the
  largest possible error. `truncate=False`, the default, uses the bound without its cap; `scale` then changes
  nothing. With the cap and the constants of the papers the bound equals its cap everywhere until each pair
  has very many visits, and ties decide. `truncate=True, scale=1` is the rule of the papers. The certificate
  always has the cap and scale 1, and holds with probability 1 - `delta`. With a known model there is no
  error: the bound is then what it would be if the transitions had been estimated.

The rewards of a game, the recursion of a bound and the stopping rule of its paper are in the file of each
method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rhocover import checks
from rhocover.baselines.episodic import Seen, episodic_world, look
from rhocover.checks import FloatArray, IntArray
from rhocover.errors import InvalidArgumentError, unknown_name
from rhocover.exploring.belief import Belief
from rhocover.exploring.explorers import Block, State, initial_state
from rhocover.exploring.worlds import Visits

SCOPES = ("step", "pair")  # what visits are counted for: a pair at a step, or a pair at any step


@dataclass(frozen=True)
class EpisodicPlay:
    """Plays one episode at a time; a method adds its settings and `policy`."""

    self_reliant: ClassVar[bool] = True
    needs_horizon: ClassVar[bool] = True
    keep_memory: ClassVar[bool] = True
    who: ClassVar[str]  # the name of the method, for messages

    def init(self, belief: Belief) -> State:
        """Returns the state before the first step; raises for a run without episodes."""
        episodic_world(belief, self.who)
        return initial_state(belief)

    def update(self, state: State, visits: Visits) -> State:
        """Returns the state with the visits added."""
        return state.after(visits)


@dataclass(frozen=True)
class GamePlay(EpisodicPlay):
    """A game against a forecaster; `bonus` scales the optimism, `scope` is what visits are counted for."""

    bonus: float = 0.01
    delta: float = 0.1
    scope: str = "step"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bonus", check_scale(self.bonus, "bonus"))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))
        object.__setattr__(self, "scope", check_scope(self.scope))


@dataclass(frozen=True)
class ErrorBoundPlay(EpisodicPlay, ABC):
    """Greedy on an error bound; `scale` multiplies its bonus, `truncate` caps it at the largest error."""

    scale: float = 1.0
    truncate: bool = False
    delta: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_scale(self.scale, "scale"))
        if not isinstance(self.truncate, bool | np.bool_):
            raise InvalidArgumentError.of("truncate", "must be True or False", repr(self.truncate))
        object.__setattr__(self, "truncate", bool(self.truncate))
        object.__setattr__(self, "delta", checks.probability(self.delta, "delta", open_ends=True))

    def policy(self, state: State) -> Block:
        """Returns one episode that is greedy on the bound."""
        seen = look(state, self.who)
        return seen.world.block(self.bound(seen, self.scale, self.truncate)[1])

    def bound(self, seen: Seen, scale: float, truncate: bool) -> tuple[FloatArray, IntArray]:
        """Returns (the bound `[H, pairs]`, its greedy choices `[H, S]`)."""
        horizon = seen.world.horizon
        cap = self.cap(horizon) if truncate else np.full(horizon, np.inf)
        return seen.induct(self.bonus(seen, scale), cap, self.growth(horizon))

    @abstractmethod
    def bonus(self, seen: Seen, scale: float) -> FloatArray:
        """Returns the term that each step adds to the bound, times `scale`, `[H, pairs]`."""

    @abstractmethod
    def cap(self, horizon: int) -> FloatArray:
        """Returns the largest possible error, `[H]`."""

    def growth(self, horizon: int) -> float:
        """Returns the factor of the bound at the next step."""
        return 1.0

    @abstractmethod
    def error_bound(self, state: State) -> float:
        """Returns a bound on the error of the value of every policy, for any reward in [0, 1]."""

    def worst_start(self, state: State) -> float:
        """Returns the bound at the worst start, with its cap and scale 1."""
        seen = look(state, self.who)
        return seen.worst_start(self.bound(seen, 1.0, True)[0])


def check_scope(scope: Any) -> str:
    """Returns the scope; raises if it is not one of `SCOPES`."""
    if not isinstance(scope, str) or scope not in SCOPES:
        raise unknown_name("scope", scope, SCOPES)
    return scope


def check_scale(value: Any, name: str) -> float:
    """Returns a factor in [0, inf)."""
    value = checks.number(value, name)
    if not 0 <= value < np.inf:
        raise InvalidArgumentError.of(name, "must be in [0, inf)", f"{value:g}")
    return value
