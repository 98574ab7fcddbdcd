"""What a run learned, as something that acts: a function of observations, and Stable-Baselines3's `predict`.

The actor plays the policy of the best plan on the model of the run (known, or observed), so that its visits
approach the best coverage as they go on. It does not learn, and does not correct what is visited too seldom
as the explorer did.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.environments.encoding.base import ActionCode, StateCode


@dataclass(frozen=True, eq=False)
class Acting:
    """How observations become states and numbers become actions, and the observation space."""

    states: StateCode
    actions: ActionCode
    space: Any


class Actor:
    """Plays a policy: `actor(observation)` is an action, drawn at random as the policy says.

    In a state that the run's model does not have, all actions have the same probability. `seed` determines
    the draws.
    """

    def __init__(self, acting: Acting, keys: Sequence[Hashable], policy: FloatArray, seed: int = 0) -> None:
        self._acting = acting
        self._states = copy.deepcopy(acting.states)  # a net grows with what it meets
        self._row = {key: row for row, key in enumerate(keys)}
        self._policy = policy
        self._rng = np.random.default_rng(checks.seed(seed))

    def __call__(self, observation: Any) -> Any:
        """Returns an action for one observation, ready for `env.step`."""
        return self._action(observation, is_random=True)

    def probabilities(self, observation: Any) -> FloatArray:
        """Returns the probability of each action in the state of an observation, `[A]`."""
        row = self._row.get(self._states.key(observation))
        if row is None:
            return np.full(self._acting.actions.num_actions, 1 / self._acting.actions.num_actions)
        return self._policy[row]

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """Returns actions and `state`, as models of Stable-Baselines3 do: for one observation or a batch.

        With `deterministic` it takes the most probable action; a policy for coverage is random, so that this
        visits less. In a state that the run's model does not have, the action is random all the same.
        """
        if not self._is_batch(observation):
            return self._action(observation, is_random=not deterministic), state
        if isinstance(observation, Mapping):
            num = len(next(iter(observation.values())))
            rows = [{name: part[k] for name, part in observation.items()} for k in range(num)]
        else:
            rows = list(observation)
        return np.array([self._action(row, is_random=not deterministic) for row in rows]), state

    def _action(self, observation: Any, *, is_random: bool) -> Any:
        chances = self.probabilities(observation)
        ranks = chances + 1e-12 * self._rng.random(chances.size)  # ties are broken at random
        number = self._rng.choice(chances.size, p=chances / chances.sum()) if is_random else ranks.argmax()
        return self._acting.actions.values[int(number)]

    def _is_batch(self, observation: Any) -> bool:
        space = self._acting.space
        if isinstance(observation, Mapping):
            name = next(iter(observation))
            observation, space = observation[name], space[name]
        shape = getattr(space, "shape", None)
        return shape is not None and np.ndim(observation) == len(shape) + 1
