"""Linear programming, policy iteration and value iteration: one best gain, and policies that earn it.

Each oracle's upper bound is certified, so no other oracle's value may exceed it; and the policy that is
returned earns the value, evaluated by itself. The models are those of `differing_cases`, 2,100 of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from differing_cases import BLOCK_SIZE, BLOCKS, Case, random_case

from rhocover.errors import RhocoverError
from rhocover.oracles import METHODS, Response, best_response
from tiers import tiered

# In units of the largest reward: value iteration stops at 1e-9 and reports twice that at most, HiGHS is given
# 1e-9 (1e-8 where that fails), policy iteration refuses above 1e-8.
AGREE = 2e-8


@pytest.mark.parametrize("block", tiered(range(BLOCKS)))
def test_three_oracles_find_one_gain_and_policies_that_earn_it(block):
    compared = 0
    for seed in range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE):
        case = random_case(seed)
        compared += compare(case, random_reward(case))
    assert compared == BLOCK_SIZE


def compare(case: Case, reward: np.ndarray) -> int:
    members = case.members
    methods = ("lp",) if members.eta > 0 else tuple(METHODS)
    answers = [best_response(members, reward, method=method) for method in methods]
    size = float(np.abs(reward).max())
    best = max(answer.value for answer in answers)
    for answer in answers:
        assert best <= answer.upper_bound + 1e-12 * size, (case, answer.method)  # certified: only rounding
        assert answer.value >= best - AGREE * size, (case, answer.method)
        assert answer.gap <= AGREE * size, (case, answer.method)
        assert members.contains(answer.occupancy, tol=1e-8), (case, answer.method)
        earns_its_value(case, reward, answer, size)
    return 1


def earns_its_value(case: Case, reward: np.ndarray, answer: Response, size: float) -> None:
    """A policy with one recurrent class is evaluated anew; one with several earns what its start decides."""
    try:
        visited = case.members.from_policy(answer.policy)
    except RhocoverError:
        return
    assert float(reward @ visited) == pytest.approx(answer.value, abs=1e-7 * size), (case, answer.method)


def random_reward(case: Case) -> np.ndarray:
    """Returns rewards of either sign, with ties, of one pair alone, or over eight decades."""
    rng = np.random.default_rng((3, case.seed))
    size = case.members.num_pairs
    kinds = (
        rng.normal(size=size),
        rng.integers(0, 3, size).astype(float),
        np.eye(size)[rng.integers(size)],
        10.0 ** rng.uniform(-8, 0, size),
    )
    return kinds[case.seed % len(kinds)]
