"""EntGame, reward-free exploration and CovGame reach what their papers are after."""

from __future__ import annotations

import numpy as np
import pytest
from episodic_runs import RIVER, WHEEL, after_random_steps, begin, best_of, occupancy_of, shortfall, value_of

import rhocover as rc
from rhocover.baselines.cov_game import CovGame
from rhocover.baselines.ent_game import EntGame
from rhocover.baselines.episodic import episodic_world
from rhocover.baselines.reward_free import RewardFree, exploring_policy, targets_of
from small_models import random_model
from tiers import tiered

INF = float("inf")
MODELS = {"river": RIVER, "wheel": WHEEL, "random": random_model(0)}


@pytest.mark.parametrize("name", tiered(MODELS))
def test_entgame_reaches_the_largest_entropy_of_each_step_faster_than_one_over_t(name):
    """Regret against the best that a run with the same luck could have; it is never negative.

    Measured 4e-5 to 2e-4 after 500 episodes, and 17 to 41 times less after 2000.
    """
    early, late = (
        rc.explore(MODELS[name], 0, 5 * episodes, explorer=EntGame(bonus=0), horizon=5).regret
        for episodes in (500, 2000)
    )
    assert early < 1e-3
    assert late < early / 4


@pytest.mark.parametrize("mdp", tiered([RIVER, WHEEL]), ids=["river", "wheel"])
def test_without_steps_entgame_reaches_the_largest_entropy_of_the_average(mdp):
    """At the maximum of a concave function no episode gains more than the visits did.

    Chance alone makes that wrong by about 1/sqrt(2000) = 0.02 of one episode's spread; measured 0.005.
    """
    run = rc.explore(mdp, 2, 16_000, explorer=EntGame(bonus=0, scope="pair"), horizon=8)
    entropy_gradient = -np.log(run.counts.sum(axis=0) / run.num_steps)
    assert abs(shortfall(mdp, run, np.tile(entropy_gradient, (8, 1, 1)))) < 0.02


def policies_kept(state, mdp, episodes):
    """Returns the mixture's policies, each as a table `[H, S, A]`."""
    world, choices = episodic_world(state.belief, "test"), state.memory["choices"]
    targets = targets_of(world)
    assert len(choices) == episodes * len(targets)
    tables = []
    for k, choice in enumerate(choices):
        policy = exploring_policy(world, choice, targets[k % len(targets)])
        table = np.zeros((world.horizon, mdp.num_states, mdp.num_actions))
        table[world.step, mdp.pair_state[world.pair], mdp.pair_action[world.pair]] = policy
        tables.append(table / np.maximum(table.sum(axis=2, keepdims=True), 1))
    return tables


@pytest.mark.parametrize("mdp", [RIVER, WHEEL], ids=["river", "wheel"])
def test_the_mixture_of_reward_free_exploration_meets_the_significance_condition(mdp):
    """d_h(s,a) >= max d_h(s)/(A times the number of (s, h)), which is more than the paper's 1/(2SAH).

    The model is known, so each policy reaches its target as often as any can: an identity but for rounding.
    """
    H, explorer = 5, RewardFree(episodes=1)
    state = begin(explorer, mdp, H, model="known")
    while len(state.memory["choices"]) < len(targets_of(episodic_world(state.belief, "test"))):
        state = after_random_steps(explorer, state, mdp, H, H)
    P, policies = mdp.dense(), policies_kept(state, mdp, 1)
    mixture = np.mean([occupancy_of(P, mdp.start, policy) for policy in policies], axis=0)
    for h, s in targets_of(episodic_world(state.belief, "test")):
        reward = np.zeros((H, *P.shape[:2]))
        reward[h, s] = 1.0
        most = best_of(P, reward)[0] @ mdp.start
        assert mixture[h, s].min() >= most / P.shape[1] / len(policies) * (1 - 1e-12)


