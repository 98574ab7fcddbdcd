"""Random walks on the frozen lake and on models, and what tests of top-ups read from data sets."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

import rhocover as rc

INF = float("inf")
NAMES = ("s", "a", "s_next", "terminated", "truncated")


def lake() -> gym.Env:
    return gym.make("FrozenLake-v1")


def random_steps(env: gym.Env, num_steps: int, seed: int = 0, *, actions: int | None = None):
    """Returns the columns of a uniformly random walk with whole numbers for states and actions."""
    rng, rows = np.random.default_rng(seed), []
    state, _ = env.reset(seed=seed)
    count = int(env.action_space.n) if actions is None else actions
    for _ in range(num_steps):
        action = int(rng.integers(count))
        after, _, terminated, truncated, _ = env.step(action)
        rows.append((state, action, after, terminated, truncated))
        state = env.reset()[0] if terminated or truncated else after
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def by_hand(*data) -> rc.Audit:
    """Returns the audit of columns put one after the other, by the lake's own table."""
    whole = tuple(np.concatenate(columns) for columns in zip(*data, strict=True))
    return rc.audit(whole, model=lake())


def columns_of(found) -> tuple:
    """Returns the columns of a collection, read by Minari itself."""
    rows: list[list] = [[], [], [], [], []]
    for episode in found.to_minari(overwrite=True).iterate_episodes():
        shown = np.asarray(episode.observations)
        parts = (shown[:-1], episode.actions, shown[1:], episode.terminations, episode.truncations)
        for row, part in zip(rows, parts, strict=True):
            row.append(np.asarray(part))
    return tuple(np.concatenate(row) for row in rows)


def is_a_sentence(text: str) -> bool:
    return text[0].isalnum() and text.endswith(".") and ". " not in text and "nan" not in text


def model_steps(mdp: rc.MDP, num_steps: int, seed: int = 0):
    """Returns the columns of a random walk in a model; no episode ends."""
    rng, rows, state = np.random.default_rng(seed), [], 0
    P = mdp.transitions.toarray()
    for _ in range(num_steps):
        pair = int(rng.choice(np.flatnonzero(mdp.pair_state == state)))
        after = int(rng.choice(mdp.num_states, p=P[pair]))
        rows.append((state, int(mdp.pair_action[pair]), after, False))
        state = after
    return tuple(np.array(column) for column in zip(*rows, strict=True))
