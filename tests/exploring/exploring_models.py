"""Models, problems and comparisons that the tests of exploring share."""

from __future__ import annotations

import numpy as np

from rhocover import MDP, envs
from rhocover.exploring.problem import Problem, make_problem

INF = float("inf")
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
NUMBERS = ("visits", "moves", "first_states", "last_states")


def random_model(seed: int, num_states: int = 5, num_actions: int = 3) -> MDP:
    """Returns a communicating model whose states allow different actions, with a start."""
    rng = np.random.default_rng(seed)
    S = np.arange(num_states)
    P = rng.dirichlet(np.full(num_states, 0.4), size=(num_states, num_actions))
    P[rng.random(P.shape) < 0.3] = 0.0
    P[S, :, (S + 1) % num_states] += 0.1
    available = rng.random((num_states, num_actions)) < 0.7
    available[:, 0] = True
    P /= P.sum(axis=2, keepdims=True)
    return MDP(P, available=available, start=rng.dirichlet(np.ones(num_states)))


def one_state() -> MDP:
    return MDP(np.ones((1, 3, 1)))


def with_transient_states() -> MDP:
    """Returns RiverSwim behind a door that closes: states 0 and 1 lead into it and never come back."""
    river = envs.river_swim().dense()
    P = np.zeros((8, 2, 8))
    P[0, :, 1] = P[1, :, 2] = 1.0
    P[2:, :, 2:] = river
    return MDP(P, start=0)


def random_weights(mdp: MDP, seed: int) -> np.ndarray:
    return mdp.table(np.random.default_rng(seed).random(mdp.num_pairs) + 0.05)


def problem_of(mdp: MDP, rho: float, mu=None, **criterion) -> Problem:
    return make_problem(mdp, rho, mu, **criterion)


def same_run(one, other) -> None:
    """Asserts that two runs are the same to the bit, but for the time they took."""
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, column in one.trace.columns.items():
        assert column.tobytes() == other.trace[name].tobytes(), name
    assert (one.explorer, one.seed, one.num_steps) == (other.explorer, other.seed, other.num_steps)
    assert len(one.episodes) == len(other.episodes)
    for mine, theirs in zip(one.episodes, other.episodes, strict=True):
        assert (mine.k, mine.t, mine.tau, mine.beta) == (theirs.k, theirs.t, theirs.tau, theirs.beta)
        assert np.array(mine.gap).tobytes() == np.array(theirs.gap).tobytes()
        assert mine.psi.tobytes() == theirs.psi.tobytes()
        assert mine.psi_hat.tobytes() == theirs.psi_hat.tobytes()
