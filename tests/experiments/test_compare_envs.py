"""Explorers are compared in environments by what they find, resumably and in any process."""

from __future__ import annotations

import json
import math
import re

import gymnasium as gym
import numpy as np
import pytest

import rhocover as rc
from rhocover.environments.discoveries import Discoveries, RecordDiscoveries
from rhocover.environments.encoding import read_state_code
from rhocover.errors import InvalidArgumentError, MissingExtraError
from rhocover.experiments import Comparison, finished_runs
from rhocover.experiments.env_comparison import EnvComparison, FoundRow, range_of

SMALL = {"num_steps": 400, "seeds": 2}


class Corridor(gym.Env):
    """A point on a line from 0 to 20; it starts at 0.5 and moves by one to the left or the right."""

    observation_space = gym.spaces.Box(0, 20, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.5
        return np.array([self.x]), {}

    def step(self, action):
        self.x = min(max(self.x + 2 * int(action) - 1, 0.5), 19.5)
        return np.array([self.x]), 0.0, False, False, {}


def corridor() -> gym.Env:
    return gym.wrappers.TimeLimit(Corridor(), 200)


def half_cell(observation) -> int:
    return int(2 * observation[0])


def corridors(**arguments):
    given = {"states": rc.Bins(20), "held_out": rc.Bins(40), "workers": 1, **SMALL, **arguments}
    return rc.compare(corridor, **given)


def test_the_step_of_each_cell_is_the_one_at_which_it_was_first_seen():
    """By hand: right, right, left, right; the first two lead to new cells."""
    found = Discoveries(3, read_state_code(rc.Bins(40), Corridor.observation_space))
    found.set_states(read_state_code(rc.Bins(20), Corridor.observation_space))
    env = RecordDiscoveries(Corridor(), found)
    env.reset(seed=0)
    for action in (1, 1, 0, 1, 1, 1):
        env.step(action)
    assert found.codes.tolist() == [0, 1, 2] == found.cells.tolist()


def test_what_was_seen_before_a_code_is_fitted_counts_once_it_is():
    found = Discoveries(10, None)
    env = RecordDiscoveries(Corridor(), found)
    env.reset(seed=0)
    env.step(1)
    assert found.codes.size == 0
    found.set_states(read_state_code(rc.Bins(20), Corridor.observation_space))
    assert found.codes.tolist() == [0, 1]


def test_planning_over_codes_finds_a_corridor_sooner_than_chance():
    """A random walk needs 400 steps to the far end on average, a planner 19: with 2 seeds never reversed."""
    found = corridors()
    rows = {row.explorer: row for row in found.table()}
    assert rows["feedback"].codes.low == 20 == found.most("corridor", "codes")
    assert rows["feedback"].steps.high < rows["uniform_random"].steps.low
    assert rows["counts"].cells.low >= rows["uniform_random"].cells.low
    assert rows["feedback"].num_reached == 2


def test_never_is_infinite():
    found = corridors(num_steps=30, explorers=["feedback", "uniform_random"])
    row = found.table()[1]
    assert math.isinf(row.steps.mean)
    assert str(row).endswith("95% at step 30 at the earliest, by 1 of 2 seeds")
    assert row.summary()["steps"]["mean"] == "inf"


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([70, 80], "95% at step 75 (70 to 80)"),
        ([70, 70], "95% at step 70"),
        ([70, math.inf], "95% at step 70 at the earliest, by 1 of 2 seeds"),
        ([math.inf, math.inf], "95% never"),
    ],
)
def test_when_most_was_found_is_a_phrase(times, told):
    reached = int(np.isfinite(times).sum())
    row = FoundRow("lake", "counts", 2, range_of([3, 3]), None, range_of(times), reached)
    assert str(row) == f"lake counts: 3 codes, {told}"


def test_environments_with_a_table_are_compared_on_it_as_the_command_line_does(rhocover):
    given = {"num_steps": 60, "seeds": 2, "workers": 1}
    found = rc.compare("FrozenLake-v1", ["feedback", "uniform_random"], **given)
    assert isinstance(found, Comparison)
    line = "compare FrozenLake-v1 --explorer feedback --explorer uniform_random --steps 60 --seeds 2"
    rows = json.loads(rhocover(f"{line} --workers 1 --json").out)["rows"]
    assert rows == [row.summary() for row in found.table()]
    mixed = rc.compare({"river": "river_swim", "lake": gym.make("FrozenLake-v1")}, "feedback", **given)
    assert isinstance(mixed, Comparison)
    assert mixed.envs == ("river", "lake")


@pytest.mark.parametrize(
    "asked",
    [{"states": int}, {"held_out": int}, {"explorers": ["feedback", "counts"]}],
    ids=lambda asked: next(iter(asked)),
)
def test_what_is_found_is_compared_where_there_is_a_table_too_if_one_asks(asked):
    found = rc.compare(
        "FrozenLake-v1", **{"explorers": "feedback", "num_steps": 30, "seeds": 1, "workers": 1} | asked
    )
    assert isinstance(found, EnvComparison)


def test_explorers_without_a_model_are_compared_by_what_they_find_on_the_command_line_too(rhocover):
    result = rhocover("compare FrozenLake-v1 --explorer counts --steps 30 --seeds 1 --workers 1")
    assert result.code == 0
    assert "95 % at step" in result.out


