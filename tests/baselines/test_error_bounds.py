"""RF-UCRL and RF-Express: what they steer by, and their certificates."""

from __future__ import annotations

import numpy as np
import pytest
from episodic_runs import RIVER, WHEEL, after_random_steps, begin, best_of, shortfall, value_of

import rhocover as rc
from rhocover.baselines.episodic import episodic_world, kl_threshold, look
from rhocover.baselines.rf_express import RFExpress
from rhocover.baselines.rf_ucrl import RFUCRL
from tiers import tiered


def error_gains(counts, delta: float):
    """Returns the bonuses of RF-UCRL and RF-Express `[H, S, A]` but for a factor, the growth of W included."""
    H, S, A = counts.shape
    n = np.tile(counts[:-1].sum(axis=0), (H, 1, 1))  # transitions seen
    n[-1] = counts.sum(axis=0)
    ucrl = np.sqrt((np.log(2 * S * A * H / delta) + (S - 1) * np.log(np.e * (1 + n / (S - 1)))) / n)
    express = (np.log(3 * S * A * H / delta) + S * np.log(8 * np.e * (n + 1))) / n
    return ucrl, express * (1 + 1 / H) ** np.arange(H)[:, None, None]


@pytest.mark.parametrize("mdp", tiered([RIVER, WHEEL]), ids=["river", "wheel"])
@pytest.mark.parametrize(("explorer", "which"), tiered([(RFUCRL(), 0), (RFExpress(), 1)]))
def test_untruncated_error_bounds_are_levelled_out(explorer, which, mdp):
    """No episode has more of the bonuses than the visits had on average: the equilibrium of being greedy.

    Chance makes it wrong by about 0.01; the uniform policy misses it by 0.2 and more.
    """
    run = rc.explore(mdp, 2, 16_000, explorer=explorer, horizon=8)
    assert abs(shortfall(mdp, run, error_gains(run.counts, 0.1)[which])) < 0.02
    other = rc.explore(mdp, 2, 16_000, explorer="uniform_random", horizon=8)
    assert shortfall(mdp, other, error_gains(other.counts, 0.1)[which]) > 0.2


@pytest.mark.parametrize("explorer", tiered([RFUCRL(truncate=True), RFExpress(truncate=True)]), ids=str)
def test_with_the_papers_constants_and_few_visits_each_state_plays_its_actions_in_turn(explorer):
    run = rc.explore(WHEEL, 2, 2000, explorer=explorer, model="learned", horizon=8)
    counts = run.counts.sum(axis=0)
    assert np.ptp(counts, axis=1).max() <= 8  # one episode may visit one pair at each of its steps


@pytest.mark.parametrize("episodes", [0, 40, 400, 4000, 40_000])
def test_in_one_state_the_bounds_are_what_the_equations_say(episodes):
    mdp = rc.MDP(np.ones((1, 1, 1)), start=0)
    delta, H = 0.1, 2
    n = np.maximum([episodes, 2 * episodes], 0.5)  # transitions seen are half of the visits
    union = np.log(2 * H / delta)
    b = H * np.sqrt(2 * (union + np.log(np.e * (1 + n))) / n)
    E = min(2, b[0] + min(1, b[1]))
    b = 15 * H**2 * (np.log(3 * H / delta) + np.log(8 * np.e * (n + 1))) / n
    W = min(2, b[0] + 1.5 * min(2, b[1]))
    bounds = []
    for explorer in (RFUCRL(), RFExpress()):
        state = begin(explorer, mdp, H)
        state = after_random_steps(explorer, state, mdp, H, H * episodes) if episodes else state
        bounds.append(explorer.error_bound(state))
    np.testing.assert_allclose(bounds, [E, min(2, 3 * np.e * np.sqrt(W) + W)], rtol=1e-12)


def recursion(P, bonus, caps, growth):
    """Returns the value of the first state, by the papers' equation on dense arrays."""
    value = np.zeros(P.shape[0])
    for h in range(len(caps) - 1, -1, -1):
        value = np.minimum(caps[h], bonus[h] + growth * P @ value).max(axis=1)
    return value[0]


@pytest.mark.parametrize(("num_steps", "which"), [(20_000, 0), (1_000_000, 1)])
def test_the_bounds_follow_the_equations_where_caps_bind_in_some_states_only(num_steps, which):
    """On a river of random steps the far end is seen a hundred times less than the start."""
    H, explorer = 5, (RFUCRL(), RFExpress())[which]
    state = after_random_steps(explorer, begin(explorer, RIVER, H), RIVER, H, num_steps)
    seen, P = look(state, "test"), np.zeros((8, 4))
    P[np.repeat(np.arange(8), np.diff(seen.world.indptr)), seen.world.indices] = seen.P
    ucrl, express = error_gains(seen.by_step.reshape(H, 4, 2), 0.1)
    growth = (1.0, 1 + 1 / H)[which]
    bonus = (H * np.sqrt(2) * ucrl, 15 * H**2 * express / growth ** np.arange(H)[:, None, None])[which]
    caps = (H - np.arange(H), np.full(H, H))[which]
    assert bonus[-1].min() < caps[-1] < bonus[-1].max()
    error = recursion(P.reshape(4, 2, 4), bonus, caps, growth)
    expected = (error, min(H, 3 * np.e * np.sqrt(error) + error))[which]
    assert error < H
    np.testing.assert_allclose(explorer.error_bound(state), expected, rtol=1e-12)


@pytest.mark.parametrize("explorer", tiered([RFUCRL(delta=1e-6), RFExpress(delta=1e-6)]), ids=str)
@pytest.mark.parametrize("seed", tiered(range(3)))
def test_no_policy_s_value_is_off_by_more_than_the_certificate(explorer, seed):
    """Random policies and those that are best on the estimate, random rewards; fails with probability 1e-6."""
    rng, H = np.random.default_rng(seed), 3
    P = rng.dirichlet(np.ones(2), size=(2, 2))
    mdp = rc.MDP(P, start=0)
    bounds = []
    for num_steps in (3000, 300_000, 10_000_000):
        state = after_random_steps(explorer, begin(explorer, mdp, H), mdp, H, num_steps, seed)
        P_hat = look(state, "test").P.reshape(P.shape)
        bounds.append(explorer.error_bound(state))
        for _ in range(100):
            reward = rng.random((H, 2, 2)).round()
            for policy in (best_of(P_hat, reward)[1], rng.dirichlet(np.ones(2), size=(H, 2))):
                error = value_of(P_hat, reward, policy) - value_of(P, reward, policy)
                assert abs(error[0]) <= bounds[-1]
    assert bounds[0] >= bounds[1] > bounds[2]
    assert bounds[2] < H / 2  # it says something in the end


def test_the_certificate_does_not_depend_on_how_it_was_explored():
    states = [after_random_steps(RFUCRL(), begin(RFUCRL(), RIVER, 5), RIVER, 5, 50_000)] * 2
    bounds = [
        e.error_bound(s) for e, s in zip((RFUCRL(), RFUCRL(scale=0.1, truncate=True)), states, strict=True)
    ]
    assert bounds[0] == bounds[1]


def test_optimism_has_the_radius_that_the_threshold_gives():
    """For one state the threshold is log(2SAH/delta) + log(e(1 + n)), and more states add as many terms."""
    world = episodic_world(begin(RFUCRL(), RIVER, 5).belief, "test")
    expected = np.log(2 * 8 * 5 / 0.1) + 3 * np.log(np.e * (1 + 6 / 3))
    np.testing.assert_allclose(kl_threshold(np.array([6]), world, 0.1), expected, rtol=1e-15)