def test_the_second_phase_plays_the_policies_of_the_first_all_alike():
    """With 3 states and 3 steps: each of the policies kept is drawn, and nothing else; fails below 1e-6."""
    mdp, H, explorer = rc.envs.river_swim(num_states=3), 3, RewardFree(episodes=1)
    state = begin(explorer, mdp, H)
    world = episodic_world(state.belief, "test")
    targets = targets_of(world)
    for _ in targets:
        state = after_random_steps(explorer, state, mdp, H, H)
    kept = [
        exploring_policy(world, c, t).tobytes() for c, t in zip(state.memory["choices"], targets, strict=True)
    ]
    played = set()
    for _ in range(200):  # the probability to miss one of at most 9 is below 9 (8/9)^200 = 5e-10
        played.add(explorer.policy(state).behaviour.policy.tobytes())
        state = after_random_steps(explorer, state, mdp, H, H)
    assert played == set(kept)
    assert len(state.memory["choices"]) == len(targets)


@pytest.mark.thorough
@pytest.mark.parametrize("decades", [0, 2])
def test_covgame_approaches_the_best_worst_ratio(decades):
    """Uniform weights, and such that differ up to 100 times. The game's regret falls as 1/sqrt(t).

    After 8000 episodes 1.04 and 1.06 times the best; EntGame has 3 times the best for uniform weights.
    """
    reachable = rc.plan(WHEEL, 2, horizon=5).occupancy > 0
    mu = reachable * 10 ** np.random.default_rng(0).uniform(0, decades, (5, 5, 5))
    run = rc.explore(WHEEL, INF, 40_000, mu, explorer=CovGame(bonus=0), horizon=5)
    assert run.worst_ratio < 1.1 * np.exp(run.best.divergence)


@pytest.mark.parametrize("mdp", [RIVER, WHEEL], ids=["river", "wheel"])
def test_covgame_s_first_episode_is_the_best_for_the_reward_of_one_over_c(mdp):
    H, explorer = 5, CovGame()
    mu = (rc.plan(mdp, 2, horizon=H).occupancy > 0) * np.random.default_rng(1).uniform(
        0.1, 1, (H, mdp.num_states, mdp.num_actions)
    )
    state = begin(explorer, mdp, H, model="known", mu=mu)
    world, policy = episodic_world(state.belief, "test"), np.zeros(mu.shape)
    actions = mdp.pair_state[world.pair], mdp.pair_action[world.pair]
    policy[world.step, *actions] = explorer.policy(state).behaviour.policy
    reward = np.divide(1, mu, out=np.zeros(mu.shape), where=mu > 0)
    best = best_of(mdp.dense(), reward)[0] @ mdp.start
    np.testing.assert_allclose(value_of(mdp.dense(), reward, policy) @ mdp.start, best, rtol=1e-12)


def test_covgame_doubles_its_goal_when_every_pair_has_what_was_asked_for():
    explorer, H = CovGame(), 4
    state, goals = begin(explorer, WHEEL, H, model="known"), []
    table = episodic_world(state.belief, "test").table
    for seed in range(40):
        old, state = state, after_random_steps(explorer, state, WHEEL, H, 40 * H, seed)
        least = state.counts.min()  # weights are uniform: every pair is asked for the same
        goals.append(float(state.memory["goal"][0]))
        assert goals[-1] > least
        assert goals[-1] == 1 or goals[-1] / 2 <= least
        if goals[-1] > old.memory["goal"][0]:  # the forecaster begins anew
            np.testing.assert_array_equal(state.memory["start"], table(state.counts))
            assert state.memory["loss"] == 0
        else:
            added = state.memory["loss"] - old.memory["loss"]
            np.testing.assert_allclose(added, squared_loss(old, state), rtol=1e-9)  # of a difference
    assert goals == sorted(goals)
    assert goals[0] == 1.0
    assert goals[-1] >= 4.0


def squared_loss(old, new) -> float:
    """Returns the mean square of a block's visits under the weights before it, for uniform c."""
    gained, loss = old.counts - old.memory["start"][old.memory["required"] > 0], float(old.memory["loss"][0])
    rate = np.sqrt(2 * np.log(gained.size) / loss) if loss else 0.0
    weights = np.exp(-rate * (gained - gained.min()))
    return float(np.average((new.counts - old.counts) ** 2.0, weights=weights))


def test_pairs_of_no_weight_are_not_asked_for():
    mu = np.zeros((4, 2))
    mu[3, :] = 1.0
    ours = rc.explore(RIVER, INF, 8000, mu, explorer=CovGame(bonus=0), horizon=12)
    alike = rc.explore(RIVER, INF, 8000, explorer=CovGame(bonus=0), horizon=12)
    assert ours.counts[:, 3].sum() > 1.5 * alike.counts[:, 3].sum()
