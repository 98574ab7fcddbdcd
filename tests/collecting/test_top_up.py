"""top_up(): what it promises can be had, what it collects keeps the promise, and the old data stays as it is."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from lake_walks import INF, NAMES, is_a_sentence, lake, model_steps, random_steps
from toy_environments import CAR, Failing

import rhocover as rc
from frames import Frame
from rhocover.datasets import read_tally
from rhocover.errors import InvalidDataError, NotCommunicatingError
from tiers import tiered

pytestmark = pytest.mark.usefixtures("small_parts")


# --- the policy alone ----------------------------------------------------------------------------------


def check_promise(found: rc.TopUp) -> None:
    """The policy can be played, and what is promised is what its shares add up to."""
    promise, before = found.predicted, found.before
    assert found.policy.shape == promise.psi.shape == before.counts.shape
    assert found.policy.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert found.policy.min() >= 0
    assert promise.psi.sum() == pytest.approx(1, abs=1e-9)
    mass = promise.psi.sum(axis=1, keepdims=True)
    seen = mass[:, 0] > 0
    assert found.policy[seen] == pytest.approx((promise.psi / np.where(mass > 0, mass, 1))[seen], abs=1e-9)
    assert 0 <= promise.gap < 1e-4
    assert found.after is None
    assert found.collection is None
    assert str(found) == repr(found) == found.verdict
    assert is_a_sentence(found.verdict)


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, 8, INF], short=[2]))
def test_the_promise_is_the_worth_of_the_old_visits_and_the_new_ones(walked, rho):
    found = rc.top_up(walked, num_steps=1000, rho=rho)
    check_promise(found)
    union = found.before.counts + 1000 * found.predicted.psi
    coverage = rc.Coverage(rho, np.ones(union.shape))
    shares = union / union.sum()
    assert found.predicted.divergence == pytest.approx(coverage.divergence(shares), abs=1e-9)
    assert found.predicted.worst_ratio == pytest.approx(coverage.worst_ratio(shares), rel=1e-9)
    assert found.predicted.least_visits == pytest.approx(union.min(), rel=1e-9)
    assert found.before.divergence > found.predicted.divergence


@pytest.mark.parametrize("rho", [1, 2, INF])
def test_no_other_policy_promises_more(walked, rho):
    """Neither the best plan nor random ones, on the model that the data shows."""
    found = rc.top_up(walked, num_steps=1000, rho=rho)
    plan = found.before.best
    members, rng = rc.Occupancies.average(plan.mdp), np.random.default_rng(0)
    policies = [plan.policy, *(rng.dirichlet(np.ones(4), 11) for _ in range(20))]
    coverage = rc.Coverage(rho, np.ones((11, 4)))
    for policy in policies:
        union = found.before.counts + 1000 * members.table(members.from_policy(policy))
        other = coverage.divergence(union / union.sum())
        assert other >= found.predicted.divergence - found.predicted.gap


def test_ever_more_steps_promise_what_a_fresh_collection_would(walked):
    last = INF
    for num_steps in (10, 10**3, 10**5, 10**9):
        found = rc.top_up(walked, num_steps=num_steps, rho=INF)
        assert found.predicted.worst_ratio <= last * (1 + 1e-9)
        last = found.predicted.worst_ratio
    assert last == pytest.approx(found.fresh_worst_ratio, rel=1e-5)
    assert found.fresh_worst_ratio == found.before.best.worst_ratio
    assert found.fresh_least_visits == pytest.approx(10**9 / 44 / found.fresh_worst_ratio)


def test_the_same_data_in_any_clothes_gives_the_same_policy(walked, tmp_path):
    """Arrays, a mapping, files, and counts that were made before."""
    np.savez(tmp_path / "walk.npz", **dict(zip(NAMES, walked, strict=True)))
    lines = [",".join(NAMES), *(",".join(str(int(x)) for x in row) for row in zip(*walked, strict=True))]
    (tmp_path / "walk.csv").write_text("\n".join(lines) + "\n", "utf-8")
    bare = rc.top_up(walked, num_steps=300)
    for data in (
        dict(zip(NAMES, walked, strict=True)), tmp_path / "walk.npz", str(tmp_path / "walk.csv"),
        read_tally(walked), bare.before,
    ):  # fmt: skip
        found = rc.top_up(data, num_steps=300)
        check_promise(found)
        assert found.policy == pytest.approx(bare.policy, abs=1e-12)
        assert found.predicted.divergence == pytest.approx(bare.predicted.divergence, abs=1e-12)


@pytest.mark.parametrize(
    "names",
    [
        ("state", "action", "next_state"),
        ("states", "actions", "next_states"),
    ],
)
def test_a_data_frame_is_taken_whatever_its_columns_are_called(walked, names):
    frame = Frame(**dict(zip((*names, "terminated", "truncated"), walked, strict=True)))
    assert rc.audit(frame).verdict == rc.audit(walked).verdict
    assert rc.top_up(frame, num_steps=300).verdict == rc.top_up(walked, num_steps=300).verdict


def test_a_collection_its_folder_and_its_data_set_are_the_same_data(tmp_path):
    old = rc.collect(lake(), 2.0, 600, out=tmp_path / "old")
    whole = rc.top_up(old, num_steps=300)
    check_promise(whole)
    for data in (old.path, str(old.path), old.load(), old.tally):
        found = rc.top_up(data, num_steps=300)
        assert found.policy == pytest.approx(whole.policy, abs=1e-12)
        assert found.before.counts.sum() == 600


def test_a_collection_knows_how_its_observations_were_counted(tmp_path):
    env = gym.make("MountainCar-v0")
    old = rc.collect(env, 2.0, 400, out=tmp_path / "old", states=CAR, model="learned")
    found = rc.top_up(old, num_steps=300)
    check_promise(found)
    assert found.before.tally.met_keys == old.tally.keys
    assert rc.top_up(old.path, num_steps=300, states=CAR).policy == pytest.approx(found.policy, abs=1e-12)


def test_a_path_says_how_its_observations_were_counted_as_its_collection_does(tmp_path):
    env, path = gym.make("Pendulum-v1"), tmp_path / "old"
    old = rc.collect(env, 2.0, 300, model="learned", states=rc.Bins(3), actions=3, out=path)
    by_object = rc.top_up(old, env, 200, out=tmp_path / "a")
    by_path = rc.top_up(str(path), env, 200, out=tmp_path / "b")
    assert by_path.after is not None
    np.testing.assert_array_equal(by_path.after.tally.counts, by_object.after.tally.counts)


def test_weights_move_the_policy_to_where_they_are(walked):
    mu = np.ones((16, 4))
    mu[14] = 100.0
    found = rc.top_up(walked, num_steps=2000, mu=mu)
    even = rc.top_up(walked, num_steps=2000)
    mass = [top.predicted.psi[top.before.tally.number_of[14]].sum() for top in (found, even)]
    assert mass[0] > mass[1]


# --- on a model that is given --------------------------------------------------------------------------


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
def test_on_a_model_the_promise_is_about_every_pair_of_it(rho):
    """Also about those that the data has never seen: after a few steps near the bank most are missing."""
    mdp = rc.envs.river_swim()
    found = rc.top_up(model_steps(mdp, 20), mdp, num_steps=10**4, rho=rho)
    check_promise(found)
    assert found.before.is_exact
    assert not found.before.is_complete
    members = rc.Occupancies.average(mdp)
    psi = members.flatten(found.predicted.psi, "psi")
    assert members.contains(psi, tol=1e-9)
    assert members.from_policy(found.policy) == pytest.approx(psi, abs=1e-6)
    if rho > 0:
        assert found.predicted.least_visits > 0


def two_parts() -> rc.MDP:
    """State 0 leads away for ever; 1 and 2 form one part, 3 another."""
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 3] = 1.0
    P[1, 0, 2] = P[1, 1, 1] = 1.0
    P[2, 0, 1] = P[2, 1, 2] = 1.0
    P[3, :, 3] = 1.0
    return rc.MDP(P)


@pytest.mark.parametrize("rho", tiered([0, 0.5, 1, 2, INF], short=[2]))
def test_on_a_model_of_two_parts_the_promise_can_be_had_or_is_refused(rho):
    """The data went from 0 to the part {1, 2}, which no policy leaves again."""
    mdp, states = two_parts(), [0] + [1, 2] * 100
    data = (states, [0] * 201, [*states[1:], 1], [False] * 201)
    try:
        found = rc.top_up(read_tally(data, num_actions=2), mdp, num_steps=100, rho=rho)
    except (NotCommunicatingError, InvalidDataError):
        return
    assert rc.Occupancies.average(mdp).contains(found.predicted.psi, tol=1e-9)
    assert np.isfinite(found.predicted.worst_ratio)
    assert found.predicted.worst_ratio < 1e6


def test_data_of_another_model_is_refused():
    mdp = rc.envs.river_swim()
    with pytest.raises(InvalidDataError, match="another environment"):
        rc.top_up(([0, 5], [0, 1], [5, 0], [False, False]), mdp, num_steps=10)  # from bank to bank at once
    with pytest.raises(InvalidDataError, match="6 states"):
        rc.top_up(([0, 6], [0, 1], [6, 0], [False, False]), mdp, num_steps=10)
    with pytest.raises(InvalidDataError, match=r"got 2 in row 1.* another environment"):
        rc.top_up(([0, 0], [0, 2], [0, 0], [False, False]), mdp, num_steps=10)


@pytest.mark.parametrize("rho", [0, 2, INF])
def test_without_a_folder_an_environment_with_a_table_is_a_model(walked, tmp_path, rho):
    """The same promise as before collecting in it, and nothing is stepped."""
    env = Failing(lake(), 1)
    found = rc.top_up(walked, env, num_steps=300, rho=rho)
    check_promise(found)
    assert env.num_steps == 0
    done = rc.top_up(walked, lake(), 300, rho, out=tmp_path / "new")
    assert np.array_equal(found.before.counts, done.before.counts)
    assert found.predicted.divergence == pytest.approx(done.predicted.divergence, abs=1e-9)
    assert found.policy == pytest.approx(done.policy, abs=1e-6)


def test_a_model_of_a_table_does_not_take_the_numbers_of_the_environment_for_its_own(walked):
    """It numbers its states anew, so data by the environment's numbers is refused, not mistaken."""
    with pytest.raises(InvalidDataError, match="another environment"):
        rc.top_up(walked, rc.MDP.from_gymnasium(lake()), num_steps=300)


