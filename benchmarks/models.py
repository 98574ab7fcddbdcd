"""The models that the benchmarks share."""

from __future__ import annotations

import numpy as np

import rhocover as rc

RHOS = (0, 0.25, 0.5, 1, 1.5, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 10000, float("inf"))


def slippery_grid(size: int) -> rc.MDP:
    """Returns the size×size grid with slip 0.1."""
    return rc.envs.grid_world(num_rows=size, num_columns=size, success=0.9)


def random_weights(mdp: rc.MDP, seed: int = 0) -> np.ndarray:
    """Returns weights uniform in [0.1, 1], one a pair."""
    return np.random.default_rng(seed).uniform(0.1, 1.0, mdp.num_pairs)


def named_models() -> dict[str, rc.MDP]:
    """Returns every registered environment at its default size, and the larger ones of the comparison."""
    models = {name: rc.envs.make(name) for name in rc.envs.names()}
    models["garnet(200,4,5)"] = rc.envs.garnet(num_states=200, num_actions=4, num_successors=5)
    models["garnet(2000,4,5)"] = rc.envs.garnet(num_states=2000, num_actions=4, num_successors=5)
    models["grid 50x50"] = slippery_grid(50)
    return models
