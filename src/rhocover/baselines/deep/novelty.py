"""Rewards for what is far from what was seen: APT and RE3, E3B, NGU, and counts of codes.

**APT** (Liu and Abbeel 2021): the reward is log(1 + mean distance to the k nearest neighbours), a particle
estimate of the entropy. As in RE3 (Seo et al. 2021), the features are those of a random network, which is
never trained. Neighbours are sought among a random sample of everything seen so far.

**E3B** (Henaff et al. 2022): phi' C^-1 phi with C = ridge I + sum of phi phi' over the episode so far, phi
learned by inverse dynamics, ridge 0.1.

**NGU** (Badia et al. 2020): 1/sqrt(sum of K(phi, neighbours) + c) over the k = 10 nearest in the episode so
far, K(x, y) = eps/(d^2/d_m^2 + eps), times a lifelong factor between 1 and 5 from RND. The learner is PPO,
not the distributed Q-learner of the paper.

**Counts**: 1/sqrt(N(c)), N counting the visits of code c so far, this one included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np

from rhocover.baselines.deep.networks import (
    FEATURES,
    HIDDEN,
    InverseFeatures,
    Moments,
    Rollout,
    load_torch,
    network,
    values,
)
from rhocover.baselines.deep.prediction import RND
from rhocover.checks import FloatArray


class APT:
    """Distance to the nearest neighbours in random features."""

    is_episodic, is_scaled = False, True
    NEIGHBOURS, MEMORY = 12, 16_384

    def __init__(self, size: int, num_actions: int) -> None:
        self._moments, self._net = Moments(size), network(size, HIDDEN, FEATURES)
        self._memory, self._rng, self._seen = np.zeros((0, size)), np.random.default_rng(0), 0

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns log(1 + mean distance) of each step."""
        torch = load_torch()
        rows = rollout.following.reshape(-1, rollout.following.shape[-1])
        self._moments.add(rows)
        self._remember(rows)
        here, there = (torch.from_numpy(values(self._net, self._moments.normalised(x)))
                       for x in (rows, self._memory))  # fmt: skip
        num = min(self.NEIGHBOURS + 1, len(there))  # the nearest may be the point itself
        nearest = torch.cdist(here, there).topk(num, largest=False).values[:, 1:]
        return np.log1p(nearest.mean(1).numpy().astype(float)).reshape(rollout.starts.shape)

    def _remember(self, rows: FloatArray) -> None:
        """Adds rows to the memory; once it is full, all rows seen so far are kept equally often."""
        self._seen += len(rows)
        room = self.MEMORY - len(self._memory)
        self._memory = np.concatenate([self._memory, rows[:room]])
        late = rows[room:] if room < len(rows) else rows[:0]
        kept = self._rng.random(len(late)) < self.MEMORY / self._seen
        self._memory[self._rng.integers(self.MEMORY, size=int(kept.sum()))] = late[kept]


class E3B:
    """Elliptical novelty within the episode."""

    is_episodic, is_scaled = True, True
    RIDGE = 0.1

    def __init__(self, size: int, num_actions: int) -> None:
        self._features = InverseFeatures(size, num_actions)
        self._inverse = np.zeros((0, FEATURES, FEATURES))  # of C, one per copy of the environment

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the elliptical bonus of each step."""
        self._features.see(rollout)
        features = self._features.of(rollout.following).astype(float)
        fresh = np.eye(FEATURES) / self.RIDGE
        if not len(self._inverse):
            self._inverse = np.repeat(fresh[None], rollout.starts.shape[1], axis=0)
        rewards = np.zeros(rollout.starts.shape)
        for t, phi in enumerate(features):
            self._inverse[rollout.starts[t]] = fresh
            u = np.einsum("nij,nj->ni", self._inverse, phi)
            rewards[t] = (phi * u).sum(axis=1)
            self._inverse -= u[:, :, None] * u[:, None, :] / (1 + rewards[t])[:, None, None]
        self._features.learn(rollout)
        return rewards


class NGU:
    """Kernel counts within the episode, times a lifelong factor."""

    is_episodic, is_scaled = True, True
    NEIGHBOURS, EPSILON, CLUSTER, CONSTANT, MOST_SIMILAR, MOST_FACTOR = 10, 1e-3, 8e-3, 1e-3, 8.0, 5.0
    CAPACITY = 5_000  # observations of one episode that are compared; the paper keeps 30,000

    def __init__(self, size: int, num_actions: int) -> None:
        self._features, self._rnd = InverseFeatures(size, num_actions), RND(size, num_actions)
        self._memories: list[list[FloatArray]] = []
        self._errors, self._mean_square = Moments(1), Moments(1)

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the episodic reward times the lifelong factor of each step."""
        self._features.see(rollout)
        features = self._features.of(rollout.following).astype(float)
        self._memories = self._memories or [[] for _ in range(features.shape[1])]
        episodic = np.zeros(rollout.starts.shape)
        for t, n in np.ndindex(*episodic.shape):
            if rollout.starts[t, n]:
                self._memories[n] = []
            episodic[t, n] = self._bonus(features[t, n], self._memories[n])
        errors = self._rnd.of(rollout)
        self._errors.add(errors.reshape(-1, 1))
        factor = 1 + (errors - self._errors.mean[0]) / self._errors.deviation[0]
        self._features.learn(rollout)
        return episodic * np.clip(factor, 1.0, self.MOST_FACTOR)

    def _bonus(self, phi: FloatArray, memory: list[FloatArray]) -> float:
        """Returns 1/sqrt(similarity + c), 0 where the similarity is above its limit; remembers phi."""
        bonus = 1.0
        if memory:
            distances = ((np.array(memory[-self.CAPACITY :]) - phi) ** 2).sum(axis=1)
            nearest = np.sort(distances)[: self.NEIGHBOURS]
            self._mean_square.add(nearest[:, None])
            scaled = np.maximum(nearest / max(self._mean_square.mean[0], 1e-12) - self.CLUSTER, 0.0)
            similarity = np.sqrt((self.EPSILON / (scaled + self.EPSILON)).sum()) + self.CONSTANT
            bonus = 0.0 if similarity > self.MOST_SIMILAR else 1 / similarity
        memory.append(phi)
        return bonus


class CodeCounts:
    """1/sqrt(visits of the code)."""

    is_episodic, is_scaled = False, True

    def __init__(self, size: int, num_actions: int) -> None:
        self._visits: Counter[Hashable] = Counter()

    def of(self, rollout: Rollout) -> FloatArray:
        """Returns the bonus of each step."""
        rewards, codes = np.zeros(rollout.starts.shape), rollout.following_codes.tolist()
        for t, n in np.ndindex(*rewards.shape):
            self._visits[codes[t][n]] += 1
            rewards[t, n] = self._visits[codes[t][n]] ** -0.5
        return rewards
