"""Random planning problems, each from one seed: what the methods of this folder are compared on.

Sizes, shapes, weights, criteria and floors are drawn independently, so that unusual combinations occur: one
state, one action, deterministic cycles, weights over six decades with zeros, a floor near its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rhocover import MDP, Coverage, Occupancies

INF = float("inf")
BLOCKS, BLOCK_SIZE = 42, 50
NUM_CASES = BLOCKS * BLOCK_SIZE  # the promise is 2,000
ORDERS = (0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 8.0, 30.0, INF)


@dataclass(frozen=True, eq=False)
class Case:
    """A problem as `plan` takes it, and the same as a set with weights per entry."""

    seed: int
    mdp: MDP
    rho: float
    mu: np.ndarray  # [S, A]
    options: dict[str, Any]  # discount, horizon, eta

    @property
    def members(self) -> Occupancies:
        return Occupancies.of(self.mdp, **self.options)

    @property
    def coverage(self) -> Coverage:
        return Coverage(self.rho, self.members.flatten(self.mu, "mu"))

    def __str__(self) -> str:
        return f"random_case({self.seed}): {self.mdp}, rho={self.rho:g}, {self.options}"


def random_case(seed: int) -> Case:
    rng = np.random.default_rng((20_261, seed))
    mdp = communicating_model(rng)
    rho = float(rng.choice(ORDERS))
    options: dict[str, Any] = {}
    criterion = rng.choice(["average", "average", "discounted", "horizon"])
    if criterion == "discounted":
        options["discount"] = float(rng.choice([0.3, 0.9, 0.99]))
    if criterion == "horizon":
        options["horizon"] = int(rng.integers(1, 6))
    mu = random_weights(mdp, rng, rho, options)
    if rng.random() < 0.2:
        # 0.9 of the largest floor: at the largest itself the set is a point, which is a test of its own
        most, _ = Occupancies.of(mdp, **options).max_floor()
        options["eta"] = 0.5 * most * float(rng.choice([0.01, 0.5, 0.9]))
    return Case(seed, mdp, rho, mu, options)


def communicating_model(rng: np.random.Generator) -> MDP:
    """Returns a model in which the first action goes round a random cycle through all states."""
    num_states = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 12, 20]))
    num_actions = int(rng.integers(1, 5))
    kind = rng.choice(["dense", "sparse", "deterministic"])
    P = np.zeros((num_states, num_actions, num_states))
    for s, a in np.ndindex(num_states, num_actions):
        reached = _successors(rng, kind, num_states)
        P[s, a, reached] = rng.dirichlet(np.full(reached.size, 0.7)) if reached.size > 1 else 1.0
    _close_a_cycle(P, rng, kind)
    available = rng.random((num_states, num_actions)) < rng.choice([0.5, 0.8, 1.0])
    available[:, 0] = True
    return MDP(P, available=available, start=_start(rng, num_states))


def _successors(rng: np.random.Generator, kind: str, num_states: int) -> np.ndarray:
    if kind == "dense":
        return np.arange(num_states)
    count = 1 if kind == "deterministic" else min(num_states, int(rng.integers(1, 4)))
    return rng.choice(num_states, count, replace=False)


def _close_a_cycle(P: np.ndarray, rng: np.random.Generator, kind: str) -> None:
    order = rng.permutation(P.shape[0])
    share = 1.0 if kind == "deterministic" else float(rng.uniform(0.1, 0.9))
    P[:, 0] *= 1 - share
    P[order, 0, np.roll(order, 1)] += share
    P /= P.sum(axis=2, keepdims=True)


def _start(rng: np.random.Generator, num_states: int) -> np.ndarray:
    """Returns a start that holds every state: with a restart, or an end, all pairs can be visited."""
    return rng.dirichlet(np.full(num_states, 2.0)) * 0.9 + 0.1 / num_states


def random_weights(mdp: MDP, rng: np.random.Generator, rho: float, options: dict[str, Any]) -> np.ndarray:
    """Returns weights that are equal, spread over one decade or six, and often zero where that is allowed."""
    decades = float(rng.choice([0.0, 1.0, 6.0]))
    mu = 10.0 ** (decades * rng.random(mdp.num_pairs))
    if rho > 0 and rng.random() < 0.4:
        mu[rng.random(mdp.num_pairs) < 0.3] = 0.0
        mu[rng.integers(mdp.num_pairs)] = 1.0
    return mdp.table(mu)
