"""Q-learning with a bonus for rarely tried pairs.

The reward of a step is 1/sqrt(N(s, a)), N counting the visits so far, this one included; the learner acts
greedily on Q, which starts at the largest possible return 1/(1-gamma) and is updated with the step size
(H+1)/(H+n) of Jin et al. (2018), H = 1/(1-gamma). Bonuses of this form: Strehl and Littman (2008), Bellemare
et al. (2016). Actions of equal value are chosen at random. States are any hashable values.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray, IntArray


@dataclass(frozen=True)
class CountBonus:
    """Greedy Q-learning on count bonuses; `discount` is gamma."""

    discount: float = 0.99

    def __post_init__(self) -> None:
        object.__setattr__(self, "discount", checks.probability(self.discount, "discount", open_ends=True))

    def learner(self, num_actions: int, rng: np.random.Generator) -> CountBonusLearner:
        """Returns a learner that has seen nothing."""
        return CountBonusLearner(self.discount, num_actions, rng)


class CountBonusLearner:
    """The values and counts of the states met so far."""

    def __init__(self, discount: float, num_actions: int, rng: np.random.Generator) -> None:
        self._discount, self._num_actions, self._rng = discount, num_actions, rng
        self._of: dict[Hashable, tuple[FloatArray, IntArray]] = {}

    def choose(self, state: Hashable) -> int:
        """Returns an action of largest value."""
        values, _ = self._row(state)
        best = np.flatnonzero(values == values.max())
        return int(best[self._rng.integers(best.size)] if best.size > 1 else best[0])

    def learn(self, state: Hashable, action: int, following: Hashable) -> None:
        """Updates the value of a pair after a step; after an end, the next episode's first state follows."""
        values, counts = self._row(state)
        counts[action] += 1
        horizon, count = 1 / (1 - self._discount), int(counts[action])
        target = 1 / np.sqrt(count) + self._discount * float(self._row(following)[0].max())
        values[action] += (horizon + 1) / (horizon + count) * (target - values[action])

    def _row(self, state: Hashable) -> Any:
        found = self._of.get(state)
        if found is None:
            values = np.full(self._num_actions, 1 / (1 - self._discount))
            found = self._of[state] = values, np.zeros(self._num_actions, np.int64)
        return found
