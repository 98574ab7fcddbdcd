"""Audits, top-ups, collections, bins and wrappers: what was counted by hand is what they count."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_tools import about, few, many, seeds

import rhocover as rc
from rhocover.environments.encoding import read_state_code
from rhocover.environments.encoding.training import _untrained
from rhocover.errors import MissingExtraError, RhocoverError
from rhocover.files import load_tensors

orders = st.sampled_from([0.5, 1.0, 2.0, float("inf")])


@st.composite
def data_sets(draw):
    """Draws consecutive transitions with ends."""
    rng = np.random.default_rng(draw(seeds))
    num_rows, num_states, num_actions = (
        draw(st.integers(1, 60)),
        draw(st.integers(1, 5)),
        draw(st.integers(1, 3)),
    )
    s, s_next = rng.integers(0, num_states, (2, num_rows))
    done = rng.random(num_rows) < 0.2
    s[1:] = np.where(done[:-1], s[1:], s_next[:-1])
    return s, rng.integers(0, num_actions, num_rows), s_next, done


@about("audit", "Audit")
@many
@given(data_sets(), orders)
def test_an_audit_counts_what_is_there(data, rho):
    found = rc.audit(data, rho)
    assert isinstance(found, rc.Audit)
    counted = Counter(zip(data[0].tolist(), data[1].tolist(), strict=True))
    for (state, action), count in counted.items():
        assert found.counts[found.tally.keys.index(state), action] == count
    assert found.counts.sum() == data[0].size == found.num_steps
    assert found.occupancy.sum() == pytest.approx(1)
    assert found.num_missing == (found.counts[found.weights > 0] == 0).sum()
    assert (found.divergence == np.inf) == (found.num_missing > 0 and rho >= 1)
    assert found.visited_divergence <= found.divergence + 1e-12
    if found.num_missing == 0:
        assert found.meets(worst_ratio=found.worst_ratio)
        assert not found.meets(worst_ratio=0.999 * found.worst_ratio)
    assert found.verdict.endswith(".")
    json.dumps(found.summary())


@about("audit")
@few
@given(data_sets(), orders)
def test_an_audit_comes_back_from_its_file(tmp_path_factory, data, rho):
    found = rc.audit(data, rho, best=False)
    path = tmp_path_factory.mktemp("audits") / "audit.rhocover"
    found.save(path)
    tensors, document = load_tensors(path, "audit")
    assert tensors["counts"].tobytes() == np.ascontiguousarray(found.counts).tobytes()
    assert document["verdict"] == found.verdict


@about("top_up", "TopUp")
@few
@given(data_sets(), st.integers(1, 500), orders)
def test_a_top_up_promises_no_less_than_there_is(data, num_steps, rho):
    found = rc.top_up(data, num_steps=num_steps, rho=rho)
    assert isinstance(found, rc.TopUp)
    assert found.num_steps == num_steps
    assert found.collection is None
    assert found.policy.sum(axis=1) == pytest.approx(1, abs=1e-9)
    assert found.before.num_steps == data[0].size
    assert found.verdict.endswith(".")
    json.dumps(found.summary())


# --- environments --------------------------------------------------------------------------------------


@about("collect", "Collection")
@pytest.mark.parametrize("seed", range(3))
def test_a_collection_is_its_own_data_set(seed, tmp_path):
    lake = gymnasium.make("FrozenLake-v1")
    found = rc.collect(lake, 2.0, 60, out=tmp_path / "lake", seed=seed)
    assert isinstance(found, rc.Collection)
    assert found.tally.num_steps == 60 == found.audit.counts.sum()
    again = rc.audit(found)
    assert again.counts.tobytes() == rc.audit(tmp_path / "lake").counts.tobytes()
    assert found.load().count_rows() == 60
    json.dumps(found.summary())
    with pytest.raises(RhocoverError, match="`out`"):
        rc.collect(lake, 2.0, 60, out=tmp_path / "lake", seed=seed)


@about("Bins")
@many
@given(st.lists(st.integers(1, 9), min_size=2, max_size=2), seeds)
def test_bins_are_where_they_say(counts, seed):
    space = gymnasium.spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 5.0]), dtype=np.float64)
    code = read_state_code(rc.Bins(counts), space)
    assert code.num_keys == np.prod(counts)
    points = np.random.default_rng(seed).uniform([-1, 0], [1, 5], (20, 2))
    cells = np.minimum(((points - [-1, 0]) / [2, 5] * counts).astype(int), np.array(counts) - 1)
    expected = cells[:, 0] * counts[1] + cells[:, 1]
    found = [code.key(point) for point in points]
    near = np.abs((points - [-1, 0]) / [2, 5] * counts - np.round((points - [-1, 0]) / [2, 5] * counts)).min(
        axis=1
    )
    assert [key for key, gap in zip(found, near, strict=True) if gap > 1e-9] == [
        key for key, gap in zip(expected.tolist(), near, strict=True) if gap > 1e-9
    ]


@about("QuantileBins")
@many
@given(st.integers(1, 6), st.integers(1, 80), seeds)
def test_quantile_bins_hold_equally_many(count, num_points, seed):
    points = np.random.default_rng(seed).normal(size=(num_points, 1))  # no two alike
    code = rc.QuantileBins(count).fit(points)
    held = Counter(code.key(point) for point in points)
    assert len(held) <= count
    assert sum(held.values()) == num_points
    if num_points >= count:
        assert max(held.values()) - min(held.values()) <= 1


@about("Net")
@many
@given(st.integers(1, 5), st.floats(0.05, 2), seeds)
def test_an_observation_is_near_its_leader_and_leaders_are_apart(dimensions, radius, seed):
    points = np.random.default_rng(seed).random((40, dimensions))
    net = rc.Net(radius).fit(points)
    keys = net.keys(points)
    assert (((points - net.leaders[keys]) ** 2).sum(axis=1) <= radius**2).all()
    gaps = ((net.leaders[:, None] - net.leaders[None]) ** 2).sum(axis=2)
    assert (gaps[np.triu_indices(net.num_leaders, 1)] > radius**2).all()


@about("SimHash", "RandomFeatures")
@many
@given(st.integers(1, 20), st.integers(1, 6), seeds)
def test_a_hash_depends_on_its_seed_and_the_direction_only(bits, dimensions, seed):
    points = np.random.default_rng(seed).normal(size=(10, dimensions))
    both = np.concatenate([points, -points])  # centred on 0
    code, other = (rc.SimHash(bits, of=of, seed=seed).fit(both) for of in (None, rc.RandomFeatures(3, seed)))
    for found in (code, other):
        assert found.keys(points).tolist() == found.keys(7.5 * points).tolist()
        assert found.keys(points).max() < 2**bits


@about("LearnedFeatures")
@many
@given(st.integers(1, 4), st.integers(1, 6), seeds)
def test_an_encoder_gives_the_same_bits_one_by_one_and_all_at_once(size, dimensions, seed):
    """Before training, which needs torch: tests/sb3."""
    points = np.random.default_rng(seed).normal(size=(9, dimensions))
    encoder = _untrained(rc.LearnedFeatures(size, seed=seed), points, np.random.default_rng(seed))
    features = encoder.many(points)
    assert features.shape == (9, size)
    assert np.array_equal(np.array([encoder(point) for point in points]), features)


@about("ImageCells")
@many
@given(st.integers(1, 5), st.integers(1, 5), st.integers(2, 256), seeds)
def test_a_brighter_image_has_no_lower_level(rows, columns, levels, seed):
    image = np.random.default_rng(seed).random((11, 9))
    code = rc.ImageCells((rows, columns), levels, brightest=1.0)
    dark, bright = (
        np.frombuffer(code.key(values), np.uint8) for values in (image, np.minimum(image + 0.1, 1))
    )
    assert dark.size == rows * columns
    assert (dark <= bright).all()
    assert bright.max() < levels


@about("ReadState")
@many
@given(st.lists(st.integers(0, 3), max_size=20), seeds)
def test_the_number_that_a_simulator_knows_counts_as_the_observation_of_it(actions, seed):
    plain = rc.CountVisits(gymnasium.make("CliffWalking-v1"))
    read = rc.CountVisits(rc.ReadState(gymnasium.make("CliffWalking-v1"), lambda cliff: int(cliff.s)))
    for env in (plain, read):
        env.reset(seed=seed)
        for action in actions:
            env.step(action)
    assert read.visits.counts.tolist() == plain.visits.counts.tolist()


@about("RepeatAction")
@many
@given(st.lists(st.integers(0, 3), max_size=10), st.integers(1, 4), seeds)
def test_an_action_that_is_repeated_is_the_action_taken_as_often(actions, repeat, seed):
    """The cliff has no end but the goal, and ten times four steps at random may reach it."""
    plain, held = (
        gymnasium.make("CliffWalking-v1"),
        rc.RepeatAction(gymnasium.make("CliffWalking-v1"), repeat),
    )
    plain.reset(seed=seed)
    held.reset(seed=seed)
    for action in actions:
        state, total, ended, _, _ = held.step(action)
        rewards = []
        for _ in range(repeat):
            found, reward, is_end, _, _ = plain.step(action)
            rewards.append(reward)
            if is_end:
                break
        assert (found, sum(rewards), is_end) == (state, total, ended)
        if ended:
            return


@about("CountVisits", "CoverageReward")
@few
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.sampled_from([0.0, 1.0, 2.0, float("inf")]),
    st.floats(0, 1),
)
def test_wrappers_count_every_step_and_pay_one_at_most(actions, rho, share):
    counted = rc.CountVisits(gymnasium.make("CliffWalking-v1"))
    paid = rc.CoverageReward(gymnasium.make("CliffWalking-v1"), rho, task_share=share)
    by_hand: Counter[tuple[int, int]] = Counter()
    state, _ = counted.reset(seed=0)
    paid.reset(seed=0)
    for action in actions:
        by_hand[int(state), action] += 1
        state, task, *_ = counted.step(action)
        _, reward, _, _, info = paid.step(action)
        assert info["task_reward"] == task
        assert -1 / 9 - 1e-12 <= info["coverage_reward"] <= 1  # -1/(cap - 1), cap = 10
        assert reward == pytest.approx((1 - share) * info["coverage_reward"] + share * task)
    assert counted.visits.as_dict() == dict(by_hand) == paid.visits.as_dict()


@about("CountVisitsVector", "CoverageRewardVector")
@few
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), orders)
def test_vector_wrappers_count_the_steps_of_all(actions, rho):
    def make():
        return gymnasium.make_vec("CliffWalking-v1", num_envs=2, vectorization_mode="sync")

    counted, paid = rc.CountVisitsVector(make()), rc.CoverageRewardVector(make(), rho)
    counted.reset(seed=0)
    paid.reset(seed=0)
    for pair in actions:
        counted.step(np.array(pair))
        rewards = paid.step(np.array(pair))[1]
        assert ((rewards >= -1 / 9 - 1e-12) & (rewards <= 1)).all()
    assert counted.visits.as_dict() == paid.visits.as_dict()
    assert sum(counted.visits.as_dict().values()) == 2 * len(actions)


@about("DensityReward", "Neighbours", "Ellipse")
@few
@given(st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0.01, 100), seeds)
def test_density_rewards_are_in_range_and_know_no_unit(dimensions, rho, unit, seed):
    points = np.random.default_rng(seed).normal(size=(200, dimensions))
    for density in (rc.Neighbours(k=16), rc.Ellipse()):
        one, other = rc.DensityReward(density, rho), rc.DensityReward(density, rho)
        one.add(points[:150])
        other.add(unit * points[:150])
        rewards = one.reward_of(points[150:])
        assert ((rewards >= -1 / 9 - 1e-12) & (rewards <= 1)).all()
        assert other.reward_of(unit * points[150:]) == pytest.approx(rewards, abs=1e-6)


@about("CoverageCallback", "CoverageReplayBuffer", "CoverageVecEnv")
@pytest.mark.skipif(find_spec("stable_baselines3") is not None, reason="the extra is installed")
@pytest.mark.parametrize("given_rho", [None, 0.0, 2.0])
def test_without_its_extra_the_callback_says_what_to_install(given_rho, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("stable_baselines3")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    for name in ("callbacks", "buffers", "vec_env"):
        monkeypatch.setitem(sys.modules, f"stable_baselines3.common.{name}", None)
    makers = (
        lambda: rc.CoverageCallback(rho=given_rho),
        lambda: rc.CoverageReplayBuffer(rc.DensityReward(rc.Neighbours())),
        lambda: rc.CoverageVecEnv(None, density=rc.Neighbours()),
    )
    for make in makers:
        with pytest.raises(MissingExtraError, match=r"pip install 'rhocover\[sb3\]'"):
            make()
