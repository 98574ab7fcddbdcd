"""Rewards by a density: neighbours, directions of features, and codes.

Seeds are fixed. A test of a mean over independent repetitions allows three standard errors, which one of 370
such tests would exceed with another seed (probability 0.0027); the estimators' own bias is below one.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.environments.densities import points as points_module
from rhocover.environments.densities.ellipse import Directions
from rhocover.environments.densities.neighbours import (
    NeighbourDensity,
    intrinsic_dimension,
    log_gradient,
    log_gradient_to,
)
from rhocover.environments.densities.points import PointStore
from rhocover.errors import InvalidArgumentError, RhocoverWarning
from tiers import tiered

NUM_POINTS = 2_000
ORDERS = (0.5, 1.0, 2.0, 4.0)
CELLS = [(dimension, rho) for dimension in (1, 2, 4) for rho in ORDERS]


def random_points(num: int, size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((num, size))


# The estimators.


def middle_distances(dimension: int, k: int, num_repetitions: int, seed: int) -> np.ndarray:
    """Returns k-th distances from the middle of a cube of volume 1 to uniform points, far from its faces."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(num_repetitions):
        store = PointStore(dimension)
        store.add(rng.random((NUM_POINTS, dimension)) - 0.5, np.zeros(NUM_POINTS))
        store.build()
        found.append(store.distances(np.zeros((1, dimension)), k)[0])
    return np.array(found)


@pytest.mark.parametrize(("dimension", "rho"), tiered(CELLS, short=[(2, 2.0)]))
def test_the_gradient_is_unbiased_and_its_noise_is_rho_over_root_k(dimension, rho):
    k, num = max(16, math.ceil(4 * rho**2)), 800
    e = middle_distances(dimension, k, num, seed=1)
    found = np.exp(log_gradient(np.log(e), NUM_POINTS, dimension, k, rho))  # of a density of 1
    noise = found.std(ddof=1) / found.mean()
    assert abs(found.mean() - 1) <= 3 * found.std(ddof=1) / math.sqrt(num)
    assert noise == pytest.approx(rho / math.sqrt(k), rel=0.2)


@pytest.mark.parametrize(("dimension", "rho"), tiered(CELLS, short=[(1, 1.0)]))
def test_the_gradient_towards_samples_is_unbiased(dimension, rho):
    """Its squared noise is the sum of both, about 2 rho^2/k."""
    k, num = max(16, math.ceil(8 * rho**2)), 800
    e, e_mu = (middle_distances(dimension, k, num, seed) for seed in (2, 3))
    found = np.exp(log_gradient_to(np.log(e), np.log(e_mu), NUM_POINTS, NUM_POINTS, dimension, k, rho))
    assert abs(found.mean() - 1) <= 3 * found.std(ddof=1) / math.sqrt(num)
    assert found.std() / found.mean() == pytest.approx(rho * math.sqrt(2 / k), rel=0.25)


@pytest.mark.parametrize("dimension", [1, 2, 4])
def test_the_dimension_is_that_of_the_points_not_of_their_space(dimension):
    points = random_points(4_000, dimension) @ random_points(dimension, 7, seed=1)
    density = NeighbourDensity(rc.Neighbours(k=16), 1.0)
    density.add(density.read(points))
    assert density.numbers() == {"visits": 4_000, "dimension": dimension}


def test_equal_distances_have_no_dimension():
    assert math.isnan(intrinsic_dimension(np.ones((3, 4))))


# The stored points.


def test_neighbours_are_those_that_a_comparison_with_all_finds(monkeypatch):
    monkeypatch.setattr(points_module, "MOST_RECENT", 40)
    rng, store, k = np.random.default_rng(0), PointStore(3), 5
    every = np.empty((0, 3))
    for num in (3, 7, 1, 20, 60, 2, 39, 1, 4):
        new = rng.random((num, 3))
        store.add(new, np.zeros(num))
        if store.is_due:
            store.build()
        every, places = np.concatenate([every, new]), rng.random((4, 3))
        gaps = np.sqrt(((places[:, None] - every[None]) ** 2).sum(axis=2))
        kth = np.sort(np.pad(gaps, ((0, 0), (0, k)), constant_values=np.inf), axis=1)[:, k - 1]
        assert store.distances(places, k) == pytest.approx(kth, abs=1e-12)
        assert store.num_searched == store.num_added == len(every)


