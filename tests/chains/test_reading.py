"""Chains as callers pass them: what a policy makes, what is taken and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import rhocover as rc
from rhocover import chains
from rhocover.errors import InvalidArgumentError


def test_the_chain_of_a_policy_averages_the_rows_of_its_actions() -> None:
    mdp = rc.envs.river_swim(num_states=5)
    policy = np.random.default_rng(0).dirichlet([1, 1], 5)
    policy[2] = [1, 0]
    expected = np.einsum("sa,sat->st", policy, mdp.dense())
    for given_as in (policy, policy.ravel()):
        chain = chains.policy_chain(mdp, given_as)
        assert np.allclose(chain.toarray(), expected, rtol=1e-15, atol=0)  # two products and a sum
    assert (chain.data > 0).all()


def test_a_policy_is_refused_by_the_state_where_it_does_not_sum_to_one() -> None:
    policy = np.full((6, 2), 0.5)
    policy[3] = 0.4
    with pytest.raises(InvalidArgumentError, match=r"`policy` must sum to 1 .* got 0\.8 in state 3"):
        chains.policy_chain(rc.envs.river_swim(num_states=6), policy)
    policy[3] = [1.4, -0.4]
    with pytest.raises(InvalidArgumentError, match=r"non-negative, got policy\[3, 1\] = -0\.4"):
        chains.policy_chain(rc.envs.river_swim(num_states=6), policy)


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        ([[0.5, 0.4], [0, 1]], r"sum to 1, got 0\.9 in row 0"),
        ([[1.5, -0.5], [0, 1]], r"non-negative, got chain\[0, 1\] = -0\.5"),
        ([[np.nan, 1], [0, 1]], r"finite, got chain\[0, 0\] = nan"),
        (np.ones((2, 3)) / 3, r"shape \(2, 2\), got \(2, 3\)"),
        (np.ones((1, 1), bool), "real numbers"),
        (sp.csr_array((0, 0)), "matrix"),
        (sp.csr_array(np.eye(2) * 1j), "real numbers"),
    ],
)
def test_what_is_not_a_chain_is_refused_at_the_door(chain, words: str) -> None:
    for question in (chains.stationary_distribution, chains.recurrent_classes, chains.period):
        with pytest.raises(InvalidArgumentError, match=words):
            question(chain)


def test_a_sparse_chain_may_list_an_entry_twice_and_is_not_touched() -> None:
    chain = sp.csr_array((np.array([0.5, 0.5, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert chains.stationary_distribution(chain).tolist() == [0.5, 0.5]
    assert chain.nnz == 3
