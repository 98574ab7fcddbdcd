"""A code that changes during a run: everything is counted as if the last one had been there all along.

Here encoders are random instead of trained, so that torch is not needed; tests/sb3 trains them.
"""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from toy_environments import Failing, contents, nested_ring

import rhocover as rc
from rhocover.collecting import log, refits, stepping
from rhocover.collecting.stepping import EnvironmentWorld
from rhocover.environments.encoding import training
from rhocover.environments.stepping import random_rollout
from rhocover.errors import EnvironmentFailedError, InvalidArgumentError
from tiers import tiered

NUM_STEPS, ROLLOUT = 900, 100


class Drift(gym.Env):
    """A point in a square that four actions push; its episodes end at the right side, or after 40 steps."""

    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(-1, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._at, self._time = self.np_random.uniform(0, 0.2, 2), 0
        return self._at.astype(np.float32), {}

    def step(self, action):
        self._time += 1
        push = 0.1 * np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][action])
        self._at = np.clip(self._at + push + self.np_random.normal(scale=0.02, size=2), 0, 1.1)
        return self._at.astype(np.float32), 0.0, bool(self._at[0] > 0.6), self._time == 40, {}


@pytest.fixture(autouse=True)
def random_encoders(monkeypatch):
    """Encoders with weights that depend on how much there is to train on, or that are always the same."""
    seeds = []

    def train(settings, arrays, actions):
        assert actions.shape == (len(arrays),)
        seeds.append(0 if settings.by == "inverse_dynamics" else len(arrays))
        rng = np.random.default_rng(seeds[-1])
        found = training._untrained(settings, arrays, rng)
        mean = np.zeros_like(found.mean)  # the same for all observations
        return type(found)(found.by, found.shape, mean, np.ones_like(mean), found.layers)

    monkeypatch.setattr(training, "train", train)
    monkeypatch.setattr(log, "ROUND", 64)
    monkeypatch.setattr(stepping, "BETWEEN", 50)
    return seeds


def learned(by: str = "temporal_distance", radius: float | str = "auto") -> rc.Net:
    return rc.Net(radius, of=rc.LearnedFeatures(2, by), rollout_steps=ROLLOUT)


@pytest.mark.parametrize("make", tiered([Drift, nested_ring]))
def test_a_refit_to_the_same_code_changes_nothing(make, monkeypatch):
    """States, transitions, starts, ends and the position, as they were counted step by step."""
    compared, plain = [], EnvironmentWorld.refit

    def facts(world, now):
        index, episodes = world._index.index, world.episodes
        moves = sorted(
            zip(index.leaves.tolist(), index.arrives.tolist(), now.seen.moves.tolist(), strict=True)
        )
        ends = dict(episodes.restarts), episodes.num_cut, list(episodes.end_keys), dict(episodes.starts)
        places = now.position.states.tolist(), now.first_states.tolist(), index.roots.tolist()
        kept = [(step, np.trim_zeros(counts, "b").tolist()) for step, counts in world._snapshots]
        return (
            list(world._index.numbers.items()),
            moves,
            ends,
            places,
            kept,
            now.num_steps,
            world._asked.states.num_leaders,
        )

    def refit(world, now):
        before = facts(world, now)
        is_new = plain(world, now)
        compared.append(before[-1])
        assert facts(world, now) == before
        return is_new

    monkeypatch.setattr(EnvironmentWorld, "refit", refit)
    run = rc.explore(make(), 2.0, NUM_STEPS, model="from_scratch", states=learned("inverse_dynamics", 0.3))
    assert run.refits == (200, 400, 800)
    assert min(compared) > 3


@pytest.mark.parametrize(
    "explorer", tiered(["feedback", "uniform_random", "algorithm1_short", "maxent"], short=2)
)
def test_a_run_is_counted_under_its_last_code(explorer, tmp_path, random_encoders):
    """The tally of the run is that of its stored observations under the stored code, which an audit applies."""
    model = "learned" if explorer in ("uniform_random", "maxent") else "from_scratch"
    found = rc.collect(
        Drift(), 2.0, NUM_STEPS, out=tmp_path / "out", states=learned(), model=model, explorer=explorer
    )
    assert found.run.refits == (200, 400, 800)
    assert len(set(random_encoders)) == 4
    tally = found.run.tally
    assert tally.num_steps == NUM_STEPS == found.tally.num_steps
    by_key = {
        key: tally.counts[row].tolist() for row, key in enumerate(tally.keys) if tally.counts[row].any()
    }
    for again in (found.tally, rc.audit(tmp_path / "out", 2.0).tally):
        assert {
            key: row.tolist() for key, row in zip(again.keys, again.counts, strict=True) if row.any()
        } == by_key
        assert again.num_truncated == tally.num_truncated
        assert again.ends.sum() == tally.ends.sum() > 0
    assert [int(row) for row in found.run.trace["steps"]][-1] == NUM_STEPS
    assert f"code fitted again at step 200, 400, 800; {found.run.num_states_met:,} codes" in str(found.run)
    assert json.loads((tmp_path / "out" / "datasheet.json").read_text())["settings"]["states"]["of"]["by"]


