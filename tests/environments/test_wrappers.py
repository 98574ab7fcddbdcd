"""CountVisits counts what happened and changes nothing; CoverageReward pays the gradient of U_rho."""

from __future__ import annotations

import copy
import math
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wrapper_worlds import NUM_ACTIONS, NUM_STATES, ByHand, Scripted, Wanderer, limited, same_visits

from rhocover.coverage import Coverage
from rhocover.environments.counts import coverage_numbers
from rhocover.environments.encoding.bins import Bins
from rhocover.environments.sb3 import CoverageCallback, _callback_class
from rhocover.environments.wrappers import CountVisits, CoverageReward
from rhocover.errors import InvalidArgumentError, MissingExtraError
from tiers import tiered

RHOS = [0.0, 0.5, 1.0, 1.5, 2.0, 8.0, 64.0]


@pytest.fixture(scope="module", autouse=True)
def wanderers():
    """Registers the wanderer, so that it has a spec."""
    gym.register("rhocover-tests/Wanderer-v0", entry_point=Wanderer, max_episode_steps=50)
    yield
    gym.registry.pop("rhocover-tests/Wanderer-v0")


def walk(env: gym.Env, num_steps: int, seed: int = 0) -> list[float]:
    """Acts at random, resetting at ends, and returns the rewards."""
    rng, rewards = np.random.default_rng(seed), []
    env.reset(seed=seed)
    for _ in range(num_steps):
        _, reward, terminated, truncated, _ = env.step(int(rng.integers(NUM_ACTIONS)))
        rewards.append(float(reward))
        if terminated or truncated:
            env.reset()
    return rewards


# Counting.


@settings(deadline=None, derandomize=True)  # the first example imports SciPy
@given(
    commands=st.lists(st.sampled_from([*range(NUM_ACTIONS), "reset"]), max_size=60),
    seed=st.integers(0, 2**31),
    wrapper=st.sampled_from([CountVisits, CoverageReward]),
)
def test_counts_are_those_of_a_dictionary_kept_by_hand(commands, seed, wrapper):
    """Whatever the caller does, also resetting mid-episode and stepping on after an end."""
    env, hand = wrapper(limited()), ByHand()
    state, _ = env.reset(seed=seed)
    hand.start(state)
    for command in commands:
        if command == "reset":
            state, _ = env.reset()
            hand.start(state)
            continue
        observation, _, terminated, truncated, _ = env.step(command)
        if state is not None:
            hand.step(state, command, observation, terminated, truncated)
            state = None if terminated or truncated else observation
    assert hand.agrees_with(env.visits)


def test_every_visit_went_on_or_ended():
    env = CountVisits(limited())
    walk(env, 2_000)
    visits = env.visits
    assert np.array_equal(visits.counts.ravel(), visits.moves.sum(axis=1) + visits.ends)
    assert visits.num_steps == 2_000
    assert visits.num_episodes == visits.ends.sum() + visits.num_truncated + 1  # the last one is under way
    assert visits.num_truncated > 0
    assert visits.ends.sum() > 0


def test_the_wrapper_changes_nothing():
    plain, counted = limited(), CountVisits(limited())
    assert plain.reset(seed=3) == counted.reset(seed=3)
    for action in [0, 1, 2, 2]:
        assert plain.step(action) == counted.step(action)
    assert counted.observation_space == plain.observation_space
    assert counted.action_space == plain.action_space


def test_visits_are_a_value_that_later_steps_do_not_change():
    env = CountVisits(limited())
    walk(env, 50)
    before = env.visits
    kept = copy.deepcopy(before)
    walk(env, 50)
    assert same_visits(before, kept)
    assert not same_visits(before, env.visits)
    with pytest.raises(ValueError, match="read-only"):
        before.counts[0, 0] = 7


def test_a_time_limit_is_not_an_end():
    env = CountVisits(Scripted(0, [(1, False, False), (2, False, True), (3, True, True)]))
    env.reset()
    env.step(0)
    env.step(1)
    env.reset()
    env.step(2)
    visits = env.visits
    assert visits.keys == (0, 1, 2)  # what was returned at the end is never acted in: no state
    assert visits.num_truncated == 1  # the last step ended, so it was not cut
    assert visits.moves.toarray()[1 * NUM_ACTIONS + 1, 2] == 1
    assert visits.ends[2] == visits.ends.sum() == 1