def test_the_curve_ends_with_what_was_found():
    found = corridors(explorers="uniform_random")
    curve = found.curve("corridor", "uniform_random", "cells")
    ends = [steps.size for steps in found.found("corridor", "uniform_random", "cells")]
    assert curve.mean[-1] == np.mean(ends)
    assert (curve.low[-1], curve.high[-1]) == (min(ends), max(ends))
    assert (np.diff(curve.mean) >= 0).all()
    assert found.figure("corridor").axes


@pytest.mark.parametrize("explorer", ["feedback", "uniform_random", "counts"])
def test_the_same_seed_finds_the_same(explorer):
    first, second = (corridors(explorers=explorer, seeds=[7]) for _ in range(2))
    for kind in ("codes", "cells"):
        assert np.array_equal(*(run.found("corridor", explorer, kind)[0] for run in (first, second)))


def test_a_folder_is_continued_and_loaded(tmp_path):
    whole = corridors(explorers=["counts"], out=tmp_path / "a")
    done = []

    def stop(finished, total):
        done.append(finished)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corridors(explorers=["counts"], out=tmp_path / "b", report=stop)
    again = corridors(
        explorers=["counts"], out=tmp_path / "b", report=lambda finished, _: done.append(finished)
    )
    assert done == [1, 2]
    assert [row.summary() for row in again.table()] == [row.summary() for row in whole.table()]
    loaded = EnvComparison.load(tmp_path / "b")
    assert str(loaded) == str(again)
    loaded.save(tmp_path / "c.safetensors")
    assert str(EnvComparison.load(tmp_path / "c.safetensors")) == str(again)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"held_out": rc.Bins(10)}, "held_out"),
        ({"states": half_cell}, "states"),
        ({"num_steps": 200}, "num_steps"),
        ({"rho": 1.0}, "rho"),
    ],
)
def test_a_folder_with_another_question_is_refused(tmp_path, change, name):
    corridors(explorers=["uniform_random"], out=tmp_path)
    before = (tmp_path / finished_runs.FILE).read_bytes()
    with pytest.raises(InvalidArgumentError, match=name):
        corridors(explorers=["uniform_random"], out=tmp_path, **change)
    assert (tmp_path / finished_runs.FILE).read_bytes() == before


@pytest.mark.thorough
def test_two_processes_find_the_same_as_one():
    arguments = {"states": half_cell, "explorers": ["feedback", "counts"]}
    one, two = (corridors(workers=workers, **arguments) for workers in (1, 2))
    assert [row.summary() for row in one.table()] == [row.summary() for row in two.table()]


def test_environments_are_named_by_id_spec_and_function():
    given = {"id": "FrozenLake-v1", "spec": gym.make("FrozenLake-v1", is_slippery=False), "f": corridor}
    found = rc.compare(
        given, "uniform_random", num_steps=50, seeds=1, workers=1,
        states={"id": None, "spec": None, "f": rc.Bins(20)},
    )  # fmt: skip
    sources = found.question["sources"]
    assert all(kind in source for kind, source in zip(("id", "spec", "function"), sources, strict=True))
    assert json.loads(sources[1]["spec"])["kwargs"]["is_slippery"] is False
    assert sources[2]["function"].endswith("test_compare_envs:corridor")
    assert not found.has_cells
    assert found.table()[0].cells is None


def test_a_net_is_fitted_within_the_budget():
    found = corridors(states=rc.Net(rollout_steps=100), explorers=["feedback", "uniform_random"])
    assert max(steps.max() for x in found.explorers for steps in found.found("corridor", x, "cells")) <= 400
    assert found.table()[0].codes.low == 7  # leaders are 2.5 steps apart, so every third cell is one
    with pytest.raises(InvalidArgumentError, match="more than the 100 steps"):
        corridors(states=rc.Net(rollout_steps=100), num_steps=100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discount": 0.9}, "discount"),
        ({"model": "known"}, "must be learned"),
        ({"mu": np.ones((20, 2))}, "mu"),
        ({"rho": [1, 2]}, "one number"),
        ({"explorers": "ppo_rdn"}, "ppo_rnd"),
        ({"states": None}, "not finite"),
        ({"held_out": 3}, "held_out"),
        ({"states": {"other": None}}, "entry for each"),
        ({"num_steps": 0}, "num_steps"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(change, message):
    with pytest.raises(InvalidArgumentError, match=message):
        corridors(**change)


def test_an_environment_without_a_spec_is_refused_with_the_way_out():
    with pytest.raises(InvalidArgumentError, match="function that returns a new environment"):
        rc.compare(Corridor(), states=rc.Bins(20), **SMALL)
    with pytest.raises(InvalidArgumentError, match="cannot make it"):
        rc.compare("NoSuchThing-v7", **SMALL)


def test_a_function_without_a_name_stays_in_this_process(tmp_path):
    assert rc.compare({"c": lambda: corridor()}, "uniform_random", states=rc.Bins(20), num_steps=20, seeds=1)
    with pytest.raises(InvalidArgumentError, match="imported by its name"):
        rc.compare({"c": lambda: corridor()}, states=rc.Bins(20), out=tmp_path / "x", **SMALL)
    with pytest.raises(InvalidArgumentError, match="imported by its name"):
        corridors(states=lambda observation: int(observation[0]), workers=2)


def test_a_learner_without_its_extra_is_refused_before_anything_runs(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape("rhocover[sb3]")):
        corridors(explorers=["ppo_rnd"])


def test_codes_are_refused_for_models():
    with pytest.raises(InvalidArgumentError, match="is for environments"):
        rc.compare("river_swim", held_out=rc.Bins(3), seeds=1)
