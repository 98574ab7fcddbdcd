"""From what an environment shows to the number of a state, with the complaints on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rhocover.collecting.atlas import Map
from rhocover.environments.encoding import OutsideSpaceError, StateCode, WholeNumber
from rhocover.environments.stepping import TookTooLongError
from rhocover.errors import EnvironmentFailedError, parse_text, shortened

# What an environment may raise that is its failure: sys.exit() too, which would end the run without a word.
RAISED = (Exception, TookTooLongError, SystemExit, GeneratorExit)


class Naming:
    """Numbers observations of a space: their key by the code, its number by the chart."""

    def __init__(self, space: Any, states: StateCode, chart: Map) -> None:
        self.space, self.states, self.chart = space, states, chart
        self.key = states.key
        self.is_plain = False  # whether observations are numbers, which nobody can change
        self.find = self._known  # the number of an observation's state; None if it has none yet

    def _known(self, observation: Any) -> int | None:
        return self.chart.numbers.get(self.key(observation))

    def look(self, observation: Any) -> None:
        """Looks at the first observation, and reads all the others as that one asks for.

        Arrays are read in the space's own type: what is stored has it, and must be counted as what is counted
        now. A whole number of a Discrete space is its own key.
        """
        if isinstance(self.states, WholeNumber) and isinstance(observation, int | np.integer):
            get, known = self.chart.numbers.get, self._known
            self.find = lambda shown: get(shown) if type(shown) is int else known(shown)
            self.is_plain = True
        if getattr(self.space, "shape", None) and self.space.dtype is not None:
            self._read_arrays()

    def number(self, observation: Any, num_steps: int) -> int:
        """Returns the state's number, a new one at the first time; `num_steps` is for the message."""
        try:
            key = self.key(observation)
            known = self.chart.numbers.get(key)
            if known is not None:
                return known
            self._check_inside(observation)
            return self.chart.meet(key)
        except Exception as error:  # what is shown may fail in any way when it is looked at
            raise refused(error, num_steps) from error

    def _read_arrays(self) -> None:
        """Has arrays read in the space's own type and shape; those that have both are read as they are."""
        key, cast, get = self.states.key, self._cast, self.chart.numbers.get
        own, shape = self.space.dtype, self.space.shape
        self.key = lambda shown: key(cast(shown))

        def find(shown: Any) -> int | None:
            is_own = type(shown) is np.ndarray and shown.dtype is own and shown.shape == shape
            return get(key(shown if is_own else cast(shown)))

        self.find = find

    def _cast(self, shown: Any) -> Any:
        """Returns an array in the space's own type; refuses another shape, and numbers that do not fit."""
        own, shape = self.space.dtype, self.space.shape
        array = np.asarray(shown)
        if array.shape != shape:
            raise OutsideSpaceError(
                f"{shown!r} of shape {array.shape}, expected one of {self.space}. Correct one of them."
            )
        if array.dtype == own:
            return array
        result = array.astype(own)
        if own.kind in "iu" and not np.array_equal(result, array):
            raise OutsideSpaceError(
                f"{shown!r}, which {own}, the type of its space, cannot hold. Correct the one or the other."
            )
        return result

    def _check_inside(self, observation: Any) -> None:
        """Refuses an observation outside its own space; asked once for each state."""
        space = self.space
        if space.contains(observation):
            return
        if isinstance(observation, int | np.integer | np.ndarray) and space.contains(
            np.asarray(observation, space.dtype)
        ):
            return
        raise EnvironmentFailedError(
            f"the environment showed {looks(observation)}, which is not in its observation space {space}. "
            "Correct the one or the other; what was seen before is kept."
        )


def read_ends(terminated: Any, truncated: Any) -> tuple[bool, bool]:
    """Returns whether a step ended and whether it cut its episode; refuses what is neither true nor false."""
    return _flag(terminated, "terminated"), _flag(truncated, "truncated")


def _flag(value: Any, name: str) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    is_number = np.ndim(value) == 0 or np.size(value) == 1
    number = np.asarray(value).reshape(-1)[0] if is_number else None
    if isinstance(number, np.number | np.bool_) and number in (0, 1):
        return bool(number)
    raise EnvironmentFailedError(
        f"the environment gave {name} = {shortened(repr(value))}, expected True or False. Correct its "
        "step(); what was seen before is kept."
    )


def read_reward(reward: Any) -> float:
    """Returns a reward as a float; refuses what is no number, or one that no float holds."""
    try:
        if (
            not isinstance(reward, str | bytes)
            and reward is not np.ma.masked
            and np.size(reward) == 1
            and np.asarray(reward).dtype.kind in "biufO"
        ):
            return float(np.asarray(reward).reshape(-1)[0])
    except Exception:  # a reward may fail in any way when it is asked for its number
        pass
    shown = f"one of {reward.bit_length()} bits" if isinstance(reward, int) else looks(reward)
    raise EnvironmentFailedError(
        f"the environment gave the reward {shown}, expected a number that a float can hold. Wrap "
        "it so that rewards are such."
    )


def failed(what: str, num_steps: int, error: BaseException) -> EnvironmentFailedError:
    """Returns the error for an environment that raised one of its own, or took too long."""
    if isinstance(error, TookTooLongError):
        late = f"the environment {error} after {num_steps} steps. What was seen before is kept. "
        return EnvironmentFailedError(parse_text(f"{late}Find out what it waits for, or allow more."))
    return EnvironmentFailedError(
        f"the environment {what} after {num_steps} steps: {type(error).__name__}: {looks(error, str)}. What "
        "was seen before is kept. Mend the environment, or leave out what makes it fail."
    )


def refused(error: BaseException, num_steps: int) -> EnvironmentFailedError:
    """Returns the error for an environment that showed something that is no state."""
    said = looks(error, str, 1500)  # of ours, it ends with the way out
    if isinstance(error, EnvironmentFailedError):
        return EnvironmentFailedError(f"after {num_steps} steps: {said}")
    return EnvironmentFailedError(
        f"after {num_steps} steps the environment showed something that is no state: {said}"
    )


def looks(thing: Any, how: Callable[[Any], str] = repr, most: int = 300) -> str:
    """Returns what a thing of an environment's looks like, in few letters, whatever it does when asked."""
    try:
        return shortened(how(thing), most)
    except Exception:
        return f"(a {type(thing).__name__} that cannot be shown)"