@pytest.mark.parametrize("wrapper", [CountVisits, CoverageReward])
def test_a_step_that_raised_is_no_visit(wrapper):
    env = wrapper(Scripted(0, [(1, False, False), None, (2, False, False)]))
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="simulator"):
        env.step(1)
    env.step(2)  # the agent still sees state 1
    assert env.visits.as_dict() == {(0, 0): 1, (1, 2): 1}
    with pytest.raises(InvalidArgumentError):
        env.step(NUM_ACTIONS)
    assert env.visits.num_steps == 2


@pytest.mark.parametrize("wrapper", [CountVisits, CoverageReward])
def test_an_observation_that_cannot_be_read_is_refused_and_nothing_counts_until_a_reset(wrapper):
    env = wrapper(
        Scripted(0, [(1, False, False), (NUM_STATES, False, False), (2, False, False), (3, False, False)])
    )
    env.reset()
    env.step(0)
    with pytest.raises(InvalidArgumentError, match=str(NUM_STATES)):
        env.step(1)
    env.step(2)
    assert env.visits.as_dict() == {(0, 0): 1}
    env.reset()
    env.step(1)
    assert env.visits.as_dict() == {(0, 0): 1, (0, 1): 1}


def test_a_reset_that_raised_leaves_no_state_behind():
    env = CountVisits(Scripted(0, [(1, False, False)]))
    env.reset()
    env.unwrapped.start = None
    with pytest.raises(RuntimeError):
        env.reset()
    env.step(0)
    assert env.visits.num_steps == 0


def test_environments_that_end_at_once_and_never():
    at_once = CountVisits(Scripted(2, [(0, True, False)] * 3))
    for _ in range(3):
        at_once.reset()
        at_once.step(1)
    assert at_once.visits.keys == (2,)
    assert at_once.visits.moves.shape == (NUM_ACTIONS, 1)
    assert at_once.visits.ends.tolist() == [0, 3, 0]
    never = CountVisits(Scripted(2, [(2, False, False)] * 3))
    never.reset()
    for _ in range(3):
        never.step(1)
    assert never.visits.ends.sum() == 0


def test_nothing_visited_is_an_empty_tally():
    visits = CountVisits(limited()).visits
    assert visits.counts.shape == (0, NUM_ACTIONS)
    assert (visits.num_steps, visits.num_episodes, visits.num_pairs, visits.as_dict()) == (0, 0, 0, {})
    with pytest.raises(InvalidArgumentError, match="nothing was visited"):
        visits.worst_ratio()


def test_visits_of_two_environments_add_up():
    """Adding is what one counter over both would have counted."""
    first, second, hand = CountVisits(limited()), CountVisits(limited(9)), ByHand()
    for env, seed in [(first, 1), (second, 2)]:
        state, _ = env.reset(seed=seed)
        hand.start(state)
        for action in [2, 2, 1, 0, 1]:
            observation, _, terminated, truncated, _ = env.step(action)
            hand.step(state, action, observation, terminated, truncated)
            state = observation
            if terminated or truncated:
                state, _ = env.reset()
                hand.start(state)
    assert hand.agrees_with(first.visits + second.visits)
    assert same_visits(first.visits + second.visits, second.visits + first.visits)
    empty = CountVisits(limited()).visits
    assert same_visits(first.visits + empty, first.visits)


def test_keys_of_a_function_stay_in_the_order_they_were_met():
    env = CountVisits(
        Scripted(4, [(1, False, False), (3, False, False)]), states=lambda s: "low" if s < 2 else f"s{s}"
    )
    env.reset()
    env.step(0)
    env.step(0)
    assert env.visits.keys == ("s4", "low", "s3")


def test_divergence_and_worst_ratio_are_those_of_the_objective():
    env = CountVisits(limited())
    walk(env, 300)
    counts = env.visits.counts
    mu = np.random.default_rng(0).random(counts.shape) + 0.1
    assert (counts > 0).all()
    for rho in [0, 1, 2, math.inf]:
        assert env.visits.divergence(rho, mu) == Coverage(rho, mu).divergence(counts / 300)
    assert env.visits.worst_ratio(mu) == Coverage(1, mu).worst_ratio(counts / 300)


