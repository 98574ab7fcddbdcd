"""Rewards for what a network cannot predict yet: RND and ICM.

**RND** (Burda et al. 2018): a predictor is trained to match a fixed random network; the reward is its squared
error at the next observation, which falls with the number of times that it was seen. Observations are
normalised and clipped to 5 deviations, returns do not end with an episode.

**ICM** (Pathak et al. 2017): features are learned from which the action can be told; a forward model predicts
the next ones, and the reward is half of its squared error. The loss is (1-beta) L_inverse + beta L_forward,
beta = 0.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rhocover.baselines.deep.networks import (
    FEATURES,
    HIDDEN,
    Descent,
    Moments,
    Rollout,
    load_torch,
    network,
    tensors,
    values,
)
from rhocover.checks import FloatArray


class RND:
    """Error of predicting a random network. With 8 copies, all steps of a rollout train the predictor."""

    is_episodic, is_scaled = False, True
    LEARNING_RATE, EPOCHS, OUTPUTS = 1e-4, 4, 64

    def __init__(self, size: int, num_actions: int) -> None:
        self._moments = Moments(size)
        self._target = network(size, HIDDEN, self.OUTPUTS)
        self._predictor = network(size, HIDDEN, HIDDEN, self.OUTPUTS)
        self._descent = Descent([self._predictor], self.LEARNING_RATE)

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the mean squared error of each step."""
        torch = load_torch()
        rows = rollout.following.reshape(-1, rollout.following.shape[-1])
        self._moments.add(rows)
        inputs = self._moments.normalised(rows)
        target = values(self._target, inputs)
        rewards = ((values(self._predictor, inputs) - target) ** 2).mean(axis=1)
        inputs, target = torch.from_numpy(inputs), torch.from_numpy(target)

        def loss(batch: Any) -> Any:
            return ((self._predictor(inputs[batch]) - target[batch]) ** 2).mean()

        self._descent.fit(loss, len(rows), self.EPOCHS)
        return rewards.astype(float).reshape(rollout.starts.shape)


class ICM:
    """Error of predicting the features of the next observation."""

    is_episodic, is_scaled = False, True
    LEARNING_RATE, EPOCHS, BETA = 3e-4, 4, 0.2

    def __init__(self, size: int, num_actions: int) -> None:
        self._moments, self._num_actions = Moments(size), num_actions
        self._features = network(size, HIDDEN, FEATURES)
        self._inverse = network(2 * FEATURES, HIDDEN, num_actions)
        self._forward = network(FEATURES + num_actions, HIDDEN, FEATURES)
        self._descent = Descent([self._features, self._inverse, self._forward], self.LEARNING_RATE)

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns half of the squared error of each step."""
        torch = load_torch()
        self._moments.add(rollout.following.reshape(-1, rollout.following.shape[-1]))
        before, after, actions = tensors(rollout, self._moments)
        chosen = torch.nn.functional.one_hot(actions, self._num_actions).float()

        def errors(rows: Any) -> tuple[Any, Any, Any]:
            """Returns the features on both sides of a step, and the errors of the forward model."""
            x, y = self._features(before[rows]), self._features(after[rows])
            return x, y, ((self._forward(torch.cat([x, chosen[rows]], 1)) - y) ** 2).sum(1) / 2

        def loss(rows: Any) -> Any:
            x, y, forward = errors(rows)
            told = torch.nn.functional.cross_entropy(self._inverse(torch.cat([x, y], 1)), actions[rows])
            return (1 - self.BETA) * told + self.BETA * forward.mean()

        with torch.no_grad():
            rewards = errors(slice(None))[2].numpy()
        self._descent.fit(loss, len(actions), self.EPOCHS)
        return np.asarray(rewards, float).reshape(rollout.starts.shape)
