"""What worlds made from environments share: they are stepped a stretch at a time, of a tenth of a second.

A stretch is counted as a whole when it is over, also where it ended with an error; what failed is not
counted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import numpy as np

from rhocover.collecting.atlas import Map
from rhocover.collecting.choosing import Chooser
from rhocover.collecting.naming import Naming
from rhocover.collecting.observations import rows_within
from rhocover.collecting.records import Recorder
from rhocover.collecting.stretch import Stretch
from rhocover.collecting.trail import Trail
from rhocover.environments.encoding.base import ask
from rhocover.errors import RhocoverError
from rhocover.exploring.behaviours import Behaviour
from rhocover.exploring.simulator import Position, Visits

SECONDS = 0.1  # of one stretch
LONGEST = 1 << 14  # steps of one
CALLS = ("step", "reset")  # of an environment
FIRST = 4  # steps of the first: a step may take minutes, and Ctrl-C waits for the stretch
LARGEST = 1 << 23  # bytes of what is shown in one, where it is kept: a few copies of it are held for a moment


class EnvironmentWorld(ABC):
    """Acts in an environment; `naming` says which state an observation is, `values` are its actions."""

    num_chains = 1  # a run may pause after any step
    _callers: tuple[CodeType, ...] = ()  # the functions that call the environment

    def __init__(
        self, env: Any, naming: Naming, values: list[Any], seed: int, recorder: Recorder | None = None
    ) -> None:
        self._env, self._naming, self._values, self._recorder = env, naming, values, recorder
        self._seed = seed
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._num_steps = 0
        self.trail = Trail()
        self._longest = LONGEST if recorder is None else rows_within(LARGEST, naming.space, LONGEST)
        self.stretch = min(FIRST, self._longest)

    @property
    def _chart(self) -> Map:
        return self._naming.chart

    def none(self) -> Visits:
        """Returns the visits of no steps."""
        return Visits.none(self._chart.index)

    def follow(self, behaviour: Behaviour) -> Chooser:
        """Returns the behaviour, ready to be asked."""
        return Chooser(behaviour, self._chart.index, self._generator)

    def advance(self, position: Position, act: Chooser, seen: Visits, num_steps: int) -> None:
        """Takes `num_steps` more steps, counted over all copies."""
        began = time.perf_counter()
        stretch = Stretch(self._naming, num_steps, is_kept=self._recorder is not None)
        try:
            while len(stretch.nexts) < num_steps:
                act.fit(seen, self._chart.index)
                self._go(position, act, seen.num_steps, stretch, num_steps)
        finally:
            done = stretch.settle(self._chart, act, seen, self.trail, self._recorder)
            pace = max(time.perf_counter() - began, 1e-6) / max(done, 1)
            self.stretch = min(int(np.clip(SECONDS / pace, 1, LONGEST)), self._longest)

    def is_foreign(self, frame: FrameType | None) -> bool:
        """Whether a frame is inside a call of the environment, or of a function of the user's."""
        while frame is not None and frame.f_back is not None:
            caller = frame.f_back.f_code
            if caller is ask.__code__ or (caller in self._callers and frame.f_code.co_name in CALLS):
                return True
            frame = frame.f_back
        return False

    def _note_end(self, observation: Any) -> None:
        """Remembers what was shown where an episode ended; what no code can read is no state."""
        with suppress(RhocoverError, TypeError, ValueError, IndexError):
            self.trail.end_keys[self._naming.key(observation)] = None

    @abstractmethod
    def begin(self) -> Position:
        """Returns the first position; the environment is reset with the seed."""

    @abstractmethod
    def _go(self, position: Position, act: Chooser, before: int, stretch: Stretch, num_steps: int) -> None:
        """Takes some of the stretch's steps; `before` are those of the block before the stretch."""
