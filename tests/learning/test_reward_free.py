"""What is lost by planning on an estimate: never negative, nothing with perfect data, bounded on both sides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.optimize import linprog

from rhocover import envs
from rhocover.errors import InvalidArgumentError, NotCommunicatingError
from rhocover.learning.reward_free import (
    hitting_times,
    make_trials,
    planning_regret,
    regret_bound,
    sparse_reward,
    worst_reward,
)
from rhocover.mdp import MDP
from small_models import random_model
from tiers import tiered

ORACLE = 1e-8  # what an oracle's answer may be below the best, for rewards up to 1


def drawn(mdp: MDP, visits: int, seed: int) -> np.ndarray:
    """Returns counts [n, S]: every pair tried `visits` times."""
    P = mdp.transitions.toarray()
    return np.random.default_rng(seed).multinomial(visits, P / P.sum(axis=1, keepdims=True))


def waiting_room(p: float) -> MDP:
    """State 0: stay, or leave for state 1 with probability p; from state 1 straight back."""
    rows = [[1.0, 0.0], [1 - p, p], [1.0, 0.0]]
    return MDP.from_pairs(np.array(rows), [0, 0, 1], [0, 1, 0], start=0)


def policies(mdp: MDP) -> Iterator[np.ndarray]:
    choices = [np.flatnonzero(mdp.pair_state == s) for s in range(mdp.num_states)]
    for chosen in itertools.product(*choices):
        policy = np.zeros(mdp.num_pairs)
        policy[list(chosen)] = 1.0
        yield policy


def visits_of(mdp: MDP, policy: np.ndarray) -> np.ndarray:
    """Returns stationary visits [n] by a dense solve; every chain must be irreducible."""
    own = np.eye(mdp.num_states)[mdp.pair_state]
    chain = (own * policy[:, None]).T @ mdp.transitions.toarray()
    system = np.vstack([chain.T - np.eye(mdp.num_states), np.ones(mdp.num_states)])
    states = np.linalg.lstsq(system, np.append(np.zeros(mdp.num_states), 1.0))[0]
    return states[mdp.pair_state] * policy


def supremum(truth: MDP, estimate: MDP) -> float:
    """Returns the largest regret over all rewards: one linear program for each pair of policies."""
    n, own = truth.num_pairs, np.eye(truth.num_states)[truth.pair_state]
    bellman = np.hstack([np.eye(n), estimate.transitions.toarray() - own, -np.ones((n, 1))])
    bounds = [(0, 1)] * n + [(None, None)] * (truth.num_states + 1)
    visits = [visits_of(truth, policy) for policy in policies(truth)]
    largest = 0.0
    for policy, played in zip(policies(truth), visits, strict=True):
        is_used = policy > 0
        for rival in visits:
            costs = np.append(played - rival, np.zeros(truth.num_states + 1))
            found = linprog(
                costs, bellman[~is_used], np.zeros((~is_used).sum()), bellman[is_used],
                np.zeros(is_used.sum()), bounds,
            )  # fmt: skip
            largest = max(largest, -found.fun)
    return largest


# Closed forms.


def test_the_regret_of_a_wrong_guess_is_the_difference_of_the_gains() -> None:
    """Leaving earns p/(1+p) a step; who believes 1/4 instead of 1/2 stays for a reward between 1/5 and 1/3."""
    trials = make_trials(waiting_room(0.5), np.array([[1000, 0], [750, 250], [1000, 0]]), 1e-6)
    stays = trials.of(np.array([0.3, 0.0, 1.0]))
    assert stays.policy.tolist() == [1.0, 0.0, 1.0]
    assert stays.regret == pytest.approx(1 / 3 - 0.3, abs=1e-12)
    assert trials.of(np.array([0.1, 0.0, 1.0])).regret == 0.0  # both leave
    assert trials.of(np.array([0.4, 0.0, 1.0])).regret == 0.0  # both stay


def test_a_policy_with_two_classes_is_judged_from_the_start() -> None:
    """From state 0 to 1 or 2 with 1/4 and 3/4, where the policy stays, though it could go back."""
    rows = [[0.0, 0.25, 0.75], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    policy = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    for start, expected in [(0, [0.25, 0.75]), ([0.0, 1.0, 0.0], [1.0, 0.0]), (None, [5 / 12, 7 / 12])]:
        truth = MDP.from_pairs(np.array(rows), [0, 1, 1, 2, 2], [0, 0, 1, 0, 1], start=start)
        visits = make_trials(truth, np.zeros((5, 3), int), 0.5).visits(policy)
        np.testing.assert_allclose(visits[[1, 3]], expected, rtol=1e-14)


def test_hitting_times_of_two_states_are_geometric() -> None:
    truth = MDP([[[0.9, 0.1], [0.75, 0.25]], [[0.5, 0.5], [0.125, 0.875]]])
    np.testing.assert_allclose(hitting_times(truth), [[0, 4], [2, 0]], rtol=1e-14)


def test_hitting_times_are_those_of_the_best_policy() -> None:
    mdp = random_model(3, 4, 2)
    fewest = np.full((4, 4), np.inf)
    for policy in policies(mdp):
        chain = mdp.transitions.toarray()[policy > 0]
        for goal in range(4):
            rest = np.delete(np.arange(4), goal)
            steps = np.linalg.solve(np.eye(3) - chain[np.ix_(rest, rest)], np.ones(3))
            fewest[rest, goal] = np.minimum(fewest[rest, goal], steps)
            fewest[goal, goal] = 0.0
    np.testing.assert_allclose(hitting_times(mdp), fewest, rtol=1e-12)


def test_perfect_data_lose_nothing() -> None:
    """With 2^40 exact visits a pair, smoothing moves a row by 1e-12: nothing that an oracle would see."""
    truth = MDP([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.125, 0.875]]])
    found = planning_regret(truth, (truth.transitions.toarray() * 2**40).astype(np.int64), num_rewards=20)
    assert max(found.worst, found.sparse_worst, found.adversarial) <= ORACLE
    assert found.upper_bound <= ORACLE


def test_one_state_has_nothing_to_learn() -> None:
    found = planning_regret(MDP(np.ones((1, 3, 1))), np.zeros((3, 1), int), num_rewards=5)
    assert (found.mean, found.sparse_worst, found.adversarial) == (0.0, 0.0, 0.0)
    assert found.upper_bound <= 1e-14  # roundings of rows that sum to 1
    assert planning_regret(MDP([[[1.0]]]), [[0]], num_rewards=2).adversarial == 0.0


# Identities.


@pytest.mark.parametrize("model", ["river_swim", "wheel"])
def test_the_worst_reward_found_lies_between_the_random_ones_and_the_bound(model: str) -> None:
    truth = envs.river_swim() if model == "river_swim" else envs.wheel()
    counts = drawn(truth, 200, 5)
    found = planning_regret(truth, counts, num_rewards=30)
    assert 0 <= found.mean <= found.worst <= found.adversarial
    assert 0 <= found.sparse_mean <= found.sparse_worst <= found.adversarial
    assert 0 < found.adversarial <= found.upper_bound + ORACLE
    assert found.upper_bound < 1  # so that it says something
    reward = found.adversarial_reward
    assert reward.min() >= 0
    assert reward.max() <= 1
    assert make_trials(truth, counts, 0.5).of(reward).regret == found.adversarial


def test_the_worst_reward_is_worse_than_every_known_one() -> None:
    truth = envs.river_swim()
    trials = make_trials(truth, drawn(truth, 20, 7), 0.5)
    generator = np.random.default_rng(1)
    known = [trials.of(generator.random(truth.num_pairs)) for _ in range(40)]
    assert worst_reward(trials, known).regret >= max(trial.regret for trial in known)


def test_a_seed_fixes_every_number() -> None:
    truth = random_model(2, 4, 2)
    counts = drawn(truth, 10, 1)
    one, two, other = (planning_regret(truth, counts, num_rewards=5, seed=seed) for seed in (3, 3, 4))
    assert (one.mean, one.sparse_mean, one.adversarial) == (two.mean, two.sparse_mean, two.adversarial)
    assert other.mean != one.mean


def test_a_sparse_reward_pays_for_one_to_three_pairs() -> None:
    """Each of the three sizes is missing in 100 draws with probability (2/3)^100 = 2e-18."""
    generator = np.random.default_rng(0)
    assert {int(sparse_reward(generator, 9).sum()) for _ in range(100)} == {1, 2, 3}
    assert set(np.unique(sparse_reward(generator, 9))) == {0.0, 1.0}
    assert sparse_reward(generator, 1).tolist() == [1.0]


# A second method.


@pytest.mark.parametrize("visits", tiered([5, 50]))
@pytest.mark.parametrize("seed", tiered(range(6)))
def test_the_supremum_lies_between_what_is_found_and_the_bound(seed: int, visits: int) -> None:
    """All pairs of policies of a 3-state model are compared; search finds at least 80% of the supremum."""
    truth = random_model(seed, 3, 2)
    counts = drawn(truth, visits, seed)
    trials = make_trials(truth, counts, 0.5)
    found = planning_regret(truth, counts, num_rewards=10).adversarial
    largest = supremum(truth, trials.estimate.members.mdp)
    assert 0.8 * largest <= found <= largest + 1e-6  # HiGHS solves to 1e-7
    assert largest <= regret_bound(trials) + 1e-6


# Statistics.


def test_more_data_lose_less() -> None:
    """20 data sets of 5 and of 320 visits a pair, the same 8 rewards: the mean regret falls.

    The mean difference is more than 10 standard errors, so with other seeds it would be below 4.9 of them, or
    of either sign, with a probability under 1e-6. 48 pairs, so that no single row decides.
    """
    truth = envs.noisy_river_swim(num_states=12)
    rewards = np.random.default_rng(0).random((8, truth.num_pairs))

    def mean_regret(visits: int, seed: int) -> float:
        trials = make_trials(truth, drawn(truth, visits, seed), 0.5)
        return float(np.mean([trials.of(reward).regret for reward in rewards]))

    fall = np.array([mean_regret(5, seed) - mean_regret(320, seed) for seed in range(20)])
    assert fall.mean() > 4.9 * fall.std(ddof=1) / np.sqrt(fall.size)


# Bad input.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothing": 0.0}, "`smoothing` must be positive, got 0"),
        ({"smoothing": np.inf}, "`smoothing`"),
        ({"num_rewards": 1}, "`num_rewards` must be at least 2"),
        ({"num_rewards": 2.5}, "`num_rewards` must be a whole number"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"transitions": np.zeros((3, 3), int)}, r"`transitions` must have shape \(3, 2\)"),
        ({"transitions": np.full((3, 2), 0.5)}, "whole numbers"),
        ({"transitions": np.full((3, 2), -1)}, "non-negative"),
    ],
)
def test_bad_arguments_are_refused(changes: dict, message: str) -> None:
    arguments = {"transitions": np.ones((3, 2), int)} | changes
    with pytest.raises(InvalidArgumentError, match=message):
        planning_regret(waiting_room(0.5), **arguments)


def test_a_model_that_falls_apart_is_refused_by_its_pairs() -> None:
    truth = MDP([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    with pytest.raises(NotCommunicatingError, match=r"communicating.*2 pairs: \(0, 0\), \(0, 1\)") as caught:
        planning_regret(truth, np.ones((4, 2), int))
    assert caught.value.pairs == ((0, 0), (0, 1))