def test_beyond_its_room_the_store_is_a_uniform_sample_of_all_points(monkeypatch):
    """The mean number of 1,000 of 20,000 has standard error 182; five are exceeded with probability 6e-7."""
    monkeypatch.setattr(points_module, "MOST_POINTS", 1_000)
    monkeypatch.setattr(points_module, "MOST_NUMBERS", 1_000)
    monkeypatch.setattr(points_module, "MOST_RECENT", 100)
    store = PointStore(1)
    for first in range(0, 20_000, 50):
        numbers = np.arange(first, first + 50, dtype=float)
        store.add(numbers[:, None], numbers)
    store.build()
    points, labels, _ = store.some(1_000, 2)
    assert store.num_stored == len(points) == 1_000
    assert store.num_added == 20_000
    assert np.array_equal(points[:, 0], labels)
    assert len(set(labels.tolist())) == 1_000
    assert abs(labels.mean() - 9_999.5) < 5 * 182


@pytest.mark.parametrize("rho", [0.0, 2.0])
def test_the_reward_stays_when_the_density_stays(rho, monkeypatch):
    """Ten times as many visits than there is room for, of the same distribution: the same rewards."""
    monkeypatch.setattr(points_module, "MOST_POINTS", 2_000)
    monkeypatch.setattr(points_module, "MOST_NUMBERS", 4_000)
    rng, places = np.random.default_rng(0), np.array([[0.3, 0.0], [1.5, -1.0]])
    reward = rc.DensityReward(rc.Neighbours(k=64), rho, cap=100.0)
    reward.add(rng.normal(size=(2_000, 2)))
    before = reward.reward_of(places)
    for _ in range(40):
        reward.add(rng.normal(size=(500, 2)))
    r = 1 + 99 * np.array([before, reward.reward_of(places)])
    # Four standard errors: of two estimates each, 0.18 in logs at rho = 0, and 0.36 relative at rho = 2.
    assert r[1] == pytest.approx(r[0], abs=0.72) if rho == 0 else np.abs(np.log(r[1] / r[0])).max() < 1.44
    assert r[1, 1] > r[1, 0]


# The reward of neighbours.


@pytest.mark.parametrize("mu", [None, "weights", "samples"])
@pytest.mark.parametrize("rho", [0.0, 0.5, 2.0])
def test_its_mean_over_the_visits_is_one(rho, mu):
    """Over stored points without themselves; here over new points of the same density, which are as far.

    The average over 512 stored points has an error of about a quarter at rho = 2, where few points have most
    of the gradient: over 20 seeds the mean has an error of 0.06, of which four are allowed (probability
    6e-5).
    """
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        samples = rng.normal(size=(900, 2)) * 0.7
        given = {None: None, "weights": lambda z: 1 + z[0] ** 2, "samples": samples}[mu]
        density = NeighbourDensity(rc.Neighbours(k=32), rho, given)
        points = rng.normal(size=(2_000, 2)).clip(-2, 2)
        density.add(density.read(points[:1_000]))
        found.append(density.relative(density.read(points[1_000:])).mean())
    assert np.mean(found) == pytest.approx(1, abs=0.24)