def test_a_collection_goes_on_to_the_same_bits_after_a_refit(tmp_path):
    settings = {"states": learned(), "model": "from_scratch"}
    rc.collect(Failing(Drift()), 2.0, NUM_STEPS, out=tmp_path / "whole", **settings)
    for at in (150, 450):
        out = tmp_path / f"broken-{at}"
        with pytest.raises(EnvironmentFailedError):
            rc.collect(Failing(Drift(), at + ROLLOUT), 2.0, NUM_STEPS, out=out, **settings)
        rc.collect(Failing(Drift()), 2.0, NUM_STEPS, out=out, resume=True, **settings)
        assert contents(out) == contents(tmp_path / "whole")


def test_a_top_up_goes_on_under_the_code_of_its_collection(tmp_path):
    found = rc.collect(Drift(), 2.0, NUM_STEPS, out=tmp_path / "out", states=learned(), model="from_scratch")
    more = rc.top_up(found, Drift(), 300, out=tmp_path / "more")
    assert more.after.tally.num_steps == NUM_STEPS + 300
    num = found.states.num_leaders
    assert np.array_equal(more.collection.states.leaders[:num], found.states.leaders)


class Ball(gym.Env):
    """A ball in a box that is pushed in eight directions: pushes to and fro hardly move it, others do."""

    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (2,), np.float64), gym.spaces.Discrete(8)
    PUSHES = 0.002 * np.array([(np.cos(k * np.pi / 4), np.sin(k * np.pi / 4)) for k in range(8)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._speed = np.full(2, 0.5), np.zeros(2)
        return self._place.copy(), {}

    def step(self, action):
        self._speed = 0.95 * self._speed + self.PUSHES[action]
        self._place = np.clip(self._place + self._speed, 0, 1)
        return self._place.copy(), 0.0, False, False, {}


@pytest.mark.filterwarnings("ignore:The codes are too fine")
def test_a_radius_that_is_too_small_to_plan_with_is_doubled(tmp_path):
    """A given radius is kept; the tally of the run is that of its stored observations under the last code."""
    settings = {"model": "from_scratch", "out": tmp_path / "out", "states": rc.Net(rollout_steps=300)}
    found = rc.collect(Ball(), 2.0, 3000, **settings)
    assert set(found.run.refits) <= {300, 600, 1200, 2400}
    assert found.run.refits
    first = rc.Net(rollout_steps=300).fit(random_rollout(Ball(), 300, 0)).radius
    assert np.log2(found.states.radius / first) in range(1, 8)
    counts = found.run.tally.counts
    assert np.count_nonzero(counts) >= counts.size / 3
    again = rc.audit(tmp_path / "out", 2.0).tally
    assert sorted(again.counts.sum(axis=1).tolist()) == sorted(counts.sum(axis=1).tolist())
    kept = rc.explore(Ball(), 2.0, 3000, model="from_scratch", states=rc.Net(radius=first))
    assert not kept.refits
    assert kept.tally.num_states > 2 * counts.shape[0]


def test_a_collection_goes_on_after_a_new_radius_to_the_same_bits(tmp_path):
    settings = {"states": rc.Net(rollout_steps=300), "model": "from_scratch"}
    whole = rc.collect(Failing(Ball()), 2.0, 1500, out=tmp_path / "whole", **settings)
    assert whole.run.refits
    with pytest.raises(EnvironmentFailedError):
        rc.collect(Failing(Ball(), 300 + 1000), 2.0, 1500, out=tmp_path / "out", **settings)
    rc.collect(Failing(Ball()), 2.0, 1500, out=tmp_path / "out", resume=True, **settings)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:The codes are too")
def test_a_radius_that_covers_most_of_the_world_is_halved():
    """With its first radius this run has a single code, in which it stays; its swings are small."""
    seen = rc.explore(
        gym.make("Acrobot-v1"), 2.0, 2500, model="from_scratch", states=rc.Net(of=angles), seed=1
    )
    assert seen.refits[0] == 1000
    assert seen.tally.num_states >= refits.HARDLY_ANY
    first = rc.Net(of=angles).fit(random_rollout(gym.make("Acrobot-v1"), 1000, 1))
    kept = rc.explore(gym.make("Acrobot-v1"), 2.0, 2500, model="from_scratch", states=first, seed=1)
    assert kept.tally.num_states == 1


@pytest.mark.filterwarnings("ignore:The codes are too")
def test_a_world_with_few_places_keeps_its_radius():
    class Two(gym.Env):
        """Two places, one action to stay and one to change."""

        observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self._at = 0.0
            return np.array([self._at], np.float32), {}

        def step(self, action):
            self._at = abs(self._at - action)
            return np.array([self._at], np.float32), 0.0, False, False, {}

    run = rc.explore(Two(), 2.0, 2500, model="from_scratch", states=rc.Net())
    assert run.tally.num_states == 2  # one with the first radius, which is 2.5 times the way between them
    assert run.refits == (1000,)


class Turning(gym.Env):
    """A car in a square: it always drives, and an action turns it to the left, to the right, or not at all."""

    observation_space, action_space = gym.spaces.Box(-1.0, 4.0, (4,), np.float64), gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._heading = np.full(2, 1.0), 0.0
        return self._shown(), {}

    def step(self, action):
        self._heading += 0.5 * (0, 1, -1)[action]
        move = 0.25 * np.array([np.cos(self._heading), np.sin(self._heading)])
        self._place = np.clip(self._place + move, 0, 4)
        return self._shown(), 0.0, False, False, {}

    def _shown(self):
        return np.array([*self._place, np.cos(self._heading), np.sin(self._heading)])


def test_a_radius_is_halved_when_there_are_steps_enough_for_finer_codes():
    """Codes as wide as a bend hide the heading: what an action does is then hardly known."""
    run, short = (
        rc.explore(Turning(), 2.0, num, model="from_scratch", states=rc.Net(rollout_steps=500))
        for num in (14_000, 9_000)
    )
    coarse = rc.Net(rollout_steps=500).fit(random_rollout(Turning(), 500, 0))
    kept = rc.explore(Turning(), 2.0, 14_000, model="from_scratch", states=coarse)
    assert run.refits
    assert not kept.refits
    assert run.tally.num_states > 2 * kept.tally.num_states
    assert run.tally.num_states * 3 * refits.PLENTY < 2 * 14_000  # not so many that they could not be tried
    assert not set(short.refits) & {8_000}  # too few steps are left there


def angles(observation):
    """Returns cosines, sines and speeds of Acrobot's two angles, each between -1/2 and 1/2."""
    return observation / np.array([2, 2, 2, 2, 8 * np.pi, 18 * np.pi])


@pytest.mark.filterwarnings("ignore:The codes are too fine")
def test_a_radius_under_which_most_pairs_are_tried_is_kept():
    """So is that of a code that was fitted by hand, whatever was tried."""
    assert not rc.explore(
        Drift(), 2.0, NUM_STEPS, model="from_scratch", states=rc.Net(rollout_steps=200)
    ).refits
    code = rc.Net(rollout_steps=300).fit(random_rollout(Ball(), 300, 0))
    assert not rc.explore(Ball(), 2.0, 1000, model="from_scratch", states=code).refits


@pytest.mark.filterwarnings("ignore:The codes are too")
@pytest.mark.parametrize("explorer", ["uniform_random", "feedback"])
def test_a_look_that_keeps_the_code_does_not_cut_the_block(explorer):
    """A block is planned with the states known when it began; there are more of them when the net is looked at."""
    code = rc.Net(rollout_steps=64)
    run = rc.explore(Drift(), 2.0, 700, model="learned", states=code, explorer=explorer)
    assert not run.refits
    assert run.tally.num_steps == 700


def test_observations_that_fill_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(refits, "MOST_KEPT", 1000)
    with pytest.raises(InvalidArgumentError, match="keep all observations in memory"):
        rc.explore(Drift(), 2.0, NUM_STEPS, model="from_scratch", states=learned())
