"""What intrinsic rewards share: a rollout, small networks, running moments, inverse-dynamics features."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rhocover.checks import BoolArray, FloatArray, IntArray
from rhocover.errors import missing_extra

HIDDEN, FEATURES = 128, 32
CLIP = 5.0  # standard deviations, as in RND
BATCH = 256


def load_torch() -> Any:
    """Returns torch, or raises with the line that installs it."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "sb3") from error


@dataclass(frozen=True, eq=False)
class Rollout:
    """Steps of N copies of an environment, `[T, N]` each; observations are vectors, not normalised.

    `observations` are those before the actions and `following` those after them, also at the end of an
    episode. `starts` marks the first observations of episodes. Codes are those of `Discoveries`.
    """

    observations: FloatArray  # [T, N, D]
    following: FloatArray  # [T, N, D]
    actions: IntArray
    starts: BoolArray
    codes: NDArray[Any]
    following_codes: NDArray[Any]


class IntrinsicReward(Protocol):
    """Pays for the steps of a rollout, and then learns from them."""

    is_episodic: bool  # whether the return ends with an episode
    is_scaled: bool  # whether rewards are divided by the running deviation of their returns

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the rewards, `[T, N]`."""
        ...


# Running moments.


class Moments:
    """Mean and variance of everything added so far, per component (Chan et al. 1983)."""

    def __init__(self, size: int) -> None:
        self.mean, self._squares, self._count = np.zeros(size), np.zeros(size), 0

    def add(self, rows: FloatArray) -> None:
        """Adds rows `[n, size]`."""
        num, mean = len(rows), rows.mean(axis=0)
        total = self._count + num
        shift = mean - self.mean
        self._squares += ((rows - mean) ** 2).sum(axis=0) + shift**2 * self._count * num / total
        self.mean = self.mean + shift * num / total
        self._count = total

    @property
    def deviation(self) -> FloatArray:
        """The standard deviation; 1 for components that never changed."""
        deviation = np.sqrt(self._squares / max(self._count, 1))
        return np.where(deviation > 1e-8, deviation, 1.0)

    def normalised(self, rows: FloatArray) -> Any:
        """Returns rows as float32, centred, divided by the deviation and clipped."""
        return np.clip((rows - self.mean) / self.deviation, -CLIP, CLIP).astype(np.float32)


class ReturnScale:
    """Divides rewards by the running deviation of their discounted sums, as in RND."""

    def __init__(self, num_envs: int, discount: float) -> None:
        self._sums, self._discount, self._moments = np.zeros(num_envs), discount, Moments(1)

    def __call__(self, rewards: FloatArray) -> FloatArray:
        """Returns rewards `[T, N]` divided by the deviation."""
        for row in rewards:
            self._sums = self._discount * self._sums + row
            self._moments.add(self._sums[:, None])
        return rewards / self._moments.deviation[0]


# Networks.


def network(*sizes: int) -> Any:
    """Returns a multilayer perceptron with rectified units, orthogonal weights with gain sqrt(2)."""
    torch = load_torch()
    layers: list[Any] = []
    for k, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        layer = torch.nn.Linear(inputs, outputs)
        torch.nn.init.orthogonal_(layer.weight, 2**0.5)
        torch.nn.init.zeros_(layer.bias)
        layers += [layer] + [torch.nn.ReLU()] * (k < len(sizes) - 2)
    return torch.nn.Sequential(*layers)


def values(net: Any, rows: Any) -> Any:
    """Returns the outputs of a network as an array, without gradients."""
    torch = load_torch()
    with torch.no_grad():
        return net(torch.from_numpy(rows)).numpy()


class Descent:
    """Adam on some networks."""

    def __init__(self, nets: list[Any], learning_rate: float) -> None:
        torch = load_torch()
        parameters = [parameter for net in nets for parameter in net.parameters()]
        self._adam = torch.optim.Adam(parameters, learning_rate, foreach=False)

    def fit(self, loss: Callable[[Any], Any], num: int, epochs: int) -> None:
        """Takes a step on `loss(rows)` for each batch of row numbers below `num`."""
        for _ in range(epochs):
            for rows in batches(num):
                self._adam.zero_grad()
                loss(rows).backward()
                self._adam.step()


def batches(num: int) -> Iterator[Any]:
    """Yields the numbers below `num` in random order, in batches."""
    order = load_torch().randperm(num)
    return iter(order.split(BATCH))


class InverseFeatures:
    """Features from which the action between two observations can be told (Pathak et al. 2017)."""

    LEARNING_RATE, EPOCHS = 3e-4, 4

    def __init__(self, size: int, num_actions: int) -> None:
        self.moments = Moments(size)
        self.net = network(size, HIDDEN, HIDDEN, FEATURES)
        self._head = network(2 * FEATURES, HIDDEN, num_actions)
        self._descent = Descent([self.net, self._head], self.LEARNING_RATE)

    def of(self, rows: FloatArray) -> Any:
        """Returns the features `[..., FEATURES]` of observations `[..., D]`."""
        flat = self.moments.normalised(rows.reshape(-1, rows.shape[-1]))
        return values(self.net, flat).reshape(*rows.shape[:-1], FEATURES)

    def see(self, rollout: Rollout) -> None:
        """Adds the observations of a rollout to the moments."""
        self.moments.add(rollout.following.reshape(-1, rollout.following.shape[-1]))

    def learn(self, rollout: Rollout) -> None:
        """Learns to tell the actions of a rollout."""
        torch = load_torch()
        before, after, actions = tensors(rollout, self.moments)

        def loss(rows: Any) -> Any:
            features = torch.cat([self.net(before[rows]), self.net(after[rows])], 1)
            return torch.nn.functional.cross_entropy(self._head(features), actions[rows])

        self._descent.fit(loss, len(actions), self.EPOCHS)


def tensors(rollout: Rollout, moments: Moments) -> tuple[Any, Any, Any]:
    """Returns normalised observations before and after each step, and the actions, one step per row."""
    torch = load_torch()
    size = rollout.observations.shape[-1]
    sides = (rollout.observations, rollout.following)
    before, after = (torch.from_numpy(moments.normalised(rows.reshape(-1, size))) for rows in sides)
    return before, after, torch.from_numpy(rollout.actions.ravel().astype(np.int64))
