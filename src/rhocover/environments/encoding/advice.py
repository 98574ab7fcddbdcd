"""What to pass for a space without numbered states: the advice in messages, in Python and on a command line.

The advice is one that works for this space: equal bins where it has bounds, quantiles where it has none, a
net where bins would be too many, a function where an observation is no array. It is a beginning, not the
best encoding: nobody but the user knows which differences matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rhocover.errors import Call, Setting

MOST_BINNED = 4  # dimensions; 8 bins in each of 5 are more cells than most runs have steps
MOST_LEVELS = 6  # dimensions of actions with 3 levels each, 729 actions


def states_advice(space: Any) -> Setting | None:
    """Returns what to pass as `states` for the observations of a space; None if nothing is needed."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    if not isinstance(space, spaces.Box):
        return _function_advice(space)
    if math.prod(space.shape) > MOST_BINNED:
        return Setting("states", "rc.Net()", "net")
    if np.isfinite([space.low, space.high]).all():
        return Setting("states", "rc.Bins(8)", "bins:8")
    return Setting("states", "rc.QuantileBins(8)", "quantiles:8")


def _function_advice(space: Any) -> Setting:
    """Returns a function that makes a key of an observation with several parts."""
    from gymnasium import spaces

    if isinstance(space, spaces.Tuple) and all(isinstance(part, spaces.Discrete) for part in space.spaces):
        return Setting("states", "tuple", "builtins:tuple")
    return Setting("states", "str", "builtins:str")


def actions_advice(space: Any) -> Setting | None:
    """Returns what to pass as `actions` for an action space; None if nothing is needed, or nothing helps."""
    from gymnasium import spaces

    is_small = isinstance(space, spaces.Box) and math.prod(space.shape) <= MOST_LEVELS
    return Setting("actions", "3") if is_small else None


def learning_advice(env: Any) -> Call:
    """Returns how to explore an environment without a table of its transitions: a call, or options."""
    return Call(f"rc.explore(env, {', '.join(map(str, _settings(env)))})", f"pass {learning_options(env)}")


def learning_options(env: Any) -> str:
    """Returns the options with which `rhocover explore` learns the dynamics of an environment."""
    return " ".join(f"--{part.name} {part.typed or part.value}" for part in _settings(env))


def _settings(env: Any) -> list[Setting]:
    found = (states_advice(env.observation_space), actions_advice(env.action_space))
    return [Setting("model", '"learned"', "learned"), *(part for part in found if part is not None)]
