"""Calling an environment: a time limit for each call, and a rollout of random actions.

The system timer (`setitimer`) is set before each step and each reset, and cancelled afterwards. When it
fires, `TookTooLongError` is raised inside the call. It does not derive from `Exception`, so an environment
that catches every `Exception` does not catch it; if it is caught nevertheless, the timer fires again and
again.

Python handles the signal between two of its own instructions, so C code that does not return is not stopped.
There is one timer for the whole process, and its signal is handled in the main thread only; Windows has none.

`random_rollout` returns the observations of a uniformly random policy, from which `QuantileBins` takes its
edges.
"""

from __future__ import annotations

import copy
import signal
import threading
import time
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhocover import checks
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from rhocover.printing import count_of

LONGEST = 1e6  # seconds: eleven days, which every system's timer accepts


class TookTooLongError(BaseException):
    """A step or a reset took longer than its time limit."""


def read_step_timeout(step_timeout: Any) -> float:
    """Returns the limit in seconds; raises if it cannot be enforced on this system or in this thread."""
    seconds = checks.number(step_timeout, "step_timeout")
    if not 0 < seconds <= LONGEST:
        raise InvalidArgumentError.of(
            "step_timeout",
            f"must be a number of seconds above 0 and at most {LONGEST:g}",
            f"{seconds:g}",
            remedy="Leave it out to wait without a limit.",
        )
    if not hasattr(signal, "setitimer"):
        raise InvalidArgumentError.of(
            "step_timeout",
            "needs a timer (setitimer) that this system does not have (Windows)",
            remedy="Leave it out.",
        )
    if threading.current_thread() is not threading.main_thread():
        raise InvalidArgumentError.of(
            "step_timeout",
            "works in the main thread only, but this is another thread",
            remedy="Leave it out, or start the run in its own process.",
        )
    return seconds


class Alarm:
    """The system timer for the length of a run; an earlier handler and timer are restored afterwards."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._is_set = seconds, False
        self._before: tuple[Any, float, float] = (None, 0.0, 0.0)

    def __enter__(self) -> Alarm:
        handler = signal.signal(signal.SIGALRM, self._ring)
        self._before = (handler, *signal.setitimer(signal.ITIMER_REAL, 0))
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        handler, left, interval = self._before
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - self._began), 1e-3), interval)

    def start(self) -> None:
        """Sets the timer to fire after the limit, and again after each further limit until stopped."""
        self._is_set = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)

    def stop(self) -> None:
        """Cancels the timer."""
        self._is_set = False  # a signal that arrives now is ignored
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *signal_and_frame: Any) -> None:
        if self._is_set:
            raise TookTooLongError(f"did not return within {self._seconds:g} s (`step_timeout`)")


class Timed:
    """An environment, single or vector, with a time limit on its steps and resets."""

    def __init__(self, env: Any, alarm: Alarm) -> None:
        self._env, self._alarm = env, alarm

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_env", "_alarm"):  # `copy` asks for them before they exist
            raise AttributeError(name)
        return getattr(self._env, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Timed:
        return Timed(copy.deepcopy(self._env, memo), self._alarm)

    def step(self, action: Any) -> Any:
        """Steps the environment."""
        self._alarm.start()
        try:
            return self._env.step(action)
        finally:
            self._alarm.stop()

    def reset(self, **named: Any) -> Any:
        """Resets the environment."""
        self._alarm.start()
        try:
            return self._env.reset(**named)
        finally:
            self._alarm.stop()


# A rollout of random actions.


def random_rollout(env: Any, num_steps: int, seed: int | None = None) -> NDArray[Any]:
    """Returns the observations of a run of uniformly random actions, `[num_steps + num_episodes, ...]`.

    The first observation of each episode is included. Environment and actions are seeded, so the same seed
    gives the same observations; the environment is reset first and is left in the middle of an episode.
    Observations that are not arrays (dictionaries, tuples) are returned as an array of objects.
    """
    return labelled_rollout(env, num_steps, seed)[0]


NO_ACTION = -1  # after an observation that ends an episode, and after the last one


def labelled_rollout(
    env: Any, num_steps: int, seed: int | None = None, values: list[Any] | None = None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Returns the observations of a random rollout and the number of the action after each, -1 for none.

    `values` are the actions to choose from, which the numbers refer to; None: all actions, with no numbers.
    """
    num_steps = checks.integer(num_steps, "num_steps", least=1)
    if not callable(getattr(env, "reset", None)) or not hasattr(env, "action_space"):
        raise InvalidArgumentError.of("env", "must be a Gymnasium environment", type(env).__name__)
    seen: list[Any] = []
    labels: list[int] = []
    try:
        _roll_out(env, num_steps, seed, seen, labels, values)
    except (Exception, TookTooLongError, SystemExit, GeneratorExit) as error:
        raise EnvironmentFailedError(
            f"{type(env.unwrapped).__name__} failed in the random rollout, after "
            f"{count_of(len(seen), 'observation')}: {type(error).__name__}: {error}"
        ) from error
    return _stacked(seen), np.array(labels, np.int64)


def rollout_of_copy(env: Any, num_steps: int, seed: int | None = None) -> NDArray[Any] | None:
    """Returns a rollout in a copy of an environment, or of the first of a vector; None if it has no copy."""
    one = next(iter(getattr(env.unwrapped, "envs", [])), None) if hasattr(env, "num_envs") else env
    try:
        spare = copy.deepcopy(one)
    except Exception:  # handles of other libraries may raise anything
        return None
    return None if spare is None else random_rollout(spare, num_steps, seed)


def _roll_out(
    env: Any, num_steps: int, seed: int | None, seen: list[Any], labels: list[int], values: list[Any] | None
) -> None:
    """Appends the observations of a run of uniformly random actions to `seen`, and their numbers to `labels`.

    The actions are some of `values`, or of the whole space if there are none.
    """
    env.action_space.seed(seed)
    generator = np.random.default_rng(seed)
    seen.append(_copied(env.reset(seed=seed)[0]))
    for _ in range(num_steps):
        number = 0 if values is None else int(generator.integers(len(values)))
        action = env.action_space.sample() if values is None else values[number]
        observation, _, terminated, truncated, _ = env.step(action)
        seen.append(_copied(observation))
        labels.append(number)
        if terminated or truncated:
            seen.append(_copied(env.reset()[0]))
            labels.append(NO_ACTION)
    labels.append(NO_ACTION)


def _copied(observation: Any) -> Any:
    """Returns a copy of an array, because an environment may write its next observation into it."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation


def _stacked(seen: list[Any]) -> NDArray[Any]:
    if isinstance(seen[0], np.ndarray | np.number | int | float):
        return np.array(seen)
    result = np.empty(len(seen), object)
    for number, observation in enumerate(seen):
        result[number] = observation
    return result