# --- what was never tried ------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0, 2, INF])
def test_a_promise_on_what_was_seen_does_not_speak_of_what_was_never_tried(rho):
    """Without a model nothing can be planned for untried pairs: figures are over the others, and it says so."""
    data = read_tally(random_steps(lake(), 2000, actions=3), num_actions=4)
    found = rc.top_up(data, num_steps=500, rho=rho)
    tried = found.before.counts > 0
    assert found.before.num_missing == (~tried).sum() > 0
    assert found.predicted.num_pairs == tried.sum()
    assert not found.predicted.psi[~tried].any()
    old, new = found.before.counts, found.before.counts + 500 * found.predicted.psi
    seen = rc.Coverage(rho, np.ones(tried.sum()))
    old, new = (table[tried] / table.sum() for table in (old, new))
    assert found.predicted.before_divergence == pytest.approx(seen.divergence(old), abs=1e-12)
    assert found.predicted.divergence == pytest.approx(seen.divergence(new), abs=1e-9)
    assert found.predicted.before_worst_ratio == pytest.approx(seen.worst_ratio(old))
    assert f"over the {tried.sum()} pairs that were tried; {(~tried).sum()} others" in found.verdict
    assert "infinite" not in found.verdict


@pytest.mark.parametrize("rho", [1, 2, INF])
def test_on_a_table_the_promise_is_about_what_was_never_tried_too(rho):
    data = read_tally(random_steps(lake(), 2000, actions=3), num_actions=4)
    found = rc.top_up(data, lake(), num_steps=500, rho=rho)
    assert found.before.is_exact
    assert found.predicted.num_pairs == 44
    assert found.predicted.least_visits > 0
    assert found.predicted.psi[:, 3].min() > 0
    assert np.isfinite(found.predicted.divergence)
    assert is_a_sentence(found.verdict)
