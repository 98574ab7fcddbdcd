"""Models that many tests share: every named one at a small size, and random ones with their own action sets."""

from __future__ import annotations

import numpy as np

from rhocover.mdp import MDP

SMALL_ENVS = {
    "river_swim": {},
    "river_swim_strong_current": {},
    "noisy_river_swim": {"num_states": 6},
    "forked_river_swim": {"length": 4},
    "double_chain": {"num_states": 7},
    "wheel": {},
    "six_arms": {},
    "grid_world": {"num_rows": 4},
    "four_rooms": {},
    "n_room": {"num_rooms": 2},
    "deep_sea": {"size": 4},
    "garnet": {"num_states": 20},
}


def random_model(seed: int, num_states: int = 5, num_actions: int = 3, *, holes: float = 0.0) -> MDP:
    """Returns a communicating model whose states allow different actions, with a start.

    `holes` is the share of transitions that are impossible.
    """
    rng = np.random.default_rng(seed)
    S = np.arange(num_states)
    P = rng.dirichlet(np.full(num_states, 0.4), size=(num_states, num_actions))
    if holes:
        P[rng.random(P.shape) < holes] = 0.0
    P[S, :, (S + 1) % num_states] += 0.1
    available = rng.random((num_states, num_actions)) < 0.7
    available[:, 0] = True
    P /= P.sum(axis=2, keepdims=True)
    return MDP(P, available=available, start=rng.dirichlet(np.ones(num_states)))


def random_weights(mdp: MDP, seed: int) -> np.ndarray:
    return mdp.table(np.random.default_rng(seed).random(mdp.num_pairs) + 0.05)