def test_half_the_density_is_paid_two_to_the_rho_times_as_much():
    """Far from the faces; a mean over 200 places, whose relative error is below 5% even if they share points."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(30_000) < 2 / 3, rng.random(30_000), 1 + rng.random(30_000))  # 2/3 and 1/3
    density = NeighbourDensity(rc.Neighbours(k=64), 2.0)
    density.add(density.read(np.stack([x, rng.random(30_000)], axis=1)))
    places = 0.2 + 0.6 * rng.random((400, 2))
    places[200:, 0] += 1
    r = density.relative(density.read(places))
    assert r[200:].mean() / r[:200].mean() == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_what_has_no_weight_is_useless_and_what_is_sampled_more_is_worth_more(rho):
    points = random_points(2_000, 2)
    half = rc.DensityReward(rc.Neighbours(), rho, lambda z: float(z[0] > 0.5))
    half.add(points)
    left, right = half.reward_of([[0.3, 0.5], [0.8, 0.5]])
    assert left == pytest.approx(-1 / 9)
    assert right > left
    wanted = rc.DensityReward(rc.Neighbours(), rho, points[points[:, 0] > 0.5])
    wanted.add(points)
    left, right = wanted.reward_of([[0.3, 0.5], [0.8, 0.5]])
    assert right > left


def test_a_place_that_was_never_visited_is_paid_one_and_less_each_time_it_is():
    reward = rc.DensityReward(rc.Neighbours(k=16), 2.0)
    reward.add(random_points(1_000, 2))
    paid = [float(reward.visit([[3.0, 3.0]])[0]) for _ in range(40)]
    assert paid[:15] == [1.0] * 15
    assert paid[-1] == pytest.approx(-1 / 9, abs=1e-3)  # 16 visits at one place: as dense as can be


def test_points_that_are_all_equal_are_average():
    reward = rc.DensityReward(rc.Neighbours(k=4), 1.0)
    reward.add(np.zeros((100, 2)))
    assert reward.reward_of([[0.0, 0.0], [1.0, 0.0]]) == pytest.approx([0.0, 1.0], abs=2e-3)  # 1/(9 * 99)


def test_before_there_are_enough_points_everything_is_average():
    reward = rc.DensityReward(rc.Neighbours(k=16), 1.0)
    assert reward.visit([[0.0], [1.0]]).tolist() == [0.0, 0.0]


def test_relabelling_many_is_relabelling_one_by_one():
    reward = rc.DensityReward(rc.Neighbours(), 1.0)
    reward.add(random_points(1_300, 2))
    places = random_points(200, 2, seed=1)
    reward.reward_of(places)  # many: the search tree is built again
    assert reward.reward_of(places) == pytest.approx([reward.reward_of([z])[0] for z in places], abs=1e-12)


def test_it_warns_of_few_neighbours_and_of_many_dimensions():
    with pytest.warns(RhocoverWarning, match="With k=64 or more"):
        rc.DensityReward(rc.Neighbours(k=16), 4.0)
    reward = rc.DensityReward(rc.Neighbours(k=16), 1.0)
    with pytest.warns(RhocoverWarning, match="dimensions. Beyond 4"):
        reward.add(random_points(4_000, 8))


# The reward of directions.


def one_hot(state) -> np.ndarray:
    return np.eye(12)[int(np.ravel(state)[0])]


STATES = np.random.default_rng(3).choice(12, 300, p=np.arange(1, 13) / 78)
REPEATED = [0, 0, 0, 1, 2, 2, 4, 5, 6, 7, 8, 8, 9, 10, 10, 11]  # samples of what matters; 3 is not


@pytest.mark.parametrize("mu", [None, REPEATED])
@pytest.mark.parametrize("rho", [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0, math.inf])
def test_one_hot_features_are_paid_as_a_table(rho, mu):
    """To 1e-12; at rho = 8 the table's running sums have larger rounding errors of their own."""
    weights = np.ones(12) if mu is None else np.bincount(mu, minlength=12).astype(float)
    table = rc.DensityReward(int, rho, weights.__getitem__)
    directions = rc.DensityReward(rc.Ellipse(one_hot, ridge=0.0), rho, None if mu is None else np.array(mu))
    table.visit(STATES[:1])
    directions.visit(STATES[:1])
    for state in STATES[1:]:
        paid, expected = directions.visit([state]), table.visit([state])
        if math.isfinite(rho) or table_is_spread(table):
            assert paid == pytest.approx(expected, abs=1e-12 if rho != 8 else 1e-11)


def table_is_spread(table) -> bool:
    """Returns whether the least visited state has less than a tenth of the visits: above the cap, at inf."""
    return table.numbers()["worst_ratio"] > 10


def test_the_elliptical_bonus_is_the_case_rho_1():
    phi = np.random.default_rng(0).normal(size=(500, 6)) * np.arange(1, 7)
    reward = rc.DensityReward(rc.Ellipse(), 1.0, cap=1e6)
    reward.add(phi)
    ridge = 6 * (phi**2).sum() / len(phi)  # k times the mean squared length
    bonus = np.einsum("mi,ij,mj->m", phi, np.linalg.inv(phi.T @ phi + ridge * np.eye(6)), phi)
    assert 1 + (1e6 - 1) * reward.reward_of(phi) == pytest.approx(bonus / bonus.mean(), rel=1e-8)