# Gymnasium's own checks.


CHECKED = {
    "rhocover-tests/Wanderer-v0": {},
    "FrozenLake-v1": {},
    "Taxi-v4": {},
    "CliffWalking-v1": {},
    "MountainCar-v0": {"states": Bins((12, 11))},
    "Pendulum-v1": {"states": Bins((4, 4, 4)), "actions": 3},
}


def complaints(env: gym.Env) -> set[str]:
    """Returns what check_env warns about, apart from there being a wrapper."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    return {str(w.message) for w in caught if "different from the unwrapped version" not in str(w.message)}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("wrapper", [CountVisits, CoverageReward])
def test_check_env_says_no_more_than_of_the_bare_environment(name, wrapper):
    assert complaints(wrapper(gym.make(name), **CHECKED[name])) <= complaints(gym.make(name).unwrapped)


@pytest.mark.parametrize(
    ("wrapper", "arguments"),
    [
        (CountVisits, {}),
        (CountVisits, {"states": Bins((12, 11), names=("position", "velocity"))}),
        (CoverageReward, {"rho": math.inf, "states": Bins(3), "mu": np.arange(27.0).reshape(9, 3)}),
        (CoverageReward, {"rho": 0.5, "states": Bins(3), "cap": 4.0, "task_share": 0.25}),
    ],
)
def test_the_spec_rebuilds_the_stack(wrapper, arguments):
    arguments = {"states": Bins(5), **arguments}
    env = wrapper(gym.make("MountainCar-v0"), **arguments)
    again = gym.make(env.spec)
    assert str(again) == str(env)
    assert again.spec == env.spec
    assert copy.deepcopy(env.spec) == env.spec
    assert walk(again, 300) == walk(env, 300)
    assert same_visits(again.visits, env.visits)


def test_a_coverage_reward_says_that_it_is_not_deterministic():
    bare = gym.make("FrozenLake-v1")
    assert CoverageReward(bare).spec.nondeterministic
    assert not CountVisits(bare).spec.nondeterministic
    assert not bare.spec.nondeterministic


# The reward.


def worth_by_definition(rho: float, mu: np.ndarray, counts: np.ndarray, pair: tuple[int, int]) -> float:
    """Returns r from its definition, over the pairs visited so far, with another module's gradient."""
    seen = (counts > 0) & (mu > 0)
    d = counts / counts.sum()
    if rho == 0:
        u = np.log(mu[seen] / d[seen])
        share = counts[seen] / counts[seen].sum()
        return max(1 + math.log(mu[pair] / d[pair]) - float(share @ u), 0.0)
    log_g = np.where(seen, 0.0, -np.inf)
    log_g[seen] = Coverage(rho, mu[seen]).log_gradient(d[seen])
    top = log_g.max()
    return math.exp(log_g[pair] - top) / float((d * np.exp(log_g - top)).sum())


@settings(deadline=None, derandomize=True)
@example(rho=64.0, seed=0, log_spread=40.0, num_steps=100)  # a new pair outweighs the others by e^2560
@given(
    rho=st.sampled_from(RHOS),
    seed=st.integers(0, 2**31),
    log_spread=st.sampled_from([0.0, 1.0, 40.0]),
    num_steps=st.integers(1, 120),
)
def test_the_reward_is_the_normalised_gradient_at_the_counts_before_the_visit(
    rho, seed, log_spread, num_steps
):
    """1e-7 is a hundred times the relative error at which the running sum is computed anew."""
    rng = np.random.default_rng(seed)
    mu = np.exp(log_spread * rng.standard_normal((NUM_STATES, NUM_ACTIONS))) * (
        rng.random((NUM_STATES, 1)) < 0.8
    )
    mu[0, 0] = 1.0
    cap = 100.0
    env = CoverageReward(limited(), rho, mu, cap=cap)
    counts = np.zeros((NUM_STATES, NUM_ACTIONS), int)
    state, _ = env.reset(seed=seed)
    for _ in range(num_steps):
        action = int(rng.integers(NUM_ACTIONS) * rng.integers(2))
        observation, reward, terminated, truncated, _ = env.step(action)
        if mu[state, action] == 0:
            r = 0.0
        elif counts[state, action] == 0:
            r = cap
        else:
            r = min(worth_by_definition(rho, mu, counts, (state, action)), cap)
        assert 1 + reward * (cap - 1) == pytest.approx(r, rel=1e-7, abs=1e-9)
        counts[state, action] += 1
        state = env.reset()[0] if terminated or truncated else observation


