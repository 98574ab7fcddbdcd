"""A pilot run: what a uniformly random policy sees, to find out where the bins should go."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhocover import checks
from rhocover.adapters.step_timeout import TookTooLongError
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError


def pilot_observations(env: Any, num_steps: int, seed: int | None = None) -> NDArray[Any]:
    """Returns the observations of a run of uniformly random actions, `[num_steps + num_episodes, ...]`.

    The first observation of each episode counts too. Environment and actions are seeded, so the same seed
    gives the same observations; the environment is reset before and is left in the middle of an episode.
    Observations that are no arrays (dictionaries, tuples) come as an array of objects.
    """
    num_steps = checks.integer(num_steps, "num_steps", least=1)
    if not callable(getattr(env, "reset", None)) or not hasattr(env, "action_space"):
        raise InvalidArgumentError(f"`env` must be an environment of Gymnasium, got {type(env).__name__}.")
    seen: list[Any] = []
    try:
        _wander(env, num_steps, seed, seen)
    except (Exception, TookTooLongError, SystemExit, GeneratorExit) as error:
        raise EnvironmentFailedError(
            f"{type(env.unwrapped).__name__} failed in the pilot run, after {len(seen)} observations: "
            f"{type(error).__name__}: {error}"
        ) from error
    return _stacked(seen)


def _wander(env: Any, num_steps: int, seed: int | None, seen: list[Any]) -> None:
    """Adds what a run of uniformly random actions observes to `seen`."""
    env.action_space.seed(seed)
    seen.append(_copied(env.reset(seed=seed)[0]))
    for _ in range(num_steps):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(_copied(observation))
        if terminated or truncated:
            seen.append(_copied(env.reset()[0]))


def _copied(observation: Any) -> Any:
    """Returns the observation, safe from environments that write the next one into the same array."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation


def _stacked(seen: list[Any]) -> NDArray[Any]:
    if isinstance(seen[0], np.ndarray | np.number | int | float):
        return np.array(seen)
    result = np.empty(len(seen), object)
    for number, observation in enumerate(seen):
        result[number] = observation
    return result