@pytest.mark.parametrize("with_mu", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.5, 1.0, 2.0, 5.0, math.inf])
def test_the_mean_over_the_visits_is_exactly_one(rho, with_mu):
    rng = np.random.default_rng(0)
    phi, mu = rng.normal(size=(400, 5)), rng.normal(size=(50, 5)) if with_mu else None
    reward = rc.DensityReward(rc.Ellipse(), rho, mu, cap=1e9)
    reward.add(phi)
    r = 1 + (1e9 - 1) * reward.reward_of(phi)
    if rho == 0:
        assert r.mean() >= 1 - 1e-6  # what is below 0 is paid as 0
    else:
        assert r.mean() == pytest.approx(1, rel=1e-6)


def sandwiched(N: np.ndarray, M: np.ndarray, rho: float) -> float:
    """Returns tr (N^1/2 M^-s N^1/2)^rho, whose derivative is the gradient; tr N log M at rho = 1."""

    def power(A, order):
        a, V = np.linalg.eigh(A)
        return V @ (a[:, None] ** order * V.T)

    if rho == 1:
        m, V = np.linalg.eigh(M)
        return -float(np.trace(N @ V @ (np.log(m)[:, None] * V.T)))
    if rho < 0.5:
        return -float(np.trace(power(N, rho) @ power(M, 1 - rho)))
    root, s = power(N, 0.5), (rho - 1) / rho
    return math.copysign(float(np.trace(power(root @ power(M, -s) @ root, rho))), rho - 1)


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.8, 1.0, 2.0, 3.5])
def test_the_gradient_is_the_derivative_of_the_divergence(rho):
    rng, step = np.random.default_rng(0), 1e-5
    X, Y, phi = rng.normal(size=(40, 4)), rng.normal(size=(30, 4)), rng.normal(size=(6, 4))
    M, N = X.T @ X / (X**2).sum(), Y.T @ Y / (Y**2).sum()
    own, V = np.linalg.eigh(M)
    r = Directions(V, np.ones(4, bool), own, own, 1.0).weighted(rho, N)(phi)
    slopes = [
        (sandwiched(N, M - step * np.outer(f, f), rho) - sandwiched(N, M + step * np.outer(f, f), rho))
        / (2 * step)
        for f in phi
    ]
    assert r / r[0] == pytest.approx(np.array(slopes) / slopes[0], rel=1e-5)


