"""Some steps of a world: taken one by one, counted all at once, undone where one of them failed."""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.checks import BoolArray, IntArray
from rhocover.collecting.atlas import Map
from rhocover.collecting.choosing import Chooser
from rhocover.collecting.naming import Naming, read_reward
from rhocover.collecting.records import Recorder, Shelf, Steps
from rhocover.collecting.trail import Trail
from rhocover.errors import EnvironmentFailedError, RhocoverError
from rhocover.exploring.simulator import Visits


class Stretch:
    """The steps of one call of `advance`.

    A step is chosen (and counted among the block's visits), then taken, then it has led somewhere. Only
    those that have led somewhere are kept; `settle` takes back the others.
    """

    def __init__(self, naming: Naming, num_steps: int, *, is_kept: bool) -> None:
        self.pairs: list[int] = []
        self.nexts: list[int] = []
        self.rewards: list[float] = []
        self.envs: list[int] = []  # left empty where there is one only
        self.ends: dict[int, tuple[bool, bool]] = {}  # terminated, truncated
        self.shelf = Shelf(naming.space, num_steps, is_plain=naming.is_plain) if is_kept else None

    def settle(
        self, chart: Map, chooser: Chooser, seen: Visits, trail: Trail, recorder: Recorder | None
    ) -> int:
        """Counts the steps, hands them to trail and recorder, and returns how many they were."""
        num = len(self.nexts)
        for pair in self.pairs[num:]:
            chooser.visits[pair] -= 1
        seen.num_steps += num
        pairs, nexts = np.array(self.pairs[:num], np.int64), np.array(self.nexts, np.int64)
        if num:
            seen.moves = chart.count(pairs, nexts, seen.moves)
            chooser.fit(seen, chart.index)
            index = seen.index
            states, actions = (np.asarray(column)[pairs] for column in (index.pair_state, index.pair_action))
            ended, cut = self._ends(num).T
            trail.add(states, actions, pairs, nexts, ended, cut, self._copies(num))
            if recorder is not None:
                self._hand_over(recorder, actions, num)
        return num

    def _hand_over(self, recorder: Recorder, actions: Any, num: int) -> None:
        """Gives the steps to the recorder; refuses observations that make no column."""
        try:
            recorder.add(self._steps(actions, num))
        except (ValueError, TypeError) as error:
            if isinstance(error, RhocoverError):
                raise
            raise EnvironmentFailedError(
                f"the environment's observations do not go together: {error}. Do they have the shape and "
                "type of their space?"
            ) from error

    def _steps(self, actions: Any, num: int) -> Steps:
        """Returns the steps as columns."""
        assert self.shelf is not None
        ends, rewards = self._ends(num), _numbers(self.rewards[:num])
        return Steps(actions, self.shelf.take(num), rewards, ends[:, 0], ends[:, 1], self._copies(num))

    def _ends(self, num: int) -> BoolArray:
        """Returns which steps were terminated and which truncated, `[num, 2]`."""
        ends = np.zeros((num, 2), bool)
        for k, flags in self.ends.items():
            if k < num:
                ends[k] = flags
        return ends

    def _copies(self, num: int) -> IntArray:
        """Returns which copy of the environment made each step."""
        envs = np.zeros(num, np.int64)
        envs[: len(self.envs)] = self.envs[:num]
        return envs


def _numbers(rewards: list[Any]) -> Any:
    """Returns rewards as numbers; refuses what is none."""
    try:
        array = np.array(rewards)
    except Exception:  # of several shapes; or a reward that fails in a way of its own when it is asked
        array = np.zeros(0, object)
    is_plain = array.dtype.kind in "biuf" and array.shape == (len(rewards),)
    if is_plain and not any(reward is np.ma.masked for reward in rewards):
        return array.astype(float)
    return np.array([read_reward(reward) for reward in rewards])
