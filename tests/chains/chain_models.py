"""Models and chains for these tests, and slow second methods: closures, arithmetic of many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

import rhocover as rc

reproducible = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


def random_mdp(seed: int, most_states: int = 5, most_actions: int = 3) -> rc.MDP:
    """Returns few pairs with one or two successors each, so that components of all kinds occur."""
    rng = np.random.default_rng(seed)
    num_states = int(rng.integers(1, most_states + 1))
    states = np.repeat(np.arange(num_states), rng.integers(1, most_actions + 1, num_states))
    rows = np.zeros((states.size, num_states))
    for row in rows:
        row[rng.choice(num_states, min(num_states, int(rng.integers(1, 3))), replace=False)] = 1
    actions = np.arange(states.size) - np.searchsorted(states, states)
    return rc.MDP.from_pairs(rows / rows.sum(axis=1, keepdims=True), states, actions)


def random_chain(seed: int, num_states: int, decades: float, density: float = 0.3) -> np.ndarray:
    """Returns an irreducible chain whose moves are spread evenly over so many decades."""
    rng = np.random.default_rng(seed)
    P = 10 ** -rng.uniform(0, decades, (num_states, num_states))
    P *= rng.random(P.shape) < density
    cycle = rng.permutation(num_states)
    P[cycle, np.roll(cycle, 1)] = 10 ** -rng.uniform(0, decades, num_states)
    np.fill_diagonal(P, 0)
    return with_diagonal(P * (0.5 / np.maximum(P.sum(axis=1, keepdims=True), 0.5)))


def with_diagonal(moves):
    return moves + np.diag(1 - moves.sum(axis=1))


def sparse_birth_death(up, down):
    num_states = len(up) + 1
    moves = sp.diags_array([up, down], offsets=[1, -1], shape=(num_states, num_states))
    return sp.csr_array(moves + sp.diags_array(1 - moves.sum(axis=1)))


def drifting_grid(side: int, ratio: float):
    """Returns a walk that prefers left and up by `ratio`, and its product form."""
    walk = sparse_birth_death(np.full(side - 1, 1 / (1 + ratio)), np.full(side - 1, ratio / (1 + ratio)))
    line = ratio ** -np.arange(side, dtype=float)
    eye = sp.eye_array(side)
    return (sp.kron(walk, eye) + sp.kron(eye, walk)) / 2, np.outer(line, line).ravel() / line.sum() ** 2


def expander(num_states: int, seed: int = 0):
    """Returns a walk with five random successors a state, and a cycle to connect it."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(num_states), 6)
    columns = rng.integers(0, num_states, (num_states, 6))
    columns[:, 0] = np.roll(np.arange(num_states), 1)
    return sp.csr_array((np.full(rows.size, 1 / 6), (rows, columns.ravel())), shape=(num_states, num_states))


def closure(graph: np.ndarray) -> np.ndarray:
    """Returns who reaches whom in any number of steps, none included."""
    reach = graph | np.eye(len(graph), dtype=bool)
    for k in range(len(graph)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def state_graph(mdp: rc.MDP) -> np.ndarray:
    graph = np.zeros((mdp.num_states, mdp.num_states), bool)
    np.logical_or.at(graph, mdp.pair_state, mdp.transitions.toarray() > 0)
    return graph


def many_digits(P: np.ndarray, digits: int) -> list:
    """Returns the stationary distribution by Gaussian elimination with so many digits."""
    with mp.workdps(digits):
        moves = mp.matrix((P - np.diag(np.diag(P))).tolist())
        A = moves.T - mp.diag([mp.fsum(moves[i, :]) for i in range(len(P))])
        for j in range(len(P)):
            A[0, j] = 1
        return list(mp.lu_solve(A, mp.matrix([1] + [0] * (len(P) - 1))))


def relative_error(result, exact) -> float:
    """Returns the largest relative error among entries that float64 holds to full precision."""
    return max(float(abs(mp.mpf(float(p)) / e - 1)) for p, e in zip(result, exact, strict=True) if e > 1e-290)
