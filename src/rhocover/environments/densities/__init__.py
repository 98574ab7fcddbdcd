"""Coverage rewards of observations, by a density of the visits so far.

A density says how often places like an observation were visited: by its code (counts), by its neighbours, or
by the directions of its features. `DensityReward` turns it into the reward of `CoverageReward`,

    (min(r, cap) - 1) / (cap - 1),

with r the gradient of U_rho at an observation, relative to its average over the visits so far. It needs no
environment: `add` what was visited, and `reward_of` pays any observations by what was visited until then.
Here a visit is an observation alone, not a pair: the one that a step led to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rhocover import checks
from rhocover.checks import FloatArray
from rhocover.coverage import checked_weights
from rhocover.environments.counts import VisitCounter, coverage_numbers, read_weights
from rhocover.environments.densities.ellipse import Ellipse
from rhocover.environments.densities.neighbours import Neighbours
from rhocover.environments.encoding.base import ActionCode, StateCode
from rhocover.environments.encoding.functions import FunctionCode
from rhocover.environments.reward import VisitReward, read_cap, read_order
from rhocover.errors import InvalidArgumentError, inside


class Density(Protocol):
    """The gradient of U_rho at observations, relative to its average over the visits so far."""

    def read(self, observations: Any) -> Any:
        """Returns what the density needs of observations; the other methods take it."""
        ...

    def relative(self, read: Any) -> FloatArray:
        """Returns r, one entry per observation."""
        ...

    def add(self, read: Any) -> None:
        """Counts a visit of each."""
        ...

    def numbers(self) -> dict[str, float]:
        """Returns the numbers to log."""
        ...


class DensityReward:
    """Coverage rewards of observations, for learners with a loop of their own.

    `density` is `Neighbours(...)`, `Ellipse(...)`, a fitted state code, or a function from an observation to
    a key. `rho` and `cap` are those of `CoverageReward`. `mu` says what matters: None for everything equally;
    with `Neighbours` a function from an observation to its weight; with `Neighbours` and `Ellipse` an array
    of observations that matter; with codes a function from a key to its weight, or an array of all keys'
    weights.

    >>> import numpy as np, rhocover as rc
    >>> reward = rc.DensityReward(rc.Neighbours(k=16), rho=2.0)
    >>> reward.add(np.random.default_rng(0).normal(size=(1_000, 2)))
    >>> reward.reward_of([[0.0, 0.0], [5.0, 5.0]]).round(2).tolist()
    [-0.11, 1.0]
    """

    def __init__(self, density: Any, rho: float = 2.0, mu: Any = None, *, cap: float = 10.0) -> None:
        self.rho, self.cap = read_order(rho), read_cap(cap)
        self._density = _begin(density, self.rho, mu)

    def add(self, observations: Any) -> None:
        """Counts a visit of each observation: a list, an array, or a dictionary of columns."""
        self._density.add(self._density.read(rows_of(observations)))

    def reward_of(self, observations: Any) -> FloatArray:
        """Returns the rewards of observations, `[m]`, by the visits so far; counts nothing."""
        return self._paid(self._density.read(rows_of(observations)))

    def visit(self, observations: Any) -> FloatArray:
        """Returns the rewards of observations by the visits before them, and counts them."""
        read = self._density.read(rows_of(observations))
        rewards = self._paid(read)
        self._density.add(read)
        return rewards

    def numbers(self) -> dict[str, float]:
        """Returns the numbers to log: visits, and what the density knows of coverage."""
        return self._density.numbers()

    def _paid(self, read: Any) -> FloatArray:
        return (np.minimum(self._density.relative(read), self.cap) - 1) / (self.cap - 1)


def _begin(density: Any, rho: float, mu: Any) -> Density:
    if isinstance(density, Neighbours | Ellipse):
        is_samples = mu is not None and not callable(mu)
        return density.begin(rho, rows_of(mu, "mu") if is_samples else mu)
    if isinstance(density, StateCode):
        return CodeDensity(density, rho, mu)
    if callable(density):
        return CodeDensity(FunctionCode(density), rho, mu)
    raise InvalidArgumentError.of(
        "density",
        "must be rc.Neighbours, rc.Ellipse, a fitted state code, or a function from an observation to a key",
        type(density).__name__,
        remedy="Fit rc.Net or rc.QuantileBins with .fit(observations), and rc.Bins with .code(space).",
    )


def rows_of(observations: Any, name: str = "observations") -> Any:
    """Returns observations as a list or an array; columns become rows, and tensors arrays."""
    if hasattr(observations, "detach"):  # a tensor of torch
        return observations.detach().cpu().numpy()
    if isinstance(observations, Mapping):
        columns = {field: rows_of(part, name) for field, part in observations.items()}
        num = min((len(part) for part in columns.values()), default=0)
        return [{field: part[t] for field, part in columns.items()} for t in range(num)]
    is_one = isinstance(observations, np.ndarray) and not observations.ndim
    if is_one or not isinstance(observations, list | tuple | np.ndarray):
        got = "one value" if is_one else type(observations).__name__
        raise InvalidArgumentError.of(name, "must be a list or an array of them", got)
    return checks.any_array(observations, name) if isinstance(observations, np.ndarray) else observations


ONE_ACTION = ActionCode([None], None, lambda _: 0, lambda all_: np.zeros(len(all_), np.int64), {})


class CodeDensity:
    """Counts of the codes of observations, whatever the action."""

    def __init__(self, code: StateCode, rho: float, mu: Any) -> None:
        self._counter = VisitCounter(code, ONE_ACTION, "")
        self._reward = VisitReward(rho, read_weights(_per_pair(mu, code), code, 1), 2.0, self._counter)

    def read(self, observations: Any) -> list[Hashable]:
        """Returns the keys of observations."""
        with inside("observations"):
            return [self._counter.code.key(observation) for observation in observations]

    def relative(self, read: Sequence[Hashable]) -> FloatArray:
        """Returns r of keys: infinite for one that matters and was never visited."""
        return np.array([self._reward.relative(key) for key in read], float)

    def add(self, read: Sequence[Hashable]) -> None:
        """Counts a visit of each key."""
        for key in read:
            self._counter.visit(self._counter.state(key), None)

    def numbers(self) -> dict[str, float]:
        """Returns codes met, and divergence and worst ratio over these codes."""
        if not self._counter.num_steps:
            return {}
        visits = self._counter.tally()
        return coverage_numbers(visits, self._reward.rho, self._reward.weights_of(visits.keys))


def _per_pair(mu: Any, code: StateCode) -> Any:
    """Returns the weights of keys as weights of pairs with the only action."""
    if mu is None:
        return None
    if callable(mu):
        return lambda key, _: mu(key)
    array = checks.float_array(mu, "mu", (code.num_keys,))
    return checked_weights(array, "mu")[:, None]
