"""Nets: first fit, exact and for good; where they come from and go to."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.environments.encoding import read_state_code, state_code_from_document
from rhocover.environments.encoding.nets import STEPS_PER_RADIUS
from rhocover.errors import InvalidArgumentError, InvalidDataError, RhocoverWarning
from tiers import tiered


def points(size: int, dimensions: int, seed: int = 0) -> np.ndarray:
    """Returns points of a surface in so many dimensions."""
    rng = np.random.default_rng(seed)
    flat = rng.random((size, min(dimensions, 2)))
    if dimensions <= 2:
        return flat
    return np.tanh(flat @ rng.normal(size=(2, dimensions))) + 0.1 * rng.random((size, dimensions))


def by_brute_force(values: np.ndarray, radius: float) -> list[int]:
    leaders, keys = [], []
    for x in values:
        near = [k for k, leader in enumerate(leaders) if ((leader - x) ** 2).sum() <= radius * radius]
        if not near:
            leaders.append(x)
        keys.append(near[0] if near else len(leaders) - 1)
    return keys


@pytest.mark.parametrize("dimensions", tiered([1, 2, 3, 4, 32], short=[2, 32]))
def test_the_oldest_leader_within_the_radius_wins(dimensions):
    values = points(600, dimensions)
    radius = 0.15 if dimensions < 4 else 0.5
    net = rc.Net(radius).fit(values[:50])
    assert net.keys(values).tolist() == by_brute_force(values, radius)
    assert 3 < net.num_leaders < 500


def test_no_key_changes_as_the_net_grows_and_one_by_one_is_as_all_at_once():
    values = points(3000, 2)
    net = rc.Net(0.05).fit(values)
    one_by_one = [net.key(x) for x in values]
    assert net.num_leaders > 200
    assert net.keys(values).tolist() == one_by_one
    assert rc.Net(0.05).fit(values).keys(values).tolist() == one_by_one


def test_leaders_are_apart_and_observations_near_theirs():
    values = points(2000, 4)
    net = rc.Net(0.3).fit(values)
    keys = net.keys(values)
    gaps = np.sqrt(((net.leaders[:, None] - net.leaders[None]) ** 2).sum(axis=2))
    assert gaps[np.triu_indices(net.num_leaders, 1)].min() > 0.3
    assert np.sqrt(((values - net.leaders[keys]) ** 2).sum(axis=1)).max() <= 0.3


def test_a_stored_net_gives_the_same_keys_and_goes_on_growing():
    values = points(1000, 32)
    net = rc.Net(0.4).fit(values)
    keys = net.keys(values)
    again = state_code_from_document(json.loads(json.dumps(net.document())), None)
    assert again.keys(values).tolist() == keys.tolist()
    assert again.keys(values + 10)[0] == net.num_leaders


def test_a_copy_grows_for_itself():
    net = rc.Net(0.1).fit(points(10, 2))
    net.keys(points(10, 2))
    before = net.num_leaders
    code = read_state_code(net, gym.spaces.Box(0, 9, (2,)))
    assert code.key(np.array([5.0, 5.0])) == before
    assert net.num_leaders == before


def test_the_radius_follows_the_steps_that_move():
    values = np.cumsum(np.array([[0.0, 0], [0.2, 0], [0, 0], [0, 0.2], [0, 0], [0.2, 0]]), axis=0)
    assert rc.Net().fit(values).radius == pytest.approx(STEPS_PER_RADIUS * 0.2)
    with pytest.raises(InvalidArgumentError, match="observations that change"):
        rc.Net().fit(np.zeros((5, 2)))


def test_fields_components_and_functions_choose_what_is_compared():
    seen = [
        {"position": np.array([x, 0.0]), "goal": np.array([9.0]), "note": "text"} for x in (0.0, 1.0, 5.0)
    ]
    assert rc.Net(2.0, of="position").fit(seen).keys(seen).tolist() == [0, 0, 1]
    assert rc.Net(2.0, of=lambda o: o["position"][:1]).fit(seen).keys(seen).tolist() == [0, 0, 1]
    with pytest.warns(RhocoverWarning, match="'note'") as warned:
        code = rc.Net(2.0).fit(seen)
    assert code.keys(seen).tolist() == [0, 0, 1]
    assert len(warned) == 1
    assert code.leaders.shape[1] == 3
    assert rc.Net(2.0, of=[1]).fit(np.arange(6.0).reshape(3, 2)).leaders.shape == (0, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rc.Net(0.0), "`radius`"),
        (lambda: rc.Net("large"), "`radius`"),
        (lambda: rc.Net(of=[]), "`of`"),
        (lambda: rc.Net(rollout_steps=1), "`rollout_steps`"),
        (lambda: rc.Net(1.0).fit([[1.0, 2.0]]), "`observations`"),
        (lambda: rc.Net(1.0).fit(points(9, 2)).key(np.array([np.nan, 0.0])), "nan"),
        (lambda: rc.Net(1.0).fit(points(9, 2)).key(np.zeros(3)), "3 numbers"),
        (lambda: rc.Net(1.0, of=[7]).fit(points(9, 2)), "`of`"),
        (lambda: rc.Net(1.0, of="goal").fit([{"x": 1.0}, {"x": 2.0}]), "'goal' is no field"),
        (lambda: read_state_code(rc.Net(), gym.spaces.Box(0, 1, (2,))), "fitted"),
    ],
)
def test_what_is_wrong_is_named(make, words):
    with pytest.raises(InvalidArgumentError, match=words):
        make()


@pytest.mark.parametrize(
    "change",
    [{"leaders": "no base64!"}, {"leaders": "AAAA"}, {"radius": -1.0}, {"projection": []}, {"of": "f.g"}],
)
def test_a_damaged_document_is_refused(change):
    net = rc.Net(0.3).fit(points(50, 2))
    net.keys(points(50, 2))
    with pytest.raises(InvalidDataError):
        state_code_from_document(net.document() | change, None)


class Corridor(gym.Env):
    """A point in a corridor of length 8 and width 1, shown as its position; eight directions and standing still."""

    observation_space = gym.spaces.Box(0, 8, (2,), np.float64)
    action_space = gym.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([0.5, 0.5])
        return self.at.copy(), {}

    def step(self, action):
        angle = action * np.pi / 4
        move = 0.2 * np.array([np.cos(angle), np.sin(angle)]) * (action < 8)
        self.at = np.clip(self.at + move, 0, [8, 1])
        return self.at.copy(), 0.0, False, False, {}


def test_a_run_over_a_net_visits_every_part_of_a_corridor():
    run = rc.explore(Corridor(), 2.0, 4_000, model="from_scratch", states=rc.Net(), seed=1)
    assert run.num_steps == 4_000
    assert "whether there are others is not known" in str(run)


def test_a_collection_over_a_net_is_audited_by_its_own_codes(tmp_path):
    data = rc.collect(
        Corridor(), 2.0, 600, model="from_scratch", states=rc.Net(0.5), out=tmp_path / "c", seed=1
    )
    sheet = json.loads((tmp_path / "c" / "datasheet.json").read_text())
    assert '"kind": "net"' in json.dumps(sheet)
    assert rc.audit(tmp_path / "c").tally.num_steps == data.num_steps


STEP = 0.1


def test_a_net_that_is_not_fitted_takes_its_radius_from_the_steps_of_the_data(tmp_path) -> None:
    line = np.arange(0, 40) * STEP
    order = np.random.default_rng(0).permutation(39)  # rows need not be in the order of time
    data = {
        "observations": line[:-1, None][order], "actions": np.zeros(39, int),
        "next_observations": line[1:, None][order], "terminals": np.zeros(39, bool),
    }  # fmt: skip
    found = rc.audit(data, states=rc.Net())
    by_hand = rc.audit(data, states=rc.Net(2.5 * STEP).fit(line[:, None]))
    assert found.counts.tolist() == by_hand.counts.tolist()
    hashed = rc.audit(data, states=rc.SimHash(4))
    assert hashed.tally.num_states == 2  # a line has two directions from its middle
    car = gym.make("MountainCar-v0")
    rc.collect(car, 2, 300, states=rc.Bins(4), model="learned", out=tmp_path / "car")
    again = rc.audit(tmp_path / "car", states=rc.Net())
    assert again.num_steps == 300
    assert again.tally.num_states > 5


def test_wrappers_and_vectors_fit_a_net_in_a_copy_of_the_environment() -> None:
    env = gym.make("MountainCar-v0")
    env.reset(seed=4)
    before = env.unwrapped.state.copy()
    counted = rc.CountVisits(env, states=rc.Net(rollout_steps=200))
    assert env.unwrapped.state.tolist() == before.tolist()  # the copy was stepped
    counted.reset(seed=0)
    counted.step(0)
    assert counted.visits.num_steps == 1
    make = lambda mode="sync": gym.make_vec("MountainCar-v0", 2, vectorization_mode=mode)  # noqa: E731
    paid = rc.CoverageRewardVector(make(), states=rc.Net(rollout_steps=200))
    paid.reset(seed=0)
    paid.step(np.zeros(2, int))
    assert paid.visits.num_steps == 2
    run = rc.explore(make(), 2, 100, states=rc.Net(rollout_steps=200), model="from_scratch")
    assert run.tally.num_states > 1


class NoCopy(gym.Wrapper):
    def __deepcopy__(self, memo):
        raise TypeError("a handle cannot be copied")


def test_an_environment_that_cannot_be_copied_needs_a_fitted_net() -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not fitted yet: call its .fit"):
        rc.CountVisits(NoCopy(gym.make("MountainCar-v0")), states=rc.Net())