@pytest.mark.parametrize("rho", tiered(RHOS, short=[2.0]))
def test_the_running_sum_stays_exact_over_many_visits(rho):
    env = CoverageReward(limited(), rho, cap=101.0)
    walk(env, 20_000)
    state, _ = env.reset(seed=5)
    counts = np.zeros((NUM_STATES, NUM_ACTIONS))
    counts[list(env.visits.keys)] = env.visits.counts
    expected = worth_by_definition(rho, np.ones(counts.shape), counts, (state, 1))
    assert 1 + env.step(1)[1] * 100 == pytest.approx(min(expected, 101.0), rel=1e-7)


@pytest.mark.parametrize("rho", RHOS)
def test_a_visit_of_worth_r_lowers_the_divergence_at_rate_r_minus_1(rho):
    """D_rho((1-e) d + e 1_i) = D_rho(d) - (r_i - 1) e + O(e^2): what is paid is what it does for coverage.

    Central differences with e = 1e-6 leave e^2 times a third derivative below (rho+2)^3 r^3.
    """
    env = CoverageReward(limited(), rho, cap=1001.0)
    walk(env, 500)
    visits = env.visits
    d, coverage, e = visits.counts / visits.num_steps, Coverage(rho, np.ones(visits.counts.shape)), 1e-6
    state, _ = env.reset(seed=1)
    for action in range(NUM_ACTIONS):
        twin = copy.deepcopy(env)
        r = 1 + twin.step(action)[1] * 1000
        towards = -d.copy()
        towards[visits.keys.index(state), action] += 1
        slope = (coverage.divergence(d + e * towards) - coverage.divergence(d - e * towards)) / (2 * e)
        assert slope == pytest.approx(1 - r, rel=1e-4, abs=1e-6 + (rho + 2) ** 3 * r**3 * e**2)


def test_the_worst_case_pays_the_worst_pairs_only():
    env = CoverageReward(
        Scripted(0, [(0, False, False)] * 9), math.inf, lambda key, action: 1.0 + (action == 2)
    )
    env.reset()
    paid = [env.step(action)[1] for action in [0, 0, 1, 2, 0, 1, 2, 2, 2]]
    # T/mu before each step: new, 1, new, new, (2, 1, .5), (3, 1, .5), (3, 2, .5), (3, 2, 1), (3, 2, 1.5)
    assert paid == [1, 1, 1, 1, -1 / 9, -1 / 9, 1, 1, 1]


@pytest.mark.parametrize("rho", tiered([*RHOS, math.inf]))
def test_rewards_stay_in_their_range(rho):
    rewards = walk(CoverageReward(limited(), rho, cap=5.0), 3_000)
    assert min(rewards) >= -1 / 4
    assert max(rewards) == 1


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0, 2.0, 8.0])
def test_who_goes_on_as_before_earns_nothing_on_average(rho):
    """sum_i d_hat_i (r_i - 1) = 0, as long as the cap is out of reach; 1e-7 as above."""
    env = CoverageReward(limited(), rho, cap=1e4)
    walk(env, 3_000)
    visits, counter = env.visits, env._counter
    pairs = {pair: counter.state(pair[0]) * NUM_ACTIONS + pair[1] for pair in visits.as_dict()}
    total = sum(count * env._reward.of(pairs[pair]) for pair, count in visits.as_dict().items())
    assert total / visits.num_steps * 1e4 == pytest.approx(0, abs=1e-6)


