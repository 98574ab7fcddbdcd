"""What one attack found: how often it struck, and what was wrong."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Rng = np.random.Generator
MOST_LETTERS = 1500  # of what is told about one case


@dataclass
class Found:
    """`row` is the line of the table that `tried` is counted in; `name` says which case it was."""

    row: str
    name: str
    tried: int = 1
    wrong: list[str] = field(default_factory=list)

    def add(self, text: str | None) -> None:
        """Takes down something that was wrong; None is nothing."""
        if text:
            self.wrong.append(text[-MOST_LETTERS:])


Attack = Callable[[Rng, int], Found]  # of the random numbers and the number of a case


def rng_of(seed: int, group: str, number: int) -> Rng:
    """Returns the random numbers of one case: the same for the same seed, whoever runs it."""
    return np.random.default_rng([seed, zlib.crc32(group.encode()), number])