def test_a_direction_that_was_never_seen_is_paid_one():
    reward = rc.DensityReward(rc.Ellipse(ridge=0.0), 2.0)
    reward.add([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    assert reward.reward_of([[1.0, 0.0, 0.001]]).tolist() == [1.0]
    assert reward.numbers() == {"visits": 3, "worst_ratio": math.inf}


# Wrappers.


def test_the_wrapper_pays_for_where_a_step_leads():
    env = rc.CoverageReward(gym.make("MountainCarContinuous-v0"), 1.0, density=rc.Neighbours())
    alone = rc.DensityReward(rc.Neighbours(), 1.0)
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(300):
        observation, reward, *_, info = env.step(env.action_space.sample())
        assert reward == info["coverage_reward"] == alone.visit([observation])[0]
    places = random_points(5, 2)
    assert env.reward_of(places) == pytest.approx(alone.reward_of(places), abs=0)
    assert env.coverage_numbers() == alone.numbers()
    assert not hasattr(env, "visits")
    with pytest.raises(InvalidArgumentError, match="Pass `states` as well"):
        env.visits  # noqa: B018


def test_a_step_after_the_end_pays_nothing_and_counts_nothing():
    env = rc.CoverageReward(gym.make("CliffWalking-v1", max_episode_steps=3), density=rc.Neighbours())
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(3)][-1]
    assert env.coverage_numbers()["visits"] == 3
    assert env.step(0)[1] == 0.0
    assert env.coverage_numbers()["visits"] == 3


def test_the_vector_wrapper_pays_all_by_the_visits_before_the_step():
    """A step that ends an episode is paid for its last observation, not for the first of the next episode."""
    mode = gym.vector.AutoresetMode.SAME_STEP
    make = functools.partial(gym.make, "CliffWalking-v1", max_episode_steps=20)
    paid = rc.CoverageRewardVector(
        gym.vector.SyncVectorEnv([make] * 2, autoreset_mode=mode), 1.0, density=int
    )
    table = rc.DensityReward(int, 1.0)
    paid.reset(seed=0)
    paid.action_space.seed(0)
    for _ in range(100):
        led_to, rewards, _, _, infos = paid.step(paid.action_space.sample())
        over = infos.get("_final_obs", [False] * 2)
        rows = [int(infos["final_obs"][k]) if over[k] else int(led_to[k]) for k in range(2)]
        assert rewards == pytest.approx(table.visit(rows), abs=0)
    assert paid.coverage_numbers() == table.numbers()


def test_a_call_that_only_resets_a_sub_environment_is_not_paid():
    make = functools.partial(gym.make, "CliffWalking-v1", max_episode_steps=3)
    paid = rc.CoverageRewardVector(gym.vector.SyncVectorEnv([make] * 2), 1.0, density=rc.Neighbours())
    paid.reset(seed=0)
    rewards = [paid.step(np.zeros(2, int))[1].tolist() for _ in range(4)]
    assert rewards[-1] == [0.0, 0.0]
    assert paid.coverage_numbers() == {"visits": 6}


def test_with_states_the_visits_are_counted_as_well():
    env = rc.CoverageReward(gym.make("MountainCar-v0"), states=rc.Bins(6), density=rc.Neighbours())
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(60):
        env.step(env.action_space.sample())
    numbers = env.coverage_numbers()
    assert env.visits.num_steps == numbers["visits"] == 60
    assert numbers["pairs_visited"] == env.visits.num_pairs
    assert numbers["worst_ratio"] == env.visits.worst_ratio()


def test_pairs_are_relabelled_by_the_present_counts():
    env = rc.CoverageReward(gym.make("CliffWalking-v1"), rho=2.0)
    state, _ = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(200):
        action = env.action_space.sample()
        (expected,) = env.reward_of([state], [action])
        state, reward, *_ = env.step(action)
        assert reward == expected
    assert env.reward_of([47], [0]).tolist() == [1.0]  # never visited
    with pytest.raises(InvalidArgumentError, match="`actions` must be the actions taken there"):
        env.reward_of([36])


def test_a_dictionary_of_columns_is_read_row_by_row():
    reward = rc.DensityReward(rc.Neighbours(k=4, of="place"), 1.0)
    places = random_points(100, 2)
    reward.add({"place": places, "other": np.zeros(100)})
    assert reward.reward_of({"place": places[:3]}).shape == (3,)


def test_the_arguments_of_the_wrapper_are_recorded():
    env = rc.CoverageReward(gym.make("MountainCar-v0"), density=rc.Neighbours(k=25))
    assert env.spec is not None
    again = gym.make(env.spec)
    assert isinstance(again, rc.CoverageReward)
    assert again.spec is not None
    kwargs: Any = again.spec.additional_wrappers[-1].kwargs
    assert kwargs["density"] == rc.Neighbours(k=25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"density": 3}, "`density` must be rc.Neighbours"),
        ({"density": rc.Net()}, "`density` must be rc.Neighbours"),
        ({"density": rc.Neighbours(), "rho": math.inf}, "`rho` must be at most 16 with Neighbours"),
        ({"density": rc.Neighbours(), "rho": -1.0}, r"`rho` must be in \[0, inf\]"),
        ({"density": rc.Neighbours(), "cap": 1.0}, "`cap` must be above 1"),
        ({"density": rc.Neighbours(), "mu": np.zeros((4, 2))}, "at least k of them"),
        ({"density": rc.Ellipse(), "mu": lambda z: 1.0}, "`mu` must be an array of observations"),
        ({"density": rc.Ellipse(), "mu": np.zeros((4, 2))}, "not all 0"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(InvalidArgumentError, match=message):
        rc.DensityReward(**given)


@pytest.mark.parametrize("density", [rc.Neighbours(), rc.Ellipse()])
@pytest.mark.parametrize("observations", [[[0.0, math.nan]], [[1.0, 2.0, 3.0]], 7, "text", [["a", "b"]]])
def test_observations_that_are_not_points_are_refused(density, observations):
    reward = rc.DensityReward(density, 1.0)
    reward.add(random_points(30, 2))
    with pytest.raises(InvalidArgumentError):
        reward.reward_of(observations)


def test_weights_that_are_none_are_refused():
    reward = rc.DensityReward(rc.Neighbours(), 1.0, lambda z: -1.0)
    with pytest.raises(InvalidArgumentError, match=r"mu\(observation\)` must be non-negative"):
        reward.add([[0.0]])