def test_a_step_that_is_no_visit_is_paid_nothing():
    env = CoverageReward(Scripted(0, [(1, True, False), (2, False, False)]))
    env.reset()
    assert env.step(0)[1] == 1
    assert env.step(0)[1] == 0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_mix_is_what_info_says(share):
    env, bare = CoverageReward(limited(), task_share=share), limited()
    env.reset(seed=0), bare.reset(seed=0)
    for action in [0, 1, 2]:
        _, reward, _, _, info = env.step(action)
        _, task, _, _, plain_info = bare.step(action)
        assert info["task_reward"] == task
        assert reward == (1 - share) * info["coverage_reward"] + share * task
        assert {name: info[name] for name in plain_info} == plain_info


def test_weights_are_asked_for_in_the_state_codes_own_order():
    shifted = Scripted(3, [(4, False, False)])
    shifted.observation_space = gym.spaces.Discrete(4, start=3)
    mu = np.zeros((4, NUM_ACTIONS))
    mu[1, 0] = 1.0  # observation 4
    env = CoverageReward(shifted, mu=mu)
    env.reset()
    env.step(0)
    assert env.weights_of(env.visits.keys).tolist() == [[0, 0, 0], [1, 0, 0]]
    assert CountVisits(limited()).weights_of((0, 5)).tolist() == [[1] * NUM_ACTIONS] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": -1}, r"`rho` must be in \[0, inf\], got -1"),
        ({"rho": float("nan")}, "`rho` must be a number, got nan"),
        ({"rho": "2"}, "`rho` must be a number"),
        ({"cap": 1}, "`cap` must be above 1"),
        ({"cap": math.inf}, "`cap` must be positive and finite"),
        ({"task_share": 1.5}, r"`task_share` must be in \[0, 1\], got 1.5"),
        ({"mu": np.ones((2, 2))}, r"`mu` must have shape \(6, 3\), got \(2, 2\)"),
        ({"mu": np.zeros((6, 3))}, "`mu` must have a positive entry"),
        ({"mu": -np.ones((6, 3))}, "`mu` must be non-negative"),
        ({"mu": np.ones((6, 3)), "states": str}, "`mu` as a function"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        CoverageReward(limited(), **arguments)


@pytest.mark.parametrize("wrapper", [CountVisits, CoverageReward])
def test_what_is_no_single_environment_is_refused(wrapper):
    with pytest.raises(InvalidArgumentError, match=r"`env` must be a gymnasium\.Env, got int"):
        wrapper(3)
    with pytest.raises(InvalidArgumentError, match="wrapper whose name ends in `Vector`"):
        wrapper(gym.vector.SyncVectorEnv([limited]))


def test_weights_from_a_function_are_checked_as_states_are_met():
    env = CoverageReward(Scripted(0, [(1, False, False)]), mu=lambda key, action: -1.0)
    env.reset()
    with pytest.raises(
        InvalidArgumentError, match=r"`mu` must be non-negative and finite, got mu\(\d, 0\) = -1"
    ):
        env.step(0)
    assert len(env.unwrapped.script) == 1  # refused before the step: nothing happened


def test_an_observation_space_without_a_code_is_refused_with_the_way_out():
    with pytest.raises(InvalidArgumentError, match="states"):
        CountVisits(gym.make("MountainCar-v0"))


# The callback, as far as it goes without Stable-Baselines3.


def test_a_callback_without_stable_baselines3_says_what_to_install(monkeypatch):
    for name in (
        "stable_baselines3",
        *(name for name in sys.modules if name.startswith("stable_baselines3.")),
    ):
        monkeypatch.setitem(sys.modules, name, None)
    _callback_class.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'rhocover\[sb3\]'"):
        CoverageCallback()
    with pytest.raises(InvalidArgumentError, match="`log_every` must be at least 1"):
        CoverageCallback(log_every=0)


def test_what_is_logged_speaks_of_coverage_only_where_a_weighted_pair_was_visited():
    env = CountVisits(limited())
    walk(env, 100)
    visits = env.visits
    assert coverage_numbers(visits, 2.0, np.zeros(visits.counts.shape)) == {
        "pairs_visited": visits.num_pairs,
        "states_met": len(visits.keys),
    }
    numbers = coverage_numbers(visits, 2.0, np.ones(visits.counts.shape))
    assert (numbers["divergence"], numbers["worst_ratio"]) == (visits.divergence(), visits.worst_ratio())
