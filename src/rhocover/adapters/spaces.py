"""What is asked of Gymnasium's spaces by more than one code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rhocover.errors import InvalidArgumentError


def check_space(space: Any, name: str) -> None:
    """Refuses what is not a space of Gymnasium."""
    from gymnasium.spaces import Space

    if not isinstance(space, Space):
        raise InvalidArgumentError(
            f"`{name}` must be a space of Gymnasium, as env.observation_space is, got {type(space).__name__}."
        )


MOST_NUMBERS = 10**6  # of a state: a picture of 512 by 512 in three colours has fewer


def counts_and_starts(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns how many values each component of a MultiDiscrete or MultiBinary has, and its least."""
    from gymnasium.spaces import MultiBinary

    if isinstance(space, MultiBinary):
        size = math.prod(space.shape)
        if size > MOST_NUMBERS:
            raise InvalidArgumentError(
                f"`space` must have at most {MOST_NUMBERS} numbers, got a MultiBinary of {size}. Make states "
                "of fewer: pass states=, a function of an observation."
            )
        return (2,) * size, (0,) * size
    counts, starts = np.ravel(space.nvec).tolist(), np.ravel(space.start).tolist()
    return tuple(counts), tuple(starts)
