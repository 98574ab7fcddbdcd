"""Models, problems and comparisons that the tests of exploring share."""

from __future__ import annotations

import numpy as np

import small_models
from rhocover import MDP, envs
from rhocover.exploring.problem import Problem, make_problem
from rhocover.planning.problem import Criterion, Objective

INF = float("inf")
NUMBERS = ("visits", "moves", "first_states", "last_states")


def random_model(seed: int, num_states: int = 5, num_actions: int = 3) -> MDP:
    """Returns a random model some of whose transitions are impossible."""
    return small_models.random_model(seed, num_states, num_actions, holes=0.3)


def one_state() -> MDP:
    return MDP(np.ones((1, 3, 1)))


def with_transient_states() -> MDP:
    """Returns RiverSwim behind a door that closes: states 0 and 1 lead into it and never come back."""
    river = envs.river_swim().dense()
    P = np.zeros((8, 2, 8))
    P[0, :, 1] = P[1, :, 2] = 1.0
    P[2:, :, 2:] = river
    return MDP(P, start=0)


def problem_of(mdp: MDP, rho: float, mu=None, **criterion) -> Problem:
    return make_problem(mdp, Objective(rho, mu), Criterion(**criterion))


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
