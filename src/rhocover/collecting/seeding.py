"""When an environment is seeded: at its first reset, and again now and then at the beginning of an episode.

Gymnasium seeds an environment once, at its first reset. Seeding again every so many steps changes nothing
about what can happen, and makes long collections resumable: an environment cannot be stored, but it can be
brought back to where it stood from the last seed and the actions since.
"""

from __future__ import annotations

import numpy as np

BETWEEN = 1 << 14  # steps, at least, from one seed to the next
LARGEST = 2**63 - 2**32  # of the seeds that files hold as int64, also one for each of many copies


class Seeds:
    """The seeds of one run, in order; the first is the run's own, if files can hold it."""

    def __init__(self, seed: int) -> None:
        self._seed, self._number, self._since = seed, 0, 0

    def next(self, num_steps: int) -> int | None:
        """Returns the seed for the episode that begins after `num_steps` steps; None: go on as it is."""
        if self._number and num_steps - self._since < BETWEEN:
            return None
        self._since, self._number = num_steps, self._number + 1
        return first_seed(self._seed) if self._number == 1 else _derived(self._seed, self._number)


def first_seed(seed: int) -> int:
    """Returns the first seed of an environment: the run's own, or one made of it where it is too large."""
    return seed if seed < LARGEST else _derived(seed, 1)


def _derived(seed: int, number: int) -> int:
    """Returns a seed of 31 bits, which every environment takes."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)
