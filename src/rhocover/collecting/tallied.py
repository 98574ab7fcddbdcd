"""What a run in environments counts, whoever takes the steps: states, episodes, observations and the trace.

A world of one environment or of a vector of them steps by itself (`stepping`); a shared one adds what several
workers have stepped (`rounds`). Both begin, measure and end a run in the same way, which is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from rhocover.checks import IntArray
from rhocover.collecting.env_run import EnvRun, earlier_moves, state_after
from rhocover.collecting.result import EnvRecord, TalliedRun, judged_run, known_run
from rhocover.collecting.state_index import EpisodeCounts, StateIndex, StateReader
from rhocover.exploring.problem import Problem
from rhocover.exploring.runs.result import grid_of_steps, measure
from rhocover.exploring.runs.runner import Runner, RunState, begin
from rhocover.exploring.runs.spec import RunSpec
from rhocover.exploring.worlds import Position, Visits

NEVER = 1 << 62


class TalliedWorld(ABC):
    """A world whose states are observations of environments, numbered and counted as they are met."""

    def __init__(self, asked: EnvRun) -> None:
        self._asked, self._seed = asked, asked.spec.seed
        self.episodes = EpisodeCounts()
        self._watch = asked.watch() if asked.earlier is None else None
        self._snapshots: list[tuple[int, IntArray]] = []  # counts at the trace steps, if no model is known
        self.refits: list[int] = []  # steps before which the code was fitted again
        self.next_refit = NEVER

    @cached_property
    def _reader(self) -> StateReader:
        return StateReader(self._asked.space, self._asked.states, self._asked.state_index())

    @property
    def _index(self) -> StateIndex:
        return self._reader.index

    @property
    def problem(self) -> Problem | None:
        """The problem of the environment's table; None without a table."""
        return self._asked.problem

    def opened(self) -> AbstractContextManager[Any]:
        """Returns the context that times the calls of the environment."""
        return self._asked.timing

    def start(self, spec: RunSpec) -> RunState:
        """Returns the state of a run before its first step, including earlier data if there is any."""
        asked, earlier = self._asked, self._asked.earlier
        if asked.problem is not None and earlier is None:
            asked.problem.check_plan()
        moves = None if earlier is None else earlier_moves(self._index, earlier)
        position = self.begin()
        seen = Visits.none(self._index.index)
        if moves is not None:
            seen.moves[: moves.size] = moves
        if earlier is None:
            return begin(spec.actor, asked.belief(self._index), position, seen)
        state = state_after(asked, self._index, earlier, seen.moves)
        return RunState(state, position, seen, [], [], position.states.copy())

    def marks(self, spec: RunSpec) -> list[int]:
        """Returns the steps at which the trace is measured; with earlier data only the last one."""
        if self._asked.earlier is not None:
            return [self._asked.earlier.num_steps + spec.num_steps]
        return grid_of_steps(spec.num_steps, spec.trace_points)

    def measure(self, counts: IntArray, num_steps: int) -> list[float]:
        """Returns a row of the trace; without a known model only the step, the rest follows at the end."""
        if self._asked.earlier is not None:
            return [float(num_steps)]
        if self.problem is not None:
            return measure(self.problem, counts, num_steps)
        self._snapshots.append((num_steps, counts.copy()))
        return [float(num_steps)]

    def result(self, spec: RunSpec, runner: Runner, seconds: float) -> TalliedRun | None:
        """Returns the finished run; None if it only adds to earlier data."""
        if self._asked.earlier is not None:
            return None
        make = judged_run if self.problem is None else known_run
        coded = None if self._watch is None else self._watch.coded()
        record = EnvRecord(self._index, self.episodes, self._snapshots, coded, tuple(self.refits))
        return make(self._asked, runner, record, seconds)

    @abstractmethod
    def begin(self) -> Position:
        """Returns the first position; the environment is reset with the seed."""
