"""Changes of a model that should change nothing, or only names: each returns the new model and its weights."""

from __future__ import annotations

import numpy as np
import pytest

from rhocover import MDP, Coverage, Plan

TOL = 1e-8  # of `plan`


def relabelled(mdp: MDP, mu: np.ndarray, states: np.ndarray, actions: np.ndarray) -> tuple[MDP, np.ndarray]:
    """Returns the model whose state k is the old `states[k]`, and whose action b is the old `actions[b]`."""
    P = mdp.dense()[np.ix_(states, actions, states)]
    available = allowed(mdp)[np.ix_(states, actions)]
    start = None if mdp.start is None else mdp.start[states]
    return MDP(closed(P, available), available=available, start=start), mu[np.ix_(states, actions)]


def with_twin(mdp: MDP, mu: np.ndarray, state: int, share: float) -> tuple[MDP, np.ndarray]:
    """Returns the model in which a last state takes over `share` of all visits to a state, and of its weights."""
    P, available = mdp.dense(), allowed(mdp)
    into = P[:, :, state : state + 1]
    P = np.concatenate([P, share * into], axis=2)
    P[:, :, state] *= 1 - share
    P = np.concatenate([P, P[state : state + 1]])
    weights = np.concatenate([mu, share * mu[state : state + 1]])
    weights[state] *= 1 - share
    available = np.concatenate([available, available[state : state + 1]])
    return MDP(closed(P, available), available=available), weights


def with_second_name(mdp: MDP, mu: np.ndarray, action: int, share: float) -> tuple[MDP, np.ndarray]:
    """Returns the model with a last action that does what `action` does and takes `share` of its weight."""
    P, available = mdp.dense(), allowed(mdp)
    P = np.concatenate([P, P[:, action : action + 1]], axis=1)
    available = np.concatenate([available, available[:, action : action + 1]], axis=1)
    weights = np.concatenate([mu, share * mu[:, action : action + 1]], axis=1)
    weights[:, action] *= 1 - share
    return MDP(closed(P, available), available=available, start=mdp.start), weights


def slowed(mdp: MDP, stay: float) -> MDP:
    """Returns the model that stays where it is with this probability, and moves as before otherwise."""
    available = allowed(mdp)
    still = np.eye(mdp.num_states)[:, None, :]
    return MDP(closed((1 - stay) * mdp.dense() + stay * still, available), available=available)


def with_porch(mdp: MDP, mu: np.ndarray, weight: float) -> tuple[MDP, np.ndarray]:
    """Returns the model with a last state that leads in and that nothing leads back to."""
    S, A = mdp.num_states, mdp.num_actions
    P = np.zeros((S + 1, A, S + 1))
    P[:S, :, :S] = mdp.dense()
    P[S, :, 0] = 1.0
    available = np.concatenate([allowed(mdp), np.ones((1, A), bool)])
    P[~available, 0] = 1.0
    return MDP(P, available=available), np.concatenate([mu, np.full((1, A), weight)])


def allowed(mdp: MDP) -> np.ndarray:
    return mdp.table(np.ones(mdp.num_pairs)) > 0


def closed(P: np.ndarray, available: np.ndarray) -> np.ndarray:
    """Returns P with rows of absent pairs filled in, and rows that sum to 1 to the last digit."""
    P = P.copy()
    P[~available, 0] = 1.0
    return P / P.sum(axis=2, keepdims=True)


def same_divergence(one: Plan, other: Plan) -> None:
    """Both are within their certified gaps of one optimum."""
    assert abs(one.divergence - other.divergence) <= max(one.gap, other.gap) + 1e-12


def same_visits(plan: Plan, occupancy: np.ndarray, expected: np.ndarray) -> None:
    """Two occupancies near one optimum are as near to each other as their gaps say.

    For rho >= 1 and u = d/d* the divergence exceeds the least by at least about sum mubar (u - 1)^2 / 2, so
    |u_i - 1| <= sqrt(2 gap / mubar_i); each of the two may be as far away on its side, and 2 is for "about".
    """
    mu_bar = Coverage(1.0, plan.weights[plan.weights > 0]).mu_bar
    assert occupancy == pytest.approx(expected, rel=4 * np.sqrt(2 * TOL / mu_bar.min()), abs=1e-12)
