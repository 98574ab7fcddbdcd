"""What is asked of Gymnasium's spaces by more than one code."""

from __future__ import annotations

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


def counts_and_starts(space: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns how many values each component of a MultiDiscrete or MultiBinary has, and its least."""
    from gymnasium.spaces import MultiBinary

    if isinstance(space, MultiBinary):
        size = int(np.prod(space.shape))
        return (2,) * size, (0,) * size
    counts, starts = np.ravel(space.nvec).tolist(), np.ravel(space.start).tolist()
    return tuple(counts), tuple(starts)
